"""Jobs in the words of PBS: their state and queue."""

from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.cli.batch_programs.values import FIELDS

VERSION = "22.05.11"  # of the PBS whose forms these are
_STATES = {"PENDING": "Q", "RUNNING": "R", "SUSPENDED": "S"}


def state_of(row: BatchRow) -> str:
    """Return the state in the letter of PBS."""
    state = row.state
    if state == "PENDING" and row.reason in ("JobHeldUser", "Dependency"):
        return "H"
    if state == "PENDING" and row.reason == "BeginTime":
        return "W"
    if row.job["array"] and row.number is None and state == "RUNNING":
        return "B"
    return _STATES.get(state, "X" if row.number is not None else "F")


def queue_of(row: BatchRow) -> str:
    """Return the queue of a job: its template."""
    return FIELDS["qos"](row) or "Default"
