"""Runs policies over a log, those of other packages too, and tells how it went and how long it took."""

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from headnode.adapters.files.job_logs import read_log
from headnode.adapters.policy_plug_ins import installed_policies
from headnode.apps.simulate.machine import SimulatedMachine, pool
from headnode.apps.simulate.scenario import AS_LOGGED, RequestOverrides, Values, Variant, read_variants
from headnode.core.formats.swf import SwfLog
from headnode.core.model.errors import BadRequest
from headnode.core.model.owner_limits import LIMIT_PARAMETERS
from headnode.core.model.priority_factors import ORDER_PARAMETERS
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES as PRODUCTION
from headnode.core.scheduling.policies import OrdersQueue, Policy
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import ScheduleFigures, Ties, replay, schedule_figures
from headnode.core.scheduling.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.simulate.engine_replay import EngineReplay, PreemptionCost
    from headnode.apps.simulate.limit_waits import LimitWaits
    from headnode.apps.simulate.submissions import LogOwners
    from headnode.core.state.job_events import NodeCores  # the head is 40 ms to import


@cache
def plug_in_policies() -> Mapping[str, Policy]:
    """Return the policies of installed packages by name; say on standard error which cannot be used."""
    installed = installed_policies()
    for name, why in installed.troubles.items():
        sys.stderr.write(f"hn: the policy {name} cannot be used: {why}\n")
    return {name: _strict(name, policy) for name, policy in installed.policies.items()}


def _strict(name: str, policy: Policy) -> Policy:
    return (_StrictOrder if isinstance(policy, OrdersQueue) else _Strict)(name, policy)


class _Strict:
    """A plug-in without a fallback: its failure ends the replay."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name, self._policy = name, policy

    def __call__(self, view: View, /) -> Plan:
        from headnode.core.scheduling.verify_plan import plan_fault

        try:
            made = self._policy(view)
            wrong = plan_fault(made, view)
        except Exception as error:  # a stranger's code may raise anything
            raise self._failed(error) from error
        if wrong:
            raise _plug_in_failed(self._name, wrong)
        return made

    def _failed(self, error: Exception) -> BadRequest:
        return _plug_in_failed(self._name, f"{type(error).__name__}: {error}")


class _StrictOrder(_Strict, OrdersQueue):
    """The same of a policy that orders the queue."""

    def ordered(self, view: View, /) -> View:
        if not isinstance(self._policy, OrdersQueue):
            return view
        try:
            return self._policy.ordered(view)
        except Exception as error:  # as above
            raise self._failed(error) from error


def _plug_in_failed(name: str, what: str) -> BadRequest:
    return BadRequest(
        code="policy-failed",
        what=f"the policy {name!r} has failed: {what}",
        fix="choose another, or report it to its author, who can test it with headnode.testing.check_policy",
    )


Progress = Callable[[str, int, int], None]
"""Is told the policy, how many jobs have come and how many there are."""


def _no_progress(_policy: str, _come: int, _jobs: int) -> None:
    """Nobody wants to know."""


class ReplaySetup(NamedTuple):
    """Under what conditions policies are tried.

    `processors` None takes the size of the machine from the log.  With `engine` the jobs go through the head
    itself, with its scheduler and life cycles, instead of the counters of the pool; so they do when a
    `machine` is described, which has its own size, and when there is `asking`, or `parameters` of the
    cluster, which are those of all that is compared.  `owners` None: users and projects are called by their
    numbers in the log.
    """

    ties: Ties = Ties.ENDS_FIRST
    processors: int | None = None
    engine: bool = False
    machine: SimulatedMachine | None = None
    parameters: Values = ()
    asking: RequestOverrides = AS_LOGGED
    owners: "LogOwners | None" = None

    @property
    def through_engine(self) -> bool:
        """Whether the jobs go through the head itself."""
        return self.engine or self.machine is not None


class PolicyOutcome(NamedTuple):
    """What a variant made of a log; `seconds` are those of reading the log and replaying it.

    The places are the processors that each job held on a described machine; a pool only counts them.  The
    `preemption_cost` is known of jobs that went through the head, the `limit_waits` if users or projects
    were limited.
    """

    variant: Variant
    ties: Ties
    starts: Sequence[float]
    figures: ScheduleFigures
    seconds: float
    places: "Sequence[NodeCores] | None" = None
    preemption_cost: "PreemptionCost | None" = None
    limit_waits: "LimitWaits | None" = None

    @property
    def name(self) -> str:
        """What it is called: its policy, with the parameters that are its own."""
        return self.variant.name


class Simulation(NamedTuple):
    """A log, what each variant made of it in the order asked for, and in which scene.

    notes:  sentences about what was chosen and the log
    """

    log: SwfLog
    outcomes: tuple[PolicyOutcome, ...]
    scene: ReplaySetup = ReplaySetup()
    notes: tuple[str, ...] = ()

    @property
    def machine(self) -> SimulatedMachine | None:
        """The machine, if one was described."""
        return self.scene.machine

    @property
    def is_about_parameters(self) -> bool:
        """Whether anything but policies was chosen: then it is told what jobs were stopped for others."""
        chosen = any(outcome.variant.parameters for outcome in self.outcomes)
        return chosen or self.scene.asking != AS_LOGGED

    @property
    def is_about_limits(self) -> bool:
        """Whether users or projects were limited: then it is told how long jobs waited for that."""
        return any(outcome.limit_waits is not None for outcome in self.outcomes)

    @property
    def is_about_preemption(self) -> bool:
        """Whether anything but policies and limits was chosen."""
        names = {name for outcome in self.outcomes for name, _ in outcome.variant.parameters}
        return not names <= {*LIMIT_PARAMETERS, *ORDER_PARAMETERS} or self.scene.asking != AS_LOGGED


def simulate(
    path: str, variants: Sequence[str], scene: ReplaySetup, progress: Progress = _no_progress
) -> Simulation:
    """Replay the log at `path` under each of the variants, such as ``easy+PreemptionType=Graceful``.

    Jobs go through the head if there are parameters, or if jobs are changed: a pool has none of that.
    Raises:  BadRequest ``policy`` and what `read_variants` raises, before anything is read; ``which-jobs``,
             ``simulation-limits``, and what `read_log` raises.
    """
    chosen = read_variants(variants, scene.parameters)
    if any(variant.parameters for variant in chosen) or scene.asking != AS_LOGGED:
        scene = scene._replace(engine=True)
    for variant in chosen:
        _check_known(variant.policy, scene)
    began = time.perf_counter()
    log = _read(path, scene, chosen)
    scene.asking.check(log.workload)
    notes = _owner_notes(log, chosen, scene)
    reading = time.perf_counter() - began
    outcomes = []
    for variant in chosen:
        began = time.perf_counter()
        outcome = _replayed(log, variant, scene, partial(progress, variant.name))
        outcomes.append(outcome._replace(seconds=reading + time.perf_counter() - began))
    return Simulation(log, tuple(outcomes), scene, notes)


def _check_known(policy: str, scene: ReplaySetup) -> None:
    known: Collection[str] = PRODUCTION if scene.through_engine else POOL_POLICIES
    if policy not in known and scene.through_engine:
        known = [*known, *plug_in_policies()]
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

    return plug_in_policies()


def _read(path: str, scene: ReplaySetup, chosen: Sequence[Variant]) -> SwfLog:
    """Read the log without the jobs that could never run under one of the variants."""
    if scene.machine is None and not _limited(chosen):
        return read_log(path, scene.processors, whose=scene.engine)
    from headnode.apps.simulate.replay_limits import NeverRunsCheck, limit_indexes, refuse_groups_in_history
    from headnode.apps.simulate.submissions import BY_NUMBERS, groups_in_log

    size = scene.processors if scene.machine is None else scene.machine.processors
    parameters, owners = [variant.parameters for variant in _limited(chosen)], scene.owners or BY_NUMBERS
    limits = limit_indexes(parameters)
    if any(index.group_names for index in limits):  # a later job may say in which groups a user is
        refuse_groups_in_history(scene.owners)
        limits = limit_indexes(parameters, groups_in_log(read_log(path, size, whose=True).workload, owners))
    never = NeverRunsCheck(scene.machine, scene.asking, limits, owners)
    return read_log(path, size, never=never, whose=True)


def _limited(chosen: Sequence[Variant]) -> list[Variant]:
    """Return the variants that set limits of users or projects."""
    return [variant for variant in chosen if not LIMIT_PARAMETERS.keys().isdisjoint(dict(variant.parameters))]


def _owner_notes(log: SwfLog, chosen: Sequence[Variant], scene: ReplaySetup) -> tuple[str, ...]:
    """Return sentences about limits and shares of users and projects without jobs in the log."""
    named = {name for variant in chosen for name, _ in variant.parameters}
    if named.isdisjoint((*LIMIT_PARAMETERS, *ORDER_PARAMETERS)):
        return ()
    from headnode.apps.simulate.replay_limits import limit_indexes, limit_notes, share_notes
    from headnode.apps.simulate.submissions import BY_NUMBERS

    parameters, owners = [variant.parameters for variant in chosen], scene.owners or BY_NUMBERS
    limits = limit_indexes(parameters)
    return (*limit_notes(log.workload, limits, owners), *share_notes(log.workload, parameters, owners))


def _replayed(
    log: SwfLog, variant: Variant, scene: ReplaySetup, progress: Callable[[int, int], None]
) -> PolicyOutcome:
    """Return the outcome, without how long it took."""
    jobs = len(log.workload.submits)

    def told(come: int) -> None:
        progress(come, jobs)

    if scene.through_engine:
        return _through_head(log, variant, scene, told)
    chosen = POOL_POLICIES[variant.policy](log.workload, log.processors, scene.ties)
    starts = replay(log.workload, chosen, scene.ties, told)
    return PolicyOutcome(
        variant, scene.ties, starts, schedule_figures(log.workload, starts, log.processors), 0.0
    )


def _through_head(
    log: SwfLog, variant: Variant, scene: ReplaySetup, progress: Callable[[int], None]
) -> PolicyOutcome:
    from headnode.apps.simulate.engine_replay import EngineReplay, last_allocations
    from headnode.apps.simulate.submissions import BY_NUMBERS

    machine = scene.machine or pool(log.processors)
    head = EngineReplay(
        log.workload,
        machine,
        variant.policy,
        _policies(variant.policy),
        parameters=variant.parameters,
        asking=scene.asking,
        owners=scene.owners or BY_NUMBERS,
    )
    starts = head.run(scene.ties, progress)
    cost = head.preemption_cost()
    return PolicyOutcome(
        variant,
        scene.ties,
        starts,
        schedule_figures(log.workload, starts, log.processors),
        0.0,
        None if scene.machine is None else last_allocations(head.journal, len(starts)),
        cost,
        _limit_waits(variant, head, cost, machine, scene) if _limited([variant]) else None,
    )


def _limit_waits(
    variant: Variant,
    head: "EngineReplay",
    cost: "PreemptionCost",
    machine: SimulatedMachine,
    scene: ReplaySetup,
) -> "LimitWaits":
    from headnode.apps.simulate.limit_waits import ReplayedJobs, limit_waits
    from headnode.apps.simulate.submissions import BY_NUMBERS, groups_in_log
    from headnode.core.state.limit_index import LimitIndex
    from headnode.core.state.owner_usage import HALF_LIFE, HALF_LIFE_PARAMETER

    jobs = ReplayedJobs(head.submissions, head.workload.submits, cost.changes, cost.ended)
    groups = groups_in_log(head.workload, scene.owners or BY_NUMBERS)
    parameters = dict(variant.parameters)
    half_life = float(parameters.get(HALF_LIFE_PARAMETER, HALF_LIFE))
    return limit_waits(jobs, LimitIndex(parameters, {}, groups), machine, scene.asking, half_life)
