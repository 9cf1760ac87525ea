"""Until when a queued job waits for nodes under few switches."""

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.state.job_record import JobRecord, decode_spec


def waiting_for_switches(record: JobRecord, request: JobRequest) -> JobRequest:
    """Return the request of a job with the instant until when it asks for few switches.

    The time is counted from its submission, or from the end of its hold.
    """
    if request.switches_until == NEVER or record.submitted is None:
        return request
    spec = decode_spec(record.spec)
    until = Instant(max(record.submitted, spec.hold_until or record.submitted) + spec.switches_wait)
    others = tuple(replace(other, switches_until=until) for other in request.alternatives)
    return replace(request, switches_until=until, alternatives=others)
