"""``condor_wait``: wait for the end of the jobs that have an event log.

The head knows which jobs have it, and is asked for them; so the log need not be readable here.
Source:  HTCondor 24, condor_wait(1).
"""

import os
import signal

from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.options import read_line, refusal
from headnode.apps.cli.condor_programs.processes import CondorProcess, CondorSource
from headnode.apps.cli.condor_programs.selection import WantedProcesses
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

OPTIONS = {
    **acted_on("wait num status!"),
    **ignored("debug! allevents!", "nothing is read from the log"),
    **refused("echo!", "use: hn job view ID --history"),
}
_MAX_ENDED = 2000  # jobs that have ended, among which those of a log are looked for
_MAX_WATCHED = 1000  # jobs


class _TimeExpired(Exception):
    """The time of ``-wait`` is over."""


def run(argv: "Sequence[str]", client: Client) -> int:
    """Wait; return 0 when all have ended, 1 if the time is over or no job has the log."""
    args = read_line("condor_wait", argv, OPTIONS)
    if not 1 <= len(args.words) <= 2:
        raise refusal("condor_wait needs a log file", "write: condor_wait [-wait SECONDS] [-num N] LOG [ID]")
    source = CondorSource(client)
    rows = _rows(source, os.path.abspath(args.words[0]), args.words[1:])  # noqa: PTH100 (pathlib costs 6 ms)
    if not rows:
        which = f" {args.words[1]}" if args.words[1:] else ""
        raise refusal(
            f"no job{which} of yours has the log {args.words[0][:200]}", "its submit file says: log = FILE"
        )
    wanted = min(args.number("num") or len(rows), len(rows))
    seconds = args.number("wait")
    try:
        with _Alarm(seconds):
            _wait(source, rows, wanted, tells=args.has("status"))
    except _TimeExpired:
        print("Time expired.")
        return 1
    print("All jobs done." if wanted == len(rows) else "Some jobs done.")
    return 0


class _Alarm:
    """Raises _TimeExpired after so many seconds; None: never."""

    def __init__(self, seconds: int | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if self._seconds is not None:
            self._before = signal.signal(signal.SIGALRM, self._expire)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds, 0.001))

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    @staticmethod
    def _expire(*_: object) -> None:
        raise _TimeExpired


def _rows(source: CondorSource, log: str, argv: "Sequence[str]") -> "list[CondorProcess]":
    """Return the processes that have a log, in or out of the queue."""
    wanted = WantedProcesses(argv)
    if argv and not wanted.by_ids:
        raise refusal(f"{argv[0][:60]!r} is no job", "write CLUSTER or CLUSTER.PROCESS")
    found = []
    for job in _jobs(source, wanted):
        if any(_may_be(task, log) for task in source.detail(job["id"])["spec"]["tasks"]):
            found += [row for row in wanted.rows(source, job) if JobAd(row)("userlog") == log]
    return found


def _jobs(source: CondorSource, constraints: WantedProcesses) -> "Iterator[dict[str, Any]]":
    from itertools import islice

    if constraints.by_ids:
        yield from constraints.jobs(source, None)
        return
    yield from source.clusters(owner=own_user())
    yield from islice(source.clusters(owner=own_user(), ended=True), _MAX_ENDED)


def _may_be(task: "dict[str, Any]", log: str) -> bool:
    """Return whether a task may have this log; in its name may be numbers of processes."""
    text = str((task.get("properties") or {}).get("UserLog", ""))
    return text == log or "*" in text or "%" in text or "^" in text


def _wait(source: CondorSource, rows: "Sequence[CondorProcess]", wanted: int, *, tells: bool) -> None:
    """Wait until so many of the processes have ended."""
    from headnode.apps.cli.commands.job_wait import states_of

    over = {row.id: row for row in rows if row.is_over}
    waiting = [row for row in rows if row.id not in over]
    jobs = list(dict.fromkeys(row.cluster for row in waiting))
    while len(over) < wanted and waiting:
        for _ in states_of(jobs[:_MAX_WATCHED], source.client):
            for row in _ended(source, waiting):
                over[row.id] = row
                if tells:
                    print(f"Job {row.id} terminated.", flush=True)
            waiting = [row for row in waiting if row.id not in over]
            if len(over) >= wanted:
                return
        jobs = list(dict.fromkeys(row.cluster for row in waiting))


def _ended(source: CondorSource, waiting: "Sequence[CondorProcess]") -> "Iterator[CondorProcess]":
    """Yield the processes that have ended meanwhile; another connection asks, since this one is watched."""
    by_job: dict[int, list[CondorProcess]] = {}
    for row in waiting:
        by_job.setdefault(row.cluster, []).append(row)
    with source.beside() as beside:
        for cluster, rows in by_job.items():
            job = beside.answers_of([cluster]).get(cluster)
            if job is None:
                continue
            if len(rows) == 1:
                now = beside.process(job, rows[0].number)
                yield from [now] if now is not None and now.is_over else []
                continue
            numbers = {row.number for row in rows}
            yield from (row for row in beside.processes(job) if row.number in numbers and row.is_over)
