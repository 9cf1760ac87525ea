"""Recorded answers of real schedulers, where they are there: a command, what it said, and its status."""

import re
from pathlib import Path

import pytest

from headnode.core.batch.dialect import CommandResult

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
needs_records = pytest.mark.skipif(not RECORDED.is_dir(), reason="the records of ../shared are not there")
_COMPLAINS = re.compile(r"^\w+(?:_\w+)*( error)?: ", re.MULTILINE)


def recorded(name: str) -> CommandResult:
    """Return a recorded answer.  Both streams are in one text: what a command complains of goes to `err`."""
    text = (RECORDED / f"{name}.txt").read_text()
    body, _, status = text.rpartition("[rc=")
    lines = body.splitlines()[1:]
    failed = [line for line in lines if _COMPLAINS.match(line) or "error" in line or "Unable to" in line]
    out = "".join(f"{line}\n" for line in lines if line not in failed)
    return CommandResult(int(status.split("]")[0]), out, "\n".join(failed))
