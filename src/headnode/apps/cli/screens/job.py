"""A job with all that is known of it, and what its owner asked for in the words of the native form."""

from headnode.apps.readable_values import (
    counted,
    duration,
    elapsed,
    instant,
    limits,
    local_times,
    measured_counts,
    memory,
    time_limit,
    unit_word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Spec = Mapping[str, Any]

    Job = Mapping[str, Any]

STAGING = "staging in"  # the head's word for a job that only waits for its files
_TITLES = ("name", "project", "priority", "unit", "minimum", "maximum", "run_time", "signal", "tasks")
_TIMES = ("hold_until", "end_by")
_SPANS = ("run_time", "minimum_run_time", "switches_wait")
_RECEIVERS = {
    "all": "all processes",
    "program": "the first process of each task",
    "steps": "the steps of srun",
}
_MAX_TASKS = 4  # of an alternative, told one by one


def requested(spec: "Spec") -> dict[str, str]:
    """Return what else the owner asked for, each wish under its name."""
    return {_title(name): option_in_words(name, value) for name, value in spec.items() if name not in _TITLES}


def _title(name: str) -> str:
    return name.replace("_", " ").title().replace("Gpu", "GPU")


def option_in_words(name: str, value: "Any") -> str:
    """Return the value of an option of a job or a task in words; "" for none."""
    if value is None:
        return ""
    if name in _SPANS:
        return time_limit(value)
    if name == "alternatives":
        return "\n".join(f"{number}: {_alternative(one)}" for number, one in enumerate(value, start=1))
    if name in _TIMES:
        return instant(value)
    if name == "valid_exit_codes":
        return ", ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in value)
    return _plain(value)


def _alternative(spec: "Spec") -> str:
    """Return what an alternative says in one line; what it does not say is as in the job."""
    tasks = [_in_one_line(task) for task in spec.get("tasks", ())]
    parts = [_in_one_line({name: value for name, value in spec.items() if name != "tasks"})]
    if len(tasks) == 1:
        parts += tasks
    else:
        parts += [f"task {number}: {text}" for number, text in enumerate(tasks[:_MAX_TASKS], start=1) if text]
        parts += [counted(len(tasks) - _MAX_TASKS, "more task")] if len(tasks) > _MAX_TASKS else []
    return "; ".join(text for text in parts if text) or "as the job"


def _in_one_line(spec: "Spec") -> str:
    parts = [f"size {limits(spec)}"] if "minimum" in spec or "maximum" in spec else []
    for name, value in spec.items():
        if name == "run_time":
            parts.append(f"run time {time_limit(value)}")
        elif isinstance(value, dict):
            parts += [f"{inner.replace('_', ' ')} {_plain(item)}" for inner, item in value.items()]
        elif name not in ("minimum", "maximum"):
            parts.append(f"{name.replace('_', ' ')} {_plain(value)}")
    return ", ".join(parts)


def _plain(value: "Any") -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}={_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_choice(item) for item in value)
    return "" if value is None else str(value)


def _choice(item: "Any") -> str:
    """Return one thing of a list; a list in a list is a choice, as ``/feature:big|huge`` writes it."""
    return "|".join(map(str, item)) if isinstance(item, list) else _plain(item).replace("\n", " ")


WIDTHS = {"Id": 6, "Owner": 10, "Name": 16, "State": 10, "Priority": 8}


def row(job: "Job") -> dict[str, str]:
    """Return a job's record in a list of jobs, with the keys that scripts read."""
    tasks = job["tasks"]
    return {
        "Id": str(job["id"]),
        "Owner": job["owner"],
        "Name": job["name"],
        "State": job["state"],
        "Priority": job["priority_name"],
        "Resource Request": request(job),
        "Tasks": f"{tasks['finished']}/{tasks['total']}",
        **_filled(
            {"Failed Tasks": str(tasks["failed"] or ""), "Canceled Tasks": str(tasks["canceled"] or "")}
        ),
        "Submit Time": instant(job["submitted"]),
        **_filled({"Expected Start": instant((job.get("expected") or {}).get("p50"))}),
        **_filled({"Start Time": instant(job["started"]), "End Time": instant(job["ended"])}),
        **_filled({"Run Time": time_limit(job["run_time"]), "Nodes": job.get("nodes") or ""}),
        **_filled({"Command": job.get("command") or ""}),
        "Remark": local_times(job["pending_reason"] or "")
        or _end_of(job)
        or job.get("progress_message")
        or "",
    }


def request(job: "Job") -> str:
    """Return what a job asked for, such as ``2-4 processors``."""
    least = limits(job)
    return f"{least} {unit_word(job['unit'])}" + ("" if least == "1" else "s")


def view(job: "Job", *, detailed: bool = False, history: bool = False) -> dict[str, str]:
    """Return every field of one job; empty values are left out, but for the keys that scripts read."""
    fields = {
        "Id": str(job["id"]),
        "Name": job["name"],
        "Owner": job["owner"],
        "State": job["state"],
        **_filled({"State Detail": STAGING if job.get("state_detail") == STAGING else ""}),
        "Priority": job["priority_name"],
        **_filled(_course(job)),
        **_filled(requested(job.get("spec") or {}) if detailed else {}),
    }
    if history:
        fields["History"] = "\n".join(
            f"{instant(entry['at'])}  {local_times(entry['text'])}" for entry in job["history"]
        )
    return fields


def _at_resource(job: "Mapping[str, Any]") -> str:
    """Return the resource that a job is for, and its ids there."""
    ids = job.get("resource_jobs") or []
    there = f" (there {', '.join(ids[:5])}{' and others' if len(ids) > 5 else ''})" if ids else ""
    return f"{job.get('resource') or ''}{there}"


def _origin(job: "Mapping[str, Any]") -> dict[str, str]:
    """Return when and from where a job came, and the recurring job that made it."""
    made_by = job.get("recurring")
    return {
        "Create Time": instant(job["created"]),
        "Submit Time": instant(job["submitted"]),
        "Submit Host": job.get("submit_host") or "",
        "Recurring Job": f"{made_by['name']} ({made_by['number']}), for {instant(made_by['time'])}"
        if made_by
        else "",
    }


def _course(job: "Job") -> dict[str, str]:
    ended = job["ended"]
    took = elapsed(job["started"], ended)
    return {
        "Project": job["project"],
        "Group": job.get("group") or "",
        "Resource Request": request(job),
        "Alternative": alternative(job),
        "Allocated Processors": str(job["allocated"] or ""),
        **_nodes(job),
        **_limit(job),
        **_origin(job),
        **expected(job.get("expected")),
        "Start Time": instant(job["started"]),
        "End Time": instant(ended),
        "Elapsed": duration(took) if took is not None else "",
        **_delivered(job.get("usage"), took),
        "Tasks": tasks_in_words(job["tasks"]),
        "Progress": f"{job['progress']}%" if job.get("progress") is not None else "",
        "Progress Message": job.get("progress_message") or "",
        "Start Count": str(job.get("starts") or ""),
        "Requeue Count": str(job.get("requeues") or ""),
        "Reservation": job.get("reservation") or "",
        **_bank(job.get("bank") or {}),
        "Resource": _at_resource(job),
        "Deadline": instant(job.get("end_by")),
        "Holds": "\n".join(_hold(hold) for hold in job.get("holds") or ()),
        "Suspended Since": instant(job.get("suspended_since")),
        "Suspended For": duration(job["suspended_for"]) if job.get("suspended_for") else "",
        ("Depends On Any Of" if job.get("any_dependency") else "Depends On"): "\n".join(
            _dependency(one) for one in job.get("dependencies") or ()
        ),
        "Needed By": "\n".join(_dependency(one) for one in job.get("dependents") or ()),
        "Prolog On": ", ".join(job.get("preparing") or ()),
        "Epilog On": ", ".join(job.get("cleaning") or ()),
        "Backfilled": "True" if job.get("backfilled") else "",
        "Share": f"{counted(job['share'], 'processor')} in balanced mode" if job.get("share") else "",
        "Pending Reason": local_times(job["pending_reason"] or ""),
        "Message": _end_of(job),
    }


def _end_of(job: "Job") -> str:
    """Return the message of a job; it says so if no task of it ever ran."""
    if job["state"] == "Canceled" and job["started"] is None:
        return f"it never ran: {job['message'] or 'canceled'}"
    return str(job["message"] or "")


def _limit(job: "Job") -> dict[str, str]:
    """Return the run time limit of a job, and the signal that it gets before."""
    fields = {"Run Time": time_limit(job["run_time"])}
    if text := (job.get("spec") or {}).get("signal"):
        from headnode.core.model.signals import read_limit_signal, signal_name

        asked = read_limit_signal(text)
        receiver = _RECEIVERS[asked.target]
        fields["Signal"] = f"{signal_name(asked.number)}, {asked.before:g} s before the limit, to {receiver}"
    return fields


def _bank(answer: "Mapping[str, Any]") -> dict[str, str]:
    """Return what the bank has reserved and charged for a job."""
    amounts = {name: answer.get(name.lower()) for name in ("Reserved", "Charged")}
    texts = {name: "" if amount is None else f"{amount:.15g}" for name, amount in amounts.items()}
    return {"Account": answer.get("account") or "", **texts, "Due At Bank": answer.get("due") or ""}


def alternative(job: "Job") -> str:
    """Return which request a job was given that would do with several; empty for all other jobs."""
    option, others = job.get("alternative"), job.get("alternatives") or 0
    if option is None or not others:
        return ""
    return f"{option} of {others}" if option else "none: it has its first request"


def _hold(hold: "Mapping[str, Any]") -> str:
    by = f" by {hold['by']}" if hold["by"] else ""
    why = f": {hold['message']}" if hold["message"] else ""
    return f"{hold['name']}, set{by} at {instant(hold['at'])}{why}"


def _dependency(dependency: "Mapping[str, Any]") -> str:
    """Return a job that one depends on, or that depends on it: ``job 12 "prepare", OnSuccess: Running``."""
    name = f' "{dependency["name"]}"' if dependency["name"] else ""
    waits = ", still waited for" if dependency.get("status") == "open" else ""
    number, delay = dependency.get("element"), dependency.get("delay")
    element = "" if number is None else f"element {number} of "
    later = f" and {delay / 60:g} minutes" if delay else ""
    state = dependency["state"] or "unknown"
    return f"{element}job {dependency['job']}{name}, {dependency['condition']}{later}: {state}{waits}"


def _delivered(used: "Mapping[str, Any] | None", took: float | None) -> dict[str, str]:
    """Return what a job was given and used; memory is that of one task.

    `took` is the time of its last run in seconds: all runs together are told when they took another time.
    """
    if not used:
        return {}
    wall = used["wall_time"]
    return {
        "Used Nodes": ", ".join(used["nodes"]),
        "Used Processors": str(used["processors"]),
        "Processor Time": f"{used['cpu_time']:.1f} s" if used["cpu_time"] else "",
        "Wall Time": duration(wall) if took is not None and abs(wall - took) >= 1 else "",
        "Peak Memory": memory(used["peak_memory"] or None),
        "Average Memory": memory(used["average_memory"] or None),
        **measured_counts(used),
        "Exit Code": "" if used["exit_code"] is None else str(used["exit_code"]),
    }


def expected(forecast: "Mapping[str, Any] | None") -> dict[str, str]:
    """Return the predicted start of a job, if there is one."""
    if not forecast:
        return {}
    by_limits = "by run time limits, if no job gets ahead of it"
    return {
        "Expected Start": instant(forecast["p50"]),
        "Expected By": f"{instant(forecast['p90'])}, in 9 of 10 cases" if forecast["p90"] else "",
        "Promised Start": f"{instant(forecast['promise'])}, {by_limits}" if forecast["promise"] else "",
        "Files Expected": f"{instant(files)}, at the rate so far"
        if (files := forecast.get("files_by"))
        else "",
    }


def _nodes(job: "Job") -> dict[str, str]:
    """Return the nodes that it holds, or those on which its processes stand still."""
    name = "Suspended On" if job.get("suspended_since") else "Allocated Nodes"
    return {name: _places(job.get("allocation") or ())}


def _places(allocation: "Any") -> str:
    return ", ".join(f"{share['node']} ({len(share['processors'])})" for share in allocation)


def tasks_in_words(tasks: "Mapping[str, int]") -> str:
    """Return the counts of a job's tasks, without those that are zero."""
    states = ("queued", "running", "finished", "failed", "canceled")
    parts = [f"{tasks[state]} {state}" for state in states if tasks[state]]
    return f"{tasks['total']} total" + (f": {', '.join(parts)}" if parts else "")


def _filled(fields: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in fields.items() if value}


def ending(job: "Job") -> str:
    """Return how a job ended, in one sentence for the client that waited for it."""
    tasks = job["tasks"]
    parts = [
        counted(tasks[state], "task") + f" {state}"
        for state in ("finished", "failed", "canceled")
        if tasks[state]
    ]
    name = f" {job['name']!r}" if job["name"] else ""
    sentence = f"Job {job['id']}{name} {_verb(job['state'])}" + (f": {', '.join(parts)}" if parts else "")
    if job["started"] and job["ended"]:
        took = elapsed(job["started"], job["ended"])
        sentence += "" if took is None else f", in {duration(took)}"
    return sentence + (f"; {job['message']}" if job["message"] and job["state"] != "Finished" else "")


def _verb(state: str) -> str:
    return "was canceled" if state == "Canceled" else state.lower()
