"""Why a job is not running, when it will, and what its owner can do: ``hn job explain`` and dry runs."""

from shlex import quote

from headnode.apps.cli.screens.explain_facts import facts, layout, node_rows, places, section
from headnode.apps.cli.screens.job import alternative, ending
from headnode.apps.cli.table import printable
from headnode.apps.readable_values import duration, instant, local_times
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    HeadAnswer = Mapping[str, Any]

MAX_PARENTS = 3
LATENESS = ("expected", "at_worst", "by_limits")  # ways to say by how much a job would be late
SUSPENDED = "suspended"  # the head's word for what keeps a suspended job


def advice(answer: "HeadAnswer", job: "HeadAnswer", *, dry_run: bool = False) -> list[str]:
    """Return what can be done, in the order of the reasons, each once."""
    state = job["state"]
    if answer["refused"] and answer["refused"]["fix"]:
        return [answer["refused"]["fix"]]
    if state == "Configuring" and not dry_run:
        return [f"submit it: hn job submit /id:{answer['job']}"]
    if job.get("skipped"):
        return _about_skipped(answer)
    if state in ("Failed", "Canceled"):
        return [*_about_failures(answer, job), f"run it again: hn job requeue {answer['job']}"]
    late = [f"give it a later deadline: hn job modify {answer['job']} /endby:..."] if at_risk(answer) else []
    kinds = dict.fromkeys(reason["kind"] for reason in answer["reasons"])
    return [point for kind in kinds if kind in _ADVICE for point in _ADVICE[kind](answer)] + late


def _about_skipped(answer: "HeadAnswer") -> list[str]:
    """Say what brings back a job that was canceled for how another ended."""
    decided = [one for one in answer["dependencies"] if one["status"] == "never"][:MAX_PARENTS]
    over = [one["job"] for one in decided if one["state"] == "Finished"]
    if over:
        return [
            f"change what it waits for and submit it again: hn help job modify; job {over[0]} has finished"
        ]
    return [
        f"run job {one['job']} again: hn job requeue {one['job']}; then this job is requeued too"
        for one in decided
    ] or [f"run it again: hn job requeue {answer['job']}"]


def _about_failures(answer: "HeadAnswer", job: "HeadAnswer") -> list[str]:
    if not job["tasks"]["failed"]:
        return []
    return [f"see how its tasks failed: hn job listtasks {answer['job']} /state:failed /expandparametric"]


def at_risk(answer: "HeadAnswer") -> bool:
    """Tell whether a job that waits may start too late to end by its deadline."""
    late = answer.get("deadline") or {}
    return answer["job"] is not None and any((late.get(how) or 0) > 0 for how in LATENESS)


def _about_hold(answer: "HeadAnswer") -> list[str]:
    if answer["changes"] or answer["job"] is None:
        return []
    holds = [reason for reason in answer["reasons"] if reason["kind"] == "hold"]
    named = [reason["subject"] for reason in holds if reason.get("subject") not in (None, "", SUSPENDED)]
    of_instances = f"{answer['job']}."  # their sentences say how they are released
    points = [_release(answer["job"], name) for name in named if not name.startswith(of_instances)]
    if any(not reason.get("subject") for reason in holds):
        points.append(f"lift the hold: hn job modify {answer['job']} /holduntil:")
    if any(reason.get("subject") == SUSPENDED for reason in holds):
        points.append(f"resume it: hn job resume {answer['job']}")
    return points


def _release(job: int, name: str) -> str:
    """Return how a hold is released, and by whom: only operators release holds of operators."""
    from headnode.core.model.value_checks import PRIVILEGED_HOLDS

    command = f"hn job release {job} --name {quote(name)}"
    above = name.casefold() in PRIVILEGED_HOLDS
    return f"only operators and administrators release it: {command}" if above else f"release it: {command}"


def _about_parents(answer: "HeadAnswer") -> list[str]:
    named = [
        reason["subject"]
        for reason in answer["reasons"]
        if reason["kind"] == "dependency" and reason.get("subject")
    ]
    return [f"see what job {parent} waits for: hn job explain {parent}" for parent in named[:MAX_PARENTS]]


def _about_fit(answer: "HeadAnswer") -> list[str]:
    above = [
        each for each in answer["reasons"] if each["kind"] == "never-fits" and _is_limit(each["subject"])
    ]
    if above:
        return [f"ask for less than your limits (hn cluster limits): hn job modify {answer['job']} ..."]
    return [f"ask for what the nodes have (hn node list), then: hn job modify {answer['job']} ..."]


def _is_limit(subject: str) -> bool:
    """Tell whether the subject of a reason is a limit, and no node or licence."""
    return subject.startswith(("user,", "project,", "group,"))


def _about_limit(_told: "HeadAnswer") -> list[str]:
    return ["see your limits and what is in use of them: hn cluster limits"]


_ADVICE: "dict[str, Callable[[HeadAnswer], list[str]]]" = {
    "hold": _about_hold,
    "dependency": _about_parents,
    "never-fits": _about_fit,
    "limit": _about_limit,
}


NARROW, WIDE = 40, 100  # columns a page keeps to
OUTSIDE = (
    "hold",
    "dependency",
    "filter",
    "resource",
)  # kinds of reason for which a job is not considered at all


def explanation_page(
    answer: "HeadAnswer", job: "HeadAnswer", *, now: float, width: int = WIDE, dry_run: bool = False
) -> str:
    """Return the page: what the job is, what it waits for, when it may start, what would start it.

    `answer` is the head's explanation, `job` the job object; `now` in seconds since 1970.  With `dry_run` the
    job does not exist: the page tells what would become of it.
    """
    width = max(NARROW, min(width, WIDE))
    nodes = [reason for reason in answer["reasons"] if about_node(reason)]
    first, then = reasons_in_words(answer, now)
    blocks = [
        "\n".join(layout(headline(answer, job, now, dry_run=dry_run), width)),
        "\n".join(
            line for key, value in facts(answer, job, now) for line in layout(value, width, f"  {key:<10} ")
        ),
        section(heading(job, dry_run=dry_run), first, width),
        section("Once released, it would wait because", then, width),
        _changes(answer, now, width),
        section("It depends on", dependencies_in_words(answer.get("dependencies") or ()), width),
        section("Waiting tasks", waiting_tasks_in_words(answer["tasks"]), width),
        node_rows("Node by node", nodes, now, width),
        section("What you can do", advice(answer, job, dry_run=dry_run), width),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def headline(answer: "HeadAnswer", job: "HeadAnswer", now: float, *, dry_run: bool = False) -> str:
    """Return in one sentence what the job is doing, and when it should start or ended."""
    name = f' "{printable(job["name"])}"' if job["name"] else ""
    if dry_run:
        return f"Nothing was submitted. The job{name} would {_would(answer, now)}."
    subject = f"Job {answer['job']}{name} of {job['owner']}"
    state = job["state"]
    if state in ENDED_STATES:
        return printable(ending(job)) + "."
    if state == "Configuring":
        return f"{subject} has not been submitted. Submitted now, it would {_would(answer, now)}."
    if state == "Running":
        since = duration(max(0.0, now - job["started"])) if job["started"] else "now"
        under = f" with alternative {alternative(job)} of its request" if job.get("alternative") else ""
        return f"{subject} has been running for {since}{under}."
    if any(reason["kind"] == "staging" for reason in answer["reasons"]):
        if state == "Queued":
            return f"{subject} is staging: it is handed over when its files are there."
        return (
            f"{subject} is staging: it starts when its files are there and processors of its nodes are free."
        )
    return f"{subject} is {state.lower()}{_when(answer, now)}."


def heading(job: "HeadAnswer", *, dry_run: bool = False) -> str:
    """Return the heading of the reasons."""
    if job["state"] == "Running":
        return "Processors it releases"
    return "Why it would wait" if dry_run else "Why it waits"


def _would(answer: "HeadAnswer", now: float) -> str:
    if answer["refused"]:
        return f"be refused: {answer['refused']['what']}"
    if answer["would_start"]:
        return f"start at once, on {places(answer['would_start'])}"
    return f"wait{_when(answer, now)}"


def _when(answer: "HeadAnswer", now: float) -> str:
    expected = answer["expected"] or {}
    at = expected.get("p50") or answer["planned_start"] or expected.get("promise")
    if at is None:
        return _without_time(answer)
    wait = at - now
    return " and should start at any moment" if wait < 1 else f" and should start in {duration(wait)}"


def _without_time(answer: "HeadAnswer") -> str:
    """Return for which limit a job waits whose start cannot be predicted; "" if it waits for none."""
    limits = [local_times(reason["text"]) for reason in answer["reasons"] if reason["kind"] == "limit"]
    return f": {limits[0]}. No start can be predicted" if limits else ""


def about_node(reason: "HeadAnswer") -> bool:
    """Tell whether a reason is about one node."""
    return bool(reason["kind"] == "node" and reason.get("subject"))


def reasons_in_words(answer: "HeadAnswer", now: float) -> tuple[list[str], list[str]]:
    """Return why the job waits; if it is held or waits for parents, why it would wait without that too."""
    behind, texts, outside = answer["blocked_by"], [], []
    for reason in answer["reasons"]:
        if reason["kind"] in OUTSIDE:
            outside.append(local_times(reason["text"]))
        elif behind and reason["kind"] == "priority" and reason["subject"] == str(behind["job"]):
            texts.append(_reserved(behind, now))  # says which job is ahead, and when it starts
        elif not about_node(reason):
            texts.append(local_times(reason["text"]))
    return (outside, texts) if outside else (texts, [])


def _reserved(behind: "HeadAnswer", now: float) -> str:
    name = f' "{behind["name"]}"' if behind["name"] else ""
    blocker = f"job {behind['job']}{name} of {behind['owner']} is ahead in the queue; it starts"
    where = f"on {places(behind['nodes'])}"
    if behind["at"] is None:
        return f"{blocker} {where} when jobs without a run time limit have ended"
    wait = duration(max(0.0, behind["at"] - now))
    return f"{blocker} in {wait} at the latest ({instant(behind['at'])}), {where}"


def _changes(answer: "HeadAnswer", now: float, width: int) -> str:
    """Return what would let it start now, or else sooner, each with what to type."""
    at_once = [(change["text"], _way(change, answer["job"])) for change in answer["changes"] if change["now"]]
    sooner = [
        (sooner_in_words(change, now), _way(change, answer["job"]))
        for change in answer["changes"]
        if not change["now"]
    ]
    cut = ["the search reached its limit; there may be more changes"] if answer["incomplete"] else []
    if at_once:
        return section("It would start now", [*at_once, *cut], width)
    if sooner:
        return section("It would start sooner, though not now", [*sooner, *cut], width)
    if not answer["searched"]:
        return ""
    none = "No change to one or two of its requirements would start it now."
    unknown = "It is not known whether a change would start it now: the search reached its limit."
    return "\n".join(layout(unknown if cut else none, width))


def sooner_in_words(change: "HeadAnswer", now: float) -> str:
    """Return when a job would start with a change that does not start it at once."""
    return f"in {duration(max(0.0, change['at'] - now))}, {change['text']}"


def _way(change: "HeadAnswer", job: int | None) -> str:
    """Return what to type: a command, or the options of another submission."""
    options = " ".join(f"/{name}:{value}" for name, value in change["options"].items())
    if change["command"] or job is None or not options:
        return str(change["command"] or options)
    return f"submit it with {options}, and cancel this one: hn job cancel {job}"


def waiting_tasks_in_words(tasks: "Iterable[HeadAnswer]") -> list[str]:
    """Return the waiting tasks of a running job, each with its reasons."""
    points = []
    for task in tasks:
        texts = "; ".join(local_times(reason["text"]) for reason in task["reasons"])
        points.append(f"{_which(task)}: {texts or 'waits for its turn'}")
    return points


def dependencies_in_words(dependencies: "Iterable[HeadAnswer]") -> list[str]:
    """Return each thing that it waits for or has waited for, and how that stands."""
    stands = {"met": "is satisfied", "open": "is open", "never": "cannot be satisfied"}
    points = []
    for one in dependencies:
        name = f' "{one["name"]}"' if one["name"] else ""
        state = f"the job is {one['state'].lower()}" if one["state"] else "the job is no longer known"
        how = stands.get(one["status"], "")
        points.append(f"job {one['job']}{name}, {one['condition']}: {how and f'it {how}; '}{state}")
    return points


def _which(task: "HeadAnswer") -> str:
    """Return the task and how many of its instances wait, where the head says so."""
    name = f' "{task["name"]}"' if task.get("name") else ""
    waiting = task.get("waiting", 1)
    return f"task {task['task']}{name}" + (f", {waiting} instances" if waiting > 1 else "")
