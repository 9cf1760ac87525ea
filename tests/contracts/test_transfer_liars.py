"""What a user's process says in place of that which transfers his files: the head drains no node for it."""

import json

import msgspec
import pytest

from headnode.adapters.processes.attempts import ShepherdAttempt, ended_record
from headnode.adapters.processes.shepherd_protocol import (
    ShepherdEnded,
    ShepherdStaging,
    read_shepherd_message,
)
from headnode.adapters.processes.spawning import TaskProgram
from headnode.adapters.processes.transfer_run import TransferRun, count
from headnode.adapters.wire.agent_messages import Staging
from headnode.adapters.wire.message_checks import read_message
from headnode.core.model.node import outcome_objection
from headnode.core.model.quantities import JobId

NOW = 4e9
LIES = [
    ["moved", -1, -1, -1, -1, ""],
    ["moved", 10**30, 10**30, 10**30, 10**30, ""],
    ["moved", True, False, True, True, ""],
    ["moved", 1, 1, 1, 1, "x" * 10_000],
    ["moved", 1, 1, 1, 1, "\ud800"],
    ["done", -1],
    ["done", 10**30],
    ["failed", "\ud800" * 5000],
    ["failed", "x" * 100_000],
    ["file", "\ud800"],
    ["file", "x" * 100_000],
    ["done", 1e999],
    ["moved", 1, 1, 1, 1],
    {"moved": 1},
    None,
]


def transfer(direction: str = "out") -> TransferRun:
    program = TaskProgram(["true"], {}, "/w", "", "", "", "", private=True)
    attempt = ShepherdAttempt((1, 1, 1), "l", program, None)
    files = [{"url": "https://a.example/x", "path": "x"}]
    attempt.staging = {"in": files, "out": files, "most": 1, "node_most": 1, "host_most": 1}
    return TransferRun(attempt, direction)


def passed_on(words: list[object]) -> ShepherdStaging | ShepherdEnded:
    """Return what the agent reads of what its shepherd says."""
    message = read_shepherd_message(json.dumps(words).encode())
    assert isinstance(message, ShepherdStaging | ShepherdEnded)
    return message


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: json.dumps(lie)[:40])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_no_line_of_a_user_makes_his_node_say_what_the_head_refuses(lie: object, direction: str) -> None:
    run = transfer(direction)
    run.receive(json.dumps(lie).encode() + b"\n")
    progress = passed_on(["staging", [run.report]])
    assert isinstance(progress, ShepherdStaging)
    read_message(msgspec.msgpack.encode(Staging(JobId(1), tuple(progress.staging))), NOW)
    count(run)
    run.attempt.verdict = ("not-staged", run.failure or "")
    ended = passed_on(["ended", [ended_record(1, run.attempt, "")]])
    assert isinstance(ended, ShepherdEnded)
    assert outcome_objection(ended.ended[0].outcome, NOW) == ""
    msgspec.json.decode(run.order())  # what the next process is told


def test_a_line_of_parentheses_ends_no_shepherd() -> None:
    run = transfer()
    run.receive(b"[" * 100_000 + b"\n" + b'["done", 7]\n')
    assert run.over
    assert run.moved[2] == 7


def test_a_shepherd_remembers_no_more_files_than_an_attempt_may_have() -> None:
    run = transfer()
    run.receive(b'["file", "x"]\n' * 100_001)
    assert len(run.done) == 100_000
