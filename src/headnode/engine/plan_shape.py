"""Whether what a stranger's policy answers is a plan, and a lawful one; `decide` says whether it is stale."""

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.decision import Grow, Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.lawful import unlawful
from headnode.core.scheduling.view import View
from headnode.core.scheduling.waits import Waits


def fault(answer: object, view: View) -> str:
    """Return what is wrong with the answer, or an empty string."""
    if not isinstance(answer, Plan):
        return f"it answered with {_kind(answer)} instead of a Plan"
    given = [*answer.starts, *answer.grows, *answer.reservations]
    for each in given:
        if not isinstance(each, (Start, Grow, Reservation)):
            return f"its plan has {_kind(each)} among its starts, grows and reservations"
        if type(each.job) is not int or not _are_shares(each.allocation):
            what = f"its plan gives job {each.job!r} {each.allocation!r}"
            return f"{what}; an allocation is pairs of node and processors"
        if not isinstance(each, Grow) and type(each.option) is not int:
            return f"its plan takes option {each.option!r} of job {each.job}, which is not a number"
        if isinstance(each, Start) and not _are_parts(each.parts):
            return (
                f"its plan gives job {each.job} the parts {each.parts!r}; each is pairs as an allocation is"
            )
    return (
        _untold(answer, view)
        or _not_reserved(answer, view)
        or _impatient(answer, view)
        or unlawful(answer, view)
    )


def _are_shares(allocation: object) -> bool:
    return (
        isinstance(allocation, tuple)
        and bool(allocation)
        and all(
            isinstance(share, tuple)
            and len(share) == 2
            and isinstance(share[0], str)
            and type(share[1]) is int
            and share[1] > 0
            for share in allocation
        )
    )


def _are_parts(parts: object) -> bool:
    return isinstance(parts, tuple) and all(map(_are_shares, parts))


def _untold(plan: Plan, view: View) -> str:
    """Say which request neither starts nor waits."""
    begun = {start.job for start in plan.starts}
    for waiting in view.queue:
        if waiting.request not in plan.waits:
            left = [turn[2] for turn in waiting.turns if turn[2] not in begun]
            if left:
                return f"its plan has no entry for job {left[0]}"
    if isinstance(plan.waits, Waits):  # ours, from which it was made: worked out when somebody asks
        return ""
    strange: list[object] = [each for each in plan.waits if not isinstance(each, JobRequest)]
    strange += [each for each in plan.waits.values() if not isinstance(each, Wait)]
    if strange:
        return f"its plan has {_kind(strange[0])} among its waits"
    unread = [each for each in plan.waits.values() if not _is_readable(each)]
    return f"its plan gives jobs the reason {unread[0]!r}; reasons are Reason(Why, text)" if unread else ""


def _is_readable(wait: Wait) -> bool:
    return (
        isinstance(wait.reasons, tuple)
        and bool(wait.reasons)
        and all(isinstance(each, Reason) and isinstance(each.why, Why) for each in wait.reasons)
        and type(wait.not_before) in (int, float)
    )


def _not_reserved(plan: Plan, view: View) -> str:
    """Say which reservation is for nobody, or for no time to come."""
    waiting = (
        {turn[2]: each.request for each in view.queue for turn in each.turns} if plan.reservations else {}
    )
    for each in plan.reservations:
        if not isinstance(each, Reservation) or waiting.get(each.job) != each.request:
            return f"its plan reserves {each!r}, but no job waits for it"
        if not 0 <= each.option <= len(each.request.others):
            return f"its plan reserves for option {each.option} of job {each.job}, which has no such"
        if type(each.at) not in (int, float) or not each.at >= view.now:
            return f"its plan reserves for job {each.job} at {each.at!r}, and now is {view.now!r}"
    return ""


def _impatient(plan: Plan, view: View) -> str:
    if type(plan.wake) not in (int, float) or not plan.wake > view.now:
        return f"it wants to be woken at {plan.wake!r}, and now is {view.now!r}"
    return ""


def _kind(answer: object) -> str:
    return f"a {type(answer).__name__}"
