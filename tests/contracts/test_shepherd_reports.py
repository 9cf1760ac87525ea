"""How long a shepherd lets results wait for others, and that a line of its journal has all it measured."""

import json
import os
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headnode.adapters.processes.agent_link import AGENT_SOCKET, AgentLink
from headnode.adapters.processes.attempts import Lanes, ShepherdAttempt, ended_record
from headnode.adapters.processes.job_journal import EndedRecord, Header, Writer, read
from headnode.adapters.processes.shepherd_reports import COALESCE, SUPPLIED, WELL_SUPPLIED, ShepherdReports
from headnode.adapters.processes.spawning import TaskProgram
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant


class Scene(NamedTuple):
    """A shepherd's reports, its journal, and the agent's end of its connection."""

    reports: ShepherdReports
    journal: Path
    agent: socket.socket


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    path = tmp_path / "1.journal"
    run = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / AGENT_SOCKET))
        listener.listen()
        link = AgentLink(run, (os.getuid(),), select.poll())
        assert link.dial()
        agent, _ = listener.accept()
        agent.settimeout(20)
        with agent:
            yield Scene(
                ShepherdReports(Writer(str(path), Header(1, "marker", "boot", os.getpid(), 0)), link),
                path,
                agent,
            )
    link.drop()
    os.close(run)


def ended(number: int) -> EndedRecord:
    usage = ResourceUsage(0.25, 0.5, 100, 50, 7, 8)
    outcome = AttemptOutcome("exited", 0, None, Instant(1.0), Instant(2.5), 'said "no"', usage=usage)
    return EndedRecord(number, 1, number, 1, outcome)


@pytest.mark.parametrize(
    ("waiting", "pause"), [(0, COALESCE), (1, SUPPLIED), (7, SUPPLIED), (8, WELL_SUPPLIED)]
)
def test_a_result_waits_the_longer_the_more_its_lane_has_to_run(
    scene: Scene, waiting: int, pause: float
) -> None:
    scene.reports.ended(ended(1), 8)
    before = time.monotonic()
    scene.reports.report({})
    after = time.monotonic()
    scene.reports.ended(ended(2), 8)
    scene.reports.ended(ended(3), waiting)
    scene.reports.ended(ended(4), 8)
    assert before + pause <= scene.reports.next_moment() <= after + pause


@pytest.mark.parametrize("known", [False, True])
def test_an_agent_that_gave_the_job_hears_the_introduction_with_the_first_report(
    scene: Scene, *, known: bool
) -> None:
    scene.reports.introduce(1, "marker", Lanes(), 0, known=known)
    received, _, _ = select.select([scene.agent], [], [], 0)
    assert bool(received) is not known
    scene.reports.ended(ended(1))
    scene.reports.write_down()
    scene.reports.report_ended()
    data, words = scene.agent.recv(65536), []
    while data:
        size = int.from_bytes(data[:4], "big")
        words.append(json.loads(data[4 : 4 + size])[0])
        data = data[4 + size :]
    assert words == ["hello", "ended"]


def test_the_agent_hears_what_the_journal_has(scene: Scene) -> None:
    scene.reports.ended(ended(1))
    scene.reports.ended(ended(2))
    assert scene.reports.write_down() == ""
    scene.reports.report({})
    data = scene.agent.recv(65536)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    word, found = json.loads(data[4:])
    written = read(scene.journal)
    assert written is not None
    assert (word, found) == ("ended", json.loads(json.dumps(list(written.ended.values()))))
    assert list(written.ended.values()) == [ended(1), ended(2)]


def test_every_measured_value_of_an_attempt_is_in_its_record() -> None:
    attempt = ShepherdAttempt((1, 1, 1), "", TaskProgram(["true"], {}, "", "", "", "", ""), None)
    attempt.used = ResourceUsage(*range(1, len(ResourceUsage._fields) + 1))
    found = ended_record(1, attempt, "").outcome.usage
    measured_while_it_runs = {"peak_memory": 0, "average_memory": 0}
    assert found._asdict() == attempt.used._asdict() | measured_while_it_runs
