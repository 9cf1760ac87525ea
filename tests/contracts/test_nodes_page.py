"""The page of the node protocol names every message and every kind of result, and no others."""

import re
from pathlib import Path
from typing import get_args

from headnode.adapters.wire.agent_messages import MAX_MESSAGE, Heartbeat
from headnode.adapters.wire.messages import FromAgent, FromHead, FromStranger
from headnode.core.model.faults import FAULTS, Fault
from headnode.core.model.outcome import AttemptOutcome, Ending, ResourceUsage

PAGE = (Path(__file__).parents[2] / "docs" / "contracts" / "03-node-protocol.md").read_text()


def rows(after: str, before: str) -> set[str]:
    """Return the first cells, in code quotes, of the table rows between two headings."""
    part = PAGE.partition(after)[2].partition(before)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE))


def test_every_message_of_the_agent_has_a_row() -> None:
    named = {message.__name__ for message in get_args(FromAgent)}
    assert rows("## What the agent says", "The kinds of a result") == named


def test_every_message_of_the_head_has_a_row() -> None:
    named = {message.__name__ for message in get_args(FromHead)}
    assert rows("## What the head says", "## Joining") == named


def test_every_message_of_a_machine_that_joins_has_a_row() -> None:
    asked = {message.__name__ for message in get_args(FromStranger)}
    assert rows("## Joining", "The private key never leaves") == asked


def test_every_kind_of_result_has_a_row() -> None:
    kinds = set(get_args(Ending))
    assert rows("The kinds of a result", "Whose fault it is") == kinds


def test_every_field_of_an_outcome_and_every_measured_value_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.partition("A result has the numbers")[2].partition("\n\n")[0]))
    assert named - {"LaunchesEnded"} == {*AttemptOutcome._fields, *ResourceUsage._fields} - {"usage"}


def test_every_trouble_has_a_row_that_says_whose_fault_it_is() -> None:
    part = PAGE.partition("Whose fault it is")[2].partition("## What the head says")[0]
    found = re.findall(r"^\| (`.+`) \| (the job's|the node's|nobody's) \|", part, re.MULTILINE)
    named = {word: fault for words, fault in found for word in re.findall(r"`([^`]+)`", words)}
    whose = {Fault.JOB: "the job's", Fault.NODE: "the node's", Fault.NOBODY: "nobody's"}
    assert named == {word: whose[fault] for word, fault in FAULTS.items()}


def test_the_largest_message_and_the_name_of_a_message_are_as_the_page_says() -> None:
    assert f"{MAX_MESSAGE // 1024**2} MiB" in PAGE
    assert Heartbeat.__struct_config__.tag_field == "type"
