"""``hn job efficiency``: shares of jobs with known usage, what is suggested for them, and the tables."""

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import ScriptedHead, hn
from msgspec.structs import replace
from test_local_socket import Peer, Scene, run

from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, Ending, ResourceUsage
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import BatchResource, InstanceHandOff
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.user import User
from headnode.core.state.command import AttemptReport
from headnode.core.state.job_events import InstanceStart
from headnode.core.state.join import RegisterNode
from headnode.core.state.report import ReportEnded, ReportStarted
from headnode.core.state.resources import ReportHanded, SetResource

MINUTES = 60.0
PAIR = {"numprocessors": "2"}


async def submitted(peer: Peer, /, *, task: dict[str, Any] | None = None, **terms: Any) -> int:
    """Submit a job of one task; return its id."""
    made = await peer.done(verb="submit_job", tasks=[{"command": "solve", **(task or {})}], terms=terms)
    return int(made["job"])


async def end(
    scene: Scene,
    job: int,
    usage: ResourceUsage,
    *,
    exit_code: int = 0,
    kind: Ending = "exited",
    task: int = 0,
) -> None:
    """End all that runs of a job, or of one task; each attempt has used so much."""
    for held in [held for held in scene.nodes.running() if held.job == job and task in (0, held.task)]:
        report = scene.nodes.ended(held, scene.clock.now(), exit_code=exit_code, kind=kind)
        reports = tuple(replace(each, outcome=each.outcome._replace(usage=usage)) for each in report.reports)
        await scene.batcher.ask(replace(report, reports=reports))


async def efficiency(peer: Peer, job: int) -> dict[str, Any]:
    """Return what the head says of a job."""
    (found,) = (await peer.done(verb="job_efficiency", job=job))["jobs"]
    return dict(found)


def used(seconds: float, peak: int = 0) -> ResourceUsage:
    """Return the usage of so many processor seconds and a peak in MB."""
    return ResourceUsage(user_time=seconds, peak_memory=peak * 1024)


def test_one_of_two_processors_in_use_is_half_and_both_are_all(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            facts = NodeFacts(name="n1", processors=2, memory=4096)
            await scene.batcher.ask(RegisterNode(facts=facts, approved=True))
            request = {"numprocessors": "2", "runtime": "60", "estimatedprocessmemory": "300"}
            half = await submitted(peer, task=PAIR, **request)
            scene.clock.advance(10 * MINUTES)
            await end(scene, half, used(600.0, peak=90))
            found = await efficiency(peer, half)
            assert (found["processor_share"], found["memory_share"]) == (0.5, 90 / 600)
            assert found["run_time_share"] == pytest.approx(1 / 6)
            assert found["unused"] == 600.0
            # Of 1 processor all would be in use: 1.5 times 1 are 2, as before.
            assert found["suggestion"] == {"processors": None, "run_time": 900.0, "process_memory": 68}
            full = await submitted(peer, task=PAIR, **request)
            scene.clock.advance(10 * MINUTES)
            await end(scene, full, used(1200.0, peak=590))
            found = await efficiency(peer, full)
            assert (found["processor_share"], found["unused"]) == (1.0, 0.0)
            assert found["suggestion"] == {"processors": None, "run_time": 900.0, "process_memory": None}

    run(tmp_path, story)


async def _failed(scene: Scene, peer: Peer) -> int:
    job = await submitted(peer)
    scene.clock.advance(MINUTES)
    await end(scene, job, used(1.0), exit_code=1)
    return job


async def _timed_out(scene: Scene, peer: Peer) -> int:
    job = await submitted(peer, runtime="1")
    scene.clock.advance(2 * MINUTES)
    await peer.done(verb="cancel_job", job=job)
    await end(scene, job, used(1.0))
    return job


async def _running(scene: Scene, peer: Peer) -> int:
    job = await submitted(peer)
    scene.clock.advance(MINUTES)
    return job


async def _unmeasured(scene: Scene, peer: Peer) -> int:
    job = await submitted(peer)
    scene.clock.advance(MINUTES)
    await end(scene, job, ResourceUsage())
    return job


async def _short(scene: Scene, peer: Peer) -> int:
    job = await submitted(peer)
    scene.clock.advance(3.0)
    await end(scene, job, used(1.0))
    return job


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_failed, "it failed"),
        (_timed_out, "it was canceled"),
        (_running, "it has not ended"),
        (_unmeasured, "nothing was measured"),
        (_short, "it ran for less than 10 s"),
    ],
)
def test_no_smaller_request_is_suggested_where_it_would_not_be_safe(
    make: Callable[[Scene, Peer], Awaitable[int]], why: str, tmp_path: Path
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            found = await efficiency(peer, await make(scene, peer))
            assert found["suggestion"] is None
            assert found["no_suggestion"].startswith(why)

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("terms", "task", "processors"),
    [
        ({}, PAIR, 1),
        ({"exclusive": "true"}, PAIR, None),
        ({"numprocessors": "2"}, {}, None),
        ({}, {"numprocessors": "2-4"}, None),
        ({}, {**PAIR, "command": "mpiexec -n 2 solve"}, None),
        ({"numnodes": "1"}, {}, None),
    ],
)
def test_fewer_processors_are_suggested_only_to_a_task_that_may_run_on_them(
    terms: dict[str, str], task: dict[str, str], processors: int | None, tmp_path: Path
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = await submitted(peer, task=task, runtime="600", **terms)
            scene.clock.advance(10 * MINUTES)
            await end(scene, job, used(60.0, peak=50))
            found = await efficiency(peer, job)
            assert found["processors"] == 2
            assert found["suggestion"]["processors"] == processors
            assert found["suggestion"]["run_time"] >= 900.0

    run(tmp_path, story)


def test_the_use_of_gpus_is_not_measured_and_their_number_stays(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            await scene.batcher.ask(
                RegisterNode(facts=NodeFacts(name="g1", processors=4, gpus=2), approved=True)
            )
            task = {"numgpus": "2"}
            job = await submitted(peer, task=task, numgpus="2", corespergpu="2", runtime="600")
            scene.clock.advance(10 * MINUTES)
            await end(scene, job, used(60.0))
            found = await efficiency(peer, job)
            assert (found["processors"], found["gpus"], found["task_processors"]) == (4, 2, 4)
            assert found["suggestion"]["processors"] is None
        result = await asyncio.to_thread(hn, "job", "efficiency", str(job), state=tmp_path)
        assert "GPUs                    : 2 held; their use is not measured\n" in result.stdout

    run(tmp_path, story)


def test_a_job_at_another_scheduler_held_nothing_here(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            there = BatchResource(name="Peer", system=ResourceSystem.SLURM, mark="0a1b2c3d", most_jobs=2)
            await scene.batcher.ask(SetResource(by=User("root", 0, 0, administrator=True), resource=there))
            job = JobId(await submitted(peer, resource="peer"))
            handed = (InstanceHandOff(1, 1, 1, "7"),)
            await scene.batcher.ask(ReportHanded(resource="peer", job=job, handed=handed))
            begun = (InstanceStart(1, 1, 1, scene.clock.now()),)
            await scene.batcher.ask(ReportStarted(node="@peer", job=job, starts=begun))
            scene.clock.advance(10 * MINUTES)
            outcome = AttemptOutcome("exited", exit_code=0, usage=used(600.0, peak=90))
            report = AttemptReport(task=1, instance=1, attempt=1, outcome=outcome)
            await scene.batcher.ask(ReportEnded(node="@peer", job=job, reports=(report,)))
            found = await efficiency(peer, job)
            assert (found["state"], found["processors"], found["unused"]) == ("Finished", 0, None)
            assert (found["processor_share"], found["suggestion"]) == (None, None)
            assert found["no_suggestion"] == "it ran at peer"

    run(tmp_path, story)


def test_time_in_which_a_job_ran_before_it_was_requeued_counts(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = await submitted(peer, task=PAIR, runtime="60")
            (held,) = scene.nodes.running()
            await scene.batcher.ask(scene.nodes.started(held, scene.clock.now()))
            scene.clock.advance(10 * MINUTES)
            await peer.done(verb="requeue_job", job=job)
            await end(scene, job, used(600.0), kind="stopped")
            scene.clock.advance(10 * MINUTES)
            await end(scene, job, used(600.0))
            found = await efficiency(peer, job)
            assert (found["wall_time"], found["held_time"]) == (1200.0, 2400.0)
            assert found["processor_share"] == 0.5
            assert found["suggestion"]["run_time"] == 1800.0

    run(tmp_path, story)


def test_processors_that_a_job_released_early_are_not_wasted(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            tasks = [{"command": "short"}, {"command": "long"}]
            made = await peer.done(verb="submit_job", tasks=tasks, terms={"numprocessors": "1-2"})
            job = int(made["job"])
            scene.clock.advance(10 * MINUTES)
            await end(scene, job, used(600.0), task=1)
            scene.clock.advance(50 * MINUTES)
            await end(scene, job, used(3600.0), task=2)
            found = await efficiency(peer, job)
            assert (found["processors"], found["held_time"]) == (2, 4200.0)
            assert (found["processor_share"], found["unused"]) == (1.0, 0.0)

    run(tmp_path, story)


def test_the_worst_waste_is_first_and_users_have_their_sums(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            for seconds in (1200.0, 60.0, 600.0):
                job = await submitted(peer, numprocessors="2", projectname="Heat")
                scene.clock.advance(10 * MINUTES)
                await end(scene, job, used(seconds))
            await _unmeasured(scene, peer)
        result = await asyncio.to_thread(
            hn, "job", "efficiency", "--since", "1970-01-01", "--user", "*", "--quiet", state=tmp_path
        )
        assert result.stdout.split() == ["2", "3", "1", "4"], result.stderr
        result = await asyncio.to_thread(
            hn, "job", "eff", "--since", "1970-01-01", "--limit", "1", "--project", "heat", state=tmp_path
        )
        assert "1 matching job, 2 more with a larger --limit" in result.stdout

    run(tmp_path, story)


def test_a_page_ends_where_much_would_have_to_be_read(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            tasks = [{"command": "x" * 30_000}] * 50
            for _ in range(3):
                made = await peer.done(verb="submit_job", tasks=tasks, terms={"hold": "data"})
                await peer.done(verb="job", job=made["job"])  # what lists show of it is known from now on
            assert len((await peer.done(verb="jobs"))["jobs"]) == 3
            answer = await peer.done(verb="job_efficiency")
            assert ([job["id"] for job in answer["jobs"]], answer["more"]) == ([3], 3)
            answer = await peer.done(verb="job_efficiency", before=answer["more"])
            assert ([job["id"] for job in answer["jobs"]], answer["more"]) == ([2], 2)
        result = await asyncio.to_thread(
            hn, "job", "eff", "-q", "--state", "*", "--since", "1970-01-01", state=tmp_path
        )
        assert result.stdout.split() == ["3", "2", "1"]

    run(tmp_path, story)


def listed(number: int, owner: str, used_time: float | None = 600.0) -> dict[str, Any]:
    """Return a job of ten minutes on two processors as the head answers."""
    measured = used_time is not None
    return {
        "id": number, "owner": owner, "name": f"job {number}", "command": "solve", "project": "Heat",
        "state": "Finished", "so_far": False, "exclusive": False, "gpus": 0, "processors": 2,
        "processor_time": used_time, "held_time": 1200.0, "wall_time": 600.0, "run_time": 600.0,
        "run_time_limit": 3600.0, "peak_memory": 92160 if measured else None, "process_memory": 300,
        "node_memory": None, "task_processors": 2,
        "processor_share": (used_time or 0.0) / 1200 if measured else None,
        "memory_share": 0.15 if measured else None, "run_time_share": 1 / 6,
        "unused": 1200 - (used_time or 0.0) if measured else None,
        "suggestion": {"processors": 1, "run_time": 900.0, "process_memory": 135}, "no_suggestion": "",
    }  # fmt: skip


ANSWER = {
    "jobs": [listed(1, "ann"), listed(2, "bob", 30.0), listed(3, "a-user-with-a-long-name", None)],
    "more": None,
}


def on_terminal(columns: int, state: Path, *words: str) -> list[str]:
    """Return the lines that a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "headnode.apps.cli", *words],
        env={**os.environ, "HEADNODE_STATE": str(state), "TERM": "xterm"},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # the program has ended
            pass
        assert process.wait() == 0, shown
    os.close(ours)
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [80, 200])
def test_the_table_fits_its_terminal_and_has_a_dash_for_what_was_not_measured(
    columns: int, tmp_path: Path
) -> None:
    with ScriptedHead(tmp_path, {"job_efficiency": ANSWER}):
        lines = on_terminal(columns, tmp_path, "job", "efficiency", "--user", "*")
    assert max(map(len, lines)) <= columns
    assert [line.split()[0] for line in lines[2:5]] == ["2", "1", "3"]
    assert lines[2].split()[-4:] == ["2%", "15%", "17%", "0.33h"]
    assert lines[4].split()[-4:] == ["-", "-", "17%", "-"]
    assert "bob: 1 job, 2% of 0.33h used, 0.33h unused" in lines
    assert lines[-1] == "3 matching jobs"


def test_one_job_has_its_shares_in_words_and_the_options_for_the_next(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"job_efficiency": {"jobs": [listed(1, "ann")], "more": None}}):
        result = hn("job", "efficiency", "1", state=tmp_path).stdout
    assert "Processors              : 50%: 10 min of 20 min processor time on 2 processors\n" in result
    assert "90 MB at most in one task, 600 MB requested (300 MB for each of 2 processors)" in result
    assert "Run Time                : 17%: 10 min of 1 h\n" in result
    assert "Next Time               : -n 1 -t 15m --estimatedprocessmemory 135 (1.5 times what" in result


def test_memory_that_was_requested_on_each_node_is_compared_with_the_peak(tmp_path: Path) -> None:
    of_nodes = {**listed(1, "ann"), "process_memory": None, "node_memory": 600}
    unknown = {**of_nodes, "memory_share": None}
    for job, words in (
        (of_nodes, "15%: 90 MB at most in one task, 600 MB requested\n"),
        (unknown, "90 MB at most in one task; 600 MB were requested on each node\n"),
    ):
        with ScriptedHead(tmp_path, {"job_efficiency": {"jobs": [job], "more": None}}):
            assert f": {words}" in hn("job", "efficiency", "1", state=tmp_path).stdout


def test_ids_and_a_period_are_not_taken_together(tmp_path: Path) -> None:
    result = hn("job", "efficiency", "1", "--since", "7d", state=tmp_path)
    assert result.returncode == 2
    assert "option 'since' is about lists" in result.stderr
