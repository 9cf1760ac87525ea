"""A shepherd, as the agent sees it, and its reports in the words of the wire."""

import asyncio
import os
import secrets
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from headnode.adapters.processes.factory import ShepherdOrder
from headnode.adapters.processes.job_journal import EndedRecord, JournalContent, Key
from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.frames import FrameWriter
from headnode.adapters.wire.messages import OpenJob
from headnode.apps.agent.machine import most_processes
from headnode.apps.agent.places import Places
from headnode.core.model import faults
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.outcome import AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.job_record import decode_spec


class ShepherdPhase(StrEnum):
    """Where a shepherd is in its life."""

    AWAITED = "awaited"  # ordered, or alive since before this agent: it will dial
    HERE = "here"  # connected
    BURYING = "burying"  # its process is gone; what it left is being killed
    GONE = "gone"  # nothing of it runs; its results may still wait for the head


class ShepherdPlace(NamedTuple):
    """What a shepherd keeps when it serves another job.

    `group` is the marker of its first job, by which its control groups are called.  `kind` is what the job
    must have in common with it; None: it serves no other job.  `born` is when it was ordered, on the
    monotonic clock.
    """

    group: str
    kind: "ShepherdKind | None" = None
    born: float = 0.0


class ShepherdKind(NamedTuple):
    """What a shepherd cannot change."""

    uid: int
    gid: int
    suspendable: bool
    most_processes: int


class Failure(NamedTuple):
    """Why there is no shepherd: a sentence, and a word of `core.model.faults`."""

    why: str
    trouble: str


class ShepherdHandle:
    """One shepherd.  Orders are queued until it is there."""

    def __init__(self, job: JobId, marker: str, journal: str, uid: int) -> None:
        """`journal`: the path of its journal."""
        self.job, self.marker, self.journal_path, self.uid = job, marker, journal, uid
        self.place = ShepherdPlace(marker)
        self.phase = ShepherdPhase.AWAITED
        self.closing = False  # told to end, or to be told so when it dials
        self.has_journal = True  # False: it is that of another job now
        self.timeout: asyncio.TimerHandle | None = None  # with one that is closing
        self.live: dict[Key, float | None] = {}  # since when it runs; None: it waits
        self.leaving: set[Key] = set()  # of them, those whose programs have ended: their files are taken away
        self.questions: set[int] = set()  # of the head, about signals, that it has not answered
        self._writer: FrameWriter | None = None
        self._kept: list[tuple[bytes, tuple[Key, ...]]] = []

    @property
    def journal(self) -> Path:
        """Return its journal, to read."""
        return Path(self.journal_path)

    def seed(self, story: JournalContent) -> None:
        """Believe its journal until it speaks for itself."""
        self.live = {**dict.fromkeys(story.queued), **story.started}

    def has_dialed(self, writer: FrameWriter, live: dict[Key, float | None]) -> list[Key]:
        """Use this connection from now on, and believe what it says is live.

        Return the attempts that we believed to be there, and that were lost on the way to it.
        """
        kept, self._kept = self._kept, []
        still_to_be_said = {key for _, keys in kept for key in keys}
        lost = [key for key in self.live if key not in live and key not in still_to_be_said]
        self.live = {**{key: None for key in self.live if key in still_to_be_said}, **live}
        self.phase, self._writer = ShepherdPhase.HERE, writer
        for message, _ in kept:
            writer.send(message)
        return lost

    def has_hung_up(self) -> None:
        """Wait for it to dial again, or to be found dead."""
        self.phase, self._writer = ShepherdPhase.AWAITED, None

    def send_at_once(self, message: bytes) -> None:
        """Tell it something that it can begin with while the agent goes on."""
        self.send(message)
        if self._writer is not None:
            self._writer.flush()

    def send(self, message: bytes, about: Sequence[Key] = ()) -> None:
        """Tell it something, now or when it dials; `about` are the attempts it is to run."""
        if self._writer is None:
            self._kept.append((message, tuple(about)))
        else:
            self._writer.send(message)


def order_for(
    opened: OpenJob, places: Places, boot: str, deadline: float | None, grace: float
) -> ShepherdOrder:
    """Return what the shepherd of a job is made from; its marker is new."""
    marker = secrets.token_hex(8)
    return ShepherdOrder(
        job=opened.job,
        marker=marker,
        boot=boot,
        uid=opened.uid,
        gid=opened.gid,
        agent_uid=os.geteuid(),
        journal=places.journal(opened.job, marker),
        run_directory=str(places.run),
        output_directory=places.captured(opened.job),
        deadline=deadline,
        grace=grace,
        suspendable=opened.suspendable,
        warning=warning_of(opened.spec),
        most_processes=most_processes(opened.max_processes),
    )


def warning_of(encoded: bytes) -> tuple[int, float, str] | None:
    """Return the signal before the run time limit of a job, as a shepherd is told; None: it has none."""
    text = decode_spec(encoded).signal
    if not text:
        return None
    from headnode.core.model.signals import read_limit_signal  # few jobs have one

    asked = read_limit_signal(text)
    return asked.number, asked.before, asked.target


class ShepherdConversation:
    """A connection of a shepherd: the job that it has, or the last one, which it has cleared away."""

    def __init__(self, writer: FrameWriter) -> None:
        self.writer = writer
        self.tended: ShepherdHandle | None = None
        self.last: ShepherdHandle | None = None


def records_of(story: JournalContent) -> list[EndedRecord]:
    """Return the results of a journal.

    Raises:  BadRequest ``shepherd-message`` when one is of a shape that we do not know.
    """
    try:
        return msgspec.convert(list(story.ended.values()), list[EndedRecord])
    except msgspec.ValidationError as error:
        raise BadRequest(
            code="shepherd-message", what=f"a shepherd wrote an invalid record: {error}"
        ) from None


def result_of(record: EndedRecord) -> m.AttemptResult:
    """Return a shepherd's record in the words of the wire."""
    return m.AttemptResult(record.task, record.instance, record.attempt, record.outcome)


def trouble_of(error: OSError | Unavailable) -> str:
    """Return in a word of `core.model.faults` why this agent cannot start an attempt."""
    return error.code if isinstance(error, Unavailable) else faults.AGENT


def words_for(error: OSError | Unavailable) -> str:
    """Return in a sentence why this agent cannot start an attempt."""
    if isinstance(error, Unavailable):
        return str(error)
    what = f"cannot use {str(error.filename)!r}" if error.filename else "cannot do its work"
    return f"the agent of the node {what}: {(error.strerror or str(error)).lower()}"


def result_without_record(
    key: Key, ending: Ending, message: str, started: float | None = None, trouble: str = ""
) -> m.AttemptResult:
    """Return a result that no shepherd gave."""
    since = None if started is None else Instant(started)
    task, instance, attempt = key
    outcome = AttemptOutcome(ending, message=message, started=since, fault=trouble)
    return m.AttemptResult(task, instance, attempt, outcome)
