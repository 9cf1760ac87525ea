"""The verbs about resources with their own schedulers, and about elastic pools on them."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from headnode.adapters.files.owners import why_not_trusted
from headnode.apps.server.api.verbs import ADMINISTERS, READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Seconds
from headnode.core.model.resource import BatchResource, ElasticPool
from headnode.core.model.resource_system import SYSTEM_NAMES, ResourceSystem, system_named
from headnode.core.model.user import User
from headnode.core.state import elastic as pools
from headnode.core.state import elastic_events as ep
from headnode.core.state import resources as c
from headnode.core.state.elastic_record import ElasticRecord
from headnode.core.state.resources import resource_named
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.resource_answers import (
    ElasticAllocationObject,
    ElasticNameRequest,
    ElasticPoolAnswer,
    ElasticPoolObject,
    ElasticPoolsAnswer,
    PauseElasticRequest,
    ResourceAnswer,
    ResourceNameRequest,
    ResourceObject,
    ResourcesAnswer,
    SetElasticRequest,
    SetResourceRequest,
)

_TEXTS = ("host", "programs", "settings", "directory", "queue", "parallel", "most_jobs", "overlay")
_NOT_THERE = "directory-of-a-user"
_TIMES = ("poll", "settle", "lost_after")


@verb(READS)
async def resources(context: ServerContext, by: User, request: w.VerbRequest) -> ResourcesAnswer:  # noqa: ARG001  (everybody sees all)
    """Show every resource."""
    known = context.cluster.resource_index.named
    return ResourcesAnswer([_object(context, known[key]) for key in sorted(known)])


@verb(READS)
async def resource(context: ServerContext, by: User, request: ResourceNameRequest) -> ResourceAnswer:  # noqa: ARG001
    """Show one resource, and how its last poll went."""
    return ResourceAnswer(
        _object(context, resource_named(context.cluster.resource_index.named, request.name))
    )


@verb(ADMINISTERS)
async def set_resource(context: ServerContext, by: User, request: SetResourceRequest) -> ResourceAnswer:
    """Add a resource, or change one. Missing fields stay unchanged."""
    known = context.cluster.resource_index.named.get(request.name.lower())
    if known is None and request.system is None:
        raise BadRequest(
            code="resource-system",
            what=f"the new resource {request.name!r} has no system",
            fix=f"say which scheduler it has: {SYSTEM_NAMES}",
        )
    resource = known or BatchResource(
        name=request.name, system=_system(request.system or ""), mark=secrets.token_hex(4)
    )
    if request.system is not None:
        resource = replace(resource, system=_system(request.system))
    changes = {name: value for name in _TEXTS if (value := getattr(request, name)) is not None}
    changes |= {name: Seconds(value) for name in _TIMES if (value := getattr(request, name)) is not None}
    resource = replace(resource, **changes)
    if why_not := await asyncio.to_thread(_why_not_trusted, resource):
        raise BadRequest(
            code="resource-path",
            what=f"the resource cannot be reached so: {why_not}",
            fix="correct the owner and the mode, or name another path",
        )
    await context.ask(c.SetResource(by=by, resource=resource))
    return ResourceAnswer(_object(context, context.cluster.resource_index.named[resource.key]))


@verb(ADMINISTERS)
async def remove_resource(context: ServerContext, by: User, request: ResourceNameRequest) -> RemovedAnswer:
    """Remove a resource where no job of ours is, and to which none goes."""
    await context.ask(c.RemoveResource(by=by, name=request.name))
    return RemovedAnswer(request.name)


def _why_not_trusted(resource: BatchResource) -> str:
    """Return why a path of a resource must not be used: the head, which may be root, obeys what is there."""
    if resource.host:
        return ""
    own = (path for path in (resource.programs, resource.settings) if path)
    reason = next(filter(None, map(why_not_trusted, own)), "")
    below = f"{resource.directory}/{_NOT_THERE}"  # what it must be safe to make there, also where all may
    return reason or (why_not_trusted(below) if resource.directory else "")


def _system(text: str) -> ResourceSystem:
    system = system_named(text)
    if system is None:
        raise BadRequest(
            code="resource-system",
            what=f"jobs cannot be handed over to {text!r}",
            fix=f"choose {SYSTEM_NAMES}",
        )
    return system


def _object(context: ServerContext, resource: BatchResource) -> ResourceObject:
    status = None if context.hand_off is None else context.hand_off.statuses.get(resource.key)
    return ResourceObject(
        name=resource.name,
        system=resource.system.value,
        mark=resource.mark,
        host=resource.host,
        programs=resource.programs,
        settings=resource.settings,
        directory=resource.directory,
        queue=resource.queue,
        parallel=resource.parallel,
        most_jobs=resource.most_jobs,
        poll=resource.poll,
        settle=resource.settle,
        lost_after=resource.lost_after,
        jobs=context.cluster.resource_index.handed.get(resource.key, 0),
        waiting=sum(
            1 for wanted in context.cluster.resource_index.outbound.values() if wanted == resource.key
        ),
        polled=None if status is None else status.polled,
        answered_in=None if status is None else status.poll_time,
        overlay=resource.overlay,
        problem="" if status is None else status.problem,
    )


ELASTIC_EVENTS: Final[Mapping[type, tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    ep.ElasticPoolSet: ("elastic.set", lambda one: {"name": one.pool.name}),
    ep.ElasticPoolPaused: ("elastic.paused", lambda one: {"name": one.name, "reason": one.reason}),
    ep.ElasticPoolResumed: ("elastic.resumed", lambda one: {"name": one.name}),
    ep.ElasticPoolRemoved: ("elastic.removed", lambda one: {"name": one.name}),
    ep.ElasticNodeWanted: ("elastic.node_wanted", lambda one: {"name": one.name, "job": one.job}),
    ep.ElasticNodeLeaving: ("elastic.node_leaving", lambda one: {"name": one.name, "job": one.job}),
    ep.ElasticNodeGone: ("elastic.node_gone", lambda one: {"name": one.name, "job": one.job}),
}
_POOL_FIELDS = ("resource", "most_nodes", "most_queued", "processors", "memory", "gpus", "python")
_POOL_TIMES = ("allocation_time", "idle_time", "margin", "retry")


@verb(READS)
async def elastic_pools(context: ServerContext, by: User, request: w.VerbRequest) -> ElasticPoolsAnswer:  # noqa: ARG001  (everybody sees all)
    """Show every elastic pool."""
    known = context.cluster.elastic.named
    return ElasticPoolsAnswer([_pool_object(context, known[key]) for key in sorted(known)])


@verb(READS)
async def elastic_pool(context: ServerContext, by: User, request: ElasticNameRequest) -> ElasticPoolAnswer:  # noqa: ARG001
    """Show one elastic pool, its allocations, and why it does not make more."""
    return _pool_answer(context, request.name)


@verb(ADMINISTERS)
async def set_elastic_pool(context: ServerContext, by: User, request: SetElasticRequest) -> ElasticPoolAnswer:
    """Add an elastic pool, or change one. Missing fields stay unchanged."""
    known = context.cluster.elastic.named.get(request.name.lower())
    if known is None and request.resource is None:
        raise BadRequest(
            code="elastic-resource",
            what=f"the new elastic pool {request.name!r} has no resource",
            fix="say where its nodes come from; see `hn resource list`",
        )
    if context.network is None:
        raise WrongState(
            code="not-listening",
            what="the head does not listen for the agents of allocations",
            fix="start it again with: hn down; hn up --listen HOST",
        )
    pool = (
        known.pool
        if known is not None
        else ElasticPool(
            name=request.name, resource=request.resource or "", owner=by.name, uid=by.uid, gid=by.gid
        )
    )
    changes = {name: value for name in _POOL_FIELDS if (value := getattr(request, name)) is not None}
    changes |= {name: Seconds(value) for name in _POOL_TIMES if (value := getattr(request, name)) is not None}
    if request.most_node_hours is not None:
        changes["most_node_hours"] = request.most_node_hours or None
    if request.node_price is not None:
        changes["node_price"] = request.node_price
    if request.most_cost is not None:
        changes["most_cost"] = request.most_cost or None
    await context.ask(pools.SetElasticPool(by=by, pool=replace(pool, **changes)))
    return _pool_answer(context, request.name)


@verb(ADMINISTERS)
async def pause_elastic_pool(
    context: ServerContext, by: User, request: PauseElasticRequest
) -> ElasticPoolAnswer:
    """Let an elastic pool make no more allocations; those that there are stay."""
    await context.ask(pools.PauseElasticPool(by=by, name=request.name, reason=request.reason))
    return _pool_answer(context, request.name)


@verb(ADMINISTERS)
async def resume_elastic_pool(
    context: ServerContext, by: User, request: ElasticNameRequest
) -> ElasticPoolAnswer:
    """Let a paused elastic pool make allocations again; its failures are forgotten."""
    await context.ask(pools.ResumeElasticPool(by=by, name=request.name))
    return _pool_answer(context, request.name)


@verb(ADMINISTERS)
async def remove_elastic_pool(context: ServerContext, by: User, request: ElasticNameRequest) -> RemovedAnswer:
    """Cancel all allocations of an elastic pool, and remove it when they are over."""
    await context.ask(pools.RemoveElasticPool(by=by, name=request.name))
    return RemovedAnswer(request.name)


def _pool_answer(context: ServerContext, name: str) -> ElasticPoolAnswer:
    return ElasticPoolAnswer(_pool_object(context, pools.pool_named(context.cluster, name)))


def _pool_object(context: ServerContext, record: ElasticRecord) -> ElasticPoolObject:
    pool = record.pool
    says = context.elastic.says.get(pool.key, "") if context.elastic is not None else ""
    return ElasticPoolObject(
        name=pool.name,
        resource=pool.resource,
        owner=pool.owner,
        most_nodes=pool.most_nodes,
        most_node_hours=pool.most_node_hours,
        node_price=pool.node_price,
        most_cost=pool.most_cost,
        most_queued=pool.most_queued,
        allocation_time=pool.allocation_time,
        processors=pool.processors,
        memory=pool.memory,
        gpus=pool.gpus,
        idle_time=pool.idle_time,
        margin=pool.margin,
        retry=pool.retry,
        python=pool.python,
        paused=record.paused,
        removing=record.removing,
        node_hours=record.used / 3600.0,
        cost=record.spent,
        failures=record.failures,
        trouble=record.trouble,
        says=says,
        allocations=[
            ElasticAllocationObject(
                job=each.job,
                node=each.node,
                state="leaving" if each.leaving else "wanted" if each.joined is None else "node",
                made=each.made,
                joined=each.joined,
                leaving=each.leaving,
            )
            for each in record.allocations
        ],
    )
