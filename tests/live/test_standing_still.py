"""A suspended job: real processes that stand still, whole trees of them, and go on where they were."""

import contextlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import JOB, NODE, Scene, alive

from headnode.adapters.processes import cgroups
from headnode.adapters.wire.agent_messages import Launch, Route
from headnode.adapters.wire.messages import Continue, HeartbeatAck, Stop, Suspend
from headnode.core.model.quantities import NEVER, Instant, Seconds

COUNTING = "while :; do printf . >> {}; sleep 0.01; done"
TREE = (
    "(setsid sh -c '" + COUNTING.format("orphan") + "' &) ; "
    "sh -c 'trap : TERM; " + COUNTING.format("child") + "' & "
    "while :; do /bin/true; done & "  # always about to start another
     + COUNTING.format("main")
)
GO_ON = Continue(JOB, NEVER)
GRACE = 5.0  # seconds: what is ended has them to end by itself, on a busy machine, too
LEASE = Seconds(0.3)
LIMIT = 2.5  # seconds, in which a task is started and told to stand still


@pytest.fixture(params=["signals", "a frozen group"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Return a scene whose jobs stand still in one of the two ways."""
    freezes = request.param == "a frozen group"
    if freezes and cgroups.find().unified is None:
        pytest.skip("there are no control groups here that we may use")
    with Scene(tmp_path, GRACE) as scene:
        scene.suspendable = freezes
        yield scene


def count(scene: Scene, name: str) -> int:
    return (scene.work / name).stat().st_size if (scene.work / name).exists() else 0


def goes_on(scene: Scene, *names: str) -> None:
    for name in names:
        before = count(scene, name)
        scene.head.until(lambda name=name, before=before: count(scene, name) > before)


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def stands_still(scene: Scene, *names: str) -> None:
    """See that none of the counters moves while another program, which does run, counts for a while."""
    before = [count(scene, name) for name in names]
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        scene.head.receive(0.01)
        assert [count(scene, name) for name in names] == before


def test_a_whole_tree_stands_still_and_goes_on_where_it_was(scene: Scene) -> None:
    scene.job(TREE)
    scene.head.run(1, (1, 1))
    goes_on(scene, "main", "child", "orphan")
    scene.head.suspend(1)
    stands_still(scene, "main", "child", "orphan")
    before = count(scene, "main")
    scene.head.send(GO_ON)
    goes_on(scene, "main", "child", "orphan")
    assert count(scene, "main") > before


def test_a_process_cannot_be_continued_by_its_user_where_there_are_groups(scene: Scene) -> None:
    scene.job("echo $$ > pid; " + COUNTING.format("main"))
    scene.head.run(1, (1, 1))
    goes_on(scene, "main")
    scene.head.suspend(1)
    if scene.suspendable:
        os.kill(int((scene.work / "pid").read_text()), signal.SIGCONT)
        stands_still(scene, "main")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_tasks_of_another_user_stand_still(scene: Scene) -> None:
    nobody = pwd.getpwnam("nobody")
    shared = Path(tempfile.mkdtemp(prefix="headnode-still-", dir="/tmp"))
    try:
        shared.chmod(0o777)
        scene.work = shared
        scene.job(TREE, uid=nobody.pw_uid)
        scene.head.run(1, (1, 1))
        goes_on(scene, "main", "child", "orphan")
        scene.head.suspend(1)
        stands_still(scene, "main", "child", "orphan")
        scene.head.send(GO_ON)
        goes_on(scene, "main", "child", "orphan")
        scene.head.suspend(2)
        stands_still(scene, "main", "child", "orphan")
        scene.head.close_job()
    finally:
        shutil.rmtree(shared)


VFORK = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
with open("child", "w") as file:
    pass
os.posix_spawn("/bin/sh", ["sh", "-c", "echo $$ > pid; exec sleep 300"], os.environ)
libc.vfork() or time.sleep(1000)
"""


def test_a_process_that_is_blocked_by_its_stopped_child_is_not_waited_for(scene: Scene) -> None:
    """The parent of a vfork waits in the kernel, where it cannot stop, for a child that is stopped."""
    (scene.work / "vfork.py").write_text(VFORK)
    scene.job(f"{sys.executable} vfork.py")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: "D" in states_below(scene))
    began = time.monotonic()
    scene.head.suspend(1)
    assert time.monotonic() - began < 5.0  # its patience with what cannot be stopped is longer


def states_below(scene: Scene) -> list[str]:
    """Return the states of all processes that work in the scene's directory."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and (each / "cwd").readlink() == scene.work:
                found.append(state_of(int(each.name)))
    return found


def test_nothing_starts_while_the_job_stands_still(scene: Scene) -> None:
    scene.job("until [ -e go ]; do sleep 0.01; done", "touch second")
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.until(lambda: (1, 1, 1) in scene.head.started)
    scene.head.suspend(1)
    (scene.work / "go").touch()
    scene.head.run(2, (1, 1), processor=1)
    scene.head.suspend(1)  # an answer to the next question: the order to run was heard before it
    assert not (scene.work / "second").exists()
    assert scene.head.results == {}
    scene.head.send(GO_ON)
    assert scene.head.result(1, 1).exit_code == 0
    assert scene.head.result(1, 2).exit_code == 0
    assert scene.head.result(2).exit_code == 0


def test_a_job_that_nothing_runs_of_stands_still_at_once_and_starts_nothing(scene: Scene) -> None:
    scene.job("exit 3")
    scene.head.suspend(4)
    scene.head.run(1, (1, 1))
    scene.head.suspend(4)
    assert scene.head.results == {}
    scene.head.send(GO_ON)
    assert scene.head.result(1).exit_code == 3


def launch(scene: Scene, *names: str) -> None:
    """Let the second task, which is on another node, launch commands that leave files of these names."""
    place = (("elsewhere", (0,)), (NODE, (0,)))
    for name in names:
        route = Route(JOB, 2, 1, 1, f"7.2.1.1.{name}", "elsewhere", NODE)
        scene.head.send(Launch(route, f"touch {name}", str(scene.work), {}, place))


def none_is_there(scene: Scene, *names: str) -> None:
    """See that no file of these names comes for a while."""
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        scene.head.receive(0.01)
        assert not [name for name in names if (scene.work / name).exists()]


def all_come(scene: Scene, *names: str) -> None:
    scene.head.until(lambda: all((scene.work / name).exists() for name in names))


def test_nothing_is_launched_while_the_job_stands_still(scene: Scene) -> None:
    scene.job("true", "true")
    scene.head.suspend(1)
    launch(scene, *"abcdefgh")
    scene.head.suspend(1)  # an answer to the next question: what was to be launched was heard before it
    none_is_there(scene, *"abcdefgh")
    scene.head.send(GO_ON)
    all_come(scene, *"abcdefgh")


def end_the_lease(scene: Scene) -> None:
    """Answer a heartbeat later than its lease lasts."""
    scene.head.until(lambda: scene.head.heartbeats)
    number, received = scene.head.heartbeats[-1]
    scene.head.until(lambda: time.monotonic() > received + LEASE)
    scene.head.send(HeartbeatAck(number, LEASE))


def test_nothing_starts_and_nothing_is_launched_after_the_lease(scene: Scene) -> None:
    """Orders may come late: from a head that has given the tasks to others since."""
    scene.job("touch task", "true", rerunnable=True)
    end_the_lease(scene)
    launch(scene, *"abcdefgh")
    scene.head.run(1, (1, 1))
    none_is_there(scene, "task", *"abcdefgh")
    scene.head.heartbeats.clear()
    scene.head.until(lambda: scene.head.heartbeats)
    scene.head.send(HeartbeatAck(scene.head.heartbeats[-1][0], Seconds(60.0)))
    all_come(scene, "task", *"abcdefgh")


@pytest.mark.parametrize("first", ["the lease", "the order"])
def test_what_is_to_end_has_no_grace_after_the_lease(tmp_path: Path, first: str) -> None:
    """It would run for that long beside what others were given."""
    with Scene(tmp_path, grace=600.0) as scene:
        scene.job("trap : TERM; touch runs; " + COUNTING.format("main"), rerunnable=True)
        scene.head.run(1, (1, 1))
        all_come(scene, "runs")
        if first == "the lease":
            end_the_lease(scene)
        scene.head.send(Stop(JOB, ((1, 1, 1),)))
        if first == "the order":
            goes_on(scene, "main")
            end_the_lease(scene)
        ended = scene.head.result(1)
        assert (ended.kind, ended.signal) == ("stopped", signal.SIGKILL)


def test_limits_do_not_count_the_time_that_it_stood_still(scene: Scene) -> None:
    scene.job("sleep 0.4; sleep 0.2", run_time=LIMIT, deadline=Instant(time.time() + LIMIT))
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    scene.head.suspend(1)
    end = time.monotonic() + LIMIT + 0.2
    while time.monotonic() < end:
        scene.head.receive(0.02)
    assert scene.head.results == {}
    scene.head.send(Continue(JOB, Instant(time.time() + 60.0)))
    assert scene.head.result(1).kind == "exited"


def test_limits_count_again_when_it_goes_on(scene: Scene) -> None:
    scene.job("sleep 60")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    scene.head.suspend(1)
    scene.head.send(Continue(JOB, Instant(time.time() + 0.1)))
    assert scene.head.result(1).kind == "timed-out"


def test_what_stands_still_can_be_ended_while_the_rest_stays(scene: Scene) -> None:
    scene.job("trap 'exit 9' TERM; " + COUNTING.format("one"), COUNTING.format("two"))
    scene.head.run(1, (1, 1))
    scene.head.run(2, (1, 1), processor=1)
    goes_on(scene, "one", "two")
    scene.head.suspend(1)
    scene.head.send(Stop(JOB, ((1, 1, 1),)))
    ended = scene.head.result(1)
    assert (ended.kind, ended.exit_code) == ("stopped", 9)  # it was given its time to end by itself
    stands_still(scene, "two")
    scene.head.send(GO_ON)
    goes_on(scene, "two")


def test_a_process_that_dies_while_all_stands_still_is_reported(scene: Scene) -> None:
    scene.job("echo $$ > pid; exec sleep 300")
    scene.head.run(1, (1, 1))
    process = scene.number("pid")
    scene.head.suspend(1)
    os.kill(process, signal.SIGKILL)
    assert scene.head.result(1).signal == signal.SIGKILL


def test_closing_a_job_that_stands_still_kills_all_of_it(scene: Scene) -> None:
    scene.job("echo $$ > pid; " + COUNTING.format("main"))
    scene.head.run(1, (1, 1))
    goes_on(scene, "main")
    scene.head.suspend(1)
    scene.head.close_job()
    assert not alive(int((scene.work / "pid").read_text()))


def test_it_stands_still_through_the_death_of_the_agent_and_the_next_one_says_so(scene: Scene) -> None:
    scene.job(COUNTING.format("main"))
    scene.head.run(1, (1, 1))
    goes_on(scene, "main")
    scene.head.suspend(1)
    scene.kill_agent()
    stands_still(scene, "main")
    scene.start()
    assert scene.head.hellos[-1].suspended == (JOB,)
    stands_still(scene, "main")
    scene.head.suspend(1)
    scene.head.send(GO_ON)
    goes_on(scene, "main")


def test_what_its_user_had_stopped_does_not_go_on_with_the_rest(scene: Scene) -> None:
    scene.job("sleep 300 & echo $! > pid; kill -STOP $!; " + COUNTING.format("main"))
    scene.head.run(1, (1, 1))
    goes_on(scene, "main")
    stopped = int((scene.work / "pid").read_text())
    scene.head.until(lambda: state_of(stopped) == "T")
    scene.head.suspend(1)
    scene.head.send(GO_ON)
    goes_on(scene, "main")
    assert state_of(stopped) == "T"


def test_suspended_and_continued_in_a_hurry_it_runs(scene: Scene) -> None:
    scene.job(TREE)
    scene.head.run(1, (1, 1))
    goes_on(scene, "main", "child", "orphan")
    for number in range(1, 20):
        scene.head.send(Suspend(JOB, number))
        scene.head.send(GO_ON)
    goes_on(scene, "main", "child", "orphan")
    scene.head.suspend(20)
    stands_still(scene, "main", "child", "orphan")
