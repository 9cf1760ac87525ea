"""The page of the heads: what is lost with the machine of the head, and what happened, in sentences."""

from typing import Any

import pytest

from headnode.apps.server.api.event_types import EVENT_TYPES
from headnode.apps.web.console.heads import event_words, loss_sentence


@pytest.mark.parametrize(
    ("wait", "states", "expected"),
    [
        (5.0, [], "If the machine of the head is lost, all changes since the last backup are lost."),
        (5.0, ["InStep", "Away"], "1 standby head has all acknowledged changes."),
        (5.0, ["InStep", "InStep"], "2 standby heads have all acknowledged changes."),
        (5.0, ["Away", "CatchingUp"], "No standby head has all acknowledged changes."),
        (
            0.0,
            ["HeadReplica"],
            "Standby heads follow, and no acknowledgement waits for them (StandbyWait is 0).",
        ),
        (0.0, ["Away"], "No standby head has all acknowledged changes."),
    ],
)
def test_it_is_said_what_a_lost_machine_costs(wait: float, states: list[str], expected: str) -> None:
    assert loss_sentence({"wait": wait, "standbys": [{"state": state} for state in states]}) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "standby.admitted", "name": "b", "address": "b:1"}, "Standby b joined, at b:1"),
        ({"type": "standby.removed", "name": "{b}", "by": "root"}, "Standby {b} was removed (by root)"),
        ({"type": "head.taken_over", "name": "b", "address": "b:1"}, "Standby b became the head, at b:1"),
    ],
)
def test_what_happened_to_heads_is_said_in_words(event: dict[str, Any], expected: str) -> None:
    assert event_words(event) == expected
    assert event["type"] in {name for name, _ in EVENT_TYPES.values()}
