"""What a shepherd writes down of each instance, so that another agent can read it when the shepherd is
gone.

Standard library only: this is loaded by the shepherd factory.
"""

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headnode.core.model.outcome import AttemptOutcome, ResourceUsage, TransferUsage

Key = tuple[int, int, int]
"""Task, instance, attempt."""

# What `json.JSONEncoder(separators=(",", ":")).encode` makes for each record: half of what a record costs.
_encode: Callable[[object, int], Iterable[str]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)


class UnknownRecordError(Exception):
    """A record that this version of Headnode does not know: a newer one wrote it."""

    def __init__(self, path: Path, line: bytes) -> None:
        shown = line[:80].decode(errors="replace")
        super().__init__(f"{path} has a record that this version of Headnode does not know: {shown}")


class Header(NamedTuple):
    """Whose journal it is."""

    job: int
    marker: str
    boot: str
    process: int
    uid: int


class EndedRecord(NamedTuple):
    """How one attempt ended, by the number of the record."""

    number: int
    task: int
    instance: int
    attempt: int
    outcome: AttemptOutcome

    @property
    def key(self) -> Key:
        """Which attempt it is about."""
        return (self.task, self.instance, self.attempt)


def never_ran_record(number: int, key: Key) -> EndedRecord:
    """Return the record of an attempt that was taken back before it started."""
    return EndedRecord(number, *key, AttemptOutcome("never-ran"))


def with_unwritten(record: EndedRecord, why: str) -> EndedRecord:
    """Return a record that says, too, why it could not be written down."""
    message = "; ".join(filter(None, (record.outcome.message, why)))
    return record._replace(outcome=record.outcome._replace(message=message))


def line_of(record: Sequence[Any]) -> str:
    """Return a record as a line of a journal, without its end; a tuple is written as a list."""
    return "".join(_encode(record, 0))


class JournalContent(NamedTuple):
    """What a journal tells: the attempts that are not over, and the results that the head may not know."""

    header: Header
    queued: dict[Key, None]
    started: dict[Key, float]
    ended: dict[int, EndedRecord]  # by number, without those told
    private: dict[
        str, None
    ]  # directories that were made for attempts, in their order; most are removed again


_KEPT = 64 * 1024  # bytes of a journal that are made blank for the next job; a longer one is cut off


class Writer:
    """Appends to a journal.  A batch is in the file as a whole or not at all.

    Behind the records there may be empty lines, which readers pass over: to cut a file off and to fill it
    again takes ten times as long as to write over it, because the file system frees and finds its room.
    """

    def __init__(self, path: str, header: Header) -> None:
        """Create the file and lock it.

        Raises:  OSError, also when the file exists.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._size = 0
        self.begin(header)

    def begin(self, header: Header) -> None:
        """Write the first record; the journal is new.

        Raises:  OSError.
        """
        self.append_lines([_first_line(header)])

    def has_begun(self, header: Header) -> bool:
        """Whether the journal was cleared, and the agent has written this first record; then go on behind it.

        Raises:  OSError.
        """
        first = f"{_first_line(header)}\n".encode()
        self._size = len(first)
        return os.pread(self._file, len(first) + 1, 0) in (first, first + b"\n")

    def clear(self) -> None:
        """Remove all records, for another job.

        Raises:  OSError.
        """
        if self._size > _KEPT or os.pwrite(self._file, b"\n" * self._size, 0) < self._size:
            os.ftruncate(self._file, 0)
        self._size = 0

    def append(self, records: Iterable[Sequence[Any]]) -> None:
        """Write the records at the end.

        Raises:  OSError when the disk has no room; then none of them is there.
        """
        self.append_lines(map(line_of, records))

    def append_lines(self, lines: Iterable[str]) -> None:
        """Write records at the end, which are lines already.

        Raises:  as `append`.
        """
        data = "".join([f"{line}\n" for line in lines]).encode()
        try:
            written = os.pwrite(self._file, data, self._size)
            if written < len(data):
                written += os.pwrite(self._file, data[written:], self._size + written)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += written


def begin_next(path: str | Path, header: Header) -> None:
    """Write the first record of the next job into the journal of a shepherd, which has cleared it.

    Raises:  OSError; then the shepherd must not serve that job.
    """
    first = f"{_first_line(header)}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.write(file, first) < len(first):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(file)


def _first_line(header: Header) -> str:
    return line_of(["shepherd", *header])


def lives(path: Path) -> bool:
    """Tell whether the shepherd that writes this journal lives."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def read(path: Path) -> JournalContent | None:
    """Return what a journal tells; None when not even its first line is whole."""
    lines = path.read_bytes().split(b"\n")
    try:
        word, *fields = json.loads(lines[0])
        header = Header(*fields)
    except (ValueError, TypeError):
        return None
    if word != "shepherd":
        return None
    story = JournalContent(header, {}, {}, {}, {})
    for line in lines[1:-1]:  # behind the last line end there is nothing, or half a line
        if not line:
            continue
        try:
            record = json.loads(line)
        except ValueError:
            continue
        try:
            _take(story, record)
        except (TypeError, ValueError):
            raise UnknownRecordError(path, line) from None
    return story


def _take(story: JournalContent, record: list[Any]) -> None:
    match record:
        case ["queued", task, attempts]:
            story.queued.update({(task, instance, attempt): None for instance, attempt in attempts})
        case ["started", task, instance, attempt, at]:
            story.queued.pop((task, instance, attempt), None)
            story.started[(task, instance, attempt)] = at
        case ["private", path]:
            story.private[path] = None
        case ["kept", path]:
            story.private.pop(path, None)
        case ["ended", *fields]:
            ended = _ended(*fields)
            story.queued.pop(ended.key, None)
            story.started.pop(ended.key, None)
            story.ended[ended.number] = ended
        case ["acknowledged", first, last]:
            for number in range(first, last + 1):
                story.ended.pop(number, None)
        case _:
            raise ValueError


def _ended(number: int, task: int, instance: int, attempt: int, outcome: list[Any]) -> EndedRecord:
    said = AttemptOutcome(*outcome)
    moved = said.transfers and TransferUsage(*said.transfers)
    said = said._replace(usage=ResourceUsage(*said.usage), transfers=moved)
    return EndedRecord(number, task, instance, attempt, said)
