"""What every store of a head promises when processes are killed, the disk is full, or a second head comes."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from journal_inputs import NOW, encoded_record
from stores import IN_FILES, LASTING, endless_writer
from test_journal import everything

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.errors import Unavailable
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstanceEnd, InstancesEnded, JobModified, JobSubmitted
from headnode.engine.ports import EndedJob, HeadStore, Prediction

Opened = Callable[[Path], HeadStore]


@pytest.fixture(params=list(LASTING))
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(store: str) -> Opened:
    return LASTING[store]


@pytest.fixture
def in_files(store: str) -> None:
    if store not in IN_FILES:
        pytest.skip("another process keeps the files of this store")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder / "journal"


def submitted(order: int) -> Event:
    return JobSubmitted(at=NOW, job=JobId(1), order=order)


def bulky(order: int) -> Event:
    return JobModified(at=NOW, job=JobId(1), spec=random.Random(order).randbytes(20_000))


def over(job: int) -> EndedJob:
    return EndedJob(
        id=JobId(job),
        owner="ada",
        name="",
        project="",
        state="failed",
        submitted=NOW,
        ended=NOW,
        record=encoded_record(),
    )


def events_in(opened: Opened, path: Path) -> list[Event]:
    journal = opened(path)
    try:
        return [event for _, event in journal.replay()]
    finally:
        journal.close()


@pytest.mark.parametrize("after", [1, 7, 40, 200])
def test_what_was_acknowledged_is_there_after_kill_9(
    store: str, opened: Opened, path: Path, after: int
) -> None:
    with endless_writer(store, path) as writer:
        assert writer.stdout is not None
        for _ in range(after):
            writer.stdout.readline()
        writer.kill()
        acknowledged = 3 * after + sum(3 for _ in writer.stdout)
    kept = len(events_in(opened, path))
    assert kept - acknowledged in (0, 3)  # the last batch may be on the disk and not yet acknowledged


@pytest.mark.usefixtures("in_files")
def test_a_batch_is_synced_before_it_is_acknowledged(store: str, path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    with endless_writer(store, path) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        watch = ["strace", "-f", "-e", "trace=fsync,fdatasync,write", "-p", str(writer.pid)]
        with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as trace:
            assert trace.stderr is not None
            calls = [line for line, _ in zip(trace.stderr, range(60), strict=False)]
            trace.kill()
        writer.kill()
    if any("ptrace" in line for line in calls):
        pytest.skip("this machine lets nobody trace a process")
    found = [line for line in calls if "sync(" in line or "write(1," in line]
    between = "".join("a" if "write(1," in line else "s" for line in found)
    assert "a" in between
    assert "aa" not in between  # between two acknowledgements the disk is waited for


def known(journal: HeadStore) -> object:
    replayed, snapshot = list(journal.replay()), journal.newest_snapshot()
    return everything(journal), replayed, snapshot, journal.prediction(JobId(2))


def test_everything_is_known_again_when_it_is_opened_anew(opened: Opened, path: Path) -> None:
    journal = opened(path)
    end = InstanceEnd(1, 2, 1, "failed", AttemptOutcome("exited", 3, started=NOW), "n1")
    journal.keep_predictions([Prediction(JobId(2), NOW, "easy", NOW)])
    journal.append([submitted(1), InstancesEnded(at=NOW, job=JobId(1), ended=(end,))], ended=[over(3)])
    journal.keep_snapshot(2, b"state")
    before = known(journal)
    journal.close()
    again = opened(path)
    assert known(again) == before
    assert again.append([submitted(2)]) == 3
    again.close()


def test_a_copy_for_a_backup_is_a_journal_of_sqlite_and_the_store_goes_on(
    opened: Opened, path: Path, tmp_path: Path
) -> None:
    journal = opened(path)
    journal.append([submitted(1), submitted(2)], ended=[over(3)])
    journal.keep_snapshot(2, b"state")
    journal.copy_to(tmp_path / "copy")
    assert journal.append([submitted(3)]) == 3
    journal.close()
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    copy = SqliteJournal(tmp_path / "copy", may_create=False)  # as `hn backup` opens it
    assert [event for _, event in copy.replay()] == [submitted(1), submitted(2)]
    assert (copy.ended_job(JobId(3)), copy.newest_snapshot()) == (over(3), (2, b"state"))
    copy.close()


def test_a_store_says_how_many_bytes_it_takes(opened: Opened, path: Path) -> None:
    journal = opened(path)
    before = journal.size()
    journal.append([bulky(number) for number in range(50)])
    assert journal.size() >= before + 1_000_000
    journal.close()


def test_a_sound_store_is_found_undamaged(opened: Opened, path: Path) -> None:
    journal = opened(path)
    journal.append([submitted(1)], ended=[over(1)])
    journal.look_over(1.0)
    assert journal.damage() == ()
    journal.close()


# A disk that is full --------------------------------------------------------------------------------------


def fill(journal: HeadStore) -> int:
    """Append until there is no room; return how many events are recorded."""
    recorded = 0
    for number in range(10_000):
        try:
            recorded = journal.append([bulky(number * 3 + n) for n in range(3)], ended=[over(number)])
        except Unavailable as error:
            assert error.code == "journal-full"  # noqa: PT017 - the number of appends before it is not known
            return recorded
    raise AssertionError("there was room for everything")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # also if a failed test has left it open


@pytest.mark.usefixtures("in_files")
def test_a_full_disk_is_refused_and_the_store_works_again_after_space_is_freed(
    opened: Opened, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 1_000_000)
    path = small_disk / "journal"
    journal = opened(path)
    recorded = fill(journal)
    with pytest.raises(Unavailable) as caught:
        journal.keep_snapshot(recorded, b"x" * 500_000)
    assert caught.value.code == "journal-full"
    assert len(list(journal.replay())) == recorded
    assert journal.count_ended(owner=None) == {"failed": recorded // 3}
    (small_disk / "ballast").unlink()
    assert journal.append([bulky(1)]) == recorded + 1
    journal.close()
    assert len(events_in(opened, path)) == recorded + 1


@pytest.mark.usefixtures("in_files")
def test_a_head_killed_on_a_full_disk_loses_nothing(opened: Opened, small_disk: Path, tmp_path: Path) -> None:
    journal = opened(small_disk / "journal")
    recorded = fill(journal)
    shutil.copytree(small_disk, tmp_path / "copy", ignore=shutil.ignore_patterns("*.lock"))
    journal.close()
    assert len(events_in(opened, tmp_path / "copy" / "journal")) == recorded


# Whose store it is ----------------------------------------------------------------------------------------


def test_a_second_head_on_the_same_store_is_refused_and_told_who_has_it(opened: Opened, path: Path) -> None:
    journal = opened(path)
    with pytest.raises(Unavailable) as caught:
        opened(path)
    assert caught.value.code == "already-running"
    assert f"process {os.getpid()} " in caught.value.what
    assert "hn down" in caught.value.fix
    journal.append([submitted(1)])
    journal.close()
    assert events_in(opened, path) == [submitted(1)]


def test_a_killed_head_leaves_no_lock_behind(store: str, opened: Opened, path: Path) -> None:
    with endless_writer(store, path) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(Unavailable) as caught:
            opened(path)
        assert caught.value.code == "already-running"
        writer.kill()
    assert len(events_in(opened, path)) >= 3


@pytest.mark.usefixtures("in_files")
def test_nobody_but_the_owner_may_read_the_store(opened: Opened, path: Path) -> None:
    journal = opened(path)
    journal.append([submitted(1)])
    modes = {file.stat().st_mode & 0o777 for file in path.parent.rglob("*") if file.is_file()}
    journal.close()
    assert modes == {0o600}
