"""Runs policies over a log and tells how it went and how long it took."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headnode.apps.simulate.asking import AS_LOGGED, Asking
from headnode.apps.simulate.log_file import read_log
from headnode.apps.simulate.machine import Machine, pool
from headnode.apps.simulate.variants import Values, Variant, read_variants
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
    from headnode.apps.simulate.toll import Toll
    from headnode.core.lifecycle.events import Place  # the head is 40 ms to import

Progress = Callable[[str, int, int], None]
"""Is told the policy, how many jobs have come and how many there are."""


def _untold(_policy: str, _come: int, _jobs: int) -> None:
    """Nobody wants to know."""


class Scene(NamedTuple):
    """Under what conditions policies are tried.

    `processors` None takes the size of the machine from the log.  With `engine` the jobs go through the head
    itself, with its scheduler and life cycles, instead of the counters of the pool; so they do when a
    `machine` is described, which has its own size.  Only there `parameters` of the cluster count, which are
    those of all that is compared, and `asking`.
    """

    ties: Ties = Ties.ENDS_FIRST
    processors: int | None = None
    engine: bool = False
    machine: Machine | None = None
    parameters: Values = ()
    asking: Asking = AS_LOGGED

    @property
    def through_engine(self) -> bool:
        """Whether the jobs go through the head itself."""
        return self.engine or self.machine is not None


class Outcome(NamedTuple):
    """What a variant made of a log; `seconds` are those of reading the log and replaying it.

    `places` are the processors that each job held on a described machine; a pool only counts them.  The
    `toll` is known of jobs that went through the head.
    """

    variant: Variant
    ties: Ties
    starts: Sequence[float]
    figures: Figures
    seconds: float
    places: "Sequence[Place] | None" = None
    toll: "Toll | None" = None

    @property
    def name(self) -> str:
        """What it is called: its policy, with the parameters that are its own."""
        return self.variant.name


class Simulation(NamedTuple):
    """A log, what each variant made of it in the order asked for, and in which scene."""

    log: Log
    outcomes: tuple[Outcome, ...]
    scene: Scene = Scene()

    @property
    def machine(self) -> Machine | None:
        """The machine, if one was described."""
        return self.scene.machine

    @property
    def is_about_parameters(self) -> bool:
        """Whether anything but policies was chosen: then it is told what jobs were stopped for others."""
        chosen = any(outcome.variant.parameters for outcome in self.outcomes)
        return chosen or self.scene.asking != AS_LOGGED


def simulate(path: str, variants: Sequence[str], scene: Scene, progress: Progress = _untold) -> Simulation:
    """Replay the log at `path` under each of the variants, such as ``easy+PreemptionType=Graceful``.

    Raises:  BadRequest ``policy``, ``simulation-engine`` and what `read_variants` raises, before anything is
             read; ``which-jobs``, and what `read_log` raises.
    """
    chosen = read_variants(variants, scene.parameters)
    for variant in chosen:
        _check_known(variant.policy, scene)
        _check_engine(variant, scene)
    began = time.perf_counter()
    log = _read(path, scene)
    scene.asking.check(log.workload)
    reading = time.perf_counter() - began
    outcomes = []
    for variant in chosen:
        began = time.perf_counter()
        outcome = _replayed(log, variant, scene, partial(progress, variant.name))
        outcomes.append(outcome._replace(seconds=reading + time.perf_counter() - began))
    return Simulation(log, tuple(outcomes), scene)


def _check_engine(variant: Variant, scene: Scene) -> None:
    if (variant.parameters or scene.asking != AS_LOGGED) and not scene.through_engine:
        raise BadRequest(
            code="simulation-engine",
            what="a pool of processors has no parameters, priorities or smaller sizes",
            fix="run the jobs through the engine of the head: --engine, or --nodes with described nodes",
        )


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

    suit = fits(scene.machine, scene.asking)
    return read_log(path, scene.machine.processors, fits=suit, whose=True)


def _replayed(log: Log, variant: Variant, scene: Scene, progress: Callable[[int, int], None]) -> Outcome:
    """Return the outcome, without how long it took."""
    jobs = len(log.workload.submits)

    def told(come: int) -> None:
        progress(come, jobs)

    if scene.through_engine:
        return _through_head(log, variant, scene, told)
    chosen = POLICIES[variant.policy](log.workload, log.processors, scene.ties)
    starts = replay(log.workload, chosen, scene.ties, told)
    return Outcome(variant, scene.ties, starts, figures(log.workload, starts, log.processors), 0.0)


def _through_head(log: Log, variant: Variant, scene: Scene, told: Callable[[int], None]) -> Outcome:
    from headnode.apps.simulate.engine_replay import EngineReplay
    from headnode.apps.simulate.places import places_held

    machine = scene.machine or pool(log.processors)
    head = EngineReplay(
        log.workload,
        machine,
        variant.policy,
        _policies(variant.policy),
        parameters=variant.parameters,
        asking=scene.asking,
    )
    starts = head.run(scene.ties, told)
    return Outcome(
        variant,
        scene.ties,
        starts,
        figures(log.workload, starts, log.processors),
        0.0,
        None if scene.machine is None else places_held(head.journal, len(starts)),
        head.toll(),
    )
