"""Runs policies over a log and tells how it went and how long it took."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headnode.apps.simulate.log_file import read_log
from headnode.apps.simulate.machine import Machine, pool
from headnode.core.formats.swf import Log
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.policies import POLICIES as PRODUCTION
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.pool.figures import Figures, figures
from headnode.core.scheduling.pool.policies import POLICIES
from headnode.core.scheduling.pool.replay import replay
from headnode.core.scheduling.pool.ties import Ties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.core.lifecycle.events import Place  # the head is 40 ms to import

Progress = Callable[[str, int, int], None]
"""Is told the policy, how many jobs have come and how many there are."""


def _untold(_policy: str, _come: int, _jobs: int) -> None:
    """Nobody wants to know."""


class Scene(NamedTuple):
    """Under what conditions policies are tried.

    `processors` None takes the size of the machine from the log.  With `engine` the jobs go through the head
    itself, with its scheduler and life cycles, instead of the counters of the pool; so they do when a
    `machine` is described, which has its own size.
    """

    ties: Ties = Ties.ENDS_FIRST
    processors: int | None = None
    engine: bool = False
    machine: Machine | None = None

    @property
    def through_engine(self) -> bool:
        """Whether the jobs go through the head itself."""
        return self.engine or self.machine is not None


class Outcome(NamedTuple):
    """What a policy made of a log; `seconds` are those of reading the log and replaying it.

    `places` are the processors that each job held on a described machine; a pool only counts them.
    """

    policy: str
    ties: Ties
    starts: Sequence[float]
    figures: Figures
    seconds: float
    places: "Sequence[Place] | None" = None


class Simulation(NamedTuple):
    """A log, what each policy made of it in the order asked for, and the machine, if one was described."""

    log: Log
    outcomes: tuple[Outcome, ...]
    machine: Machine | None = None


def simulate(path: str, policies: Sequence[str], scene: Scene, progress: Progress = _untold) -> Simulation:
    """Replay the log at `path` under each of the policies.

    Raises:  BadRequest ``policy`` before anything is read, and what `read_log` raises.
    """
    for policy in policies:
        _check_known(policy, scene)
    began = time.perf_counter()
    log = _read(path, scene)
    reading = time.perf_counter() - began
    outcomes = []
    for policy in policies:
        began = time.perf_counter()
        starts, places = _replayed(log, policy, scene, partial(progress, policy))
        seconds = reading + time.perf_counter() - began
        found = figures(log.workload, starts, log.processors)
        outcomes.append(Outcome(policy, scene.ties, starts, found, seconds, places))
    return Simulation(log, tuple(outcomes), scene.machine)


def _check_known(policy: str, scene: Scene) -> None:
    known: Collection[str] = PRODUCTION if scene.through_engine else POLICIES
    if policy not in known and scene.through_engine:
        from headnode.apps.simulate.plug_ins import plug_ins  # looking for them takes a while

        known = [*known, *plug_ins()]
    if policy not in known:
        raise BadRequest(
            code="policy",
            what=f"there is no policy {policy!r} to simulate"
            + (" through the engine" if scene.through_engine else ""),
            fix=f"choose {', '.join(known)}"
            + ("" if scene.through_engine else "; policies of other packages need --engine or --nodes"),
        )


def _policies(chosen: str) -> Mapping[str, Policy]:
    if chosen in PRODUCTION:
        return PRODUCTION
    from headnode.apps.simulate.plug_ins import plug_ins

    return plug_ins()


def _read(path: str, scene: Scene) -> Log:
    if scene.machine is None:
        return read_log(path, scene.processors, whose=scene.engine)
    from headnode.apps.simulate.submissions import fits

    return read_log(path, scene.machine.processors, fits=fits(scene.machine), whose=True)


def _replayed(
    log: Log, policy: str, scene: Scene, progress: Callable[[int, int], None]
) -> "tuple[Sequence[float], Sequence[Place] | None]":
    jobs = len(log.workload.submits)

    def told(come: int) -> None:
        progress(come, jobs)

    if scene.through_engine:
        from headnode.apps.simulate.engine_replay import EngineReplay
        from headnode.apps.simulate.places import places_held

        machine = scene.machine or pool(log.processors)
        head = EngineReplay(log.workload, machine, policy, _policies(policy))
        return head.run(scene.ties, told), None if scene.machine is None else places_held(head.journal, jobs)
    chosen = POLICIES[policy](log.workload, log.processors, scene.ties)
    return replay(log.workload, chosen, scene.ties, told), None
