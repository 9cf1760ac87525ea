"""Whoever dies, no result is lost and nothing runs twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_scene import JOB, NODE, Scene, alive, scene_fixture

from headnode.adapters import process_tree
from headnode.adapters.processes import cgroups, job_journal
from headnode.adapters.wire.agent_messages import ReportedAttempt
from headnode.adapters.wire.messages import CloseJob, Goodbye, HeartbeatAck
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType

WAIT_FOR_GO = "echo $CCP_TASKINSTANCEID >> runs; until [ -e go ]; do sleep 0.01; done; exit $HEADNODE_VALUE"
SWEEP = {"kind": TaskType.SWEEP, "start": 1, "end": 40}

scene = scene_fixture()


def test_tasks_outlive_the_agent_and_the_next_one_reports_them_all(scene: Scene) -> None:
    scene.job(WAIT_FOR_GO, **SWEEP)
    attempts = [(instance, 1) for instance in range(1, 41)]
    scene.head.run(1, *attempts[:20], processor=0)
    scene.head.run(1, *attempts[20:], processor=1)
    scene.head.until(lambda: len(scene.head.started) == 2)
    scene.kill_agent()
    (scene.work / "go").touch()
    scene.head.until(lambda: len(scene.written("runs").split()) == 40)
    scene.start()
    assert [scene.head.result(1, instance).exit_code for instance, _ in attempts] == list(range(1, 41))
    runs = sorted(map(int, scene.written("runs").split()))
    assert runs == list(range(1, 41))
    assert scene.head.hellos[-1].open_jobs == (JOB,)


def test_a_new_agent_says_what_still_runs_and_what_waits_and_goes_on_with_it(scene: Scene) -> None:
    scene.job(WAIT_FOR_GO, **SWEEP)
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.until(lambda: scene.head.started)
    scene.kill_agent()
    scene.start()
    runs, waits = sorted(scene.head.hellos[-1].live, key=lambda live: live.instance)
    assert runs.since is not None
    assert (runs, waits) == (
        ReportedAttempt(JOB, 1, 1, 1, True, runs.since),
        ReportedAttempt(JOB, 1, 2, 1, False),
    )
    scene.head.run(1, (1, 1), (2, 1), (3, 1))
    (scene.work / "go").touch()
    assert [scene.head.result(1, instance).exit_code for instance in (1, 2, 3)] == [1, 2, 3]
    assert (scene.work / "runs").read_text() == "1\n2\n3\n"


def test_a_shepherd_that_dies_before_it_has_dialed_the_next_agent_is_missed(scene: Scene) -> None:
    scene.job("echo $PPID > shepherd; until [ -e go ]; do sleep 0.01; done")
    scene.head.run(1, (1, 1))
    shepherd = scene.number("shepherd")
    scene.kill_agent()
    os.kill(shepherd, signal.SIGSTOP)
    scene.start()  # it waits for the shepherd, but not for ever
    os.kill(shepherd, signal.SIGKILL)
    assert scene.head.result(1).kind == "lost"


def test_results_are_repeated_by_every_agent_until_they_are_acknowledged(scene: Scene) -> None:
    scene.head.acknowledges = False
    scene.job("exit 5")
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    for times in (2, 3):
        scene.kill_agent()
        scene.start()
        assert scene.head.hellos[-1].ended == (ReportedAttempt(JOB, 1, 1, 1, False),)
        scene.head.until(lambda times=times: len(scene.head.results[1, 1, 1]) == times)
    scene.head.acknowledge()
    journal = next((scene.state / "jobs").glob("*.journal"))
    scene.head.until(lambda: job_journal.read(journal).ended == {})
    scene.kill_agent()
    scene.start()
    assert scene.head.hellos[-1].ended == ()
    assert len(scene.head.results[1, 1, 1]) == 3


def test_a_head_that_was_away_hears_everything_when_it_is_back(scene: Scene) -> None:
    scene.job(WAIT_FOR_GO, **SWEEP)
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.until(lambda: scene.head.started)
    scene.head.hang_up()
    (scene.work / "go").touch()
    scene.head.until(lambda: scene.written("runs") == "1\n2\n")
    scene.head.listen()
    assert [scene.head.result(1, instance).exit_code for instance in (1, 2)] == [1, 2]


def test_what_a_head_heard_and_did_not_acknowledge_is_said_again_to_the_next(scene: Scene) -> None:
    scene.head.acknowledges = False
    scene.job("exit 5")
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    scene.head.hang_up()
    scene.head.listen()
    scene.head.until(lambda: len(scene.head.results[1, 1, 1]) == 2)
    assert scene.head.result(1).exit_code == 5


def test_a_task_over_its_limit_is_ended_without_an_agent(scene: Scene) -> None:
    scene.job("echo $$ > pid; exec sleep 300", run_time=Seconds(2.0))
    scene.head.run(1, (1, 1))
    task = scene.number("pid")
    scene.kill_agent()
    assert alive(task)
    scene.head.until(lambda: not alive(task))
    scene.start()
    assert scene.head.result(1).kind == "timed-out"


def test_when_a_shepherd_is_killed_lost_and_never_ran_are_distinguished_and_strays_are_killed(
    scene: Scene,
) -> None:
    scene.job("setsid sleep 300 & echo $! > stray; wait", "exit 4")
    scene.head.run(2, (1, 1), processor=1)
    assert scene.head.result(2).exit_code == 4
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.until(lambda: (1, 1, 1) in scene.head.started)
    stray = scene.number("stray")
    os.kill(scene.shepherd(), signal.SIGKILL)
    lost, never = scene.head.result(1, 1), scene.head.result(1, 2)
    assert (lost.kind, lost.exit_code, lost.signal) == ("lost", None, None)
    assert lost.started is not None
    assert never.kind == "never-ran"
    assert not alive(stray)
    assert len(scene.head.results[2, 1, 1]) == 1


def test_a_job_goes_on_with_a_new_shepherd_when_its_old_one_was_killed(scene: Scene) -> None:
    scene.job("sleep 300", "exit 6")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    os.kill(scene.shepherd(), signal.SIGKILL)
    assert scene.head.result(1).kind == "lost"
    scene.head.run(2, (1, 1))
    assert scene.head.result(2).exit_code == 6
    scene.head.close_job()
    assert [each for each in (scene.state / "jobs").iterdir() if each.suffix != ".vacant"] == []


def test_a_factory_that_was_killed_is_replaced_and_its_shepherds_do_not_mind(scene: Scene) -> None:
    scene.job("until [ -e go ]; do sleep 0.01; done; exit 8", "exit 6")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    for job in (JobId(8), JobId(9)):
        os.kill(scene.factory(), signal.SIGKILL)
        scene.head.open(scene.head.spec, job)
        scene.head.run(2, (job, 1), job=job)
        assert scene.head.result(2, job).exit_code == 6
    (scene.work / "go").touch()
    assert scene.head.result(1).exit_code == 8


def test_a_job_starts_though_the_factory_is_killed_again_and_again(scene: Scene) -> None:
    scene.job("exit 6")
    for _ in range(5):
        killed = scene.factory()
        os.kill(killed, signal.SIGKILL)
        scene.head.until(lambda killed=killed: scene.shepherds() or scene.factories() not in ([], [killed]))
        if scene.shepherds():
            break  # it was made before the kill: another factory starts with the next order
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 6


@pytest.mark.parametrize("with_group", [True, False], ids=["cgroup", "marker"])
def test_what_a_shepherd_left_that_died_with_its_agent_is_killed_by_the_next_agent(
    scene: Scene, with_group: bool
) -> None:
    scene.job("setsid sleep 300 & echo $! > stray; wait")
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.until(lambda: (1, 1, 1) in scene.head.started)
    shepherd, stray = scene.shepherd(), scene.number("stray")
    leave_group(scene, with_group)
    scene.kill_agent()
    os.kill(shepherd, signal.SIGKILL)
    assert alive(stray)
    scene.start()
    assert scene.head.result(1, 1).kind == "lost"
    assert scene.head.result(1, 2).kind == "never-ran"
    assert not alive(stray)


def leave_group(scene: Scene, stay: bool) -> None:
    """Take everything of the job out of its control groups and remove them, unless they may stay."""
    journal = next((scene.state / "jobs").glob("*.journal"))
    groups = [g for g in cgroups.own_groups(job_journal.read(journal).header.marker) if g.exists()]
    if stay and not groups:
        pytest.skip("this user has no control groups here")
    for group in () if stay else groups:
        for process in cgroups.members(group):
            (group.parent / "cgroup.procs").write_text(str(process))
        assert cgroups.remove(group)


def test_another_boot_means_that_all_shepherds_are_dead(scene: Scene) -> None:
    scene.job("exit 7", "sleep 300")
    scene.head.acknowledges = False
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    scene.head.run(2, (1, 1), (2, 1))
    scene.head.until(lambda: (2, 1, 1) in scene.head.started)
    scene.kill_agent()
    os.kill(scene.shepherd(), signal.SIGKILL)
    journal = next((scene.state / "jobs").glob("*.journal"))
    lines = journal.read_text().split("\n")
    first = lines[0].replace(job_journal.read(journal).header.boot, "another-boot")
    journal.write_text("\n".join([first, *lines[1:], '["ended",9,2']))
    scene.start()
    assert scene.head.result(1).exit_code == 7
    assert [scene.head.result(2, instance).kind for instance in (1, 2)] == ["lost", "never-ran"]


def test_closing_a_job_kills_all_of_it_and_leaves_nothing_behind(scene: Scene) -> None:
    scene.head.acknowledges = False
    nameless = (
        "env -i setsid sh -c 'echo $$ > stray; exec sleep 300' & while [ ! -s stray ]; do sleep 0.01; done"
    )
    scene.job(nameless, "trap '' TERM; touch ready; sleep 300; sleep 300")
    scene.head.run(2, (1, 1), (2, 1), processor=1)
    scene.head.until(
        (scene.work / "ready").exists
    )  # beside another task, only a group tells whose the stray is, and a busy machine makes none
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    stray = int((scene.work / "stray").read_text())
    scene.head.send(CloseJob(JOB))
    assert scene.head.result(2, 1).kind == "stopped"
    assert scene.head.result(2, 2).kind == "never-ran"
    scene.head.until(lambda: not scene.shepherds())
    assert not alive(stray)
    for times in (2, 3):  # what is not acknowledged outlives every agent
        scene.kill_agent()
        scene.start()
        scene.head.send(CloseJob(JOB))
        scene.head.until(lambda times=times: len(scene.head.results[2, 1, 1]) == times)
    assert scene.head.closed == []
    scene.head.acknowledge()
    scene.head.until(lambda: scene.head.closed == [JOB])
    assert list((scene.state / "jobs").iterdir()) == []


def test_closing_a_job_nobody_knows_is_answered(scene: Scene) -> None:
    scene.head.close_job(JobId(99))
    assert scene.head.closed == [99]


def test_a_job_is_not_closed_before_its_results_are_known(scene: Scene) -> None:
    scene.head.acknowledges = False
    scene.head.open(JobSpec(tasks=(TaskSpec(command="exit 3"),)), JobId(99))
    scene.head.run(1, (1, 1), job=JobId(99))
    assert scene.head.result(1).exit_code == 3
    scene.head.send(CloseJob(JobId(99)))
    scene.head.close_job(JobId(98))  # answered after the one before it
    assert scene.head.closed == [98]
    scene.head.acknowledge()
    scene.head.until(lambda: scene.head.closed == [98, 99])


def test_a_job_that_is_closed_and_opened_again_runs_again(scene: Scene) -> None:
    for attempt in (1, 2):
        scene.job("exit 2")
        scene.head.run(1, (1, attempt))
        scene.head.send(CloseJob(JOB))
    scene.job("exit 3")
    scene.head.run(1, (1, 3))
    assert scene.head.result(1, 1, 3).exit_code == 3
    for attempt in (1, 2):
        assert scene.head.result(1, 1, attempt).kind in ("exited", "stopped", "never-ran")


def test_tasks_of_an_agent_that_is_refused_are_stopped_when_its_lease_is_over(scene: Scene) -> None:
    scene.job("echo $$ > pid; exec sleep 300", rerunnable=True)
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    task = scene.number("pid")
    scene.head.until(lambda: scene.head.heartbeats)
    scene.head.send(HeartbeatAck(number=scene.head.heartbeats[-1][0], lease=Seconds(2.0)))
    scene.head.refuses = "this head speaks protocol 3, not 4"  # as after the way back to a release of before
    scene.head.hang_up()
    scene.head.listen()
    scene.head.until(lambda: scene.agent is not None and scene.agent.poll() == 0)
    scene.head.until(lambda: process_tree.picture()[task].stopped)


def test_goodbye_leaves_tasks_running_unless_they_are_to_be_canceled(scene: Scene) -> None:
    scene.job("echo $$ > pid; exec sleep 300")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    task = scene.number("pid")
    scene.head.send(Goodbye())
    assert scene.agent is not None
    assert scene.agent.wait(10) == 0
    assert alive(task)
    scene.start()
    scene.head.send(Goodbye(reason="cancel"))
    scene.head.until(lambda: scene.agent is not None and scene.agent.poll() == 0)
    assert not alive(task)
    assert not scene.shepherds()


def test_a_second_agent_in_a_directory_is_refused(scene: Scene) -> None:
    arguments = ["--head", str(scene.head.path), "--state", str(scene.state), "--name", NODE]
    second = subprocess.run(
        [sys.executable, "-m", "headnode.apps.agent", *arguments], capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert "another agent uses the state directory" in second.stderr


def test_only_the_shepherd_of_the_journal_is_believed(scene: Scene) -> None:
    scene.job("sleep 300")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    story = job_journal.read(next((scene.state / "jobs").glob("*.journal")))
    shepherd = scene.shepherd()
    with an_imposter(scene, story.header.marker) as imposter:
        os.kill(shepherd, signal.SIGSTOP)
        scene.kill_agent()
        (scene.state / "run" / "agent.sock").unlink()
        scene.launch()
        try:
            scene.head.until((scene.state / "run" / "agent.sock").exists)
            assert imposter.communicate("now\n", timeout=30) == ("b''\n", None)
        finally:
            os.kill(shepherd, signal.SIGCONT)
    scene.head.until(lambda: len(scene.head.hellos) == 2)
    assert [live.running for live in scene.head.hellos[-1].live] == [True]
    assert scene.head.results == {}


@contextmanager
def an_imposter(scene: Scene, marker: str) -> "Iterator[subprocess.Popen[str]]":
    """Yield a process that, once told, says to the agent that it is our shepherd and that the task is over.

    It prints the answer.  It is there before the agent, which waits for shepherds for some seconds only.
    """
    ended = [1, 1, 1, 1, "exited", 0, None, 1.0, 2.0, 0.0, 0.0, 0, ""]
    imposter = (
        "import json, socket, sys\n"
        f"said = json.dumps(['hello', 7, '{marker}', [], [], [{ended}]]).encode()\n"
        "peer = socket.socket(socket.AF_UNIX)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "while peer.connect_ex(sys.argv[1]): pass\n"
        "peer.sendall(len(said).to_bytes(4, 'big') + said); print(peer.recv(1))\n"
    )
    command = [sys.executable, "-c", imposter, str(scene.state / "run" / "agent.sock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file system that is full")
def test_a_full_disk_under_the_journal_loses_no_exit_code_and_starts_nothing(scene: Scene) -> None:
    jobs = scene.state / "jobs"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(jobs)], check=True)
    try:
        scene.job("until [ -e go ]; do sleep 0.01; done; exit 9", "/bin/true")
        scene.head.run(1, (1, 1))
        scene.head.until(lambda: scene.head.started)
        filler = jobs / "filler"
        fill(filler)
        refused = run_until(scene, "not-started")
        assert "no space left on device" in refused.message
        assert "free some space" in refused.message
        (scene.work / "go").touch()
        ended = scene.head.result(1)
        assert (ended.kind, ended.exit_code) == ("exited", 9)
        assert "cannot record" in ended.message
        filler.unlink()
        run_until(scene, "exited")
        scene.head.acknowledges = False
        scene.kill_agent()
        os.kill(scene.shepherd(), signal.SIGKILL)
        scene.start()
        assert scene.head.hellos[-1].live == ()
        assert {each.kind for found in scene.head.results.values() for each in found} <= {
            "exited",
            "not-started",
        }
        scene.head.acknowledge()
        scene.head.close_job()
    finally:
        scene.kill_agent()
        subprocess.run(["umount", "-l", str(jobs)], check=True)


def run_until(scene: Scene, kind: str) -> AttemptOutcome:
    """Run the second task again and again until it ends as said: a file's last block has some room left."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        attempt = len(scene.head.results) + 1
        scene.head.run(2, (1, attempt), processor=1)
        result = scene.head.result(2, 1, attempt)
        if result.kind == kind:
            return result
    raise AssertionError(f"no result was {kind}")


def fill(file: Path) -> None:
    """Write until there is no room for even one byte more."""
    with file.open("wb", buffering=0) as filler:
        for size in (4096, 1):
            try:
                while filler.write(b"x" * size):
                    pass
            except OSError:
                continue
