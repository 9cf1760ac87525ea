"""Why a job waits, and what would have to be different for it to start."""
