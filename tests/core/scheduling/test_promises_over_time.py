"""Small worlds played to the end: no promised start moves later, whatever starts or grows behind it.

A job ahead of it may grow, and so delay it: that is its better turn.
"""

from collections.abc import Iterable, Sequence
from itertools import product

import pytest

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Grow, Start
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import NodeView, RunningJob, View, WaitingClass

from .promises import check_promises
from .scenes import INF, asks, node, scene

NODES = [node("a", 2), node("b", 2), node("c", 1)]
KINDS = [
    asks(1, 3, 1),
    asks(2, minutes=3),
    asks(1, 2, INF),
    asks(4, minutes=2),
    asks(2, minutes=2, exclusive=True),
    asks(3, minutes=1, exclusive=True),
]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("early", [False, True], ids=["jobs use their limit", "every other job ends early"])
def test_a_promised_start_never_moves_later(policy: str, early: bool) -> None:
    for kinds in product(KINDS, repeat=4):
        play(scene(NODES, (), [(job, kind) for job, kind in enumerate(kinds, start=1)]), policy, early)


def play(view: View, policy: str, early: bool) -> None:
    """Run until nothing changes; running jobs always want to grow."""
    promised: dict[JobId, Instant] = {}
    began: dict[JobId, Instant] = {}
    while True:
        plan = POLICIES[policy](view)
        check_promises(view, plan, overtaking=policy == "easy", thorough=False)
        for grow in plan.grows:
            promised = {job: at for job, at in promised.items() if job < grow.job}
        for start in plan.starts:
            began[start.job] = view.now
            assert view.now <= promised.get(start.job, NEVER), f"job {start.job} starts later than promised"
        if plan.reservation is not None:
            before = promised.setdefault(plan.reservation.job, plan.reservation.at)
            assert plan.reservation.at <= before, f"the promise to {plan.reservation.job} moved"
        running = [*grown(view, plan.grows), *begun(view, plan.starts)]
        ends = {job.job: actual_end(job, began, early) for job in running}
        view = later(view, running, Instant(min(ends.values(), default=NEVER)), ends)
        if view.now == NEVER:
            return


def actual_end(job: RunningJob, began: dict[JobId, Instant], early: bool) -> Instant:
    """Return when the job really ends: odd ones use a third of their limit."""
    if not early or job.job % 2 == 0 or job.end == NEVER:
        return job.end
    return Instant(began[job.job] + (job.end - began[job.job]) / 3)


def grown(view: View, grows: Iterable[Grow]) -> list[RunningJob]:
    """Return the running jobs with what they were given."""
    more = {grow.job: dict(grow.allocation) for grow in grows}
    return [with_more(job, more.get(job.job, {})) for job in view.running]


def with_more(job: RunningJob, more: dict[str, int]) -> RunningJob:
    """Return the job with more processors."""
    held = dict(job.allocation)
    for name, count in more.items():
        held[name] = held.get(name, 0) + count
    return RunningJob(job.job, job.turn, job.request, job.end, tuple(held.items()), job.wants)


def begun(view: View, starts: Iterable[Start]) -> list[RunningJob]:
    """Return the jobs that start, as running jobs that want one more."""
    found = {turn[2]: (turn, waiting.request) for waiting in view.queue for turn in waiting.turns}
    return [
        RunningJob(
            start.job,
            found[start.job][0],
            found[start.job][1],
            Instant(view.now + found[start.job][1].run_time),
            start.allocation,
            1,
        )
        for start in starts
    ]


def later(view: View, running: Sequence[RunningJob], now: Instant, ends: dict[JobId, Instant]) -> View:
    """Return the view when the next jobs have ended."""
    gone = {job.job for job in running}
    queue: list[tuple[int, JobRequest]] = [
        (turn[2], waiting.request) for waiting in view.queue for turn in waiting.turns if turn[2] not in gone
    ]
    left = [job for job in running if ends[job.job] > now]
    following = scene(list(idle(view)), left, queue)
    return View(now, following.nodes, [WaitingClass(c.request, c.turns) for c in following.queue], left)


def idle(view: View) -> list[NodeView]:
    """Return the nodes with nothing on them."""
    return [node(name, each.facts.processors) for name, each in view.nodes.items()]
