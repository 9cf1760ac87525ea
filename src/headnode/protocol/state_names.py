"""The states of jobs and tasks by the names that requests and answers have.  Imports nothing."""

ENDED_STATES = ("Finished", "Failed", "Canceled")
OPEN_STATES = ("Configuring", "Queued", "Running", "Suspended")
"""Those of jobs that have not ended."""
JOB_STATES = (*OPEN_STATES, *ENDED_STATES)
