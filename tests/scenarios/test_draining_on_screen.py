"""What people see of a node that drains: in lists, in its own view, and when they ask why a job waits."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import done, hn, submitted_job

SPELL = "while [ ! -e {end} ]; do sleep 0.02; done"


@pytest.fixture
def node(state: Path) -> Iterator[str]:
    """Return the name of the node, which is ready before and after."""
    (found,) = listed(state)
    assert found["state"] == "Ready"
    yield found["name"]
    assert hn("node", "resume", found["name"], state=state).returncode == 0


def listed(state: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(hn("node", "list", "--json", state=state).stdout)
    return found


def test_a_node_drains_while_a_job_has_something_of_it_and_is_drained_then(
    state: Path, node: str, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    runs = submitted_job("sh", "-c", SPELL.format(end=end), state=state)
    result = done("node", "drain", node, "--reason", "new memory", state=state)
    assert result.stdout == f"Node {node} is draining; running tasks continue.\n"
    assert [each["state"] for each in listed(state)] == ["Draining"]
    assert node in done("node", "list", "/state:draining", state=state).stdout
    waits = submitted_job("/bin/true", state=state)
    explained = done("job", "explain", waits, state=state).stdout
    assert "new memory" in explained
    assert re.search(r"drained by \w+: new memory", explained)
    end.touch()
    assert hn("job", "wait", runs, state=state).returncode == 0
    assert [each["state"] for each in listed(state)] == ["Drained"]
    view = done("node", "view", node, state=state).stdout
    assert re.search(r"Drain\s+: from \S+ on, by \w+: new memory", view), view
    assert "1 drained" in done("cluster", "view", state=state).stdout
    assert done("node", "resume", node, state=state).stdout == f"Node {node} has been resumed.\n"
    assert hn("job", "wait", waits, state=state).returncode == 0
    assert listed(state)[0]["drains"] == []


def test_until_the_date_the_node_is_ready_for_what_is_over_by_then(state: Path, node: str) -> None:
    result = done("node", "drain", node, "--at", "2099-01-31T18:00", state=state)
    assert result.stdout == f"Node {node} will start only jobs that end by then.\n"
    (shown,) = listed(state)
    assert (shown["state"], [drain["closes"] for drain in shown["drains"]]) == ("Ready", [4073565600.0])
    endless = submitted_job("/bin/true", state=state)
    assert hn("job", "submit", "--wait", "/runtime:1", "/bin/true", state=state).returncode == 0
    explained = done("job", "explain", endless, state=state).stdout
    assert re.search(r"closes in [0-9dhm]+, and the job has no run time limit", explained), explained
    done("node", "resume", node, state=state)
    assert hn("job", "wait", endless, state=state).returncode == 0


def test_a_date_that_is_no_date_or_over_and_no_node_at_all_are_refused(state: Path, node: str) -> None:
    for words, status, wrong in (
        (("--at", "soon"), 2, "'soon' is not a date and time"),
        (("--at", "2001-01-01"), 2, "the date of the drain is in the past"),
    ):
        result = hn("node", "drain", node, *words, state=state)
        assert (result.returncode, wrong in result.stderr) == (status, True), result.stderr
    assert hn("node", "drain", state=state).returncode == 2
    assert hn("node", "drain", "nobody", state=state).returncode == 1
    assert [each["state"] for each in listed(state)] == ["Ready"]


def test_a_head_comes_up_though_its_node_is_drained(state: Path, node: str) -> None:
    done("node", "drain", node, state=state)
    done("down", state=state)
    done("up", "--name", "test", "--processors", "2", state=state)
    assert [each["state"] for each in listed(state)] == ["Drained"]


def test_what_runs_on_a_node_that_is_taken_offline_by_force_stops_and_runs_again(
    state: Path, node: str, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    runs = submitted_job("/rerunnable", "sh", "-c", SPELL.format(end=end), state=state)
    result = done("node", "offline", node, "/force", "/reason:it burns", state=state)
    assert result.stdout in (
        f"Node {node} is draining; its tasks are being stopped.\n",
        f"Node {node} has been drained; nothing runs there.\n",
    )
    looks = (listed(state)[0]["state"] for _ in range(500))  # each takes a moment
    assert "Drained" in looks
    assert "Queued" in done("job", "view", runs, state=state).stdout
    assert re.search(r"Drain\s+: from .* by force: it burns", done("node", "view", node, state=state).stdout)
    end.touch()
    done("node", "online", node, state=state)
    assert hn("job", "wait", runs, state=state).returncode == 0
