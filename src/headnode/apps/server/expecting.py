"""What people are told of the start of a queued job."""

from typing import Any

from headnode.apps.server.desk import Desk
from headnode.apps.server.filter_reasons import nobody_knows
from headnode.core.lifecycle.records import JobRecord
from headnode.engine.foreseeing import Expected
from headnode.engine.ports import Prediction

Object = dict[str, Any]


async def expected_start(desk: Desk, record: JobRecord) -> Object | None:
    """Return when a queued job should start; None for one that is not queued, or not before somebody lets it.

    Waits a little for an answer that knows of all that has happened.  Times in seconds since 1970; None where
    nobody can say.
    """
    if not is_in_queue(desk, record):
        return None
    await desk.outlooks.fresh()
    return expected_object(desk, record)


def is_in_queue(desk: Desk, record: JobRecord) -> bool:
    """Return whether a job waits for processors, and for nothing else."""
    outside = record.id in desk.cluster.held or record.holds or record.waits_for
    return record.state.is_queued and not outside


def expected_object(desk: Desk, record: JobRecord) -> Object | None:
    """Return what is known already of the start of a queued job."""
    if not is_in_queue(desk, record):
        return None
    foreseer = desk.outlooks.foreseer
    expected = foreseer.expected(record.id)
    unknown = nobody_knows(desk.cluster, desk.engine.offers, record)
    found = Expected() if expected is None or unknown else expected
    return {
        "promise": found.promise,
        "p50": found.p50,
        "p90": found.p90,
        "made": foreseer.made,
        "policy": desk.engine.settings.text("SchedulingPolicy"),
        "why": unknown or _why(expected),
    }


def _why(expected: Expected | None) -> str:
    """Say why something is not known; "" when all is."""
    if expected is None:
        return "the prediction has not reached its place in the queue yet"
    if expected.p50 is None:
        return "it waits for jobs without a run time limit, and no similar job has ended yet"
    if expected.promise is None:
        return "there is no promise: it waits for jobs without a run time limit"
    return ""


def prediction_object(prediction: Prediction | None) -> Object | None:
    """Return what was predicted of a job when it had come into the queue."""
    if prediction is None:
        return None
    return {
        "made": prediction.made,
        "policy": prediction.policy,
        "promise": prediction.promise,
        "p50": prediction.p50,
        "p90": prediction.p90,
        "started": prediction.started,
    }
