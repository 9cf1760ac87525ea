"""Why a job is not running, and when it will: the page of ``hn job explain``."""
# ruff: noqa: ARG001 (every piece of advice is asked the same way)

from textwrap import wrap

from headnode.apps.cli.screens.job import ending, request, tasks_in_words
from headnode.apps.cli.sheet import printable
from headnode.apps.cli.words import counted, instant, run_time, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Told = Mapping[str, Any]

NARROW, WIDE = 40, 100  # columns a page keeps to
OVER = ("Finished", "Failed", "Canceled")
FAILED_PARENT = ("which is failed", "which is canceled")  # the head's words


def page(told: "Told", job: "Told", *, now: float, width: int = WIDE) -> str:
    """Return the page: what the job is, what it waits for, when it may start, what can be done.

    `told` is the head's explanation, `job` the job object; `now` in seconds since 1970.
    """
    width = max(NARROW, min(width, WIDE))
    blocks = [_headline(told, job, now), _facts(told, job, now)]
    reasons = told["reasons"]
    blocks += [_section("Why it waits", [one["text"] for one in reasons if not _of_node(one)], width)]
    blocks += [_nodes([one for one in reasons if _of_node(one)], width)]
    blocks += [_section("Tasks that wait", _tasks(told["tasks"]), width)]
    blocks += [_section("What you can do", _advice(told, job), width)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _headline(told: "Told", job: "Told", now: float) -> str:
    name = f' "{printable(job["name"])}"' if job["name"] else ""
    who = f"Job {told['job']}{name} of {job['owner']}"
    state = job["state"]
    if state in OVER:
        return printable(ending(job)) + "."
    if state == "Not submitted":
        return f"{who} has not been submitted."
    if state == "Running":
        since = span(now - job["started"]) if job["started"] else "now"
        return f"{who} has been running for {since}."
    return f"{who} is {state.lower()}{_when(told, now)}."


def _when(told: "Told", now: float) -> str:
    if told["not_before"] is None:
        return ""
    wait = told["not_before"] - now
    return " and should start at any moment" if wait < 1 else f" and should start in {span(wait)}"


def _facts(told: "Told", job: "Told", now: float) -> str:
    facts = {
        "asks for": f"{request(job)}, run time {_limit(job['run_time'])}, priority {job['priority_name']}",
        "submitted": _ago(job["submitted"], now),
        "turn": _turn(told, job),
        "expected": _expected(told, job),
        "holds": counted(job["allocated"], "processor") if job["allocated"] else "",
        "tasks": tasks_in_words(job["tasks"]) if job["tasks"]["total"] else "none",
    }
    return "\n".join(f"  {key:<10} {value}" for key, value in facts.items() if value)


def _limit(seconds: float | None) -> str:
    return "without limit" if seconds is None else f"{run_time(seconds)} ({span(seconds)})"


def _ago(at: float | None, now: float) -> str:
    return f"{instant(at)}, {span(max(0.0, now - at))} ago" if at else ""


def _turn(told: "Told", job: "Told") -> str:
    if job["state"] != "Queued":
        return ""
    ahead: int = told["ahead"]
    return f"{counted(ahead, 'job')} ahead of it in the queue" if ahead else "first in the queue"


def _expected(told: "Told", job: "Told") -> str:
    if job["state"] != "Queued":
        return ""
    if told["not_before"] is None:
        return "no start can be promised yet"
    return f"{instant(told['not_before'])} or sooner, if running jobs end by their limits"


def _section(title: str, points: "Iterable[str]", width: int) -> str:
    """Return a heading with its points; nothing when there are none."""
    lines = [
        line
        for point in points
        for line in wrap(printable(point), width, initial_indent="  - ", subsequent_indent="    ")
    ]
    return "\n".join([title, *lines]) if lines else ""


def _of_node(reason: "Told") -> bool:
    return bool(reason["why"] == "node" and reason.get("what"))


def _nodes(reasons: "Iterable[Told]", width: int) -> str:
    """Return the nodes with why each is out; those that are out for the same reason share a line."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        alike.setdefault(_without(reason["text"], reason["what"]), []).append(reason["what"])
    if not alike:
        return ""
    rows = [(printable(_together(nodes)), text) for text, nodes in alike.items()]
    column = max(len(names) for names, _ in rows)
    lines = []
    for names, text in rows:
        lead = f"  {names:<{column}}  "
        lines += wrap(
            printable(text),
            max(width, len(lead) + 20),
            initial_indent=lead,
            subsequent_indent=" " * len(lead),
        )
    return "\n".join(["Node by node", *lines])


def _without(text: str, node: str) -> str:
    """Return the reason without the name of its node in front, so that equal ones are seen to be equal."""
    for start in (f"node {node!r}", f"node {node}", repr(node), node):
        if text.startswith(start) and not text[len(start) : len(start) + 1].isalnum():
            return text[len(start) :].lstrip(" :,")
    return text


def _together(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _tasks(tasks: "Iterable[Told]") -> list[str]:
    points = []
    for task in tasks:
        texts = "; ".join(reason["text"] for reason in task["reasons"])
        points.append(f"{_which(task)}: {texts or 'waits for its turn'}")
    return points


def _which(task: "Told") -> str:
    """Return the task and how many of its instances wait, where the head says so."""
    name = f' "{task["name"]}"' if task.get("name") else ""
    waiting = task.get("waiting", 1)
    return f"task {task['task']}{name}" + (f", {waiting} instances" if waiting > 1 else "")


def _advice(told: "Told", job: "Told") -> list[str]:
    """Return what the reader can do, in the order of the reasons, each once."""
    if job["state"] == "Not submitted":
        return [f"submit it: hn job submit /id:{told['job']}"]
    if job["state"] in OVER:
        return [] if job["state"] == "Finished" else [f"run it again: hn job requeue {told['job']}"]
    kinds = dict.fromkeys(reason["why"] for reason in told["reasons"])
    return [point for kind in kinds if kind in _ADVICE for point in _ADVICE[kind](told, job)]


def _about_size(told: "Told", job: "Told") -> list[str]:
    if (job["minimum"] or 0) <= 1:
        return []
    option = {"node": "numnodes", "socket": "numsockets"}.get(job["unit"], "numprocessors")
    example = f"hn job modify {told['job']} /{option}:1-{job['maximum'] or job['minimum']}"
    return [f"let it start with fewer {job['unit']}s: {example}"]


def _about_time(told: "Told", job: "Told") -> list[str]:
    change = f"hn job modify {told['job']} /runtime:"
    if job["run_time"] is None:
        return [f"give it a run time limit; only then may it start in a gap before others: {change}0:30"]
    return [f"a shorter run time limit may fit into a gap: {change}{run_time(job['run_time'] / 2)}"]


def _about_hold(told: "Told", job: "Told") -> list[str]:
    return [f"lift the hold: hn job modify {told['job']} /holduntil:"]


def _about_parents(told: "Told", job: "Told") -> list[str]:
    named = [
        reason["what"] for reason in told["reasons"] if reason["why"] == "dependency" and reason.get("what")
    ]
    over = [parent for parent in named if any(word in _text_about(told, parent) for word in FAILED_PARENT)]
    return [
        f"run job {parent} again: hn job requeue {parent}"
        if parent in over
        else f"see what job {parent} waits for: hn job explain {parent}"
        for parent in named[:3]
    ]


def _text_about(told: "Told", parent: str) -> str:
    return next((reason["text"] for reason in told["reasons"] if reason.get("what") == parent), "")


def _about_nodes(told: "Told", job: "Told") -> list[str]:
    return ["see the nodes: hn node list"]


def _about_fit(told: "Told", job: "Told") -> list[str]:
    return [f"ask for what the nodes have (hn node list), then: hn job modify {told['job']} ..."]


_ADVICE = {
    "processors": _about_size,
    "reservation": _about_time,
    "hold": _about_hold,
    "dependency": _about_parents,
    "node": _about_nodes,
    "never-fits": _about_fit,
}
