"""The paths of HPC Pack's REST API below `/hpc`, each with its function."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.hpc_pack import cluster, jobs, nodes, tasks
from headnode.apps.web.hpc_pack.requests import HpcReply, HpcRequest, hpc_request
from headnode.apps.web.problems import problem_response
from headnode.core.model.errors import HeadnodeError

PREFIX: Final = "/hpc"
Function = Callable[[HpcRequest], Awaitable[HpcReply]]

_JOB, _TASK, _SUBTASK = (
    "/jobs/{job}",
    "/jobs/{job}/tasks/{task}",
    "/jobs/{job}/tasks/{task}/subtasks/{instance}",
)
PATHS: Final[tuple[tuple[str, str, Function], ...]] = (
    ("GET", "/cluster/version", cluster.version),
    ("GET", "/cluster/activeHeadNode", cluster.head_node),
    ("GET", "/cluster/info/dateTimeFormat", cluster.date_format),
    ("GET", "/cluster/userRoles", cluster.roles),
    ("GET", "/cluster/operations", cluster.operations),
    ("GET", "/cluster/operations/first", cluster.first_operation),
    ("GET", "/cluster/operations/{operation}", cluster.operation),
    ("GET", "/cluster/metrics/definitions", cluster.metric_definitions),
    ("GET", "/cluster/metrics/history/{metric}", cluster.metric_history),
    ("GET", "/cluster/metrics/jobs", cluster.job_counts),
    ("GET", "/cluster/nodes", nodes.nodes),
    ("GET", "/cluster/nodes/metrics", nodes.node_metrics),
    ("GET", "/cluster/nodes/stats/state", nodes.state_counts),
    ("GET", "/cluster/nodes/stats/health", nodes.health_counts),
    ("GET", "/cluster/nodes/{node}", nodes.node),
    ("POST", "/cluster/nodes/{node}/operations/{operation}", nodes.operate),
    ("GET", "/cluster/nodeGroups", nodes.groups),
    ("POST", "/cluster/nodeGroups", nodes.create_group),
    ("GET", "/cluster/nodeGroups/{group}", nodes.group),
    ("PUT", "/cluster/nodeGroups/{group}", nodes.rename_group),
    ("DELETE", "/cluster/nodeGroups/{group}", nodes.remove_group),
    ("GET", "/cluster/nodeGroups/{group}/nodes", nodes.group_nodes),
    ("PATCH", "/cluster/nodeGroups/{group}/nodes", nodes.move_nodes),
    ("GET", "/nodes", nodes.node_rows),
    ("GET", "/nodes/groups", nodes.group_rows),
    ("GET", "/nodes/groups/{group}", nodes.group_nodes),
    ("GET", "/nodes/{node}", nodes.node_row),
    ("GET", "/jobs", jobs.jobs),
    ("POST", "/jobs", jobs.create_job),
    ("POST", "/jobs/jobFile", jobs.create_from_file),
    ("GET", "/jobs/templates", cluster.templates),
    ("GET", _JOB, jobs.job),
    ("PUT", _JOB, jobs.set_job),
    ("POST", f"{_JOB}/submit", jobs.submit),
    ("POST", f"{_JOB}/cancel", jobs.cancel),
    ("POST", f"{_JOB}/finish", jobs.finish),
    ("POST", f"{_JOB}/requeue", jobs.requeue),
    ("GET", f"{_JOB}/envVariables", jobs.environment),
    ("POST", f"{_JOB}/envVariables", jobs.set_environment),
    ("GET", f"{_JOB}/customProperties", jobs.custom_properties),
    ("POST", f"{_JOB}/customProperties", jobs.set_custom_properties),
    ("GET", f"{_JOB}/tasks", tasks.tasks),
    ("POST", f"{_JOB}/tasks", tasks.add_task),
    ("GET", f"{_TASK}/envVariables", tasks.environment),
    ("POST", f"{_TASK}/envVariables", tasks.set_environment),
    ("GET", f"{_TASK}/customProperties", tasks.custom_properties),
    ("POST", f"{_TASK}/customProperties", tasks.set_custom_properties),
    *(
        row
        for place in (_TASK, _SUBTASK)
        for row in (
            ("GET", place, tasks.task),
            ("POST", f"{place}/cancel", tasks.cancel),
            ("POST", f"{place}/finish", tasks.finish),
            ("POST", f"{place}/requeue", tasks.requeue),
        )
    ),
    ("PUT", _TASK, tasks.set_task),
    ("PUT", _SUBTASK, tasks.set_task),
)
_READ_FIRST: Final[frozenset[Function]] = frozenset(
    (
        *(nodes.create_group, nodes.rename_group, nodes.remove_group, nodes.move_nodes),
        *(jobs.set_environment, jobs.set_custom_properties),
        *(tasks.set_environment, tasks.set_custom_properties),
    )
)
"""What reads a list and writes it with a change: two at once would lose one of the changes."""


class ChangeTurns:
    """Turns to change the groups of nodes, or the lists of a job."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, function: Function, asked: HpcRequest) -> contextlib.AbstractAsyncContextManager[None]:
        """Return what a request waits for; "" names the groups of nodes."""
        if function not in _READ_FIRST:
            return contextlib.nullcontext()
        job = str(asked.number("job")) if "job" in asked.parts else ""
        return self._turns.setdefault(job, asyncio.Lock())


def hpc_pack_routes(gateway: Gateway) -> list[BaseRoute]:
    """Return a route of the server for each path."""
    turns = ChangeTurns()
    return [
        Route(PREFIX + path, _handler(gateway, turns, function), methods=[method])
        for method, path, function in PATHS
    ]


def _handler(
    gateway: Gateway, turns: ChangeTurns, function: Function
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            async with gateway.bodies.body_of(request) as body:
                asked = await hpc_request(gateway, request, body)
                del body
                async with turns.of(function, asked):
                    return _response(await function(asked))
        except HeadnodeError as error:
            answer = problem_response(error)
            if answer.status_code == 401:
                answer.headers["www-authenticate"] = 'Basic realm="headnode", charset="UTF-8"'
            return answer

    return handle


def _response(reply: HpcReply) -> Response:
    if reply.status == 204:
        return Response(status_code=204)
    headers = {"cache-control": "private, no-cache", **reply.headers}
    body = msgspec.json.encode(reply.body)
    return Response(body, reply.status, headers, media_type="application/json")
