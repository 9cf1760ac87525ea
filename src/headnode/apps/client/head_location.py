"""Which head a command is meant for: a state directory of this machine, or a login to another.

Source:  CCS and HPC Pack commands, ``/scheduler`` and ``CCP_SCHEDULER``."""

# ruff: noqa: PTH100, PTH110, PTH118 (pathlib costs 6 ms of every command)

import os

from headnode.apps.client.local_addresses import (
    AGENT_SOCKET,
    SYSTEM_AGENT,
    AgentRoute,
    local_head_directory,
    login_file,
    own_agent_directory,
    own_state_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from headnode.apps.client.local_addresses import WebRoute
    from headnode.apps.client.logins import HeadLogin

    Head: TypeAlias = "str | HeadLogin | AgentRoute | WebRoute"
    """Where a head is: its state directory on this machine, or what we are known by on another."""


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
        return _head_of_scheduler(scheduler, environ, uid)
    if environ.get("HEADNODE_STATE"):
        return os.path.abspath(environ["HEADNODE_STATE"])
    if door := _agent_of_task(environ):
        return door
    if environ.get("CCP_SCHEDULER"):
        return _head_of_scheduler(environ["CCP_SCHEDULER"], environ, uid)
    return (
        local_head_directory(environ, uid)
        or _logged_in(environ)
        or _agent_of_this_node(environ, uid)
        or own_state_directory(environ, uid)
    )


_WEB = ("https://", "http://")


def head_for_program(
    state: str | None,
    scheduler: str | None,
    url: str | None,
    token: str | None,
    ca_file: "str | os.PathLike[str] | None",
) -> "Head":
    """Return the head that a program names; `url` is that of a gateway, which `state` may be as well.

    What is not given comes from ``HEADNODE_URL`` (if nothing else is named), ``HEADNODE_TOKEN`` and
    ``HEADNODE_CA_FILE``.
    Raises:  as `head_to_ask` and `web_route`; BadRequest ``several-heads`` when several are named.
    """
    if state is not None and state.startswith(_WEB):
        state, url = None, url or state
    if [state, scheduler, url].count(None) < 2:
        from headnode.core.model.errors import BadRequest

        what, fix = "several heads are named", "give one of state, scheduler and url"
        raise BadRequest(code="several-heads", what=what, fix=fix)
    if state is None and scheduler is None:
        url = url or os.environ.get("HEADNODE_URL")
    if not url:
        return head_to_ask(os.environ, os.getuid(), state=state, scheduler=scheduler)
    from headnode.apps.client.web_connection import web_route

    file = os.environ.get("HEADNODE_CA_FILE", "") if ca_file is None else os.fspath(ca_file)
    return web_route(url, os.environ.get("HEADNODE_TOKEN", "") if token is None else token, file)


def _agent_of_task(environ: "Mapping[str, str]") -> AgentRoute | None:
    """Return the way to the head of the task that this process belongs to; None when none is needed."""
    socket = environ.get("HEADNODE_AGENT")
    if not socket:
        return None
    return AgentRoute(
        socket, environ.get("HEADNODE_TASK", ""), environ.get("CCP_SCHEDULER") or "this node's cluster"
    )


def _agent_of_this_node(environ: "Mapping[str, str]", uid: int) -> AgentRoute | None:
    """Return the way to the head of which this machine is a node; None when it is none."""
    for directory in (own_agent_directory(environ, uid), SYSTEM_AGENT):
        socket = os.path.join(directory, AGENT_SOCKET)
        if os.path.exists(socket):
            return AgentRoute(socket, "", "this node's cluster")
    return None


def _head_of_scheduler(name: str, environ: "Mapping[str, str]", uid: int) -> "Head":
    if "/" in name:
        return os.path.abspath(name)
    of_task = (environ.get("CCP_SCHEDULER", "").lower(), environ.get("CCP_CLUSTER_NAME", "").lower())
    if name and name.lower() in of_task and (door := _agent_of_task(environ)):
        return door
    if name.lower() in ("localhost", "", ".", os.uname().nodename.lower()):
        return (
            local_head_directory(environ, uid)
            or _running_head(environ, "")
            or own_state_directory(environ, uid)
        )
    if location := _running_head(environ, name):
        return location
    from headnode.apps.client.logins import login_named

    return login_named(environ, name)


def _running_head(environ: "Mapping[str, str]", cluster: str) -> str:
    """Return the state directory of a head of this machine; "" if none runs, or none of this cluster.

    `cluster` "" means the only one.
    Raises:  BadRequest ``several-heads`` when several heads are meant.
    """
    from headnode.adapters.files.local_daemons import local_heads

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


def _logged_in(environ: "Mapping[str, str]") -> "HeadLogin | None":
    """Return the newest login; looks for the file before it imports what reads it."""
    if not os.path.exists(login_file(environ)):
        return None
    from headnode.apps.client.logins import logins

    return next(iter(logins(environ)), None)
