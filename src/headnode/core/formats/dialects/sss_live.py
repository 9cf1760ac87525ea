"""What only the scheduler knows of a job, in an SSS document: its state, its times, what was delivered.

Source: SSS 3.1.0, Table 25-2 and "Delivered"; the states are those that its peers compare.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode.core.formats.sss.job_object import Document, Job
from headnode.core.formats.sss.meaning.simple import ordered
from headnode.core.formats.sss.properties import Envelope, Property
from headnode.core.formats.sss.selections import Selection
from headnode.core.lifecycle.states import JobState

if TYPE_CHECKING:
    from headnode.core.formats.compute_cluster_xml import Live

_WORDS = {
    JobState.CONFIGURING: "NotQueued",
    JobState.QUEUED: "Idle",
    JobState.RUNNING: "Running",
    JobState.ENDING: "Running",
    JobState.FINISHED: "Completed",
    JobState.FAILED: "Completed",
    JobState.CANCELED: "Removed",
}


def with_live(document: Document, live: "Live") -> Document:
    """Return a document of one job with what the scheduler knows of it; none of that is input again."""
    entries = tuple(_job(entry, live) if isinstance(entry, Job) else entry for entry in document.entries)
    return replace(document, entries=entries)


def _job(job: Job, live: "Live") -> Job:
    delivered = tuple(_delivered(live))
    return replace(
        job,
        properties=ordered([*job.properties, *_told(live)]),
        delivered=Envelope(properties=delivered) if live.started is not None else job.delivered,
    )


def _told(live: "Live") -> Iterator[Property]:
    yield Property(name="State", value=_WORDS[live.state])
    times = {"SubmitTime": live.submitted, "StartTime": live.started, "EndTime": live.ended}
    for name, at in times.items():
        if at is not None:
            yield Property(name=name, value=float(round(at)))
    codes = {task.exit_code for task in live.tasks.values()}
    if len(codes) == 1 and live.ended is not None:
        code = codes.pop()
        if code is not None:
            yield Property(name="ExitCode", value=code)


def _delivered(live: "Live") -> Iterator[Property]:
    if live.owner:
        yield Property(name="User", value=live.owner)
    if live.nodes:
        yield Property(name="NodeCount", value=len(live.nodes))
    for node in live.nodes:
        yield Selection(name="Node", value=node)
    if live.started is not None and live.ended is not None:
        yield Property(name="Duration", value=float(round(live.ended - live.started)))
