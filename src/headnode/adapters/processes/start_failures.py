"""Why a program cannot be started: a sentence with what to do, and whose fault it is.

Standard library only: this is loaded by the shepherd factory."""

from headnode.adapters.processes.limits import SHORT, nothing_is_left, own_limit_is_reached
from headnode.adapters.processes.missing_program import reason
from headnode.core.model import faults


class CannotStart(Exception):
    """Why a program cannot be started: a sentence with what to do, and the trouble in a word of `faults`."""

    def __init__(self, why: str, trouble: str = faults.COMMAND) -> None:
        super().__init__(why)
        self.trouble = trouble


def cannot(why: str, trouble: str, error: OSError) -> CannotStart:
    """Return why something of the job cannot be used; where nothing else can be had either, that is why."""
    if error.errno in SHORT and nothing_is_left():
        return shortage(error)
    return CannotStart(why, trouble)


def shortage(error: OSError) -> CannotStart:
    if own_limit_is_reached():
        return CannotStart(
            f"no process can be started: {reason(error)}; the job or its user has reached a limit on this "
            "node: let it start fewer processes, or raise the limit",
            faults.PROCESS_LIMIT,
        )
    return CannotStart(
        f"this node cannot start processes: {reason(error)}; see what uses its processes, files and memory",
        faults.SHORTAGE,
    )


def cannot_transfer(error: OSError) -> CannotStart:
    """Return why no process can transfer files here: its user can run no Python, or something is short."""
    if isinstance(error, (FileNotFoundError, PermissionError)):
        return CannotStart(
            f"no file can be transferred on this node: the user of the job cannot run Headnode's Python: "
            f"{reason(error)}; make it readable and executable for all",
            faults.LAUNCHER,
        )
    return shortage(error)
