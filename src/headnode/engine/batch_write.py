"""The write of one batch of commands to the journal, apart from the steps before and after it.

A batch is carried out in three steps: the engine applies its commands and makes their events, the events
are written, the engine answers.  The batch is a generator that yields its write, so that a thread may do it.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from headnode.core.model.errors import Broken, Unavailable
from headnode.core.model.quantities import Instant
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, RequestCarriedOut
from headnode.core.state.job_events import JobCreated, JobSubmitted, JobUnarchived
from headnode.core.state.job_record import JobRecord, encode_record
from headnode.core.state.job_request import job_names
from headnode.engine.ports import Clock, EndedJob, Journal


def ended_job(record: JobRecord) -> EndedJob:
    """Return a job that is over as the archive keeps it."""
    names = job_names(record.spec)
    ended = record.run.ended if record.run and record.run.ended is not None else record.created
    return EndedJob(
        id=record.id,
        owner=record.owner,
        name=names.name,
        project=names.project,
        state=record.state.value,
        submitted=record.submitted if record.submitted is not None else record.created,
        ended=Instant(ended),
        record=encode_record(record),
        job_group=record.group,
    )


_ADDITIONS = (JobCreated, JobSubmitted, RequestCarriedOut)


class JournalWrite:
    """The write of one batch: its events, the jobs that ended in it, and those that came back.

    Any thread may call it, once.
    """

    def __init__(self, journal: Journal, clock: Clock, cluster: ClusterState, facts: Sequence[Event]) -> None:
        self.facts = facts
        self.number = 0  # of the last event
        self.seconds = 0.0
        self._journal, self._clock = journal, clock
        alive, ended = cluster.jobs, cluster.agenda.for_archive
        self._over = [record for job, record in ended.items() if job not in alive] if ended else []
        self._revived = [event.job for event in facts if type(event) is JobUnarchived and event.job in alive]

    @property
    def only_adds(self) -> bool:
        """Whether the batch puts jobs into the queue and does nothing else."""
        added = all(type(event) in _ADDITIONS for event in self.facts)
        return added and not any(type(event) is JobSubmitted and event.validating for event in self.facts)

    def __call__(self) -> None:
        """Write.

        Raises:  Unavailable; then nothing was written.
        """
        began = self._clock.now()
        self.number = self._journal.append(self.facts, map(ended_job, self._over), self._revived)
        self.seconds = self._clock.now() - began


Answers = TypeVar("Answers")
BatchSteps = Generator[JournalWrite, None, Answers]
"""A batch: it yields its write, if it has events, and returns its answers.

The error of a write that failed is thrown into it; its answers are then refusals.
"""


def begin_batch(steps: BatchSteps[Answers]) -> JournalWrite | Answers:
    """Apply the commands of a batch; return its write, or its answers if it has no events."""
    try:
        return next(steps)
    except StopIteration as done:
        answers: Answers = done.value
        return answers


def carry_out_batch(steps: BatchSteps[Answers]) -> Answers:
    """Carry out a batch with its write; return its answers."""
    first = begin_batch(steps)
    return finish_batch(steps, first) if isinstance(first, JournalWrite) else first


def finish_batch(steps: BatchSteps[Answers], write: Callable[[], None]) -> Answers:
    """Write a batch that has begun, and return its answers.

    `write` writes, or raises the error of a write that was made before.
    """
    try:
        try:
            write()
        except Unavailable as error:
            steps.throw(error)
        next(steps)
    except StopIteration as done:
        answers: Answers = done.value
        return answers
    raise Broken(code="written-twice", what="one batch has two writes to the journal")
