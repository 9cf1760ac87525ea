"""Which head a command is meant for: the state directory it lives in, or a login to another machine.

Source:  CCS and HPC Pack commands, ``/scheduler`` and ``CCP_SCHEDULER``; XDG Base Directory Specification.
"""
# ruff: noqa: PTH100, PTH110, PTH111, PTH117, PTH118 (pathlib costs 6 ms of every command)

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from headnode.apps.client.logins import Login

    Head: TypeAlias = "str | Login | NodeDoor"
    """Where a head is: its state directory on this machine, or what we are known by on another."""

SYSTEM_STATE = "/var/lib/headnode"
SOCKET_NAME = "head.sock"


SYSTEM_AGENT = "/var/lib/headnode-agent"
AGENT_SOCKET = "run/hn.sock"


class NodeDoor:
    """The agent of this machine, which is a node of the head's cluster, and the task that we belong to.

    `task` is job.task.instance.attempt; empty outside of tasks.  `address` is what people call the head.
    """

    __slots__ = ("address", "socket", "task")

    def __init__(self, socket: str, task: str, address: str) -> None:
        self.socket, self.task, self.address = socket, task, address


def own_agent_directory(environ: "Mapping[str, str]", uid: int) -> str:
    """Return where an agent started by this user keeps its things when nobody says otherwise."""
    return SYSTEM_AGENT if uid == 0 else os.path.join(user_state_home(environ), "headnode-agent")


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


def login_file(environ: "Mapping[str, str]") -> str:
    """Return where the logins of this user are kept."""
    home = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(home):  # the specification says: a relative one is to be ignored
        home = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "headnode", "logins.json")


def head_to_ask(
    environ: "Mapping[str, str]", uid: int, *, state: str | None = None, scheduler: str | None = None
) -> "Head":
    """Return the head to talk to.

    The first of these that is given counts: `state`, `scheduler`, ``HEADNODE_STATE``, ``HEADNODE_AGENT`` (in
    tasks on joined nodes), ``CCP_SCHEDULER``.
    Else it is the user's own head, or the one of the whole machine when only that one lives; when neither
    does, the one he has logged in to last; else the one of which this machine is a node.
    Raises:  NotFound ``not-logged-in`` when a head of another machine is named; what `logins` raises.
    """
    if state is not None:
        return os.path.abspath(state)
    if scheduler is not None:
        return _of_scheduler(scheduler, environ, uid)
    if environ.get("HEADNODE_STATE"):
        return os.path.abspath(environ["HEADNODE_STATE"])
    if door := _of_task(environ):
        return door
    if environ.get("CCP_SCHEDULER"):
        return _of_scheduler(environ["CCP_SCHEDULER"], environ, uid)
    return (
        _of_this_machine(environ, uid)
        or _logged_in(environ)
        or _of_this_node(environ, uid)
        or own_state_directory(environ, uid)
    )


def _of_task(environ: "Mapping[str, str]") -> NodeDoor | None:
    """Return the way to the head of the task that this process belongs to; None when none is needed."""
    socket = environ.get("HEADNODE_AGENT")
    if not socket:
        return None
    return NodeDoor(
        socket, environ.get("HEADNODE_TASK", ""), environ.get("CCP_SCHEDULER") or "this node's cluster"
    )


def _of_this_node(environ: "Mapping[str, str]", uid: int) -> NodeDoor | None:
    """Return the way to the head of which this machine is a node; None when it is none."""
    for directory in (own_agent_directory(environ, uid), SYSTEM_AGENT):
        socket = os.path.join(directory, AGENT_SOCKET)
        if os.path.exists(socket):
            return NodeDoor(socket, "", "this node's cluster")
    return None


def _of_scheduler(name: str, environ: "Mapping[str, str]", uid: int) -> "Head":
    if "/" in name:
        return os.path.abspath(name)
    of_task = (environ.get("CCP_SCHEDULER", "").lower(), environ.get("CCP_CLUSTER_NAME", "").lower())
    if name and name.lower() in of_task and (door := _of_task(environ)):
        return door
    if name.lower() in ("localhost", "", ".", os.uname().nodename.lower()):
        return _of_this_machine(environ, uid) or _running(environ, "") or own_state_directory(environ, uid)
    if found := _running(environ, name):
        return found
    from headnode.apps.client.logins import login_named

    return login_named(environ, name)


def _running(environ: "Mapping[str, str]", cluster: str) -> str:
    """Return the state directory of a head of this machine; "" if none runs, or none of this cluster.

    `cluster` "" means the only one.
    Raises:  BadRequest ``several-heads`` when several heads are meant.
    """
    from headnode.adapters.files.local_heads import local_heads

    heads = [head for head in local_heads(environ) if not cluster or head.cluster.lower() == cluster.lower()]
    if len(heads) > 1:
        from headnode.core.model.errors import BadRequest

        named = ", ".join(f"{head.cluster} in {head.state}" for head in heads)
        raise BadRequest(
            code="several-heads",
            what=f"several heads run on this machine: {named}",
            fix="name one by its state directory: /scheduler:DIRECTORY",
        )
    return heads[0].state if heads else ""


def _of_this_machine(environ: "Mapping[str, str]", uid: int) -> str:
    """Return the state directory of a head that lives here; empty: none does."""
    for directory in (own_state_directory(environ, uid), SYSTEM_STATE):
        if os.path.exists(os.path.join(directory, SOCKET_NAME)):
            return directory
    return ""


def _logged_in(environ: "Mapping[str, str]") -> "Login | None":
    """Return the newest login; looks for the file before it imports what reads it."""
    if not os.path.exists(login_file(environ)):
        return None
    from headnode.apps.client.logins import logins

    return next(iter(logins(environ)), None)
