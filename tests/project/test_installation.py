"""Installing compiles the modules, also where Python is told to write no byte code: `hn` starts faster."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
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
