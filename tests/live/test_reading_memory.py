"""No text takes more memory to read than ten times its size and a constant: each is read by a process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from reading_memory import TEXTS

from depth import every
from headnode.core.formats.text.source_text import BASE, TIMES

PROGRAM = Path(__file__).with_name("reading_memory.py")


@pytest.fixture(scope="module")
def reader() -> Iterator["subprocess.Popen[str]"]:
    """Run what forks a process for each text: to import the readers takes as long as many texts."""
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait() == 0


def read_alone(reader: "subprocess.Popen[str]", *order: str | float) -> tuple[int, int]:
    """Return the size of a text, and the memory that reading it took, in bytes."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    print(json.dumps(order), file=reader.stdin, flush=True)
    found = json.loads(reader.stdout.readline())
    return found["size"], found["took"]


@pytest.mark.parametrize(("name", "megabytes"), [*product(TEXTS, (0.9, 3.9))][:: every()])
def test_reading_takes_no_more_memory_than_promised(
    reader: "subprocess.Popen[str]", name: str, megabytes: float
) -> None:
    size, took = read_alone(reader, name, megabytes, "resident")
    assert took <= TIMES * size + BASE


@pytest.mark.parametrize("name", ["xml, tasks", "sss, elements", "json, tasks", "toml, tasks"])
def test_python_itself_counts_no_more_than_promised(reader: "subprocess.Popen[str]", name: str) -> None:
    size, took = read_alone(reader, name, 0.2, "traced")
    assert 0 < took <= TIMES * size + BASE
