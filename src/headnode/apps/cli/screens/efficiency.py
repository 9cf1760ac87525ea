"""What jobs used of what they held and requested: one job in words, several as a table with totals."""

from headnode.apps.readable_values import counted, duration, memory, short_duration, time_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Job = Mapping[str, Any]

COLUMNS = ("Id", "Name", "Owner", "State", "Cores", "Elapsed", "CPU", "Memory", "Time", "Unused")
WIDE = (
    *(
        "Id",
        "Name",
        "Owner",
        "Project",
        "State",
        "Cores",
        "Elapsed",
        "Limit",
        "CPU Time",
        "Peak",
        "Requested",
    ),
    *("CPU", "Memory", "Time", "Unused"),
)
RIGHT = (
    *("Cores", "Elapsed", "Limit", "CPU Time", "Peak", "Requested"),
    *("CPU", "Memory", "Time", "Unused"),
)
MARGIN_IN_WORDS = "1.5 times what was used, rounded up"
NOTHING = "-"


def percent(share: float | None) -> str:
    """Write a share of 1; ``-`` if it is not known.

    >>> percent(0.123), percent(0.0004), percent(1.0), percent(None)
    ('12%', '<1%', '100%', '-')
    """
    if share is None:
        return NOTHING
    return "<1%" if 0 < share < 0.005 else f"{100 * share:.0f}%"


def hours(seconds: float | None) -> str:
    """Write processor seconds as hours; ``-`` if they are not known.

    >>> hours(5400.0), hours(36.0), hours(1.0), hours(0.0), hours(None)
    ('1.5h', '0.01h', '<0.01h', '0.0h', '-')
    """
    if seconds is None:
        return NOTHING
    many = seconds / 3600
    if 0 < many < 0.005:
        return "<0.01h"
    return f"{many:.1f}h" if many >= 1 or not many else f"{many:.2f}h"


def cells(job: "Job") -> dict[str, str]:
    """Return a job's line of the table."""
    used, requested = job["processor_time"], _requested(job)
    return {
        "Id": str(job["id"]),
        "Name": job["name"] or job["command"],
        "Owner": job["owner"],
        "Project": job["project"],
        "State": job["state"],
        "Cores": str(job["processors"] or NOTHING),
        "Elapsed": short_duration(job["wall_time"]) if job["processors"] else NOTHING,
        "Limit": time_limit(job["run_time_limit"]),
        "CPU Time": NOTHING if used is None else short_duration(used),
        "Peak": memory(job["peak_memory"]) or NOTHING,
        "Requested": memory(requested) or NOTHING,
        "CPU": percent(job["processor_share"]),
        "Memory": percent(job["memory_share"]),
        "Time": percent(job["run_time_share"]),
        "Unused": hours(job["unused"]),
    }


def _requested(job: "Job") -> int | None:
    """Return the memory that the task with the largest peak requested, in kB; None if that is not known."""
    if job["memory_share"] is None:
        return None
    each = (job["process_memory"] or 0) * (job["task_processors"] or 0)
    return 1024 * (each + (job["node_memory"] or 0))


def by_waste(job: "Job") -> tuple[bool, float, int]:
    """Return the key that sorts jobs: the most unused processor time first, the unmeasured last."""
    unused = job["unused"]
    return unused is None, -(unused or 0.0), -job["id"]


def view(job: "Job") -> dict[str, str]:
    """Return what one job used, and what to request next time."""
    fields = {
        "Id": str(job["id"]),
        "Name": job["name"],
        "Owner": job["owner"],
        "State": job["state"] + (", so far: tasks that still run are not counted" if job["so_far"] else ""),
        "Processors": _processors(job),
        "Memory": _memory(job),
        "Run Time": _run_time(job),
        "GPUs": f"{job['gpus']} held; their use is not measured" if job["gpus"] else "",
    }
    return {key: value for key, value in fields.items() if value} | {"Next Time": next_time(job)}


def _processors(job: "Job") -> str:
    held, used = job["processors"], job["processor_time"]
    if not held:
        return "none held"
    exclusive = "; exclusive: all processors of its nodes" if job["exclusive"] else ""
    if used is None or not job["held_time"]:
        unknown = "no task has ended yet" if job["so_far"] else "their use was not measured"
        return f"{held} held; {unknown}{exclusive}"
    times = f"{duration(used)} of {duration(job['held_time'])} processor time"
    return f"{percent(job['processor_share'])}: {times} on {counted(held, 'processor')}{exclusive}"


def _memory(job: "Job") -> str:
    peak, each, processors = job["peak_memory"], job["process_memory"], job["task_processors"]
    if peak is None:
        return "not measured" if job["processors"] and not job["so_far"] else ""
    text = f"{memory(peak)} at most in one task"
    if not each and not job["node_memory"]:
        return f"{text}; none was requested"
    if job["memory_share"] is None and not each:
        return f"{text}; {job['node_memory']} MB were requested on each node"
    if job["memory_share"] is None:
        return f"{text}; {each} MB were requested for each processor, and the size of that task is not known"
    per_processor = f" ({each} MB for each of {processors} processors)" if each and processors > 1 else ""
    return f"{percent(job['memory_share'])}: {text}, {memory(_requested(job))} requested{per_processor}"


def _run_time(job: "Job") -> str:
    if not job["processors"]:
        return ""
    took, limit = duration(job["run_time"]), job["run_time_limit"]
    if limit is None:
        return f"{took}; it had no limit"
    if job["run_time_share"] is None:
        return f"{took} of {duration(limit)}"
    return f"{percent(job['run_time_share'])}: {took} of {duration(limit)}"


def next_time(job: "Job") -> str:
    """Return the options of a smaller request, or why there is none."""
    smaller = job["suggestion"]
    if smaller is None:
        if why := job["no_suggestion"]:
            return f"no smaller request is suggested: {why}"
        return "the same request; a smaller one would save little"
    options = []
    if smaller["processors"] is not None:
        options.append(f"-n {smaller['processors']}")
    if smaller["run_time"] is not None:
        options.append(f"-t {time_limit(smaller['run_time'])}")
    if smaller["process_memory"] is not None:
        options.append(f"--estimatedprocessmemory {smaller['process_memory']}")
    kept = "; an exclusive job cannot request fewer processors" if job["exclusive"] else ""
    return f"{' '.join(options)} ({MARGIN_IN_WORDS}{kept})"


def totals(jobs: "Sequence[Job]") -> "list[dict[str, Any]]":
    """Return the sums of each user over jobs with measured processor time, the most unused first."""
    sums: dict[str, dict[str, Any]] = {}
    for job in jobs:
        one = sums.setdefault(
            job["owner"],
            {"owner": job["owner"], "jobs": 0, "held_time": 0.0, "processor_time": 0.0, "unused": 0.0},
        )
        one["jobs"] += 1
        if job["unused"] is not None:
            for key in ("held_time", "processor_time", "unused"):
                one[key] += job[key]
    for one in sums.values():
        one["processor_share"] = one["processor_time"] / one["held_time"] if one["held_time"] else None
    return sorted(sums.values(), key=lambda one: (-one["unused"], one["owner"]))


def totals_in_words(sums: "Sequence[Mapping[str, Any]]") -> "list[str]":
    """Return a line for each user; nothing if there is one only."""
    return [
        f"{one['owner']}: {counted(one['jobs'], 'job')}, {percent(one['processor_share'])} of "
        f"{hours(one['held_time'])} used, {hours(one['unused'])} unused"
        for one in (sums if len(sums) > 1 else ())
    ]
