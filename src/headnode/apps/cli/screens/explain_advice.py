"""What the reader of an explanation can do, besides changing what the job asks for."""

from shlex import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Told = Mapping[str, Any]

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
    if job.get("skipped"):
        return _about_skipped(told)
    if state in ("Failed", "Canceled"):
        return [*_about_failures(told, job), f"run it again: hn job requeue {told['job']}"]
    late = [f"give it a later deadline: hn job modify {told['job']} /endby:..."] if at_risk(told) else []
    kinds = dict.fromkeys(reason["why"] for reason in told["reasons"])
    return [point for kind in kinds if kind in _ADVICE for point in _ADVICE[kind](told)] + late


def _about_skipped(told: "Told") -> list[str]:
    """Say what brings back a job that was canceled for how another ended."""
    decided = [one for one in told["dependencies"] if one["standing"] == "never"][:MOST_PARENTS]
    over = [one["job"] for one in decided if one["state"] == "Finished"]
    if over:
        return [
            f"change what it waits for and submit it again: hn help job modify; job {over[0]} has finished"
        ]
    return [
        f"run job {one['job']} again: hn job requeue {one['job']}; then this job is requeued too"
        for one in decided
    ] or [f"run it again: hn job requeue {told['job']}"]


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
    return [f"see what job {parent} waits for: hn job explain {parent}" for parent in named[:MOST_PARENTS]]


def _about_fit(told: "Told") -> list[str]:
    return [f"ask for what the nodes have (hn node list), then: hn job modify {told['job']} ..."]


_ADVICE: "dict[str, Callable[[Told], list[str]]]" = {
    "hold": _about_hold,
    "dependency": _about_parents,
    "never-fits": _about_fit,
}
