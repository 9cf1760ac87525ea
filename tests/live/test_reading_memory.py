"""No text takes more memory to read than ten times its size and a constant: each is read by a process."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from reading_memory import TEXTS

from depth import every
from headnode.core.formats.text.source_text import BASE, TIMES

PROGRAM = Path(__file__).with_name("reading_memory.py")


def read_alone(name: str, megabytes: float, way: str) -> tuple[int, int]:
    """Return the size of a text, and the memory that reading it took, in bytes."""
    command = [sys.executable, str(PROGRAM), name, str(megabytes), way]
    done = subprocess.run(command, check=True, capture_output=True, timeout=600)
    found = json.loads(done.stdout)
    return found["size"], found["took"]


@pytest.mark.parametrize(("name", "megabytes"), [*product(TEXTS, (0.9, 3.9))][:: every()])
def test_reading_takes_no_more_memory_than_promised(name: str, megabytes: float) -> None:
    size, took = read_alone(name, megabytes, "resident")
    assert took <= TIMES * size + BASE


@pytest.mark.parametrize("name", ["xml, tasks", "sss, elements", "json, tasks", "toml, tasks"])
def test_python_itself_counts_no_more_than_promised(name: str) -> None:
    size, took = read_alone(name, 0.2, "traced")
    assert 0 < took <= TIMES * size + BASE
