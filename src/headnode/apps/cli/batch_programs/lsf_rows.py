"""The command lines of LSF's programs, the states of its jobs, and the jobs that a command line means.

Source:  IBM Spectrum LSF 10.1, bjobs(1), "Job states"; bkill(1), "job_ID"; bsub(1), "Job arrays".
"""

import time
from fnmatch import fnmatchcase

from headnode.apps.cli.batch_programs.rows import ENDED, LIVING, BatchRow, JobSource, rows_of, typed_numbers
from headnode.apps.cli.batch_programs.squeue import own_user, unfolded
from headnode.apps.cli.batch_programs.values import FIELDS, name
from headnode.apps.cli.batch_programs.words import ProgramRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

NOT_DONE = 255  # exit status of a program of LSF that could not do what was asked
REMEMBERED = 3600.0  # seconds for which ended jobs are listed: CLEAN_PERIOD of LSF
USUAL_QUEUE = "Default"
_STATES = {"RUNNING": "RUN", "SUSPENDED": "USUSP", "COMPLETED": "DONE"}


class LsfLine:
    """A command line: its options with their values, and the words that are no options."""

    __slots__ = ("options", "words")

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.words: list[str] = []

    def text(self, option: str) -> str:
        """Return the value of an option; empty if it was not given."""
        return self.options.get(option, "")

    def has(self, option: str) -> bool:
        """Return whether an option was given."""
        return option in self.options


def read_line(words: "Sequence[str]", flags: str, valued: str) -> LsfLine:
    """Return a command line read; ``-aJ NAME`` is ``-a -J NAME``.

    Raises:  ProgramRefusal for an unknown option.
    """
    line, left = LsfLine(), list(words)
    known, with_value = flags.split(), valued.split()
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            line.words.append(word)
            continue
        for option in _options_in(word, known, with_value):
            if option in with_value and not left:
                raise ProgramRefusal(f"-{option} has no value", status=NOT_DONE, prefix="")
            line.options[option] = left.pop(0) if option in with_value else ""
    return line


def _options_in(word: str, flags: "Sequence[str]", valued: "Sequence[str]") -> "list[str]":
    name = word[1:]
    if name in flags or name in valued:
        return [name]
    if all(letter in flags for letter in name[:-1]) and (name[-1] in flags or name[-1] in valued):
        return list(name)
    known = " ".join(f"-{each}" for each in (*flags, *valued))
    raise ProgramRefusal(f"{word[:60]}: illegal option", f"here it has {known}", status=NOT_DONE, prefix="")


def state_of(row: BatchRow) -> str:
    """Return the state in LSF's word."""
    state = row.state
    if state == "PENDING":
        return "PSUSP" if row.reason == "JobHeldUser" else "PEND"
    return _STATES.get(state, "EXIT")


def queue_of(row: BatchRow) -> str:
    """Return the queue: the job template."""
    return str(row.job["template"]) or USUAL_QUEUE


def name_of(row: BatchRow) -> str:
    """Return the name; of an element of an array with its number: ``sim[3]``."""
    return name(row) if row.number is None else f"{name(row)}[{row.number}]"


def address_of(row: BatchRow) -> str:
    """Return ``12``, or ``12[3]`` of an element of an array."""
    return str(row.id) if row.number is None else f"{row.id}[{row.number}]"


def named_rows(words: "Sequence[str]", source: JobSource) -> "Iterator[tuple[str, list[BatchRow]]]":
    """Yield the rows of each ``12`` and ``12[1-3]``; none of a job that there is not.

    Raises:  ProgramRefusal for what is no id.
    """
    for word in words:
        number, bracket, rest = word.partition("[")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise ProgramRefusal(f"{word[:60]}: Illegal job ID.", status=NOT_DONE, prefix="bare")
        wanted = typed_numbers(rest.rstrip("]")) if bracket else None
        rows = [row for job in source.listed([int(number)]) for row in rows_of(source, job, expand=True)]
        yield word, [row for row in rows if wanted is None or row.number in wanted]


def chosen_rows(
    line: LsfLine, source: JobSource, *, living: bool = True, ended: bool = False
) -> "list[BatchRow]":
    """Return the rows that the options choose, oldest first: ``-u -J -q -m -P -g``; ended jobs of an hour."""
    user = line.text("u") or own_user()
    owner = None if user == "all" else user
    jobs: list[dict[str, Any]] = []
    if living:
        jobs += source.pages(LIVING, owner=owner)
    if ended:
        since = time.time() - REMEMBERED
        jobs += [job for job in source.pages(ENDED, owner=owner, since=since) if (job["ended"] or 0) >= since]
        jobs += [job for job in source.pages(("Running",), owner=owner) if job["array"] and not living]
    jobs = [job for job in jobs if _is_chosen(line, job)]
    jobs.sort(key=lambda job: int(job["id"]))
    rows = (row for job in jobs for row in rows_of(source, job, expand=True))
    return list(_of_element(line, rows))


def _is_chosen(line: LsfLine, job: "dict[str, Any]") -> bool:
    """Return whether a job is chosen by what lists of jobs have; `_of_element` looks at its rows."""
    named = line.text("J").partition("[")[0]
    wanted = (
        ("q", str(job["template"]) or USUAL_QUEUE),
        ("P", job["project"]),
        ("g", str(job["group"])),
    )
    if named and not fnmatchcase(str(job["name"] or job["command"]), named):
        return False
    return all(line.text(option) in ("", has) for option, has in wanted)


def _of_element(line: LsfLine, rows: "Iterable[BatchRow]") -> "Iterator[BatchRow]":
    _, bracket, numbers = line.text("J").partition("[")
    wanted = typed_numbers(numbers.rstrip("]")) if bracket else None
    host = line.text("m")
    for row in rows:
        if wanted is not None and row.number not in wanted:
            continue
        if not host or host in unfolded(FIELDS["nodes"](row) or ""):
            yield row


CHOICES = ("J", "g", "m", "q", "u", "P")
"""Options that choose jobs."""
