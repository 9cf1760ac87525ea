"""``condor_q``: list the jobs that have not ended.

Source:  HTCondor 24, condor_q(1).
"""

import os
import sys
import time

from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.ad_output import OUTPUTS, show, shown
from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.options import CondorWords, read_line
from headnode.apps.cli.condor_programs.processes import HELD, IDLE, RUNNING, CondorProcess, CondorSource
from headnode.apps.cli.condor_programs.queue_tables import (
    HELD_ONES,
    PROCESSES,
    RUNNING_ONES,
    StatusCounts,
    banner,
    batch_lines,
)
from headnode.apps.cli.condor_programs.selection import WantedProcesses, holds
from headnode.apps.client.client import Client
from headnode.core.formats.condor.expressions import NoExpression, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

OPTIONS = {
    **acted_on(
        "constraint allusers! nobatch! batch! totals! hold! held! run! idle! wide! submitter "
        "print-format pr analyze! better-analyze! " + OUTPUTS
    ),
    **ignored(
        "global! currentrun! stream-results! expert! debug! nouserprios!", "this cluster has one queue"
    ),
    **ignored("name pool schedd-constraint", "hn's --scheduler and hn login choose the head"),
    **refused("reverse-analyze! machine mconstraint", "use: condor_q -better-analyze ID"),
    **refused("aaf+", "use -autoformat or -format"),
    **refused("userlog jobads slotads userprios", "no such files are read; name the job by its id"),
    **refused("dag! grid! io! cputime! cumulative-time!", "use -autoformat: -af:j RemoteUserCpu"),
    **refused("factory! jobset! autocluster! hold-codes! unmatchable", "use -autoformat, or -hold"),
}
_OF_TABLE = {
    "hold": (HELD, HELD_ONES),
    "held": (HELD, HELD_ONES),
    "run": (RUNNING, RUNNING_ONES),
    "idle": (IDLE, PROCESSES),
}
_SUPERUSER = 0


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs."""
    args = read_line("condor_q", argv, OPTIONS)
    wanted = WantedProcesses([*args.words, *args.values("submitter")], args.values("constraint"))
    source, limit = CondorSource(client), args.number("limit")
    owner = None if args.has("allusers") or os.geteuid() == _SUPERUSER else own_user()
    jobs = sorted(wanted.jobs(source, owner), key=lambda job: int(job["id"]))
    if args.has_any(("better-analyze", "analyze")):
        from headnode.apps.cli.condor_programs.analysis import analyze

        return analyze(client, jobs, limit)
    if shown(args):
        show(args, map(JobAd, _first(limit, _rows(wanted, source, jobs, args))))
        return 0
    args.merge("pr", "print-format")
    if (path := args.text("print-format")) is not None:
        _show_as_file_says(path, _first(limit, _rows(wanted, source, jobs, args)), source, owner)
        return 0
    sys.stdout.write(banner(client))
    if _is_batch(args, wanted):
        _show_batches(source, [job for job in jobs if _is_living(job)])
    else:
        _show_processes(args, _first(limit, _rows(wanted, source, jobs, args)))
    if not args.has("run"):
        _show_other_totals(source, owner)
    return 0


def _show_as_file_says(
    path: str, rows: "Iterator[CondorProcess]", source: CondorSource, owner: str | None
) -> None:
    from headnode.apps.cli.condor_programs.print_format import read_print_format

    form = read_print_format(path)
    if form.title:
        sys.stdout.write(banner(source.client))
    form.show(map(JobAd, rows))
    if form.summary:
        _show_other_totals(source, owner)


def _first(limit: int | None, rows: "Iterator[CondorProcess]") -> "Iterator[CondorProcess]":
    from itertools import islice

    return islice(rows, limit)


def _is_living(job: "dict[str, Any]") -> bool:
    return job["state"] in ("Configuring", "Queued", "Running", "Suspended")


def _is_batch(args: CondorWords, constraints: WantedProcesses) -> bool:
    if constraints.constraints or constraints.processes or args.has("limit"):
        return False
    return not args.has_any(("nobatch", "totals", *_OF_TABLE))


def _rows(
    constraints: WantedProcesses, source: CondorSource, jobs: "Sequence[dict[str, Any]]", args: CondorWords
) -> "Iterator[CondorProcess]":
    """Yield the processes that are in the queue: those that have not ended, or that are left in it."""
    states = {_OF_TABLE[name][0] for name, _, _ in args.uses if name in _OF_TABLE}
    for job in jobs:
        if not _is_living(job) and not source.detail(job["id"])["spec"].get("properties"):
            continue
        for row in constraints.rows(source, job):
            if states and row.status not in states:
                continue
            if not row.is_over or _is_left(row):
                yield row


def _is_left(row: CondorProcess) -> bool:
    """Return whether a process that has ended stays in the queue, as leave_in_queue of its file says."""
    ad = JobAd(row)
    text = ad("leavejobinqueue")
    if not isinstance(text, str):
        return False
    try:
        return holds(parse(text), ad, time.time())
    except NoExpression:
        return False


def _show_batches(source: CondorSource, jobs: "Sequence[dict[str, Any]]") -> None:
    names, counts = dict[int, str](), StatusCounts()
    for job in jobs:
        counts.add_job(job)
        name = _batch_name(source, job)
        if name:
            names[int(job["id"])] = name
    sys.stdout.write("".join(batch_lines(jobs, names)))
    sys.stdout.write(f"\nTotal for query: {counts} \n")


def _batch_name(source: CondorSource, job: "dict[str, Any]") -> str:
    task = {"job": job["id"], "state": job["state"]}
    name = JobAd(CondorProcess(source, job, 0, task))("jobbatchname")
    return str(name or "")


def _show_processes(args: CondorWords, rows: "Iterator[CondorProcess]") -> None:
    kind = next((_OF_TABLE[name][1] for name, _, _ in args.uses if name in _OF_TABLE), PROCESSES)
    counts = StatusCounts()

    def counted() -> "Iterator[CondorProcess]":
        for row in rows:
            counts.add(row.status)
            yield row

    for line in kind.lines(counted(), wide=args.has("wide")):
        if not args.has("totals"):
            sys.stdout.write(line)
    if not args.has("run"):
        sys.stdout.write(f"\nTotal for query: {counts} \n")


def _show_other_totals(source: CondorSource, owner: str | None) -> None:
    """Print how many processes the user has, and all users."""
    own, everyone = StatusCounts(), StatusCounts()
    me = owner or own_user()
    for job in source.clusters(owner=None):
        everyone.add_job(job)
        if job["owner"] == me:
            own.add_job(job)
    sys.stdout.write(f"Total for {me}: {own} \nTotal for all users: {everyone}\n\n")
