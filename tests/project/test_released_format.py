"""What was released is for ever: tags, fields and samples of every release."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from documents.released_format import (
    FORMAT,
    IN_JSON,
    LOCK,
    ROOTS,
    assert_kept,
    broken_promises,
    golden_lines,
    lock_lines,
    problems_of,
    releases,
    sample_lines,
    version_of,
)
from headnode import __version__

LOCKED = LOCK.read_text().splitlines()
SAMPLES = [
    pytest.param(*line.split(" "), id=f"{path.stem} {line.rpartition(' ')[0]}")
    for path in sorted(FORMAT.glob("*.txt"))
    if path != LOCK
    for line in path.read_text().splitlines()
]


def test_nothing_that_was_released_is_gone_or_changed() -> None:
    assert broken_promises(LOCKED, lock_lines()) == []


def test_no_release_is_changed_and_a_released_version_gets_no_additions() -> None:
    assert problems_of(__version__, lock_lines()) == []


def test_a_released_version_refuses_an_addition() -> None:
    for release in releases():
        assert problems_of(release.stem, [*lock_lines(), "journal JobAdded: map, type=JobAdded"]) != []


@pytest.mark.parametrize("release", [pytest.param(path, id=path.stem) for path in releases()])
def test_the_golden_files_of_a_release_are_those_that_it_wrote(release: Path) -> None:
    kept = [line for line in release.read_text().splitlines() if line.startswith("golden ")]
    assert kept == golden_lines(release.stem)


def test_what_is_new_is_in_the_lock() -> None:
    assert set(lock_lines()) - set(LOCKED) == set(), "make format-lock"


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        ("journal JobHeld.name: text, required", "journal JobHeld.title: text, required", "gone or changed"),
        ("journal JobHeld: map, type=JobHeld", "journal JobKept: map, type=JobKept", "gone or changed"),
        ('journal JobHeld.by: text, default ""', "journal JobHeld.by: int, default 0", "gone or changed"),
        ("", "journal JobHeld.why: text, required", "a new field needs a default"),
    ],
)  # fmt: skip
def test_the_lock_refuses_what_others_could_not_read(before: str, now: str, problem: str) -> None:
    assert not before or before in LOCKED
    lines = [now if line == before else line for line in LOCKED]
    problems = broken_promises(LOCKED, lines if before else [*LOCKED, now])
    assert any(problem in each for each in problems)


def test_a_new_event_and_a_new_field_with_a_default_are_additions() -> None:
    fresh = [
        "journal JobAdded: map, type=JobAdded",
        "journal JobAdded.at: number, required",
        'journal JobHeld.place: text, default ""',
    ]
    assert broken_promises(LOCKED, [*LOCKED, *fresh]) == []


def type_of(where: str, name: str) -> Any:
    return ROOTS[where][name]


@pytest.mark.parametrize(("where", "name", "data"), SAMPLES)
def test_what_a_release_wrote_is_read_as_it_was_written(where: str, name: str, data: str) -> None:
    written, codec = bytes.fromhex(data), msgspec.json if where in IN_JSON else msgspec.msgpack
    kind = type_of(where, name)
    value = codec.decode(written, type=kind)
    assert_kept(codec.decode(written), codec.decode(codec.encode(value)))


def test_the_newest_release_has_a_sample_of_every_kind() -> None:
    newest = max(FORMAT.glob("[0-9]*.txt"), key=version_of)
    then = {line.rpartition(" ")[0] for line in newest.read_text().splitlines()}
    now = {line.rpartition(" ")[0] for line in sample_lines()}
    assert now == then


def test_the_files_of_releases_are_named_by_their_versions() -> None:
    assert all(part.isdigit() for path in FORMAT.glob("[0-9]*.txt") for part in Path(path).stem.split("."))
