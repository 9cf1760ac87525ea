"""What a task has made or changed at the top of its scratch directory is known, whatever its program does."""

import os
from pathlib import Path

import pytest

from headnode.adapters.staging.failures import NeverTransferred
from headnode.adapters.staging.local_storage import made_files, note_brought

NOTE = ".headnode-brought"


def test_new_and_changed_files_are_distinguished_from_those_that_were_brought(tmp_path: Path) -> None:
    for name in ("same", "longer", "rewritten"):
        (tmp_path / name).write_text("x")
    note_brought(str(tmp_path))
    (tmp_path / "longer").write_text("xx")
    (tmp_path / "other").write_text("x")
    (tmp_path / "other").replace(tmp_path / "rewritten")
    (tmp_path / "new").write_text("")
    (tmp_path / ".headnode-stdout").write_text("")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "inner").write_text("")
    assert made_files(str(tmp_path), "./", 9) == ["longer", "new", "rewritten"]
    assert made_files(str(tmp_path), "below/", 9) == ["inner"]
    assert len(made_files(str(tmp_path), "./", 1)) == 2


def test_all_files_are_new_where_none_was_brought(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("")
    assert made_files(str(tmp_path), "./", 9) == ["made"]


def test_a_note_that_the_program_has_changed_is_refused(tmp_path: Path) -> None:
    for text in ("{", "[]", "\0"):
        (tmp_path / NOTE).write_text(text)
        with pytest.raises(NeverTransferred, match="has changed"):
            made_files(str(tmp_path), "./", 9)
    (tmp_path / NOTE).unlink()
    os.mkfifo(tmp_path / NOTE)
    with pytest.raises(NeverTransferred, match="has changed"):
        made_files(str(tmp_path), "./", 9)
    (tmp_path / NOTE).unlink()
    (tmp_path / NOTE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        made_files(str(tmp_path), "./", 9)
    with pytest.raises(OSError, match="symbolic links"):
        note_brought(str(tmp_path))
    assert not (tmp_path / "elsewhere").exists()
