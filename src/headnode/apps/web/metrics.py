"""Metrics for Prometheus: the counters of the head in its text format.

Source:  Prometheus documentation, "Exposition formats" and "Metric and label naming".
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.problems import problem_response
from headnode.core.model.errors import HeadnodeError
from headnode.protocol.cluster_answers import HistogramObject, MetricsAnswer
from headnode.protocol.requests import VerbRequest

METRICS_PATH = "/metrics"


def metrics_routes(gateway: Gateway) -> list[BaseRoute]:
    """Return the address that a Prometheus server scrapes, with a token as any other request."""

    async def metrics(request: Request) -> Response:
        try:
            caller = gateway.identity.caller(request)
            answer = await gateway.head.ask(caller, "metrics", VerbRequest(), MetricsAnswer)
        except HeadnodeError as error:
            return problem_response(error)
        return Response(exposition(answer), headers={"content-type": CONTENT_TYPE_LATEST})

    return [Route(METRICS_PATH, metrics, methods=["GET"])]


def exposition(answer: MetricsAnswer) -> bytes:
    """Return the metrics of a head in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_HeadMetrics(answer))
    return generate_latest(registry)


class _HeadMetrics(Collector):
    """The metrics of one answer."""

    def __init__(self, answer: MetricsAnswer) -> None:
        self._answer = answer

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from _states(self._answer)
        yield from _counters(self._answer)
        yield from _durations(self._answer)
        yield from _coverage(self._answer)


def _labelled(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    family = kind(f"headnode_{name}", text, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family


def _states(answer: MetricsAnswer) -> Iterator[Metric]:
    build = InfoMetricFamily("headnode_build", "The head: its version, cluster and scheduling policy.")
    build.add_metric([], {"version": answer.version, "cluster": answer.cluster, "policy": answer.policy})
    yield build
    yield GaugeMetricFamily("headnode_start_time_seconds", "When the head started.", answer.started)
    jobs = {state.lower(): float(count) for state, count in answer.jobs.items()}
    yield _labelled(GaugeMetricFamily, "jobs", "Jobs in each state.", "state", jobs)
    running = {"running": float(answer.tasks_running)}
    yield _labelled(GaugeMetricFamily, "tasks", "Task instances in each state.", "state", running)
    nodes = {state.lower(): float(count) for state, count in answer.nodes.items()}
    yield _labelled(GaugeMetricFamily, "nodes", "Nodes in each state.", "state", nodes)
    sums = answer.processors
    processors = {"total": sums.total, "ready": sums.ready, "free": sums.free, "used": sums.used}
    yield _labelled(GaugeMetricFamily, "processors", "Processors in each state.", "state", processors)
    yield GaugeMetricFamily(
        "headnode_agents_connected", "Nodes with a connection to the head.", answer.agents_connected
    )
    yield GaugeMetricFamily(
        "headnode_notices_waiting", "Notices that wait to be sent.", answer.notices_waiting
    )
    yield GaugeMetricFamily(
        "headnode_failed_parts", "Parts of the head that failed and begin again.", answer.failed_parts
    )
    recurring = {state: float(count) for state, count in answer.recurring_jobs.items()}
    yield _labelled(GaugeMetricFamily, "recurring_jobs", "Recurring jobs in each state.", "state", recurring)
    yield GaugeMetricFamily(
        "headnode_recurring_jobs_refused",
        "Recurring jobs whose newest time made no job, because it was refused.",
        answer.recurring_jobs_refused,
    )
    yield _labelled(
        GaugeMetricFamily,
        "standby_behind_events",
        "Events that a standby head does not have yet.",
        "standby",
        answer.standbys_behind,
    )
    yield GaugeMetricFamily("headnode_event_sequence", "The number of the newest event.", answer.event_number)


def _counters(answer: MetricsAnswer) -> Iterator[Metric]:
    yield CounterMetricFamily("headnode_jobs_submitted", "Jobs that were submitted.", answer.jobs_submitted)
    yield CounterMetricFamily("headnode_jobs_started", "Starts of jobs.", answer.jobs_started)
    yield CounterMetricFamily(
        "headnode_jobs_backfilled", "Starts of jobs before the first of the queue.", answer.jobs_backfilled
    )
    ended = {outcome: float(count) for outcome, count in answer.jobs_ended.items()}
    yield _labelled(CounterMetricFamily, "jobs_ended", "Jobs that ended, by outcome.", "outcome", ended)
    tasks = {outcome: float(count) for outcome, count in answer.tasks_ended.items()}
    yield _labelled(
        CounterMetricFamily, "tasks_ended", "Attempts of task instances that ended.", "outcome", tasks
    )


def _durations(answer: MetricsAnswer) -> Iterator[Metric]:
    yield _histograms(
        "job_wait_seconds", "From submission to start, by job template.", "template", answer.waits
    )
    yield _histograms("job_run_seconds", "From start to end, by job template.", "template", answer.runs)
    yield _histograms(
        "standby_wait_seconds", "Waits of writes for a standby head.", "standby", answer.standby_waits
    )
    for name, text, one in (
        ("pass_seconds", "Passes of the scheduler.", answer.passes),
        ("commit_seconds", "Commits of the journal.", answer.commits),
    ):
        yield HistogramMetricFamily(f"headnode_{name}", text, buckets=_buckets(one), sum_value=one.total)


def _histograms(name: str, text: str, label: str, values: Mapping[str, HistogramObject]) -> Metric:
    family = HistogramMetricFamily(f"headnode_{name}", text, labels=[label])
    for each, one in values.items():
        family.add_metric([each], _buckets(one), one.total)
    return family


def _buckets(one: HistogramObject) -> list[tuple[str, float]]:
    """Return how many durations each bound has, with those below."""
    names = [*map(repr, one.bounds), "+Inf"]
    return list(zip(names, map(float, accumulate(one.counts)), strict=True))


def _coverage(answer: MetricsAnswer) -> Iterator[Metric]:
    coverage = answer.coverage
    parts = {"p50": coverage.p50, "p90": coverage.p90, "promise": coverage.promise}
    held = {bound: part for bound, part in parts.items() if part is not None}
    yield _labelled(
        GaugeMetricFamily,
        "prediction_coverage_ratio",
        "The part of the newest predicted starts that held.",
        "bound",
        held,
    )
    yield GaugeMetricFamily("headnode_predictions_judged", "Predicted starts of that ratio.", coverage.jobs)
