"""Many jobs in one request on a real head: SDK, command line, REST API; and kill -9 meanwhile."""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gateways import real_gateway

from headnode.adapters.wire.frame_codec import frame
from headnode.core.model.errors import HeadnodeError
from headnode.sdk import AsyncHeadnodeClient, BadRequest, HeadnodeClient
from headnode.sdk.synchronous.client import JobHandle
from heads import RealHead, real_head, shared_head_fixture

ROUNDS, JOBS_OF_ROUND = 12, 40
COMPILER = shutil.which("cc")

head = shared_head_fixture()


def hn(
    head: RealHead, *words: str, lines: str = "", cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "headnode.apps.cli", "job", "submit", "--state", str(head.state), *words],
        input=lines,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def outputs(head: RealHead, text: str) -> list[str]:
    jobs = [int(line.rpartition(" ")[2].rstrip(".")) for line in text.splitlines() if "submitted" in line]
    for job in jobs:
        assert head.wait(job)["state"] == "Finished"
    return [head.output(job) for job in jobs]


def test_the_sdk_submits_many_and_returns_a_job_or_an_error_for_each(head: RealHead) -> None:
    jobs = [{"command": ["echo", str(n)], "name": f"many {n}"} for n in range(1001)]
    with HeadnodeClient(head.state) as client:
        found = client.submit_many([*jobs[:2], {"command": "true", "run_time": "soon"}, *jobs[2:]])
        refused = found.pop(2)
        assert isinstance(refused, BadRequest)
        assert refused.path[:2] == ("submissions", 2)
        handles = [each for each in found if isinstance(each, JobHandle)]
        assert len({job.id for job in handles}) == 1001
        handles[1000].wait(timeout=120, check=True)
        assert handles[1000].output() == "1000\n"
        with pytest.raises(BadRequest, match="too-many-jobs"):
            client.submit_many(jobs, all_or_none=True)


def test_coroutines_submit_many_and_a_key_makes_them_once(head: RealHead) -> None:
    async def ask() -> list[int]:
        async with AsyncHeadnodeClient(head.state) as client:
            found = await client.submit_many([{"command": "true"}] * 3, idempotency="once")
            return [each.id for each in found if not isinstance(each, HeadnodeError)]

    first = asyncio.run(ask())
    assert (asyncio.run(ask()), len(first)) == (first, 3)


def test_each_line_is_a_command_a_job_or_the_argument_of_a_program(head: RealHead, tmp_path: Path) -> None:
    lines = 'echo "a  b" | tr a c\n\n{"name": "j", "command": "pwd", "work_directory": "/"}\n'
    result = hn(head, "--each-line", "-", lines=lines)
    assert (result.returncode, outputs(head, result.stdout)) == (0, ["c  b\n", "/\n"])
    (tmp_path / "words").write_text("$HOME\nit's\n")
    result = hn(head, "--each-line", str(tmp_path / "words"), "echo", "<{}>", "end")
    assert (result.returncode, outputs(head, result.stdout)) == (0, ["<$HOME> end\n", "<it's> end\n"])
    result = hn(head, "--each-line", str(tmp_path / "words"), "echo")
    assert outputs(head, result.stdout) == ["$HOME\n", "it's\n"]


def test_a_refused_line_is_named_and_the_others_are_submitted(head: RealHead) -> None:
    lines = 'true\n{"command": "true", "run_tyme": 3}\ntrue\n'
    result = hn(head, "--each-line", "-", lines=lines)
    assert (result.returncode, result.stdout.count("submitted")) == (1, 2)
    assert "-:2: " in result.stderr
    assert "run_tyme" in result.stderr
    before = len(head.ask("jobs", limit=1000)["jobs"])
    none = hn(head, "--each-line", "-", "--all-or-none", lines=lines)
    assert (none.returncode, none.stdout) == (2, "")
    assert "submission 2 of 3" in none.stderr
    assert len(head.ask("jobs", limit=1000)["jobs"]) == before


def test_an_option_that_would_be_lost_is_refused(head: RealHead, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('command = "echo a"\n')
    for words, lines in (
        (("--env", "A=1", "a.toml", "a.toml"), ""),
        (("--stdout", "out", "--each-line", "-"), '{"command": "true"}\n'),
        (("--lenient", "--each-line", "-"), "true\n"),
        (("--group", "g", "--each-line", "-"), "true\n"),
    ):
        result = hn(head, *words, lines=lines, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr


def test_several_job_files_are_submitted_at_once_and_again_with_the_key_not_twice(
    head: RealHead, tmp_path: Path
) -> None:
    (tmp_path / "a.toml").write_text('command = "echo a"\n')
    (tmp_path / "b.xml").write_text('<Job><Tasks><Task CommandLine="echo b" /></Tasks></Job>')
    words = ("--idempotency-key", "several-files", "a.toml", "b.xml")
    first, again = (hn(head, *words, cwd=tmp_path) for _ in range(2))
    assert (first.returncode, first.stdout) == (0, again.stdout)
    assert outputs(head, first.stdout) == ["a\n", "b\n"]
    waited = hn(head, "--wait", "a.toml", "b.xml", cwd=tmp_path)
    assert waited.returncode == 0
    assert {"a", "b"} <= set(waited.stdout.splitlines())


def test_the_rest_api_takes_many_submissions(head: RealHead) -> None:
    request = {"submissions": [{"tasks": [{"command": "true"}]}, {"terms": {"nonsense": 1}}]}
    with real_gateway(head) as gateway, gateway.browser() as client:
        answer = client.post("/api/v1/job-submissions", json=request, headers={"Idempotency-Key": "rest"})
        again = client.post("/api/v1/job-submissions", json=request, headers={"Idempotency-Key": "rest"})
    made, refused = answer.json()["submissions"]
    assert (answer.status_code, made["job"], refused["refused"]["code"]) == (
        200,
        again.json()["jobs"][0],
        "unknown-option",
    )
    assert again.json()["repeated"]


Submit = Callable[[RealHead, list[dict[str, str]], str], list[int]]


@pytest.mark.parametrize("disk", ["as it is", "slow"])
@pytest.mark.parametrize("how", ["together", "pipelined"])
def test_no_job_is_lost_or_doubled_when_the_head_is_killed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str, how: str
) -> None:
    if disk == "slow":
        make_disk_slow(tmp_path, monkeypatch)
    submit: Submit = {"together": submitted, "pipelined": pipelined}[how]
    dice = random.Random(7)
    with real_head(tmp_path) as head:
        over = threading.Event()

        def kill_and_start() -> None:
            while not over.wait(dice.uniform(0.05, 0.4)):
                head.process.kill()
                head.process.wait()
                head.process = head._spawn()
                head.wait_until_ready()

        killer = threading.Thread(target=kill_and_start)
        killer.start()
        acknowledged: dict[str, list[int]] = {}
        try:
            for number in range(ROUNDS):
                jobs = [{"command": "true", "name": f"r{number}", "holds": "later"}] * JOBS_OF_ROUND
                acknowledged[f"r{number}"] = submit(head, jobs, f"round {number}")
        finally:
            over.set()
            killer.join()
        with HeadnodeClient(head.state) as client:
            for name, ids in acknowledged.items():
                assert sorted(job.id for job in client.jobs(name=name)) == sorted(ids)
                assert len(set(ids)) == JOBS_OF_ROUND
        for ids in acknowledged.values():  # nothing of them has started, so the end of the head is quick
            head.client.ask("cancel_job", job=ids[0])


def make_disk_slow(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heads wait so long for the disk that most of them are killed while they do."""
    if COMPILER is None:
        pytest.skip("a slow disk is a library in C, and there is no C compiler: apt-get install gcc")
    library = directory / "slow_disk.so"
    source = Path(__file__).parents[1] / "testbed" / "slow_disk.c"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SLOW_DISK_MICROSECONDS", "20000")


def pipelined(head: RealHead, jobs: list[dict[str, str]], key: str) -> list[int]:
    """Submit each job with a key, without waiting, until all are acknowledged; return their ids."""
    ids: dict[int, int] = {}
    deadline = time.monotonic() + 120
    while len(ids) < len(jobs) and time.monotonic() < deadline:
        left = [number for number in range(len(jobs)) if number not in ids]
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(head.state / "head.sock"))
            connection.sendall(b"".join(_submission(jobs[number], f"{key} {number}") for number in left))
            with connection.makefile("rb") as answers:
                for number in left:
                    size = int.from_bytes(answers.read(4), "big")
                    answer = json.loads(answers.read(size) or b"{}")
                    if answer.get("ok"):
                        ids[number] = answer["job"]
        time.sleep(0.02)
    assert len(ids) == len(jobs), head.log()
    return [ids[number] for number in range(len(jobs))]


def _submission(job: dict[str, str], key: str) -> bytes:
    terms = {"jobname": job["name"], "hold": job["holds"]}
    request = {"verb": "submit_job", "terms": terms, "tasks": [{"command": job["command"]}]}
    return frame(json.dumps({**request, "idempotency": key}).encode())


def submitted(head: RealHead, jobs: list[dict[str, str]], key: str) -> list[int]:
    """Submit jobs with a key until that is acknowledged; return their ids."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(HeadnodeError), HeadnodeClient(head.state) as client:
            found = client.submit_many(jobs, idempotency=key)
            return [each.id for each in found if isinstance(each, JobHandle)]
        time.sleep(0.02)
    raise AssertionError(head.log())
