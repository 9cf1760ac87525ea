"""All about a job of LSF as text: what ``bjobs -l``, ``bhist -l`` and ``bacct -l`` have in common.

Each event is one line, as with ``-UF``.
Source:  IBM Spectrum LSF 10.1, bjobs(1), bhist(1), "-l".
"""

import time

from headnode.apps.cli.batch_programs.bjobs_fields import (
    command_of,
    cpu_used,
    exit_reason,
    hosts_of,
    status_of,
    why_it_waits,
)
from headnode.apps.cli.batch_programs.lsf_rows import (
    USUAL_PROJECT,
    address_of,
    name_of,
    queue_of,
    state_of,
)
from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.cli.batch_programs.values import FIELDS, limit_of, processors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

RULE = "-" * 78 + "\n"


def at_length(row: BatchRow) -> str:
    """Return all about a row, as ``bjobs -l`` does."""
    state, limit = state_of(row), limit_of(row)
    text = first_line(row) + submission_line(row)
    if limit is not None:
        text += f"\n RUNLIMIT\n {limit / 60:.1f} min\n"
    if row.started is not None:
        where = f"Started {processors(row)} Task(s) on Host(s) <{hosts_of(row)}>"
        text += event_line(row.started, f"{where}, Execution CWD <{FIELDS['workdir'](row) or ''}>;")
    if state in ("PEND", "PSUSP"):
        text += f" PENDING REASONS:\n {why_it_waits(row)};\n"
    if row.ended is not None:
        text += event_line(row.ended, how_it_ended(row))
    return text + RULE


def first_line(row: BatchRow) -> str:
    """Return the line that says which job it is."""
    job = row.job
    about = (
        ("Job", address_of(row)),
        ("Job Name", name_of(row)),
        ("User", job["owner"]),
        ("Project", job["project"] or USUAL_PROJECT),
        ("Job Group", job["group"]),
        ("Status", state_of(row)),
        ("Queue", queue_of(row)),
        ("Command", command_of(row)),
    )
    return "\n" + ", ".join(f"{name} <{value}>" for name, value in about if value) + "\n"


def submission_line(row: BatchRow) -> str:
    """Return the line of the submission."""
    host = row.source.detail(row.id)["submit_host"]
    parts = [
        f"Submitted from host <{host or '-'}>",
        f"CWD <{FIELDS['workdir'](row) or ''}>",
        *(f"{kind} <{path}>" for kind, path in _files(row) if path),
        f"{processors(row)} Task(s)",
    ]
    return event_line(row.job["submitted"] or row.job["created"], ", ".join(parts) + ";")


def _files(row: BatchRow) -> "Sequence[tuple[str, str | None]]":
    output, error = FIELDS["stdout"](row), FIELDS["stderr"](row)
    return (("Output File", output), ("Error File", error if error != output else None))


def event_line(at: float, what: str) -> str:
    """Return a line of something that happened at a time."""
    return f"{time.strftime('%a %b %e %H:%M:%S', time.localtime(at))}: {what}\n"


def how_it_ended(row: BatchRow) -> str:
    """Return the sentences about the end: the exit code, the reason, and the processor time."""
    used = f"The CPU time used is {cpu_used(row):.1f} seconds."
    if state_of(row) == "DONE":
        return f"Done successfully. {used}"
    code, reason = status_of(row), exit_reason(row)
    how = f"Exited with exit code {code}." if code else "Exited."
    return " ".join(filter(None, (how, f"{reason}." if reason else "", used)))
