"""Commands on many nodes at once, outside the queue, and which nodes are meant.

One connection holds the run: when it ends, so does all that the run has started.  The part on each node has a
connection of its own, so the client decides how many run at once, and a slow reader delays no other node.
Source:  HPC Pack, clusrun; ClusterShell for sets of names: ``node[1-8/2]``, ``@group``, ``,`` and ``!&^``.
"""

import asyncio
import contextlib
import pwd
import re
from collections.abc import AsyncIterator, Iterable, Mapping

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.NodeUtils import GroupResolver, GroupSource

from headnode.adapters.nodes.streams import BESIDE, LaunchStream
from headnode.adapters.wire import messages as m
from headnode.apps.server.api import nodes as show
from headnode.apps.server.api.streams import (
    NOT_RUN,
    ClientStream,
    CommandEnd,
    RunOnNodes,
    StreamHandler,
    relay_stream,
)
from headnode.apps.server.api.verbs import ADMINISTERS, VerbAccess, VerbUsers, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.node_record import NodeRecord
from headnode.core.state.permissions import must_administer
from headnode.protocol import stream_frames as f
from headnode.protocol.stream_frames import CommandExit, RunStarted

MAX_NODES = 100_000
_RANGES = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def chosen_nodes(context: ServerContext, request: f.RunOnNodesRequest) -> list[str]:
    """Return the names of the approved nodes that all parts of the request mean, in the order of node sets.

    Raises:  BadRequest ``nodes`` or ``node-state``; NotFound ``no-such-node``, ``no-such-job``; WrongState
             ``no-nodes`` when none is left.
    """
    cluster = context.cluster
    approved = {name: node for name, node in cluster.nodes.items() if _is_approved(node)}
    meant = set(approved)
    if request.nodes:
        meant &= _nodes_named(request.nodes, approved, known=cluster.nodes)
    if request.groups:
        meant &= {name for name in approved if set(request.groups) & groups_of(approved[name])}
    if request.states:
        meant &= _in_states(request.states, context, approved)
    if request.job is not None:
        meant &= _of_job(cluster, request.job, request.task)
    if request.exclude:
        meant -= _nodes_named(request.exclude, approved)
    if not meant:
        raise WrongState(
            code="no-nodes",
            what="these options together select no node",
            fix="leave out one of them; hn node list shows names, groups and states",
        )
    return [str(name) for name in NodeSet.fromlist(map(_escaped, meant), resolver=RESOLVER_NOGROUP)]


def groups_of(node: NodeRecord) -> set[str]:
    """Return the groups that a node is in."""
    return set(node.facts.groups)


def _is_approved(node: NodeRecord) -> bool:
    return node.state not in (NodeState.PENDING, NodeState.REMOVED)


def _nodes_named(
    text: str, nodes: Mapping[str, NodeRecord], known: Mapping[str, NodeRecord] | None = None
) -> set[str]:
    """Return the names of a set; with `known` each must be one of these, and be approved.

    Raises:  BadRequest ``nodes``, NotFound ``no-such-node``.
    """
    groups: dict[str, str] = {}
    for name, node in nodes.items():
        for group in groups_of(node):
            groups[group] = f"{groups[group]},{name}" if group in groups else name
    resolver = GroupResolver(GroupSource("groups", groups, ",".join(nodes)))
    try:
        if any(int(last) - int(first) > MAX_NODES for first, last in _RANGES.findall(text)):
            raise NodeSetException(f"a range of it has more than {MAX_NODES} numbers")
        found = NodeSet(text, resolver=resolver)
        if len(found) > MAX_NODES:
            raise NodeSetException(f"it names more than {MAX_NODES} nodes")
        names = {str(name) for name in found}
    except NodeSetException as error:
        raise BadRequest(
            code="nodes",
            what=f"{text!r} is not a set of nodes: {error}",
            fix="write names as in node[1-8,12],@gpu",
        ) from None
    strangers = sorted(names - known.keys()) if known is not None else []
    if strangers:
        raise NotFound(code="no-such-node", what=f"there is no node {strangers[0]!r}", fix="see hn node list")
    return names


def _in_states(states: Iterable[str], context: ServerContext, nodes: Mapping[str, NodeRecord]) -> set[str]:
    wanted = {state.strip().lower() for state in states}
    by_name = {
        name: show.node_state(context.cluster, node, context.now()).lower() for name, node in nodes.items()
    }
    possible = {"ready", "paused", "draining", "drained", "unreachable", "pending", "*", "all"}
    if strange := sorted(wanted - possible):
        raise BadRequest(
            code="node-state",
            what=f"{strange[0]!r} is not a state of a node",
            fix="use Ready, Paused, Draining, Drained or Unreachable",
        )
    return {name for name, word in by_name.items() if word in wanted or wanted & {"*", "all"}}


def _of_job(cluster: ClusterState, job: int, task: int | None) -> set[str]:
    """Return the nodes that a running job holds, or that one of its tasks runs on."""
    record = cluster.jobs.get(JobId(job))
    run = record.run if record is not None else None
    if run is None or (task is not None and not 0 < task <= len(run.tasks)):
        what = f"job {job}" if task is None else f"task {job}.{task}"
        raise NotFound(code="no-such-job", what=f"{what} does not run", fix="see hn job list")
    if task is None:
        return set(run.places)
    return {node for live in run.tasks[task - 1].live.values() for node, _ in live.placement}


def _escaped(name: str) -> str:
    return name.replace("%", "%%")


_GRACE = 1.5  # seconds that commands have to end when they are told to, before all that is left is killed
_MAX_TIMEOUT = 10 * 365 * 86400.0  # seconds


@verb(ADMINISTERS)
async def run_on_nodes(context: ServerContext, by: User, request: f.RunOnNodesRequest) -> StreamHandler:
    """Run a command on many nodes. The run lasts until the client closes the connection."""
    must_administer(by, "run commands on nodes")
    if not request.command.strip():
        raise BadRequest(
            code="command", what="there is no command to run", fix="give a command and its arguments"
        )
    if request.timeout is not None and not 0 < request.timeout <= _MAX_TIMEOUT:
        raise BadRequest(
            code="timeout",
            what=f"a time limit of {request.timeout:g} s is not possible",
            fix="give seconds above 0",
        )
    same_numbers = context.engine.settings.text("UserMapping") == "name-and-number"
    run = RunOnNodes(
        by, _user_named(request.user, by), chosen_nodes(context, request), request, same_numbers=same_numbers
    )

    async def hold(client: ClientStream) -> None:
        context.runs[run.number] = run
        try:
            await client.send(RunStarted(run.number, run.nodes))
            while await client.receive() is not None:
                pass
        finally:
            run.over.set()
            del context.runs[run.number]

    return hold


def _user_named(name: str | None, by: User) -> User:
    if name is None or name == by.name:
        return by
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise NotFound(
            code="no-such-user",
            what=f"the head knows no user {name!r}",
            fix="name a user that `id NAME` knows on the head's machine",
        ) from None
    return User(name=account.pw_name, uid=account.pw_uid, gid=account.pw_gid)


@verb(VerbAccess(VerbUsers.ADMINISTRATOR))
async def run_on_node(context: ServerContext, by: User, request: f.RunOnNodeRequest) -> StreamHandler:
    """Run the part of a run on one of its nodes."""
    run = context.runs.get(JobId(request.run))
    if run is None or run.asker.uid != by.uid:
        raise NotFound(
            code="no-such-run", what=f"there is no run {request.run} of yours", fix="begin one first"
        )
    if request.node not in run.nodes:
        raise NotFound(
            code="no-such-node",
            what=f"node {request.node!r} is none of the run",
            fix="ask for one of its nodes",
        )

    async def talk(client: ClientStream) -> None:
        ended = await _on_node(context, run, request.node, client)
        if ended is not None:
            await client.send(CommandExit(ended.code, ended.problem))

    return talk


async def _on_node(
    context: ServerContext, run: RunOnNodes, node: str, client: ClientStream
) -> CommandEnd | None:
    """Run the command on a node; return how it ended, or None if the client has gone."""
    if node not in context.links:
        return CommandEnd(NOT_RUN, f"node {node} is unreachable")
    async with _open_on_node(context, run, node) as stream:
        passing = asyncio.ensure_future(relay_stream(stream, client, run.request.timeout))
        ending = asyncio.ensure_future(run.over.wait())
        try:
            await asyncio.wait((passing, ending), return_when=asyncio.FIRST_COMPLETED)
            return passing.result() if passing.done() else None
        finally:
            passing.cancel()
            ending.cancel()
            await asyncio.gather(passing, ending, return_exceptions=True)


@contextlib.asynccontextmanager
async def _open_on_node(context: ServerContext, run: RunOnNodes, node: str) -> AsyncIterator[LaunchStream]:
    """Let a node be ready for the run as long as its part there lasts."""
    part = (node, run.number)
    context.links[node].send(run.open_on(node))
    context.open_on_nodes.add(part)
    stream = context.sessions.begin(node, run.number, BESIDE, run.launch)
    try:
        yield stream
    finally:
        left_early = not stream.over
        await context.sessions.end(stream)
        if left_early:
            asyncio.get_running_loop().call_later(_GRACE, _close, context, part)
        else:
            _close(context, part)


def _close(context: ServerContext, part: tuple[str, JobId]) -> None:
    """Let a node keep nothing of a run any more."""
    node, number = part
    context.open_on_nodes.discard(part)
    if node in context.links:
        context.links[node].send(m.CloseJob(job=number))


def close_all(context: ServerContext) -> None:
    """End all commands on nodes: they belong to connections, which end with the head."""
    for part in list(context.open_on_nodes):
        _close(context, part)
