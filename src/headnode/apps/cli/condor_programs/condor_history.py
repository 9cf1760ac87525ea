"""``condor_history``: list the processes that have left the queue.

Source:  HTCondor 24, condor_history(1).
"""

import sys
import time
from itertools import islice

from headnode.apps.cli.batch_programs.words import acted_on, ignored, refused
from headnode.apps.cli.condor_programs.ad_output import OUTPUTS, show, shown
from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.options import CondorWords, read_line, refusal
from headnode.apps.cli.condor_programs.processes import CondorProcess, CondorSource
from headnode.apps.cli.condor_programs.queue_tables import ENDED_ONES
from headnode.apps.cli.condor_programs.selection import WantedProcesses, holds, parsed
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

OPTIONS = {
    **acted_on(
        "constraint since completedsince scanlimit forwards! backwards! wide! print-format " + OUTPUTS
    ),
    **ignored("local! debug!", "this cluster has one history"),
    **ignored("name pool", "hn's --scheduler and hn login choose the head"),
    **refused("file userlog startd!", "the history is that of the head; name jobs by their ids"),
}


def run(argv: "Sequence[str]", client: Client) -> int:
    """List processes that have ended, the newest first."""
    args = read_line("condor_history", argv, OPTIONS)
    wanted = WantedProcesses(args.words, args.values("constraint"))
    source = CondorSource(client)
    limit = args.number("match") if args.has("match") else args.number("limit")
    rows: Iterator[CondorProcess] = islice(_rows(args, wanted, source), limit)
    if args.has("forwards"):
        rows = iter(list(rows)[::-1])
    if shown(args):
        show(args, map(JobAd, rows))
        return 0
    if (path := args.text("print-format")) is not None:
        from headnode.apps.cli.condor_programs.print_format import read_print_format

        read_print_format(path).show(map(JobAd, rows))
        return 0
    for line in ENDED_ONES.lines(rows, wide=True):
        sys.stdout.write(line)
    return 0


def _rows(args: CondorWords, constraints: WantedProcesses, source: CondorSource) -> "Iterator[CondorProcess]":
    """Yield the processes that have ended, up to that at which the reading ends."""
    most, ends = args.number("scanlimit"), [_end(text) for text in args.values("since")]
    ends += [(None, parsed(f"CompletionDate <= ({text})")) for text in args.values("completedsince")]
    read = 0
    for job in _jobs(constraints, source):
        for row in reversed(list(constraints.rows(source, job))):
            if not row.is_over:
                continue
            read += 1
            if most is not None and read > most:
                return
            ad = JobAd(row)
            for ids, expression in ends:
                named = ids is not None and (row.id == ids or str(row.cluster) == ids)
                if named or (expression is not None and holds(expression, ad, time.time())):
                    return
            yield row


def _end(text: str) -> "tuple[str | None, Any]":
    """Return the id, or the expression, of a process at which the reading ends."""
    if text.replace(".", "", 1).isdigit():
        return text, None
    if not text:
        raise refusal("-since requires an id or an expression")
    return None, parsed(text)


def _jobs(constraints: WantedProcesses, source: CondorSource) -> "Iterator[dict[str, Any]]":
    """Yield the jobs that have ended, and those of which some processes have, newest first."""
    if constraints.by_ids:
        yield from constraints.jobs(source, None, ended=True)
        return
    living = [job for job in constraints.jobs(source, None) if _some_ended(job)]
    for job in constraints.jobs(source, None, ended=True):
        while living and living[0]["id"] > job["id"]:
            yield living.pop(0)
        yield job
    yield from living


def _some_ended(job: "dict[str, Any]") -> bool:
    tasks = job["tasks"]
    return bool(tasks["finished"] or tasks["failed"] or tasks["canceled"])
