"""``qstat`` of PBS: the table, the full form as text and as JSON.

Source:  PBS Professional 22, qstat(1B) and pbs_job_attributes(7B).
"""

import sys
import time

from headnode.apps.cli.batch_programs.pbs_rows import VERSION, id_of, queue_of, refuse_form, state_of
from headnode.apps.cli.batch_programs.qsub import HISTORY, UNKNOWN_JOB, server
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.values import FIELDS, clock, elapsed, exit_code, gpus, limit_of
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    number_of,
    read_pbs_words,
)
from headnode.apps.client.client import Client
from headnode.apps.client.connection import write_json
from headnode.apps.readable_values import local_times
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

OPTIONS = {
    **acted_on("f! F x! H! t! u a! r! i! s! n! 1! G! M! Q! q! B!"),
    **ignored("w!", "the columns have one width"),
}
_TITLES = (
    "Job id            Name             User              Time Use S Queue\n"
    "----------------  ---------------- ----------------  -------- - -----\n"
)
_BY_SIGNAL = 128
_ENDINGS = {"TIMEOUT": -29, "OUT_OF_MEMORY": -27, "NODE_FAIL": -20}  # Exit_status of what PBS itself ends


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs, or show some."""
    args = read_pbs_words("qstat", argv, OPTIONS)
    refuse_form(args, "json", "default")
    if args.has_any("QqB"):
        from headnode.apps.cli.batch_programs.qstat_queues import show_queues

        return show_queues(args, client)
    source = JobSource(client)
    rows, status = _rows(source, args)
    name = server(client)
    if args.has("f"):
        shown = {id_of(row, name): attributes(row, name, measured=bool(args.words)) for row in rows}
        sys.stdout.write(_json(shown, name) if args.text("F") == "json" else _full(shown))
    elif args.has_any("auirnsGMH"):
        sys.stdout.write(_wide(rows, name, args))
    else:
        sys.stdout.write(_table(rows, name))
    return status


def _rows(source: JobSource, args: ProgramWords) -> "tuple[list[BatchRow], int]":
    if any(not word.startswith("@") for word in args.words):
        return _named(source, args)
    users = [user for user in args.value("u").split(",") if user]
    owner = users[0] if len(users) == 1 else None
    jobs = list(source.pages(LIVING, owner=owner))
    if args.has_any("xH"):
        jobs += list(source.pages(ENDED_STATES, owner=owner, most=1))
    jobs.sort(key=lambda job: int(job["id"]))
    rows = [row for job in jobs for row in _of_job(source, job, args)]
    wanted = {
        letter for option, letters in (("r", "RSE"), ("i", "QHW")) for letter in letters if args.has(option)
    }
    rows = [row for row in rows if not wanted or state_of(row) in wanted]
    return [row for row in rows if not users or row.job["owner"] in users], 0


def _of_job(source: JobSource, job: "dict[str, Any]", args: ProgramWords) -> "list[BatchRow]":
    if job["array"] and args.has("t"):
        return [BatchRow(source, job), *rows_of(source, job, expand=True)]
    return [BatchRow(source, job)]


def _named(source: JobSource, args: ProgramWords) -> "tuple[list[BatchRow], int]":
    rows, status = list[BatchRow](), 0
    for word in args.words:
        if word.startswith("@"):
            raise ProgramRefusal(f"{word[:60]} means all jobs: leave it out, or the ids of jobs")
        job, _, rest = word.partition(".")[0].partition("[")
        number = number_of(job)
        listed = [] if number is None else source.listed([number])
        if not listed:
            sys.stderr.write(f"qstat: Unknown Job Id {word}\n")
            status = UNKNOWN_JOB
        elif listed[0]["state"] not in LIVING and not args.has_any("xH"):
            sys.stderr.write(
                f"qstat: {word} Job has finished, use -x or -H to obtain historical job information\n"
            )
            status = HISTORY
        elif element := rest.rstrip("]"):
            rows += [row for row in rows_of(source, listed[0], expand=True) if str(row.number) == element]
        else:
            rows += _of_job(source, listed[0], args)
    return rows, status


def _table(rows: "Sequence[BatchRow]", name: str) -> str:
    lines = [
        f"{id_of(row, name)[:17]:<17} {(FIELDS['name'](row) or '')[:16]:<16} {row.job['owner'][:16]:<16}  "
        f"{clock(elapsed(row), hours=True) if row.started else '0':>8} {state_of(row)} {queue_of(row):<5}\n"
        for row in rows
    ]
    return _TITLES + "".join(lines) if lines else ""


def _wide(rows: "Sequence[BatchRow]", name: str, args: ProgramWords) -> str:
    if not rows:
        return ""
    head = (
        f"\n{name}: \n{'':60}Req'd  Req'd   Elap\n"
        "Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time\n"
        "--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----\n"
    )
    lines = []
    for row in rows:
        limit = limit_of(row)
        time = "--" if limit is None else _hours(limit)
        used = _hours(elapsed(row)) if row.started else "--"
        lines.append(
            f"{id_of(row, name)[:15]:<15} {row.job['owner'][:8]:<8} {queue_of(row)[:8]:<8} "
            f"{(FIELDS['name'](row) or '')[:10]:<10} {'--':>6} {FIELDS['nodecount'](row):>3} "
            f"{FIELDS['cpus'](row):>3} {'--':>6} {time:>5} {state_of(row)} {used:>5}{_behind(row, args)}\n"
        )
    return head + "".join(lines)


def _behind(row: BatchRow, args: ProgramWords) -> str:
    """Return the nodes of a job for ``-n``, its comment for ``-s``: in its line with ``-1``, else below."""
    cells = [
        (_hosts(row) or "--") if args.has("n") else "",
        local_times(row.job["pending_reason"] or "") if args.has("s") else "",
    ]
    before = " " if args.has("1") else "\n   "
    return "".join(f"{before}{each}" for each in cells if each)


def _hours(seconds: float) -> str:
    return f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}"


def attributes(row: BatchRow, name: str, *, measured: bool = False) -> "dict[str, Any]":
    """Return the attributes of a job; groups of them are dictionaries.

    measured:  with the processor time and memory that it uses or has used
    """
    found: dict[str, Any] = {
        "Job_Name": FIELDS["name"](row),
        "Job_Owner": f"{row.job['owner']}@{name}",
        "job_state": state_of(row),
        "queue": queue_of(row),
        "server": name,
        "Account_Name": FIELDS["account"](row),
        "ctime": _date(row.job["created"]),
        "qtime": _date(row.job["submitted"] or row.job["created"]),
        "stime": _date(row.started),
        "mtime": _date(row.ended or row.started or row.job["created"]),
        "Error_Path": _path(row, "stderr", name),
        "Output_Path": _path(row, "stdout", name),
        "Priority": row.job["priority"],
        "array": "True" if row.job["array"] and row.number is None else None,
        "array_indices_submitted": row.job["array"].partition("%")[0] or None,
        "exec_host": _hosts(row),
        "Resource_List": _requested(row),
        "comment": local_times(row.job["pending_reason"] or "") or None,
    }
    if row.started is not None:
        found["resources_used"] = (_measured(row) if measured else {}) | {
            "ncpus": int(FIELDS["cpus"](row) or 1),
            "walltime": clock(elapsed(row), hours=True),
        }
    if row.ended is not None:
        found["Exit_status"] = exit_status(row)
    return {key: value for key, value in found.items() if value not in (None, "")}


def _measured(row: BatchRow) -> "dict[str, Any]":
    """Return the processor time and memory of a job; empty where they are not known."""
    from headnode.core.model.errors import Unavailable, WrongState

    if row.ended is not None:
        tasks = row.source.tasks(row.id) if row.task is None else [row.task]
        tasks = [task for task in tasks if task["user_time"] is not None]
        memory = max((task["peak_memory"] for task in tasks), default=0)
    else:
        try:
            tasks = row.usage()
        except (Unavailable, WrongState):  # its nodes are away, it is elsewhere, or it has ended meanwhile
            return {}
        memory = sum(task["peak_memory"] for task in tasks)
    time = sum(task["user_time"] + task["system_time"] for task in tasks)
    return {"cput": clock(time, hours=True), "mem": f"{memory}kb"} if tasks else {}


def exit_status(row: BatchRow) -> int:
    """Return how a job ended: its exit code, 128 and a signal, or below 0 what PBS says itself."""
    state = row.state
    if state in _ENDINGS:
        return _ENDINGS[state]
    if state == "CANCELLED":
        return _BY_SIGNAL + 15
    code, signal = exit_code(row)
    return _BY_SIGNAL + signal if signal else code


def _requested(row: BatchRow) -> "dict[str, Any]":
    limit = limit_of(row)
    found: dict[str, Any] = {
        "ncpus": int(FIELDS["cpus"](row) or 1),
        "nodect": int(FIELDS["nodecount"](row) or 1),
    }
    if count := gpus(row):
        found["ngpus"] = count
    return found if limit is None else found | {"walltime": clock(limit, hours=True)}


def _date(at: float | None) -> "str | None":
    return None if at is None else time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at))


def _path(row: BatchRow, field: str, name: str) -> "str | None":
    path = FIELDS[field](row)
    return f"{name}:{path}" if path else None


def _hosts(row: BatchRow) -> "str | None":
    from headnode.apps.cli.batch_programs.squeue import unfolded

    names = unfolded(FIELDS["nodes"](row) or "")
    return "+".join(f"{node}/0" for node in names) or None


def _full(shown: "Mapping[str, dict[str, Any]]") -> str:
    text = ""
    for job, facts in shown.items():
        text += f"Job Id: {job}\n"
        for key, value in facts.items():
            pairs = (
                [(f"{key}.{inner}", text) for inner, text in value.items()]
                if isinstance(value, dict)
                else [(key, value)]
            )
            text += "".join(f"    {pair[0]} = {pair[1]}\n" for pair in pairs)
        text += "\n"
    return text


def _json(shown: "Mapping[str, dict[str, Any]]", name: str) -> str:
    answer = {
        "timestamp": int(time.time()),
        "pbs_version": VERSION,
        "pbs_server": name,
        "Jobs": shown,
    }
    return write_json(answer) + "\n"
