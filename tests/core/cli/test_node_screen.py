"""What is told of a node says what its system keeps, and what is only looked at."""

from typing import Any

import pytest

from headnode.apps.cli.screens import node as screen

NODE: dict[str, Any] = {
    **{"name": "n1", "state": "Ready", "processors": 4, "used": 0, "free": 4, "jobs": [], "sockets": 1},
    **{"memory": 1, "speed": 0, "groups": [], "features": [], "architecture": "", "system": ""},
    **{"exclusive": None, "comment": ""},
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
def test_what_a_node_is_held_to_is_told_in_words(facts: dict[str, Any], shown: list[str | None]) -> None:
    keys = ("Machine Processors", "Control Groups", "Kept By System", "Looked At")
    told = screen.view(NODE | facts)
    assert [told.get(key) for key in keys] == shown
