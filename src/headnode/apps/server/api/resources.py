"""The verbs about resources with their own schedulers."""

import asyncio
import secrets

from msgspec.structs import replace

from headnode.adapters.files.owners import why_not_trusted
from headnode.apps.server.api.verbs import ADMINISTERS, READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import SYSTEM_NAMES, ResourceSystem, system_named
from headnode.core.model.user import User
from headnode.core.state import resources as c
from headnode.core.state.resources import resource_named
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.resource_answers import (
    ResourceAnswer,
    ResourceNameRequest,
    ResourceObject,
    ResourcesAnswer,
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
            what=f"{text!r} is no scheduler that jobs can be handed over to",
            fix=f"choose {SYSTEM_NAMES}",
        )
    return system


def _object(context: ServerContext, known: BatchResource) -> ResourceObject:
    status = None if context.hand_off is None else context.hand_off.statuses.get(known.key)
    return ResourceObject(
        name=known.name,
        system=known.system.value,
        mark=known.mark,
        host=known.host,
        programs=known.programs,
        settings=known.settings,
        directory=known.directory,
        queue=known.queue,
        parallel=known.parallel,
        most_jobs=known.most_jobs,
        poll=known.poll,
        settle=known.settle,
        lost_after=known.lost_after,
        jobs=context.cluster.resource_index.handed.get(known.key, 0),
        waiting=sum(1 for wanted in context.cluster.resource_index.outbound.values() if wanted == known.key),
        polled=None if status is None else status.polled,
        answered_in=None if status is None else status.took,
        overlay=known.overlay,
        problem="" if status is None else status.problem,
    )
