"""``qstat`` of PBS about queues and the server: ``-Q``, ``-Qf``, ``-q``, ``-B``.  A queue is a job template.

Source:  PBS Professional 22, qstat(1B), "Displaying Queue Status", "Displaying Server Status".
"""

import sys

from headnode.apps.cli.batch_programs.pbs_rows import VERSION, queue_of, state_of
from headnode.apps.cli.batch_programs.qsub import UNKNOWN_QUEUE, server
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.apps.cli.batch_programs.words import ProgramWords

_COUNTED = ("Transit", "Queued", "Held", "Waiting", "Running", "Exiting", "Begun")
_STATES = {"Q": "Queued", "H": "Held", "W": "Waiting", "R": "Running", "S": "Running", "B": "Begun"}
_QUEUES = (
    "Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type\n"
    "---------------- ----- ----- --- --- ----- ----- ----- ----- ----- ----- ----\n"
)
_SERVERS = (
    "Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext Status\n"
    "---------------- ----- ----- ----- ----- ----- ----- ----- ----- -----------\n"
)
_LIMITS = (
    "Queue            Memory CPU Time Walltime Node   Run   Que   Lm  State\n"
    "---------------- ------ -------- -------- ---- ----- ----- ----  -----\n"
)


class QueueCounts:
    """A queue, and how many jobs it has in each state."""

    __slots__ = ("counts", "limit", "name")

    def __init__(self, name: str, limit: float | None = None) -> None:
        self.name, self.limit = name, limit
        self.counts = dict.fromkeys(_COUNTED, 0)

    @property
    def total(self) -> int:
        """All jobs."""
        return sum(self.counts.values())

    @property
    def columns(self) -> str:
        """The columns from Que to Ext of the tables; arrays that have begun count as running."""
        held = self.counts
        counts = (held["Queued"], held["Running"] + held["Begun"], held["Held"], held["Waiting"], 0, 0)
        return " ".join(f"{count:>5}" for count in counts)

    @property
    def states(self) -> str:
        """The counts as attributes have them."""
        return " ".join(f"{state}:{count}" for state, count in self.counts.items())


def show_queues(args: "ProgramWords", client: Client) -> int:
    """Show queues, or the server; return the exit status."""
    queues = _queues(client)
    name = server(client)
    if args.has("B"):
        sys.stdout.write(_server(name, queues, full=args.has("f")))
        return 0
    known = {queue.name: queue for queue in queues}
    unknown = [each for each in args.words if each.partition("@")[0] not in known]
    for each in unknown:
        sys.stderr.write(f"qstat: Unknown queue {each}\n")
    named = [known[each.partition("@")[0]] for each in args.words if each not in unknown]
    wanted = named if args.words else queues
    if args.has("q"):
        sys.stdout.write(_limits(name, wanted))
    elif args.has("f"):
        sys.stdout.write("".join(_full(queue) for queue in wanted))
    elif wanted:
        sys.stdout.write(_QUEUES + "".join(_line(queue) for queue in wanted))
    return UNKNOWN_QUEUE if unknown else 0


def _queues(client: Client) -> "list[QueueCounts]":
    found = {
        one["name"]: QueueCounts(one["name"], (one["rules"].get("run_time") or {}).get("maximum"))
        for one in client.ask("templates")["templates"]
    }
    source = JobSource(client)
    for job in source.pages(LIVING, owner=None):
        row = BatchRow(source, job)
        queue = found.setdefault(queue_of(row), QueueCounts(queue_of(row)))
        queue.counts[_STATES.get(state_of(row), "Running")] += 1
    return list(found.values())


def _name(text: str) -> str:
    return text if len(text) <= 16 else f"{text[:15]}*"


def _line(queue: QueueCounts) -> str:
    return f"{_name(queue.name):<16} {0:>5} {queue.total:>5} yes yes {queue.columns} Exe*\n"


def _full(queue: QueueCounts) -> str:
    limit = "" if queue.limit is None else f"    resources_max.walltime = {_walltime(queue.limit)}\n"
    return (
        f"Queue: {queue.name}\n    queue_type = Execution\n    total_jobs = {queue.total}\n"
        f"    state_count = {queue.states} \n{limit}    enabled = True\n    started = True\n\n"
    )


def _server(name: str, queues: "Sequence[QueueCounts]", *, full: bool) -> str:
    whole = QueueCounts(name)
    for queue in queues:
        for state, count in queue.counts.items():
            whole.counts[state] += count
    if not full:
        return f"{_SERVERS}{_name(name):<16} {0:>5} {whole.total:>5} {whole.columns} Active\n"
    return (
        f"Server: {name}\n    server_state = Active\n    server_host = {name}\n    scheduling = True\n"
        f"    total_jobs = {whole.total}\n    state_count = {whole.states} \n    default_queue = Default\n"
        f"    pbs_version = {VERSION}\n\n"
    )


def _limits(name: str, queues: "Sequence[QueueCounts]") -> str:
    lines, running, waiting = [], 0, 0
    for queue in queues:
        runs = queue.counts["Running"] + queue.counts["Begun"]
        waits = queue.total - runs
        running, waiting = running + runs, waiting + waits
        limit = "   --   " if queue.limit is None else f"{_walltime(queue.limit):<8.8}"
        lines.append(f"{queue.name:<16.16}   --      --    {limit}  --  {runs:>5} {waits:>5}   --   E R\n")
    before = " " * 47
    sums = f"{before}----- -----\n{before}{running:>5} {waiting:>5}\n"
    return f"\nserver: {name}\n\n{_LIMITS}{''.join(lines)}{sums}"


def _walltime(seconds: float) -> str:
    return f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}:{int(seconds % 60):02}"
