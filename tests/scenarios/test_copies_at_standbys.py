"""A copy of the journal takes the place of that of a standby: a kill at any step loses neither."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.journal.sqlite import JOURNAL, SqliteJournal
from headnode.adapters.wire.standby_messages import JournalPiece
from headnode.apps.standby.journal_copy import COPY, JournalCopy, open_replica, settled_replica
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.quantities import Instant
from headnode.core.state.events import ParameterSet

STEPS = ("rename", "unlink", "hardlink_to")


class Killed(BaseException):
    """The process was killed."""


def write(path: Path, words: Sequence[str]) -> None:
    """Write a journal with an event for each word."""
    journal = SqliteJournal(path)
    for word in words:
        journal.append([ParameterSet(at=Instant(1.0), name="ClusterEnvironment", value=f"A={word}")])
    journal.close()


def copy_of(path: Path, words: Sequence[str]) -> bytes:
    """Return a journal whose first events are those of `path`, followed by others."""
    whole = path.with_name("whole.db")
    source = SqliteJournal(path)
    source.copy_to(whole)
    source.close()
    write(whole, words)
    return whole.read_bytes()


def kill_at(step: int, patch: pytest.MonkeyPatch) -> None:
    """Let the process be killed before the change of a directory with this number."""
    left = [step]

    def before(name: str) -> Any:
        real = getattr(Path, name)

        def changed(self: Path, *args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(self, *args, **options)

        return changed

    for name in STEPS:
        patch.setattr(Path, name, before(name))


@pytest.mark.parametrize("differs", [False, True])
@pytest.mark.parametrize("step", range(9))
def test_a_kill_at_any_step_leaves_a_whole_journal(tmp_path: Path, step: int, *, differs: bool) -> None:
    state = tmp_path / "state"
    state.mkdir()
    write(state / JOURNAL, ["1", "2", "3"])
    if differs:
        write(tmp_path / "other.db", ["a", "b", "c", "d"])
    data = copy_of(tmp_path / "other.db" if differs else state / JOURNAL, ["4", "5"])
    before = settled_replica(state)
    assert before is not None
    taken = JournalCopy(state)
    assert taken.take(JournalPiece(data, True, hashlib.sha256(data).hexdigest()))
    with pytest.MonkeyPatch.context() as patch:
        kill_at(step, patch)
        try:
            taken.install(before).store.close()
        except Killed:
            before.store.close()  # the kernel does that
    replica = settled_replica(state)
    assert replica is not None
    assert replica.number in (3, 6 if differs else 5)
    replica.store.close()
    if differs and replica.number == 6:
        kept = [file for file in state.glob(f"{JOURNAL}.to-event-3*") if file.suffix != ".lock"]
        assert kept
        for file in kept:  # a kill may have left a second name of it
            assert words_in(file) == ["A=1", "A=2", "A=3"]


def words_in(path: Path) -> list[str | None]:
    """Return what the events of a journal say."""
    kept = SqliteJournal(path, may_create=False)
    words = [event.value for _, event in kept.replay() if isinstance(event, ParameterSet)]
    kept.close()
    return words


def test_what_was_kept_is_never_written_over(tmp_path: Path) -> None:
    for turn in ("x", "y", "z"):
        if turn != "x":
            (tmp_path / JOURNAL).unlink()
        write(tmp_path / JOURNAL, [turn, turn])
        before = open_replica(tmp_path)
        other = tmp_path / turn
        other.mkdir()
        write(other / JOURNAL, ["other"])
        data = (other / JOURNAL).read_bytes()
        taken = JournalCopy(tmp_path)
        taken.take(JournalPiece(data, True, hashlib.sha256(data).hexdigest()))
        taken.install(before).store.close()
    assert len(list(tmp_path.glob(f"{JOURNAL}.to-event-2*"))) == 3


def test_a_copy_that_is_not_what_was_sent_or_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL, ["1"])
    before = open_replica(tmp_path)
    taken = JournalCopy(tmp_path)
    with pytest.raises(BadRequest, match="not what the head sent"):
        taken.take(JournalPiece(b"data", True, "0" * 64))
    assert not (tmp_path / COPY).exists()
    junk = b"SQLite format 3\0" + b"\xaa" * 8192
    assert taken.take(JournalPiece(junk, True, hashlib.sha256(junk).hexdigest()))
    with pytest.raises(Unavailable):
        taken.install(before)
    assert before.store.checksum_of(1) is not None
    before.store.close()
    assert (tmp_path / COPY).stat().st_mode & 0o777 == 0o600
