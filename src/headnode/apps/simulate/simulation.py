"""Runs policies over a log and tells how it went and how long it took."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headnode.apps.simulate.log_file import read_log
from headnode.core.formats.swf import Log
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.pool.figures import Figures, figures
from headnode.core.scheduling.pool.policies import POLICIES
from headnode.core.scheduling.pool.replay import replay
from headnode.core.scheduling.pool.ties import Ties

Progress = Callable[[str, int, int], None]
"""Is told the policy, how many jobs have come and how many there are."""


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


def simulate(
    path: str, policies: Sequence[str], ties: Ties, processors: int | None, progress: Progress
) -> Simulation:
    """Replay the log at `path` under each of the policies.

    Raises:  BadRequest ``policy`` before anything is read, and what `read_log` raises.
    """
    check_policies(policies)
    began = time.perf_counter()
    log = read_log(path, processors)
    reading = time.perf_counter() - began
    return Simulation(log, tuple(_outcome(log, policy, ties, reading, progress) for policy in policies))


def check_policies(policies: Sequence[str]) -> None:
    """Refuse policies that do not exist.

    Raises:  BadRequest ``policy``.
    """
    for policy in policies:
        if policy not in POLICIES:
            raise BadRequest(
                code="policy",
                what=f"there is no policy {policy!r} to simulate",
                fix=f"choose {', '.join(POLICIES)}",
            )


def _outcome(log: Log, policy: str, ties: Ties, reading: float, progress: Progress) -> Outcome:
    began = time.perf_counter()
    workload, jobs = log.workload, len(log.workload.submits)

    def told(come: int) -> None:
        progress(policy, come, jobs)

    starts = replay(workload, POLICIES[policy](workload, log.processors, ties), ties, told)
    seconds = reading + time.perf_counter() - began
    return Outcome(policy, ties, starts, figures(workload, starts, log.processors), seconds)
