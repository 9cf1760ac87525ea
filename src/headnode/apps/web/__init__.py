"""The gateway: the REST API and the console, in a process beside the head."""
