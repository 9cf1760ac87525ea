"""Headnode's own processes import nothing that the directory or the environment of a user holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.adapters.own_python import SOURCE_ROOT, code_command, function_command, module_command

SOURCE = SOURCE_ROOT / "headnode"
STARTED = (
    "headnode.apps.agent",
    "headnode.apps.cli",
    "headnode.apps.demo",
    "headnode.apps.notify",
    "headnode.apps.predict",
    "headnode.apps.server",
    "headnode.adapters.filters.runner",
    "headnode.adapters.filters.worker",
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Return a directory whose modules write the file `imported` below it when one is imported."""
    (tmp_path / "headnode").mkdir()
    spring = f"open({str(tmp_path / 'imported')!r}, 'a').write(__name__ + ' ')\n"
    for name in ("headnode/__init__", "msgspec", "asyncio", "json", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(spring)
    return tmp_path


def run(command: list[str], trap: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=trap, env={**os.environ, **environment}, text=True, check=False, timeout=60,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def hostile(trap: Path) -> dict[str, str]:
    """Return variables with which a Python that believes them imports from the trap, or does not end."""
    return {"PYTHONPATH": str(trap), "PYTHONSTARTUP": str(trap / "json.py"), "PYTHONINSPECT": "1"}


@pytest.mark.parametrize("module", STARTED)
def test_no_process_of_ours_imports_from_its_directory_or_the_path_of_a_user(module: str, trap: Path) -> None:
    show = "import sys; print(sys.modules['headnode'].__file__, sys.flags.inspect)"
    command = module_command(module)
    at = command.index("-m")
    found = f"import importlib, sys; sys.argv = ['x']; importlib.import_module({module!r}); {show}"
    done = run([*command[:at], "-c", found], trap, **hostile(trap))
    assert (done.stdout, done.returncode) == (f"{SOURCE / '__init__.py'} 0\n", 0)
    assert not (trap / "imported").exists()


def test_functions_and_code_start_without_the_directory_and_the_path_of_a_user(trap: Path) -> None:
    done = run(function_command("headnode.adapters.files.owners", "why_not_run"), trap, **hostile(trap))
    assert "missing 1 required positional argument" in done.stdout  # so it was found, and called
    done = run(code_command(sys.executable, "import json; print(json.__file__)"), trap, **hostile(trap))
    assert str(trap) not in done.stdout
    assert done.returncode == 0
    assert not (trap / "imported").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="what other users put into their own home is theirs")
def test_root_imports_nothing_from_the_home_directory_that_sudo_has_kept(trap: Path, tmp_path: Path) -> None:
    site = trap / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text((trap / "usercustomize.py").read_text())
    command = module_command("headnode.apps.cli", "--version")
    python = str(Path(sys.executable).resolve())  # in a virtual environment there is no directory of users
    paths = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}; "
    at = command.index("-m")
    program = f"{paths}import headnode.apps.cli.__main__ as cli; cli.main()"
    run([python, *command[1:at], "-c", program], trap, PYTHONUSERBASE=str(trap), HOME=str(tmp_path))
    assert not (trap / "imported").exists()
    run([python, "-c", ""], trap, PYTHONUSERBASE=str(trap))
    assert (trap / "imported").exists()  # a Python that is told nothing does import it


def test_headnode_that_was_found_through_the_path_of_python_is_found_by_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{SOURCE_ROOT}")
    assert {"-P", "-E"} & set(module_command("headnode.apps.server")) == {"-P"}
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:")
    assert {"-P", "-E"} <= set(module_command("headnode.apps.server"))
