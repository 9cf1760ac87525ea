"""The verbs about elastic pools."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from headnode.apps.server.api.verbs import ADMINISTERS, READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Seconds
from headnode.core.model.resource import ElasticPool
from headnode.core.model.user import User
from headnode.core.state import elastic as c
from headnode.core.state import elastic_events as ep
from headnode.core.state.elastic_record import ElasticRecord
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.resource_answers import (
    ElasticAllocationObject,
    ElasticNameRequest,
    ElasticPoolAnswer,
    ElasticPoolObject,
    ElasticPoolsAnswer,
    PauseElasticRequest,
    SetElasticRequest,
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
_FIELDS = ("resource", "most_nodes", "most_queued", "processors", "memory", "gpus", "python")
_TIMES = ("allocation_time", "idle_time", "margin", "retry")


@verb(READS)
async def elastic_pools(context: ServerContext, by: User, request: w.VerbRequest) -> ElasticPoolsAnswer:  # noqa: ARG001  (everybody sees all)
    """Show every elastic pool."""
    known = context.cluster.elastic.named
    return ElasticPoolsAnswer([_object(context, known[key]) for key in sorted(known)])


@verb(READS)
async def elastic_pool(context: ServerContext, by: User, request: ElasticNameRequest) -> ElasticPoolAnswer:  # noqa: ARG001
    """Show one elastic pool, its allocations, and why it does not make more."""
    return _answer(context, request.name)


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
            what="this head has no address at which the agents of allocations could join",
            fix="start it with one: hn down; hn up --listen HOST",
        )
    pool = (
        known.pool
        if known is not None
        else ElasticPool(
            name=request.name, resource=request.resource or "", owner=by.name, uid=by.uid, gid=by.gid
        )
    )
    changes = {name: value for name in _FIELDS if (value := getattr(request, name)) is not None}
    changes |= {name: Seconds(value) for name in _TIMES if (value := getattr(request, name)) is not None}
    if request.most_node_hours is not None:
        changes["most_node_hours"] = request.most_node_hours or None
    if request.node_price is not None:
        changes["node_price"] = request.node_price
    if request.most_cost is not None:
        changes["most_cost"] = request.most_cost or None
    await context.ask(c.SetElasticPool(by=by, pool=replace(pool, **changes)))
    return _answer(context, request.name)


@verb(ADMINISTERS)
async def pause_elastic_pool(
    context: ServerContext, by: User, request: PauseElasticRequest
) -> ElasticPoolAnswer:
    """Let an elastic pool make no more allocations; those that there are stay."""
    await context.ask(c.PauseElasticPool(by=by, name=request.name, reason=request.reason))
    return _answer(context, request.name)


@verb(ADMINISTERS)
async def resume_elastic_pool(
    context: ServerContext, by: User, request: ElasticNameRequest
) -> ElasticPoolAnswer:
    """Let a paused elastic pool make allocations again; its failures are forgotten."""
    await context.ask(c.ResumeElasticPool(by=by, name=request.name))
    return _answer(context, request.name)


@verb(ADMINISTERS)
async def remove_elastic_pool(context: ServerContext, by: User, request: ElasticNameRequest) -> RemovedAnswer:
    """Cancel all allocations of an elastic pool, and remove it when they are over."""
    await context.ask(c.RemoveElasticPool(by=by, name=request.name))
    return RemovedAnswer(request.name)


def _answer(context: ServerContext, name: str) -> ElasticPoolAnswer:
    return ElasticPoolAnswer(_object(context, c.pool_named(context.cluster, name)))


def _object(context: ServerContext, record: ElasticRecord) -> ElasticPoolObject:
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
