"""A job whose files take long does not keep processors from others, whatever dies meanwhile."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from heads import RealHead, processes, real_head
from testbed.faulty_storage import FaultyStorage, storage_fixture

DATA = b"0123456789" * 20_000
COPY = "sh -c 'echo ran >> \"$RAN\"; cp data result'"


storage = storage_fixture(data=DATA)


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, processors=1) as head:
        values = {"TransferNetworks": "127.0.0.0/8", "TransferTimeout": "60", "TransferHoldTime": "0"}
        head.ask("set_parameters", values=values)
        yield head


def waiting(head: RealHead, storage: FaultyStorage, ran: Path, **more: str) -> int:
    """Submit a job whose file is held back by the storage; return it when it has released its processor."""
    job = head.submit(
        COPY,
        stagein=f"{storage.url}/held/data=data",
        stageout=f"result={storage.url}/result",
        env={"RAN": str(ran), "TMPDIR": str(ran.parent)},
        **more,
    )
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Suspended")
    return job


def kill(head: RealHead, victim: str, directory: Path) -> None:
    if victim == "head":
        head.kill()
        head.start_again()
    elif victim != "nobody":
        module = "adapters.staging" if victim == "transfer" else "apps.agent"
        where = directory if victim == "transfer" else head.state
        words = module.encode(), str(where).encode()
        for process in list(processes(*words)):
            os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["nobody", "transfer", "agent", "head"])
def test_others_run_while_files_come_and_it_runs_once_when_they_are_there(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    job = waiting(head, storage, tmp_path / "ran", runtime="0:00:05")
    kill(head, victim, tmp_path)
    other = head.submit("true")
    assert head.wait(other)["state"] == "Finished"
    assert head.ask("job", job=job)["job"]["allocated"] == 0
    storage.hold.set()
    assert head.wait(job)["state"] == "Finished", head.task(job)["message"]
    assert (storage.directory / "result").read_bytes() == DATA
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("victim", ["nobody", "agent", "head"])
def test_what_has_its_files_starts_when_processors_are_free(
    head: RealHead, storage: FaultyStorage, tmp_path: Path, victim: str
) -> None:
    job = waiting(head, storage, tmp_path / "ran")
    end = tmp_path / "end"
    other = head.submit(f"sh -c 'until [ -e {end} ]; do sleep 0.1; done'")
    head.until(lambda: head.ask("job", job=other)["job"]["state"] == "Running")
    storage.hold.set()
    head.until(lambda: "waits for its processors" in head.task(job)["message"])
    kill(head, victim, tmp_path)

    def waits_for_its_node() -> bool:  # a head that was killed is told again that the files are there
        reasons = head.ask("explain_job", job=job)["reasons"]
        return any("it needs 1 processor on" in each["text"] for each in reasons)

    head.until(waits_for_its_node)
    assert not (tmp_path / "ran").exists()
    end.touch()
    assert head.wait(job)["state"] == "Finished", head.task(job)["message"]
    assert (tmp_path / "ran").read_text() == "ran\n"
    begun, over = head.task(job)["started"], head.ask("job", job=other)["job"]["ended"]
    assert begun >= over


def test_the_time_for_files_is_not_in_its_limit(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    job = waiting(head, storage, tmp_path / "ran", runtime="0:00:04")
    before = time.monotonic()
    head.until(lambda: time.monotonic() > before + 6)  # longer than its limit
    storage.hold.set()
    assert head.wait(job)["state"] == "Finished"


def test_it_is_told_what_it_waits_for_and_about_how_long(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    storage.put("other", DATA)
    document = {
        "command": "wc data",
        "work_directory": str(tmp_path),
        "stage_in": {"other": f"{storage.url}/other", "data": f"{storage.url}/held/data"},
    }
    job = head.ask("submit_job", jobfile=json.dumps(document))["job"]
    words = (
        r"it waits for 1 of 2 input files from 127\.0\.0\.1; 0\.3 of 0\.4 MB are copied, "
        r"the rest in about \d+ (s|min \d+ s) at [\d.]+ [kM]B/s\. It holds no processors"
    )
    head.until(lambda: re.fullmatch(words, head.ask("job", job=job)["job"]["pending_reason"]))
    (reason,) = head.ask("explain_job", job=job)["reasons"]
    assert (reason["kind"], bool(re.fullmatch(words, reason["text"]))) == ("staging", True), reason
    _is_expected_when_its_files_are_there(head, job)
    storage.hold.set()
    assert head.wait(job)["state"] == "Finished"
    story = [each["text"] for each in head.ask("job_history", job=job)["history"]]
    assert "It has released its processors, while its input files are copied" in story


def _is_expected_when_its_files_are_there(head: RealHead, job: int) -> None:
    def starts() -> bool:
        expected = head.ask("explain_job", job=job)["expected"]
        return expected["p50"] is not None

    head.until(starts)
    now, expected = time.time(), head.ask("job", job=job)["job"]["expected"]
    assert expected["promise"] is None
    assert "no promise" in expected["reason"]
    assert now < expected["files_by"] <= expected["p50"] + 0.01
    listed = next(each for each in head.ask("jobs")["jobs"] if each["id"] == job)
    assert listed["expected"]["files_by"] > now


def test_behind_a_running_job_it_starts_later_than_its_files_come(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    storage.put("other", DATA)
    document = {
        "command": "wc data",
        "work_directory": str(tmp_path),
        "stage_in": {"other": f"{storage.url}/other", "data": f"{storage.url}/held/data"},
    }
    job = head.ask("submit_job", jobfile=json.dumps(document))["job"]
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Suspended")
    tasks = [{"command": "sleep 600"}]
    other = head.ask("submit_job", tasks=tasks, terms={"runtime": "1:00"})["job"]
    head.until(lambda: head.ask("job", job=other)["job"]["state"] == "Running")
    head.until(lambda: (head.ask("explain_job", job=job)["expected"]["p50"] or 0) > time.time() + 1800)
    expected = head.ask("explain_job", job=job)["expected"]
    assert expected["files_by"] < time.time() + 1800 < expected["p50"]
    head.ask("cancel_job", job=job)
    head.ask("cancel_job", job=other)


def test_a_job_that_holds_its_processors_while_files_come_is_explained_too(
    head: RealHead, storage: FaultyStorage, tmp_path: Path
) -> None:
    head.ask("set_parameters", values={"TransferHoldTime": "3600"})
    storage.put("other", DATA)
    document = {
        "command": "wc data",
        "work_directory": str(tmp_path),
        "stage_in": {"other": f"{storage.url}/other", "data": f"{storage.url}/held/data"},
    }
    job = head.ask("submit_job", jobfile=json.dumps(document))["job"]

    def reported() -> bool:
        answer = head.ask("explain_job", job=job)
        return bool(answer["expected"] and answer["expected"]["p50"])

    head.until(reported)
    answer = head.ask("explain_job", job=job)
    assert (answer["state"], answer["reasons"][0]["text"].endswith("It holds 1 processor")) == (
        "Running",
        True,
    )
    assert answer["expected"]["p50"] == answer["expected"]["files_by"]
    storage.hold.set()
    assert head.wait(job)["state"] == "Finished"


def test_every_screen_says_that_it_stages(head: RealHead, storage: FaultyStorage, tmp_path: Path) -> None:
    job = waiting(head, storage, tmp_path / "ran")
    shown = head.ask("job", job=job)["job"]
    assert (shown["state"], shown["state_detail"]) == ("Suspended", "staging in")

    def reported(*words: str) -> str:
        code = "from headnode.apps.cli.program import main; main()"
        command = [sys.executable, "-c", code, *words, "--state-directory", str(head.state)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    listed = reported("job", "list", "--format", "table")
    assert ("Staging" in listed, "input files from 127.0.0.1; " in listed) == (True, True), listed
    assert "staging in" in reported("job", "view", str(job))
    slurm = Programs(head, tmp_path / "bin")
    assert slurm.output(f"squeue -h -j {job} -o '%t %r'", tmp_path) == "PD BurstBufferStageIn"
    assert f"Job {job} of " in (found := reported("job", "explain", str(job)))
    assert "is staging: it starts when its files are there" in found
    storage.hold.set()
    assert head.wait(job)["state"] == "Finished"


def test_one_that_is_canceled_leaves_nothing(head: RealHead, storage: FaultyStorage, tmp_path: Path) -> None:
    job = waiting(head, storage, tmp_path / "ran")
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    head.until(lambda: not list(processes(b"headnode.adapters.staging", str(tmp_path).encode())))
    head.until(lambda: not list(tmp_path.glob("headnode-*")))
