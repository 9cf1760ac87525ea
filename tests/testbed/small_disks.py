"""File systems of a few bytes, in memory; root alone can mount them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(disk: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a size, such as 1m."""
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "small", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
