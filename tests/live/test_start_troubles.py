"""Why a program cannot be started, in the word by which the head knows whose fault that is."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_scene import Scene

from headnode.adapters.processes.spawning import CannotStart, TaskProgram, spawn
from headnode.core.model import faults
from headnode.core.model.task import StagedFile

NOBODY = 65534
SPAWN = """
import os, resource, sys
from headnode.adapters.processes.spawning import CannotStart, TaskProgram, spawn
which, most, user, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
output = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
open(f"{folder}/warm", "w").close()
if user:
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
if which >= 0:
    resource.setrlimit(which, (most, most))
try:
    spawn(TaskProgram(["/bin/true"], {}, "/", "", "/dev/null", "/dev/null", ""), output)
    print("started")
except CannotStart as why:
    print(why.trouble)
"""

TRANSFER = """
import resource, select, sys, time
from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.adapters.processes.spawning import TaskProgram
from headnode.adapters.processes.staging import ShepherdTransfers
which, most = int(sys.argv[1]), int(sys.argv[2])
attempt = ShepherdAttempt((1, 1, 1), "", TaskProgram(["/bin/true"], {}, "/", "", "", "", ""), None)
attempt.staging = {"in": [], "out": [], "most": 1, "node_most": 1, "host_most": 1}
transfers = ShepherdTransfers(select.poll(), print)
resource.setrlimit(which, (most, most))
transfers.begin(attempt, "in")
while not (over := transfers.take_over()):
    time.sleep(max(0.0, transfers.next_look - time.monotonic()))
print(over[0].trouble)
"""


def trouble(folder: Path, which: int = -1, most: int = 0, user: int = 0, program: str = SPAWN) -> str:
    """Return what becomes of a program that is started under a limit, by a process of its own."""
    words = [sys.executable, "-c", program, str(which), str(most), str(user), str(folder)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_process_without_free_descriptors_is_short_of_them(tmp_path: Path) -> None:
    assert trouble(tmp_path) == "started"
    assert trouble(tmp_path, resource.RLIMIT_NOFILE, 4) == faults.SHORTAGE


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_with_as_many_processes_as_he_may_have_is_not_the_nodes_fault(tmp_path: Path) -> None:
    assert trouble(tmp_path, user=NOBODY) == "started"
    assert trouble(tmp_path, resource.RLIMIT_NPROC, 1, NOBODY) == faults.PROCESS_LIMIT


def program(**different: object) -> TaskProgram:
    plain = TaskProgram(["/bin/true"], {}, "/", "", "", "", "1")
    return plain._replace(**different)


@pytest.mark.parametrize(
    ("what", "word"),
    [
        (program(argv=["/no/such/program"]), faults.COMMAND),
        (program(argv=["no-such-program"]), faults.COMMAND),
        (program(work_directory="/no/such/directory"), faults.WORK_DIRECTORY),
        (program(work_directory="/no/such/directory", private=True), faults.WORK_DIRECTORY),
        (program(stdin="/no/such/file"), faults.FILES),
        (program(stdout="/no/such/directory/file"), faults.FILES),
        (program(limits=(("nofile", 10**18, 10**18),)), faults.LIMITS),
    ],
)
def test_what_a_job_names_is_the_jobs_fault(tmp_path: Path, what: TaskProgram, word: str) -> None:
    output = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(CannotStart) as refused:
            spawn(what, output)
    finally:
        os.close(output)
    assert refused.value.trouble == word


def test_captured_output_that_has_lost_its_directory_is_the_nodes_fault_and_a_link_of_its_owner_is_not(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "output"
    folder.mkdir()
    output = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        (folder / "1").symlink_to("/no/such/directory/file")
        with pytest.raises(CannotStart) as refused:
            spawn(program(), output)
        assert refused.value.trouble == faults.FILES
        (folder / "1").unlink()
        folder.rmdir()
        with pytest.raises(CannotStart) as refused:
            spawn(program(), output)
        assert refused.value.trouble == faults.CAPTURED_OUTPUT
    finally:
        os.close(output)


# Transfers of files before a task, which a process of Headnode does as the user of the job.


def test_a_transfer_for_which_the_node_has_nothing_left_is_the_nodes_fault(tmp_path: Path) -> None:
    assert trouble(tmp_path, resource.RLIMIT_NOFILE, 4, program=TRANSFER) == faults.SHORTAGE


@pytest.fixture
def users_scene() -> Iterator[Scene]:
    """A scene that other users can reach; its agent is still to be started."""
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o755)
        scene = Scene(Path(public))
        scene.work.chmod(0o777)
        yield scene


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("case", ["launcher", "process-limit"])
def test_a_task_whose_files_cannot_be_brought_by_this_node_is_not_started_and_says_why(
    users_scene: Scene, case: str
) -> None:
    scene = users_scene
    word, found = faults.LAUNCHER, "cannot run Headnode's Python"
    if case == "launcher":
        private = scene.folder / "private"
        private.mkdir(mode=0o700)
        (private / "python").symlink_to(Path(sys.executable).resolve())
        scene.python = str(private / "python")
    else:
        word, found = faults.PROCESS_LIMIT, "the job or its user has reached a limit"
        scene.before = ["prlimit", "--nproc=1", "--"]
    with scene:
        scene.job("touch ran", uid=NOBODY, stage_in=(StagedFile("data", "file:///etc/hostname"),))
        scene.head.run(1, (1, 1))
        outcome = scene.head.result(1)
        assert (outcome.kind, outcome.fault, outcome.started) == ("not-started", word, None)
        assert found in outcome.message
        assert "Traceback" not in scene.log()
        scene.head.close_job()
        scene.head.until(lambda: not list(scene.work.iterdir()))
