"""``squeue``: the jobs that wait and run.

Source:  Slurm 22.05, squeue(1).
"""

import os
import sys
import time

from headnode.apps.cli.batch_programs.columns import Column, letters, lines, named
from headnode.apps.cli.batch_programs.rows import (
    LIVING,
    REMEMBERED,
    SHORT_STATES,
    BatchRow,
    JobSource,
    numbers_of,
    refuse_other_clusters,
    rows_of,
)
from headnode.apps.cli.batch_programs.values import FIELDS, spec
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    number_of,
    read_words,
    refused,
    repeated,
)
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.columns import OutputFields

_CLUSTER = "there is one cluster; it is asked anyway"
OPTIONS = {
    **acted_on(
        "account/A array/r! array-unique! format/o Format/O iterate/i jobs/j job/J licenses/L long/l! me! "
        "name/n noheader/h! nodelist/w partition/p qos/q reservation/R sort/S start! states/t state/T json! "
        "user/u users version/V! help! usage!"
    ),
    **ignored("all/a! hide! noconvert! verbose/v! local! federation! sibling! priority/P!", _CLUSTER),
    **ignored("clusters/M", _CLUSTER),
    **refused("steps/s", "parts that srun starts are not listed"),
    **refused("yaml!", "use --json"),
    **refused("only-job-state!", "choose by -j, -n, -u, -p, -w, -A, -L, -R or -t"),
}
_SHORT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
FORMATS: "OutputFields" = {
    "a": ("account", "ACCOUNT", "account"), "A": ("arrayjobid", "JOBID", "jobid"),
    "B": ("batchhost", "EXEC_HOST", "batchhost"), "C": ("cpus", "CPUS", "cpus", "numcpus"),
    "d": ("disk", "MIN_TMP_DISK"), "D": ("nodecount", "NODES", "nodes", "numnodes"),
    "e": ("end", "END_TIME", "endtime"), "E": ("dependency", "DEPENDENCY", "dependency"),
    "f": ("features", "FEATURES", "feature"), "F": ("arrayjobid", "ARRAY_JOB_ID", "arrayjobid"),
    "g": ("group", "GROUP", "groupname"), "G": ("groupid", "GROUP", "groupid"),
    "h": ("exclusive", "OVER_SUBSCRIBE", "oversubscribe"), "i": ("jobid", "JOBID", "jobarrayid"),
    "j": ("name", "NAME", "name"), "k": ("comment", "COMMENT", "comment"),
    "K": ("arraynumber", "ARRAY_TASK_ID", "arraytaskid"), "l": ("limit", "TIME_LIMIT", "timelimit"),
    "L": ("left", "TIME_LEFT", "timeleft"), "m": ("memory", "MIN_MEMORY", "minmemory"),
    "M": ("used", "TIME", "timeused"), "n": ("requested", "REQ_NODES", "reqnodes"),
    "N": ("nodes", "NODELIST", "nodelist"), "o": ("command", "COMMAND", "command"),
    "p": ("priority", "PRIORITY", "priority"), "P": ("partition", "PARTITION", "partition"),
    "q": ("qos", "QOS", "qos"), "Q": ("priority", "PRIORITY", "prioritylong"),
    "r": ("reason", "REASON", "reason"), "R": ("nodesorreason", "NODELIST(REASON)", "reasonlist"),
    "S": ("startorexpected", "START_TIME", "starttime"), "t": ("stateshort", "ST", "statecompact"),
    "T": ("state", "STATE", "state"), "u": ("user", "USER", "username"), "U": ("userid", "USER", "userid"),
    "v": ("reservation", "RESERVATION", "reservation"), "V": ("submit", "SUBMIT_TIME", "submittime"),
    "W": ("licenses", "LICENSES", "licenses"), "x": ("excluded", "EXC_NODES", "excnodes"),
    "Y": ("scheduled", "SCHEDNODES", "schednodes"), "y": ("nice", "NICE", "nice"),
    "Z": ("workdir", "WORK_DIR", "workdir"), "c": ("cpuspertask", "MIN_CPUS", "mincpus"),
    "b": ("gres", "TRES_PER_NODE", "gres", "tres-per-node"), "H": ("sockets", "SOCKETS_PER_NODE"),
    "I": ("cores", "CORES_PER_SOCKET"), "J": ("threads", "THREADS_PER_CORE"),
    "w": ("wckey", "WCKEY", "wckey"), "X": ("corespec", "CORE_SPEC"), "z": ("shape", "S:C:T"),
    "O": ("contiguous", "CONTIGUOUS", "contiguous"),
    "cpus-per-task": ("cpuspertask", "CPUS_PER_TASK", "cpus-per-task"),
    "deadline": ("deadline", "DEADLINE", "deadline"),
    "eligibletime": ("eligible", "ELIGIBLE_TIME", "eligibletime"),
    "exit_code": ("exitstatus", "EXIT_CODE", "exit_code"), "numtasks": ("ntasks", "TASKS", "numtasks"),
    "requeue": ("requeue", "REQUEUE", "requeue"), "restartcnt": ("restarts", "RESTART_COUNT", "restartcnt"),
    "stderr": ("stderr", "STDERR", "stderr"), "stdin": ("stdin", "STDIN", "stdin"),
    "stdout": ("stdout", "STDOUT", "stdout"), "tres-alloc": ("tres", "TRES_ALLOC", "tres-alloc"),
    "tres": ("tres", "TRES", "tres"), "tres-per-job": ("gresofjob", "TRES_PER_JOB", "tres-per-job"),
}  # fmt: skip
_NOTHING = dict.fromkeys(
    ("startorexpected", "end", "eligible", "arraynumber", "deadline", "batchhost", "gres", "gresofjob"), "N/A"
) | {"nodes": "", "requested": "", "excluded": "", "batchhost": "n/a", "scheduled": "(null)"}
_OWN: "dict[str, Callable[[BatchRow], str]]" = {
    "cores": lambda row: least_layout(row)[1],
    "corespec": lambda _: "N/A",
    "disk": lambda _: "0",
    "shape": lambda row: ":".join(least_layout(row)),
    "sockets": lambda row: least_layout(row)[0],
    "threads": lambda row: least_layout(row)[2],
    "wckey": lambda _: "(null)",
    "scheduled": lambda _: "(null)",
    "exitstatus": lambda row: FIELDS["exit"](row).partition(":")[0] if FIELDS["exit"](row) else "0",  # type: ignore[union-attr]
}


def least_layout(row: BatchRow) -> "tuple[str, str, str]":
    """Return the least sockets, cores of each and threads of each that nodes of the job have."""
    needs = spec(row).get("needs") or {}
    sockets, cores, threads = (
        str(needs.get(f"minimum_{name}") or "*")
        for name in ("sockets", "cores_per_socket", "threads_per_core")
    )
    return sockets, cores, threads


def show(field: str) -> "Callable[[BatchRow], str]":
    """Return what a field of squeue shows."""
    if field in _OWN:
        return _OWN[field]
    value, nothing = FIELDS[field], _NOTHING.get(field, "(null)")

    def shown(row: BatchRow) -> str:
        found = value(row)
        return nothing if found is None else found

    return shown


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    args.merge("users", "user")
    return repeated(args, lambda: _show_jobs(args, client))


def _show_jobs(args: ProgramWords, client: Client) -> None:
    states = args.parts("states") + args.parts("state")
    if args.has("start") and not states:
        states = ["PENDING"]
    wanted = states_asked(states or (["all"] if args.has("json") else []))  # as Slurm does
    source = JobSource(client)
    ids = [part for name in ("jobs", "job") for part in args.parts(name)]
    jobs = _named(source, ids) if ids else _listed(source, args, wanted)
    rows = [row for job in jobs for row in rows_of(source, job, expand=args.has("array"))]
    rows = [row for row in rows if _is_wanted(row, args, wanted, ids)]
    if args.has("reservation"):
        inside = _jobs_inside(client, args.parts("reservation"))
        rows = [row for row in rows if row.id in inside]
    rows = _sorted(rows, args.text("sort") or ("S" if args.has("start") else None))
    if args.has("json"):
        from headnode.apps.cli.batch_programs.data_parser import queued_jobs

        sys.stdout.write(queued_jobs(rows))
    else:
        sys.stdout.write(_table(args, rows))


def _jobs_inside(client: Client, names: "Sequence[str]") -> "set[int]":
    """Return the jobs that name one of the reservations."""
    found = [each for each in client.ask("reservations")["reservations"] if each["name"] in names]
    return {job for each in found for job in (*each["running"], *each["waiting"])}


def _table(args: ProgramWords, rows: "Sequence[BatchRow]") -> str:
    columns: list[Column[Any]]
    if (named_fields := args.text("Format")) is not None:
        columns = named("squeue", named_fields, FORMATS, show)
    else:
        usual = _START if args.has("start") else _LONG if args.has("long") else _SHORT
        text = args.text("format") or os.environ.get("SQUEUE_FORMAT") or usual
        columns = letters("squeue", text, FORMATS, show)
    dated = (args.has("long") or args.has("iterate")) and not args.has("noheader")
    head = time.strftime("%a %b %d %H:%M:%S %Y\n") if dated else ""
    return head + lines(columns, rows, heading=not args.has("noheader"))


def states_asked(argv: "Sequence[str]") -> "set[str] | None":
    """Return the states that were asked for, in long words; None: those of jobs that have not ended.

    Raises:  ProgramRefusal for an unknown state.
    """
    if not argv:
        return None
    known = {short: long for long, short in SHORT_STATES.items()}
    found = set()
    for word in argv:
        upper = word.upper()
        if upper == "ALL":
            return set(SHORT_STATES)
        state = known.get(upper, upper if upper in SHORT_STATES else "")
        if not state:
            raise ProgramRefusal(
                f"Invalid job state specified: {word}",
                f"Valid job states include: {','.join(SHORT_STATES)}",
            )
        found.add(state)
    return found


def job_numbers(words: "Iterable[str]") -> "list[int]":
    """Return the jobs of ids such as ``12`` and ``12_3``.

    Raises:  ProgramRefusal for what is no id.
    """
    found = []
    for word in words:
        job = word.partition("_")[0].partition(".")[0].partition("+")[0]
        number = number_of(job)
        if number is None:
            raise ProgramRefusal(f"Invalid job id: {word}")
        found.append(number)
    return found


def _named(source: JobSource, ids: "Sequence[str]") -> "list[dict[str, Any]]":
    found = [
        job
        for job in source.listed(job_numbers(ids))
        if job["ended"] is None or time.time() - job["ended"] < REMEMBERED
    ]
    if not found:
        raise ProgramRefusal("slurm_load_jobs error: Invalid job id specified", prefix="bare")
    return found


def _listed(source: JobSource, args: ProgramWords, states: "set[str] | None") -> "Iterable[dict[str, Any]]":
    users, names = args.parts("user"), args.parts("name")
    owner = own_user() if args.has("me") else users[0] if len(users) == 1 else None
    if owner is not None and owner.isdigit():
        owner = None  # it is compared below
    name = names[0] if len(names) == 1 else ""
    yield from source.pages(LIVING, owner=owner, name=name)
    if states is not None and states - {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"}:
        since = time.time() - REMEMBERED
        for job in source.pages(ENDED_STATES, owner=owner, name=name, most=1):
            if (job["ended"] or 0) >= since:
                yield job


def own_user() -> str:
    """Return the name of the user."""
    from headnode.apps.cli.job_selection import own_name

    return own_name()


def _is_wanted(row: BatchRow, args: ProgramWords, states: "set[str] | None", ids: "Sequence[str]") -> bool:
    state = row.state
    if state not in (states or ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING")) and not (
        ids and states is None and state in ("PENDING", "RUNNING", "SUSPENDED")
    ):
        return False
    if ids and not any(means(each, row) for each in ids):
        return False
    if args.has("me") and row.job["owner"] != own_user():
        return False
    return is_chosen(row, args)


_CHOICES: "dict[str, Callable[[BatchRow], set[str | None]]]" = {
    "user": lambda row: {row.job["owner"], FIELDS["userid"](row)},
    "name": lambda row: {FIELDS["name"](row)},
    "partition": lambda row: {*str(FIELDS["partition"](row)).split(",")},
    "account": lambda row: {row.job["project"]},
    "qos": lambda row: {FIELDS["qos"](row)},
    "nodelist": lambda row: {*unfolded(str(FIELDS["nodes"](row) or ""))},
    "licenses": lambda row: {one.partition(":")[0] for one in (FIELDS["licenses"](row) or "").split(",")},
}
"""Options that choose jobs, in all programs of Slurm, and what a row has of each."""


def is_chosen(row: BatchRow, args: ProgramWords, names: "Iterable[str]" = _CHOICES) -> bool:
    """Return whether a row has one of the values of each of these options, as far as they were given."""
    return all(not args.has(name) or _CHOICES[name](row) & _choice(args, name) for name in names)


def _choice(args: ProgramWords, name: str) -> "set[str]":
    if name != "nodelist":
        return set(args.parts(name))
    return {node for value in args.options[name] for node in unfolded(value)}


def unfolded(text: str) -> "list[str]":
    """Return the nodes of a set such as ``n[1-3,7],m``.

    Raises:  ProgramRefusal for what is none.
    """
    if "[" not in text:
        return [name for name in text.split(",") if name]
    from headnode.core.formats.text.quantities import parse_nodes
    from headnode.core.model.errors import BadRequest

    try:
        return list(parse_nodes(text))
    except BadRequest as wrong:
        raise ProgramRefusal(f"Invalid node name specified: {wrong.what}") from None


def means(word: str, row: BatchRow) -> bool:
    """Return whether an id such as ``12`` or ``12_3`` means a row."""
    job, _, number = word.partition("_")
    if job != str(row.id):
        return False
    return not number or number == str(row.number) or number in map(str, numbers_of(row.numbers or "0"))


_KEYS: "dict[str, Callable[[BatchRow], Any]]" = {
    "i": lambda row: (row.id, row.number or 0),
    "A": lambda row: row.id,
    "D": lambda row: int(FIELDS["nodecount"](row) or 0),
    "C": lambda row: int(FIELDS["cpus"](row) or 0),
    "Q": lambda row: row.job["priority"],
    "p": lambda row: row.job["priority"],
    "M": lambda row: float(FIELDS["elapsedseconds"](row) or 0),
    "S": lambda row: FIELDS["startorexpected"](row) or "9",
    "t": lambda row: row.state != "PENDING",
}


def _sorted(rows: "Sequence[BatchRow]", order: str | None) -> "list[BatchRow]":
    """Return rows in an order such as ``-p,i``; else what waits first, by priority, and what runs then."""
    found = sorted(rows, key=lambda row: (row.state != "PENDING", -row.job["priority"], row.id))
    for word in reversed((order or "").split(",") if order else []):
        letter, falling = word.lstrip("+-"), word.startswith("-")
        if len(letter) != 1 or letter not in FORMATS:
            raise ProgramRefusal(f"Invalid sort specification: {word}")
        found.sort(key=_KEYS.get(letter, show(FORMATS[letter][0])), reverse=falling)
    return found
