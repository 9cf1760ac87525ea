"""Which head a command is meant for: the state directory it lives in.

Source:  CCS and HPC Pack commands, ``/scheduler`` and ``CCP_SCHEDULER``; XDG Base Directory Specification.
"""
# ruff: noqa: PTH100, PTH110, PTH111, PTH117, PTH118 (pathlib costs 6 ms of every command)

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM_STATE = "/var/lib/headnode"
SOCKET_NAME = "head.sock"


def own_state_directory(environ: "Mapping[str, str]", uid: int) -> str:
    """Return where a head started by this user keeps its state."""
    if uid == 0:
        return SYSTEM_STATE
    return os.path.join(user_state_home(environ), "headnode")


def user_state_home(environ: "Mapping[str, str]") -> str:
    """Return the user's own directory for state, which may not exist yet."""
    home = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(home):  # the specification says: a relative one is to be ignored
        return home
    return os.path.join(os.path.expanduser("~"), ".local", "state")


def state_directory(
    environ: "Mapping[str, str]", uid: int, *, state: str | None = None, scheduler: str | None = None
) -> str:
    """Return the state directory of the head to talk to.

    The first of these that is given counts: `state`, `scheduler`, ``HEADNODE_STATE``, ``CCP_SCHEDULER``.
    Else it is the user's own head, or the one of the whole machine when only that one lives.
    Raises:  Unavailable ``not-reachable`` when a head node on another machine is named.
    """
    if state is not None:
        return os.path.abspath(state)
    if scheduler is not None:
        return _of_scheduler(scheduler, environ, uid)
    if environ.get("HEADNODE_STATE"):
        return os.path.abspath(environ["HEADNODE_STATE"])
    if environ.get("CCP_SCHEDULER"):
        return _of_scheduler(environ["CCP_SCHEDULER"], environ, uid)
    return _of_this_machine(environ, uid)


def _of_scheduler(name: str, environ: "Mapping[str, str]", uid: int) -> str:
    if "/" in name:
        return os.path.abspath(name)
    if name.lower() in ("localhost", "", ".", os.uname().nodename.lower()):
        return _of_this_machine(environ, uid)
    from headnode.core.model.errors import Unavailable

    raise Unavailable(
        code="not-reachable",
        what=f"head node {name!r} is not reachable from here",
        fix="name the state directory of a head of this machine, or localhost",
    )


def _of_this_machine(environ: "Mapping[str, str]", uid: int) -> str:
    own = own_state_directory(environ, uid)
    lives = os.path.exists(os.path.join(own, SOCKET_NAME))
    if not lives and os.path.exists(os.path.join(SYSTEM_STATE, SOCKET_NAME)):
        return SYSTEM_STATE
    return own
