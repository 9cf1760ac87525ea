"""What rows of jobs show in the fields of ``bjobs -o``.

Source:  IBM Spectrum LSF 10.1, bjobs(1), "-o".
"""

import time

from headnode.apps.cli.batch_programs.lsf_rows import name_of, queue_of, state_of
from headnode.apps.cli.batch_programs.rows import BatchRow
from headnode.apps.cli.batch_programs.squeue import unfolded
from headnode.apps.cli.batch_programs.values import (
    FIELDS,
    elapsed,
    exit_code,
    expected_end,
    expected_start,
    limit_of,
    nodes,
    processors,
    spec,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def date(at: float | None) -> str:
    """Return a date as LSF writes it in lists; empty without one."""
    return "" if at is None else time.strftime("%b %e %H:%M", time.localtime(at))


def hosts_of(row: BatchRow) -> str:
    """Return where it runs or ran, with its processors: ``4*n1``; of several nodes ``4*n1:2*n2``."""
    if row.started is None or not (names := unfolded(nodes(row))):
        return ""
    if len(names) == 1:
        return _counted(names[0], processors(row))
    held = {each["node"]: int(each["processors"]) for each in row.source.detail(row.id)["allocation"]}
    return ":".join(_counted(name, held.get(name, 1)) for name in names)


def _counted(name: str, count: int) -> str:
    return name if count == 1 else f"{count}*{name}"


def cpu_used(row: BatchRow) -> float:
    """Return the processor time that it has used, in seconds."""
    course = row.course if row.started is not None else {}
    return sum(float(course.get(kind) or 0) for kind in ("user_time", "system_time"))


def status_of(row: BatchRow) -> str:
    """Return the exit code; that of a signal is above 128; empty if it ended well or has not ended."""
    code, number = exit_code(row)
    return str(128 + number) if number else str(code) if code else ""


_REASONS = {
    "TIMEOUT": "TERM_RUNLIMIT: job killed after reaching LSF run time limit",
    "OUT_OF_MEMORY": "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
    "DEADLINE": "TERM_DEADLINE: job killed after deadline expires",
    "NODE_FAIL": "TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF",
}


def exit_reason(row: BatchRow) -> str:
    """Return why it was ended, in LSF's words; empty if its program ended by itself."""
    state = row.state
    if state_of(row) != "EXIT" or (state == "FAILED" and status_of(row)):
        return ""
    if state == "CANCELLED":
        by_owner = (row.task or row.job)["message"].endswith(f"canceled by {row.job['owner']}")
        return _KILLED[by_owner]
    return _REASONS.get(state) or f"TERM_UNKNOWN: {row.course['message']}"


_KILLED = ("TERM_ADMIN: job killed by root or LSF administrator", "TERM_OWNER: job killed by owner")


def why_it_waits(row: BatchRow) -> str:
    """Return the reason for which it waits, in a sentence."""
    if state_of(row) not in ("PEND", "PSUSP"):
        return ""
    reason = (row.task or {}).get("pending_reason") or row.job["pending_reason"]
    if not reason and (most := row.job["array"].partition("%")[2]):
        reason = f"at most {most} elements of its array run at once"
    return str(reason)


_PLAIN = "#!/bin/sh\n"


def command_of(row: BatchRow) -> str:
    """Return the command line that was submitted; of a script its name and arguments."""
    tasks = spec(row).get("tasks") or [{}]
    script = str(tasks[0].get("script") or "")
    line = script.removeprefix(_PLAIN).rstrip("\n")
    return line if script.startswith(_PLAIN) and "\n" not in line else str(row.job["command"])


def _memory(row: BatchRow) -> str:
    kilobytes = int(row.course.get("peak_memory") or 0) if row.started is not None else 0
    return (
        f"{kilobytes / 1024:.0f} Mbytes" if kilobytes >= 1024 else f"{kilobytes} Kbytes" if kilobytes else ""
    )


def _left(row: BatchRow) -> str:
    limit = limit_of(row)
    if limit is None or state_of(row) != "RUN":
        return ""
    minutes = int(max(0.0, limit - elapsed(row)) // 60)
    return f"{minutes // 60}:{minutes % 60} L"


def _finish(row: BatchRow) -> str:
    at = expected_end(row)
    return date(at) + (" L" if at is not None and row.ended is None else "")


def _limit(row: BatchRow) -> str:
    limit = limit_of(row)
    return "" if limit is None else f"{limit / 60:.1f}"


def _estimated(row: BatchRow) -> str:
    return date(expected_start(row)) if row.started is None else ""


def _field(name: str) -> "Callable[[BatchRow], str]":
    return lambda row: str(FIELDS[name](row) or "")


def _described(key: str) -> "Callable[[BatchRow], str]":
    return lambda row: str(spec(row).get(key) or "")


_FIELDS: "Mapping[str, tuple[int, Callable[[BatchRow], str]]]" = {
    "jobid id": (7, lambda row: str(row.id)),
    "jobindex": (8, lambda row: str(row.number or 0)),
    "stat": (5, state_of),
    "user": (7, lambda row: str(row.job["owner"])),
    "user_group ugroup": (15, _field("group")),
    "queue": (10, queue_of),
    "job_name name": (10, name_of),
    "job_description description": (17, _described("description")),
    "proj_name proj project": (11, lambda row: str(row.job["project"])),
    "application app": (13, lambda _: ""),
    "service_class sla": (13, lambda _: ""),
    "job_group group": (10, lambda row: str(row.job["group"])),
    "job_priority priority": (12, lambda row: str(row.job["priority"])),
    "rsvid": (40, _described("reservation")),
    "esub": (20, lambda _: ""),
    "dependency": (15, _field("dependency")),
    "pend_reason": (11, why_it_waits),
    "command cmd": (15, command_of),
    "pre_exec_command pre_cmd": (16, lambda _: ""),
    "post_exec_command post_cmd": (17, lambda _: ""),
    "exit_reason": (50, exit_reason),
    "kill_reason": (50, lambda _: ""),
    "suspend_reason": (50, lambda _: ""),
    "resume_reason": (50, lambda _: ""),
    "exit_code": (10, status_of),
    "from_host": (11, lambda row: str(row.source.detail(row.id)["submit_host"])),
    "first_host": (11, lambda row: str(FIELDS["batchhost"](row) or "")),
    "exec_host": (11, hosts_of),
    "nexec_host nexec": (10, lambda row: str(len(unfolded(nodes(row))) if row.started is not None else 0)),
    "submit_time submit": (15, lambda row: date(row.job["submitted"] or row.job["created"])),
    "start_time start": (15, lambda row: date(row.started)),
    "estimated_start_time estart_time": (20, _estimated),
    "specified_start_time sstart_time": (20, lambda row: date(row.source.detail(row.id).get("hold_until"))),
    "specified_terminate_time sterminate_time": (24, lambda row: date(spec(row).get("end_by"))),
    "time_left": (11, _left),
    "finish_time finish": (16, _finish),
    "cpu_used": (10, lambda row: f"{cpu_used(row):.1f} second(s)"),
    "run_time": (15, lambda row: f"{elapsed(row):.0f} second(s)"),
    "runtimelimit": (12, _limit),
    "slots": (5, lambda row: str(processors(row))),
    "nreq_slot": (10, lambda row: str(processors(row))),
    "nalloc_slot": (10, lambda row: str(processors(row) if row.started is not None else 0)),
    "alloc_slot": (20, hosts_of),
    "ncpus": (10, lambda row: str(processors(row))),
    "mem": (10, _memory),
    "max_mem": (10, _memory),
    "input_file": (10, _field("stdin")),
    "output_file": (11, _field("stdout")),
    "error_file": (10, _field("stderr")),
    "sub_cwd": (10, _field("workdir")),
    "exec_cwd": (10, _field("workdir")),
}
"""A field, with its short names -> its usual width, and what it shows of a row."""
BJOBS_FIELDS = {names.split()[0]: field for names, field in _FIELDS.items()}
WHOLE_NAMES = {name: names.split()[0] for names in _FIELDS for name in names.split()}
