"""What rows of jobs show in the fields of squeue, sacct and scontrol: one table for all format strings.

A value of None is what the program has no word for: ``(null)``, ``N/A`` or nothing.
Source:  Slurm, squeue(1), "--Format"; sacct(1), "Job Accounting Fields".
"""

import time

from headnode.apps.cli.batch_programs.dependencies import dependency
from headnode.apps.cli.batch_programs.rows import COMMAND_ENDED, SHORT_STATES, BatchRow
from headnode.apps.cli.batch_programs.words import number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Value = Callable[[BatchRow], "str | None"]

ALL_NODES = "all"
"""The partition of all nodes, to which jobs without a node group belong."""


def date(at: float | None) -> str | None:
    """Return a date as Slurm writes it, in local time.

    >>> date(None) is None
    True
    """
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


def processor_time(seconds: float) -> str:
    """Return a processor time as Slurm's accounting writes it.

    >>> processor_time(0), processor_time(65.25), processor_time(3700)
    ('00:00:00', '01:05.250', '01:01:40')
    """
    if not seconds:
        return "00:00:00"
    if seconds >= 3600:
        return clock(seconds, hours=True)
    return f"{int(seconds // 60):02}:{int(seconds % 60):02}.{int(seconds * 1000 % 1000):03}"


def clock(seconds: float, *, hours: bool = False) -> str:
    """Return a time as Slurm writes it: ``D-HH:MM:SS``; without `hours` ``M:SS`` where it is short.

    >>> clock(65), clock(3700), clock(90061), clock(5, hours=True)
    ('1:05', '1:01:40', '1-01:01:01', '00:00:05')
    """
    minutes, rest = divmod(int(max(0, seconds)), 60)
    days, minutes = divmod(minutes, 1440)
    hour, minute = divmod(minutes, 60)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{rest:02}"
    if hours:
        return f"{hour:02}:{minute:02}:{rest:02}"
    return f"{hour}:{minute:02}:{rest:02}" if hour else f"{minute}:{rest:02}"


def job_id(row: BatchRow) -> str:
    """Return ``12``, ``12_3``, or ``12_[3-9%2]``."""
    if row.numbers:
        return f"{row.id}_[{row.numbers}]"
    return str(row.id) if row.number is None else f"{row.id}_{row.number}"


def _array_number(row: BatchRow) -> str | None:
    return row.numbers or (None if row.number is None else str(row.number))


def elapsed(row: BatchRow) -> float:
    """Return for how long it has run, in seconds."""
    if row.started is None:
        return 0.0
    return max(0.0, (row.ended or time.time()) - row.started)


def limit_of(row: BatchRow) -> float | None:
    """Return its run time limit in seconds; None: it has none."""
    limit: float | None = row.job["run_time"]
    if limit is None and row.job["array"]:
        limit = _task(row).get("run_time")
    return limit


def limit(row: BatchRow) -> str:
    """Return its run time limit; UNLIMITED without one."""
    found = limit_of(row)
    return "UNLIMITED" if found is None else clock(found)


def _left(row: BatchRow) -> str:
    found = limit_of(row)
    return "UNLIMITED" if found is None else clock(found - elapsed(row))


def expected_start(row: BatchRow) -> float | None:
    """Return when it started or is expected to; of a job that waits for a date, that date."""
    if row.started is not None:
        return row.started
    if row.reason == "BeginTime":
        until: float | None = row.job["held_until"]
        return until
    expected = row.job.get("expected") or {}
    return expected.get("p50") or expected.get("promise")


def expected_end(row: BatchRow) -> float | None:
    """Return when it ended, or when its limit ends it."""
    if row.ended is not None:
        return row.ended
    found = limit_of(row)
    return None if found is None or row.started is None else row.started + found


def name(row: BatchRow) -> str:
    """Return its name, or the program of its command line."""
    return str(row.job["name"] or row.job["command"].partition(" ")[0].rpartition("/")[2])


def processors(row: BatchRow) -> int:
    """Return how many processors it has, or requests."""
    if row.job["allocated"] and not row.job["array"]:
        return int(row.job["allocated"])
    return _units(row) * _processors_per_gpu(row)


def gpus(row: BatchRow) -> int:
    """Return how many GPUs it has, or requests."""
    return processors(row) // _processors_per_gpu(row) if row.job["unit"] == "gpu" else 0


def gpus_per_node(row: BatchRow) -> int:
    """Return how many GPUs each node has of it; 0 if it has none, or if that is left open."""
    count, layout = gpus(row), _task(row).get("distribution") or {} if row.job["unit"] == "gpu" else {}
    if not count or layout.get("per_node"):
        return int(layout.get("per_node") or 0)
    apart = layout.get("nodes") or int(bool(spec(row).get("single_node") or count == 1))
    return count // apart if apart and count % apart == 0 else 0


def _units(row: BatchRow) -> int:
    """Return how many processors or GPUs it requests."""
    if not row.job["array"]:
        return int(row.job["minimum"])
    own = row.course if row.task is not None else None
    return int(own["minimum"]) if own else int(_task(row).get("minimum") or 1)


def _processors_per_gpu(row: BatchRow) -> int:
    return int(spec(row).get("processors_per_gpu") or 1) if row.job["unit"] == "gpu" else 1


def _gres(count: int) -> str | None:
    return f"gres:gpu:{count}" if count else None


def resources(row: BatchRow) -> "dict[str, str]":
    """Return what is counted of it: Slurm's name of each, and how much."""
    cpus, count = str(processors(row)), gpus(row)
    counted = {"gres/gpu": str(count)} if count else {}
    return {"cpu": cpus, "node": str(_node_count(row)), "billing": cpus, **counted}


def _listed(counted: "Mapping[str, str]") -> str:
    return ",".join(f"{name}={amount}" for name, amount in counted.items())


def nodes(row: BatchRow) -> str:
    """Return the nodes that it has or had, as Slurm folds them; of an element those of its own."""
    if row.task is None:
        return "" if row.number is not None or row.numbers else str(row.job["nodes"])
    return ",".join(str(row.task["node"]).split())


def first_node(nodes: str) -> str:
    """Return the first of folded names.

    >>> first_node("n[08-11,20]-ib,x"), first_node("vm,n[1-2]"), first_node("")
    ('n08-ib', 'vm', '')
    """
    before, bracket, rest = nodes.partition("[")
    if not bracket or "," in before:
        return before.partition(",")[0]
    inside, _, behind = rest.partition("]")
    return before + inside.partition(",")[0].partition("-")[0] + behind.partition(",")[0]


def _node_count(row: BatchRow) -> int:
    if row.job["array"]:
        return max(1, len(str((row.task or {}).get("node") or "").split()))
    return int(row.job["node_count"])


def nodes_or_reason(row: BatchRow) -> str:
    """Return the nodes of what runs, and the reason of what waits or has failed in parentheses."""
    if row.state in ("RUNNING", "SUSPENDED", "COMPLETED"):
        return nodes(row)
    return f"({row.reason})"


def spec(row: BatchRow) -> "Mapping[str, Any]":
    """Return the description of the job."""
    found: Mapping[str, Any] = row.source.detail(row.id)["spec"]
    return found


def _task(row: BatchRow) -> "Mapping[str, Any]":
    """Return the description of the first task."""
    tasks: list[Mapping[str, Any]] = spec(row).get("tasks") or [{}]
    return tasks[0]


def own_task(row: BatchRow) -> "Mapping[str, Any]":
    """Return the task itself, with its files and its work directory."""
    tasks = row.source.tasks(row.id)
    mine = row.task or (tasks[0] if tasks else None)
    if mine is None:
        return {}
    wanted = {"job": row.id, "task": mine["task"], "instance": mine["instance"]}
    found: Mapping[str, Any] = row.source.client.ask("task", **wanted)["task"]
    return found


def _directory(row: BatchRow) -> str:
    found = str(own_task(row).get("work_directory") or "")
    return found.rstrip("/") or found


def _file(row: BatchRow, key: str) -> str | None:
    """Return the path of a file of the task, with the number of the job and of the element in it."""
    path = str(own_task(row).get(key) or "")
    if not path:
        return None
    number = "4294967294" if row.number is None else str(row.number)
    named = path.replace("%CCP_JOBID%", str(row.id))
    if row.job["array"]:
        named = named.replace("*", number)
    return named if named.startswith("/") else f"{_directory(row)}/{named}"


def exit_code(row: BatchRow) -> tuple[int, int]:
    """Return the exit code and the signal by which it ended."""
    if row.state not in ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL"):
        return 0, 0
    if row.job["message"].startswith(COMMAND_ENDED):
        code = int(row.job["message"].removeprefix(COMMAND_ENDED))
        return (0, code - 128) if code > 128 else (code, 0)
    course = row.course
    if course["signal"] is not None:
        return 0, int(course["signal"])
    return int(course["exit_code"] if course["exit_code"] is not None else 1), 0


def _uid(row: BatchRow) -> str:
    import pwd

    try:
        return str(pwd.getpwnam(row.job["owner"]).pw_uid)
    except KeyError:  # an account of another machine
        return "4294967294"


def _group_id(row: BatchRow) -> int:
    import pwd

    try:
        return pwd.getpwnam(row.job["owner"]).pw_gid
    except KeyError:
        return 4294967294


def _group(row: BatchRow) -> str:
    import grp

    try:
        return grp.getgrgid(_group_id(row)).gr_name
    except KeyError:
        return str(_group_id(row))


def partition(row: BatchRow) -> str:
    """Return the node groups of the job."""
    return ",".join(row.job["node_groups"]) or ALL_NODES


def _features(row: BatchRow) -> str | None:
    chosen = (spec(row).get("needs") or {}).get("features") or ()
    return "&".join("|".join(choice) for choice in chosen) or None


def _licences(row: BatchRow) -> str | None:
    return (
        ",".join(f"{one['feature']}:{one.get('amount') or 1}" for one in spec(row).get("licences") or ())
        or None
    )


def _memory(row: BatchRow) -> str:
    found = spec(row)
    if each := found.get("process_memory"):
        return f"{each}M"
    held = (found.get("held") or {}).get("memory")
    return f"{held}M" if held else "0"


def _text(key: str) -> "Value":
    return lambda row: str(spec(row).get(key) or "") or None


def _hold_time(row: BatchRow) -> float | None:
    at: float | None = row.source.detail(row.id).get("hold_until") or row.job["submitted"]
    return at


FIELDS: "Mapping[str, Value]" = {
    "account": lambda row: row.job["project"] or None,
    "arrayjobid": lambda row: str(row.id),
    "arraynumber": _array_number,
    "batchhost": lambda row: first_node(nodes(row)) or None,
    "command": lambda row: row.job["command"] or None,
    "comment": _text("description"),
    "contiguous": lambda row: str(int(bool(spec(row).get("contiguous")))),
    "cpus": lambda row: str(processors(row)),
    "cpuspertask": lambda row: str(_cpus_per_task(row)),
    "deadline": lambda row: date(spec(row).get("end_by")),
    "dependency": dependency,
    "elapsed": lambda row: clock(elapsed(row), hours=True),
    "elapsedseconds": lambda row: str(int(elapsed(row))),
    "eligible": lambda row: date(_hold_time(row)),
    "end": lambda row: date(expected_end(row)),
    "ended": lambda row: date(row.ended),
    "excluded": lambda row: ",".join(spec(row).get("excluded_nodes") or ()) or None,
    "exclusive": lambda row: "NO" if spec(row).get("exclusive") else "OK",
    "exit": lambda row: "{}:{}".format(*exit_code(row)),
    "features": _features,
    "gres": lambda row: _gres(gpus_per_node(row)),
    "gresofjob": lambda row: None if gpus_per_node(row) else _gres(gpus(row)),
    "group": _group,
    "groupid": lambda row: str(_group_id(row)),
    "jobid": job_id,
    "left": _left,
    "licenses": _licences,
    "limit": limit,
    "timemin": lambda row: "N/A" if (t := row.job["minimum_run_time"]) is None else clock(t, hours=True),
    "limitminutes": lambda row: str(int((limit_of(row) or 0) // 60)),
    "memory": _memory,
    "name": name,
    "nice": lambda _: "0",
    "nodecount": lambda row: str(_node_count(row)),
    "nodes": nodes,
    "nodesorreason": nodes_or_reason,
    "ntasks": lambda row: str(max(1, processors(row) // _cpus_per_task(row))),
    "partition": partition,
    "priority": lambda row: str(row.job["priority"]),
    "qos": lambda row: row.job["template"] or None,
    "reason": lambda row: row.reason,
    "requested": lambda row: ",".join(_task(row).get("required_nodes") or ()) or None,
    "requeue": lambda row: str(int(bool(_task(row).get("rerunnable")))),
    "reservation": _text("reservation"),
    "restarts": lambda row: str(row.source.detail(row.id)["requeues"]),
    "start": lambda row: date(row.started),
    "startorexpected": lambda row: date(expected_start(row)),
    "signal": _text("signal"),
    "state": lambda row: row.state,
    "stateshort": lambda row: SHORT_STATES.get(row.state, row.state),
    "stderr": lambda row: _file(row, "standard_error") or _file(row, "standard_output"),
    "stdin": lambda row: _file(row, "standard_input") or "/dev/null",
    "stdout": lambda row: _file(row, "standard_output"),
    "submit": lambda row: date(row.job["submitted"] or row.job["created"]),
    "tres": lambda row: _listed(
        {name: amount for name, amount in resources(row).items() if name != "billing"}
    ),
    "tresbilled": lambda row: _listed(resources(row)),
    "used": lambda row: clock(elapsed(row)),
    "user": lambda row: row.job["owner"],
    "userid": _uid,
    "workdir": lambda row: _directory(row) or None,
}
"""A field -> what it shows of a row."""


def _cpus_per_task(row: BatchRow) -> int:
    value = (_task(row).get("environment") or {}).get("SLURM_CPUS_PER_TASK", "1")
    return number_of(value, 8) or 1
