"""The processes that a command line means: by ids, owners and constraints."""

import re
import time

from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.options import refusal
from headnode.apps.cli.condor_programs.processes import CondorProcess, CondorSource
from headnode.core.formats.condor.evaluation import ErrorValue, NoSuchFunction, evaluate, unknown_function
from headnode.core.formats.condor.expressions import NoExpression, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from headnode.core.formats.condor.evaluation import Value
    from headnode.core.formats.condor.expressions import Expression

_ID = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?\Z", re.ASCII)


class WantedProcesses:
    """What the words of a command line mean: clusters, processes, owners; and a constraint."""

    def __init__(self, argv: "Sequence[str]", constraints: "Sequence[str]" = ()) -> None:
        self.clusters: dict[int, None] = {}
        self.processes: dict[tuple[int, int], None] = {}
        self.owners: dict[str, None] = {}
        for word in argv:
            match = _ID.match(word)
            if match is None:
                self.owners[_owner(word)] = None
            elif match[2] is None:
                self.clusters[int(match[1])] = None
            else:
                self.processes[int(match[1]), int(match[2])] = None
        self.constraints = [parsed(text) for text in constraints]

    @property
    def by_ids(self) -> bool:
        """Whether ids were given."""
        return bool(self.clusters or self.processes)

    def jobs(
        self, source: CondorSource, owner: str | None, *, ended: bool = False
    ) -> "Iterator[dict[str, Any]]":
        """Yield the jobs that are meant, those of `owner` if neither ids nor owners are given."""
        if self.by_ids:
            ids = dict.fromkeys([*self.clusters, *(job for job, _ in self.processes)])
            known = source.answers_of(list(ids))
            yield from (
                known[job] for job in sorted(ids, reverse=ended) if job in known and self._owned(known[job])
            )
            return
        if len(self.owners) < 2:
            yield from source.clusters(owner=next(iter(self.owners), owner), ended=ended)
            return
        yield from (job for job in source.clusters(owner=None, ended=ended) if self._owned(job))

    def _owned(self, job: "dict[str, Any]") -> bool:
        return not self.owners or job["owner"] in self.owners

    def rows(self, source: CondorSource, job: "dict[str, Any]") -> "Iterator[CondorProcess]":
        """Yield the processes of a job that are meant."""
        if self.by_ids and job["id"] not in self.clusters:
            numbers = sorted(number for cluster, number in self.processes if cluster == job["id"])
            found = (source.process(job, number) for number in numbers)
            rows: Iterator[CondorProcess] = (row for row in found if row is not None)
        else:
            rows = source.processes(job)
        now = time.time()
        return (row for row in rows if all(holds(each, JobAd(row), now) for each in self.constraints))


def _owner(word: str) -> str:
    if not word or word.isdigit() or re.match(r"\d+\.", word):
        raise refusal(f"Unrecognized argument {word[:60]!r}", "write CLUSTER, CLUSTER.PROCESS or USER")
    return word.partition("@")[0]


def parsed(text: str) -> "Expression":
    """Return a ClassAd expression.

    Raises:  ProgramRefusal.
    """
    try:
        found = parse(text)
    except NoExpression:
        what = f"the expression {text[:120]!r} is not understood"
        fix = 'write comparisons with && and || between them: JobStatus == 2 && Owner == "ann"'
        raise refusal(what, fix) from None
    if unknown := unknown_function(found):
        what = f"the function {unknown[:60]}() is not supported here"
        raise refusal(what, "the functions are listed in docs/condor-commands.md")
    return found


def value_of(
    expression: "Expression", attributes: "Callable[[str], Value]", now: float
) -> "Value | ErrorValue":
    """Return the value of an expression; an error as a value.

    Raises:  ProgramRefusal for a function with other arguments than it takes.
    """
    try:
        return evaluate(expression, attributes, now)
    except NoSuchFunction as called:
        raise refusal(f"the function {str(called)[:60]}() has other arguments than these") from None
    except ErrorValue as error:
        return error


def holds(expression: "Expression", attributes: "Callable[[str], Value]", now: float) -> bool:
    """Return whether a constraint is true."""
    value = value_of(expression, attributes, now)
    return isinstance(value, bool | int | float) and bool(value)
