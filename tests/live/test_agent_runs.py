"""The agent with real processes: what runs, how it ends, and where its output goes."""

import os
import pwd
import sys
import tempfile
import time
from pathlib import Path

import pytest
from agent_scene import JOB, Scene, a_python_for, scene_fixture

from headnode.adapters.wire import messages as m
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType

scene = scene_fixture()


def test_exit_codes_and_signals_are_kept(scene: Scene) -> None:
    scene.job("exit 3", "/bin/true", "kill -9 $$")
    for task in (1, 2, 3):
        scene.head.run(task, (1, 1), processor=task)
    ended = [scene.head.result(task) for task in (1, 2, 3)]
    assert [(each.kind, each.exit_code, each.signal) for each in ended] == [
        ("exited", 3, None),
        ("exited", 0, None),
        ("exited", None, 9),
    ]
    scene.head.close_job()
    assert not scene.shepherds()


def test_captured_output_holds_both_streams_without_a_limit(scene: Scene) -> None:
    scene.job("head -c 5000000 /dev/zero | tr '\\0' x; echo complaint >&2")
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 0
    assert scene.captured(1).read_bytes() == b"x" * 5_000_000 + b"complaint\n"
    assert scene.captured(1).stat().st_mode & 0o777 == 0o600
    assert scene.captured(1).parent.stat().st_mode & 0o777 == 0o700


def test_an_empty_captured_file_does_not_stay(scene: Scene) -> None:
    scene.job("/bin/true")
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    assert not scene.captured(1).exists()


def test_what_is_not_redirected_is_captured(scene: Scene) -> None:
    scene.job("echo out; echo err >&2", standard_output="out.txt")
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    assert (scene.work / "out.txt").read_text() == "out\n"
    assert scene.captured(1).read_text() == "err\n"


def test_files_are_below_the_work_directory_and_replaced(scene: Scene) -> None:
    (scene.work / "in.txt").write_text("question\n")
    (scene.work / "both.txt").write_text("a long text of an earlier run that has to go\n")
    scene.job(
        "cat; echo answer >&2",
        standard_input="in.txt",
        standard_output="both.txt",
        standard_error="./both.txt",
    )
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 0
    assert (scene.work / "both.txt").read_text() == "question\nanswer\n"
    assert not scene.captured(1).exists()


def test_what_is_appended_stands_behind_what_the_file_held_and_only_there(scene: Scene) -> None:
    for name in ("out.txt", "err.txt"):
        (scene.work / name).write_text("before\n")
    scene.job(
        "echo one; echo two; echo wrong >&2 # the end",
        standard_output="out.txt",
        standard_error="err.txt",
        append_output=True,
    )
    scene.head.run(1, (1, 1))
    scene.head.result(1)
    assert (scene.work / "out.txt").read_text() == "before\none\ntwo\n"
    assert (scene.work / "err.txt").read_text() == "wrong\n"


def test_each_instance_of_a_sweep_has_its_value_and_its_files(scene: Scene) -> None:
    scene.job(
        "echo ** $HEADNODE_VALUE $CCP_TASKINSTANCEID $CCP_RETRY_COUNT",
        kind=TaskType.SWEEP,
        start=5,
        end=9,
        increment=2,
        standard_output="out.***.txt",
    )
    scene.head.run(1, (1, 1), (2, 4), (3, 1))
    for instance, attempt in ((1, 1), (2, 4), (3, 1)):
        scene.head.result(1, instance, attempt)
    found = {each.name: each.read_text() for each in scene.work.iterdir()}
    assert found == {
        "out.005.txt": "05 5 1 0\n",
        "out.007.txt": "07 7 2 3\n",
        "out.009.txt": "09 9 3 0\n",
    }


@pytest.mark.parametrize(
    ("command", "more", "says", "do"),
    [
        ("no-such-command-here", {}, "no command 'no-such-command-here'", "install it"),
        ("/no/such/program", {}, "no program '/no/such/program'", "correct the command line"),
        ("./plain", {}, "'./plain' is not executable", "chmod +x"),
        ("plain", {}, "no command 'plain'", "/plain and write ./plain for the one in"),
        ("./folder", {}, "'./folder' is a directory, not a program", "correct the command line"),
        ("./bad-interpreter", {}, "the interpreter '/no/such/interpreter' of", "correct the line"),
        ("./of-windows", {}, "the lines of './of-windows' end as in Windows", "dos2unix ./of-windows"),
        (
            "/bin/true",
            {"work_directory": "/no/such/place"},
            "'/no/such/place' cannot be entered",
            "create it",
        ),
        ("/bin/true", {"standard_input": "absent.txt"}, "absent.txt' cannot be read", "create the file"),
        ("/bin/true", {"standard_output": "/proc/x/out"}, "'/proc/x/out' cannot be written", "name another"),
        ("/bin/true", {"standard_error": "no/err"}, "no/err' cannot be written", "create its directory"),
        ("/bin/true", {"standard_output": "/tmp"}, "'/tmp' cannot be written", "name a file in it"),
    ],
)
def test_a_program_that_cannot_start_says_why_and_what_to_do(
    scene: Scene, command: str, more: dict[str, str], says: str, do: str
) -> None:
    (scene.work / "plain").touch(0o644)
    (scene.work / "folder").mkdir()
    for name, text in (
        ("bad-interpreter", "#!/no/such/interpreter\n"),
        ("of-windows", "#!/bin/sh\r\nls\r\n"),
    ):
        script = scene.work / name
        script.write_bytes(text.encode())
        script.chmod(0o755)
    directory = more.get("work_directory", str(scene.work))
    scene.head.open(JobSpec(tasks=(TaskSpec(command=command, **{**more, "work_directory": directory}),)))
    scene.head.run(1, (1, 1))
    ended = scene.head.result(1)
    assert (ended.kind, ended.exit_code, ended.signal) == ("not-started", None, None)
    assert says in ended.message
    assert do in ended.message


def test_a_lane_goes_on_after_a_program_that_cannot_start(scene: Scene) -> None:
    scene.head.open(
        JobSpec(
            tasks=(TaskSpec(command="./run-*", kind=TaskType.SWEEP, end=3, work_directory=str(scene.work)),)
        )
    )
    script = scene.work / "run-2"
    script.write_text("exit 6\n")  # without a first line: the shell runs it
    script.chmod(0o755)
    scene.head.run(1, (1, 1), (2, 1), (3, 1), (4, 1))
    ended = [scene.head.result(1, instance) for instance in (1, 2, 3, 4)]
    assert [each.kind for each in ended] == ["not-started", "not-started", "exited", "not-started"]
    assert ended[2].exit_code == 6


def test_a_lane_runs_one_after_the_other_and_lanes_run_side_by_side(scene: Scene) -> None:
    scene.job("mkdir alone && sleep 0.05 && rmdir alone", "until [ -e go ]; do sleep 0.01; done", "touch go")
    scene.head.run(1, *((instance, 1) for instance in range(1, 4)), processor=0)
    scene.head.run(2, (1, 1), processor=1)
    scene.head.run(3, (1, 1), processor=2)
    assert [scene.head.result(1, instance).exit_code for instance in (1, 2, 3)] == [0, 0, 0]
    assert scene.head.result(2).exit_code == 0


def test_an_attempt_that_is_here_or_over_is_not_run_again(scene: Scene) -> None:
    scene.head.acknowledges = False
    scene.job("echo ran >> runs; until [ -e go ]; do sleep 0.01; done")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: (1, 1, 1) in scene.head.started)
    scene.head.run(1, (1, 1))
    (scene.work / "go").touch()
    scene.head.result(1)
    scene.head.run(1, (1, 1), (1, 2))
    scene.head.result(1, 1, 2)
    assert (scene.work / "runs").read_text() == "ran\n" * 2
    scene.head.hang_up()
    hellos = len(scene.head.hellos)
    scene.head.listen()
    scene.head.until(lambda: len(scene.head.hellos) > hellos)
    assert scene.head.hellos[-1].live == ()


def test_stopping_what_waits_gives_it_back_and_stopping_what_runs_ends_it(scene: Scene) -> None:
    scene.job("sleep 300")
    scene.head.run(1, (1, 1), (2, 1), (3, 1))
    scene.head.until(lambda: (1, 1, 1) in scene.head.started)
    scene.head.send(m.Stop(JOB, ((1, 2, 1), (1, 3, 1), (1, 1, 1))))
    waiting, running = scene.head.result(1, 2), scene.head.result(1, 1)
    assert (waiting.kind, waiting.started) == ("never-ran", None)
    assert scene.head.result(1, 3).kind == "never-ran"
    assert (running.kind, running.signal) == ("stopped", 15)
    assert (1, 2, 1) not in scene.head.started


def test_grace_is_given_unless_forced(scene: Scene) -> None:
    scene.head.grace = 300.0
    scene.kill_agent()
    scene.start()
    scene.job("trap 'echo bye; exit 5' TERM; touch ready$CCP_TASKID; while :; do sleep 0.01; done")
    scene.head.run(1, (1, 1))
    scene.head.until((scene.work / "ready1").exists)
    scene.head.send(m.Stop(JOB, ((1, 1, 1),)))
    ended = scene.head.result(1)
    assert (ended.kind, ended.exit_code) == ("stopped", 5)
    assert scene.captured(1).read_text().endswith("bye\n")
    (scene.work / "ready1").unlink()
    scene.head.run(1, (1, 2))
    scene.head.until((scene.work / "ready1").exists)
    scene.head.send(m.Stop(JOB, ((1, 1, 2),), force=True))
    assert scene.head.result(1, 1, 2).signal == 9


def test_who_ignores_being_asked_is_killed_after_the_grace(scene: Scene) -> None:
    scene.job("trap '' TERM; touch ready; while :; do sleep 0.01; done")
    scene.head.run(1, (1, 1))
    scene.head.until((scene.work / "ready").exists)
    began = time.monotonic()
    scene.head.send(m.Stop(JOB, ((1, 1, 1),)))
    ended = scene.head.result(1)
    assert (ended.kind, ended.signal) == ("stopped", 9)
    assert time.monotonic() - began >= scene.head.grace


def test_a_task_over_its_run_time_limit_is_ended(scene: Scene) -> None:
    scene.job("sleep 300", run_time=Seconds(0.2))
    scene.head.run(1, (1, 1))
    ended = scene.head.result(1)
    assert (ended.kind, ended.signal) == ("timed-out", 15)
    assert "0.2 s" in ended.message
    assert ended.ended is not None
    assert ended.started is not None
    assert 0.2 <= ended.ended - ended.started < 5


def test_a_job_over_its_run_time_limit_is_ended_with_all_that_waits(scene: Scene) -> None:
    scene.job("sleep 300", deadline=Instant(time.time() + 0.5))
    scene.head.run(1, (1, 1), (2, 1))
    assert scene.head.result(1, 1).kind == "timed-out"
    assert "of the job" in scene.head.result(1, 1).message
    assert scene.head.result(1, 2).kind == "never-ran"


def test_variables_say_where_a_task_runs(scene: Scene) -> None:
    scene.job("env")
    scene.head.run(1, (1, 3), processor=1)
    scene.head.result(1, 1, 3)
    found = dict(line.split("=", 1) for line in scene.captured(1).read_text().splitlines() if "=" in line)
    expected = {
        "CCP_CLUSTER_NAME": "test",
        "CCP_JOBID": "7",
        "CCP_JOBNAME": "test",
        "CCP_TASKID": "1",
        "CCP_TASKINSTANCEID": "0",
        "CCP_NUMCPUS": "1",
        "CCP_NODES": "1 n1 1",
        "CCP_COREIDS": "1",
        "CCP_RETRY_COUNT": "2",
        "CCP_RUNTIME": "2147483647",
        "CCP_WORKDIR": str(scene.work),
        "HEADNODE_TASK": "7.1.1.3",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_an_attempt_that_never_started_is_no_retry(scene: Scene) -> None:
    scene.job("echo retry $CCP_RETRY_COUNT")
    scene.head.run(1, (1, 4), unstarted=((1, 2),))
    scene.head.result(1, 1, 4)
    assert scene.captured(1).read_text() == "retry 1\n"


def test_times_processor_time_and_memory_are_recorded(scene: Scene) -> None:
    before = time.time()
    scene.job(f"{sys.executable} -I -S -c 'x = b\"x\" * 60_000_000\nfor i in range(3_000_000): pass'")
    scene.head.run(1, (1, 1))
    ended = scene.head.result(1)
    assert ended.exit_code == 0
    assert ended.usage.user_time > 0.01
    assert ended.usage.peak_memory > 55_000
    assert ended.started is not None
    assert ended.ended is not None
    assert before <= ended.started <= ended.ended <= time.time()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_job_runs_as_its_user_with_files_that_belong_to_them(scene: Scene) -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o755)
        own, roots = Path(public) / "own", Path(public) / "roots"
        own.mkdir()
        os.chown(own, nobody.pw_uid, nobody.pw_gid)
        roots.mkdir(mode=0o755)
        commands = (("id -u; id -G; umask", "out"), ("/bin/true", f"{roots}/out"))
        tasks = [TaskSpec(command=a, standard_output=b, work_directory=str(own)) for a, b in commands]
        tasks.append(TaskSpec(command="echo captured; id -u", work_directory=str(own)))
        scene.head.open(JobSpec(tasks=tuple(tasks)), uid=nobody.pw_uid)
        for task in (1, 2, 3):
            scene.head.run(task, (1, 1), processor=task)
        assert scene.head.result(1).exit_code == 0
        assert (own / "out").read_text() == f"{nobody.pw_uid}\n{nobody.pw_gid}\n0022\n"
        assert (own / "out").stat().st_uid == nobody.pw_uid
        refused = scene.head.result(2)
        assert refused.kind == "not-started"
        assert "permission denied" in refused.message
        assert not (roots / "out").exists()
        scene.head.result(3)
        assert scene.captured(3).read_text() == f"captured\n{nobody.pw_uid}\n"
        assert scene.captured(3).stat().st_uid == nobody.pw_uid
        journals = list((scene.state / "jobs").iterdir())
        assert journals
        assert {each.stat().st_uid for each in journals} == {0}
        scene.head.close_job()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an agent as another user")
def test_an_agent_without_root_runs_its_own_users_jobs_and_no_others(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = a_python_for(nobody.pw_uid)
    with tempfile.TemporaryDirectory() as public:
        os.chown(public, nobody.pw_uid, nobody.pw_gid)
        scene = Scene(Path(public))
        os.chown(scene.work, nobody.pw_uid, nobody.pw_gid)
        scene.head.path.chmod(0o666)
        scene.user = nobody.pw_uid
        scene.python = python
        with scene:
            scene.job("id -u", uid=nobody.pw_uid)
            scene.head.run(1, (1, 1))
            assert scene.head.result(1).exit_code == 0
            assert scene.captured(1).read_text() == f"{nobody.pw_uid}\n"
            scene.head.open(scene.head.spec, JobId(8), uid=0)
            scene.head.run(1, (2, 1), job=JobId(8))
            refused = scene.head.result(1, 2)
            assert refused.kind == "not-started"
            assert "start the agent as root" in refused.message
            scene.head.close_job()
