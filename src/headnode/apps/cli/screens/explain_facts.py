"""The facts of an explanation (request, queue position, start, nodes), and lines that keep to the width."""

from textwrap import wrap

from headnode.apps.cli.screens.job import request, tasks_in_words
from headnode.apps.cli.table import printable
from headnode.apps.readable_values import counted, duration, instant, local_times
from headnode.core.model.node import natural_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    HeadAnswer = Mapping[str, Any]

POINT, BELOW = "  - ", "    "
MAX_NODES = 3  # named one by one


def layout(text: str, width: int, lead: str = "") -> list[str]:
    """Return the lines of a text; those after the first begin below the end of `lead`."""
    return wrap(
        printable(text),
        max(width, len(lead) + 20),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
        break_long_words=False,
    )


def section(title: str, points: "Iterable[str | tuple[str, str]]", width: int) -> str:
    """Return a heading with its points; nothing when there are none.

    A point may have something to type, which is never broken: behind it where there is room, or below.
    """
    lines: list[str] = []
    for point in points:
        text, typed = (point, "") if isinstance(point, str) else point
        laid_out = layout(text + (":" if typed else ""), width, POINT)
        if typed and len(laid_out) == 1 and len(laid_out[0]) + 1 + len(typed) <= width:
            lines.append(f"{laid_out[0]} {printable(typed)}")
        else:
            lines += [*laid_out, f"{BELOW}  {printable(typed)}"] if typed else laid_out
    return "\n".join([title, *lines] if title else lines) if lines else ""


def node_rows(title: str, reasons: "Iterable[HeadAnswer]", now: float, width: int) -> str:
    """Return why each node is not available and which jobs hold it; nodes with one reason share a line."""
    alike = nodes_by_reason(reasons, now)
    if not alike:
        return ""
    rows = [(printable(_together(nodes)), text) for nodes, text in alike]
    column = min(max(len(names) for names, _ in rows), width // 2)
    return "\n".join(
        [title, *(line for names, text in rows for line in layout(text, width, f"  {names:<{column}}  "))]
    )


def nodes_by_reason(reasons: "Iterable[HeadAnswer]", now: float) -> list[tuple[list[str], str]]:
    """Return the nodes that are not available for one reason, the reason, and the jobs that hold them."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        text = _without(local_times(reason["text"]), reason["subject"]) + _held(reason, now)
        alike.setdefault(text, []).append(reason["subject"])
    return [(sorted(nodes, key=natural_order), text) for text, nodes in alike.items()]


def _held(reason: "HeadAnswer", now: float) -> str:
    """Return the jobs that hold processors of a busy node, and their latest end."""
    parts = []
    for each in reason.get("holders") or ():
        until = each["until"]
        when = (
            "has no run time limit"
            if until is None
            else f"ends in {duration(max(0.0, until - now))} at the latest"
        )
        parts.append(f"job {each['job']} of {each['owner']} holds {each['processors']} and {when}")
    if parts and reason.get("more_holders"):
        parts.append(f"{reason['more_holders']} more jobs hold some")
    return f": {'; '.join(parts)}" if parts else ""


def places(nodes: "Iterable[HeadAnswer]") -> str:
    """Return where processors are, such as ``node1 (4), node2 (2)``; of many nodes the first and the rest."""
    each = [(place["node"], place["processors"]) for place in nodes]
    listed = ", ".join(f"{node} ({processors})" for node, processors in each[:MAX_NODES])
    left = each[MAX_NODES:]
    if not left:
        return listed
    count = f"{len(left)} more node" + ("s" if len(left) > 1 else "")
    return f"{listed} and {count} ({sum(processors for _, processors in left)})"


def _without(text: str, node: str) -> str:
    """Return the reason without the name of its node in front, so that equal ones are seen to be equal."""
    for start in (f"node {node!r}", f"node {node}", repr(node), node):
        if text.startswith(start) and not text[len(start) : len(start) + 1].isalnum():
            return text[len(start) :].lstrip(" :,")
    return text


def _together(names: list[str]) -> str:
    listed = ", ".join(names[:MAX_NODES])
    return listed + (f" and {len(names) - MAX_NODES} more" if len(names) > MAX_NODES else "")


SAME = 60.0  # seconds between two instants that are told as one


def facts(answer: "HeadAnswer", job: "HeadAnswer", now: float) -> "Iterator[tuple[str, str]]":
    """Yield each fact with its name; facts that there are not are left out."""
    facts = {
        "requests": f"{request(job)}, run time {_run_time(job['run_time'])}, priority {job['priority_name']}",
        "submitted": _ago(job["submitted"], now),
        "turn": _turn(answer),
        "score": score_in_words(answer),
        "files": _files_by(answer, now),
        "expected": _expected(answer, now),
        "promised": _promised(answer),
        "site": _site_start(answer, now),
        "deadline": _deadline(answer),
        "holds": _holds(job),
        "share": f"{counted(job['share'], 'processor')} in balanced mode" if job.get("share") else "",
        "ends by": _ends(job, now),
        "tasks": tasks_in_words(job["tasks"]) if job["tasks"]["total"] else "none",
    }
    return ((key, value) for key, value in facts.items() if value)


def _deadline(answer: "HeadAnswer") -> str:
    """Return when it must have ended, and by how much it would be late by what is known of its start."""
    deadline = answer.get("deadline")
    if not deadline:
        return ""
    text = f"it must end by {instant(deadline['at'])}"
    words = {"expected": "as things stand", "at_worst": "in 1 of 10 cases", "by_limits": "by run time limits"}
    late = next(((how, deadline[how]) for how in words if (deadline[how] or 0) > 0), None)
    if late is None:
        return text
    how, seconds = late
    return f"{text}; at risk: {words[how]} it would start {duration(seconds)} too late"


def _run_time(seconds: float | None) -> str:
    return "without limit" if seconds is None else duration(seconds)


def _ago(at: float | None, now: float) -> str:
    return f"{instant(at)}, {duration(max(0.0, now - at))} ago" if at else ""


def _waits(answer: "HeadAnswer") -> bool:
    return (
        answer["state"] in ("Queued", "Configuring") and not answer["would_start"] and not answer["refused"]
    )


def _turn(answer: "HeadAnswer") -> str:
    if site := answer.get("site"):
        return _turn_there(site)
    if not _waits(answer) or _is_elsewhere(answer):
        return ""
    if not answer["ahead"]:
        return "first in the queue"
    named = ", ".join(map(_other, answer["jobs_ahead"]))
    more = answer["ahead"] - len(answer["jobs_ahead"])
    some = f": {named}" + (f" and {more} more" if more else "") if named else ""
    return f"{counted(answer['ahead'], 'job')} ahead of it in the queue{some}"


def score_in_words(answer: "HeadAnswer") -> str:
    """Return what orders the job within its priority."""
    score = answer.get("score")
    if not score or not _waits(answer):
        return ""
    parts = {"fair share": score["fair_share"], "age": score["age"], "size": score["size"]}
    named = " + ".join(f"{name} {value:.1f}" for name, value in parts.items() if value)
    return f"{sum(parts.values()):.1f} = {named or '0'}; larger scores go first"


def _is_elsewhere(answer: "HeadAnswer") -> bool:
    return any(reason["kind"] == "resource" for reason in answer["reasons"])


def _turn_there(site: "HeadAnswer") -> str:
    """Return the jobs that go first at the site."""
    where = f"of {site['resource']}, partition {','.join(site['partitions'])}, priority {site['priority']}"
    if not site["ahead"]:
        return printable(f"no job is ahead of it in the queue {where}")
    named = ", ".join(map(_there, site["jobs_ahead"]))
    more = site["ahead"] - len(site["jobs_ahead"])
    some = f": {named}" + (f" and {more} more" if more > 0 else "") if named else ""
    return printable(f"{counted(site['ahead'], 'job')} ahead of it in the queue {where}{some}")


def _there(job: "HeadAnswer") -> str:
    return f"{job['id']} of {job['user']} ({counted(job['processors'], 'core')}, {_short(job['run_time'])})"


def _site_start(answer: "HeadAnswer", now: float) -> str:
    """Return the start that the site itself expects, and what is known of ours."""
    site, expected = answer.get("site"), answer["expected"]
    if not site:
        return ""
    at = site["site_start"]
    own = (
        "expects no start yet" if at is None else f"expects {instant(at)} (in {duration(max(0.0, at - now))})"
    )
    if not expected or expected["p50"] is None:
        why = f"; no predicted start: {expected['reason']}" if expected and expected["reason"] else ""
        return printable(f"{site['resource']} itself {own}{why}")
    learned = (
        f"corrected by {counted(site['judged'], 'start')} seen" if site["judged"] else "not corrected yet"
    )
    return printable(f"{site['resource']} itself {own}; predicted times are {learned}")


def _other(job: "HeadAnswer") -> str:
    priority = "" if job["priority_name"] == "Normal" else f", {job['priority_name']}"
    return f"{job['job']} of {job['owner']} ({request(job)}, {_short(job['run_time'])}{priority})"


def _short(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)


def _expected(answer: "HeadAnswer", now: float) -> str:
    """Return when the run times of the past let it start, unless that is what is promised."""
    expected = answer["expected"]
    if not expected or expected["p50"] is None or _alike(expected["p50"], expected["promise"]):
        return ""
    late = expected["p90"] is not None and not _alike(expected["p50"], expected["p90"])
    nine = f"; in 9 of 10 cases by {instant(expected['p90'])}" if late else ""
    wait = duration(max(0.0, expected["p50"] - now))
    source = "as its files come" if expected.get("files_by") else "from past run times"
    return f"{instant(expected['p50'])} (in {wait}), {source}{nine}"


def _files_by(answer: "HeadAnswer", now: float) -> str:
    """Return when its input files are copied."""
    at = (answer["expected"] or {}).get("files_by")
    return f"copied by {instant(at)} (in {duration(max(0.0, at - now))}) at the rate so far" if at else ""


def _alike(one: float, other: float | None) -> bool:
    return other is not None and abs(one - other) < SAME


def _promised(answer: "HeadAnswer") -> str:
    if not _waits(answer) or _is_elsewhere(answer):
        return ""
    expected = answer["expected"] or {"promise": None}
    at = answer["planned_start"] or expected["promise"]
    if at is None:
        return "no start can be promised yet"
    held = answer["reservation"]
    where = f"; then on {places(held['nodes'])}" if held else ""
    return f"{instant(at)} or sooner, if running jobs end by their limits{where}"


def _holds(job: "HeadAnswer") -> str:
    if not job["allocated"]:
        return ""
    allocation = [
        {"node": share["node"], "processors": len(share["processors"])}
        for share in job.get("allocation") or ()
    ]
    where = f": {places(allocation)}" if allocation else ""
    return counted(job["allocated"], "processor") + where


def _ends(job: "HeadAnswer", now: float) -> str:
    if job["state"] != "Running" or job["run_time"] is None or not job["started"]:
        return ""
    end = job["started"] + job["run_time"]
    return f"{instant(end)} at the latest, in {duration(max(0.0, end - now))}"
