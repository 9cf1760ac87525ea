"""``bmod`` and ``bswitch`` of LSF: change what a job asks for that was submitted, in the options of bsub.

Source:  IBM Spectrum LSF 10.1, bmod(1), bswitch(1).
"""

import sys

from headnode.apps.cli.batch_programs.lsf_rows import (
    CHOICES,
    NOT_DONE,
    chosen_rows,
    named_rows,
    read_line,
    state_of,
)
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, refused, utc_time
from headnode.apps.client.client import Client
from headnode.core.formats.batch.draft import BatchDraft
from headnode.core.formats.batch.lines import BatchSystem
from headnode.core.formats.batch.lsf_options import BSUB_OPTIONS
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.errors import BadRequest, HeadnodeError, NotFound, WrongState
from headnode.core.model.quantities import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.words import ProgramOption, ProgramWords

_CHANGED = ("B", "J", "Jd", "N", "P", "U", "W", "b", "g", "m", "n", "q", "t", "u", "x")
_RESET: "Mapping[str, tuple[str, str]]" = {
    "Bn": ("notifyonstart", "false"),
    "Jdn": ("description", ""),
    "Nn": ("notifyoncompletion", "false"),
    "Un": ("reservation", ""),
    "Wn": ("runtime", "Infinite"),
    "bn": ("holduntil", ""),
    "gn": ("jobgroup", ""),
    "mn": ("requestednodes", ""),
    "qn": ("jobtemplate", ""),
    "tn": ("endby", ""),
    "un": ("emailaddress", ""),
    "xn": ("exclusive", "false"),
}
"""Options that take a request back: the term, and its value."""
_NOT_HERE = "change it with: hn job modify ID, or submit the job again"


def _table() -> "dict[str, ProgramOption]":
    """Return the options of bmod: those of bsub, and ``-Wn`` beside ``-W``."""
    table = acted_on(" ".join(name if BSUB_OPTIONS[name].argument else f"{name}!" for name in _CHANGED))
    table |= acted_on(" ".join(f"{name}!" for name in _RESET))
    for name in sorted(set(BSUB_OPTIONS) - set(_CHANGED), key=lambda name: (name.lower(), name)):
        mark = "" if BSUB_OPTIONS[name].argument else "!"
        table |= refused(f"{name}{mark}", _NOT_HERE)
        if f"{name}n" not in BSUB_OPTIONS:
            table |= refused(f"{name}n!", _NOT_HERE)
    return table


OPTIONS = {"bmod": _table(), "bswitch": acted_on(CHOICES)}


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """Change jobs, or move them to another queue; the worst exit status counts."""
    line = read_line(program, argv, OPTIONS[program])
    return _switch(line, client) if program == "bswitch" else _modify(line, client)


def _modify(line: "ProgramWords", client: Client) -> int:
    terms: dict[str, str] = {}
    for name, value in line.in_order:
        terms |= dict([_RESET[name]]) if name in _RESET else _terms(name, value)
    if not line.words:
        raise ProgramRefusal("Job ID is missing.", _NOT_MODIFIED, status=NOT_DONE, prefix="bare")
    if not terms:
        raise ProgramRefusal("No option is given.", _NOT_MODIFIED, status=NOT_DONE, prefix="bare")
    _check_queue(terms.get("jobtemplate", ""), client)
    status = 0
    for word, rows in named_rows(line.words, JobSource(client)):
        if problem := _change(word, rows, terms, client):
            sys.stderr.write(f"Job <{word}>: {problem}. {_NOT_MODIFIED}\n")
            status = NOT_DONE
        else:
            print(f"Parameters of job <{word}> are being changed")
    return status


_NOT_MODIFIED = "Job not modified."


def _terms(name: str, value: str) -> "dict[str, str]":
    """Return the terms of an option of bsub.

    Raises:  ProgramRefusal for a value that is not understood, and for what cannot be changed.
    """
    draft = BatchDraft(BatchSystem.LSF)
    place = OptionPlace(SourceText(value), 0, f"-{name}", draft.items)
    try:
        BSUB_OPTIONS[name].read(draft, place, value)
    except BadRequest as wrong:
        lines = (f"{wrong.sentence}; {wrong.fix}", _NOT_MODIFIED)
        raise ProgramRefusal(*lines, status=NOT_DONE, prefix="bare") from None
    if draft.array:
        what = f"-{name}: the elements of an array cannot be changed"
        raise ProgramRefusal(what, _NOT_MODIFIED, status=NOT_DONE, prefix="bare")
    terms = {
        term: convert(draft.job[field]) for field, (term, convert) in _TERMS.items() if field in draft.job
    }
    if draft.run_time != FOREVER:
        terms["runtime"] = f"{max(1, int(draft.run_time) // 60)}m"
    if draft.tasks is not None:
        most = draft.most_tasks or draft.tasks
        terms["numprocessors"] = f"{draft.tasks}-{most}"
    return terms


_TERMS: "Mapping[str, tuple[str, Callable[[Any], str]]]" = {
    "description": ("description", str),
    "email": ("emailaddress", str),
    "end_by": ("endby", utc_time),
    "exclusive": ("exclusive", lambda value: str(value).lower()),
    "hold_until": ("holduntil", utc_time),
    "job_group": ("jobgroup", str),
    "name": ("jobname", str),
    "notify_on_completion": ("notifyoncompletion", lambda value: str(value).lower()),
    "notify_on_start": ("notifyonstart", lambda value: str(value).lower()),
    "project": ("projectname", str),
    "requested_nodes": ("requestednodes", ",".join),
    "reservation": ("reservation", str),
    "template": ("jobtemplate", str),
}
"""The fields of a job that can be changed, and the terms for them."""


def _change(target: str, rows: "Sequence[BatchRow]", terms: "dict[str, str]", client: Client) -> str:
    """Change a job; return why it was not changed, or nothing."""
    if not rows:
        return "No matching job found"
    if "[" in target:
        return "the elements of an array cannot be changed alone"
    if all(state_of(row) in ("DONE", "EXIT") for row in rows):
        return "Job has already finished"
    try:
        client.ask("modify_job", job=rows[0].id, terms=terms)
    except NotFound:
        return "No matching job found"
    except WrongState as wrong:
        return "Job has already finished" if wrong.code == "job-over" else f"{wrong.what}; {wrong.fix}"
    except HeadnodeError as wrong:
        return f"{wrong.what}; {wrong.fix}".rstrip("; ")
    return ""


def _check_queue(queue: str, client: Client) -> None:
    """Refuse a queue that is not there: in a cluster without templates its name would have no effect.

    Raises:  ProgramRefusal.
    """
    if queue and queue not in [template["name"] for template in client.ask("templates")["templates"]]:
        raise ProgramRefusal(f"{queue[:60]}: No such queue", _NOT_MODIFIED, status=NOT_DONE, prefix="bare")


def _switch(line: "ProgramWords", client: Client) -> int:
    """Move jobs to another queue: those that were named, the newest that is chosen, or with 0 all."""
    if not line.words:
        raise ProgramRefusal("Queue name is missing.", status=NOT_DONE, prefix="bare")
    (queue, *targets), source = line.words, JobSource(client)
    _check_queue(queue, client)
    if targets and targets != ["0"]:
        found = list(named_rows(targets, source))
    else:
        jobs = {row.id: row for row in chosen_rows(line, source)}
        if not jobs:
            raise ProgramRefusal("No matching job found", status=NOT_DONE, prefix="bare")
        chosen = list(jobs.values()) if targets else list(jobs.values())[-1:]
        found = [(str(row.id), [row]) for row in chosen]
    status = 0
    for target, rows in found:
        if problem := _change(target, rows, {"jobtemplate": queue}, client):
            sys.stderr.write(f"Job <{target}>: {problem}\n")
            status = NOT_DONE
        else:
            print(f"Job <{target}> is switched to queue <{queue}>")
    return status
