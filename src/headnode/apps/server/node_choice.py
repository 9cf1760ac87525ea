"""Which nodes somebody means: by name, group, state, or as those of a job or task.

Source:  HPC Pack, clusrun; ClusterShell for sets of names: ``node[1-8/2]``, ``@group``, ``,`` and ``!&^``.
"""

import re
from collections.abc import Iterable, Mapping

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.NodeUtils import GroupResolver, GroupSource

from headnode.apps.server import answers_nodes as show
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import NodeRecord
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId

MOST_NODES = 100_000
_RANGES = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def chosen_nodes(desk: Desk, wish: w.RunEverywhereWish) -> list[str]:
    """Return the names of the approved nodes that all parts of the wish mean, in the order of node sets.

    Raises:  BadRequest ``nodes`` or ``node-state``; NotFound ``no-such-node``, ``no-such-job``; WrongState
             ``no-nodes`` when none is left.
    """
    cluster = desk.cluster
    approved = {name: node for name, node in cluster.nodes.items() if _is_in(node)}
    meant = set(approved)
    if wish.nodes:
        meant &= _named(wish.nodes, approved, known=cluster.nodes)
    if wish.groups:
        meant &= {name for name in approved if set(wish.groups) & groups_of(approved[name])}
    if wish.states:
        meant &= _in_states(wish.states, desk, approved)
    if wish.job is not None:
        meant &= _of_job(cluster, wish.job, wish.task)
    if wish.exclude:
        meant -= _named(wish.exclude, approved)
    if not meant:
        raise WrongState(
            code="no-nodes",
            what="no node is meant by what was asked",
            fix="see hn node list for names, groups and states",
        )
    return [str(name) for name in NodeSet.fromlist(map(_escaped, meant), resolver=RESOLVER_NOGROUP)]


def groups_of(node: NodeRecord) -> set[str]:
    """Return the groups that a node is in."""
    return set(node.facts.groups)


def _is_in(node: NodeRecord) -> bool:
    return node.state not in (NodeState.PENDING, NodeState.REMOVED)


def _named(
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
        if any(int(last) - int(first) > MOST_NODES for first, last in _RANGES.findall(text)):
            raise NodeSetException(f"a range of it has more than {MOST_NODES} numbers")
        found = NodeSet(text, resolver=resolver)
        if len(found) > MOST_NODES:
            raise NodeSetException(f"it names more than {MOST_NODES} nodes")
        names = {str(name) for name in found}
    except NodeSetException as error:
        raise BadRequest(
            code="nodes",
            what=f"{text!r} is no set of nodes: {error}",
            fix="write names as in node[1-8,12],@gpu",
        ) from None
    strangers = sorted(names - known.keys()) if known is not None else []
    if strangers:
        raise NotFound(code="no-such-node", what=f"there is no node {strangers[0]!r}", fix="see hn node list")
    return names


def _in_states(states: Iterable[str], desk: Desk, nodes: Mapping[str, NodeRecord]) -> set[str]:
    wanted = {state.strip().lower() for state in states}
    words = {name: show.node_state(desk.cluster, node, desk.now()).lower() for name, node in nodes.items()}
    possible = {"ready", "paused", "draining", "drained", "unreachable", "pending", "*", "all"}
    if strange := sorted(wanted - possible):
        raise BadRequest(
            code="node-state",
            what=f"{strange[0]!r} is not a state of a node",
            fix="use Ready, Paused, Draining, Drained or Unreachable",
        )
    return {name for name, word in words.items() if word in wanted or wanted & {"*", "all"}}


def _of_job(cluster: Cluster, job: int, task: int | None) -> set[str]:
    """Return the nodes that a running job holds, or that one of its tasks runs on."""
    record = cluster.jobs.get(JobId(job))
    run = record.run if record is not None else None
    if run is None or (task is not None and not 0 < task <= len(run.tasks)):
        what = f"job {job}" if task is None else f"task {job}.{task}"
        raise NotFound(code="no-such-job", what=f"{what} does not run", fix="see hn job list")
    if task is None:
        return set(run.places)
    return {node for live in run.tasks[task - 1].live.values() for node, _ in live.place}


def _escaped(name: str) -> str:
    return name.replace("%", "%%")
