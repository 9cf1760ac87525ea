"""Small clusters, written as values."""

from collections.abc import Mapping, Sequence
from typing import Any

from headnode.core.model.job import JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, NEVER, Instant, JobId, Seconds
from headnode.core.scheduling.decision import Plan, Start
from headnode.core.scheduling.view import NodeView, RunningJob, Turn, View, WaitingClass

NOW = Instant(1_000_000.0)
MINUTE = 60.0
INF = float("inf")


def asks(minimum: int = 1, maximum: int | None = None, minutes: float = INF, **more: Any) -> JobRequest:
    """Return a request for processors; everything else as a CCS job says nothing, but shared."""
    plain: dict[str, Any] = {
        "unit": UnitType.PROCESSOR,
        "exclusive": False,
        "single_node": False,
        "licences": (),
        "node_groups": (),
        "node_group_op": NodeGroupOp.INTERSECT,
        "requested_nodes": (),
        "required_nodes": (),
        "excluded_nodes": (),
        "order_by": (),
        "minimum_memory": None,
        "maximum_memory": None,
        "minimum_processors_per_node": None,
        "maximum_processors_per_node": None,
        "run_time": FOREVER if minutes == INF else Seconds(minutes * MINUTE),
    }
    return JobRequest(minimum=minimum, maximum=minimum if maximum is None else maximum, **{**plain, **more})


def node(name: str, processors: int = 2, *, closed: str = "", **facts: Any) -> NodeView:
    """Return an idle node."""
    return NodeView(NodeFacts(name=name, processors=processors, **facts), free=processors, closed=closed)


def runs(
    job: int,
    request: JobRequest,
    *allocation: tuple[str, int],
    minutes_left: float = INF,
    wants: int = 0,
    priority: int = 2000,
) -> RunningJob:
    """Return a job that holds processors."""
    end = NEVER if minutes_left == INF else Instant(NOW + minutes_left * MINUTE)
    return RunningJob(JobId(job), turn_of(job, priority), request, end, allocation, wants)


def turn_of(job: int, priority: int = 2000) -> Turn:
    """Return the turn of a job that was submitted in the order of its id."""
    return (-priority, job, job)


def scene(
    nodes: Sequence[NodeView],
    running: Sequence[RunningJob] = (),
    queue: Sequence[tuple[int, JobRequest] | tuple[int, JobRequest, int]] = (),
    licences: Mapping[str, tuple[int, int]] | None = None,
) -> View:
    """Return the view: nodes idle but for what `running` holds; `queue` is (job, request[, priority])."""
    classes: dict[JobRequest, list[Turn]] = {}
    for job, request, *priority in queue:
        classes.setdefault(request, []).append(turn_of(job, *priority))
    return View(
        now=NOW,
        nodes={each.facts.name: _held(each, running) for each in nodes},
        queue=[WaitingClass(request, sorted(turns)) for request, turns in classes.items()],
        running=running,
        licences=licences or {},
    )


def started(plan: Plan) -> list[int]:
    """Return the jobs the plan starts, in order."""
    return [start.job for start in plan.starts]


def start(job: int, *allocation: tuple[str, int], ahead_of: int | None = None) -> Start:
    """Return a start decision."""
    return Start(JobId(job), allocation, None if ahead_of is None else JobId(ahead_of))


def _held(each: NodeView, running: Sequence[RunningJob]) -> NodeView:
    mine = [(job, count) for job in running for name, count in job.allocation if name == each.facts.name]
    owner = next((job.job for job, _ in mine if job.request.exclusive), None)
    free = each.facts.processors - sum(count for _, count in mine)
    return NodeView(each.facts, free, len(mine), owner, each.closed)
