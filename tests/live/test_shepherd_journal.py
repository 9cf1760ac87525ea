"""What a shepherd wrote down reads back, whatever killed it; its factory needs only the standard library."""

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.adapters.processes import job_journal
from headnode.adapters.processes.job_journal import EndedRecord, Header, Writer
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant

HEADER = Header(job=7, marker="abc", boot="boot", process=1, uid=0)


def ended(number: int, instance: int) -> EndedRecord:
    usage = ResourceUsage(0.1, 0.2, 900)
    outcome = AttemptOutcome("exited", 0, None, Instant(1.0), Instant(2.0), usage=usage)
    return EndedRecord(number, 1, instance, 1, outcome)


def write(path: Path) -> Writer:
    writer = Writer(str(path), HEADER)
    writer.append([["queued", 1, [[1, 1], [2, 1], [3, 1]]], ["started", 1, 1, 1, 5.0]])
    writer.append([["ended", *ended(1, 1)], ["started", 1, 2, 1, 6.0]])
    return writer


def test_a_journal_shows_what_waits_what_runs_and_what_is_over(tmp_path: Path) -> None:
    writer = write(tmp_path / "j")
    story = job_journal.read(tmp_path / "j")
    assert story == job_journal.JournalContent(
        HEADER, {(1, 3, 1): None}, {(1, 2, 1): 6.0}, {1: ended(1, 1)}, {}
    )
    writer.append([["acknowledged", 1, 1]])
    after = job_journal.read(tmp_path / "j")
    assert after is not None
    assert after.ended == {}


def test_cut_anywhere_it_shows_what_its_whole_lines_say(tmp_path: Path) -> None:
    write(tmp_path / "j")
    whole = (tmp_path / "j").read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(len(whole)):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:size])
        story = job_journal.read(cut)
        if size < first - 1:
            assert story is None, size
            continue
        assert story is not None
        lines = [json.loads(line) for line in whole[:size].split(b"\n")[:-1]]
        assert len(story.ended) == sum(line[0] == "ended" for line in lines)
        assert len(story.queued) + len(story.started) + len(story.ended) in (0, 3)


def test_it_is_known_to_live_as_long_as_its_writer_does(tmp_path: Path) -> None:
    path = tmp_path / "j"
    program = (
        "import sys; from headnode.adapters.processes.job_journal import Header, Writer; "
        f"writer = Writer({str(path)!r}, Header{tuple(HEADER)!r}); "
        "print('written', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        assert job_journal.lives(path)
        writer.kill()
        writer.wait()
        assert not job_journal.lives(path)


def test_what_does_not_fit_on_the_disk_leaves_the_journal_whole(tmp_path: Path) -> None:
    writer = write(tmp_path / "j")
    before = (tmp_path / "j").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal_before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.append([["acknowledged", 1, 1], ["acknowledged", 1, 2]])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, signal_before)
    assert (tmp_path / "j").read_bytes() == before
    writer.append([["acknowledged", 1, 1]])
    assert (tmp_path / "j").read_bytes() == before + b'["acknowledged",1,1]\n'


def test_the_factory_loads_only_the_standard_library_and_stays_small(tmp_path: Path) -> None:
    root = Path(job_journal.__file__).parents[3]
    program = (
        f"import sys; sys.path.insert(0, {str(root)!r}); import headnode.adapters.processes.fork_server; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names));"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmRSS')).split()[1])"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    modules, memory = result.stdout.splitlines()
    assert modules.split() == ["__main__", "headnode"] or modules.split() == ["headnode"]
    assert int(memory) < 25_000
