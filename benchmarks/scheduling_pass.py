"""How long one scheduling pass takes, from nothing but a view: `python benchmarks/scheduling_pass.py`.

The limit for 10,000 queued jobs of 500 requests on 1,000 nodes with 2,000 running jobs is one second.
"""

import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import msgspec

from headnode.core.model.job import JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, Instant, JobId, Seconds
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import NodeView, RunningJob, View, WaitingClass

NOW = Instant(1_000_000.0)
LIMIT = 1.0  # seconds
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
    turns = sorted((-dice.choice((1000, 2000, 3000)), job, job) for job in range(running, running + queued))
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
        (-2000, number, number),
        request(processors, processors, HOUR),
        end,
        ((name, processors),),
    )


def one_class(queued: int) -> View:
    """Return a small cluster before a long queue of one request."""
    view = mixed(64, 0, queued, 1, shared=True)
    return View(view.now, view.nodes, [WaitingClass(request(2, 2, HOUR), view.queue[0].turns)], ())


def measured(act: Callable[[], object]) -> float:
    """Return the median seconds of a few rounds."""
    spans = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        act()
        spans.append(time.perf_counter() - began)
    return statistics.median(spans)


def main() -> int:
    """Print the figures; fail when the limit is broken."""
    worst = 0.0
    scenes = {
        "some exclusive": mixed(1000, 2000, 10_000, 500, shared=False),
        "all shared": mixed(1000, 2000, 10_000, 500, shared=True),
        "own rules for nodes each": picky(mixed(1000, 2000, 10_000, 500, shared=True)),
    }
    long = one_class(100_000)
    for policy, plan in POLICIES.items():
        for title, view in scenes.items():
            span = measured(partial(plan, view))
            worst = max(worst, span)
            print(
                f"{policy} pass, 10,000 queued in {len(view.queue)} classes ({title}), "
                "1,000 nodes, 2,000 running:"
            )
            print(f"    {span * 1e3:6.1f} ms, {len(plan(view).starts)} starts (limit {LIMIT * 1e3:.0f} ms)")
        span = measured(partial(plan, long))
        print(f"{policy} pass, 100,000 queued in 1 class, 64 nodes:")
        print(f"    {span * 1e3:6.1f} ms, {len(plan(long).starts)} starts")
    return int(worst > LIMIT)


def picky(view: View) -> View:
    """Return the view with a memory bound of its own for every class, so that none share their candidates."""
    queue = [
        WaitingClass(msgspec.structs.replace(waiting.request, minimum_memory=number), waiting.turns)
        for number, waiting in enumerate(view.queue, start=1)
    ]
    return msgspec.structs.replace(view, queue=queue)


if __name__ == "__main__":
    raise SystemExit(main())
