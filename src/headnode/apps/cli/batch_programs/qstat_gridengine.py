"""``qstat`` of Grid Engine: as text and as XML.

Source:  Grid Engine 8.1, qstat(1), and what Grid Engine 8.1.9 prints.
"""

import sys
import time

from headnode.apps.cli.batch_programs.gridengine_rows import (
    SCHEMAS,
    element,
    is_wanted,
    job_info,
    listed,
    priority,
    queue_of,
    read_line,
    since_of,
    state_of,
    tasks_of,
)
from headnode.apps.cli.batch_programs.qsub import spans
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.values import FIELDS, clock
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, acted_on, ignored, number_of
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPTIONS = {
    **acted_on("f! ne! u s j g xml!"),
    **ignored("ext! urg! pri! ncb! help!", "the columns are always these"),
}
_HEAD = (
    "job-ID  prior   name       user         state submit/start at     queue                          slots "
    "ja-task-ID \n" + "-" * 113 + "\n"
)
REMEMBERED = 300.0  # seconds for which ended jobs are shown by ``-s z``


def run(argv: "Sequence[str]", client: Client) -> int:
    """List jobs, or show some."""
    args = read_line("qstat", argv, OPTIONS)
    if args.value("g") not in ("", "c", "d"):
        raise ProgramRefusal("-g t is not supported here; see: hn job listtasks", prefix="bare")
    if args.has("f") or args.text("g") == "c":
        from headnode.apps.cli.batch_programs.grid_hosts import show_cluster_queues, show_instances

        return show_instances(args, client) if args.has("f") else show_cluster_queues(client)
    source = JobSource(client)
    if args.has("j"):
        return _show(source, args.value("j").split(","), xml=args.has("xml"))
    rows = [row for row in _rows(source, args) if is_wanted(row, args.text("s") or "prs")]
    sys.stdout.write(_xml(rows) if args.has("xml") else _text(rows))
    return 0


def _rows(source: JobSource, args: ProgramWords) -> "list[BatchRow]":
    users = (args.text("u") or own_user()).split(",")
    owner = None if "*" in users or len(users) > 1 else users[0]
    jobs = list(source.pages(LIVING, owner=owner))
    if "z" in args.value("s"):
        since = time.time() - REMEMBERED
        ended = source.pages(ENDED_STATES, owner=owner, most=1)
        jobs += [job for job in ended if (job["ended"] or 0) >= since]
    jobs.sort(key=lambda job: int(job["id"]))
    rows = [row for job in jobs for row in rows_of(source, job, expand=args.has("g"))]
    rows.sort(key=lambda row: row.state == "PENDING")
    return [row for row in rows if owner is not None or "*" in users or row.job["owner"] in users]


def _text(rows: "Sequence[BatchRow]") -> str:
    lines = []
    for row in rows:
        when = time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(since_of(row)))
        name, owner = (FIELDS["name"](row) or "")[:10], row.job["owner"][:12]
        lines.append(
            f"{row.id:>7} {priority(row)} {name:<10} {owner:<12} {state_of(row):<5} {when} "
            f"{queue_of(row)[:30]:<30} {FIELDS['cpus'](row):>5} {tasks_of(row)[:20] or '       '}\n"
        )
    return _HEAD + "".join(lines) if lines else ""


def _xml(rows: "Sequence[BatchRow]") -> str:
    running = "".join(listed(row) for row in rows if row.state != "PENDING")
    pending = "".join(listed(row) for row in rows if row.state == "PENDING")
    return job_info(running, pending)


def _show(source: JobSource, argv: "Sequence[str]", *, xml: bool) -> int:
    """Show living jobs; one that is unknown or over makes the text form fail, as in Grid Engine."""
    ids = [number for word in argv if (number := number_of(word)) is not None]
    jobs = [job for job in source.listed(ids) if job["state"] in LIVING]
    found = {str(job["id"]) for job in jobs}
    missing = [word for word in argv if word not in found]
    if xml:
        sys.stdout.write(_unknown_xml(missing) if not jobs else _shown_xml(source, jobs))
        return 0
    if not jobs:
        raise ProgramRefusal("Following jobs do not exist: ", *missing, prefix="bare")
    for job in jobs:
        row = rows_of(source, job, expand=False)[0]
        facts = [*_facts(row), *_usage(row)]
        print("=" * 62 + "\n" + "".join(f"{name + ':':<27} {value}\n" for name, value in facts), end="")
    return 0


def _facts(row: BatchRow) -> "list[tuple[str, str]]":
    at = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(row.job["submitted"] or row.job["created"]))
    facts = [
        ("job_number", str(row.id)),
        ("submission_time", at),
        ("owner", str(row.job["owner"])),
        ("uid", FIELDS["userid"](row)),
        ("group", FIELDS["group"](row)),
        ("gid", FIELDS["groupid"](row)),
        ("sge_o_workdir", FIELDS["workdir"](row)),
        ("account", "sge"),
        ("project", FIELDS["account"](row)),
        ("job_name", FIELDS["name"](row)),
        ("stdout_path_list", f"NONE:NONE:{FIELDS['stdout'](row) or ''}"),
        ("script_file", FIELDS["command"](row)),
        ("job-array tasks", spans(row.job["array"]) if row.job["array"] else None),
    ]
    return [(name, value) for name, value in facts if value]


def _usage(row: BatchRow) -> "list[tuple[str, str]]":
    """Return what each running task of a job uses; nothing where that is not known."""
    from headnode.core.model.errors import Unavailable, WrongState

    try:
        rows = rows_of(row.source, row.job, expand=True) if row.job["array"] else [row]
        measured = [(one.number or 1, tasks) for one in rows if (tasks := one.usage())]
    except (Unavailable, WrongState):  # it waits, its nodes are away, or it is elsewhere
        return []
    return [(f"{'usage':<12}{number:>3}", _used(tasks)) for number, tasks in measured]


def _used(tasks: "Sequence[dict[str, Any]]") -> str:
    time = clock(sum(task["user_time"] + task["system_time"] for task in tasks), hours=True)
    now, peak = (sum(task[key] for task in tasks) / 1024 for key in ("memory", "peak_memory"))
    return f"cpu={time}, mem=N/A, io=N/A, vmem={now:.3f}M, maxvmem={peak:.3f}M"


def _unknown_xml(missing: "Sequence[str]") -> str:
    names = "".join(f"    {element('ST_name', name)}\n" for name in missing)
    return f"<?xml version='1.0'?>\n<unknown_jobs >\n{names}</unknown_jobs>\n"


def _shown_xml(source: JobSource, jobs: "Sequence[dict[str, object]]") -> str:
    names = {
        "job_number": "JB_job_number",
        "owner": "JB_owner",
        "uid": "JB_uid",
        "group": "JB_group",
        "gid": "JB_gid",
        "project": "JB_project",
        "job_name": "JB_job_name",
        "script_file": "JB_script_file",
    }
    elements = ""
    for job in jobs:
        row = rows_of(source, job, expand=False)[0]
        facts = [(names[name], value) for name, value in _facts(row) if name in names]
        at = str(int(row.job["submitted"] or row.job["created"]))
        facts.insert(1, ("JB_submission_time", at))
        inner = "".join(f"      {element(*fact)}\n" for fact in facts)
        elements += f"    <element>\n{inner}    </element>\n"
    return (
        f"<?xml version='1.0'?>\n<detailed_job_info  {SCHEMAS}/detailed_job_info.xsd\">\n"
        f"  <djob_info>\n{elements}  </djob_info>\n</detailed_job_info>\n"
    )
