"""A command that cannot write its standard output says so in one line; on a closed pipe it says nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.apps.cli.__main__ import main
from headnode.apps.cli.catalogue import MODULES

UNWRITABLE = "standard output cannot be written: No space left on device;"
FULL = Path("/dev/full")
HN = [sys.executable, "-P", "-m", "headnode.apps.cli"]

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


@pytest.mark.parametrize("noun", sorted(MODULES))
def test_every_command_says_in_one_line_that_its_output_cannot_be_written(
    noun: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in MODULES[noun]:
        with FULL.open("w") as full:
            monkeypatch.setattr(sys, "argv", ["hn", *filter(None, (noun, verb)), "--help"])
            monkeypatch.setattr(sys, "stdout", full)
            assert main() == 1, (noun, verb)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("hn: standard output cannot be written: No space left on device;"), (
            noun,
            verb,
        )


def shell(line: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/bash", "-c", line, "bash", *HN], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("words", ["--help", "job submit --help", "--version"])
def test_the_process_ends_with_status_1_and_one_line(words: str) -> None:
    done = shell(f'"$@" {words} > /dev/full')
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert done.stderr.startswith(f"hn: {UNWRITABLE}")


def test_a_closed_standard_output_is_reported_too() -> None:
    done = shell('"$@" --help >&-')
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert done.stderr.startswith("hn: standard output cannot be written: it is closed;")


def test_a_pipe_that_is_closed_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [*HN, "--help"], stdout=writes, stderr=subprocess.PIPE, check=False, timeout=120
        )
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (1, b"")
