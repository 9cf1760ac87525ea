"""``qalter`` of PBS and of Grid Engine: changes what a job that is there asks for, in the options of qsub.

Source:  PBS Professional 22, qalter(1B); Grid Engine 8.1, qalter(1).
"""

import os
import sys

from headnode.apps.cli.batch_programs.qsub import HISTORY, UNKNOWN_JOB, ids_of, option_of
from headnode.apps.cli.batch_programs.rows import LIVING, JobSource
from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, number_of, utc_time
from headnode.apps.client.client import Client
from headnode.core.formats.batch.draft import BatchDraft
from headnode.core.formats.batch.lines import BatchSystem
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.qsub_options import GRID_ENGINE_OPTIONS, PBS_OPTIONS
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.errors import BadRequest, HeadnodeError, NotFound
from headnode.core.model.quantities import FOREVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_TERMS: "Mapping[str, tuple[str, Callable[[Any], str]]]" = {
    "email": ("emailaddress", str),
    "hold_until": ("holduntil", utc_time),
    "name": ("jobname", str),
    "notify_on_completion": ("notifyoncompletion", lambda value: str(value).lower()),
    "notify_on_start": ("notifyonstart", lambda value: str(value).lower()),
    "priority": ("priority", str),
    "project": ("projectname", str),
    "template": ("jobtemplate", str),
}
"""The fields of a job that can be changed, and the terms for them."""
_SENTENCES = {
    "A": "modified account of job {job}", "M": "modified mail list of job {job}",
    "N": "modified job name of job {job}", "P": "modified project of job {job}",
    "a": "modified start time of job {job}", "h": "modified hold of job {job}",
    "l": "modified hard resource list of job {job}", "m": "modified mail options of job {job}",
    "p": "{user}@{host} sets scheduling priority of job {job} to {value}",
}  # fmt: skip
OPTIONS = {"pbs": acted_on("A M N P a h l m p q"), "gridengine": acted_on("A M N P a h l m p u")}
_HOLDS = {"u": "hold_job", "n": "release_job", "U": "release_job"}
_WRONG_PRIORITY, _ONLY_JOBS, _WRONG_STATE = 7, 4, 168
_NOT_HERE = "change it with: hn job modify ID, or submit the job again"


class JobChange:
    """An option: what it changes of the job, the verb of a hold, and what Grid Engine says of it."""

    __slots__ = ("sentence", "terms", "verb")

    def __init__(self, terms: "dict[str, str]", verb: str, sentence: str) -> None:
        self.terms, self.verb, self.sentence = terms, verb, sentence


def run(_program: str, argv: "Sequence[str]", client: Client, system: str) -> int:
    """Change each job; the worst exit status counts."""
    changes, targets, users = _read(argv, system)
    source = JobSource(client)
    targets += ids_of(users, source, ("Queued", "Running"))
    if not targets and not users:
        raise ProgramRefusal("no job was named", status=1 if system == "gridengine" else 2, prefix="")
    return max([_change(target, changes, source, system) for target in targets], default=0)


def _read(argv: "Sequence[str]", system: str) -> "tuple[list[JobChange], list[str], list[str]]":
    """Return the changes, the jobs, and the users whose jobs are meant.

    Raises:  ProgramRefusal.
    """
    changes: list[JobChange] = []
    targets, users, left = list[str](), list[str](), list(argv)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            targets += [part for part in word.split(",") if part]
        elif word == "-u" and system == "gridengine" and left:
            users += left.pop(0).split(",")
        elif word[1:2] == "h" and not word.startswith(("-hold", "-hard")):
            value = word[2:] or (left.pop(0) if left else "")
            changes.append(_hold(value, system))
        else:
            name, values = option_of(word, left, system)
            if name not in OPTIONS[system]:
                raise _not_here(name)
            changes.append(_read_option(name, " ".join(values), system))
    changes.sort(key=lambda change: "priority" not in change.terms)  # it is told first
    return changes, targets, users


def _hold(kind: str, system: str) -> JobChange:
    if kind not in _HOLDS or (kind == "U" and system == "pbs"):
        raise ProgramRefusal(f"-h {kind[:20]} is not supported here: the hold is that of the user, u or n")
    return JobChange({}, _HOLDS[kind], _SENTENCES["h"])


def _read_option(name: str, value: str, system: str) -> JobChange:
    """Return what an option of qsub changes.

    Raises:  ProgramRefusal.
    """
    batch = BatchSystem.PBS if system == "pbs" else BatchSystem.GRID_ENGINE
    table = PBS_OPTIONS if system == "pbs" else GRID_ENGINE_OPTIONS
    draft, usual = BatchDraft(batch), BatchDraft(batch)
    if name == "N" and system == "gridengine" and value[:1].isdigit():
        raise _denied(f'denied: "{value}" is not a valid object name (cannot start with a digit)')
    if name == "p":
        _check_priority(value, system)
    try:
        table[name].read(draft, OptionPlace(SourceText(value), 0, f"-{name}", draft.items), value)
    except BadRequest as wrong:
        raise _unreadable(name, value, wrong, system) from None
    terms = {}
    if draft.run_time != FOREVER:
        terms["runtime"] = f"{max(1, -(-int(draft.run_time) // 60))}m"
    for field, changed in draft.job.items():
        if field not in _TERMS:
            raise _not_here(name)
        term, convert = _TERMS[field]
        terms[term] = convert(changed)
    kept = {"job", "items", "run_time", "gpus"}
    others = [
        field for field in vars(usual) if field not in kept and vars(draft)[field] != vars(usual)[field]
    ]
    if others or vars(draft.gpus) != vars(usual.gpus) or (not terms and name in ("l", "tc", "pe")):
        raise _not_here(name)
    host = os.uname().nodename
    sentence = _SENTENCES.get(name, "").replace("{value}", value).replace("{host}", host)
    return JobChange(terms, "", sentence.replace("{user}", own_user()))


def _not_here(name: str) -> ProgramRefusal:
    return ProgramRefusal(f"-{name} is not supported here for a job that was submitted: {_NOT_HERE}")


def _denied(what: str) -> ProgramRefusal:
    """Return the refusal of Grid Engine, which is on standard output."""
    print(what)
    return ProgramRefusal(prefix="bare")


def _check_priority(value: str, system: str) -> None:
    least, most = (-1024, 1023) if system == "pbs" else (-1023, 1024)
    digits = value.lstrip("+-")
    if digits.isascii() and digits.isdigit() and len(digits) < 5 and least <= int(value) <= most:
        return
    what = f'invalid priority "{value[:40]}".  Must be an integer from {least} to {most}'
    status = 2 if system == "pbs" else _WRONG_PRIORITY
    raise ProgramRefusal(f"qalter: {what}", status=status, prefix="bare")


def _unreadable(name: str, value: str, wrong: BadRequest, system: str) -> ProgramRefusal:
    if system == "pbs":
        return ProgramRefusal(f"Illegal attribute or resource value: {wrong.sentence}", wrong.fix, prefix="")
    resource = value.partition("=")[0]
    if wrong.code == "resource":
        return _denied(f'unknown resource "{resource}"')
    if name == "l":
        return _denied(f'attribute "{resource}" is not a time value')
    return ProgramRefusal(wrong.sentence, wrong.fix)


def _change(target: str, changes: "Sequence[JobChange]", source: JobSource, system: str) -> int:
    """Change a job; return the exit status."""
    name, dot, _ = target.partition(".")
    if system == "gridengine" and dot:
        sys.stderr.write("denied: the selected option works only on jobs and not on tasks\n")
        return _ONLY_JOBS
    job = number_of(name.partition("[")[0])
    listed = [] if job is None else source.listed([job])
    if not listed or listed[0]["state"] not in LIVING:
        return _not_there(target, system, ended=bool(listed))
    for change in changes:
        try:
            if change.verb:
                source.client.ask(change.verb, job=job)
            elif change.terms:
                source.client.ask("modify_job", job=job, terms=change.terms)
        except NotFound:
            return _not_there(target, system, ended=True)
        except HeadnodeError as refused:
            return _refused(target, refused.what, system)
        if system == "gridengine" and change.sentence:
            print(change.sentence.format(job=job))
    return 0


def _not_there(target: str, system: str, *, ended: bool) -> int:
    if system == "gridengine":
        print(f'denied: job "{target}" does not exist')
        return 1
    sys.stderr.write(f"qalter: {'Job has finished' if ended else 'Unknown Job Id'} {target}\n")
    return HISTORY if ended else UNKNOWN_JOB


def _refused(target: str, what: str, system: str) -> int:
    if system == "gridengine":
        print(f"denied: {what}")
        return 1
    sys.stderr.write(f"qalter: Request invalid for state of job {target}: {what}\n")
    return _WRONG_STATE
