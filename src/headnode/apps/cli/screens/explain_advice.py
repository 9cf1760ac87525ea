"""What the reader of an explanation can do, besides changing what the job asks for."""

from shlex import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Told = Mapping[str, Any]

FAILED_PARENT = ("which failed", "which was canceled")  # the head's words
MOST_PARENTS = 3
LATENESS = ("expected", "at_worst", "by_limits")  # ways to say by how much a job would be late
SUSPENDED = "suspended"  # the head's word for what keeps a suspended job


def advice(told: "Told", job: "Told", *, dry_run: bool = False) -> list[str]:
    """Return what can be done, in the order of the reasons, each once."""
    state = job["state"]
    if told["refused"] and told["refused"]["fix"]:
        return [told["refused"]["fix"]]
    if state == "Configuring" and not dry_run:
        return [f"submit it: hn job submit /id:{told['job']}"]
    if state in ("Failed", "Canceled"):
        return [*_about_failures(told, job), f"run it again: hn job requeue {told['job']}"]
    late = [f"give it a later deadline: hn job modify {told['job']} /endby:..."] if at_risk(told) else []
    kinds = dict.fromkeys(reason["why"] for reason in told["reasons"])
    return [point for kind in kinds if kind in _ADVICE for point in _ADVICE[kind](told)] + late


def _about_failures(told: "Told", job: "Told") -> list[str]:
    if not job["tasks"]["failed"]:
        return []
    return [f"see how its tasks failed: hn job listtasks {told['job']} /state:failed /expandparametric"]


def at_risk(told: "Told") -> bool:
    """Tell whether a job that waits may start too late to end by its deadline."""
    late = told.get("deadline") or {}
    return told["job"] is not None and any((late.get(how) or 0) > 0 for how in LATENESS)


def _about_hold(told: "Told") -> list[str]:
    if told["changes"] or told["job"] is None:
        return []
    holds = [reason for reason in told["reasons"] if reason["why"] == "hold"]
    named = [reason["what"] for reason in holds if reason.get("what") not in (None, "", SUSPENDED)]
    points = [_release(told["job"], name) for name in named]
    if any(not reason.get("what") for reason in holds):
        points.append(f"lift the hold: hn job modify {told['job']} /holduntil:")
    if any(reason.get("what") == SUSPENDED for reason in holds):
        points.append(f"resume it: hn job resume {told['job']}")
    return points


def _release(job: int, name: str) -> str:
    """Say who releases a hold, and how: not everybody may release those of operators."""
    from headnode.core.model.holds import PRIVILEGED_HOLDS

    command = f"hn job release {job} --name {quote(name)}"
    above = name.casefold() in PRIVILEGED_HOLDS
    return f"only operators and administrators release it: {command}" if above else f"release it: {command}"


def _about_parents(told: "Told") -> list[str]:
    named = [
        reason["what"] for reason in told["reasons"] if reason["why"] == "dependency" and reason.get("what")
    ]
    return [
        f"run job {parent} again: hn job requeue {parent}"
        if any(word in _text_about(told, parent) for word in FAILED_PARENT)
        else f"see what job {parent} waits for: hn job explain {parent}"
        for parent in named[:MOST_PARENTS]
    ]


def _text_about(told: "Told", parent: str) -> str:
    return next((reason["text"] for reason in told["reasons"] if reason.get("what") == parent), "")


def _about_fit(told: "Told") -> list[str]:
    return [f"ask for what the nodes have (hn node list), then: hn job modify {told['job']} ..."]


_ADVICE: "dict[str, Callable[[Told], list[str]]]" = {
    "hold": _about_hold,
    "dependency": _about_parents,
    "never-fits": _about_fit,
}
