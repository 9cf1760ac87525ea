"""``sprio``: the priorities of the jobs that wait, and the weighted factors that order jobs of one priority.

Source:  Slurm 22.05, sprio(1).
"""

import os
import sys

from headnode.apps.cli.batch_programs.columns import Column, letters, lines
from headnode.apps.cli.batch_programs.rows import JobSource, refuse_other_clusters, rows_of
from headnode.apps.cli.batch_programs.squeue import is_chosen, job_numbers, means
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words, refused
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.columns import OutputFields
    from headnode.apps.cli.batch_programs.rows import BatchRow

OPTIONS = {
    **acted_on(
        "format/o jobs/j long/l! noheader/h! norm/n! partition/p user/u version/V! weights/w! help! usage!"
    ),
    **ignored(
        "clusters/M federation! local! sibling! verbose/v!", "there is one cluster; it is asked anyway"
    ),
    **refused("sort/S", "the jobs are in the order of their numbers"),
}
FORMATS: "OutputFields" = {
    "a": ("normal age", "AGE"), "A": ("age", "AGE"), "b": ("none", "ASSOC"), "B": ("none", "ASSOC"),
    "c": ("cluster", "CLUSTER"), "f": ("normal fair_share", "FAIRSHARE"), "F": ("fair_share", "FAIRSHARE"),
    "i": ("jobid", "JOBID"), "j": ("normal size", "JOBSIZE"), "J": ("size", "JOBSIZE"), "N": ("none", "NICE"),
    "p": ("none", "PARTITION"), "P": ("none", "PARTITION"), "q": ("none", "QOS"), "Q": ("none", "QOS"),
    "r": ("partition", "PARTITION"), "S": ("none", "SITE"), "t": ("none", "TRES"), "T": ("none", "TRES"),
    "u": ("user", "USER"), "y": ("normal", "PRIORITY"), "Y": ("priority", "PRIORITY"),
}  # fmt: skip
_USUAL = "%.15i %9r %.10Y %.10S"
_NORMAL = "%.15i %9r %.10y %.10S"
_LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
_HIGHEST = 4000


_FACTORS = {"fair_share": ("f", "F"), "age": ("a", "A"), "size": ("j", "J")}
"""The letters of the normalized and of the weighted factor, by its name in the answers of the head."""


class _Factors:
    """The weights of the factors, and for each waiting job what they make of it."""

    def __init__(self, client: Client) -> None:
        self.scores: dict[int, dict[str, float]] = {}
        after = 0
        while True:
            answer = client.ask("priorities", after=after)
            self.weights: dict[str, int] = answer["weights"]
            self.scores |= {each["job"]: each["score"] for each in answer["jobs"] if each["score"]}
            after = answer["more"] or 0
            if not after:
                return

    def columns(self, *, normal: bool) -> str:
        """Return the columns of the factors with a weight, which Slurm shows without being asked."""
        names = [name for name in ("age", "fair_share", "size") if self.weights[name]]
        return "".join(f" %.10{_FACTORS[name][0 if normal else 1]}" for name in names)

    def value(self, job: int, name: str) -> float:
        """Return a weighted factor of a job."""
        return self.scores.get(job, {}).get(name, 0.0)


def _show(field: str, factors: _Factors) -> "Callable[[BatchRow], str]":
    if field == "none":
        return lambda _: "0"
    kind, _, name = field.rpartition(" ")
    if name in _FACTORS:
        weight = factors.weights[name]
        if kind:
            return lambda row: f"{factors.value(row.job['id'], name) / (weight or 1):.7f}"
        return lambda row: f"{factors.value(row.job['id'], name):.0f}"
    if field == "normal":
        return lambda row: f"{row.job['priority'] / _HIGHEST:.8f}"
    if field == "cluster":
        return lambda row: str(row.source.client.ask("cluster")["cluster"]["name"])
    return lambda row: FIELDS[field](row) or ""


def _weight(field: str, factors: _Factors) -> "Callable[[object], str]":
    """Return what the line of the weights has in a column."""
    if field == "jobid":
        return lambda _: "Weights"
    weight = factors.weights.get(field.rpartition(" ")[2])
    return lambda _: "" if weight is None else str(weight)


def run(argv: "Sequence[str]", client: Client) -> int:
    """List the priorities of waiting jobs."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    usual = _LONG if args.has("long") else _NORMAL if args.has("norm") else _USUAL
    factors = _Factors(client)
    if usual is not _LONG:
        usual += factors.columns(normal=args.has("norm"))
    text = args.text("format") or os.environ.get("SPRIO_FORMAT") or usual
    if args.has("weights"):
        weights: list[Column[Any]] = letters("sprio", text, FORMATS, lambda field: _weight(field, factors))
        sys.stdout.write(lines(weights, [None], heading=not args.has("noheader")))
        return 0
    columns: list[Column[Any]] = letters("sprio", text, FORMATS, lambda field: _show(field, factors))
    ids = args.parts("jobs")
    source = JobSource(client)
    jobs = source.listed(job_numbers(ids)) if ids else source.pages(("Queued",), owner=None)
    rows = [row for job in jobs for row in rows_of(source, job, expand=False) if row.state == "PENDING"]
    rows = [
        row
        for row in rows
        if (not ids or any(means(each, row) for each in ids)) and is_chosen(row, args, ("user", "partition"))
    ]
    if ids and not rows:
        raise ProgramRefusal("Unable to find jobs matching user/id(s) specified", prefix="bare", status=0)
    sys.stdout.write(lines(columns, sorted(rows, key=lambda row: row.id), heading=not args.has("noheader")))
    return 0
