"""How long one scheduling pass takes, from nothing but a view.

``PYTHONPATH=tests python benchmarks/scheduling_pass.py``, or ``make bench``.

For 10,000 queued jobs of 500 requests on 1,000 nodes with 2,000 running jobs the limits are one second, five
for conservative with 100 reservations.  `warm_passes` has those of a running head.  Processor time, so that
figures mean the same on a machine that others use; words name the parts to measure: preemption balanced.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from headnode.core.model.job import JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.priority_factors import QueuePosition, queue_position
from headnode.core.model.quantities import FOREVER, Instant, JobId, Seconds
from headnode.core.scheduling import preempt as preempting
from headnode.core.scheduling.node_view import NodeView, ReservedTime
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.preempt import PreemptionCandidate
from headnode.core.scheduling.view import Balancing, NodeSurplus, RunningJob, ShareInfo, View, WaitingClass
from headnode.engine.preemption import plan_in_mode

NOW = Instant(1_000_000.0)
LIMIT = 1.0  # seconds
LIMITS = {"conservative": 5.0, "conservative-replan": 5.0}
DEPTH = 100  # reservations
ROUNDS = 5
HOUR = 3600


def request(minimum: int, maximum: int, seconds: float, *, exclusive: bool = False) -> JobRequest:
    """Return a request for processors."""
    return JobRequest(
        unit=UnitType.PROCESSOR,
        minimum=minimum,
        maximum=maximum,
        exclusive=exclusive,
        single_node=False,
        run_time=Seconds(seconds),
        licences=(),
        node_groups=(),
        node_group_op=NodeGroupOp.INTERSECT,
        requested_nodes=(),
        required_nodes=(),
        excluded_nodes=(),
        order_by=(),
        minimum_memory=None,
        maximum_memory=None,
        minimum_processors_per_node=None,
        maximum_processors_per_node=None,
    )


def mixed(nodes: int, running: int, queued: int, classes: int, *, shared: bool) -> View:
    """Return a busy cluster of 16-processor nodes; `shared`: nobody asks for whole nodes."""
    dice = random.Random(2003)
    free = dict.fromkeys((f"node{i:04}" for i in range(nodes)), 16)
    jobs = [_running(dice, number, free) for number in range(running)]
    held = {name: sum(1 for job in jobs for taken, _ in job.allocation if taken == name) for name in free}
    wanted = [
        request(
            dice.choice((1, 4, 16, 32, 64)) + number % 7,
            256 + number,  # so that no two requests are the same
            HOUR * (1 + number / classes) if number % 5 else FOREVER,
            exclusive=not shared and number % 3 == 0,
        )
        for number in range(classes)
    ]
    turns = sorted(
        queue_position(dice.choice((1000, 2000, 3000)), job, job) for job in range(running, running + queued)
    )
    return View(
        now=NOW,
        nodes={
            name: NodeView(NodeFacts(name=name, processors=16, memory=64_000), left, held[name])
            for name, left in free.items()
        },
        queue=[WaitingClass(want, turns[number::classes]) for number, want in enumerate(wanted)],
        running=jobs,
    )


def _running(dice: random.Random, number: int, free: dict[str, int]) -> RunningJob:
    processors = dice.choice((4, 6, 7, 8))
    names = sorted(free, key=lambda name: -free[name])[:50]  # the emptiest, so that there is room for all
    name = dice.choice(names)
    free[name] -= processors
    end = Instant(NOW + dice.uniform(60, 20 * HOUR))
    return RunningJob(
        JobId(number),
        queue_position(2000, number, number),
        request(processors, processors, HOUR),
        end,
        ((name, processors),),
    )


def measured(act: Callable[[], object]) -> float:
    """Return the median seconds of a few rounds, of processor time."""
    spans = []
    for _ in range(ROUNDS):
        began = time.process_time()
        act()
        spans.append(time.process_time() - began)
    return statistics.median(spans)


def cold() -> bool:
    """Print what a pass costs that knows nothing from before; return whether a limit is broken."""
    broken = False
    scenes = {
        "some exclusive": mixed(1000, 2000, 10_000, 500, shared=False),
        "all shared": mixed(1000, 2000, 10_000, 500, shared=True),
        "own rules for nodes each": picky(mixed(1000, 2000, 10_000, 500, shared=True)),
    }
    print("cold pass, 10,000 queued in 500 requests, 1,000 nodes, 2,000 running:")
    for policy, plan in POLICIES.items():
        limit = LIMITS.get(policy, LIMIT)
        for title, view in scenes.items():
            span = measured(partial(plan, msgspec.structs.replace(view, depth=DEPTH)))
            broken |= span > limit
            print(f"    {policy:<20} {title:<26} {span * 1e3:7.1f} ms (limit {limit * 1e3:.0f})")
    return broken


def with_reservations() -> None:
    """Print what it costs that a tenth of the nodes is reserved two hours from now, of the same pass."""
    print("cold pass, the same sizes, 100 of the nodes reserved for maintenance two hours from now (ms):")
    for title, shared in (("some exclusive", False), ("all shared", True)):
        view = mixed(1000, 2000, 10_000, 500, shared=shared)
        time_off = (ReservedTime("upgrade", 2.0 * HOUR, 4.0 * HOUR, says="for maintenance"),)
        nodes = {
            name: msgspec.structs.replace(node, reserved=time_off) if number % 10 == 0 else node
            for number, (name, node) in enumerate(view.nodes.items())
        }
        view = msgspec.structs.replace(view, nodes=nodes, depth=DEPTH)
        for policy, plan in POLICIES.items():
            print(f"    {policy:<20} {title:<26} {measured(partial(plan, view)) * 1e3:7.1f} ms")


def preemption() -> bool:
    """Print what a pass costs in which others are preempted; return whether the limit is broken."""
    broken = False
    print("cold pass with PreemptionType=Immediate under easy, the same sizes, all shared, every node full:")
    scenes = {
        "nobody is urgent": (),
        "one urgent job of 16": (16,),
        "one urgent job of 256": (256,),
        "fifty alike of 16": (16,) * 50,
        "fifty of 16 to 65, all different": tuple(range(16, 66)),
    }
    for title, sizes in scenes.items():
        view = urgent(sizes)
        since = [PreemptionCandidate(job.job, Instant(NOW - job.job)) for job in view.running]
        scene = preempting.PreemptionState((), {}, partial(_below, since))
        alone = measured(partial(POLICIES["easy"], view))
        act = partial(preempting.preempting_plan, view, POLICIES["easy"], scene)
        span, made = measured(act), act()
        broken |= span > LIMIT
        print(
            f"    {title:<34} {span * 1e3:7.1f} ms (limit {LIMIT * 1e3:.0f}), the policy alone "
            f"{alone * 1e3:.1f} ms; {len(made.preempts)} preempted, for "
            f"{len({each.for_job for each in made.preempts})}"
        )
    return broken


def _below(running: Sequence[PreemptionCandidate], priority: int) -> Sequence[PreemptionCandidate]:
    return running if priority > 2000 else ()


def _at_most_normal(turn: QueuePosition) -> QueuePosition:
    return msgspec.structs.replace(turn, minus_priority=max(-2000, turn.minus_priority))


def urgent(sizes: Sequence[int]) -> View:
    """Return a full cluster whose queue begins with jobs of these sizes, of a priority above all others."""
    dice, view = random.Random(2019), mixed(1000, 2000, 10_000, 500, shared=True)
    names = list(view.nodes)
    running = [
        RunningJob(
            JobId(number),
            queue_position(2000, number, number),
            request(8, 8, HOUR),
            Instant(NOW + dice.uniform(60, 20 * HOUR)),
            ((names[number // 2], 8),),
        )
        for number in range(2000)
    ]
    queue = [
        WaitingClass(each.request, sorted(_at_most_normal(turn) for turn in each.turns))
        for each in view.queue
    ]
    for size in sorted(set(sizes)):
        turns = [
            queue_position(4000, 20_000 + at, 20_000 + at) for at, each in enumerate(sizes) if each == size
        ]
        queue.append(WaitingClass(request(size, size, HOUR), turns))
    nodes = {name: NodeView(node.facts, 0, 2) for name, node in view.nodes.items()}
    return msgspec.structs.replace(view, nodes=nodes, running=running, queue=queue)


def balanced() -> bool:
    """Print what a pass in balanced mode costs; return whether the limit is broken.

    Each running job has 4 to 8 processors, a minimum of one and tasks for more than there is.
    """
    broken = False
    print("cold pass in balanced mode under easy, the same sizes, all shared:")
    waiting = mixed(1000, 2000, 10_000, 500, shared=True)
    nobody_fits = [
        WaitingClass(msgspec.structs.replace(each.request, minimum=15_000, maximum=15_000 + at), each.turns)
        for at, each in enumerate(waiting.queue)
    ]
    scenes = {
        "all can start, others give up": sharing(waiting),
        "nobody waits, shares restored": sharing(msgspec.structs.replace(waiting, queue=[])),
        "nobody can start, shares restored": sharing(msgspec.structs.replace(waiting, queue=nobody_fits)),
        "nobody can start or wants more": sharing(
            msgspec.structs.replace(waiting, queue=nobody_fits), wanting=False
        ),
    }
    for title, view in scenes.items():
        span = measured(partial(plan_in_mode, POLICIES["easy"], view))
        broken |= span > LIMIT
        made = plan_in_mode(POLICIES["easy"], view)
        print(
            f"    {title:<34} {span * 1e3:7.1f} ms (limit {LIMIT * 1e3:.0f}); {len(made.starts)} start, "
            f"{len(made.claims)} are given up for, {len(made.recalls)} give up, {len(made.grows)} grow"
        )
    return broken


def sharing(view: View, *, wanting: bool = True) -> View:
    """Return the view in balanced mode, with running jobs of every priority, which may want more."""
    dice = random.Random(2008)
    running, sharers = [], {}
    for job in view.running:
        turn = msgspec.structs.replace(job.turn, minus_priority=-dice.choice((1000, 2000, 3000)))
        running.append(msgspec.structs.replace(job, turn=turn, request=request(1, 64, HOUR)))
        held = tuple(NodeSurplus(name, count, stoppable=count) for name, count in job.allocation)
        sharers[job.job] = ShareInfo(job.job, 64, 64, held) if wanting else ShareInfo(job.job, 1, 0, held)
    balancing = Balancing(sharers=sharers)
    return msgspec.structs.replace(view, running=running, balancing=balancing)


def curve() -> None:
    """Print how the time of a pass follows the length of the queue."""
    print("cold pass by length of the queue, 1,000 nodes, 2,000 running, some exclusive, 500 requests (ms):")
    print("    queued  " + "".join(f"{policy:>21}" for policy in POLICIES))
    for queued in (100, 1_000, 10_000, 100_000):
        view = mixed(1000, 2000, queued, min(queued, 500), shared=False)
        view = msgspec.structs.replace(view, depth=DEPTH)
        spans = [measured(partial(plan, view)) * 1e3 for plan in POLICIES.values()]
        print(f"    {queued:<8}" + "".join(f"{span:21.1f}" for span in spans))


def main() -> int:
    """Print the figures of all parts, or of those that are named; fail when a limit is broken."""
    parts = (cold, preemption, balanced, with_reservations, curve)
    broken = [part() for part in parts if part.__name__ in sys.argv[1:] or not sys.argv[1:]]
    return int(any(broken))


def picky(view: View) -> View:
    """Return the view with a memory bound of its own for every class, so that none share their candidates."""
    queue = [
        WaitingClass(msgspec.structs.replace(waiting.request, minimum_memory=number), waiting.turns)
        for number, waiting in enumerate(view.queue, start=1)
    ]
    return msgspec.structs.replace(view, queue=queue)


if __name__ == "__main__":
    raise SystemExit(main())
