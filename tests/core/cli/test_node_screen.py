"""What is told of a node says what its system keeps, and what is only looked at."""

from typing import Any

import pytest

from headnode.apps.cli.commands.node import drain_in_words
from headnode.apps.cli.screens import node as screen

NODE: dict[str, Any] = {
    **{"name": "n1", "state": "Ready", "processors": 4, "used": 0, "free": 4, "jobs": [], "sockets": 1},
    **{"memory": 1, "speed": 0, "groups": [], "features": [], "architecture": "", "system": ""},
    **{"exclusive": None, "comment": "", "since": 0.0},
}
DRAIN: dict[str, Any] = {
    **{"cause": "asked", "by": "ada", "reason": "new memory"},
    **{"closes": 0.0, "since": 0.0, "force": False},
}


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (
            {
                "control_groups": "v1",
                "enforced": ["processors", "memory", "processes"],
                "machine_processors": [0, 1, 2, 8],
            },
            ["0-2,8", "version 1", "memory, processes, processors", None],
        ),
        (
            {"control_groups": "none", "enforced": [], "machine_processors": [0, 1]},
            ["0-1", "none", "processors", "memory"],
        ),
        (
            {"control_groups": "v2", "enforced": [], "machine_processors": []},
            [None, "version 2", "nothing", "memory"],
        ),
        ({}, [None, None, None, None]),
    ],
)
def test_what_a_node_is_held_to_is_reported_in_words(facts: dict[str, Any], shown: list[str | None]) -> None:
    keys = ("Machine Processors", "Control Groups", "Enforced By Kernel", "Checked By Agent")
    found = screen.view(NODE | facts)
    assert [found.get(key) for key in keys] == shown


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"since": 0.0}, ""),
        ({"state": "Unreachable", "since": 0.0}, "since 1970-01-01T00:00:00+00:00"),
        (
            {"state": "Drained", "drains": [DRAIN]},
            "since 1970-01-01T00:00:00+00:00, by ada: new memory",
        ),
        (
            {"state": "Drained", "drains": [DRAIN | {"cause": "fault", "by": "", "reason": "no room"}]},
            "since 1970-01-01T00:00:00+00:00, by a fault of the node: no room",
        ),
        ({"drains": [DRAIN]}, "from 1970-01-01T00:00:00+00:00, by ada: new memory"),
    ],
)
def test_the_list_of_nodes_says_since_when_and_why_one_is_closed(facts: dict[str, Any], reason: str) -> None:
    assert screen.row(NODE | facts).get("Reason", "") == reason


def test_a_node_that_nobody_opens_but_an_administrator_says_how() -> None:
    answer = screen.view(NODE | {"state": "Drained", "since": 0.0, "drains": [DRAIN | {"cause": "fault"}]})
    assert answer["Drain"].endswith("hn node resume n1")
    answer = screen.view(NODE | {"state": "Drained", "since": 0.0, "drains": [DRAIN | {"cause": "health"}]})
    assert "resume" not in answer["Drain"]


def test_gpus_are_shown_where_a_node_has_any() -> None:
    facts = {"gpus": 4, "gpus_held": 1}
    assert screen.row(NODE | facts)["GPUs"] == "1/4"
    assert screen.view(NODE | facts)["GPUs"] == "4, 1 held"
    assert "GPUs" not in screen.row(NODE | {"gpus": 0, "gpus_held": 0}).keys() | screen.view(NODE).keys()


def test_a_drain_of_a_node_that_does_not_answer_says_so_and_names_no_date() -> None:
    away = {"state": "Unreachable", "drains": []}
    assert drain_in_words(away, at=None) == "is unreachable, and will start no jobs when it is back"
    assert drain_in_words(away, at=4e9) == "will start only jobs that end by then"
    assert drain_in_words({**away, "state": "Drained"}, at=None) == "has been drained; nothing runs there"
