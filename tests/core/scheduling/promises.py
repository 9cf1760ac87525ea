"""What a plan promises, checked by replaying it wish by wish against a search through everything."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Plan, Shares
from headnode.core.scheduling.view import Turn, View

from .spec import Ground, World, allowed, ways


class Held(NamedTuple):
    """What a job holds, and until when."""

    end: Instant
    processors: int
    job: JobId
    request: JobRequest
    shares: Shares


class Wish(NamedTuple):
    """One wish, as the queue and the running jobs say it."""

    turn: Turn
    starts: bool
    request: JobRequest
    end: Instant

    @property
    def job(self) -> JobId:
        return JobId(self.turn[2])


def check_promises(view: View, plan: Plan, *, overtaking: bool, thorough: bool = True) -> None:
    """Fail unless the plan keeps every promise of its policy.

    `thorough`: a job that runs past the promised start waits only if no layout whatever spares the head.
    A policy looks at a few layouts only; among nodes of several sizes it may miss one.
    """
    _everybody_is_told(view, plan)
    given = {each.job: each.allocation for each in (*plan.starts, *plan.grows)}
    assert len(given) == len(plan.starts) + len(plan.grows)
    held, head = [*held_by_running(view)], None
    for wish in wishes(view):
        shares = given.pop(wish.job, None)
        if shares is not None:
            assert allowed(wish.request, world(view, held), shares), (wish, shares)
            new = Held(wish.end, sum(n for _, n in shares), wish.job, wish.request, shares)
            if head is not None:
                assert overtaking, f"{wish.job} overtook {head.job}"
                head = head.with_another(new)
                assert head.is_kept(view), f"{wish.job} delays {head.job}"
            held.append(new)
        elif head is not None:
            if overtaking and (thorough or (head.at is not None and wish.end <= head.at < NEVER)):
                assert not _could_overtake(view, head, held, wish), f"{wish.job} may overtake"
        else:
            assert not ways(wish.request, world(view, held)), f"{wish.job} fits with nobody ahead"
            if wish.starts and ways(wish.request, world(view if overtaking else reopened(view), ())):
                head = _promised(view, held, wish, plan)
    assert not given, "something was given to a job that wished for nothing"
    assert (plan.reservation is None) == (head is None or head.at is None)


class Head(NamedTuple):
    """The first blocked job and who still holds something when its promise falls due."""

    job: JobId
    request: JobRequest
    at: Instant | None
    still_there: tuple[Held, ...]

    def with_another(self, new: Held) -> "Head":
        """Return the head with one more beside it, unless that is over in time."""
        if self.at is not None and new.end <= self.at < NEVER:
            return self
        return self._replace(still_there=(*self.still_there, new))

    def is_kept(self, view: View) -> bool:
        """Return whether the promise can be kept."""
        return self.at is None or bool(ways(self.request, world(view, self.still_there)))


def _promised(view: View, held: Sequence[Held], wish: Wish, plan: Plan) -> Head:
    """Find the earliest instant by trying every one, and hold the plan to it."""
    for at, left in _futures(view, held):
        if ways(wish.request, world(view, left)):
            assert plan.reservation is not None
            assert (plan.reservation.job, plan.reservation.at) == (wish.job, at)
            assert plan.waits[wish.request].not_before == at
            assert allowed(wish.request, world(view, left), plan.reservation.allocation)
            return Head(wish.job, wish.request, at, tuple(left))
    return Head(wish.job, wish.request, None, ())


def _futures(view: View, held: Sequence[Held]) -> list[tuple[Instant, list[Held]]]:
    """Return each instant something ends, and what is held after it; without limit: one after the other."""
    futures = []
    ordered = sorted(held, key=lambda each: each[:3])
    for gone, each in enumerate(ordered, start=1):
        if each.end == NEVER or gone == len(ordered) or ordered[gone].end > each.end:
            futures.append((Instant(max(each.end, view.now)), ordered[gone:]))
    return [*futures, (NEVER, [])]


def _could_overtake(view: View, head: Head, held: Sequence[Held], wish: Wish) -> bool:
    """Return whether there was any way to start the job without harm to the head."""
    for shares in ways(wish.request, world(view, held)):
        new = Held(wish.end, sum(n for _, n in shares), wish.job, wish.request, shares)
        if head.at is not None and head.with_another(new).is_kept(view):
            return True
    return False


def _everybody_is_told(view: View, plan: Plan) -> None:
    begun = {start.job for start in plan.starts}
    for waiting in view.queue:
        jobs = [turn[2] for turn in waiting.turns]
        first = [job for job in jobs if job in begun]
        assert first == jobs[: len(first)], "equals start in the order of their turns"
        assert (len(first) < len(jobs)) == (waiting.request in plan.waits)
        assert len(first) == len(jobs) or plan.waits[waiting.request].reasons


def wishes(view: View) -> list[Wish]:
    """Return every wish in turn order."""
    found = [
        Wish(turn, True, waiting.request, Instant(view.now + waiting.request.run_time))
        for waiting in view.queue
        for turn in waiting.turns
    ]
    for job in view.running:
        more = min(job.wants, job.request.maximum - sum(n for _, n in job.allocation))
        if more > 0:
            growth = msgspec.structs.replace(job.request, minimum=1, maximum=more, required_nodes=())
            found.append(Wish(job.turn, False, growth, job.end))
    return sorted(found, key=lambda wish: wish[:2])


def reopened(view: View) -> View:
    """Return the view with every node open."""
    nodes = {name: msgspec.structs.replace(node, closed="") for name, node in view.nodes.items()}
    return msgspec.structs.replace(view, nodes=nodes)


def held_by_running(view: View) -> list[Held]:
    """Return what the running jobs hold."""
    return [
        Held(job.end, sum(n for _, n in job.allocation), job.job, job.request, job.allocation)
        for job in view.running
    ]


def world(view: View, held: Sequence[Held]) -> World:
    """Return the nodes when exactly this is held."""
    taken: dict[str, list[tuple[Held, int]]] = {name: [] for name in view.nodes}
    for each in held:
        for name, count in each.shares:
            taken[name].append((each, count))
    nodes = tuple(_ground(view, name, taken[name]) for name in view.nodes)
    return nodes, tuple(sorted(_licences(view.licences, held).items()))


def _ground(view: View, name: str, taken: Sequence[tuple[Held, int]]) -> Ground:
    node = view.nodes[name]
    free = node.facts.processors - sum(count for _, count in taken)
    owned = any(each.request.exclusive for each, _ in taken)
    assert free >= 0, f"node {name} is given twice"
    assert not owned or len({each.job for each, _ in taken}) == 1, f"node {name} is shared with its owner"
    return Ground(node.facts, free, len(taken), owned, node.closed)


def _licences(licences: Mapping[str, tuple[int, int]], held: Sequence[Held]) -> dict[str, int]:
    left = {feature: total for feature, (total, _) in licences.items()}
    for each in held:
        for wish in each.request.licences:
            left[wish.feature] -= each.processors if wish.amount is None else wish.amount
    assert min(left.values(), default=0) >= 0, "a licence is given twice"
    return left
