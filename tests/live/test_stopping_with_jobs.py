"""`hn down --cancel-jobs` with a full queue: soon done, in little memory, and nothing starts meanwhile."""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_large_ended_jobs import peak_memory

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.server.cancel_all_jobs import ANSWER_TIME
from heads import RealHead, real_head
from testbed.clusters import Cluster, cluster_on_loopback

TASKS = [{"command": f"sleep {number}"} for number in range(3_000)]
JOBS = 60  # of 3,000 tasks each
MOST, SOON = 120, 30.0  # MB; seconds on a loaded machine, and less than the patience of a client


def states(head: RealHead) -> dict[int, tuple[str, int, int]]:
    """Return the state of each job, how many of its tasks are canceled, and how many there are."""
    found: dict[int, tuple[str, int, int]] = {}
    before = None
    while True:
        answer = head.ask("jobs", limit=1000, before=before)
        for job in answer["jobs"]:
            assert job["id"] not in found
            found[job["id"]] = job["state"], job["tasks"]["canceled"], job["tasks"]["total"]
        if (before := answer["more"]) is None:
            return found


def fill(head: RealHead, jobs: int) -> tuple[int, list[int]]:
    """Keep the node busy, and queue jobs of many tasks; return the job that runs, and the others."""
    running = head.submit("sleep 1000", terms={"numprocessors": "2"})
    head.wait_for(running, "running")
    return running, [head.ask("submit_job", tasks=TASKS, terms={})["job"] for _ in range(jobs)]


def test_a_full_queue_is_canceled_soon_in_little_memory_and_nothing_of_it_starts(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        running, queued = fill(head, JOBS)
        began = time.monotonic()
        head.ask("stop_head", cancel_jobs=True)
        assert time.monotonic() - began < SOON
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError):  # it may have ended by now
            assert peak_memory(head) < MOST
        head.client.close()
        head.process.wait(30)
        head.start_again()
        found = states(head)
        assert found == dict.fromkeys(queued, ("Canceled", 3_000, 3_000)) | {running: ("Canceled", 0, 1)}
        answer = head.ask("job_states", job=queued[0], task=3_000)["changes"]
        assert [(each["state"], each["last"]) for each in answer] == [("canceled", 1)]
        head.ask("requeue_job", job=queued[0])
        assert states(head)[queued[0]][1:] == (0, 3_000)


@pytest.mark.parametrize("after", [0.1, 0.4, 0.8])
def test_a_head_that_is_killed_while_it_cancels_all_has_each_job_once_canceled_or_queued(
    tmp_path: Path, after: float
) -> None:
    with real_head(tmp_path) as head:
        running, queued = fill(head, 60)
        head.client.close()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(head.state / "head.sock"))
            asking.sendall(frame(json.dumps({"verb": "stop_head", "cancel_jobs": True}).encode()))
            asking.settimeout(after)
            with contextlib.suppress(TimeoutError):
                asking.recv(1)
            head.kill()
        head.start_again()
        found = states(head)
        assert sorted(found) == sorted([running, *queued])
        for job in queued:
            state, canceled, total = found[job]
            assert (state, total) in (("Canceled", 3_000), ("Queued", 3_000), ("Running", 3_000))
            assert canceled == (3_000 if state == "Canceled" else 0)


def wait_until_runs(cluster: Cluster, job: int) -> None:
    cluster.until(lambda: bool(cluster.ask("tasks", job=job, states=["Running"])["tasks"]), f"{job} runs")


@contextlib.contextmanager
def job_on_both(tmp_path: Path) -> Iterator[tuple[Cluster, int]]:
    """A job on each of two nodes that joined; the head waits a thousand seconds for a silent one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with cluster_on_loopback(tmp_path, ("red", "green"), address, processors=1) as cluster:
        values = {"HeartbeatInterval": "1", "InactivityCount": "1000", "TaskCancelGracePeriod": "1"}
        cluster.ask("set_parameters", values=values)
        jobs = [cluster.submit("sleep 1000", terms={"requestednodes": node}) for node in cluster.nodes]
        for job in jobs:
            wait_until_runs(cluster, job)
        yield cluster, jobs[0]


def test_jobs_of_an_unreachable_node_are_not_waited_for(tmp_path: Path) -> None:
    with job_on_both(tmp_path) as (cluster, job):
        cluster.nodes["red"].kill_agent()
        cluster.wait_for_nodes("Unreachable", "red")
        began = time.monotonic()
        answer = cluster.ask("stop_head", cancel_jobs=True)
        assert time.monotonic() - began < ANSWER_TIME / 2
        assert answer["unended_jobs"] == [{"id": job, "places": ["red"]}]


def test_a_node_that_is_connected_and_silent_is_waited_for_no_longer_than_its_tasks_may_take(
    tmp_path: Path,
) -> None:
    with job_on_both(tmp_path) as (cluster, job):
        agents = cluster.nodes["red"].place.processes("headnode.apps.agent")
        for agent in agents:
            os.kill(agent, signal.SIGSTOP)
        try:
            began = time.monotonic()
            answer = cluster.ask("stop_head", cancel_jobs=True)
            assert time.monotonic() - began < ANSWER_TIME + SOON
            assert answer["unended_jobs"] == [{"id": job, "places": ["red"]}]
        finally:
            for agent in agents:
                os.kill(agent, signal.SIGCONT)


def test_a_resource_that_does_not_answer_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """It has accepted a job, and then its controller is gone."""
    programs = tmp_path / "programs"
    programs.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    for name, text in {"sbatch": "cat > /dev/null; echo 7", "squeue": "exit 1", "scancel": "exit 1"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    with real_head(tmp_path, nodes=0) as head:
        head.ask("set_parameters", values={"TaskCancelGracePeriod": "1"})
        head.ask("set_resource", name="away", system="slurm", programs=str(programs), poll=1.0)
        job = head.submit("sleep 1000", terms={"resource": "away"}, workdir="/")
        head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"] == ["7"])
        began = time.monotonic()
        answer = head.ask("stop_head", cancel_jobs=True)
        assert time.monotonic() - began < ANSWER_TIME + SOON
        assert answer["unended_jobs"] == [{"id": job, "places": ["@away"]}]
        head.client.close()
        head.process.wait(30)
