"""A head for tests of the agent: it listens on a Unix socket and speaks the real messages, as told."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import pytest

from headnode.adapters.nodes.streams import SHOW_LIFE
from headnode.adapters.wire.agent_messages import (
    Health,
    Heartbeat,
    Hello,
    HookFailed,
    JobClosed,
    JobReady,
    Launch,
    LaunchAck,
    LaunchData,
    LaunchesEnded,
    Results,
    Route,
    Started,
    Suspended,
)
from headnode.adapters.wire.messages import (
    CloseJob,
    FromAgent,
    FromHead,
    Goodbye,
    OpenJob,
    ResultsAck,
    Run,
    Suspend,
    Welcome,
)
from headnode.core.launching.recipe import captured_path
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_record import encode_spec

TIMEOUT = float(os.environ.get("HEADNODE_TEST_PATIENCE", "20"))  # seconds for anything that must happen
NODE = "n1"
JOB = JobId(7)
PATHS = {"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
Key = tuple[int, int, int]


class Head:
    """The test's side.  Nothing is acknowledged unless `acknowledges`."""

    def __init__(self, path: Path, grace: float = 0.3) -> None:
        self.path, self.grace = path, grace
        self.acknowledges = True
        self.refuses = ""  # why agents are refused that say hello
        self.hellos: list[Hello] = []
        self.started: list[tuple[int, ...]] = []
        self.results: dict[Key, list[AttemptOutcome]] = {}
        self.closed: list[int] = []
        self.over: dict[
            str, RemoteUsage
        ] = {}  # what was launched and is over, by the node it was launched on
        self.said_of_launches: list[LaunchData] = []
        self.suspended: list[int] = []  # the numbers of suspensions by which all stood still
        self.ready: list[int] = []  # jobs for which the node was ready, as often as it said so
        self.failed: list[HookFailed] = []
        self.healthy = True  # the node, by its last word
        self.heartbeats: list[tuple[int, float]] = []  # their numbers, and when they were heard
        self._launches: dict[str, tuple[Route, int]] = {}  # those that go on, and the last piece of each
        self._showed_life = time.monotonic()
        self._batches: set[int] = set()
        self._opened: dict[JobId, OpenJob] = {}
        self._listener: socket.socket | None = None
        self._peer: socket.socket | None = None
        self._received = bytearray()
        self._decoder = msgspec.msgpack.Decoder(FromAgent)
        self.listen()

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()

    @property
    def gone(self) -> bool:
        return self._listener is None

    def hang_up(self) -> None:
        """Be gone, as a head that was killed."""
        for channel in (self._peer, self._listener):
            if channel is not None:
                channel.close()
        self._peer = self._listener = None

    def end(self) -> None:
        """Be gone, as a head that was stopped."""
        self.path.unlink()
        self.hang_up()

    def send(self, message: FromHead) -> None:
        self.until(lambda: self._peer is not None)
        assert self._peer is not None
        if isinstance(message, Launch):
            self._launches[message.route.number] = (message.route, 0)
        data = msgspec.msgpack.encode(message)
        self._peer.sendall(len(data).to_bytes(4, "big") + data)

    def until(self, holds: Callable[[], Any], timeout: float = TIMEOUT) -> None:
        """Listen until it holds."""
        end = time.monotonic() + timeout
        while not holds():
            assert time.monotonic() < end, f"it did not happen in {timeout} s: {self.results} {self.started}"
            self.receive(0.02)

    def receive(self, timeout: float) -> None:
        """Listen for a moment; the other sides of what is launched show that they live, as agents do."""
        if self._peer is not None and time.monotonic() - self._showed_life > SHOW_LIFE:
            self._showed_life = time.monotonic()
            for route, sequence in self._launches.values():
                self.send(LaunchAck(route, False, sequence))
        channels = [each for each in (self._listener, self._peer) if each is not None]
        for channel in select.select(channels, [], [], timeout)[0]:
            if channel is self._listener:
                self._peer, _ = channel.accept()
                self._received = bytearray()
            else:
                self._read()

    def _read(self) -> None:
        assert self._peer is not None
        try:
            data = self._peer.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            self._peer.close()
            self._peer = None
            return
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= 4 + (
            size := int.from_bytes(self._received[:4], "big")
        ):
            message = self._decoder.decode(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._take(message)

    def _take(self, message: FromAgent) -> None:
        match message:
            case Hello():
                self.hellos.append(message)
                if self.refuses:
                    self.send(Goodbye(reason=self.refuses))
                    return
                self.send(Welcome(cluster="test", heartbeat=Seconds(5.0), grace=Seconds(self.grace)))
                self._open_again(message)
            case Started(started=begun):
                self.started += [(each.task, each.instance, each.attempt) for each in begun]
            case Heartbeat(number=number):
                self.heartbeats.append((number, time.monotonic()))
            case Results():
                self._results(message)
            case LaunchesEnded(route=route, from_target=True, usage=RemoteUsage() as used):
                self.over[route.target] = used
            case LaunchData(route=route, from_target=True, sequence=sequence, kind=kind):
                self.said_of_launches.append(message)
                self._launches[route.number] = (route, sequence)
                if kind in ("exit", "failed"):
                    del self._launches[route.number]
                self.send(LaunchAck(route, False, sequence))
            case Suspended(number=number):
                self.suspended.append(number)
            case JobReady(job=job):
                self.ready.append(job)
            case Health(healthy=healthy):
                self.healthy = healthy
            case HookFailed():
                self.failed.append(message)
            case JobClosed(job=job):
                self.closed.append(job)

    def _open_again(self, hello: Hello) -> None:
        """Say again what an agent did not keep: one that is killed at once has no file of a new job yet."""
        known = {each.job for each in (*hello.live, *hello.ended)}
        for job in self._opened.keys() & known - {each for each, _ in hello.opened}:
            self.send(self._opened[job])

    def _results(self, message: Results) -> None:
        for result in message.results:
            key = (result.task, result.instance, result.attempt)
            self.results.setdefault(key, []).append(result.outcome)
        self._batches.add(message.number)
        if self.acknowledges:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge all that was heard and not yet acknowledged."""
        self.acknowledges = True
        for number in sorted(self._batches):
            self.send(ResultsAck(number=number))
        self._batches.clear()

    # What tests ask for.

    def open(
        self,
        spec: JobSpec,
        job: JobId = JOB,
        uid: int | None = None,
        deadline: Instant = NEVER,
        **more: Any,
    ) -> None:
        self.spec = spec
        who = os.getuid() if uid is None else uid
        gid = os.getgid() if uid is None else uid
        place = ((NODE, (0, 1)),)
        opened = OpenJob(job, "owner", who, gid, encode_spec(spec), place, deadline)
        self._opened[job] = msgspec.structs.replace(opened, suspendable=spec.suspendable, **more)
        self.send(self._opened[job])

    def run(
        self,
        task: int,
        *attempts: tuple[int, int],
        processor: int | tuple[int, ...] = 0,
        job: JobId = JOB,
        unstarted: tuple[tuple[int, int], ...] = (),
    ) -> None:
        processors = (processor,) if isinstance(processor, int) else processor
        self.send(Run(job, task, ((NODE, processors),), attempts, unstarted))

    def result(self, task: int, instance: int = 1, attempt: int = 1) -> AttemptOutcome:
        """Wait for a result and return it; there must be only one story about it."""
        key = (task, instance, attempt)
        self.until(lambda: key in self.results)
        found = self.results[key]
        assert all(each == found[0] for each in found), found
        return found[0]

    def suspend(self, number: int, job: JobId = JOB) -> None:
        """Let a job stand still, and wait until it does."""
        found = self.suspended.count(number)
        self.send(Suspend(job, number))
        self.until(lambda: self.suspended.count(number) > found)

    def close_job(self, job: JobId = JOB) -> None:
        before = len(self.closed)
        self.send_closed(job)
        self.until(lambda: len(self.closed) > before)

    def send_closed(self, job: JobId) -> None:
        """Close a job, and do not wait for it."""
        self._opened.pop(job, None)
        self.send(CloseJob(job))


class Scene:
    """A head, a state directory, and an agent that may be killed and started again."""

    def __init__(self, folder: Path, grace: float = 0.3) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.work = folder / "work"
        self.work.mkdir()
        self.head = Head(folder / "head.sock", grace)
        self.agent: subprocess.Popen[bytes] | None = None
        self.python = sys.executable
        self.user: int | None = None  # who the agent is; None: who we are
        self.suspendable = False  # the jobs
        self.options: list[str] = []  # what the agent is told besides
        self.before: list[str] = []  # what starts the agent; nothing: we do

    def start(self) -> None:
        """Start an agent and wait until the head knows it."""
        hellos = len(self.head.hellos)
        self.launch()
        self.head.until(lambda: len(self.head.hellos) > hellos or self.agent_has_ended())
        assert len(self.head.hellos) > hellos, f"the agent ended with {self.agent.returncode}: {self.log()}"

    def launch(self) -> None:
        """Start an agent."""
        with (self.folder / "agent.log").open("ab") as log:
            arguments = ["--head", str(self.head.path), "--state", str(self.state), "--name", NODE]
            command = [*self.before, self.python, "-m", "headnode.apps.agent", *arguments, *self.options]
            self.agent = subprocess.Popen(
                command, stdout=log, stderr=log, user=self.user, env={**os.environ, **PATHS}
            )

    def agent_has_ended(self) -> bool:
        return self.agent is None or self.agent.poll() is not None

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()
        self.agent = None

    def job(self, *commands: str, **more: Any) -> JobSpec:
        """Open a job with a task for each command, in the scene's work directory."""
        uid, deadline = more.pop("uid", None), more.pop("deadline", NEVER)
        tasks = tuple(
            TaskSpec(command=each, **{"work_directory": str(self.work), **more}) for each in commands
        )
        spec = JobSpec(name="test", tasks=tasks, suspendable=self.suspendable)
        self.head.open(spec, uid=uid, deadline=deadline)
        return spec

    def shepherds(self) -> list[int]:
        """Return the processes of the living shepherds."""
        return [pid for pid in _processes() if _holds(pid, self.state / "jobs")]

    def shepherd(self) -> int:
        self.head.until(lambda: len(self.shepherds()) == 1)
        return self.shepherds()[0]

    def factory(self) -> int:
        """Return the process of the agent's shepherd factory: its only child."""
        self.head.until(self.factories)
        return self.factories()[0]

    def factories(self) -> list[int]:
        """Return the process of the factory, if there is one now."""
        assert self.agent is not None
        children = Path(f"/proc/{self.agent.pid}/task/{self.agent.pid}/children")
        return [int(each) for each in children.read_text().split()]

    def written(self, name: str) -> str:
        """Return what tasks have written so far into a file of their work directory."""
        file = self.work / name
        return file.read_text() if file.exists() else ""

    def number(self, name: str) -> int:
        """Wait until a task has written a number into such a file, which may be after it is told to run."""
        self.head.until(lambda: self.written(name).endswith("\n"))
        return int(self.written(name))

    def captured(self, task: int, instance: int = 1, job: JobId = JOB) -> Path:
        return Path(captured_path(str(self.state / "output"), job, task, instance))

    def log(self) -> str:
        shepherds = self.state / "shepherds.log"
        return (self.folder / "agent.log").read_text() + (shepherds.read_text() if shepherds.exists() else "")

    def __enter__(self) -> "Scene":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: TracebackType | BaseException | None) -> None:
        if kind is not None:
            print(self.log(), file=sys.stderr)
        self._sweep()
        for pid in self.shepherds():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if kind is None:
            assert "Traceback" not in self.log(), self.log()

    def _sweep(self) -> None:
        """Leave as a head does that cancels everything."""
        if self.head.gone:
            self.head.listen()
        if self.agent_has_ended():
            self.start()
        assert self.agent is not None
        with contextlib.suppress(AssertionError, OSError):
            self.head.acknowledge()
            self.head.send(Goodbye(reason="cancel"))
            self.head.until(self.agent_has_ended)
        if self.agent.poll() is None:
            self.kill_agent()
        self.head.hang_up()


def _processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def _holds(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(file.readlink())
                if target.startswith(f"{folder}/") and target.endswith(".journal"):
                    return True
    return False


def alive(pid: int) -> bool:
    """Tell whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def xargs_rate(count: int) -> float:
    """Return how many /bin/true a second xargs starts on two processors."""
    began = time.monotonic()
    numbers = "\n".join(map(str, range(count))).encode()
    xargs = shutil.which("xargs")
    assert xargs is not None
    subprocess.run([xargs, "-P2", "-n1", "/bin/true"], input=numbers, check=True)
    return count / (time.monotonic() - began)


def a_python_for(uid: int) -> str:
    """Return a Python that the user can run with what the agent imports: ours may lie in root's own home."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run(
                [python, "-c", "import headnode.apps.agent.agent"], user=uid, check=True, env=PATHS
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("the user nobody can run no Python that has what the agent needs")


def scene_fixture() -> Callable[..., Iterator[Scene]]:
    """Return a fixture: a scene for each test."""

    @pytest.fixture
    def scene(tmp_path: Path) -> Iterator[Scene]:
        with Scene(tmp_path) as made:
            yield made

    return scene
