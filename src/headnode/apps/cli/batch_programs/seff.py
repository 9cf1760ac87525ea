"""``seff``: what a job used of the processors and memory that it had.

Source:  Slurm 24.05, contribs/seff: its lines, its exit statuses, and its units of 1,024.
"""

import sys

from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.squeue import job_numbers, means
from headnode.apps.cli.batch_programs.values import FIELDS, clock, elapsed, exit_code, processors, spec
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored, read_words
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = {
    **acted_on("help/h! version/v!"),
    **ignored("debug/d! file/f", "there is nothing more to show"),
}
VERSION = "2.1"  # of Slurm's
_USAGE = """Usage: seff [Options] <Jobid>
       Options:
       -h    Help menu
       -v    Version
       -d    Debug mode: display raw Slurm data
"""
_NOT_ENDED = "WARNING: Efficiency statistics have only tasks that have ended; this job has not.\n"


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show a job."""
    args = read_words(argv, OPTIONS)
    if args.has("version"):
        sys.stdout.write(f"seff Version {VERSION}\n")
        return 1
    if args.has("help") or len(args.words) != 1:
        sys.stdout.write(_USAGE)
        return 1
    row = _row(args.words[0], JobSource(client))
    cluster = str(client.ask("cluster")["cluster"]["name"])
    sys.stdout.write("".join(f"{line}\n" for line in lines_of(row, cluster)))
    if row.state == "RUNNING":
        sys.stdout.write(_NOT_ENDED)
    return 0


def _row(name: str, source: JobSource) -> BatchRow:
    """Return a job, or an element of an array."""
    found = source.listed(job_numbers([name]))
    if found and "_" not in name:
        return BatchRow(source, found[0])
    for row in rows_of(source, found[0], expand=True) if found else ():
        if means(name, row):
            return row
    raise ProgramRefusal("Job not found.", status=2, prefix="bare")


def lines_of(row: BatchRow, cluster: str) -> "list[str]":
    """Return the lines of a job or an element."""
    state, used = row.state, _measured(row)
    count, nodes = used.processors, used.nodes
    ended = "" if state in ("PENDING", "RUNNING") else f" (exit code {exit_code(row)[0]})"
    element = [] if row.number is None else [f"Array Job ID: {row.id}_{row.number}"]
    size = [f"Cores: {count}"] if count == 1 else [f"Nodes: {nodes}", f"Cores per node: {count // nodes}"]
    about = [
        f"Job ID: {row.id}",
        *element,
        f"Cluster: {cluster}",
        f"User/Group: {FIELDS['user'](row)}/{FIELDS['group'](row)}",
        f"State: {state}{ended}",
        *size,
    ]
    if state == "PENDING":
        return [*about, "Efficiency not available for jobs in the PENDING state."]
    return [*about, *_used(row, used)]


def _used(row: BatchRow, used: "SeffValues") -> "list[str]":
    wall = clock(elapsed(row), hours=True)
    memory, where = _memory(row, used.processors, used.nodes)
    return [
        f"CPU Utilized: {clock(used.time, hours=True)}",
        f"CPU Efficiency: {_percent(used.time, used.held)} of {clock(used.held, hours=True)} core-walltime",
        f"Job Wall-clock time: {wall}",
        f"Memory Utilized: {size(used.peak)}",
        f"Memory Efficiency: {_percent(used.peak, memory)} of {size(memory)} ({where})",
    ]


class SeffValues:
    """The processors and nodes of a job or an element; used and held processor time in s; its peak in kB."""

    __slots__ = ("held", "nodes", "peak", "processors", "time")

    def __init__(self, processors: int, nodes: int, time: float, held: float, peak: int) -> None:
        self.processors, self.nodes, self.time, self.held, self.peak = processors, nodes, time, held, peak


def _measured(row: BatchRow) -> SeffValues:
    count, nodes = processors(row), int(FIELDS["nodecount"](row) or 1) or 1
    if row.task is not None:
        task = row.task
        seconds = float(task["user_time"] or 0) + float(task["system_time"] or 0)
        return SeffValues(count, nodes, seconds, elapsed(row) * count, int(task["peak_memory"] or 0))
    (used,) = row.source.client.ask("job_efficiency", job=row.id)["jobs"]
    held = len((row.source.detail(row.id)["usage"] or {}).get("nodes") or ()) or nodes
    time, peak = used["processor_time"] or 0.0, used["peak_memory"] or 0
    return SeffValues(used["processors"] or count, held, time, used["held_time"], peak)


def _memory(row: BatchRow, count: int, nodes: int) -> tuple[int, str]:
    """Return the memory that was requested in kB, and how much that is for each processor or node."""
    described = spec(row)
    each = 1024 * int(described.get("process_memory") or 0)
    if each:
        return each * count, f"{size(each)}/core"
    held = 1024 * int((described.get("held") or {}).get("memory") or 0)
    return held * nodes, f"{size(held)}/node"


def _percent(used: float, whole: float) -> str:
    return f"{100 * used / whole if whole else 0.0:.2f}%"


def size(kilobytes: int) -> str:
    """Write an amount of memory as Slurm's `seff` does.

    >>> size(0), size(900), size(2 * 1024**2)
    ('0.00 MB', '900.00 KB', '2.00 GB')
    """
    if not kilobytes:
        return "0.00 MB"
    amount, unit = float(kilobytes), 0
    while amount >= 1024 and unit < 5:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.2f} {'KMGTPE'[unit]}B"
