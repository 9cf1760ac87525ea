"""Installing says what it does, and compiles the modules, also where Python is told to write no byte code."""

import contextlib
import os
import pty
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = "packaging/launcher/build"
SOURCE = "packaging/launcher/hn.c"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def test_on_a_terminal_an_installation_says_how_long_it_takes_and_shows_each_step(tmp_path: Path) -> None:
    words = ["make", "--dry-run", "--no-print-directory", "demo", f"VENV={tmp_path}/venv"]
    ours, theirs = pty.openpty()
    try:
        subprocess.run(words, cwd=ROOT, stdout=theirs, check=True)
    finally:
        os.close(theirs)
    said_in_all = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # which is how it ends
        while part := terminal.read(65536):  # one read may find only what has arrived
            said_in_all += part
    recipe = said_in_all.decode().splitlines()
    found = next(at for at, line in enumerate(recipe) if "takes about a minute" in line)
    pip = next(at for at, line in enumerate(recipe) if " pip " in line)
    assert found < pip
    assert "--quiet" not in recipe[pip]


def test_an_installation_has_byte_code_whatever_the_shell_says(tmp_path: Path) -> None:
    words = ["make", "--dry-run", "--no-print-directory", "install", f"VENV={tmp_path}/venv"]
    recipe = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in recipe.splitlines() if "compileall" in line]
    *command, source = shlex.split(line)
    assert (ROOT / source / "apps" / "cli" / "__main__.py").is_file()
    copy = tmp_path / "modules"
    shutil.copytree(ROOT / source / "apps" / "client", copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, *command[1:], str(copy)], env=environment, check=True)
    compiled = {file.name.partition(".")[0] for file in (copy / "__pycache__").glob("*.pyc")}
    assert compiled == {file.stem for file in copy.glob("*.py")}


@pytest.mark.parametrize("compiler", ["cc", "/nowhere/cc"])
def test_the_launcher_is_built_where_there_is_a_compiler(tmp_path: Path, compiler: str) -> None:
    if compiler == "cc" and shutil.which(compiler) is None:
        pytest.skip("there is no C compiler")
    script = tmp_path / "hn"
    script.write_text("the script of pip")
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run(
        [ROOT / BUILD, script], env=environment, capture_output=True, text=True, check=False
    )
    if compiler == "cc":
        assert (done.returncode, done.stderr, script.read_bytes()[:4]) == (0, "", b"\x7fELF")
    else:
        assert done.returncode == 1
        assert "no C compiler" in done.stderr
        assert script.read_text() == "the script of pip"
    assert list(tmp_path.iterdir()) == [script]


def test_a_newer_launcher_is_built_and_nothing_else_is_installed_again(tmp_path: Path) -> None:
    stamps = [tmp_path / name for name in (".packages", ".installed", ".with-tools")]
    now = time.time()
    for age, stamp in enumerate(stamps):
        stamp.touch()
        os.utime(stamp, (now + age, now + age))
    words = ["make", "--dry-run", "--no-print-directory", f"VENV={tmp_path}", "--what-if", SOURCE]
    recipe = subprocess.run(
        [*words, f"{tmp_path}/.with-tools"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in recipe.stdout.splitlines()] == [BUILD, "touch"]
