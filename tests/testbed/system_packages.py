"""Building packages of the system, and running lines of shell where their files are at their places."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WAIT = 300.0  # seconds
NAMING_THE_BUILD = f"grep -rlE '/tmp/tmp[.]|{PACKAGING.parent}'"
"""Lists the files below a directory that name the places where the package was built."""


def ran(*words: object, **more: str) -> str:
    """Run a command with the path of the system and no other variables; return its output."""
    result = subprocess.run(
        [*map(str, words)],
        env={"PATH": SYSTEM_PATH, **more},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def built(kind: str, python: Path, folder: Path, **more: str) -> Path:
    """Build the package of a kind, such as `debian`, into a folder; skip where Python cannot make one."""
    can_build = [python, "-c", "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"]
    if not python.exists() or subprocess.run(can_build, capture_output=True, check=False).returncode:
        pytest.skip(f"{python} is not 3.11 or newer, or has no venv module: apt-get install python3-venv")
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    home = os.environ.get("HOME", "/root")
    command = PACKAGING / kind / "build", Path(sys.executable).with_name("hn"), folder
    return Path(ran(*command, HOME=home, **pip, **more).splitlines()[-1])


def run_apart(folder: Path, lines: str) -> str:
    """Run lines of shell in a mount namespace of its own, with an empty /opt, as a new user of Headnode."""
    own = {"HEADNODE_STATE": str(folder / "state"), "HEADNODE_RESIDENT_CLIENT": "0", "HOME": str(folder)}
    return ran("unshare", "--mount", "sh", "-ec", f"mount -t tmpfs none /opt\ncd {folder}\n{lines}", **own)
