"""Root is warned when other users cannot enter where Headnode is installed."""

from pathlib import Path

import pytest

from headnode.adapters.own_python import closed_to_others


@pytest.fixture
def open_place(tmp_path: Path) -> Path:
    """Return a directory that every user can enter, with a file that every user can read."""
    for each in (tmp_path, *tmp_path.parents):
        if each.owner() and "pytest" in str(each):
            each.chmod(0o755)
    (place := tmp_path / "opt").mkdir(mode=0o755)
    (place / "python").write_text("")
    (place / "python").chmod(0o755)
    return place


def test_what_all_can_reach_is_not_closed(open_place: Path) -> None:
    assert closed_to_others([open_place / "python"]) is None


def test_the_directory_that_is_closed_is_named(open_place: Path) -> None:
    open_place.chmod(0o750)
    assert closed_to_others([open_place / "python"]) == open_place


def test_a_file_that_others_cannot_read_is_named(open_place: Path) -> None:
    (open_place / "python").chmod(0o710)
    assert closed_to_others([open_place / "python"]) == open_place / "python"


def test_a_link_leads_to_what_is_closed(open_place: Path) -> None:
    (inner := open_place / "root").mkdir(mode=0o700)
    (inner / "python").write_text("")
    (link := open_place / "link").symlink_to(inner / "python")
    assert closed_to_others([link]) == inner
