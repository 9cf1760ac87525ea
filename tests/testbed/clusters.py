"""Real clusters on one machine: a head, and nodes that joined it over the network, in own processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from headnode.adapters.processes.job_journal import lives, read
from headnode.apps.client.client import Client
from headnode.core.launching.environment import SHEPHERD_MARKER
from headnode.core.model.errors import HeadnodeError
from testbed.machines import Machine, network

TIMEOUT = 40.0  # seconds for anything that must happen
PAUSE = 0.02  # seconds between two looks
PORT = 5817
AGENT = "agent"  # the state directory of a node's agent, in that of its place


class Place(Protocol):
    """Where a node's agent runs."""

    @property
    def name(self) -> str:
        """Return the name of the node."""

    @property
    def directory(self) -> Path:
        """Return where it may keep things."""

    def start(self, command: Sequence[str], log: Path | None = None) -> "subprocess.Popen[bytes]":
        """Start a program there."""

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a program there and wait for its end."""

    def processes(self, containing: str) -> list[int]:
        """Return the processes there whose command line contains a text."""

    def power_off(self) -> None:
        """End everything there at once."""

    def power_on(self) -> None:
        """Let programs be started there."""


class LoopbackPlace:
    """A node that shares this machine with others.  Its processes name its directory, or its shepherds."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        self._shepherds: set[bytes] = set()  # the markers of all that were seen
        directory.mkdir(parents=True, exist_ok=True)

    def start(self, command: Sequence[str], log: Path | None = None) -> "subprocess.Popen[bytes]":
        """Start a program."""
        with (log or Path(os.devnull)).open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a program and wait for its end."""
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def processes(self, containing: str) -> list[int]:
        """Return its processes whose command line contains a text."""
        self._look_for_shepherds()
        return [
            number for number, words in _commands() if containing in words and self._is_ours(number, words)
        ]

    def _is_ours(self, number: int, words: str) -> bool:
        if str(self.directory) in words:
            return True
        if "fork_server" in words and self._has_opened_a_journal(number):
            return True  # a shepherd
        with suppress(OSError):
            variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
            return not self._shepherds.isdisjoint(variables)
        return False

    def _has_opened_a_journal(self, number: int) -> bool:
        with suppress(OSError):
            for opened in Path(f"/proc/{number}/fd").iterdir():
                with suppress(OSError):
                    if opened.readlink().is_relative_to(self.directory / AGENT / "jobs"):
                        return True
        return False

    def _look_for_shepherds(self) -> None:
        """Names of nodes are no use here: another cluster on this machine may have the same."""
        for journal in (self.directory / AGENT / "jobs").glob("*.journal"):
            marker = journal.stem.partition("-")[2]
            self._shepherds.add(f"{SHEPHERD_MARKER}={marker}".encode())

    def power_off(self) -> None:
        """Kill everything of the node, until nothing is left."""
        while found := self.processes(""):
            for number in found:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(PAUSE)

    def power_on(self) -> None:
        """Nothing need be done."""


class Node:
    """A node of the cluster: its agent, and the place where it runs."""

    def __init__(self, place: Place, processors: int, options: Sequence[str] = ()) -> None:
        self.place, self.name = place, place.name
        self.state = place.directory / AGENT
        self.log = place.directory / "agent.log"
        self._options = ["--state", str(self.state), "--name", place.name, "--processors", str(processors)]
        self._options += options
        self.agent: subprocess.Popen[bytes] | None = None

    def join(self, invitation: str) -> None:
        """Join the cluster.

        Raises:  RuntimeError with what the agent said.
        """
        self.place.directory.mkdir(parents=True, exist_ok=True)
        done = self.place.run(self._command("--only-join", "--join", invitation))
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def start_agent(self) -> None:
        """Start the agent."""
        self.agent = self.place.start(self._command(), self.log)

    def kill_agent(self) -> None:
        """Kill the agent, and nothing else."""
        deadline = time.monotonic() + TIMEOUT
        while not self._is_killed() and time.monotonic() < deadline:  # it may not have begun yet
            time.sleep(PAUSE)
        self._reap()

    def _is_killed(self) -> bool:
        for number in self.place.processes("headnode.apps.agent"):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if self.agent is None:
            return True
        self.agent.send_signal(signal.SIGCONT)  # what starts programs elsewhere stops when they are stopped
        return self.agent.poll() is not None

    def shepherds(self, job: int | None = None) -> list[int]:
        """Return the shepherds of a job that live there, or all, by their numbers outside of the place."""
        inside = set()
        for journal in (self.state / "jobs").glob("*.journal"):
            with suppress(OSError):  # it has ended meanwhile
                story = read(journal) if lives(journal) else None
                if story is not None and job in (None, story.header.job):
                    inside.add(story.header.process)
        return [number for number in self.place.processes("fork_server") if _number_inside(number) in inside]

    def power_off(self) -> None:
        """End everything there at once."""
        self.place.power_off()
        self._reap()

    def boot(self) -> None:
        """Let it come back, with its agent and without anything that ran."""
        self.place.power_on()
        self.start_agent()

    def _reap(self) -> None:
        if self.agent is not None:
            self.agent.send_signal(
                signal.SIGCONT
            )  # what starts programs elsewhere stops when they are stopped
            self.agent.wait(TIMEOUT)
            self.agent = None

    def _command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "headnode.apps.agent", *self._options, *more]


class Cluster:
    """A head and its nodes."""

    def __init__(self, directory: Path, address: str) -> None:
        self.directory, self.address = directory, address
        self.state = directory / "head"
        self.nodes: dict[str, Node] = {}
        self.client = Client(str(self.state))
        self._head: subprocess.Popen[bytes] | None = None

    def start_head(self) -> None:
        """Start the head and wait until it answers."""
        words = [sys.executable, "-m", "headnode.apps.server", "--state", str(self.state)]
        words += ["--nodes", "0", "--listen", self.address]
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.directory / "head.log").open("ab") as log:
            self._head = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.until(self._answers, "the head answers")

    def _answers(self) -> bool:
        try:
            return bool(self.ask("ping"))
        except HeadnodeError:
            return False

    def kill_head(self) -> None:
        """Kill the head, and nothing else."""
        if self._head is not None:
            self._head.kill()
            self._head.wait()
        self.client.close()

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """Ask the head.  Raises:  what refuses it."""
        return self.client.ask(question, **fields)

    def add(self, place: Place, processors: int = 2, options: Sequence[str] = ()) -> Node:
        """Let a machine join, and start its agent."""
        node = Node(place, processors, options)
        node.join(self.ask("invite_node", approve=True, node=place.name)["invitation"])
        node.start_agent()
        self.nodes[place.name] = node
        return node

    def submit(self, *commands: str, terms: dict[str, str] | None = None, **task: str) -> int:
        """Submit a job with these commands as its tasks; return its id."""
        tasks = [{"command": command, **task} for command in commands]
        return int(self.ask("submit_job", tasks=tasks, terms=terms or {})["job"])

    def job(self, job: int) -> dict[str, Any]:
        """Return a job as clients see it."""
        found: dict[str, Any] = self.ask("job", job=job)["job"]
        return found

    def wait(self, job: int) -> str:
        """Wait until a job is over; return its state."""
        self.until(lambda: self.job(job)["state"] in ("Finished", "Failed", "Canceled"), f"job {job} is over")
        return str(self.job(job)["state"])

    def node_states(self) -> dict[str, str]:
        """Return the state of each node."""
        return {node["name"]: node["state"] for node in self.ask("nodes")["nodes"]}

    def wait_for_nodes(self, state: str, *names: str) -> None:
        """Wait until these nodes, or all, are in a state."""
        wanted = set(names or self.nodes)
        self.until(
            lambda: all(self.node_states().get(name) == state for name in wanted),
            f"{', '.join(sorted(wanted))} are {state}",
        )

    def until(self, holds: Callable[[], object], what: str = "it happens") -> None:
        """Wait until something holds.

        Raises:  TimeoutError with the end of the head's log.
        """
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            if time.monotonic() > deadline:
                log = (self.directory / "head.log").read_text()[-3000:]
                raise TimeoutError(
                    f"after {TIMEOUT:.0f} s it is not so that {what}; the head's log ends:\n{log}"
                )
            time.sleep(PAUSE)

    def close(self) -> None:
        """End all of it, whatever runs."""
        with ExitStack() as each:
            each.callback(self.kill_head)
            for node in self.nodes.values():
                each.callback(node.power_off)


@contextmanager
def cluster_of_machines(directory: Path, names: Sequence[str], processors: int = 2) -> Iterator[Cluster]:
    """Build a cluster of machines of their own; `machines.obstacle` says why it cannot be."""
    with network(directory, names) as made:
        cluster = Cluster(directory, f"{made.address}:{PORT}")
        with _running(cluster, list(made.machines.values()), processors):
            yield cluster


@contextmanager
def cluster_on_loopback(
    directory: Path, names: Sequence[str], address: str, processors: int = 2, options: Sequence[str] = ()
) -> Iterator[Cluster]:
    """Build a cluster whose nodes share this machine; needs no root.  `address` is HOST:PORT to listen at.

    `options` are those of the agents.
    """
    cluster = Cluster(directory, address)
    places = [LoopbackPlace(name, directory / name) for name in names]
    with _running(cluster, places, processors, options):
        yield cluster


@contextmanager
def _running(
    cluster: Cluster,
    places: Sequence[Machine | LoopbackPlace],
    processors: int,
    options: Sequence[str] = (),
) -> Iterator[None]:
    try:
        cluster.start_head()
        for place in places:
            cluster.add(place, processors, options)
        cluster.wait_for_nodes("Ready")
        yield
    finally:
        cluster.close()


def _number_inside(process: int) -> int:
    """Return the number that a process has in its own process table; 0 when it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def _commands() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                if words:
                    yield int(entry.name), words.decode(errors="replace")
