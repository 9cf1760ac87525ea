"""``hn check`` and ``hn convert``: is a job file right, and the same job in another job language."""

import os

from headnode.adapters.files.opening import open_named, open_plain
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_files import HOW_TO_READ, values_given
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from headnode.core.formats.dialects import ReadOptions
    from headnode.core.formats.fidelity import FidelityReport

    Item = dict[str, Any]

FIDELITY_GROUPS = {
    "not-supported": "not supported: without effect there",
    "approximated": "approximated: replaced by the nearest value",
    "translated": "translated: another word with the same meaning",
    "note": "good to know",
}
"""The kinds that are printed, and what each means; everything else was kept unchanged."""


def fidelity_page(report: "dict[str, Any]") -> str:
    """Return the report of a conversion."""
    items: list[Item] = report["items"]
    lost = any(item["kind"] in ("not-supported", "approximated") for item in items)
    verdict = "parts of it are changed or without effect there" if lost else "nothing is lost"
    lines = [f"{report['file']}, from {report['from']} to {report['to']}: {verdict}"]
    for kind, title in FIDELITY_GROUPS.items():
        found = [item for item in items if item["kind"] == kind]
        if found:
            lines += [f"  {title}", *(f"    {line}" for line in _together(found))]
    return "\n".join(lines)


def _together(items: "Iterable[Item]") -> "Iterator[str]":
    """Yield a line for each sentence, with the first place it is said of and how many more there are."""
    first: dict[str, Item] = {}
    more: dict[str, int] = {}
    for item in items:
        what = item["what"]
        more[what] = more[what] + 1 if what in first else 0
        first.setdefault(what, item)
    for what, item in first.items():
        place = f"{item['line']}:{item['column']}: " if item["line"] else ""
        others = f" and {more[what]} more" if more[what] else ""
        yield f"{place}{item['where']}{others}: {what}"


def check_files(args: Arguments, _client: Client, out: Output) -> int:
    """Print what is wrong with each file and what will have no effect; 2 if anything is wrong."""
    schema = args.text("schema")
    if schema is not None:
        return _print_schema(schema, args, out)
    if not args.words:
        raise usage("no job file was given", "write: hn check FILE")
    how = reading_options(args)
    return max(_check(file, how, out) for file in args.words)


def _print_schema(dialect: str, args: Arguments, out: Output) -> int:
    from headnode.apps.cli.schemas import schema_of

    if args.words:
        raise usage(f"--schema needs no file, and {args.words[0]!r} was given", "leave one of them out")
    out.raw(schema_of(dialect))
    return 0


def reading_options(args: Arguments) -> "ReadOptions":
    """Return how job files are to be read."""
    from headnode.core.formats.dialects import ReadOptions, dialect_named
    from headnode.core.formats.fidelity import parse_awareness

    named = args.text("from")
    return ReadOptions(
        awareness=parse_awareness(args.text("awareness") or "warn"),
        language=dialect_named(named).language if named is not None else None,
        strict=args.flag("strict"),
        lenient=args.flag("lenient"),
        values=values_given(args),
    )


def _check(name: str, how: "ReadOptions", out: Output) -> int:
    from headnode.apps.cli.job_checks import ERROR, NOT_RUNNABLE, JobFileSource, error_finding, findings
    from headnode.apps.cli.output import WORTH_TELLING, finding_line
    from headnode.core.model.errors import BadRequest, ErrorClass

    try:
        source = JobFileSource(name)
    except BadRequest as away:
        out.text(finding_line(error_finding(away), name), _data(name, "", False, [error_finding(away)]))
        return away.exit_status
    taken_for, found = findings(source, how)
    kinds = {finding["kind"] for finding in found}
    printed = (ERROR, NOT_RUNNABLE, *WORTH_TELLING)
    lines = [finding_line(one, source.name) for one in found if one["kind"] in printed or _is_repair(one)]
    if ERROR in kinds:
        lines += _guess(source.name, taken_for)
    elif NOT_RUNNABLE in kinds:
        lines.append(f"{source.name}: {taken_for}: it can be read")
    else:
        differs = ", with the differences above" if lines else ""
        lines.append(f"{source.name}: {taken_for}: it can be submitted{differs}")
    out.text("\n".join(lines), _data(source.name, taken_for, ERROR not in kinds, found))
    return ErrorClass.BAD_INPUT.exit_status if ERROR in kinds else 0


def _is_repair(finding: "dict[str, Any]") -> bool:
    """Whether a finding says what --lenient has mended."""
    return finding["where"] == "repaired" or str(finding["what"]).startswith("repaired: ")


def _guess(file: str, taken_for: str) -> "list[str]":
    """Tell what a wrong file was taken for: another language may have been meant."""
    return (
        [f"{file}: read as {taken_for}; to read it as another language: --from LANGUAGE"] if taken_for else []
    )


def _data(file: str, taken_for: str, valid: bool, findings: "list[dict[str, Any]]") -> "dict[str, Any]":
    return {"file": file, "dialect": taken_for or None, "valid": valid, "findings": findings}


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
REJECTED = "not-understood"  # the code of what awareness policy Reject refuses


def convert_file(args: Arguments, _client: Client, out: Output) -> int:
    """Print the jobs in the other language, or write each into a file; tell beside it what became of them."""
    from headnode.apps.cli.job_checks import JobFileSource, in_file
    from headnode.core.model.errors import BadRequest

    to, how, directory = _wanted(args), reading_options(args), args.text("directory")
    source = JobFileSource(args.words[0])
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
        _note_report(args, report, out)
        _print(text, report, args, out)
    else:
        names = _write_files(directory, files)
        _note_report(args, report, out)
        out.outcome("\n".join(names), {**report, "files": names}, "\n".join(names))
    return 0


def _note_report(args: Arguments, report: "dict[str, Any]", out: Output) -> None:

    path = args.text("report")
    if path is not None:
        _save(path, report)
    if out.for_people:
        out.note(fidelity_page(report))


def _print(text: bytes, report: "dict[str, Any]", args: Arguments, out: Output) -> None:
    if args.flag("json"):
        out.outcome("", {**report, "text": text.decode()})
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


def _wanted(args: Arguments) -> str:
    """Return the name of the dialect that is asked for."""
    from headnode.core.formats.dialects import WRITTEN, dialect_named

    if len(args.words) != 1:
        raise usage("one job file is converted at a time", "write: hn convert FILE --to LANGUAGE")
    wanted = args.text("to")
    if wanted is None:
        raise usage("the target language is missing", f"add --to and one of: {', '.join(WRITTEN)}")
    return dialect_named(wanted).name


def _report(
    file: str, was: str, to: str, read: "FidelityReport", written: "FidelityReport"
) -> "dict[str, Any]":
    """Return the report of reading and of writing."""
    from headnode.apps.cli.job_checks import finding_of

    summary = {"reading": read, "writing": written}
    items = [{"when": when, **finding_of(item)} for when, report in summary.items() for item in report]
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
    CliCommand(
        "check",
        "FILE...",
        "Check a job file; print errors with line and column",
        check_files,
        options=(
            *HOW_TO_READ,
            CliOption(
                "awareness", "WORD", "What to do with words without effect: reject, warn (default) or ignore"
            ),
            CliOption("schema", "LANGUAGE", "Print the schema of a job language instead"),
        ),
        example="hn check sweep.xml flow.toml",
        notes=(
            "The job language is detected from the content; - is standard input. Nothing is sent to a head.",
            "Exit status 0, or 2 if a file is wrong.",
            "hn check --schema native > native.schema.json lets an editor check and complete a job file; "
            "there are schemas of native, grid and grid-task (JSON), ccs, hpcpack-2008 and hpcpack (XML).",
        ),
    ),
    CliCommand(
        "convert",
        "FILE",
        "Convert a job file to another job language, and report every change",
        convert_file,
        options=(
            CliOption(
                "to",
                "LANGUAGE",
                "ccs, hpcpack-2008, hpcpack, sss, sss-3.0, grid, grid-task, native, native-json, slurm, pbs, "
                "gridengine or lsf",
            ),
            CliOption("directory", "DIRECTORY", "Write each job of the file into a file of its own there"),
            CliOption("report", "FILE", "Write the report there too, as JSON"),
            CliOption("awareness", "WORD", "What to do with losses: reject, warn (default) or ignore"),
            *HOW_TO_READ,
        ),
        example="hn convert job.xml --to native > job.toml",
        notes=(
            "The job goes to standard output, the report to standard error; - is standard input.",
            "A file of several jobs becomes one in native, native-json, sss and sss-3.0; a file in another "
            "language holds one job, so they need --directory, and dependencies between them are lost.",
            "Exit status 1 if --awareness reject refuses it, 2 if the file is wrong or the language cannot "
            "express the job.",
        ),
    ),
)
