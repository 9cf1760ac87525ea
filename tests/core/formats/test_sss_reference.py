"""The rows of the SSS job object are complete, and the reference says what they say."""

import json
from typing import Any

import pytest

from documents.job_languages import sss_reference
from headnode.core.formats.sss import read_document
from headnode.core.formats.sss.attributes import ATTRIBUTES
from headnode.core.formats.sss.properties import Unit
from headnode.core.formats.sss.property_rows import CHILDREN, ROWS, SPELLINGS, ElementPlace, RequirementLevel

from .shared import SHARED

TABLE = SHARED / "facts" / "job_properties.json"
OLD_NAMES = {
    ("JobGroup", "Id"): "JobGroupId",
    ("JobGroup", "Name"): "JobGroupName",
    ("JobGroup", "State"): "JobGroupState",
    ("Job", "Id"): "JobId",
    ("Job", "Name"): "JobName",
    ("Job", "State"): "JobState",
    ("Job", "User"): "UserId",
    ("Job", "Project"): "ProjectId",
    ("Job", "GlobalUser"): "GlobalUserId",
    ("Job", "Machine"): "MachineName",
    ("Job", "Quote"): "QuoteId",
    ("Job", "Duration"): "WallDuration",
    ("Job", "SubmitTime"): "SubmissionTime",
    ("TaskGroup", "Name"): "TaskGroupName",
    ("Task", "Process"): "ProcessId",
}
"""The names that the published examples of both versions show."""


def test_the_names_of_both_versions_are_those_of_the_published_examples() -> None:
    for (place, name), old in OLD_NAMES.items():
        assert SPELLINGS[ElementPlace(place)][old].row is SPELLINGS[ElementPlace(place)][name].row


def test_every_row_is_in_the_reference_with_its_places_and_its_source() -> None:
    page = sss_reference()
    for row in ROWS:
        start = f"| `{row.name}` | "
        lines = [line for line in page.splitlines() if line.startswith(start) and row.source in line]
        assert len(lines) == sum(one.name == row.name and one.source == row.source for one in ROWS)
    for child in CHILDREN:
        assert f"| `{child.name}` |" in page
    for attribute in ATTRIBUTES:
        assert f"| `{attribute.name}`" in page


def test_the_reference_is_made_of_whole_tables() -> None:
    sections = sss_reference().split("### ")[1:]
    assert [section.partition("\n")[0] for section in sections] == ["Parts", "Properties", "Attributes"]
    for section in sections:
        widths = {line.count("|") for line in section.splitlines() if line.startswith("|")}
        assert len(widths) == 1


def test_no_name_means_two_things_in_one_place_but_network() -> None:
    for place in ElementPlace:
        names = [row.name for row in ROWS if place in row.places]
        assert sorted(name for name in set(names) if names.count(name) > 1) in ([], ["Network"])


def test_units_are_powers_of_two() -> None:
    assert [unit.size for unit in Unit] == [2 ** (10 * step) for step in range(11)]


def published() -> list[dict[str, Any]]:
    """The rows of the published tables, as they were extracted."""
    found: list[dict[str, Any]] = json.loads(TABLE.read_text())
    return found


needs_table = pytest.mark.skipif(
    not TABLE.exists(), reason="the published tables are not beside the repository"
)
STRUCTURE = {"Requested", "Delivered", "Variable", "File", "NodeProperties"} | {
    child.name for child in CHILDREN
}


@needs_table
def test_every_published_row_is_one_of_ours_with_its_type_and_its_need() -> None:
    for row in published():
        place, name = row["parent"].split("/")[0].split()[0], row["name"]
        if name in STRUCTURE:
            continue
        spelling = SPELLINGS[ElementPlace("Job" if place == "any" else place)][name]
        ours = spelling.row
        if row["table"] != "struct":
            kinds = [one.type.name for one in ROWS if one.name == name]
            assert row["type"] in kinds or name in ("TaskCount", "Node"), row
            assert ours.appearance.value == row["appearance"], row
            if name != "Network":
                assert ours.compliance.value == row["compliance"], row
            assert (ElementPlace.REQUESTED in ours.places) is ("RD" in row["categories"]) or name == "Node", (
                row
            )


@needs_table
def test_every_attested_name_of_the_old_version_is_read() -> None:
    for row in published():
        old = row["name_303"].split("(")[0].strip()
        place = row["parent"].split("/")[0].split()[0]
        if old.startswith(("same", "Node", "itself")) or not old or row["name"] in STRUCTURE:
            continue
        assert old.rstrip("*+?") in SPELLINGS[ElementPlace(place)], row


def test_what_must_be_there_is_marked_so() -> None:
    assert sorted(
        (row.name, place.value)
        for row in ROWS
        if row.appearance is RequirementLevel.MUST
        for place in row.places
    ) == [
        ("Id", "Job"),
        ("Id", "JobGroup"),
    ]
    read_document("<Job><Id>1</Id></Job>")
