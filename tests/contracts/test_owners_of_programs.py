"""What root runs is root's alone to change: the program, what runs it, and all directories on the way."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.adapters.files.owners import why_not_run, why_not_trusted
from testbed.other_users import ALICE, being

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a directory that all users can reach."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def program(path: Path, first: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\nexit 0\n")
    path.chmod(0o755)
    return path


def test_a_program_of_ones_own_may_be_run(folder: Path) -> None:
    mine = program(folder / "bin" / "prolog")
    assert why_not_run([str(mine), "--scratch", "/tmp"]) == ""
    (folder / "linked").symlink_to(mine)
    assert why_not_run([str(folder / "linked")]) == ""
    assert why_not_run(["/bin/sh", "-c", "true"]) == ""


@as_root
def test_root_runs_no_program_of_a_user(folder: Path) -> None:
    theirs = program(folder / "prolog")
    os.chown(theirs, ALICE, ALICE)
    assert f"belongs to user {ALICE}" in why_not_run([str(theirs)])
    with being(ALICE):
        assert why_not_run([str(theirs)]) == ""


@pytest.mark.parametrize(("mode", "who"), [(0o775, "group"), (0o757, "everybody")])
def test_no_program_is_run_that_others_may_write(folder: Path, mode: int, who: str) -> None:
    path = program(folder / "prolog")
    path.chmod(mode)
    if os.geteuid() != 0 and who == "group":
        os.chown(path, -1, os.getegid())  # which may be his own alone, then he may
    else:
        assert f"can be changed by {who}" in why_not_run([str(path)])
        assert f"chmod go-w {path}" in why_not_run([str(path)])


def test_no_program_is_run_from_a_directory_that_others_may_write(folder: Path) -> None:
    path = program(folder / "open" / "bin" / "prolog")
    (folder / "open").chmod(0o777)
    assert f"{str(folder / 'open')!r} can be changed by everybody" in why_not_run([str(path)])
    (folder / "open").chmod(0o1777)  # as /tmp: nobody can replace what is another's
    assert why_not_run([str(path)]) == ""


@as_root
def test_no_program_is_run_whose_directory_a_user_can_replace(folder: Path) -> None:
    path = program(folder / "home" / "bin" / "prolog")
    os.chown(folder / "home", ALICE, ALICE)
    assert f"directory {str(folder / 'home')!r} belongs to user {ALICE}" in why_not_run([str(path)])
    (folder / "hooks").symlink_to(folder / "home" / "bin")
    assert "belongs to user" in why_not_run([str(folder / "hooks" / "prolog")])


@as_root
def test_no_program_is_run_through_a_link_of_a_user(folder: Path) -> None:
    mine = program(folder / "prolog")
    (folder / "link").symlink_to(mine)
    os.chown(folder / "link", ALICE, ALICE, follow_symlinks=False)
    assert f"belongs to user {ALICE}" in why_not_run([str(folder / "link")])


@as_root
def test_the_interpreter_of_a_program_and_the_script_of_an_interpreter_are_looked_at(folder: Path) -> None:
    python = program(folder / "python")
    os.chown(python, ALICE, ALICE)
    mine = program(folder / "prolog", f"#!{python} -I")
    assert str(python) in why_not_run([str(mine)])
    script = program(folder / "script.sh")
    os.chown(script, ALICE, ALICE)
    assert str(script) in why_not_run(["/bin/sh", "-e", str(script)])
    assert why_not_run(["/bin/echo", str(script)]) == ""


def test_a_program_that_cannot_run_says_why(folder: Path) -> None:
    (folder / "text").write_text("no program")
    missing = folder / "none" / "own"
    assert why_not_run([str(missing)]) == (
        f"{str(missing.parent)!r} does not exist, a part of the path {str(missing)!r}; create it, "
        "or correct the path"
    )
    assert f"chmod +x {folder / 'text'}" in why_not_run([str(folder / "text")])
    assert "is not a file" in why_not_run([str(folder)])
    (folder / "circle").symlink_to(folder / "circle")
    assert "too many symbolic links" in why_not_run([str(folder / "circle")])


def test_a_directory_that_others_may_write_is_not_trusted(folder: Path) -> None:
    assert why_not_trusted(str(folder)) == ""
    (folder / "open").mkdir()
    (folder / "open").chmod(0o1777)
    assert "can be changed by everybody" in why_not_trusted(str(folder / "open"))
    assert why_not_trusted(str(folder / "open" / "not" / "there")) == ""
    (folder / "open").chmod(0o777)
    assert "can be changed by everybody" in why_not_trusted(str(folder / "open" / "not" / "there"))
