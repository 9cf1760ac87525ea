"""The agent begins the journal of the next job; a shepherd goes on behind that record, or serves no job."""

import os
from pathlib import Path

import pytest

from headnode.adapters.processes import job_journal
from headnode.adapters.processes.job_journal import Header, Writer, begin_next

FIRST = Header(1, "first", "boot", os.getpid(), 0)
NEXT = Header(2, "next", "boot", os.getpid(), 0)


@pytest.fixture
def journal(tmp_path: Path) -> tuple[Path, Writer]:
    """Give the journal of a shepherd that has cleared its first job away."""
    path = tmp_path / "journal"
    writer = Writer(str(path), FIRST)
    writer.append([["queued", 1, [[1, 1]]]])
    writer.clear()
    return path, writer


def test_what_the_shepherd_writes_stands_behind_the_record_of_the_agent(journal: tuple[Path, Writer]) -> None:
    path, writer = journal
    begin_next(path, NEXT)
    assert writer.has_begun(NEXT)
    writer.append([["queued", 1, [[7, 1]]]])
    story = job_journal.read(path)
    assert story is not None
    assert story.header == NEXT
    assert list(story.queued) == [(1, 7, 1)]


@pytest.mark.parametrize("before", [1, 50, 5_000])
def test_nothing_of_a_longer_job_before_is_read_as_of_the_next(
    journal: tuple[Path, Writer], before: int
) -> None:
    path, writer = journal
    begin_next(path, NEXT)
    assert writer.has_begun(NEXT)
    writer.append([["started", 1, number, 1, 5.0] for number in range(before)])
    writer.clear()
    assert job_journal.read(path) is None
    begin_next(path, NEXT)
    assert writer.has_begun(NEXT)
    writer.append([["queued", 1, [[7, 1]]]])
    story = job_journal.read(path)
    assert story is not None
    assert (list(story.queued), story.started) == ([(1, 7, 1)], {})


@pytest.mark.parametrize("found", [None, FIRST, Header(2, "next", "boot", os.getpid() + 1, 0)])
def test_a_shepherd_serves_no_job_of_which_the_journal_is_not(
    journal: tuple[Path, Writer], found: Header | None
) -> None:
    path, writer = journal
    if found is not None:
        begin_next(path, found)
    assert not writer.has_begun(NEXT)


def test_an_agent_that_dies_behind_the_first_record_leaves_a_shepherd_that_lives(
    journal: tuple[Path, Writer],
) -> None:
    path, _ = journal
    begin_next(path, NEXT)
    story = job_journal.read(path)
    assert story is not None
    assert story.header == NEXT
    assert job_journal.lives(path)


def test_the_journal_is_opened_without_following_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        begin_next(tmp_path / "link", NEXT)
    assert (tmp_path / "target").read_text() == ""
