"""The command lines of LSF's programs, the states of its jobs, and the jobs that a command line means.

Source:  IBM Spectrum LSF 10.1, bjobs(1), "Job states"; bkill(1), "job_ID"; bsub(1), "Job arrays".
"""

import time
from fnmatch import fnmatchcase

from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, rows_of, typed_numbers
from headnode.apps.cli.batch_programs.squeue import own_user, unfolded
from headnode.apps.cli.batch_programs.values import FIELDS, name
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    names_here,
    number_of,
    read_dashed,
)
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.words import OptionTable

NOT_DONE = 255  # exit status of a program of LSF that could not do what was asked
REMEMBERED = 3600.0  # seconds for which bjobs lists ended jobs: CLEAN_PERIOD of LSF
ANY_TIME = float("inf")
_PAGES = 5  # answers with ended jobs, the newest first, in which those of REMEMBERED are looked for
USUAL_QUEUE = "Default"
USUAL_PROJECT = "default"
_STATES = {"RUNNING": "RUN", "SUSPENDED": "USUSP", "COMPLETED": "DONE"}


CHOICES = "J g m q u P"
"""Options that choose jobs, as they are written in tables."""


def read_line(program: str, argv: "Sequence[str]", table: "OptionTable") -> ProgramWords:
    """Return a command line read; ``-aJ NAME`` is ``-a -J NAME``.

    Raises:  ProgramRefusal for an unknown option, and one without its value.
    """

    def refuse(word: str) -> ProgramRefusal:
        what = f"{word[:60]} has no value" if word[1:] in table else f"{word[:60]}: illegal option"
        return ProgramRefusal(what, names_here(program, table), status=NOT_DONE, prefix="")

    return read_dashed(argv, table, refuse, together=True)


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


def named_rows(argv: "Sequence[str]", source: JobSource) -> "Iterator[tuple[str, list[BatchRow]]]":
    """Yield the rows of each ``12`` and ``12[1-3]``; none of a job that there is not.

    Raises:  ProgramRefusal for what is no id.
    """
    for word in argv:
        job, bracket, rest = word.partition("[")
        number = number_of(job)
        if number is None:
            raise ProgramRefusal(f"{word[:60]}: Illegal job ID.", status=NOT_DONE, prefix="bare")
        wanted = typed_numbers(rest.rstrip("]")) if bracket else None
        rows = [row for job in source.listed([number]) for row in rows_of(source, job, expand=True)]
        yield word, [row for row in rows if wanted is None or row.number in wanted]


def asked_rows(
    line: ProgramWords, source: JobSource, choose: "Callable[[], list[BatchRow]]"
) -> "tuple[list[BatchRow], list[str]]":
    """Return the rows of the jobs that are named, else those that `choose` returns; and unknown names.

    Raises:  ProgramRefusal for what is no id.
    """
    if not line.words or line.words == ["0"]:
        return choose(), []
    named = list(named_rows(line.words, source))
    return [row for _, rows in named for row in rows], [word for word, rows in named if not rows]


def chosen_rows(
    line: ProgramWords,
    source: JobSource,
    *,
    living: bool = True,
    ended: float = 0.0,
    pages: "int | None" = _PAGES,
) -> "list[BatchRow]":
    """Return the rows that the options choose, oldest first: ``-u -J -q -m -P -g``.

    ended: for how many seconds ended jobs count, of the newest `pages` answers; None: of all
    """
    users = names_in(line.value("u")) or [own_user()]
    owner = users[0] if len(users) == 1 and users[0] != "all" else None
    jobs: list[dict[str, Any]] = []
    if living:
        jobs += source.pages(LIVING, owner=owner)
    if ended:
        since = time.time() - ended
        jobs += [
            job for job in source.pages(ENDED_STATES, owner=owner, most=pages) if (job["ended"] or 0) >= since
        ]
        jobs += [job for job in source.pages(("Running",), owner=owner) if job["array"] and not living]
    jobs = [job for job in jobs if _is_chosen(line, job) and ("all" in users or job["owner"] in users)]
    jobs.sort(key=lambda job: int(job["id"]))
    rows = (row for job in jobs for row in rows_of(source, job, expand=True))
    return list(_of_element(line, rows))


def names_in(text: str) -> "list[str]":
    """Return the names of ``-u "ann bob"``."""
    return text.split()


def _is_chosen(line: ProgramWords, job: "dict[str, Any]") -> bool:
    """Return whether a job is chosen by what lists of jobs have; `_of_element` looks at its rows."""
    named = line.value("J").partition("[")[0]
    has = (
        ("q", str(job["template"]) or USUAL_QUEUE),
        ("P", str(job["project"]) or USUAL_PROJECT),
        ("g", str(job["group"])),
    )
    if named and not fnmatchcase(str(job["name"] or job["command"]), named):
        return False
    return all(line.value(option) in ("", own) or own in names_in(line.value(option)) for option, own in has)


def _of_element(line: ProgramWords, rows: "Iterable[BatchRow]") -> "Iterator[BatchRow]":
    _, bracket, numbers = line.value("J").partition("[")
    wanted = typed_numbers(numbers.rstrip("]")) if bracket else None
    hosts = set(names_in(line.value("m")))
    for row in rows:
        if wanted is not None and row.number not in wanted:
            continue
        if not hosts or hosts.intersection(unfolded(FIELDS["nodes"](row) or "")):
            yield row
