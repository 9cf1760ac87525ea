"""Python programs that submit jobs by packages of others, run as their users do."""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TIMEOUT = 240.0  # seconds
USE_OF_DASK = """, Client(cluster) as client:
    cluster.scale(jobs=2)
    client.wait_for_workers(2, timeout=120)
    print("sum", sum(client.gather(client.map(lambda n: n * n, range(10)))))
"""
"""What follows the cluster in a ``with`` statement: two workers, and a sum of 285."""


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed: pip install -e '.[integrations]'")


def run_python(words: Sequence[str], environment: Mapping[str, str], where: Path, *, status: int = 0) -> str:
    """Return what a Python program prints in a directory."""
    done = subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == status, done.stdout
    return done.stdout
