"""How long a scheduling pass takes in a running head after one job ended, by what the jobs ask.

``PYTHONPATH=tests python benchmarks/warm_passes.py [--queued 100000] [--policy NAME]... [SCENE]...``

1,000 nodes of 16 processors are full with 2,000 running jobs, and jobs of 500 requests wait.  In each round
one job ends.  Processor time: the lower quartile and the median of the passes, and the median with all that
follows.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.model.job import JobSpec, Licence, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.view import View
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.reservations import MakeReservation
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from testbed.in_process import InProcessNodes

NOW = Instant(1_000_000.0)
WARM_LIMIT = 0.05  # seconds
HOUR = 3600
NODES, RUNNING, REQUESTS = 1000, 2000, 500
NAMES = [f"node{number:04}" for number in range(NODES)]
ROOT = User(name="root", uid=0, gid=0, administrator=True)
USERS = [User(name=f"user{number}", uid=2000 + number, gid=100) for number in range(10)]

Asks = Callable[[int, JobSpec], JobSpec]
"""Return the job with this number as it is in a scene."""


def plain(_: int, spec: JobSpec) -> JobSpec:
    """Return the job as it is."""
    return spec


class Scene(NamedTuple):
    """A cluster and what its jobs ask beside processors and time; `before` is done before any job comes."""

    running: Asks = plain
    waiting: Asks = plain
    before: Sequence[Command] = ()
    after: Sequence[Command] = ()
    of_users: bool = False  # jobs are of ten users, not of one administrator


def _exclusive(kind: int, spec: JobSpec) -> JobSpec:
    return replace(spec, exclusive=kind % 3 == 0)


def _with_memory(kind: int, spec: JobSpec) -> JobSpec:
    return replace(spec, process_memory=(1000, 3000, 6000)[kind % 3])


def _held_memory(number: int, spec: JobSpec) -> JobSpec:
    return replace(spec, process_memory=(1000, 4000)[number % 2])


def _with_gpus(kind: int, spec: JobSpec) -> JobSpec:
    if kind % 3:
        return spec
    task = replace(spec.tasks[0], minimum=1 + kind % 8, maximum=1 + kind % 8)
    return replace(spec, unit=UnitType.GPU, processors_per_gpu=4, tasks=(task,))


def _held_gpus(_: int, spec: JobSpec) -> JobSpec:
    task = replace(spec.tasks[0], minimum=2, maximum=2)
    return replace(spec, unit=UnitType.GPU, processors_per_gpu=4, tasks=(task,))


def _with_licence(kind: int, spec: JobSpec) -> JobSpec:
    return spec if kind % 3 else replace(spec, licences=(Licence("solver", 1 + kind % 5),))


def _held_licence(number: int, spec: JobSpec) -> JobSpec:
    return spec if number % 20 else replace(spec, licences=(Licence("solver", 1),))


def _beside(kind: int, spec: JobSpec) -> JobSpec:
    return replace(spec, contiguous=kind % 3 == 0)


def _near(kind: int, spec: JobSpec) -> JobSpec:
    return spec if kind % 3 else replace(spec, switches=1, switches_wait=FOREVER)


def _parameter(name: str, value: str) -> SetParameter:
    return SetParameter(by=ROOT, name=name, value=value)


def _reserved(first: int, hours: float) -> MakeReservation:
    nodes = tuple(NAMES[first::10])
    start = Instant(NOW + hours * HOUR)
    named = NodeReservation(name=f"upgrade{first}", start=start, end=Instant(start + 2 * HOUR), nodes=nodes)
    return MakeReservation(by=ROOT, reservation=named, regardless=True)


_LIMITS = ";".join(f"{user.name}:processors={1600 if user.uid % 2 else 4000}" for user in USERS)
_SWITCHES = ";".join(f"SwitchName=leaf{at} Nodes=node{at:02}[00-99]" for at in range(NODES // 100))
_TOP = "SwitchName=top Switches=" + ",".join(f"leaf{at}" for at in range(NODES // 100))

SCENES = {
    "all shared": Scene(),
    "some exclusive": Scene(waiting=_exclusive),
    "memory": Scene(_held_memory, _with_memory),
    "GPUs": Scene(_held_gpus, _with_gpus),
    "limits of users": Scene(before=(_parameter("UserLimits", _LIMITS),), of_users=True),
    "minutes of users": Scene(
        before=(_parameter("UserLimits", "*:processor-minutes=60000000"),), of_users=True
    ),
    "licences": Scene(_held_licence, _with_licence, (_parameter("Licences", "solver:100"),)),
    "switches": Scene(waiting=_near, before=(_parameter("Topology", f"{_SWITCHES};{_TOP}"),)),
    "contiguous": Scene(waiting=_beside),
    "nodes reserved later": Scene(after=(_reserved(0, 2), _reserved(1, 30))),
    "nodes that will close": Scene(
        after=[DrainNode(by=ROOT, node=name, closes=Instant(NOW + 3 * HOUR)) for name in NAMES[::50]]
    ),
    "nodes drained": Scene(after=[DrainNode(by=ROOT, node=name, reason="disk") for name in NAMES[::50]]),
    "weights": Scene(
        before=(_parameter("PriorityWeights", "fair-share=1000,age=500,size=100"),), of_users=True
    ),
}


class FullHead:
    """A head in one process whose 1,000 nodes are full, with jobs waiting."""

    def __init__(self, policy: str, scene: Scene, queued: int) -> None:
        self.nodes, self.clock = InProcessNodes(), VirtualClock(NOW)
        self.engine = Engine(
            MemoryJournal(), self.clock, {policy: self._clocked(POLICIES[policy])}, self.nodes
        )
        self.spans: list[float] = []
        dice = random.Random(2003)
        facts = [NodeFacts(name=name, processors=16, memory=64_000, gpus=4) for name in NAMES]
        self.engine.handle([RegisterNode(facts=each, approved=True) for each in facts])
        self.engine.handle([_parameter("SchedulingPolicy", policy), *scene.before])
        self.engine.handle(
            [
                _submits(at, scene.running(at, _spec(8, dice.uniform(1, 20) * HOUR)), scene)
                for at in range(RUNNING)
            ]
        )
        waiting = []
        for kind in range(REQUESTS):
            lasts = HOUR * (1 + kind / REQUESTS) if kind % 5 else FOREVER
            waiting.append(scene.waiting(kind, _spec(dice.choice((1, 4, 16, 32, 64)) + kind % 7, lasts)))
        jobs = [_submits(at, waiting[at % REQUESTS], scene) for at in range(queued)]
        self.engine.handle(jobs)
        self.engine.handle(list(scene.after))

    def _clocked(self, plan: Policy) -> Policy:
        def clocked(view: View) -> Plan:
            began = time.process_time()
            made = plan(view)
            self.spans.append(time.process_time() - began)
            return made

        return clocked

    def after_one_end(self) -> tuple[float, float]:
        """Let one job end; return the seconds of its pass, and of everything the head did about it."""
        self.spans.clear()
        self.clock.advance(Seconds(1.0))
        report = self.nodes.ended(self.nodes.running()[7], self.clock.now(), kind="exited", exit_code=0)
        began = time.process_time()
        self.engine.handle([report])
        return sum(self.spans), time.process_time() - began


def _spec(processors: int, seconds: float) -> JobSpec:
    task = TaskSpec(command="x", minimum=processors, maximum=processors)
    return JobSpec(tasks=(task,), run_time=Seconds(seconds))


def _submits(number: int, spec: JobSpec, scene: Scene) -> CreateJob:
    by = USERS[number % len(USERS)] if scene.of_users else ROOT
    return CreateJob(by=by, spec=spec, submit=True)


def warm(scenes: Sequence[str], policies: Sequence[str], queued: int = 10_000, rounds: int = 9) -> bool:
    """Print what a pass costs after one job ended; return whether the limit is broken."""
    broken = False
    print(
        f"warm pass after one job ended, {queued:,} queued, every processor in use, in a running head (ms):"
    )
    print(f"    {'':<20} {'':<22} {'quartile':>8} {'median':>7} {'with all else':>14}")
    for policy in policies:
        for title in scenes:
            head = FullHead(policy, SCENES[title], queued)
            head.after_one_end()
            passes, wholes = zip(*(head.after_one_end() for _ in range(rounds)), strict=True)
            quarter, median, _ = statistics.quantiles(passes, n=4)
            broken |= median > WARM_LIMIT
            whole = statistics.median(wholes)
            print(
                f"    {policy:<20} {title:<22} {quarter * 1e3:8.1f} {median * 1e3:7.1f} {whole * 1e3:14.1f}",
                flush=True,
            )
    return broken


def main() -> int:
    """Print the figures of the scenes; fail when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--policy", action="append", choices=tuple(POLICIES))
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=", ".join(SCENES))
    asked = parser.parse_args()
    policies = asked.policy or [*POLICIES]
    return int(warm(asked.scenes or [*SCENES], policies, asked.queued, asked.rounds))


if __name__ == "__main__":
    raise SystemExit(main())
