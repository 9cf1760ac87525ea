"""What a task can reach of the machinery around it, and where its files may lead: nowhere."""

import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from agent_scene import Scene, scene_fixture

from headnode.adapters.processes.job_journal import EndedRecord
from headnode.adapters.processes.shepherd_protocol import Introduction
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskType

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


scene = scene_fixture()


@pytest.fixture
def public() -> Iterator[Scene]:
    """A scene whose directories every user may walk, as those of an installed agent."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Scene(Path(folder)) as made:
            made.work.chmod(0o777)
            yield made


def output_of(scene: Scene, task: int = 1, instance: int = 1) -> str:
    path = scene.captured(task, instance)
    return path.read_text() if path.exists() else ""


@pytest.mark.root
@root
def test_a_task_reaches_no_journal_no_identity_and_no_output_of_others(public: Scene) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    (public.state / "identity").mkdir(mode=0o700)
    (public.state / "identity" / "node.key").write_text("secret")
    other = public.state / "output" / "6"
    other.mkdir(mode=0o700)
    (other / "1.out").write_text("secret")
    places = ("jobs", "jobs/*", "identity/node.key", "output", "output/6/1.out", "run")
    tries = "; ".join(f"cat {public.state}/{place} > /dev/null && echo reached {place}" for place in places)
    writes = "; ".join(
        f"(: > {public.state}/{place}) && echo wrote {place}"
        for place in ("jobs/x", "run/x", "output/x", "x")
    )
    public.job(f"exec 2> /dev/null; ls {public.state}/jobs {public.state}/run; {tries}; {writes}", uid=nobody)
    public.head.run(1, (1, 1))
    public.head.result(1)
    assert output_of(public) == ""


@pytest.mark.root
@root
def test_a_task_that_calls_itself_a_shepherd_is_not_believed(public: Scene) -> None:
    """It finds the agent's socket, as every shepherd must, and sends the message of one."""
    nobody = pwd.getpwnam("nobody").pw_uid
    ended = EndedRecord(1, 1, 1, 1, AttemptOutcome("exited", 0, started=Instant(1.0), ended=Instant(2.0)))
    words = msgspec.json.encode(Introduction(7, "MARKER", [], [], [ended]))
    script = public.work / "liar.py"
    script.write_text(
        "import os, socket, struct\n"
        "marker = os.environ.get('HEADNODE_SHEPHERD', '0').encode()\n"
        f"agent = socket.socket(socket.AF_UNIX); agent.connect('{public.state}/run/agent.sock')\n"
        f"words = {words!r}.replace(b'MARKER', marker)\n"
        "try:\n"
        "    agent.sendall(struct.pack('>I', len(words)) + words)\n"
        "    print(len(agent.recv(10)))\n"
        "except (BrokenPipeError, ConnectionResetError):\n"  # the agent awaits no shepherd of this user
        "    print(0)\n"
    )
    public.job(f"python3 {script}; sleep 0.3; exit 3", uid=nobody)
    public.head.run(1, (1, 1))
    assert public.head.result(1).exit_code == 3
    assert output_of(public) == "0\n"


def test_pipes_in_the_place_of_output_hold_up_nobody(scene: Scene) -> None:
    os.mkfifo(scene.work / "pipe")
    scene.job("echo to a pipe", "echo beside it", standard_output="pipe")
    spec = scene.job("echo to a pipe", "true", standard_output="pipe")
    assert len(spec.tasks) == 2
    scene.head.run(1, (1, 1))
    scene.head.run(2, (1, 1), processor=1)
    for task in (1, 2):
        result = scene.head.result(task)
        assert result.kind == "not-started"
        assert "pipe" in result.message


def test_links_and_pipes_in_the_place_of_captured_output_lead_nowhere(scene: Scene) -> None:
    """An instance prepares traps where its successors' captured output goes."""
    victim = scene.work / "victim"
    victim.write_text("kept")
    output = scene.state / "output" / "7"
    traps = (
        f"mkfifo {output}/1.2.out; ln -s {scene.work} {output}/1.3.out; ln -s /proc/1/mem {output}/1.4.out"
    )
    scene.job(f"test '*' != 1 || {{ {traps}; }}; echo out of '*'", kind=TaskType.SWEEP, start=1, end=5)
    scene.head.run(1, *((number, 1) for number in range(1, 6)))
    kinds = [scene.head.result(1, number).kind for number in range(1, 6)]
    assert (kinds[0], kinds[1], kinds[2], kinds[4]) == ("exited", "not-started", "not-started", "exited")
    assert victim.read_text() == "kept"


@pytest.mark.root
@root
def test_files_of_a_task_are_opened_as_its_user_wherever_links_lead(public: Scene) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    secret = public.folder / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    for name in ("in", "out", "private"):
        (public.work / name).symlink_to(secret)
    commands = {"standard_input": "in", "standard_output": "out"}
    for number, (field, name) in enumerate(commands.items(), 1):
        public.job(*["cat"] * number, uid=nobody, **{field: name})
        public.head.run(number, (1, 1))
        result = public.head.result(number)
        assert (result.kind, "permission denied" in result.message) == ("not-started", True)
    assert secret.read_text() == "of root"


@pytest.mark.root
@root
def test_a_private_directory_that_became_a_link_takes_nothing_with_it(public: Scene) -> None:
    """The task puts a link in the place of its own directory: the link goes, not what it leads to."""
    nobody = pwd.getpwnam("nobody").pw_uid
    kept = public.work / "kept"
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    (kept / "file").write_text("kept")
    public.job(
        f'd=$PWD; cd /; rmdir "$d" && ln -s {kept} "$d"; ls -d "$d"', uid=nobody, private_directory=True
    )
    public.head.run(1, (1, 1))
    assert public.head.result(1).exit_code == 0
    public.head.close_job()
    assert (kept / "file").read_text() == "kept"
