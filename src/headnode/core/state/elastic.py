"""Elastic pools: allocations are made, become nodes, and are given back.

An allocation is a job of ours that is handed over to the resource of its pool and runs an agent there.  So
it is made once, found again after every crash, and canceled, as every job that is handed over.
"""

import shlex

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import HeldAmounts, JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.resource import ElasticPool, check_elastic_pool
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state import elastic_events as ep
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode, drain
from headnode.core.state.elastic_record import ElasticAllocation, ElasticRecord, obstacle
from headnode.core.state.events import Event
from headnode.core.state.join import MAX_INVITATION
from headnode.core.state.node_record import MAX_REASON
from headnode.core.state.nodes import ChangeNode, change_node
from headnode.core.state.permissions import must_administer
from headnode.core.state.resources import resource_named
from headnode.core.state.stop import StopJob, stop_job
from headnode.core.state.submit import CreateJob, create

MAX_POOLS = 20
ELASTIC = User(name="headnode", uid=0, gid=0, administrator=True)
"""Who gives allocations back: the head itself."""


class SetElasticPool(Command, frozen=True):
    """Add an elastic pool, or change the one of this name."""

    by: User
    pool: ElasticPool


class PauseElasticPool(Command, frozen=True):
    """Let a pool make no more allocations; those that there are stay."""

    by: User
    name: str
    reason: str = ""


class ResumeElasticPool(Command, frozen=True):
    """Let a paused pool make allocations again, without waiting for anything."""

    by: User
    name: str


class RemoveElasticPool(Command, frozen=True):
    """Cancel all allocations of a pool; it is removed when they are over."""

    by: User
    name: str


class MakeElasticNode(Command, frozen=True):
    """Head: make an allocation, of which the agent joins with the secret of this digest.

    `agent` are the words that run an agent at the resource; `job` is the number that its job must get,
    because the secret depends on it.
    """

    name: str
    agent: tuple[str, ...]
    job: JobId
    digest: str


class GiveBackNode(Command, frozen=True):
    """Head: cancel an allocation, unless jobs are on its node."""

    name: str
    job: JobId
    reason: str


class SettleElasticNode(Command, frozen=True):
    """Head: forget an allocation of which the job is over, and its node as soon as nothing is there."""

    name: str
    job: JobId


def pool_named(cluster: ClusterState, name: str) -> ElasticRecord:
    """Return an elastic pool.

    Raises:  NotFound ``no-such-elastic``.
    """
    found = cluster.elastic.named.get(name.lower())
    if found is None:
        raise NotFound(
            code="no-such-elastic", what=f"there is no elastic pool {name!r}", fix="see `hn elastic list`"
        )
    return found


def set_pool(cluster: ClusterState, command: SetElasticPool, now: Instant) -> list[Event]:
    """An administrator adds a pool, or changes it.

    Raises:  NotAllowed; BadRequest as `check_elastic_pool`; NotFound ``no-such-resource``; WrongState.
    """
    must_administer(command.by, "change elastic pools")
    pool = command.pool
    check_elastic_pool(pool)
    pool = replace(pool, resource=resource_named(cluster.resource_index.named, pool.resource).key)
    known = cluster.elastic.named.get(pool.key)
    if known is None and len(cluster.elastic.named) >= MAX_POOLS:
        raise WrongState(
            code="elastic", what=f"there are {MAX_POOLS} elastic pools, the maximum", fix="remove one first"
        )
    if known is not None and known.removing:
        raise WrongState(
            code="elastic-removing",
            what=f"the elastic pool {pool.name!r} is being removed",
            fix="add it again when it is gone: hn elastic list",
        )
    if known is not None and known.allocations and known.pool.resource != pool.resource:
        raise WrongState(
            code="elastic-in-use",
            what=f"the elastic pool {pool.name!r} has allocations at {known.pool.resource!r}",
            fix="remove the pool, or add another",
        )
    return (
        []
        if known is not None and known.pool == pool
        else [ep.ElasticPoolSet(at=now, pool=pool, by=command.by.name)]
    )


def pause_pool(cluster: ClusterState, command: PauseElasticPool, now: Instant) -> list[Event]:
    """An administrator pauses a pool."""
    must_administer(command.by, "pause elastic pools")
    record = pool_named(cluster, command.name)
    if len(command.reason) > MAX_REASON:
        raise BadRequest(
            code="elastic-reason",
            what=f"the reason has {len(command.reason)} characters",
            fix=f"use up to {MAX_REASON}",
        )
    reason = command.reason or f"by {command.by.name}"
    if record.paused == reason or record.removing:
        return []
    return [ep.ElasticPoolPaused(at=now, name=record.pool.name, reason=reason, by=command.by.name)]


def resume_pool(cluster: ClusterState, command: ResumeElasticPool, now: Instant) -> list[Event]:
    """An administrator resumes a pool that is paused, or that waits after failures.

    Raises:  WrongState ``elastic-removing``.
    """
    must_administer(command.by, "resume elastic pools")
    record = pool_named(cluster, command.name)
    if record.removing:
        raise WrongState(
            code="elastic-removing",
            what=f"the elastic pool {record.pool.name!r} is being removed",
            fix="add it again when it is gone: hn elastic list",
        )
    if not record.paused and not record.failures:
        return []
    return [ep.ElasticPoolResumed(at=now, name=record.pool.name, by=command.by.name)]


def remove_pool(cluster: ClusterState, command: RemoveElasticPool, now: Instant) -> list[Event]:
    """An administrator removes a pool: its nodes are taken offline by force, and its allocations canceled."""
    must_administer(command.by, "remove elastic pools")
    record = pool_named(cluster, command.name)
    name, why = record.pool.name, f"elastic pool {record.pool.name} is removed by {command.by.name}"
    if not record.allocations:
        return [ep.ElasticPoolRemoved(at=now, name=name, by=command.by.name)]
    if record.removing:
        return []
    events: list[Event] = [
        ep.ElasticPoolPaused(at=now, name=name, reason=why, by=command.by.name, removing=True)
    ]
    for each in record.allocations:
        events += _given_back(cluster, name, each, why, now, force=True)
    return events


def make_node(cluster: ClusterState, command: MakeElasticNode, now: Instant) -> list[Event]:
    """Make an allocation: its job, the invitation of its agent, and what is remembered, or nothing of it.

    Raises:  WrongState ``elastic-limit`` for one allocation more than may be; ``elastic-stale``.
    """
    record = pool_named(cluster, command.name)
    pool = record.pool
    if why := obstacle(record, now):
        raise WrongState(code="elastic-limit", what=f"the elastic pool {pool.name!r} makes no node: {why}")
    if command.job != cluster.next_job or cluster.agenda.closing:
        raise WrongState(code="elastic-stale", what="another job was submitted meanwhile")
    node = f"{pool.name}-{command.job}"
    by = User(name=pool.owner, uid=pool.uid, gid=pool.gid, administrator=True)
    made = create(
        cluster, CreateJob(by=by, spec=allocation_spec(pool, node, command.agent), submit=True), now
    )
    invited = e.NodeInvited(
        at=now,
        digest=command.digest,
        expires=Instant(now + MAX_INVITATION),
        approve=True,
        name=node,
        by=pool.name,
    )
    wanted = ep.ElasticNodeWanted(at=now, name=pool.name, job=command.job, node=node, digest=command.digest)
    return [*made, invited, wanted]


def allocation_spec(pool: ElasticPool, node: str, agent: tuple[str, ...]) -> JobSpec:
    """Return the job at the resource that is one node here."""
    words = [*agent, "--allocation", "--name", node, "--processors", str(pool.processors)]
    words += ["--memory", str(pool.memory)] if pool.memory else []
    words += [] if pool.gpus else ["--gpus", "0"]  # its machine may have some that the allocation has not
    words += ["--groups", pool.name, "--join", "-"]
    size = pool.gpus or pool.processors
    task = TaskSpec(
        command="agent",
        script=_SCRIPT.format(agent=shlex.join(words)),
        minimum=size,
        maximum=size,
        work_directory="/",
    )
    return JobSpec(
        name=node,
        description=f"a node of the elastic pool {pool.name}",
        resource=pool.resource,
        single_node=True,
        unit=UnitType.GPU if pool.gpus else UnitType.PROCESSOR,
        processors_per_gpu=pool.processors // size,
        run_time=pool.allocation_time,
        held=HeldAmounts(memory=pool.memory),
        tasks=(task,),
    )


def node_of_allocation(pool: ElasticPool) -> NodeFacts:
    """Return what a job may know of a node of the pool before it is there."""
    return NodeFacts(
        name=pool.name,
        processors=pool.processors,
        memory=pool.memory,
        gpus=pool.gpus,
        features=("gpu",) if pool.gpus else (),
        groups=(pool.name,),
        only_user=pool.only_user,
    )


_SCRIPT = """#!/bin/sh
umask 077
here=$(dirname "$0")
secret=$here/secret
state=$(mktemp -d "${{TMPDIR:-/tmp}}/headnode-XXXXXXXXXX") || exit 96
env -i PATH="$PATH" HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" \\
  ${{CUDA_VISIBLE_DEVICES+CUDA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES"}} \\
  ${{ROCR_VISIBLE_DEVICES+ROCR_VISIBLE_DEVICES="$ROCR_VISIBLE_DEVICES"}} \\
  {agent} --state "$state" < "$secret" &
agent=$!
trap 'kill -TERM $agent 2> /dev/null' TERM
while :; do
  wait $agent; status=$?
  kill -0 $agent 2> /dev/null || break
done
cp -r "$state/output" "$here/tasks" 2> /dev/null
rm -rf "$state" "$secret"
exit $status
"""


def give_back_node(cluster: ClusterState, command: GiveBackNode, now: Instant) -> list[Event]:
    """Cancel an allocation that is not needed; one that has got a job meanwhile stays."""
    found = cluster.elastic.allocation(command.name, command.job)
    if found is None or cluster.on_node(found[1].node):
        return []
    return _given_back(cluster, found[0].pool.name, found[1], command.reason, now)


def _given_back(
    cluster: ClusterState, pool: str, one: ElasticAllocation, why: str, now: Instant, *, force: bool = False
) -> list[Event]:
    events: list[Event] = []
    if one.node in cluster.nodes:
        events += drain(cluster, DrainNode(by=ELASTIC, node=one.node, reason=why, force=force), now)
    if one.leaving or one.job not in cluster.jobs:
        return events
    events.append(ep.ElasticNodeLeaving(at=now, name=pool, job=one.job, reason=why))
    return [
        *events,
        *stop_job(cluster, StopJob(by=ELASTIC, job=one.job, outcome="canceled", message=why), now),
    ]


def settle_node(cluster: ClusterState, command: SettleElasticNode, now: Instant) -> list[Event]:
    """Forget an allocation whose job is over.

    What is still on its node is stopped if the node can be reached, else given up as on every lost node.
    """
    found = cluster.elastic.allocation(command.name, command.job)
    if found is None or command.job in cluster.jobs:
        return []
    (record, one), node = found, cluster.nodes.get(found[1].node)
    if node is not None and cluster.on_node(one.node):
        why = "its allocation is over"
        return drain(cluster, DrainNode(by=ELASTIC, node=one.node, reason=why, force=True), now)
    events = (
        []
        if node is None
        else change_node(cluster, ChangeNode(by=ELASTIC, node=one.node, action="remove"), now)
    )
    events = [*events, ep.ElasticNodeGone(at=now, name=record.pool.name, job=one.job)]
    last = record.removing and len(record.allocations) == 1
    return [*events, ep.ElasticPoolRemoved(at=now, name=record.pool.name)] if last else events


def pool_set(cluster: ClusterState, event: ep.ElasticPoolSet) -> None:
    """Keep a pool."""
    known = cluster.elastic.named.get(event.pool.key)
    if known is None:
        cluster.elastic.named[event.pool.key] = ElasticRecord(pool=event.pool)
    else:
        known.pool = event.pool
    cluster.update_personal()


def pool_paused(cluster: ClusterState, event: ep.ElasticPoolPaused) -> None:
    """A pool makes no allocations for now, or any more."""
    record = cluster.elastic.named[event.name.lower()]
    record.paused, record.removing = event.reason, record.removing or event.removing


def pool_resumed(cluster: ClusterState, event: ep.ElasticPoolResumed) -> None:
    """A pool begins anew."""
    record = cluster.elastic.named[event.name.lower()]
    record.paused, record.failures, record.failed_at, record.trouble = "", 0, None, ""


def pool_removed(cluster: ClusterState, event: ep.ElasticPoolRemoved) -> None:
    """Forget a pool."""
    del cluster.elastic.named[event.name.lower()]
    cluster.update_personal()


def node_wanted(cluster: ClusterState, event: ep.ElasticNodeWanted) -> None:
    """Remember an allocation."""
    made = ElasticAllocation(job=event.job, node=event.node, made=event.at, digest=event.digest)
    cluster.elastic.named[event.name.lower()].allocations.append(made)


def node_leaving(cluster: ClusterState, event: ep.ElasticNodeLeaving) -> None:
    """An allocation is given back; its secret is of no more use."""
    found = cluster.elastic.allocation(event.name, event.job)
    if found is not None:
        found[1].leaving = event.reason
        cluster.invitations.pop(found[1].digest, None)


def node_gone(cluster: ClusterState, event: ep.ElasticNodeGone) -> None:
    """Forget an allocation, and learn from it."""
    found = cluster.elastic.allocation(event.name, event.job)
    if found is not None:
        cluster.invitations.pop(found[1].digest, None)
        found[0].release(found[1], event.at)
