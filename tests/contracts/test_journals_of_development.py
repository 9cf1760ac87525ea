"""What development versions wrote is refused before anything is written, and said to be theirs."""

import sqlite3
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from headnode import __version__
from headnode.adapters.journal.backup import check_backup
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.errors import HeadnodeError

DEVELOPMENT = Path(__file__).parents[1] / "golden" / "journals" / "development"


def rebuilt(dump: Path, path: Path) -> Path:
    """Make the database that a dump is of."""
    database = sqlite3.connect(path)
    database.executescript(dump.read_text())
    database.close()
    return path


@pytest.mark.parametrize("dump", sorted(DEVELOPMENT.glob("*.sql")), ids=lambda path: path.stem)
def test_a_journal_of_a_development_version_is_refused_and_stays_as_it_is(dump: Path, tmp_path: Path) -> None:
    path = rebuilt(dump, tmp_path / "journal.db")
    before = path.read_bytes()
    with pytest.raises(HeadnodeError) as refused:
        SqliteJournal(path)
    error = refused.value
    assert error.code == "journal-version"
    assert "written by Headnode" in error.what
    assert "during development" in error.what
    assert f"Headnode {__version__} reads version" in error.what
    assert "nothing was changed" in error.fix
    assert path.read_bytes() == before


def test_a_backup_of_a_development_version_is_refused_by_its_version(tmp_path: Path) -> None:
    manifest = b'{"format":"headnode-backup","version":1,"headnode":"0.1.0","made":0.0}'
    backup = tmp_path / "backup"
    with tarfile.open(backup, "w:gz") as archive:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(manifest)
        archive.addfile(member, BytesIO(manifest))
    with pytest.raises(HeadnodeError, match="has format headnode-backup 1, this Headnode reads") as refused:
        check_backup(backup, tmp_path / "unpacked")
    assert (refused.value.code, "Headnode 0.1.0" in refused.value.fix) == ("backup-version", True)
