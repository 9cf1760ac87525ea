"""Transfers of attempts elsewhere share one machine: bounds, turns, and liars in place of a process."""

import json
import os
import queue
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.batch import staging_processes
from headnode.adapters.batch.commands import CommandUser
from headnode.adapters.batch.orders import FilesToStage
from headnode.adapters.batch.staging_processes import ForeignTransfer, TransferCallbacks, TransferQueue
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.staged_files import TransferProgress, TransferResult

TIMEOUT = 20.0  # seconds


class HeadAnswer:
    """What became of one transfer."""

    def __init__(self) -> None:
        self.progress: list[TransferProgress] = []
        self._reasons = queue.SimpleQueue[str]()
        self.waits = self._reasons.put
        self.results: list[TransferResult] = []
        self._over = threading.Event()

    def reason(self) -> str:
        return self._reasons.get(timeout=TIMEOUT)

    def over(self, result: TransferResult) -> None:
        self.results.append(result)
        self._over.set()

    def result(self) -> TransferResult:
        assert self._over.wait(TIMEOUT)
        return self.results[0]


Program = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run a shell script in place of the transfer process; its argument is the descriptor of the order."""

    def write(text: str) -> None:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(
            staging_processes, "module_command", lambda _module, *words, **_more: [str(path), *words]
        )

    return write


def transfer(
    expected: HeadAnswer,
    job: int = 1,
    user: str = "ada",
    hosts: tuple[str, ...] = ("a.example",),
    **bounds: int,
) -> ForeignTransfer:
    order = {"base": "/base", "marker": "m", "scratch": "files"}
    files = [{"url": f"https://{host}/x"} for host in hosts]
    most = {"per_job": 10, "per_node": 10, "per_storage": 10, **bounds}
    staged = FilesToStage(
        order=order,
        incoming=json.dumps(files).encode(),
        outgoing=b"[]",
        has_results=False,
        state="/state",
        **most,
    )
    news = TransferCallbacks(expected.progress.append, expected.waits, expected.over)
    account = CommandUser(user, None, None, "/")
    return ForeignTransfer(AttemptPlace(job, 1, 1, 1), account, "in", staged, news)


def test_it_is_told_how_far_a_process_is_and_how_it_went(program: Program) -> None:
    program("""echo '["moved", 1, 2, 30, 40, "a.example"]'; echo '["done", 1.5, 40, 0.0, 0]'""")
    found = HeadAnswer()
    TransferQueue().begin(transfer(found))
    result = found.result()
    assert (result.kind, result.usage) == ("done", (1.5, 40, 0.0, 0))
    assert found.progress[0][2:] == (1, 2, 30, 40, "a.example")


@pytest.mark.parametrize(
    "lie",
    [
        "yes | head -c 300000000",
        """echo '["moved", -1, 99999999999999999999999999, -5, 1e999, "x"]'""",
        """echo '["done", NaN, 99999999999999999999999999, -1.0, -7]'""",
        """printf '["failed", "%0100000d"]\\n' 1""",
        "head -c 1000000 /dev/zero",
        """echo '[['; echo '{"a": 1}'; echo null""",
        "head -c 60000 /dev/zero | tr '\\0' '['; echo",
        """echo '["moved", true, 1, 1, 1, ""]'""",
        """echo '["moved", 1, 1, 1, 1, "\\ud800"]'""",
        """echo '["failed", "\\ud800"]'""",
    ],
)
def test_a_liar_in_place_of_the_process_harms_its_own_task_only(
    program: Program, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    monkeypatch.setattr(staging_processes, "MAX_DEATHS", 0)
    program(lie)
    shown = HeadAnswer()
    TransferQueue().begin(transfer(shown))
    result = shown.result()
    assert len(result.message) <= staging_processes.MAX_WORDS
    for found in (
        *shown.progress,
        result,
    ):  # the head believes what reads as it is declared, and nothing else
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=type(found)) == found
    for found in shown.progress:
        assert all(0 <= number < 1 << 54 for number in found[2:6])
    assert all(0 <= number < 1 << 54 for number in result.usage)


def test_a_liar_who_has_it_tried_later_gives_a_reason_that_can_be_told(program: Program) -> None:
    program("""echo '["later", "\\ud800"]'; exec sleep 1000""")
    found, transfers = HeadAnswer(), TransferQueue()
    running = transfer(found)
    transfers.begin(running)
    assert found.reason() == "?"
    transfers.stop(running)
    assert found.result().kind == "stopped"


def test_a_process_that_dies_is_started_again_and_not_for_ever(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(staging_processes, "MAX_DEATHS", 2)
    program(f"echo started >> {tmp_path}/log; kill -9 $$")
    found, transfers = HeadAnswer(), TransferQueue()
    transfers.begin(transfer(found))
    while not found.results:
        transfers.fill()
        found._over.wait(0.05)
    assert found.result().message == "the process that transfers its files died 3 times"
    assert (tmp_path / "log").read_text() == "started\n" * 3


def test_one_that_is_stopped_says_so_whether_it_runs_or_waits(program: Program) -> None:
    program("exec sleep 1000")
    first, second, transfers = HeadAnswer(), HeadAnswer(), TransferQueue()
    runs, waits = transfer(first, per_job=1), transfer(second, per_job=1)
    transfers.begin(runs)
    transfers.begin(waits)
    assert second.progress[0].waits_for == "a free slot"
    transfers.stop(waits)
    assert second.result().kind == "stopped"
    transfers.stop(runs)
    assert first.result().kind == "stopped"


@pytest.mark.parametrize(
    ("bounds", "other", "waits_for"),
    [
        ({"per_storage": 1}, {"job": 2, "user": "bob"}, "a.example"),
        ({"per_job": 1}, {}, "a free slot"),
        ({"per_node": 2}, {"job": 2}, "a free slot"),  # one user has half of them
        ({"per_node": 1}, {"job": 2, "user": "bob"}, "a free slot"),
    ],
)
def test_transfers_beyond_a_bound_wait(
    program: Program, tmp_path: Path, bounds: dict[str, int], other: dict[str, object], waits_for: str
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    program(f"""read line < {gate}; echo '["done", 0.0, 0, 0.0, 0]'""")
    first, second, transfers = HeadAnswer(), HeadAnswer(), TransferQueue()
    transfers.begin(transfer(first, **bounds))
    transfers.begin(transfer(second, **bounds, **other))
    assert second.progress[0].waits_for == waits_for
    gate.write_text("go\n")
    assert first.result().kind == "done"
    gate.write_text("go\n")
    assert second.result().kind == "done"
