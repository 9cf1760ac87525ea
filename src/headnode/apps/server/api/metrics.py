"""The verb `metrics`: what a monitoring system collects of the head."""

from collections import Counter

from headnode import __version__
from headnode.apps.server.api.job_objects import count_by_state
from headnode.apps.server.api.nodes import cluster_counts
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.user import User
from headnode.engine.timings import DurationHistogram
from headnode.protocol.metric_answers import HistogramObject, MetricsAnswer
from headnode.protocol.requests import VerbRequest


@verb(READS)
async def metrics(context: ServerContext, by: User, request: VerbRequest) -> MetricsAnswer:  # noqa: ARG001
    """Show counts, counters and durations.  Counters begin at the start of the head."""
    counters, engine = context.job_counters, context.engine
    counts = cluster_counts(context.cluster, context.now())
    return MetricsAnswer(
        cluster=context.name,
        version=__version__,
        policy=engine.settings.text("SchedulingPolicy"),
        started=context.started,
        jobs=count_by_state(context.cluster, context.lookups.archive.count_ended(owner=None)),
        nodes=counts.nodes,
        processors=counts.processors,
        tasks_running=counts.tasks_running,
        jobs_submitted=counters.submitted,
        jobs_started=counters.started,
        jobs_backfilled=counters.backfilled,
        jobs_ended=_all_of(counters.ended, "finished", "failed", "canceled"),
        tasks_ended=_all_of(counters.tasks_ended, "finished", "failed", "canceled", "queued"),
        waits={name: _histogram(each) for name, each in sorted(counters.waits.items())},
        runs={name: _histogram(each) for name, each in sorted(counters.runs.items())},
        passes=_histogram(engine.passes),
        commits=_histogram(engine.commits),
        event_number=engine.number,
        agents_connected=len(context.links),
        notices_waiting=0 if context.notices is None else context.notices.waiting(),
        coverage=await context.coverage.newest(),
    )


def _all_of(counted: Counter[str], *names: str) -> dict[str, int]:
    return {name: counted[name] for name in names}


def _histogram(durations: DurationHistogram) -> HistogramObject:
    return HistogramObject(list(durations.bounds), list(durations.counts), durations.total)
