"""Limits that a task asks for are those of its processes, and its end says when one was reached."""

import os
import resource
import signal
import sys

import pytest
from agent_scene import JOB, Scene, scene_fixture

from headnode.adapters.processes.attempt_limits import limit_ending
from headnode.adapters.processes.attempts import MemoryUse, ShepherdAttempt
from headnode.adapters.processes.limits import _ITEMS, CannotSet, requested_limits
from headnode.adapters.processes.spawning import TaskProgram
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.task import LIMITS, ResourceLimit, TaskSpec

PYTHON = f"{sys.executable} -I -S -c"
SPIN = f"{PYTHON} 'while True: pass'"

scene = scene_fixture()


def run(scene: Scene, command: str, *limits: ResourceLimit, attempt: int = 1) -> AttemptOutcome:
    """Run one task with these limits; return how it ended."""
    scene.job(command, resource_limits=limits)
    scene.head.run(1, (1, attempt))
    return scene.head.result(1, attempt=attempt)


def test_the_model_and_the_node_know_the_same_limits() -> None:
    assert _ITEMS.keys() == LIMITS.keys()


def test_ulimit_shows_the_soft_and_the_hard_limit_of_the_task_in_place_of_the_jobs(scene: Scene) -> None:
    show = "bash -c 'ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc; ulimit -St; ulimit -v'"
    task = TaskSpec(command=show, resource_limits=(ResourceLimit("nofile", 50, 70),))
    scene.head.open(
        JobSpec(
            tasks=(task,),
            resource_limits=(
                ResourceLimit("nofile", 10, 10),
                ResourceLimit("core", None, 0),
                ResourceLimit("cpu", 7, None),
            ),
        )
    )
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 0
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    assert scene.captured(1).read_text().split() == [
        "50",
        "70",
        "0",
        "0",
        "7",
        "unlimited" if address_space < 0 else str(address_space // 1024),
    ]


def test_a_task_with_limits_leaves_none_to_its_successor(scene: Scene) -> None:
    limited = TaskSpec(command="bash -c 'ulimit -n'", resource_limits=(ResourceLimit("nofile", 40, 40),))
    scene.head.open(JobSpec(tasks=(limited, TaskSpec(command="bash -c 'ulimit -n'"))))
    for task in (1, 2):
        scene.head.run(task, (1, 1))
        assert scene.head.result(task).exit_code == 0
    shown = [scene.captured(task).read_text().strip() for task in (1, 2)]
    assert shown == ["40", str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])]


def test_processor_time_that_is_over_is_named_with_its_signal(scene: Scene) -> None:
    ended = run(scene, SPIN, ResourceLimit("cpu", 1, 5))
    assert (ended.kind, ended.signal) == ("exited", 24)
    assert ended.message == (
        "the program was ended by SIGXCPU: it reached its limit 'cpu', 1 s of processor time"
    )


def test_a_shell_whose_program_reached_a_limit_is_no_riddle(scene: Scene) -> None:
    ended = run(scene, f"{SPIN}; exit $?", ResourceLimit("cpu", 1))
    assert ended.exit_code == 152
    assert "a process of the task was ended by SIGXCPU" in ended.message


def test_a_program_that_ignores_the_soft_limit_is_killed_at_the_hard_one_by_name(scene: Scene) -> None:
    stubborn = f"{PYTHON} 'import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass'"
    ended = run(scene, stubborn, ResourceLimit("cpu", 1, 2))
    assert (ended.signal, ended.exit_code) in ((9, None), (None, 137))
    assert "killed by the system: it reached its limit 'cpu'" in ended.message


@pytest.mark.parametrize(("seconds", "named"), [(2.0, True), (1.63, True), (1.0, False)])
def test_a_kill_at_the_hard_limit_is_named_though_the_system_reports_less_time_than_it_counts(
    seconds: float, named: bool
) -> None:
    """On a virtual machine that shares its processors, 1.63 s were told of who was killed after two."""
    program = TaskProgram(["spin"], {}, "/", "", "", "", "", limits=(("cpu", 1, 2),))
    for status in (signal.SIGKILL, (128 + signal.SIGKILL) << 8):  # its own end, and that of a shell's child
        attempt = ShepherdAttempt((1, 1, 1), "", program, None)
        attempt.usage = (status, seconds, 0.0, 0)
        assert ("it reached its limit 'cpu', 2 s" in limit_ending(attempt)) is named


def test_a_file_that_grows_too_large_is_named(scene: Scene) -> None:
    ended = run(scene, "head -c 100000 /dev/zero", ResourceLimit("fsize", 4096, 4096))
    assert ended.signal == 25
    assert "SIGXFSZ: it reached its limit 'fsize', 4096 bytes" in ended.message
    assert scene.captured(1).stat().st_size == 4096


def test_memory_beyond_the_address_space_is_refused_to_the_program(scene: Scene) -> None:
    ended = run(scene, f"{PYTHON} 'b\"x\" * 400_000_000'", ResourceLimit("as", 300_000_000))
    assert ended.exit_code == 1
    assert "MemoryError" in scene.captured(1).read_text()


def test_memory_in_use_beyond_its_limit_ends_the_task_by_name(scene: Scene) -> None:
    hold = f"{PYTHON} 'import signal\nx = b\"x\" * 80_000_000\nsignal.pause()'"
    ended = run(scene, hold, ResourceLimit("rss", 50_000_000))
    assert ended.kind == "timed-out"
    assert "above its limit 'rss'" in ended.message
    assert ended.usage.peak_memory > 78_000


def test_programs_with_limits_start_as_those_without(scene: Scene) -> None:
    script = scene.work / "plain"
    script.write_text("echo $0 $1 $HEADNODE_JOB; cat; kill -0 $PPID\n")
    script.chmod(0o755)
    (scene.work / "in").write_text("hello\n")
    limits = (ResourceLimit("core", 0),)
    missing, locked = TaskSpec(command="nothing-such"), TaskSpec(command=f"{scene.work}/in")
    plain = TaskSpec(command=f"{script} a", standard_input="in", work_directory=str(scene.work))
    scene.head.open(JobSpec(tasks=(plain, missing, locked), resource_limits=limits))
    ends = []
    for task in (1, 2, 3):  # one after the other: what waits behind a slow one is given back
        scene.head.run(task, (1, 1))
        ends.append(scene.head.result(task))
    assert ends[0].exit_code == 0
    assert scene.captured(1).read_text() == f"{script} a {JOB}\nhello\n"
    assert "there is no command 'nothing-such'" in ends[1].message
    assert "is not executable" in ends[2].message


def test_a_limited_task_has_its_own_session_and_the_usual_signals(scene: Scene) -> None:
    show = (
        "import os, signal\n"
        "print(os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(0, []))"
    )
    show += '\nprint([line for line in open("/proc/self/status") if line.startswith("SigIgn")])'
    ended = run(scene, f"{PYTHON} '{show}'", ResourceLimit("core", 0))
    assert ended.exit_code == 0
    shown = scene.captured(1).read_text()
    assert shown.startswith("True 0 set()") or shown.startswith("True Handlers.SIG_DFL set()"), shown
    ignored = int(shown.split("SigIgn:\\t")[1].split("\\n")[0], 16)
    ordinary = (1 << 31) - 1  # the C library has signals of its own above these
    assert ignored & ordinary & ~((1 << 12) | (1 << 24)) == 0  # Python itself ignores SIGPIPE and SIGXFSZ


def as_somebody_else(check: str) -> bool:
    """Run `check` of this module in a process that may not raise limits; tell whether it held."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        held = False
        try:
            held = globals()[check]()
        finally:
            os._exit(0 if held else 1)
    return os.waitpid(child, 0)[1] == 0


def _more_is_refused() -> bool:
    refused = []
    for limit in (("nofile", 201, None), ("nofile", 100, 201), ("nofile", None, -1)):
        try:
            requested_limits([limit])
        except CannotSet as why:
            refused.append("limit nofile=" in str(why) and "200" in str(why) and "limits.conf" in str(why))
    return refused == [True, True, True]


def _less_is_set() -> bool:
    number = resource.RLIMIT_NOFILE
    return requested_limits([("nofile", 150, None), ("nofile", None, 50), ("nofile", 200, 200)]) == [
        ("nofile", number, 150, 200),
        ("nofile", number, 50, 50),
        ("nofile", number, 200, 200),
    ]


@pytest.mark.parametrize("check", ["_more_is_refused", "_less_is_set"])
def test_what_a_node_does_not_allow_is_refused_by_name_and_less_is_set(check: str) -> None:
    assert as_somebody_else(check)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_asks_for_more_than_the_node_allows_is_told_and_one_who_asks_for_less_has_it(
    scene: Scene,
) -> None:
    more, less = (ResourceLimit("nofile", None, 10**8),), (ResourceLimit("nofile", 33, 44),)
    show = "bash -c 'ulimit -Sn; ulimit -Hn; id -u'"
    tasks = tuple(
        TaskSpec(command=show, work_directory="/", resource_limits=limits) for limits in (more, less)
    )
    scene.head.open(JobSpec(tasks=tasks), uid=65534)
    for task in (1, 2):
        scene.head.run(task, (1, 1), processor=task)
    refused = scene.head.result(1)
    assert refused.kind == "not-started"
    assert "requests the limit nofile=100000000" in refused.message
    assert scene.head.result(2).exit_code == 0
    assert scene.captured(2).read_text().split() == ["33", "44", "65534"]


def test_memory_is_averaged_over_the_time_a_task_runs_with_all_its_processes(scene: Scene) -> None:
    for attempt, seconds in enumerate((2.5, 10, 40), 1):  # on a busy machine they come late to their memory
        hold = f'x = b"x" * 60_000_000; import time; time.sleep({seconds})'
        ended = run(scene, f"{PYTHON} '{hold}' & {PYTHON} '{hold}'; wait", attempt=attempt)
        assert ended.exit_code == 0
        if ended.usage.average_memory > 115_000:
            break
    assert 115_000 < ended.usage.average_memory <= ended.usage.peak_memory < 200_000


def test_memory_counts_for_as_long_as_it_was_there() -> None:
    memory = MemoryUse(100.0)
    assert (memory.average, memory.next_look) == (0, 101.0)
    memory.see(100, 101.0)
    memory.see(400, 103.0)
    assert (memory.average, memory.peak) == (300, 400)


def test_looks_come_more_and_more_rarely_unless_a_limit_must_be_kept() -> None:
    memory, pauses = MemoryUse(0.0), []
    for _ in range(60):
        before = memory.next_look
        memory.see(1, before)
        pauses.append(memory.next_look - before)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, 30.0)
    memory.see(1, 1000.0, 1.0)
    assert memory.next_look == 1001.0


def test_the_average_is_below_the_peak_of_a_task_that_grows_and_processes_left_alone_count(
    scene: Scene,
) -> None:
    for attempt, slow in enumerate((1, 4, 16), 1):  # looks are late on a busy machine, and programs, too
        grow = f'import time; time.sleep({1.9 * slow}); x = b"x" * 80_000_000; time.sleep({2 * slow})'
        ended = run(scene, f"({PYTHON} '{grow}' &); sleep {3.4 * slow}", attempt=attempt)
        assert ended.exit_code == 0
        assert ended.usage.peak_memory < 120_000
        if ended.usage.peak_memory > 80_000 and 15_000 < ended.usage.average_memory < 75_000:
            break
    assert ended.usage.peak_memory > 80_000
    assert 15_000 < ended.usage.average_memory < 75_000


def test_the_average_memory_of_a_short_task_is_its_peak(scene: Scene) -> None:
    ended = run(scene, "/bin/true")
    assert 0 < ended.usage.average_memory == ended.usage.peak_memory
