"""A task has what it asked for of its node and no more, whatever control groups the system has.

The same tests run with the groups that this user has here (all of version 2 in a guest: `make test-cgroup2`),
and as a user who has none.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_scene import JOB, NODE, TIMEOUT, Scene, a_python_for, alive

from headnode.adapters.processes import cgroups, job_journal
from headnode.adapters.wire.agent_messages import Launch, LaunchesEnded, Route
from headnode.adapters.wire.messages import Continue, KillLaunches, Stop
from headnode.core.model.job import HeldAmounts, JobSpec
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage
from headnode.core.model.quantities import Instant
from headnode.core.model.task import ResourceLimit, TaskSpec

NOBODY = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
ROOT = os.geteuid() == 0
MB = 1024 * 1024
SLOWNESS = max(1.0, TIMEOUT / 20)  # how many times slower than usual things may be here
A_WHILE = 1.8 * SLOWNESS  # seconds: long enough to be looked at
cgroups.switch_on()  # as every agent does; after a start of the machine nobody has
GROUPS = cgroups.find()
ALL = {"memory", "pids", "cpuset"} <= GROUPS.controllers.keys()
with_groups = pytest.mark.skipif(not ALL, reason="this user has no control groups with controllers here")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a directory that everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="limits-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(params=["groups", "looks"])
def scene(folder: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Return a scene whose agent has control groups, or is a user who has none."""
    looks = request.param == "looks"
    if looks and not ROOT and GROUPS.version != "none":
        pytest.skip("this user has control groups")
    if not looks and not ALL:
        pytest.skip("this user has no control groups with controllers here")
    python = a_python_for(NOBODY) if looks and ROOT else None
    scene = Scene(folder)
    if python is not None:
        as_nobody(scene, python)
    with scene:
        yield scene


@pytest.fixture
def grouped(folder: Path) -> Iterator[Scene]:
    with Scene(folder) as scene:
        yield scene


def as_nobody(scene: Scene, python: str) -> None:
    scene.user, scene.python = NOBODY, python
    for place in (scene.folder, scene.work):
        os.chown(place, NOBODY, NOBODY)
    scene.head.path.chmod(0o666)


def has_groups(scene: Scene) -> bool:
    return scene.user is None


def submit(scene: Scene, *commands: str, **more: Any) -> None:
    """Open a job with a task for each command; what is not of its description is said to the node."""
    found = {name: more.pop(name) for name in ("bound", "memory_limited", "max_processes") if name in more}
    uid = more.pop("uid", scene.user)
    tasks = tuple(TaskSpec(command=each, work_directory=str(scene.work)) for each in commands)
    scene.head.open(JobSpec(tasks=tasks, **more), uid=uid, **found)


def run(scene: Scene, command: str, processor: int | tuple[int, ...] = 0, **more: Any) -> AttemptOutcome:
    submit(scene, command, **more)
    scene.head.run(1, (1, 1), processor=processor)
    return scene.head.result(1)


def python(scene: Scene, name: str, text: str) -> str:
    """Write a program, and return the command line that runs it."""
    (scene.work / name).write_text(text)
    return f"{PYTHON} -I -S {scene.work / name}"


def takes(scene: Scene, megabytes: int, seconds: float = 60 * SLOWNESS) -> str:
    """Return the command line of a program that has so much memory for a while."""
    text = f"import time\nx = bytearray({megabytes * MB})\nfor i in range(0, len(x), 4096): x[i] = 1\n"
    return python(scene, f"take{megabytes}.py", f"{text}time.sleep({seconds})\n")


def printed_words(scene: Scene, task: int = 1) -> list[str]:
    """Return the words that a task has printed."""
    output = scene.captured(task)  # what nothing was printed to is not kept
    return output.read_text().split() if output.exists() else []


# Memory.


def test_who_needs_more_memory_than_it_asked_for_is_killed_and_told_how_to_ask_for_more(scene: Scene) -> None:
    ended = run(scene, takes(scene, 300), process_memory=100)
    assert ended.message == (
        "the task was killed: it needed more than the 100 MB that it requested; request more with "
        "/estimatedprocessmemory, or in its batch script (--mem, -l mem)"
    )
    assert (ended.kind, ended.signal) == (("exited", 9) if has_groups(scene) else ("timed-out", 15))


def test_who_needs_more_memory_than_the_job_holds_on_the_node_is_killed(scene: Scene) -> None:
    ended = run(scene, takes(scene, 300), held=HeldAmounts(memory=100))
    assert ended.message.startswith("the task was killed: it needed more than the 100 MB that it requested")


def test_memory_that_the_job_holds_on_the_node_is_beside_that_of_its_processors(scene: Scene) -> None:
    enough = {"process_memory": 50, "held": HeldAmounts(memory=100)}
    assert run(scene, takes(scene, 130, 0.0), (0, 1), **enough).exit_code == 0


def test_memory_is_that_of_all_processors_and_of_all_processes_together(scene: Scene) -> None:
    two = f"{takes(scene, 80, A_WHILE)} & {takes(scene, 80, A_WHILE)} & wait"
    assert run(scene, two, (0, 1), process_memory=120).exit_code == 0
    long = takes(scene, 80)
    submit(scene, f"{long} & {long} & wait", process_memory=120)
    scene.head.run(1, (2, 1))
    message = scene.head.result(1, 2).message
    assert message.startswith("the task was killed: it needed more than the 120 MB that it requested"), (
        message
    )


def test_the_message_says_what_each_processor_brought(scene: Scene) -> None:
    ended = run(scene, takes(scene, 300), (0, 1), process_memory=50)
    assert "more than the 100 MB (50 MB for each of its 2 processors) that it requested" in ended.message


def test_a_cluster_that_does_not_enforce_estimates_kills_nobody(scene: Scene) -> None:
    ended = run(scene, takes(scene, 150, A_WHILE), process_memory=100, memory_limited=False)
    assert (ended.exit_code, ended.message) == (0, "")
    assert ended.usage.peak_memory > 150 * 1024


@pytest.mark.parametrize("limit", [0, 200])
def test_a_kill_that_is_not_for_want_of_memory_is_not_reported_as_one(scene: Scene, limit: int) -> None:
    ended = run(scene, "kill -9 $$", process_memory=limit or None)
    assert (ended.signal, ended.message) == (9, "")


@with_groups
def test_a_task_that_asked_for_nothing_and_finds_no_memory_on_the_node_is_told_so(grouped: Scene) -> None:
    submit(grouped, "touch ready; until [ -e go ]; do sleep 0.01; done; exec " + takes(grouped, 300))
    grouped.head.run(1, (1, 1))
    grouped.head.until((grouped.work / "ready").exists)
    shrink(groups_of(grouped), 150)
    (grouped.work / "go").touch()
    ended = grouped.head.result(1)
    assert ended.signal == 9
    assert ended.message.startswith("a process of the task was killed because its node had no memory left")


def shrink(groups: list[Path], megabytes: int) -> None:
    """Let all of a job have no more memory than that, as if the machine had no more."""
    for group in groups:
        for file in ("memory.max", "memory.limit_in_bytes"):
            if (group / file).exists():
                (group / file).write_text(str(megabytes * MB))


def groups_of(scene: Scene) -> list[Path]:
    journal = next((scene.state / "jobs").glob("*.journal"))
    story = job_journal.read(journal)
    assert story is not None
    return [group for group in cgroups.own_groups(story.header.marker) if group.exists()]


# Processors.


AFFINITY = "import os\nprint(*sorted(os.sched_getaffinity(0)), '|', os.environ['CCP_COREIDS'])\n"
several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one processor")


@several
def test_a_task_runs_on_its_own_processors_and_ccp_coreids_names_them(scene: Scene) -> None:
    machine = sorted(os.sched_getaffinity(0))
    show = python(scene, "show.py", AFFINITY)
    submit(scene, show, show, bound=True, process_memory=500)
    for task in (1, 2):
        scene.head.run(task, (1, 1), processor=task - 1)
        assert scene.head.result(task).exit_code == 0
        assert printed_words(scene, task) == [str(machine[task - 1]), "|", str(machine[task - 1])]


@several
def test_a_sweep_of_short_tasks_is_bound_too(scene: Scene) -> None:
    show = python(scene, "show.py", AFFINITY)
    submit(scene, show, bound=True)
    scene.head.run(1, *((instance, 1) for instance in range(1, 41)), processor=1)
    for instance in range(1, 41):
        assert scene.head.result(1, instance).exit_code == 0
        shown = scene.captured(1, instance).read_text().split()
        assert shown == [str(sorted(os.sched_getaffinity(0))[1])] * 1 + ["|", shown[0]]


@several
def test_who_is_not_to_be_bound_has_all_processors(scene: Scene) -> None:
    machine = [str(number) for number in sorted(os.sched_getaffinity(0))]
    show = python(scene, "show.py", AFFINITY)
    assert run(scene, show).exit_code == 0
    assert printed_words(scene) == [*machine, "|", machine[0]]


@several
def test_processors_have_the_machines_numbers_where_the_agent_has_only_some(folder: Path) -> None:
    last = sorted(os.sched_getaffinity(0))[-1]
    scene = Scene(folder)
    scene.before = ["taskset", "-c", str(last)]
    with scene:
        assert scene.head.hellos[0].facts.machine_processors == (last,)
        assert run(scene, python(scene, "show.py", AFFINITY), bound=True).exit_code == 0
        assert printed_words(scene) == [str(last), "|", str(last)]


def test_where_more_processors_are_declared_than_there_are_nothing_is_bound(folder: Path) -> None:
    scene = Scene(folder)
    scene.options = ["--processors", "64"]
    with scene:
        assert scene.head.hellos[0].facts.machine_processors == ()
        assert run(scene, python(scene, "show.py", AFFINITY), 63, bound=True).exit_code == 0
        assert printed_words(scene) == [
            *(str(number) for number in sorted(os.sched_getaffinity(0))),
            "|",
            "63",
        ]
        assert scene.log().count("tasks are not bound") == 1


@several
def test_what_is_launched_on_another_node_is_bound_to_the_processors_of_its_task_there(
    grouped: Scene,
) -> None:
    submit(grouped, "true", bound=True)
    route = Route(JOB, 1, 1, 1, "7.1.1.1.x", "elsewhere", NODE)
    place = (("elsewhere", (0,)), (NODE, (1,)))
    show = python(grouped, "show.py", AFFINITY)
    output = grouped.work / "launched"
    grouped.head.send(Launch(route, f"{show} > {output}", str(grouped.work), {}, place))
    grouped.head.until(lambda: output.exists() and output.read_text().endswith("\n"))
    machine = sorted(os.sched_getaffinity(0))
    assert output.read_text().split() == [str(machine[1]), "|", str(machine[1])]


@with_groups
def test_what_hides_on_another_node_of_its_task_ends_with_the_launch(grouped: Scene) -> None:
    submit(grouped, "sleep 60", "sleep 60")
    grouped.head.run(2, (1, 1), processor=1)  # so that the shepherd is not over with the launch
    route = Route(JOB, 1, 1, 1, "7.1.1.1.y", "elsewhere", NODE)
    hides = "env -i setsid sleep 300 & echo $! > stray; wait"
    place = (("elsewhere", (0,)), (NODE, (0,)))
    grouped.head.send(Launch(route, hides, str(grouped.work), {}, place))
    stray = grouped.work / "stray"
    grouped.head.until(lambda: stray.exists() and stray.read_text().strip())
    hidden = int(stray.read_text())
    parent = int(Path(f"/proc/{hidden}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)  # the hidden one is left alone
    grouped.head.send(KillLaunches(JOB, 1, 1, 1))
    grouped.head.until(lambda: not alive(hidden))


def launch(scene: Scene, command: str, number: str = "z") -> Route:
    """Let a task whose first node is elsewhere launch a command here, on one processor."""
    route = Route(JOB, 1, 1, 1, number, "elsewhere", NODE)
    scene.head.send(Launch(route, command, str(scene.work), {}, (("elsewhere", (0,)), (NODE, (0,)))))
    return route


def used_by(scene: Scene, route: Route) -> RemoteUsage:
    """Say that the task is over, and return what it used here."""
    scene.head.send(LaunchesEnded(route))
    scene.head.until(lambda: NODE in scene.head.over)
    return scene.head.over[NODE]


def ends_of_launches(scene: Scene) -> dict[str, str]:
    """Return the ends by the numbers of the launches: each is said again until it is known to be heard."""
    return {
        each.route.number: each.kind
        for each in scene.head.said_of_launches
        if each.kind in ("exit", "failed")
    }


def test_what_is_launched_on_another_node_has_the_memory_of_its_task_there_and_no_more(scene: Scene) -> None:
    submit(scene, "true", process_memory=100)
    route = launch(scene, f"{takes(scene, 60)} & {takes(scene, 300)}")
    scene.head.until(lambda: ends_of_launches(scene))
    assert used_by(scene, route).message == (
        "the task was killed: it needed more than the 100 MB that it requested; request more with "
        "/estimatedprocessmemory, or in its batch script (--mem, -l mem)"
    )


BUSY = """
import os, time
while sum(os.times()[:2]) < 0.5: pass
open("written", "wb").write(bytes(5_000_000))
"""


def test_what_launches_used_is_reported_together_when_their_task_is_over(scene: Scene) -> None:
    submit(scene, "true", process_memory=1000)
    for number in "ab":
        launch(scene, python(scene, "busy.py", BUSY), number)
    route = launch(scene, takes(scene, 90, A_WHILE), "c")
    scene.head.until(lambda: len(ends_of_launches(scene)) == 3)
    used = used_by(scene, route)
    assert 1.0 <= used.usage.user_time + used.usage.system_time < 20 * SLOWNESS
    assert 10_000_000 <= used.usage.bytes_written < 11_000_000
    assert 90 * 1024 < used.usage.peak_memory < 200 * 1024
    assert 0 < used.usage.average_memory <= used.usage.peak_memory
    assert used.message == ""
    scene.head.over.clear()  # the answer was lost
    assert used_by(scene, route) == used


# Processes.


BOMB = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno, flush=True)
os.kill(0, 15)
"""


def test_a_task_has_no_more_processes_than_it_asked_for(scene: Scene) -> None:
    if not ROOT:
        pytest.skip("processes of this user that run already would count")
    ended = run(scene, python(scene, "bomb.py", BOMB), resource_limits=(ResourceLimit("nproc", 30, 30),))
    made, errno = map(int, printed_words(scene))
    assert (0 < made < 30, errno) == (True, 11)
    if has_groups(scene):
        assert "reached its limit 'nproc', 30 processes and threads" in ended.message


@with_groups
def test_all_tasks_of_a_job_have_no_more_processes_than_the_cluster_allows(grouped: Scene) -> None:
    submit(grouped, python(grouped, "bomb.py", BOMB), max_processes=100)
    grouped.head.run(1, (1, 1))
    grouped.head.result(1)
    made, errno = map(int, printed_words(grouped))
    assert (made < 100, errno) == (True, 11)


# What was used.


SPIN = "import time\nwhile time.process_time() < 0.5: pass\nprint('x' * 3_000_000)\n"


def test_what_escaped_counts_processor_time_and_what_it_read_and_wrote(scene: Scene) -> None:
    spin = python(scene, "spin.py", SPIN)
    daemon = f"(setsid env -i {spin} > {scene.work}/out; touch {scene.work}/done) &"
    ended = run(scene, f"{daemon} until [ -e done ]; do sleep 0.01; done")
    assert ended.exit_code == 0
    assert 0.45 < ended.usage.user_time + ended.usage.system_time < 5 * SLOWNESS
    if ROOT and has_groups(scene):  # as somebody else only what was waited for is known
        assert 3_000_000 < ended.usage.bytes_written < 4_000_000
    assert ended.usage.bytes_read > 10_000


def test_what_children_of_a_task_read_and_wrote_is_reported(scene: Scene) -> None:
    lasting = "sleep 0.3"  # the counters of a process that has ended before they are opened belong to root
    ended = run(scene, f"head -c 3000000 /dev/zero > zeros; cat zeros | wc -c; {lasting}")
    assert 6_000_000 < ended.usage.bytes_written < 7_000_000
    assert 9_000_000 < ended.usage.bytes_read < 10_000_000


@pytest.mark.skipif(not ROOT, reason="what a dead process has read is told to root only")
def test_what_a_process_used_that_dies_with_its_task_is_reported_too(grouped: Scene) -> None:
    """The task ends when it sees that another closes its files, and that is when the other dies."""
    pipe = "pipe.$HEADNODE_TASK"
    command = f"mkfifo {pipe}; head -c 2000000 /dev/zero > /dev/null 3> {pipe} & read nothing < {pipe}"
    submit(grouped, command)
    instances = range(1, 61)
    grouped.head.run(1, *((instance, 1) for instance in instances))
    assert min(grouped.head.result(1, instance).usage.bytes_read for instance in instances) > 2_000_000


def test_memory_of_many_processes_is_reported_together(scene: Scene) -> None:
    for attempt, seconds in enumerate((1.8, 8, 30, 120), 1):  # looks are rare where they cost much
        submit(scene, f"{takes(scene, 60, seconds)} & {takes(scene, 60, seconds)} & wait")
        scene.head.run(1, (attempt, 1))
        ended = scene.head.result(1, attempt)
        assert ended.exit_code == 0
        if ended.usage.peak_memory > 120 * 1024:
            break
    assert 120 * 1024 < ended.usage.peak_memory < 200 * 1024
    assert ended.usage.average_memory <= ended.usage.peak_memory


@with_groups
def test_a_group_shows_the_peak_of_a_task_that_is_over_at_once(grouped: Scene) -> None:
    submit(grouped, "/bin/true", takes(grouped, 90, 0.0), process_memory=1000)
    grouped.head.run(1, (1, 1))
    assert 0 < grouped.head.result(1).usage.peak_memory < 8 * 1024
    grouped.head.run(2, (1, 1))  # not before: behind a task that lasts it would be given back
    assert 90 * 1024 < grouped.head.result(2).usage.peak_memory < 150 * 1024


@with_groups
@pytest.mark.parametrize(
    "uid", [None, pytest.param(NOBODY, marks=pytest.mark.skipif(not ROOT, reason="root"))]
)
def test_a_task_that_is_only_measured_is_alone_in_its_group_and_its_shepherd_outside(
    grouped: Scene, uid: int | None
) -> None:
    os.chown(grouped.work, NOBODY, NOBODY) if uid else None
    submit(grouped, "exec sleep 60", "exec sleep 61", **({"uid": uid} if uid else {}))
    grouped.head.run(1, (1, 1))
    grouped.head.until(lambda: grouped.head.started)
    for outer in groups_of(grouped):
        for own in outer.glob("**/t1"):
            (task,) = cgroups.members(own)
            command = Path(f"/proc/{task}/cmdline")
            grouped.head.until(lambda command=command: command.read_bytes() == b"sleep\x0060\x00")
    assert list(outer.glob("**/t1")) or GROUPS.version == "v1"
    grouped.head.send(Stop(JOB, ((1, 1, 1),), force=True))
    assert grouped.head.result(1).kind == "stopped"
    grouped.head.run(2, (1, 1))  # its shepherd was not killed with the group
    grouped.head.until(lambda: len(grouped.head.started) == 2)


# Users, and the end.


@with_groups
@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_a_user_is_held_to_the_limit_and_cannot_raise_it(grouped: Scene) -> None:
    os.chown(grouped.work, NOBODY, NOBODY)
    raise_it = (
        "for file in $(find /sys/fs/cgroup -path '*headnode*' -name memory.max -o -path '*headnode*' "
        "-name memory.limit_in_bytes); do (echo 999999999 > $file) 2>/dev/null && echo raised; done; "
    )
    ended = run(grouped, f"{raise_it} exec {takes(grouped, 300)}", process_memory=100, uid=NOBODY)
    assert "needed more than the 100 MB" in ended.message
    assert "raised" not in printed_words(grouped)


@with_groups
def test_a_task_that_hides_from_everybody_else_ends_with_its_task(grouped: Scene) -> None:
    submit(grouped, f"env -i setsid {takes(grouped, 1)} & echo $! > stray; exec sleep 60", "sleep 60")
    for task in (1, 2):
        grouped.head.run(task, (1, 1), processor=task - 1)
    found = grouped.work / "stray"
    grouped.head.until(lambda: len(grouped.head.started) == 2 and found.exists() and found.read_text())
    stray = int(found.read_text())
    grouped.head.send(Stop(JOB, ((1, 1, 1),), force=True))
    assert grouped.head.result(1).kind == "stopped"
    assert not alive(stray)


@with_groups
def test_a_suspended_task_keeps_its_limit(grouped: Scene) -> None:
    grouped.suspendable = True
    counting = python(grouped, "count.py", COUNT)
    submit(grouped, counting, process_memory=100, suspendable=True)
    grouped.head.run(1, (1, 1))
    grouped.head.until((grouped.work / "count").exists)
    grouped.head.suspend(1)
    before = (grouped.work / "count").stat().st_size
    grouped.head.receive(0.2)
    assert (grouped.work / "count").stat().st_size == before
    grouped.head.send(Continue(JOB, Instant(float("inf"))))
    grouped.head.until(lambda: (grouped.work / "count").stat().st_size > before)
    (grouped.work / "grow").touch()
    assert "needed more than the 100 MB" in grouped.head.result(1).message


@with_groups
@pytest.mark.parametrize("force", [True, False])
def test_a_suspended_task_with_a_group_ends_with_all_of_it_when_it_is_told_to(
    grouped: Scene, force: bool
) -> None:
    counting = python(grouped, "count.py", COUNT)
    submit(grouped, f"env -i setsid {counting} & wait", process_memory=100, suspendable=True)
    grouped.head.run(1, (1, 1))
    grouped.head.until((grouped.work / "count").exists)
    grouped.head.suspend(1)
    grouped.head.send(Stop(JOB, ((1, 1, 1),), force=force))
    assert grouped.head.result(1).kind == "stopped"
    before = (grouped.work / "count").stat().st_size
    grouped.head.receive(0.1)
    assert (grouped.work / "count").stat().st_size == before


COUNT = """
import os, time
while not os.path.exists('grow'):
    with open('count', 'a') as file: file.write('.')
    time.sleep(0.01)
x = bytearray(300 << 20)
for i in range(0, len(x), 4096): x[i] = 1
time.sleep(60)
"""


@with_groups
def test_nothing_is_left_of_a_job_that_is_closed(grouped: Scene) -> None:
    submit(grouped, takes(grouped, 1), process_memory=100)
    grouped.head.run(1, (1, 1), (2, 1))
    grouped.head.until(lambda: len(grouped.head.started) == 1)
    groups = groups_of(grouped)
    assert groups
    grouped.head.close_job()
    assert not [group for group in groups if group.exists()]


@with_groups
def test_an_agent_removes_what_is_empty_and_old_and_nothing_else(folder: Path) -> None:
    names = {state: f"headnode-test-{state}-{os.getpid()}" for state in ("old", "young", "lived-in")}
    places = GROUPS.places()
    for name in names.values():
        for place in places:
            (place / name / "t1").mkdir(parents=True)
    lives_in = GROUPS.unified / names["lived-in"] / "t1" if GROUPS.unified else places[0] / names["lived-in"]
    sleeper = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
    try:
        (lives_in / "cgroup.procs").write_text(str(sleeper))
        for name in (names["old"], names["lived-in"]):  # agents of other tests remove what is old and empty
            for place in places:
                os.utime(place / name, (1, 1))
        with Scene(folder):
            pass
        left = {state for state, name in names.items() if any((place / name).exists() for place in places)}
        assert left == {"young", "lived-in"}
        assert all((place / names["lived-in"] / "t1").exists() for place in places)
    finally:
        os.kill(sleeper, signal.SIGKILL)
        os.waitpid(sleeper, 0)
        for name in names.values():
            assert all(cgroups.remove(place / name) for place in places)


def test_an_agent_says_what_its_system_keeps_for_it(scene: Scene) -> None:
    facts = scene.head.hellos[0].facts
    if has_groups(scene):
        assert facts.control_groups == GROUPS.version
        assert set(facts.enforced) == {"memory", "processes", "processors"}
    else:
        assert (facts.control_groups, facts.enforced) == ("none", ())
