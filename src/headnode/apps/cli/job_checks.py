"""Reads a job file and holds it to every rule that needs no cluster."""

import os
import re
from pathlib import Path
from typing import Any

from headnode.core.formats.compute_cluster_xml import locate, read_job
from headnode.core.model.checks import check, check_runnable
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

ERROR = "error"
NOT_RUNNABLE = "not-runnable"
_PLACE = re.compile(r"line (\d+), column (\d+): ")


def findings(file: str, *, strict: bool) -> list[dict[str, Any]]:
    """Return what is to be said of the file; a finding of kind `ERROR` keeps it from being submitted.

    Raises:  BadRequest ``job-file`` when it cannot be read.
    """
    try:
        data = Path(file).read_bytes()
    except OSError as trouble:
        raise BadRequest(
            code="job-file",
            what=f"job file {file!r} cannot be read: {os.strerror(trouble.errno or 0)}",
            fix="give a file you may read",
        ) from trouble
    found: list[dict[str, Any]] = []
    try:
        spec, report = read_job(data, strict=strict)
        found = [
            {"kind": str(item.kind), "where": item.where, "what": item.what, **_place(item.line, item.column)}
            for item in report
        ]
        try:
            check(spec)
        except BadRequest as wrong:
            raise locate(data, wrong) from wrong
        found += _not_runnable(spec)
    except BadRequest as wrong:
        found.append(_error(wrong))
    return found


def _not_runnable(spec: JobSpec) -> list[dict[str, Any]]:
    """A task without a program is a legal document, and a job that can be kept: not an error of the file."""
    try:
        check_runnable(spec)
    except BadRequest as wrong:
        what = f"it can be created but not submitted: {wrong.what}; {wrong.fix}"
        return [{"kind": NOT_RUNNABLE, "where": "", "what": what, **_place(0, 0)}]
    return []


def _place(line: int, column: int) -> dict[str, int | None]:
    return {"line": line or None, "column": column if line else None}


def _error(wrong: BadRequest) -> dict[str, Any]:
    """Return an error as a finding; where it says its place in words, as numbers."""
    place = _PLACE.match(wrong.what)
    what = wrong.what[place.end() :] if place else wrong.what
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    fix = f"; {wrong.fix}" if wrong.fix else ""
    return {"kind": ERROR, "where": "", "what": what + fix, "code": wrong.code, **_place(line, column)}
