"""``hn convert``: a job file in another job language, and what became of every word."""

import os

from headnode.adapters.files.opening import open_named, open_plain
from headnode.apps.cli.command import Command
from headnode.apps.cli.commands.check import how_asked
from headnode.apps.cli.job_files import HOW_TO_READ
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client
    from headnode.core.formats.fidelity import Report

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
REJECTED = "not-understood"  # the code of what awareness policy Reject refuses


def run(asked: "Asked", _client: "Client", out: "Output") -> int:
    """Print the jobs in the other language, or write each into a file; tell beside it what became of them."""
    from headnode.apps.cli.job_checks import Source, in_file
    from headnode.core.model.errors import BadRequest

    to, how, directory = _wanted(asked), how_asked(asked), asked.text("directory")
    source = Source(asked.words[0])
    try:
        if directory is None:
            was, read, (text, written) = source.converted(how, to)
        else:
            was, read, (files, written) = source.converted_each(how, to)
    except BadRequest as wrong:
        placed = in_file(wrong, source.name)
        if wrong.code != REJECTED:
            raise placed from wrong
        out.problem(placed)
        return 1
    report = _report(source.name, was, to, read, written)
    if directory is None:
        _tell(asked, report, out)
        _print(text, report, asked, out)
    else:
        names = _write_files(directory, files)
        _tell(asked, report, out)
        out.said("\n".join(names), {**report, "files": names}, "\n".join(names))
    return 0


def _tell(asked: "Asked", report: "dict[str, Any]", out: "Output") -> None:
    from headnode.apps.cli.screens.fidelity import page

    path = asked.text("report")
    if path is not None:
        _save(path, report)
    if out.for_people:
        out.note(page(report))


def _print(text: bytes, report: "dict[str, Any]", asked: "Asked", out: "Output") -> None:
    if asked.flag("json"):
        out.said("", {**report, "text": text.decode()})
    else:
        out.raw(text if text.endswith(b"\n") else text + b"\n")


def _write_files(directory: str, files: "Sequence[tuple[str, bytes]]") -> "list[str]":
    """Write each file into the directory, which is made if it is not there; none that is there is touched.

    Raises:  BadRequest ``directory``.
    """
    from pathlib import Path

    from headnode.core.model.errors import BadRequest

    place = Path(directory)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files:
            with os.fdopen(open_plain(str(place / name), _NEW), "wb") as file:
                file.write(text if text.endswith(b"\n") else text + b"\n")
    except (OSError, ValueError) as trouble:
        what = f"the jobs cannot be written into {directory!r}: {trouble}"
        raise BadRequest(code="directory", what=what, fix="name a new directory") from trouble
    return [str(place / name) for name, _ in files]


def _wanted(asked: "Asked") -> str:
    """Return the name of the dialect that is asked for."""
    from headnode.core.formats.dialects import DIALECTS, dialect_named

    if len(asked.words) != 1:
        raise usage("one job file is converted at a time", "write: hn convert FILE --to LANGUAGE")
    wanted = asked.text("to")
    if wanted is None:
        raise usage("it was not said into which job language", f"add --to and one of: {', '.join(DIALECTS)}")
    return dialect_named(wanted).name


def _report(file: str, was: str, to: str, read: "Report", written: "Report") -> "dict[str, Any]":
    """Return the report of reading and of writing."""
    from headnode.apps.cli.job_checks import finding_of

    told = {"reading": read, "writing": written}
    items = [{"when": when, **finding_of(item)} for when, report in told.items() for item in report]
    return {"file": file, "from": was, "to": to, "items": items}


def _save(path: str, report: "dict[str, Any]") -> None:
    """Write the report as JSON, as the user.

    Raises:  BadRequest ``report-file``.
    """
    import json

    from headnode.core.model.errors import BadRequest

    try:
        with os.fdopen(
            open_named(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8"
        ) as file:
            file.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    except (OSError, ValueError) as trouble:
        what = f"the report cannot be written to {path!r}: {trouble}"
        raise BadRequest(code="report-file", what=what, fix="name a file you may write") from trouble


COMMANDS = (
    Command(
        "convert",
        "FILE",
        "Convert a job file to another job language, and report every change",
        run,
        options=(
            Option(
                "to",
                "LANGUAGE",
                "ccs, hpcpack-2008, hpcpack, sss, sss-3.0, grid, grid-task, native or native-json",
            ),
            Option("directory", "DIRECTORY", "Write each job of the file into a file of its own there"),
            Option("report", "FILE", "Write the report there too, as JSON"),
            Option("awareness", "WORD", "What to do with losses: reject, warn (default) or ignore"),
            *HOW_TO_READ,
        ),
        example="hn convert job.xml --to native > job.toml",
        notes=(
            "The job goes to standard output, the report to standard error; - is standard input.",
            "A file of several jobs becomes one in native, native-json, sss and sss-3.0; a file in another "
            "language holds one job, so they need --directory, and what they wait for is lost.",
            "Exit status 1 when awareness reject refuses it, 2 when the file is wrong or the language cannot "
            "hold such a job.",
        ),
    ),
)
