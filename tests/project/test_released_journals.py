"""The journals of all releases are replayed to the states that they had then."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from documents.released_journals import JOURNALS, lives, rebuild, state_of
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.state.events import EVENTS
from headnode.core.state.invariants import check_cluster
from headnode.engine.recovery import recover

LIVES = sorted(JOURNALS.glob("[0-9]*/*.sql"))
FORMATS = JOURNALS.parent / "format" / "releases"


def assert_kept(then: Any, now: Any, at: str = "") -> None:
    """Check that all of a state is in another; a later release may know more."""
    if isinstance(then, dict):
        for key, value in then.items():
            assert_kept(value, now[key], f"{at}.{key}")
    elif isinstance(then, list):
        assert len(then) == len(now), at
        for number, (before, after) in enumerate(zip(then, now, strict=True)):
            assert_kept(before, after, f"{at}[{number}]")
    else:
        assert then == now, at


@pytest.mark.parametrize("snapshot", [True, False], ids=["from its snapshot", "from its first event"])
@pytest.mark.parametrize("life", LIVES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_journal_of_a_release_has_the_state_that_it_had(life: Path, snapshot: bool, tmp_path: Path) -> None:
    path = rebuild(life, tmp_path / "journal.db")
    if not snapshot:
        with sqlite3.connect(path) as database:
            database.execute("delete from snapshots")
        database.close()
    journal = SqliteJournal(path)
    try:
        cluster, _, kept = recover(journal)
    finally:
        journal.close()
    assert bool(kept) == snapshot
    check_cluster(cluster)
    assert_kept(json.loads(life.with_suffix(".json").read_text()), json.loads(state_of(cluster)))


def test_the_journals_of_a_release_have_every_kind_of_event(tmp_path: Path) -> None:
    newest = max(path.parent for path in LIVES)
    released = (FORMATS / f"{newest.name}.txt").read_text()
    seen = set()
    for life in newest.glob("*.sql"):
        journal = SqliteJournal(rebuild(life, tmp_path / f"{life.stem}.db"))
        seen |= {type(event) for _, event in journal.replay(0)}
        journal.close()
    known = {kind for kind in EVENTS if f"journal {kind.__name__}: " in released}
    assert {kind.__name__ for kind in known} - {kind.__name__ for kind in seen} == set()


def test_the_journals_of_the_next_release_will_have_every_kind_of_event() -> None:
    seen = {type(event) for _, events in lives() for event in events}
    missing = {kind.__name__ for kind in EVENTS} - {kind.__name__ for kind in seen}
    assert not missing, f"let something in tests/documents/released_journals.py cause: {missing}"
