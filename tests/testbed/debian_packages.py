"""Packages of Debian that tests need: root installs them, for others the test says what is missing."""

import os
import shutil
import subprocess

INSTALLING = 400.0  # seconds for apt-get


class CannotInstall(Exception):
    """Packages are missing; the message says how to install them."""


def install(*packages: str) -> None:
    """Install packages.

    Raises:  CannotInstall, at once where nobody may.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotInstall(f"as root: apt-get install {' '.join(packages)}")
    words = ["install", "--yes", "--no-install-recommends", *packages]
    if not apt_get(*words) and not (apt_get("update") and apt_get(*words)):
        raise CannotInstall(f"apt-get install {' '.join(packages)} fails here")


def apt_get(*words: str) -> bool:
    """Run apt-get; tell whether it did what it should."""
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=60", "-o", "Acquire::Retries=1", *words]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=quiet, capture_output=True, timeout=INSTALLING, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
