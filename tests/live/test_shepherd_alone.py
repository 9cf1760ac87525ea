"""A shepherd and its factory, with the test as their agent."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import headnode
from headnode.adapters.processes import cgroups, job_journal

MARKER = f"test-alone-{os.getpid()}"
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from headnode.adapters.processes.fork_server import main; main()"
)
TIMEOUT = 20.0  # seconds for anything that must happen


class Agent:
    """Listens for the shepherd, and says what the test wants said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results: list[list[Any]] = []  # that came with others, and nobody has asked for yet
        self.journal = folder / "7.journal"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "agent.sock"))
        self.listener.listen()
        self.listener.settimeout(TIMEOUT)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(headnode.__file__).parents[1])
        command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(theirs.fileno()), root]
        self.factory = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        theirs.close()
        order = {
            "job": 7,
            "marker": MARKER,
            "boot": "boot",
            "uid": os.getuid(),
            "gid": os.getgid(),
            "agent_uid": os.getuid(),
            "journal": str(self.journal),
            "run_directory": str(folder),
            "output_directory": str(folder / "output"),
            "deadline": None,
            "grace": 0.2,
            "suspendable": False,
            "warning": None,
            "most_processes": 0,
        }
        self.channel.send(json.dumps(order).encode())
        self.peer = self.accept()

    def accept(self) -> socket.socket:
        peer, _ = self.listener.accept()
        peer.settimeout(TIMEOUT)
        return peer

    def send(self, *message: Any) -> None:
        data = json.dumps(message).encode()
        self.peer.sendall(len(data).to_bytes(4, "big") + data)

    def run(
        self,
        command: str,
        *attempts: tuple[int, int],
        task: int = 1,
        lane: str = "lane",
        after: Sequence[tuple[int, int, int]] = (),
        codes: tuple[int, int] = (0, 0),
    ) -> None:
        environment = {"HEADNODE_TASK": "7.1.1.1", "PATH": "/usr/bin:/bin"}
        items = [
            [*each, ["/bin/sh", "-c", command], {}, str(self.folder), "", "", "", f"{task}/{each[0]}.out"]
            for each in attempts
        ]
        more = [[], False, [], [], [[key, [codes]] for key in after]] if after else []
        self.send("run", task, lane, environment, None, items, *more)

    def receive(self) -> list[Any]:
        size = int.from_bytes(self._exactly(4), "big")
        message: list[Any] = json.loads(self._exactly(size))
        return message

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.peer.recv(size - len(data))
            assert more, "the shepherd hung up"
            data += more
        return data

    def outcome_of(self, task: int) -> list[Any]:
        """Return the next outcome of a task, and forget those of others before it."""
        while (record := self.ended(1)[0])[1] != task:
            pass
        outcome: list[Any] = record[4]
        return outcome

    def ended(self, count: int) -> list[list[Any]]:
        """Return the next `count` results; a message may have more, which are next."""
        while len(self.results) < count:
            word, *rest = self.receive()
            if word == "ended":
                self.results += rest[0]
        found, self.results = self.results[:count], self.results[count:]
        return found

    def close(self) -> None:
        self.send("close")
        while self.peer.recv(65536):
            pass
        for channel in (self.peer, self.listener, self.channel):
            channel.close()
        assert self.factory.wait(TIMEOUT) == 0
        assert cgroups.end(MARKER, TIMEOUT)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.close()


def test_other_tasks_behind_one_that_takes_long_are_given_back_and_never_run(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    wait = "echo x >> runs; until [ -e go ]; do sleep 0.01; done"
    for task in (1, 2, 3):
        agent.run(wait, (1, 1), task=task)
    assert [(record[1], record[4][0]) for record in agent.ended(2)] == [(2, "never-ran"), (3, "never-ran")]
    story = job_journal.read(agent.journal)
    assert story is not None
    assert (list(story.queued), list(story.started)) == ([], [(1, 1, 1)])
    agent.run(wait, (1, 1), task=2)  # an order that comes again is not carried out again
    (agent.folder / "go").touch()
    assert [record[1] for record in agent.ended(1)] == [1]
    assert (agent.folder / "runs").read_text() == "x\n"


def test_different_tasks_of_one_lane_never_run_at_the_same_time(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    for task in range(1, 21):
        agent.run("mkdir alone && rmdir alone", (1, 1), task=task)
    ran = [record for record in agent.ended(20) if record[4][0] == "exited"]
    assert [record[1] for record in ran] == sorted(record[1] for record in ran)
    assert {record[4][1] for record in ran} == {0}


def run_until_it_runs(agent: Agent, command: str, task: int, **after: Any) -> list[Any]:
    """Run an attempt after others, again when it was given back as they took long; return its outcome."""
    for attempt in range(1, 100):
        agent.run(command, (1, attempt), task=task, **after)
        outcome = agent.outcome_of(task)
        if outcome[0] != "never-ran":
            return outcome
    raise AssertionError("it is always given back")


def test_children_start_when_all_of_their_parents_have_ended_well(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    agent.run("mkdir one", (1, 1), task=1, lane="a")
    agent.run("mkdir two; exit 3", (1, 1), task=2, lane="b")
    both = {"after": [(1, 1, 1), (2, 1, 1)], "codes": (0, 3)}
    assert run_until_it_runs(agent, "rmdir one && rmdir two", 3, lane="a", **both)[:2] == ["exited", 0]
    words = [json.loads(line) for line in agent.journal.read_text().splitlines()]
    start = words.index(next(word for word in words if word[:2] == ["started", 3]))
    assert [word[2] for word in words[:start] if word[0] == "ended" and word[5][0] == "exited"] in (
        [1, 2],
        [2, 1],
    )


@pytest.mark.parametrize("how", ["exit 1", "kill -9 $$", "stopped"])
def test_what_follows_a_parent_that_did_not_end_well_is_given_back_behind_it(agent: Agent, how: str) -> None:
    assert agent.receive()[0] == "hello"
    agent.run("exec sleep 60" if how == "stopped" else how, (1, 1), task=9)
    agent.run("touch ran", (1, 1), task=1, after=[(9, 1, 1)])
    for task in range(2, 6):
        agent.run("touch ran", (1, 1), task=task, lane=f"lane {task}", after=[(task - 1, 1, 1)])
    if how == "stopped":
        agent.send("stop", [[9, 1, 1]], 0)
    records = sorted(agent.ended(6), key=lambda each: each[1])
    assert [(record[1], record[4][0]) for record in records[:5]] == [(n, "never-ran") for n in range(1, 6)]
    assert not (agent.folder / "ran").exists()
    agent.run("touch ran", (1, 2), task=1, after=[(9, 1, 1)])
    assert [record[4][0] for record in agent.ended(1)] == ["never-ran"], (
        "it comes after the end of its parent"
    )
    agent.send("acknowledged", 1, 7)
    agent.run("touch ran", (1, 3), task=1, after=[(9, 1, 1)])
    assert [record[4][0] for record in agent.ended(1)] == ["never-ran"], "its parent is forgotten"
    assert not (agent.folder / "ran").exists()


def test_a_child_that_comes_after_the_good_end_of_its_parent_starts(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    agent.run("true", (1, 1), task=1)
    agent.ended(1)
    agent.run("true", (1, 1), task=2, after=[(1, 1, 1)])
    assert [record[4][0] for record in agent.ended(1)] == ["exited"]


def test_the_start_of_a_child_is_reported_after_the_end_of_its_parent(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    output: list[tuple[str, int]] = []
    for parent in range(1, 40, 2):
        agent.run("sleep 0.03", (1, 1), task=parent)
        agent.run("sleep 0.03", (1, 1), task=parent + 1, after=[(parent, 1, 1)])
        while not {("ended", parent), ("ended", parent + 1)} <= set(output):
            word, records = agent.receive()
            output += [("ended", each[1]) if word == "ended" else (word, each[0]) for each in records]
        if ("started", parent + 1) in output:  # else it was given back, as its parent took long
            assert output.index(("ended", parent)) < output.index(("started", parent + 1))
            return
    raise AssertionError("no child was told to have started")


def test_children_in_an_idle_lane_are_given_back_when_their_parents_take_long(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    agent.run("until [ -e go ]; do sleep 0.01; done", (1, 1), task=1, lane="a")
    agent.run("true", (1, 1), task=2, lane="b")
    for task in (3, 4):
        agent.run("touch ran", (1, 1), task=task, lane="b", after=[(1, 1, 1)])
    records = sorted(agent.ended(3), key=lambda each: each[1])
    assert [(record[1], record[4][0]) for record in records] == [
        (2, "exited"),
        (3, "never-ran"),
        (4, "never-ran"),
    ]
    (agent.folder / "go").touch()
    assert [record[1] for record in agent.ended(1)] == [1]
    assert not (agent.folder / "ran").exists()


def test_a_child_that_is_stopped_while_it_waits_never_runs(agent: Agent) -> None:
    assert agent.receive()[0] == "hello"
    agent.run("until [ -e go ]; do sleep 0.01; done", (1, 1), task=1)
    agent.run("touch ran", (1, 1), task=2, after=[(1, 1, 1)])
    agent.send("stop", [[2, 1, 1]], 0)
    assert [(record[1], record[4][0]) for record in agent.ended(1)] == [(2, "never-ran")]
    (agent.folder / "go").touch()
    assert [record[1] for record in agent.ended(1)] == [1]
    assert not (agent.folder / "ran").exists()


def test_it_introduces_itself_and_says_all_again_to_the_next_agent(agent: Agent) -> None:
    assert agent.receive() == ["hello", 7, MARKER, [], [], [], 0]
    agent.run("exit $(wc -l < go)", (1, 1))
    first = agent.ended(1)
    agent.run("until [ -e go ]; do sleep 0.01; done", (2, 1), (3, 1))
    assert agent.receive()[0] == "started"
    agent.peer.close()
    agent.peer = agent.accept()
    word, job, marker, queued, running, ended, _ = agent.receive()
    assert (word, job, marker, queued) == ("hello", 7, MARKER, [[1, 3, 1]])
    assert [each[:3] for each in running] == [[1, 2, 1]]
    assert ended == first


def test_told_twice_to_run_an_attempt_it_runs_it_once(agent: Agent) -> None:
    agent.run("echo x >> runs; until [ -e go ]; do sleep 0.01; done", (1, 1), (2, 1))
    agent.run("echo x >> runs; until [ -e go ]; do sleep 0.01; done", (1, 1), (2, 1))
    (agent.folder / "go").touch()
    agent.ended(2)
    agent.run("echo x >> runs", (1, 1), (2, 1), (2, 2))
    assert [each[1:4] for each in agent.ended(1)] == [[1, 2, 2]]
    assert (agent.folder / "runs").read_text() == "x\n" * 3


def test_it_writes_a_start_before_it_starts(agent: Agent) -> None:
    agent.run(f"cp {agent.journal} seen", (1, 1))
    agent.ended(1)
    seen = job_journal.read(agent.folder / "seen")
    assert seen is not None
    assert list(seen.started) == [(1, 1, 1)]


def test_a_pipe_that_nobody_writes_to_does_not_hold_up_the_others(agent: Agent) -> None:
    os.mkfifo(agent.folder / "pipe")
    item = [1, 1, ["cat"], {}, str(agent.folder), str(agent.folder / "pipe"), "", "", "1/1.out"]
    agent.send("run", 1, "one", {"HEADNODE_TASK": "a", "PATH": "/usr/bin:/bin"}, None, [item])
    agent.run("exit 3", (2, 1))
    assert sorted(each[4][1] for each in agent.ended(2)) == [0, 3]


def test_a_factory_says_why_there_is_no_shepherd(agent: Agent) -> None:
    again = {"job": 7, "marker": "4567", "boot": "boot", "uid": 0, "journal": str(agent.journal)}
    again["most_processes"] = 0
    agent.channel.settimeout(TIMEOUT)
    agent.channel.send(json.dumps(again).encode())
    received = [json.loads(agent.channel.recv(65536))]
    while received[-1][0] != "failed":
        received.append(json.loads(agent.channel.recv(65536)))
    assert received[-1][1] == "4567"
    assert "file exists" in received[-1][2]
    assert cgroups.end("4567", TIMEOUT)
