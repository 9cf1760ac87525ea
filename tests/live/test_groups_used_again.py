"""A task has a control group that tasks before it had, and nothing of theirs."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_scene import JOB, TIMEOUT, Scene, alive

from headnode.adapters.processes import cgroups, job_journal
from headnode.adapters.processes.cgroup_helper import TaskCgroup, open_switches
from headnode.adapters.processes.cgroup_pool import ReusedCgroup
from headnode.adapters.wire.messages import Stop
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.task import TaskSpec

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
MB = 1024 * 1024
SLOWNESS = max(1.0, TIMEOUT / 20)  # how many times slower than usual things may be here
cgroups.switch_on()
GROUPS = cgroups.find()
pytestmark = pytest.mark.skipif(
    not {"memory", "pids", "cpuset"} <= GROUPS.controllers.keys(),
    reason="this user has no control groups with controllers here",
)
several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one processor")
FORGETS = GROUPS.version == "v1" or tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12)
REPORT = """
import json, os
lines = [line.rstrip().split(":", 2) for line in open("/proc/self/cgroup")]
unified = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
paths = {names: path for _, names, path in lines}
own = unified + paths[""]
inside = os.listdir(own)
memory = "/sys/fs/cgroup/memory" + paths["memory"] if "memory" in paths else own
limit = next(f for f in ("memory.max", "memory.limit_in_bytes") if os.path.exists(memory + "/" + f))
print(json.dumps({
    "group": own,
    "alone": open(own + "/cgroup.procs").read().split() == [str(os.getpid())],
    "groups": [name for name in inside if os.path.isdir(own + "/" + name)],
    "limit": open(memory + "/" + limit).read().strip(),
    "processors": sorted(os.sched_getaffinity(0)),
}))
"""
TAKES = """
import sys, time
x = bytearray(int(sys.argv[1]) << 20)
for i in range(0, len(x), 4096): x[i] = 1
while time.process_time() < float(sys.argv[2]): pass
"""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    tmp_path.chmod(0o755)
    with Scene(tmp_path) as scene:
        for name, text in (("report", REPORT), ("takes", TAKES)):
            (scene.work / name).write_text(text)
        yield scene


REPORTS, TAKING = f"exec {PYTHON} -I -S report", f"exec {PYTHON} -I -S takes"


def run(scene: Scene, task: int, instance: int = 1, processor: int | tuple[int, ...] = 0) -> AttemptOutcome:
    scene.head.run(task, (instance, 1), processor=processor)
    return scene.head.result(task, instance)


def report(scene: Scene, task: int, instance: int = 1, processor: int | tuple[int, ...] = 0) -> Any:
    """Run the task that reports, and return what it printed."""
    ended = run(scene, task, instance, processor)
    assert (ended.exit_code, ended.message) == (0, "")
    return json.loads(scene.captured(task, instance).read_text())


def open_job(scene: Scene, *commands: str, **more: Any) -> None:
    """Open a job whose tasks have 100 MB for each processor."""
    tasks = tuple(TaskSpec(command=each, work_directory=str(scene.work)) for each in commands)
    scene.head.open(JobSpec(tasks=tasks, process_memory=100), **more)


@pytest.mark.skipif(
    not FORGETS, reason="this kernel cannot forget the peak of a group: each task has its own"
)
def test_the_tasks_of_a_sweep_share_few_groups(scene: Scene) -> None:
    open_job(scene, REPORTS)
    instances = range(1, 31)
    scene.head.run(1, *((each, 1) for each in instances))
    assert {scene.head.result(1, each).exit_code for each in instances} == {0}
    output = [json.loads(scene.captured(1, each).read_text()) for each in instances]
    assert len({each["group"] for each in output}) < 10
    assert all(each["alone"] for each in output)
    assert {each["limit"] for each in output} == {str(100 * MB)}


def test_a_task_is_not_charged_for_the_memory_and_the_time_of_the_one_before(scene: Scene) -> None:
    open_job(scene, f"{TAKING} 80 0.6", "true")
    large, small = run(scene, 1).usage, run(scene, 2).usage
    assert 80 * 1024 < large.peak_memory < 100 * 1024
    assert 0 < small.peak_memory < 8 * 1024
    assert large.user_time + large.system_time >= 0.6
    assert small.user_time + small.system_time < 0.3 * SLOWNESS


def test_a_good_task_after_one_that_was_killed_for_memory_ends_well_and_the_next_kill_is_reported(
    scene: Scene,
) -> None:
    open_job(scene, f"{TAKING} 300 0", REPORTS)
    for instance in (1, 2, 3):
        ended = run(scene, 1, instance)
        assert ended.signal == signal.SIGKILL
        assert ended.message.startswith("the task was killed: it needed more than the 100 MB"), ended.message
        assert report(scene, 2, instance)["alone"]


def test_tasks_with_different_limits_have_their_own_in_turn(scene: Scene) -> None:
    open_job(scene, REPORTS, f"{TAKING} 150 0")
    for instance, (processors, megabytes) in enumerate((((0,), 100), ((0, 1), 200)) * 2, 1):
        assert report(scene, 1, instance, processors)["limit"] == str(megabytes * MB)
        ended = run(scene, 2, instance, processors)
        assert (ended.exit_code == 0) == (megabytes == 200), ended


@several
def test_tasks_with_different_processors_have_their_own_in_turn(scene: Scene) -> None:
    open_job(scene, REPORTS, bound=True)
    machine = sorted(os.sched_getaffinity(0))
    for instance, processors in enumerate(((0,), (1,), (0, 1), (1,), (0,)), 1):
        answer = report(scene, 1, instance, processors)
        assert answer["processors"] == [machine[each] for each in processors]


def test_what_a_task_leaves_behind_ends_and_the_next_task_is_alone(scene: Scene) -> None:
    open_job(scene, "env -i setsid sleep 300 & echo $! > stray", REPORTS, "sleep 300")
    scene.head.run(3, (1, 1), processor=1)  # so that the job is not over
    run(scene, 1)
    stray = scene.number("stray")
    assert report(scene, 2)["alone"]
    assert not alive(stray)


def test_an_instance_that_is_killed_does_not_kill_the_next_one(scene: Scene) -> None:
    odd = "[ $((CCP_TASKINSTANCEID % 2)) = 0 ] || { env -i setsid sleep 300 & sleep 300; }"
    open_job(scene, f"{odd}; sleep 0.05")
    for instance in range(1, 10, 2):
        scene.head.run(1, (instance, 1), (instance + 1, 1))
        scene.head.until(lambda instance=instance: (1, instance, 1) in scene.head.started)
        scene.head.send(Stop(JOB, ((1, instance, 1),), force=True))
        assert scene.head.result(1, instance).kind == "stopped"
        assert scene.head.result(1, instance + 1).exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a group inside")
def test_a_group_in_which_a_task_made_another_is_not_used_again(scene: Scene) -> None:
    (scene.work / "makes").write_text(f"{REPORT}os.mkdir(own + '/inner')\n")
    open_job(scene, f"exec {PYTHON} -I -S makes", REPORTS)
    used = report(scene, 1)["group"]
    answer = report(scene, 2)
    assert (answer["groups"], answer["group"] == used) == ([], False)


def test_a_shepherd_that_is_killed_leaves_no_process_and_no_group(scene: Scene) -> None:
    open_job(scene, REPORTS, "env -i setsid sleep 300 & echo $! > stray; sleep 300")
    for instance in (1, 2, 3):
        report(scene, 1, instance)
    scene.head.run(2, (1, 1))
    stray = scene.number("stray")
    story = job_journal.read(next((scene.state / "jobs").glob("*.journal")))
    assert story is not None
    groups = [group for group in cgroups.own_groups(story.header.marker) if group.exists()]
    assert groups
    os.kill(scene.shepherd(), signal.SIGKILL)
    assert scene.head.result(2).kind == "lost"
    assert not alive(stray)
    assert report(scene, 1, 4)["alone"]  # under a new shepherd
    scene.head.close_job()
    assert not [group for group in groups if group.exists()]


@pytest.fixture
def group() -> Iterator[ReusedCgroup]:
    """Return a group of the pool that belongs to no shepherd, with a limit to be set."""
    name = f"headnode-test-{os.getpid()}"
    paths = {"unified": GROUPS.unified, "memory": GROUPS.controllers["memory"]}
    found = {tree: place / name for tree, place in paths.items() if place is not None}
    for place in dict.fromkeys(found.values()):
        place.mkdir()
    entrances = [os.open(place / "cgroup.procs", os.O_RDWR) for place in dict.fromkeys(found.values())]
    switches = open_switches(found["memory"], GROUPS.version, limited=True)
    group = ReusedCgroup(TaskCgroup(1, entrances, found, GROUPS.version), switches, (True, ()))
    yield group
    group.close()
    for place in dict.fromkeys(found.values()):
        cgroups.kill(place)
        while not cgroups.remove(place):
            pass


def test_a_program_that_has_too_much_before_its_limit_is_set_is_killed_for_it(group: ReusedCgroup) -> None:
    """The shepherd sets the limit when it has left the group, a moment after the program was started."""
    report, ready = os.pipe()
    child = os.fork()
    if child == 0:
        for entrance in group.entrances:
            os.write(entrance, b"0")
        x = bytearray(60 * MB)
        x[::4096] = b"1" * len(x[::4096])
        os.write(ready, b"x")
        signal.pause()
    os.read(report, 1)
    assert group.members() == {child}
    if not group.hold(20 * MB):
        assert group.killed() == 1
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    figures = group.figures()
    assert figures.killed >= 1
    assert figures.peak is not None
    assert figures.peak >= 20 * 1024


def test_a_group_with_a_process_is_not_ready_and_one_that_was_left_has_no_limit(group: ReusedCgroup) -> None:
    child = os.fork()
    if child == 0:
        for entrance in group.entrances:
            os.write(entrance, b"0")
        signal.pause()
    while group.members() != {child}:
        pass
    assert group.hold(50 * MB)
    assert not group.reset()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert group.reset() == FORGETS
    if FORGETS:
        limit = group.paths["memory"] / ("memory.max" if GROUPS.version == "v2" else "memory.limit_in_bytes")
        assert limit.read_text().strip() in ("max", str((2**63 - 1) // 4096 * 4096))
        assert group.figures().killed == 0
        assert group.figures().times == (0.0, 0.0)
