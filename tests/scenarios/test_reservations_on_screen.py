"""What people see of reservations of nodes: of themselves, on their nodes, and in why a job waits."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import done, hn, submitted_job

SPELL = "while [ ! -e {end} ]; do sleep 0.02; done"
NAME = "upgrade"


@pytest.fixture
def node(state: Path) -> Iterator[str]:
    """Return the name of the node; nothing is reserved before and after."""
    (found,) = asked("node", "list", state=state)
    yield found["name"]
    for each in asked("reservation", "list", state=state):
        assert hn("reservation", "cancel", each["name"], state=state).returncode == 0


def asked(*words: str, state: Path) -> Any:
    return json.loads(done(*words, "--json", state=state).stdout)


def reserve(node: str, *words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    return done("reservation", "new", NAME, "--nodes", node, *words, state=state)


def test_a_reservation_is_made_listed_shown_changed_and_canceled(state: Path, node: str) -> None:
    result = reserve(node, "--from", "60", "--for", "2h", "--users", "ann,bob", state=state)
    assert result.stdout == f"Reservation {NAME} has been made: {node}.\n"
    (listed,) = asked("reservation", "list", state=state)
    assert (listed["name"], listed["state"], listed["nodes"]) == (NAME, "Planned", [node])
    assert listed["end"] - listed["start"] == 7200
    assert "ann, bob" in done("reservation", "list", state=state).stdout
    changed = done("reservation", "modify", "UPGRADE", "--for", "3h", "--reason", "new disks", state=state)
    assert "has been changed" in changed.stdout
    assert "new disks" in done("reservation", "list", state=state).stdout
    shown = done("reservation", "view", NAME, state=state).stdout
    assert re.search(r"Reason +: new disks\n", shown)
    assert re.search(r"At End +: jobs inside must end by then\n", shown)
    (viewed,) = [asked("reservation", "view", NAME, state=state)]
    assert viewed["end"] - viewed["start"] == 10800
    assert f"for ann, bob ({NAME})" in done("node", "view", node, state=state).stdout
    assert re.search(rf"Reservation +: {NAME}, 1 node, ", done("cluster", "view", state=state).stdout)
    assert (
        done("reservation", "cancel", NAME, state=state).stdout == f"Reservation {NAME} has been canceled.\n"
    )
    assert asked("reservation", "list", state=state) == []


def test_a_reservation_over_a_running_job_is_refused_and_names_it(
    state: Path, node: str, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    job = submitted_job("sh", "-c", SPELL.format(end=end), state=state)
    words = ("reservation", "new", NAME, "--nodes", node, "--for", "1h")
    refused = hn(*words, state=state)
    assert refused.returncode == 1
    assert f"job {job} (no run time limit)" in refused.stderr
    assert "--ignore-running" in refused.stderr
    assert asked("reservation", "list", state=state) == []
    done(*words, "--ignore-running", state=state)
    end.touch()
    assert done("job", "wait", job, state=state).returncode == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("new", NAME, "--nodes", "NODE"), "no end"),
        (("new", NAME, "--for", "60"), "has no nodes"),
        (("new", "a b", "--nodes", "NODE", "--for", "60"), "cannot be called"),
        (("new", NAME, "--nodes", "nowhere", "--for", "60"), "no node 'nowhere'"),
        (("new", NAME, "--nodes", "NODE", "--for", "1h", "--to", "90"), "leave out --to or --for"),
        (("new", NAME, "--nodes", "NODE", "--for", "x"), "'x' is not understood"),
        (("new", NAME, "--nodes", "NODE", "--for", "60", "--atend", "explode"), "run-on"),
        (("new", NAME, "--nodes", "NODE", "--for", "60", "--groups", "no-such"), "no group 'no-such'"),
        (("view", "nothing"), "no reservation 'nothing'"),
        (("cancel", "nothing"), "no reservation 'nothing'"),
        (("new",), "needs the name of one reservation"),
    ],
)
def test_what_cannot_be_is_refused_and_says_what_to_do(
    state: Path, node: str, words: tuple[str, ...], text: str
) -> None:
    refused = hn("reservation", *(word.replace("NODE", node) for word in words), state=state)
    assert refused.returncode in (1, 2)
    assert text in refused.stderr


def test_whoever_asks_why_a_job_waits_reads_of_the_reservation_when_it_starts_and_what_would_help(
    state: Path, node: str
) -> None:
    reserve(node, "--from", "180", "--for", "2h", state=state)
    job = submitted_job("/runtime:4h", "true", state=state)
    answer = asked("job", "explain", job, state=state)
    (view,) = [asked("reservation", "view", NAME, state=state)]
    assert any(
        each["kind"] == "reserved" and f"{node} is reserved for maintenance ({NAME}) from" in each["text"]
        for each in answer["reasons"]
    )
    assert answer["planned_start"] == view["end"]
    assert any(each["options"].get("runtime") == "2h59m" for each in answer["changes"]), answer["changes"]
    typed = done("job", "submit", "--dry-run", "--json", "/runtime:4h", "true", state=state)
    dry = json.loads(typed.stdout)
    assert any(each["kind"] == "reserved" for each in dry["explanation"]["reasons"])
    done("job", "cancel", job, state=state)


def test_a_job_of_the_reservation_runs_in_it(state: Path, node: str) -> None:
    reserve(node, "--for", "60", "--projects", "heat", state=state)
    refused = hn("job", "submit", f"/reservation:{NAME}", "/runtime:5", "true", state=state)
    assert refused.returncode == 1, refused.stderr
    assert "does not accept jobs of" in refused.stderr
    job = submitted_job(f"/reservation:{NAME}", "/projectname:heat", "/runtime:5", "true", state=state)
    assert done("job", "wait", job, state=state).returncode == 0
    assert re.search(rf"Reservation +: {NAME}\n", done("job", "view", job, state=state).stdout)
