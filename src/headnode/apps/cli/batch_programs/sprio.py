"""``sprio``: the priorities of the jobs that wait.  A priority here has no parts but its own value.

Source:  Slurm 22.05, sprio(1).
"""

import os
import sys

from headnode.apps.cli.batch_programs.columns import Column, letters, lines
from headnode.apps.cli.batch_programs.rows import JobSource, refuse_other_clusters, rows_of
from headnode.apps.cli.batch_programs.squeue import job_numbers, means
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words, refused
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

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
LETTERS = {
    "a": ("none", "AGE"), "A": ("none", "AGE"), "b": ("none", "ASSOC"), "B": ("none", "ASSOC"),
    "c": ("cluster", "CLUSTER"), "f": ("none", "FAIRSHARE"), "F": ("none", "FAIRSHARE"),
    "i": ("jobid", "JOBID"), "j": ("none", "JOBSIZE"), "J": ("none", "JOBSIZE"), "N": ("none", "NICE"),
    "p": ("none", "PARTITION"), "P": ("none", "PARTITION"), "q": ("none", "QOS"), "Q": ("none", "QOS"),
    "r": ("partition", "PARTITION"), "S": ("none", "SITE"), "t": ("none", "TRES"), "T": ("none", "TRES"),
    "u": ("user", "USER"), "y": ("normal", "PRIORITY"), "Y": ("priority", "PRIORITY"),
}  # fmt: skip
_USUAL = "%.15i %9r %.10Y %.10S"
_NORMAL = "%.15i %9r %.10y %.10S"
_LONG = "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T"
_HIGHEST = 4000


def _show(field: str) -> "Callable[[BatchRow], str]":
    if field == "none":
        return lambda _: "0"
    if field == "normal":
        return lambda row: f"{row.job['priority'] / _HIGHEST:.8f}"
    if field == "cluster":
        return lambda row: str(row.source.client.ask("cluster")["cluster"]["name"])
    return lambda row: FIELDS[field](row) or ""


def run(words: "Sequence[str]", client: Client) -> int:
    """List the priorities of waiting jobs."""
    asked = read_words(words, OPTIONS)
    refuse_other_clusters(asked, client)
    usual = _LONG if asked.has("long") else _NORMAL if asked.has("norm") else _USUAL
    columns: list[Column[Any]] = letters(
        "sprio", asked.text("format") or os.environ.get("SPRIO_FORMAT") or usual, LETTERS, _show
    )
    if asked.has("weights"):
        sys.stdout.write(lines(columns, [], heading=not asked.has("noheader")))
        return 0
    ids, users, partitions = (asked.parts(name) for name in ("jobs", "user", "partition"))
    source = JobSource(client)
    jobs = source.listed(job_numbers(ids)) if ids else source.pages(("Queued",), owner=None)
    rows = [row for job in jobs for row in rows_of(source, job, expand=False) if row.state == "PENDING"]
    rows = [
        row
        for row in rows
        if (not ids or any(means(each, row) for each in ids))
        and (not users or row.job["owner"] in users or FIELDS["userid"](row) in users)
        and (not partitions or str(FIELDS["partition"](row)) in partitions)
    ]
    if ids and not rows:
        raise ProgramRefusal("Unable to find jobs matching user/id(s) specified", prefix="bare", status=0)
    sys.stdout.write(lines(columns, sorted(rows, key=lambda row: row.id), heading=not asked.has("noheader")))
    return 0
