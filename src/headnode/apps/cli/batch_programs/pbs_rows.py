"""Jobs in the words of PBS: their state, queue and id."""

from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords

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


def id_of(row: BatchRow, server: str) -> str:
    """Return the id of a job, an element or a whole array: ``12.head``, ``12[3].head``, ``12[].head``."""
    number = "" if row.number is None else str(row.number)
    return f"{row.id}[{number}].{server}" if row.job["array"] else f"{row.id}.{server}"


def refuse_form(args: ProgramWords, *known: str) -> None:
    """Refuse a form of output, ``-F``, that is not written here.

    Raises:  ProgramRefusal.
    """
    form = args.text("F")
    if form not in (None, *known):
        raise ProgramRefusal(f"-F {form} is not supported here; write -F json", status=2, prefix="")
