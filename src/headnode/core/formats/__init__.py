"""Other people's words for a job, one folder or file each."""
