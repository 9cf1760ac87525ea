"""Writes when every job starts, as comma-separated values; a file is written whole, or not at all."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headnode.apps.simulate.whole_file import written_whole
from headnode.core.model.errors import BadRequest
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.figures import ends

HEADING = "job,submit,start,end,processors"


def write_starts(path: str, workload: Workload, starts: Sequence[float]) -> None:
    """Write one line for each job, in seconds on the log's clock.

    Raises:  BadRequest ``starts-file`` when the file cannot be written; one that was there is left alone.
    """
    try:
        with written_whole(Path(path)) as file:
            file.write(f"{HEADING}\n".encode("ascii"))
            file.writelines(line.encode("ascii") for line in _lines(workload, starts))
    except OSError as trouble:
        raise BadRequest(
            code="starts-file",
            what=f"starts file {path!r} cannot be written: {trouble.strerror or trouble}",
            fix="name a file in a directory that exists and that you may write to",
        ) from trouble


def _lines(workload: Workload, starts: Sequence[float]) -> Iterator[str]:
    rows = zip(
        workload.numbers, workload.submits, starts, ends(workload, starts), workload.processors, strict=True
    )
    return (f"{job},{submit},{start},{end},{count}\n" for job, submit, start, end, count in rows)
