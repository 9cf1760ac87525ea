"""What the verb `metrics` answers.  Counters begin at the start of the head."""

from headnode.protocol.answers import VerbAnswer
from headnode.protocol.cluster_answers import ProcessorTotals


class HistogramObject(VerbAnswer, frozen=True):
    """Durations in seconds: `counts` of those up to each bound, the last of longer ones."""

    bounds: list[float]
    counts: list[int]
    total: float


class CoverageObject(VerbAnswer, frozen=True):
    """The parts of the newest judged predictions that held; null where there are none."""

    jobs: int  # that were judged
    p50: float | None
    p90: float | None
    promise: float | None


class MetricsAnswer(VerbAnswer, frozen=True):
    """metrics."""

    cluster: str
    version: str
    policy: str
    started: float
    jobs: dict[str, int]  # by state; of jobs that are over, all in the archive
    nodes: dict[str, int]  # by state
    processors: ProcessorTotals
    tasks_running: int
    jobs_submitted: int
    jobs_started: int
    jobs_backfilled: int  # of those that started
    jobs_ended: dict[str, int]  # by outcome
    tasks_ended: dict[str, int]  # by outcome; queued: it ran again
    waits: dict[str, HistogramObject]  # by job template: from submission to start
    runs: dict[str, HistogramObject]  # by job template: from start to end
    passes: HistogramObject  # of the scheduler
    commits: HistogramObject  # of the journal
    event_number: int  # of the newest event
    agents_connected: int
    notices_waiting: int
    coverage: CoverageObject  # of predicted starts
