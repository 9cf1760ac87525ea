"""Who is preempted, in every small world: for a higher job, which then starts; nobody more than needed."""

from collections.abc import Iterator
from itertools import chain, islice

import pytest
from msgspec.structs import replace

from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.plan import Plan, Shares, Start
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.preempt import PreemptionCandidate, PreemptionState, preempting_plan
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.core.scheduling.view import View
from headnode.core.scheduling.what_if_view import queue_up_to, with_given_up, with_least, without_growth
from headnode.testing import SMALL_WORLDS

EVERY = {"easy": 60}  # of the small worlds; under other policies fewer
FEWER = 300


def worlds(every: int) -> Iterator[View]:
    """Yield worlds in which some running jobs have a lower priority than those that wait, some a higher."""
    for number, view in enumerate(islice(chain(*(make() for make in SMALL_WORLDS.values())), 0, None, every)):
        running = [
            replace(
                job, turn=replace(job.turn, minus_priority=-(1000, 2000, 1500, 3000)[(number + place) % 4])
            )
            for place, job in enumerate(view.running)
        ]
        yield replace(view, running=running)


def lower(view: View, turn: QueuePosition) -> dict[JobId, Shares]:
    """Return what a job may be given, if everybody below it goes."""
    return {job.job: job.allocation for job in view.running if job.turn.minus_priority > turn.minus_priority}


def scene(view: View, *, graceful: bool = False, in_parts: bool = False) -> PreemptionState:
    return PreemptionState(
        giving=(),
        ending={},
        candidates=lambda priority: [
            PreemptionCandidate(job.job, Instant(float(job.job)))
            for job in view.running
            if job.turn.priority < priority
        ],
        graceful=graceful,
        in_parts=in_parts,
        can_lend=lambda job, _: job % 2 == 0,
    )


def starts(policy: Policy, view: View, turn: QueuePosition, gifts: dict[JobId, Shares]) -> bool:
    """Whether the policy starts a job, which asks for its least, when these have given that up."""
    queue = with_least(queue_up_to(view, turn), {turn.job})
    there = replace(without_growth(with_given_up(view, gifts)), queue=queue)
    return turn.job in {start.job for start in policy(there).starts}


def gifts_of(found: Plan, view: View) -> dict[JobId, Shares]:
    held = {job.job: job.allocation for job in view.running}
    return {each.job: held[each.job] for each in found.preempts} | {
        r.job: r.allocation for r in found.recalls
    }


@pytest.mark.parametrize("how", ["immediate", "in parts", "graceful"])
@pytest.mark.parametrize("name", POLICIES)
def test_who_is_preempted_is_lower_and_needed_and_the_other_starts(name: str, how: str) -> None:
    policy, served, refused = POLICIES[name], 0, 0
    for view in worlds(EVERY.get(name, FEWER)):
        found = preempting_plan(
            view, policy, scene(view, graceful=how == "graceful", in_parts=how == "in parts")
        )
        turns = {turn.job: turn for each in view.queue for turn in each.turns}
        running = {job.job: job for job in view.running}
        gifts = gifts_of(found, view)
        claimed = [claim.job for claim in found.claims]
        owed = [(each.job, (each.for_job,)) for each in found.preempts]
        owed += [(each.job, each.for_jobs) for each in found.recalls]
        for job, others in owed:
            assert set(others) <= set(claimed)
            assert all(running[job].turn.minus_priority > turns[other].minus_priority for other in others), (
                "strictly lower"
            )
        whole = [Start(claim.job, claim.allocation, None, claim.option) for claim in found.claims]
        if not any(each.together for each in (waiting.request for waiting in view.queue)):
            together = Plan((*whole, *found.starts), (), {})
            assert plan_violation(together, with_given_up(view, gifts)) == "", (
                "they find room, beside who starts"
            )
        first = min((turns[job] for job in turns if job not in {s.job for s in found.starts}), default=None)
        if first is None:
            continue
        if first.job in claimed:
            served += 1
            mine = {job: gifts[job] for job, others in owed if first.job in others}
            assert not starts(policy, view, first, {})
            assert starts(policy, view, first, mine)
            if how == "immediate":
                for job in mine:
                    fewer = {other: share for other, share in mine.items() if other != job}
                    assert not starts(policy, view, first, fewer), f"job {job} need not go"
        elif not starts(policy, view, first, {}):
            refused += 1
            assert not starts(policy, view, first, lower(view, first)), "it could have been served"
    assert served > 4
    assert refused > 4
