"""A real head says when jobs will start, keeps what it said over its own death, and judges it.

The process that looks ahead ends in silence when the head is gone.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.engine.prediction import PredictionInput, PredictionRequest
from headnode.testing.scenes import node, scene
from heads import TIMEOUT, RealHead, real_head

LIMIT = {"runtime": "1"}


def until(expected: Callable[[], Any]) -> Any:
    """Return what is told as soon as it is something."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := expected()):
        assert time.monotonic() < deadline, "it was not told in time"
        time.sleep(0.02)
    return found


def prediction(head: RealHead, job: int) -> Any:
    return head.ask("job", job=job)["job"]["prediction"]


def test_expected_starts_are_told_kept_and_judged_also_by_the_next_head(tmp_path: Path) -> None:
    with real_head(tmp_path, processors=1) as head:
        for _ in range(3):
            head.wait(head.submit("true", terms=LIMIT))
        blocker = head.submit(f"sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.05; done'", terms=LIMIT)
        first, second = (head.submit("true", terms=LIMIT) for _ in range(2))
        made = until(lambda: prediction(head, first) and prediction(head, second))
        assert made["promise"] - made["predicted_at"] > 60  # behind two jobs that may run for a minute each
        listed = {job["id"]: job["expected"] for job in head.ask("jobs")["jobs"]}
        assert listed[second]["p50"] < listed[second]["promise"]
        assert listed[blocker] is None
        answer = head.ask("job", job=first)["job"]["expected"]
        assert answer["promise"] < made["promise"]
        assert (answer["policy"], answer["reason"]) == ("easy", "")
        until(lambda: head.task(blocker)["state"] == "Running")
        (tmp_path / "go").touch()
        head.wait(second)
        kept = prediction(head, second)
        assert kept == made | {"started": head.ask("job", job=second)["job"]["started"]}
        head.kill()
        head.start_again()
        assert prediction(head, second) == kept
        scores = head.ask("predictions")
        assert (scores["all"]["jobs"], scores["policy"]) == (2, "easy")
        assert scores["all"]["promise_held"] == 1.0
        assert set(scores["by_policy"]) == {"easy"}
        assert head.ask("predictions", since=time.time() + 60)["all"]["jobs"] == 0


def lookouts(head: RealHead) -> list[int]:
    """Return the processes that look ahead for a head."""
    children = Path(f"/proc/{head.process.pid}/task/{head.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"headnode.apps.predict" in command(int(child))]


def command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_who_looks_ahead_is_replaced_when_lost_and_gone_with_the_head(tmp_path: Path) -> None:
    with real_head(tmp_path, processors=1) as head:
        blocker = head.submit("sleep 600", terms=LIMIT)
        first = head.submit("true", terms=LIMIT)
        until(lambda: prediction(head, first))
        (lost,) = lookouts(head)
        os.kill(lost, signal.SIGKILL)
        second = head.submit("true", terms=LIMIT)
        until(lambda: prediction(head, second))
        (other,) = lookouts(head)
        assert other != lost
        head.kill()
        until(lambda: b"headnode.apps.predict" not in command(other))
        head.start_again()
        head.ask("cancel_job", job=blocker, force=True)
        head.wait(second)


def test_the_past_of_a_real_head_is_told_page_by_page(tmp_path: Path) -> None:
    with real_head(tmp_path, processors=2) as head:
        ended = [head.submit("true", terms={"numprocessors": "2"} | LIMIT) for _ in range(3)]
        for job in ended:
            head.wait(job)
        running = head.submit("sleep 600")
        page = head.ask("ended_jobs", limit=2)
        assert [job["id"] for job in page["jobs"]] == ended[:2]
        assert [job["processors"] for job in page["jobs"]] == [2, 2]
        until(lambda: head.task(running)["state"] == "Running")
        page |= head.ask("ended_jobs", limit=2)
        assert (page["ended"], page["running"], page["queued"], page["processors"]) == (3, 1, 0, 2)
        rest = head.ask("ended_jobs", after=page["more"], limit=2)
        assert ([job["id"] for job in rest["jobs"]], rest["more"]) == (ended[2:], None)
        assert head.ask("ended_jobs", until=page["jobs"][0]["submitted"])["jobs"] == []


def test_it_says_nothing_when_the_head_was_killed_before_the_answer() -> None:
    situation = PredictionInput(scene([node("n1", 1)], [], []), "easy", {}, {}, {})
    question = msgspec.msgpack.encode(PredictionRequest(situation, 1.0))
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-m", "headnode.apps.predict", str(theirs.fileno())]
    with subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as process:
        theirs.close()
        ours.sendall(frame(question))
        ours.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 0
