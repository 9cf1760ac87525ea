"""A task with a temporary directory finds it in TMPDIR; it is removed, whatever becomes of the task."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_scene import JOB, NODE, Scene, scene_fixture

from headnode.adapters.processes.attempts import attempts_of
from headnode.adapters.processes.program_start import MOST_REMOVALS, Removals
from headnode.adapters.processes.shepherd_protocol import run_message
from headnode.adapters.wire.agent_messages import Launch, LaunchesEnded, Route
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.task import TaskSpec, TaskType

scene = scene_fixture()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def scratch(scene: Scene) -> Path:
    """Return where the directories are made, as all users may do."""
    folder = scene.folder / "scratch"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def submit(scene: Scene, scratch: Path, command: str, *, dialect: str = "pbs", **more: Any) -> None:
    """Open a job of one task whose temporary directories are made there."""
    uid = more.pop("uid", None)
    task = TaskSpec(command=command, **{"work_directory": "/" if uid else str(scene.work), **more})
    scene.head.open(JobSpec(name="test", dialect=dialect, tasks=(task,)), uid=uid, temporary=str(scratch))


def ends(scene: Scene, instance: int = 1) -> AttemptOutcome:
    """Run an attempt to its end."""
    scene.head.run(1, (instance, 1))
    return scene.head.result(1, instance)


def gone(scene: Scene, scratch: Path) -> None:
    """Wait until nothing is left."""
    scene.head.until(lambda: not list(scratch.iterdir()))


@pytest.mark.parametrize(
    ("dialect", "variables"),
    [
        ("pbs", "TMPDIR"),
        ("gridengine", "TMPDIR TMP"),
        ("htcondor", "TMPDIR TEMP TMP _CONDOR_SCRATCH_DIR"),
    ],
)
def test_a_script_enters_the_directory_of_its_scheduler(
    scene: Scene, scratch: Path, dialect: str, variables: str
) -> None:
    names = " ".join(f"${name}" for name in variables.split())
    submit(scene, scratch, f"cd $TMPDIR && stat -c %a . && ls -A && touch x && echo {names}", dialect=dialect)
    assert ends(scene).exit_code == 0
    mode, *paths = scene.captured(1).read_text().split()
    assert mode == "700"
    assert len(paths) == len(variables.split())
    assert set(paths) == {paths[0]}
    assert Path(paths[0]).parent == scratch
    gone(scene, scratch)


@pytest.mark.parametrize(("dialect", "asked"), [("slurm", None), ("lsf", None), ("", None), ("pbs", False)])
def test_other_tasks_have_none(scene: Scene, scratch: Path, dialect: str, asked: bool | None) -> None:
    command = f"echo ${{TMPDIR-unset}}; ls {scratch}"
    submit(scene, scratch, command, dialect=dialect, temporary_directory=asked)
    assert ends(scene).exit_code == 0
    assert scene.captured(1).read_text() == "unset\n"


def test_a_task_that_asks_has_one_in_place_of_the_TMPDIR_of_its_owner(scene: Scene, scratch: Path) -> None:
    own = {"TMPDIR": "/nothing-such"}
    submit(scene, scratch, "echo $TMPDIR", dialect="", temporary_directory=True, environment=own)
    assert ends(scene).exit_code == 0
    assert Path(scene.captured(1).read_text().strip()).parent == scratch


def test_each_element_and_each_attempt_has_its_own_and_no_name_tells_another(
    scene: Scene, scratch: Path
) -> None:
    submit(scene, scratch, "echo $TMPDIR; touch $TMPDIR/x", kind=TaskType.SWEEP, start=1, end=2)
    scene.head.run(1, (1, 1), (2, 1))
    scene.head.run(1, (2, 2))
    names = set()
    for instance, attempt in ((1, 1), (2, 1), (2, 2)):
        assert scene.head.result(1, instance, attempt).exit_code == 0
        name = Path(scene.captured(1, instance).read_text().strip()).name
        if (instance, attempt) != (2, 1):  # its output was written over
            names.add(name.rpartition("-"))
    assert len({first for first, _, _ in names}) == len({token for _, _, token in names}) == 2
    gone(scene, scratch)


FILLED = """cd $TMPDIR; mkdir many; (cd many; seq 100000 | xargs touch); chmod 0500 many
mkdir -p closed/deep; touch closed/deep/x; chmod 0 closed/deep closed
ln -s OUTSIDE link; ln -s OUTSIDE/kept file; mkfifo pipe; touch -- -rf 'a b'
python3 -c 'import os
for _ in range(300): os.mkdir("d" * 200); os.chdir("d" * 200)'
echo $TMPDIR"""


@pytest.fixture
def user(scene: Scene) -> int:
    """Return the user of a job: nobody if we are root, whom no closed directory would stop."""
    if os.geteuid():
        return os.geteuid()
    for each in (scene.folder, *scene.folder.parents):
        each.chmod(each.stat().st_mode | 0o001)
    return 65534


def test_everything_in_it_is_removed_and_nothing_outside_of_it(
    scene: Scene, scratch: Path, user: int
) -> None:
    outside = scene.folder / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    submit(scene, scratch, FILLED.replace("OUTSIDE", str(outside)), uid=user)
    assert ends(scene).exit_code == 0
    assert Path(scene.captured(1).read_text().strip()).parent == scratch
    gone(scene, scratch)
    assert [each.name for each in outside.iterdir()] == ["kept"]


def test_a_directory_that_became_a_link_is_not_followed(scene: Scene, scratch: Path) -> None:
    outside = scene.folder / "outside"
    (outside / "deep").mkdir(parents=True)
    outside.chmod(0o500)
    submit(scene, scratch, f"rmdir $TMPDIR; ln -s {outside} $TMPDIR")
    assert ends(scene).exit_code == 0
    gone(scene, scratch)
    assert (outside / "deep").is_dir()
    assert outside.stat().st_mode & 0o777 == 0o500


@as_root
def test_what_is_mounted_in_it_stays_as_it_is(scene: Scene, scratch: Path) -> None:
    submit(
        scene, scratch, "mkdir $TMPDIR/m; mount -t tmpfs none $TMPDIR/m && touch $TMPDIR/m/kept; echo $TMPDIR"
    )
    ended = ends(scene)
    (path,) = scene.captured(1).read_text().split()
    mounted = Path(path) / "m"
    if ended.exit_code or not mounted.is_mount():
        pytest.skip("nothing can be mounted here")
    try:
        scene.head.close_job()
        assert (mounted / "kept").exists()
    finally:
        subprocess.run(["umount", mounted], check=True)


@as_root
@pytest.mark.parametrize("private", [False, True])
def test_what_is_bound_into_it_from_its_own_file_system_is_not_removed(
    scene: Scene, scratch: Path, private: bool
) -> None:
    outside = scene.folder / "outside"
    outside.mkdir()
    (outside / "kept").touch(0o400)
    place = "$PWD" if private else "$TMPDIR"
    command = f"mkdir {place}/m; mount --bind {outside} {place}/m && echo {place}"
    submit(scene, scratch, command, temporary_directory=not private, private_directory=private)
    if ends(scene).exit_code:
        pytest.skip("nothing can be mounted here")
    (path,) = scene.captured(1).read_text().split()
    try:
        scene.head.close_job()
        assert (outside / "kept").stat().st_mode & 0o777 == 0o400
    finally:
        subprocess.run(["umount", Path(path) / "m"], check=True)


def test_a_few_directories_are_removed_at_once_and_all_in_the_end(tmp_path: Path) -> None:
    removals = Removals()
    for number in range(3 * MOST_REMOVALS):
        (tmp_path / str(number) / "deep").mkdir(parents=True)
        removals.begin(str(tmp_path / str(number)))
        assert len(removals.processes) <= MOST_REMOVALS
    while removals.processes:
        process = min(removals.processes)
        removals.reaped(*os.waitpid(process, 0))
    assert list(tmp_path.iterdir()) == []


def started(scene: Scene, scratch: Path) -> Path:
    """Start a task that fills its directory and stays; return the directory."""
    submit(scene, scratch, "mkdir -p $TMPDIR/a/b; chmod 0 $TMPDIR/a; echo $TMPDIR > place; sleep 100")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.written("place").endswith("\n"))
    return Path(scene.written("place").strip())


def test_it_is_removed_after_the_agent_was_killed(scene: Scene, scratch: Path) -> None:
    path = started(scene, scratch)
    scene.kill_agent()
    assert path.is_dir()
    scene.start()
    scene.head.close_job()
    assert not path.exists()


def test_it_is_removed_after_the_shepherd_was_killed(scene: Scene, scratch: Path) -> None:
    path = started(scene, scratch)
    os.kill(scene.shepherd(), signal.SIGKILL)
    assert scene.head.result(1).kind == "lost"
    gone(scene, scratch)
    scene.head.run(1, (1, 2))  # the task is requeued: it gets another one
    scene.head.until(lambda: scene.written("place").strip() not in ("", str(path)))
    assert Path(scene.written("place").strip()).is_dir()
    scene.head.close_job()
    gone(scene, scratch)


def test_it_is_removed_after_agent_and_shepherd_were_killed(scene: Scene, scratch: Path) -> None:
    path = started(scene, scratch)
    shepherd = scene.shepherd()
    scene.kill_agent()
    os.kill(shepherd, signal.SIGKILL)
    scene.start()
    assert scene.head.result(1).kind == "lost"
    assert not path.exists()


def test_one_that_cannot_be_made_fails_the_task_with_the_reason(scene: Scene, scratch: Path) -> None:
    submit(scene, scratch / "nothing-such", "true")
    ended = ends(scene)
    assert (ended.kind, ended.fault) == ("not-started", "temporary-directory")
    assert "no such file or directory; let all users make directories there, or set TemporaryDirectory" in (
        ended.message
    )


def test_none_is_made_where_other_users_could_replace_it(scene: Scene, scratch: Path) -> None:
    scratch.chmod(0o777)
    submit(scene, scratch, "true")
    assert f"chmod +t {scratch}" in ends(scene).message
    assert list(scratch.iterdir()) == []


def test_nothing_is_left_of_a_task_that_cannot_start(scene: Scene, scratch: Path) -> None:
    submit(scene, scratch, "true", standard_input="/nothing-such", private_directory=True)
    assert ends(scene).kind == "not-started"
    assert list(scratch.iterdir()) == []


@as_root
def test_a_full_disk_fails_the_task_with_the_reason(scene: Scene, scratch: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=1,mode=1777", "none", str(scratch)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        submit(scene, scratch, "true")
        ended = ends(scene)
        assert (ended.kind, ended.fault) == ("not-started", "temporary-directory")
        assert "no space left on device" in ended.message
    finally:
        subprocess.run(["umount", scratch], check=True)


@as_root
def test_it_belongs_to_the_user_of_the_job_who_may_replace_it(scene: Scene, scratch: Path, user: int) -> None:
    submit(scene, scratch, "stat -c '%u %a' $TMPDIR; rmdir $TMPDIR; ln -s /etc $TMPDIR", uid=user)
    assert ends(scene).exit_code == 0
    assert scene.captured(1).read_text() == f"{user} 700\n"
    gone(scene, scratch)
    assert Path("/etc/passwd").exists()


def launched(scene: Scene, scratch: Path, command: str, name: str) -> Route:
    """Let a task of another node launch a command here; its directory has that name."""
    submit(scene, scratch, "true")
    route = Route(JOB, 1, 1, 1, "z", "elsewhere", NODE)
    place = (("elsewhere", (0,)), (NODE, (0,)))
    scene.head.send(Launch(route, command, str(scene.work), {}, place, temporary=name))
    scene.head.until(lambda: any(each.kind in ("exit", "failed") for each in scene.head.said_of_launches))
    return route


OF_ANOTHER_NODE = "headnode-7.1.1.1-0123456789abcdef"


def test_a_task_of_several_nodes_has_it_on_each_until_it_ends(scene: Scene, scratch: Path) -> None:
    route = launched(scene, scratch, "touch $TMPDIR/x; echo $TMPDIR > place", OF_ANOTHER_NODE)
    assert Path(scene.written("place").strip()) == scratch / OF_ANOTHER_NODE
    assert (scratch / OF_ANOTHER_NODE / "x").exists()  # for the next command of the task
    scene.head.send(LaunchesEnded(route))
    gone(scene, scratch)


def test_it_is_removed_on_the_other_nodes_when_the_job_ends_first(scene: Scene, scratch: Path) -> None:
    launched(scene, scratch, "mkdir -p $TMPDIR/a/b", OF_ANOTHER_NODE)
    scene.head.close_job()
    assert list(scratch.iterdir()) == []


def test_it_is_removed_on_the_other_nodes_after_the_shepherd_was_killed(scene: Scene, scratch: Path) -> None:
    launched(scene, scratch, "mkdir -p $TMPDIR/a/b", OF_ANOTHER_NODE)
    os.kill(scene.shepherd(), signal.SIGKILL)
    gone(scene, scratch)


def test_nodes_on_one_machine_share_it_and_the_first_node_removes_it(scene: Scene, scratch: Path) -> None:
    shared = scratch / OF_ANOTHER_NODE
    shared.mkdir(mode=0o700)
    route = launched(scene, scratch, "touch $TMPDIR/x", OF_ANOTHER_NODE)
    scene.head.send(LaunchesEnded(route))
    scene.head.close_job()
    assert (shared / "x").exists()


@pytest.mark.parametrize(
    "name", ["../headnode-7.1.1.1-0123456789abcdef", "headnode-7.1.2.1-0123456789abcdef", ""]
)
def test_no_other_name_is_taken_from_another_node(scene: Scene, scratch: Path, name: str) -> None:
    launched(scene, scratch, "touch $TMPDIR/x", name)
    (found,) = [each for each in scene.head.said_of_launches if each.kind == "failed"]
    assert b"is not the name of the temporary directory of the task" in found.data
    assert list(scratch.iterdir()) == []


def test_what_another_user_has_put_there_is_not_used(scene: Scene, scratch: Path) -> None:
    trap = scratch / OF_ANOTHER_NODE
    trap.symlink_to(scene.work)
    launched(scene, scratch, "touch $TMPDIR/x", OF_ANOTHER_NODE)
    (found,) = [each for each in scene.head.said_of_launches if each.kind == "failed"]
    assert b"file exists" in found.data
    assert not (scene.work / "x").exists()


def test_a_shepherd_of_before_reads_a_task_with_a_temporary_directory_as_one_without_limits() -> None:
    item = [1, 1, ["true"], {}, "/", "", "", "", "1.1.out", False, False]
    plain = json.loads(run_message(1, "lane", {}, None, [item]))
    temporary = json.loads(run_message(1, "lane", {}, None, [[*item, "/scratch/x"]]))
    assert plain[5:] == [[item]]
    assert temporary[5:8] == [[[*item, "/scratch/x"]], [], False]
    (attempt,) = attempts_of(temporary[1:])
    assert (attempt.program.temporary, attempt.limits) == ("/scratch/x", ())
