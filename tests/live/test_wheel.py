"""The wheel of this platform: pip installs it, its `hn` is the launcher, and nothing is left of it."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import until
from testbed.system_packages import ran

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "build", "--quiet", "--no-isolation"]
MACHINE = os.uname().machine
WITHOUT_COMPILER = "/nowhere/cc"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
pytestmark = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import build, hatchling"], capture_output=True).returncode != 0,
    reason="build or hatchling is missing: make .venv/.with-tools",
)


def _ran(*words: object, **more: str) -> str:
    return ran(*words, **{**os.environ, **more})


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _hn(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as content:
        (name,) = [each for each in content.namelist() if each.endswith(".data/scripts/hn")]
        return content.read(name)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what `make wheels` does: the source, and from it the wheel."""
    folder = tmp_path_factory.mktemp("built")
    _ran(*BUILD, "--outdir", folder, ROOT)
    return folder


@needs_compiler
def test_the_wheel_of_the_source_is_of_this_platform_and_has_the_launcher(built: Path) -> None:
    wheel = _only(built, "*.whl")
    assert wheel.name.endswith((f"-py3-none-manylinux_2_17_{MACHINE}.whl", f"-py3-none-linux_{MACHINE}.whl"))
    assert _hn(wheel)[:4] == b"\x7fELF"


@pytest.mark.parametrize("pure", [{"CC": WITHOUT_COMPILER}, {"HEADNODE_PURE_WHEEL": "1"}])
def test_without_a_launcher_the_wheel_is_for_every_platform(tmp_path: Path, pure: dict[str, str]) -> None:
    _ran(*BUILD, "--wheel", "--outdir", tmp_path, ROOT, **pure)
    wheel = _only(tmp_path, "*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert _hn(wheel).startswith(b"#!python")


@pytest.fixture(scope="module")
def dependencies() -> str:
    """Return where the packages are that Headnode needs: a fresh environment reads them from there."""
    import msgspec

    return str(Path(msgspec.__file__).parents[1])


@pytest.fixture
def installed(built: Path, dependencies: str, tmp_path: Path) -> Iterator[Path]:
    """Install the wheel into a fresh virtual environment; afterwards it is as it was before."""
    venv = tmp_path / "venv"
    _ran(sys.executable, "-m", "venv", venv)
    packages = _only(venv, "lib/python3*/site-packages")
    (packages / "others.pth").write_text(dependencies)
    before = set(venv.rglob("*"))
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    _ran(*pip, "install", "--no-index", "--no-deps", "--ignore-installed", _only(built, "*.whl"))
    yield venv
    _ran(*pip, "uninstall", "--yes", "headnode")
    left = {each for each in set(venv.rglob("*")) - before if "__pycache__" not in each.parts}
    assert not left


def _environment(folder: Path) -> dict[str, str]:
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    return {
        "HEADNODE_STATE": str(folder / "state"),
        "HEADNODE_RESIDENT_CLIENT": "5",
        "XDG_RUNTIME_DIR": str(runtime),
        "HOME": str(folder),
    }


@needs_compiler
def test_a_job_runs_from_a_fresh_environment_and_commands_have_a_resident(
    installed: Path, tmp_path: Path
) -> None:
    own = _environment(tmp_path)
    hn = installed / "bin" / "hn"
    _ran(hn, "up", "--processors", "1", **own)
    try:
        asked = "import headnode, os; print(headnode.__file__, os.environ['CCP_JOBID'])"
        result = _ran(hn, "job", "submit", "--wait", f'{installed}/bin/python -c "{asked}"', **own)
        assert result.splitlines()[-1].split() == [str(_only(installed, "lib/*/*/headnode/__init__.py")), "1"]

        def has_resident() -> bool:
            _ran(hn, "job", "list", **own)
            return any(len(each.name) == 32 for each in (tmp_path / "run" / "headnode-client").iterdir())

        until(has_resident, "a resident client")
        assert _ran(hn, "job", "list", "/state:*", **own).count("Finished") == 1
    finally:
        _ran(hn, "down", "--cancel-jobs", **own)


@needs_compiler
def test_outside_a_virtual_environment_hn_takes_the_python_that_pip_has_written(
    installed: Path, tmp_path: Path
) -> None:
    """As after `pip install --user`: the programs are in a directory that has no Python, or another one."""
    programs = tmp_path / "user" / "bin"
    programs.mkdir(parents=True)
    for name in ("hn", "headnode"):
        shutil.copy(installed / "bin" / name, programs)
    (programs / "python3").symlink_to("/bin/false")
    assert _ran(programs / "hn", "--version", HEADNODE_RESIDENT_CLIENT="0").startswith("headnode ")
