"""Jobs of PSI/J on a Headnode cluster: `psij.JobExecutor.get_instance("headnode")`."""
