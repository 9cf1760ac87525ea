"""``hn check``: is this job file right?  Reads it here; no head is needed."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.job_files import HOW_TO_READ, values_given
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client
    from headnode.core.formats.dialects import How


def run(asked: "Asked", _client: "Client", out: "Output") -> int:
    """Print what is wrong with each file and what will have no effect; 2 if anything is wrong."""
    schema = asked.text("schema")
    if schema is not None:
        return _print_schema(schema, asked, out)
    if not asked.words:
        raise usage("no job file was given", "write: hn check FILE")
    how = how_asked(asked)
    return max(_check(file, how, out) for file in asked.words)


def _print_schema(dialect: str, asked: "Asked", out: "Output") -> int:
    from headnode.apps.cli.schemas import schema_of

    if asked.words:
        raise usage(
            f"{asked.words[0]!r} stands beside --schema, which needs no file", "leave one of them out"
        )
    out.raw(schema_of(dialect))
    return 0


def how_asked(asked: "Asked") -> "How":
    """Return how job files are to be read."""
    from headnode.core.formats.dialects import How, dialect_named
    from headnode.core.formats.fidelity import parse_awareness

    named = asked.text("from")
    return How(
        awareness=parse_awareness(asked.text("awareness") or "warn"),
        language=dialect_named(named).language if named is not None else None,
        strict=asked.flag("strict"),
        lenient=asked.flag("lenient"),
        values=values_given(asked),
    )


def _check(name: str, how: "How", out: "Output") -> int:
    from headnode.apps.cli.fidelity import WORTH_TELLING, line
    from headnode.apps.cli.job_checks import ERROR, NOT_RUNNABLE, Source, error_finding, findings
    from headnode.core.model.errors import BadRequest

    try:
        source = Source(name)
    except BadRequest as away:
        out.text(line(error_finding(away), name), _data(name, "", False, [error_finding(away)]))
        return away.exit_status
    taken_for, found = findings(source, how)
    kinds = {finding["kind"] for finding in found}
    shown = (ERROR, NOT_RUNNABLE, *WORTH_TELLING)
    told = [line(one, source.name) for one in found if one["kind"] in shown or _is_repair(one)]
    if ERROR in kinds:
        told += _guess(source.name, taken_for)
    elif NOT_RUNNABLE in kinds:
        told.append(f"{source.name}: {taken_for}: it can be read")
    else:
        differs = ", with the differences above" if told else ""
        told.append(f"{source.name}: {taken_for}: it can be submitted{differs}")
    out.text("\n".join(told), _data(source.name, taken_for, ERROR not in kinds, found))
    return BadRequest.exit_status if ERROR in kinds else 0


def _is_repair(finding: "dict[str, Any]") -> bool:
    """Whether a finding says what --lenient has mended."""
    return finding["where"] == "repaired" or str(finding["what"]).startswith("repaired: ")


def _guess(file: str, taken_for: str) -> "list[str]":
    """Tell what a wrong file was taken for: another language may have been meant."""
    return [f"{file}: taken for {taken_for}; --from LANGUAGE takes it for another"] if taken_for else []


def _data(file: str, taken_for: str, valid: bool, found: "list[dict[str, Any]]") -> "dict[str, Any]":
    return {"file": file, "dialect": taken_for or None, "valid": valid, "findings": found}


COMMANDS = (
    Command(
        "check",
        "FILE...",
        "Check a job file; print errors with line and column",
        run,
        options=(
            *HOW_TO_READ,
            Option(
                "awareness", "WORD", "What to do with words without effect: reject, warn (default) or ignore"
            ),
            Option("schema", "LANGUAGE", "Print the schema of a job language instead"),
        ),
        example="hn check sweep.xml flow.toml",
        notes=(
            "The job language is detected from the content; - is standard input. Nothing is sent to a head.",
            "Exit status 0, or 2 when a file is wrong.",
            "hn check --schema native > native.schema.json lets an editor check and complete a job file; "
            "there are schemas of native, grid and grid-task (JSON), ccs, hpcpack-2008 and hpcpack (XML).",
        ),
    ),
)
