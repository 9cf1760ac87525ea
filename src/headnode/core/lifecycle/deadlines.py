"""When a job must be over: by its run time limit, and by the deadline that its owner gave it.

Source: SSS 3.1.0, "DeadlineTime": date and time that a job must end by; HPC Pack, RuntimeSeconds.
"""

from math import ceil, floor, log2

from msgspec.structs import replace

from headnode.core.lifecycle.records import Run
from headnode.core.model.alternatives import chosen
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.model.time_limits import format_time_limit

MINUTE = 60


def limit_end(spec: JobSpec, run: Run) -> Instant:
    """Return when the run time limit of a started job is over, without the time that it stood still."""
    return NEVER if run.started is None else Instant(run.started + spec.run_time + run.not_run)


def deadline_of(spec: JobSpec, run: Run) -> Instant | None:
    """Return when a job that runs is ended: the earlier of its limit and its deadline; None for never."""
    end = limit_end(spec, run)
    if spec.end_by is not None:
        end = min(end, spec.end_by)
    return None if end == NEVER else end


def shortest(spec: JobSpec) -> Seconds:
    """Return the smallest of the run time limits under which the job would run; a job without one needs 0."""
    limits = [chosen(spec, option).run_time for option in range(len(spec.alternatives) + 1)]
    return min(Seconds(0.0) if limit == FOREVER else limit for limit in limits)


def last_start(spec: JobSpec) -> Instant | None:
    """Return when a job must have started to end by its deadline; None when it has none."""
    return None if spec.end_by is None else Instant(spec.end_by - shortest(spec))


def within(request: JobRequest, span: Seconds) -> JobRequest:
    """Return the request with run time limits of at most `span`: those of a job with a deadline."""
    others = tuple(within(other, span) for other in request.others)
    return replace(request, run_time=min(request.run_time, span), others=others)


def coarse(span: Seconds) -> Seconds:
    """Return a span that is at most a sixteenth longer: such jobs are few classes in the queue, not one each.

    >>> coarse(Seconds(90.0)), coarse(Seconds(3600.0)), coarse(Seconds(0.0))
    (92.0, 3712.0, 0.0)
    """
    if span <= 0:
        return Seconds(0.0)
    step = 2.0 ** (floor(log2(span)) - 4)
    return Seconds(ceil(span / step) * step)


def check_still_ahead(spec: JobSpec, now: Instant) -> None:
    """Refuse a deadline that is over.

    Raises:  BadRequest ``end-by``.
    """
    if spec.end_by is not None and spec.end_by <= now:
        raise BadRequest(
            code="end-by", what="the deadline of the job has passed", fix="give it a later deadline, or none"
        )


def check_end_by(spec: JobSpec, now: Instant) -> None:
    """Refuse a deadline that cannot be kept.

    Raises:  BadRequest ``end-by`` with the longest run time limit that would fit.
    """
    if spec.end_by is None:
        return
    begin = max(now, spec.hold_until or now)
    room = spec.end_by - begin
    if room > 0 and room >= shortest(spec):
        return
    after = "from now" if begin == now else "after its hold ends"
    if room < MINUTE:
        raise BadRequest(
            code="end-by",
            what="the deadline of the job has passed" if spec.end_by <= now
            else f"the deadline of the job comes less than a minute {after}",
            fix="give it a later deadline, or none",
        )  # fmt: skip
    fits = format_time_limit(Seconds(room // MINUTE * MINUTE))
    limit = format_time_limit(shortest(spec))
    raise BadRequest(
        code="end-by",
        what=f"the run time limit {limit} of the job, counted {after}, exceeds its deadline",
        fix=f"give it a run time limit of at most {fits}, or a later deadline",
    )
