"""Files come before a job is handed over, and go after it has ended there, once, whatever is killed."""

import contextlib
import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sites import add_resource

from depth import share_of
from headnode.core.model.errors import BadRequest
from heads import RealHead, processes, real_head
from testbed.faulty_storage import FaultyStorage, storage_fixture
from testbed.pbs_peer import PbsPeer, pbs_peer

DATA = b"0123456789" * 20_000
PROGRAM = b'#!/bin/sh\necho "$@"\ncat data > result\necho ran >> "$RAN"\nexit "${CODE:-0}"\n'
MODULE = b"headnode.adapters.staging.attempt_transfer"
NOBODY = 65534


storage = storage_fixture(data=DATA, prog=PROGRAM)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[PbsPeer]:
    with pbs_peer(tmp_path / "site", speaks="openpbs", defects=[]) as peer:
        yield peer


@pytest.fixture
def head(tmp_path: Path, peer: PbsPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        add(head, peer, tmp_path)
        head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8", "TransferTimeout": "20"})
        yield head


def add(head: RealHead, peer: PbsPeer, directory: Path, **fields: Any) -> None:
    add_resource(head, "old", "pbs", directory, programs=str(peer.programs), **fields)


def staged(head: RealHead, storage: FaultyStorage, ran: Path, **more: Any) -> int:
    """Submit a job whose program, input and result are on the storage."""
    fields = {
        "stagein": f"{storage.url}/data=data",
        "stageout": f"result={storage.url}/result",
        "env": {"RAN": str(ran), **more.pop("env", {})},
        **more,
    }
    return head.submit(f"{storage.url}/prog one two", terms={"resource": "old"}, **fields)


def end_of(head: RealHead, job: int) -> tuple[str, str]:
    return head.wait(job)["state"], head.task(job)["message"]


def attempts_of(directory: Path) -> list[Path]:
    return list(directory.glob("attempts/*/*/hn-*"))


def came(storage: FaultyStorage, path: str) -> int:
    return sum(asked == ("GET", path, "") for asked in storage.asked)


def transfers(directory: Path) -> list[int]:
    """Return the processes that transfer files of this head."""
    return list(processes(MODULE, str(directory).encode()))


def test_a_program_and_its_input_come_and_its_result_goes(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran")
    assert end_of(head, job) == ("Finished", "")
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert read["data"] in (b"one two\n", "b25lIHR3bwo=")
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"
    (attempt,) = attempts_of(tmp_path)
    assert not (attempt / "files").exists()


def test_what_its_program_does_is_saved_also_after_a_failure(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", env={"CODE": "3"})
    state, _ = end_of(head, job)
    assert (state, head.task(job)["exit_code"]) == ("Failed", 3)
    assert (storage.directory / "result").read_bytes() == DATA


def test_a_file_that_cannot_come_fails_the_task_and_nothing_is_submitted(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/404/data=data")
    state, message = end_of(head, job)
    assert state == "Failed"
    assert f"'data' was not transferred from {storage.url}/404/data (attempt 1 of 5)" in message
    assert head.task(job).get("started") is None
    assert peer.names() == []
    (attempt,) = attempts_of(tmp_path)
    assert not (attempt / "files").exists()


def test_a_result_that_cannot_be_saved_fails_the_task_and_is_kept(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stageout=f"result={storage.url}/507/result")
    state, message = end_of(head, job)
    assert state == "Failed"
    kept = Path(message.partition("its results are in ")[2])
    assert kept.parent in attempts_of(tmp_path)
    assert (kept / "result").read_bytes() == DATA
    assert head.task(job)["exit_code"] == 0


def kill(head: RealHead, victim: str, directory: Path) -> None:
    if victim == "head":
        head.kill()
        head.start_again()
        return
    mine = victims(head, victim, directory)
    assert mine
    for process in mine:
        os.kill(process, signal.SIGKILL)


def victims(head: RealHead, victim: str, directory: Path) -> list[int]:
    if victim == "transfer":
        return transfers(directory)
    return [each for each in processes(b"headnode.apps.handoff") if parent_of(each) == head.process.pid]


def parent_of(process: int) -> int:
    """Return the parent of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("victim", ["transfer", "hand-off", "head"])
def test_whoever_is_killed_while_files_come_each_comes_once_and_the_task_runs_once(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    storage.put("first", b"first")
    files = f"{storage.url}/first=first\n{storage.url}/held/data=data"
    job = staged(head, storage, tmp_path / "ran", stagein=files)
    head.until(lambda: came(storage, "/held/data") and came(storage, "/first") and came(storage, "/prog"))
    (attempt,) = attempts_of(tmp_path)
    head.until(lambda: (attempt / "transfers").read_text().count('"file"') == 2)
    kill(head, victim, tmp_path)
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert (came(storage, "/first"), came(storage, "/prog")) == (1, 1)
    assert len(peer.names()) == 1


@pytest.mark.parametrize("victim", ["transfer", "hand-off", "head"])
def test_whoever_is_killed_while_results_go_they_arrive_and_nothing_runs_again(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    job = staged(head, storage, tmp_path / "ran", stageout=f"result={storage.url}/held/result")
    head.until(lambda: any(path == "/held/result" for _, path, _ in storage.asked))
    head.until(lambda: head.task(job)["message"].startswith("0 of 1 output files are copied"))
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    kill(head, victim, tmp_path)
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert len(peer.names()) == 1


def test_a_job_that_is_canceled_while_files_come_is_never_submitted_and_leaves_no_file(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: came(storage, "/held/data"))
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    (attempt,) = attempts_of(tmp_path)
    assert not (attempt / "files").exists()
    assert transfers(tmp_path) == []
    assert peer.names() == []


def test_a_job_that_is_canceled_while_results_go_leaves_no_file(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stageout=f"result={storage.url}/held/result")
    head.until(lambda: any(path == "/held/result" for _, path, _ in storage.asked))
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    (attempt,) = attempts_of(tmp_path)
    assert not (attempt / "files").exists()
    assert transfers(tmp_path) == []


def test_it_is_told_how_far_the_files_are_and_that_it_waits_for_them(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = staged(head, storage, tmp_path / "ran", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: head.task(job)["message"].startswith("1 of 2 input files are copied, 0.1 MB"))
    shown = head.ask("job", job=job)["job"]
    assert (shown["state"], shown["state_detail"]) == ("Queued", "staging in")
    assert shown["pending_reason"].startswith("it waits for 1 of 2 input files from 127.0.0.1; 0.1 of 0.2 MB")
    reasons = head.ask("explain_job", job=job)["reasons"]
    assert [each["kind"] for each in reasons][:1] == ["staging"]
    types = [each["type"] for each in head.ask("events", jobs=[job], after=0)["events"]]
    assert "task.staging" in types
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")


@pytest.mark.parametrize("bound", ["TransfersPerNode", "TransfersPerStorage", "TransfersPerJob"])
def test_transfers_wait_for_each_other(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, bound: str
) -> None:
    head.ask("set_parameters", values={bound: "1"})
    storage.put("other1", DATA)
    storage.put("other2", DATA)
    first = staged(head, storage, tmp_path / "a", stagein=f"{storage.url}/held/data=data")
    head.until(lambda: came(storage, "/held/data"))
    second = staged(head, storage, tmp_path / "b", stagein=f"{storage.url}/other1=data")
    if bound == "TransfersPerJob":
        assert end_of(head, second) == ("Finished", "")
    else:
        waits_for = "a free slot" if bound == "TransfersPerNode" else "127.0.0.1"
        head.until(lambda: head.task(second)["message"].endswith(f"it waits for {waits_for}"))
        assert came(storage, "/other1") == 0
    storage.hold.set()
    for job in (first, second):
        assert end_of(head, job) == ("Finished", "")


def test_every_instance_of_a_sweep_has_files_of_its_own(head: RealHead, storage: FaultyStorage) -> None:
    for number in (1, 2, 3):
        storage.put(f"in.{number}", str(number).encode())
    job = head.submit(
        "cp data made",
        terms={"resource": "old"},
        parametric="1-3",
        stagein=f"{storage.url}/in.*=data",
        stageout=f"made={storage.url}/out.*",
    )
    assert head.wait(job)["state"] == "Finished"
    assert [(storage.directory / f"out.{n}").read_text() for n in (1, 2, 3)] == ["1", "2", "3"]


def test_secrets_of_urls_are_in_no_script_argument_or_message(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    signed = f"{storage.url}/held/data?signature=secret-word"
    job = staged(head, storage, tmp_path / "ran", stagein=f"{signed}=data")
    head.until(lambda: any(path.startswith("/held/data") for _, path, _ in storage.asked))
    seen = [each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if each.exists()]
    assert not any(b"secret-word" in words for words in seen)
    assert transfers(tmp_path)
    storage.hold.set()
    assert end_of(head, job) == ("Finished", "")
    failing = head.submit(
        "true", terms={"resource": "old"}, stagein=f"{storage.url}/404/x?signature=secret-word=x"
    )
    assert end_of(head, failing)[0] == "Failed"
    answer = [head.ask(verb, job=failing) for verb in ("job_history", "explain_job", "tasks", "job_states")]
    assert "secret-word" not in json.dumps([*answer, head.task(failing)["message"]])
    files = [each for each in (tmp_path / "attempts").rglob("*") if each.is_file()]
    assert files
    assert not any(b"secret-word" in each.read_bytes() for each in files)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs a directory of another user")
def test_a_directory_that_another_user_has_made_is_refused(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path
) -> None:
    theirs = tmp_path / "attempts" / "root"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    state, message = end_of(head, staged(head, storage, tmp_path / "ran"))
    assert state == "Failed"
    assert "is not a directory of its user" in message
    assert peer.names() == []


def test_a_directory_that_is_away_is_waited_for(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    (tmp_path / "attempts").rename(tmp_path / "away")
    job = staged(head, storage, tmp_path / "ran")
    head.until(lambda: "there is no directory" in head.ask("job", job=job)["job"]["pending_reason"])
    (tmp_path / "away").rename(tmp_path / "attempts")
    assert end_of(head, job) == ("Finished", "")


@pytest.mark.parametrize(
    ("place", "fields"),
    [({"host": "elsewhere.example"}, {}), ({}, {"stagein": "https://storage.example.org/x=/data/x"})],
)
def test_files_that_the_resource_would_not_see_are_refused(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path, place: Any, fields: Any
) -> None:
    add(head, peer, tmp_path, **place)
    with pytest.raises(BadRequest, match="staged files"):
        staged(head, storage, tmp_path / "ran", **fields)


def test_a_sweep_is_whole_and_runs_once_though_processes_are_killed_at_random(
    head: RealHead, peer: PbsPeer, storage: FaultyStorage, tmp_path: Path
) -> None:
    dice, numbers = random.Random(7), range(1, max(8, share_of(20)) + 1)
    for number in numbers:
        storage.put(f"in.{number}", str(number).encode() * 50_000)
    job = head.submit(
        f"sh -c 'echo $CCP_TASKINSTANCEID >> {tmp_path}/ran; cp data made'",
        terms={"resource": "old"},
        parametric=f"1-{len(numbers)}",
        rerunnable="false",
        stagein=f"{storage.url}/in.*=data",
        stageout=f"made={storage.url}/out.*",
    )
    for _ in range(share_of(12)):
        head.until(lambda: transfers(tmp_path) or head.ask("job", job=job)["job"]["state"] != "Queued")
        for process in victims(head, dice.choice(["transfer", "hand-off"]), tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert end_of(head, job)[0] == "Finished"
    for number in numbers:
        assert (storage.directory / f"out.{number}").read_bytes() == str(number).encode() * 50_000
    assert sorted((tmp_path / "ran").read_text().split(), key=int) == [str(number) for number in numbers]
    assert len(peer.names()) == len(set(peer.names())) == len(numbers)
