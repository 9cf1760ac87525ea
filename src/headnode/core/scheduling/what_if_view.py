"""Views changed for a question: jobs have released something, have started, or are left out of the queue.

The view they are made from stays as it is.  Nodes keep their table: only what is free of them changes."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.node_table import KnownNodes
from headnode.core.scheduling.node_view import NodeView, held_with
from headnode.core.scheduling.plan import Shares, Start
from headnode.core.scheduling.request import licences_held, licences_taken
from headnode.core.scheduling.view import RunningJob, View, WaitingClass


def with_given_up(view: View, gifts: Mapping[JobId, Shares]) -> View:
    """Return the view in which these jobs hold that much less; a job with nothing left no longer runs.

    Licences that do not count processors come back with the last of a job's processors.
    """
    if not gifts:
        return view
    nodes, licences = dict(view.nodes), dict(view.licences)
    running: list[RunningJob] = []
    for job in view.running:
        gift = gifts.get(job.job)
        if gift is None:
            running.append(job)
            continue
        left = _less(job.allocation, gift)
        for node, count in gift:
            if node in nodes:
                nodes[node] = _freed(nodes[node], job, count, ended=node not in dict(left))
        _hold_licences(licences, job.request, job.allocation, -1)
        if left:
            _hold_licences(licences, job.request, left, 1)
            running.append(replace(job, allocation=left))
    return _redrawn(view, nodes, running=running, licences=licences)


def _hold_licences(
    licences: dict[str, tuple[int, int]], request: JobRequest, held: Shares, sign: int
) -> None:
    """Take the licences and limits of a job that holds this, or with a negative sign return them."""
    for feature, amount in licences_held(request, sum(count for _, count in held)).items():
        if feature in licences:
            total, free = licences[feature]
            licences[feature] = (total, free - sign * amount)


def _freed(node: NodeView, job: RunningJob, count: int, *, ended: bool) -> NodeView:
    return replace(
        held_with(node, job.request, -count, first=ended),
        free=node.free + count,
        jobs=node.jobs - ended,
        exclusive_to=None if ended and node.exclusive_to == job.job else node.exclusive_to,
    )


def _less(held: Shares, gift: Shares) -> Shares:
    gone = dict(gift)
    return tuple((node, count - gone.get(node, 0)) for node, count in held if count > gone.get(node, 0))


def with_started(view: View, starts: Sequence[Start]) -> View:
    """Return the view in which these jobs of its queue run."""
    if not starts:
        return view
    found, queue = _taken_out(view.queue, {start.job for start in starts})
    nodes, licences, running = dict(view.nodes), dict(view.licences), list(view.running)
    for start in starts:
        turn, whole = found[start.job]
        request = start.taken(whole)
        for node, count in start.allocation:
            nodes[node] = replace(
                held_with(nodes[node], request, count, first=True),
                free=nodes[node].free - count,
                jobs=nodes[node].jobs + 1,
                exclusive_to=start.job if request.exclusive else nodes[node].exclusive_to,
            )
        for key, amount in licences_taken(request, sum(count for _, count in start.allocation)).items():
            if key in licences:
                total, free = licences[key]
                licences[key] = (total, free - amount)
        end = Instant(view.now + request.run_time)
        running.append(RunningJob(start.job, turn, request, end, start.allocation))
    return _redrawn(view, nodes, running=running, licences=licences, queue=queue)


def only_what_is_free(then: View, now: View) -> View:
    """Return the view of what will be, with no more of it free than is free now."""
    nodes = {
        name: replace(
            node,
            free=max(0, min(node.free, now.nodes[name].free)),
            jobs=max(node.jobs, now.nodes[name].jobs),
            exclusive_to=now.nodes[name].exclusive_to or node.exclusive_to,
            memory_held=max(node.memory_held, now.nodes[name].memory_held),
            disk_held=max(node.disk_held, now.nodes[name].disk_held),
            swap_held=max(node.swap_held, now.nodes[name].swap_held),
            gpus_held=max(node.gpus_held, now.nodes[name].gpus_held),
        )
        for name, node in then.nodes.items()
    }
    licences = {
        name: (total, min(free, now.licences[name][1])) for name, (total, free) in then.licences.items()
    }
    return _redrawn(then, nodes, licences=licences)


def without_growth(view: View) -> View:
    """Return the view in which no running job wants more."""
    return replace(view, running=[replace(job, wants=0) if job.wants else job for job in view.running])


def _taken_out(
    queue: Iterable[WaitingClass], jobs: Collection[int]
) -> tuple[dict[int, tuple[QueuePosition, JobRequest]], list[WaitingClass]]:
    """Return the turns and requests of these jobs, and the queue without them."""
    found: dict[int, tuple[QueuePosition, JobRequest]] = {}
    others: list[WaitingClass] = []
    for each in queue:
        taken = [turn for turn in each.turns if turn.job in jobs]
        if not taken:
            others += [each] if each.turns else []
            continue
        found.update((turn.job, (turn, each.request)) for turn in taken)
        if len(taken) < len(each.turns):
            left = [turn for turn in each.turns if turn.job not in jobs]
            others.append(WaitingClass(each.request, left, each.owner, each.project))
    return found, others


def queue_up_to(view: View, last: QueuePosition) -> list[WaitingClass]:
    """Return the queue up to this turn."""
    counts = ((each, bisect_right(each.turns, last)) for each in view.queue)
    return [
        each
        if count == len(each.turns)
        else WaitingClass(each.request, each.turns[:count], each.owner, each.project)
        for each, count in counts
        if count
    ]


def with_least(queue: Iterable[WaitingClass], jobs: Collection[int]) -> list[WaitingClass]:
    """Return the queue with the requests of these jobs reduced to the least they can start with."""
    found: list[WaitingClass] = []
    for each in queue:
        few = [turn for turn in each.turns if turn.job in jobs]
        others = [turn for turn in each.turns if turn.job not in jobs]
        if others:
            found.append(WaitingClass(each.request, others, each.owner, each.project))
        if few:
            found.append(WaitingClass(least(each.request), few, each.owner, each.project))
    return found


def least(request: JobRequest) -> JobRequest:
    """Return the request reduced to the least that the job can start with."""
    others = tuple(map(least, request.alternatives))
    if request.start_at_maximum or request.parts:
        return replace(request, alternatives=others)
    return replace(request, maximum=max(request.minimum, request.node_share), alternatives=others)


def _redrawn(view: View, nodes: Mapping[str, NodeView], **changed: Any) -> View:
    ground = KnownNodes(nodes, view.node_table())
    return replace(view, nodes=nodes, ground=ground, freed=True, **changed)


def joined_shares(one: Shares, more: Shares) -> Shares:
    both = dict(one)
    for node, count in more:
        both[node] = both.get(node, 0) + count
    return tuple(both.items())


def in_turn(view: View) -> Iterator[tuple[QueuePosition, JobRequest]]:
    return merge(
        *([(turn, each.request) for turn in each.turns] for each in view.queue), key=lambda one: one[0]
    )
