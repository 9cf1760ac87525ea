"""Runs policies over a log and tells how it went and how long it took."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from headnode.apps.simulate.log_file import read_log
from headnode.core.formats.swf import Log
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.pool.figures import Figures, figures
from headnode.core.scheduling.pool.policies import POLICIES, PRODUCTION, PolicyMaker
from headnode.core.scheduling.pool.replay import replay
from headnode.core.scheduling.pool.ties import Ties

Progress = Callable[[str, int, int], None]
"""Is told the policy, how many jobs have come and how many there are."""


def _untold(_policy: str, _come: int, _jobs: int) -> None:
    """Nobody wants to know."""


class Scene(NamedTuple):
    """Under what conditions policies are tried.

    `processors` None takes the size of the machine from the log; `production` asks the scheduler of the
    cluster itself, instead of the counters of the pool.
    """

    ties: Ties = Ties.ENDS_FIRST
    processors: int | None = None
    production: bool = False


class Outcome(NamedTuple):
    """What a policy made of a log; `seconds` are those of reading the log and replaying it."""

    policy: str
    ties: Ties
    starts: Sequence[float]
    figures: Figures
    seconds: float


class Simulation(NamedTuple):
    """A log and what each policy made of it, in the order asked for."""

    log: Log
    outcomes: tuple[Outcome, ...]


def simulate(path: str, policies: Sequence[str], scene: Scene, progress: Progress = _untold) -> Simulation:
    """Replay the log at `path` under each of the policies.

    Raises:  BadRequest ``policy`` before anything is read, and what `read_log` raises.
    """
    makers = [_maker(policy, scene) for policy in policies]
    began = time.perf_counter()
    log = read_log(path, scene.processors)
    reading = time.perf_counter() - began
    outcomes = []
    for policy, make in zip(policies, makers, strict=True):
        began = time.perf_counter()
        starts = _starts(log, make, scene.ties, partial(progress, policy))
        seconds = reading + time.perf_counter() - began
        found = figures(log.workload, starts, log.processors)
        outcomes.append(Outcome(policy, scene.ties, starts, found, seconds))
    return Simulation(log, tuple(outcomes))


def _maker(policy: str, scene: Scene) -> PolicyMaker:
    known = PRODUCTION if scene.production else POLICIES
    if policy not in known:
        raise BadRequest(
            code="policy",
            what=f"there is no policy {policy!r} to simulate"
            + (" in production" if scene.production else ""),
            fix=f"choose {', '.join(known)}",
        )
    return known[policy]


def _starts(log: Log, make: PolicyMaker, ties: Ties, progress: Callable[[int, int], None]) -> Sequence[float]:
    jobs = len(log.workload.submits)
    policy = make(log.workload, log.processors, ties)
    return replay(log.workload, policy, ties, lambda come: progress(come, jobs))
