"""How often predicted starts would have held: a log is replayed, and the start of each job is predicted."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar

import msgspec

from headnode.adapters.files.job_logs import read_log
from headnode.apps.simulate.report import about
from headnode.apps.simulate.scenario import AS_LOGGED
from headnode.apps.simulate.simulation import Progress, ReplaySetup
from headnode.core.formats.swf import SwfLog
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay
from headnode.core.scheduling.prediction.calibration import (
    PredictedWait,
    PredictionScore,
    by_predicted_wait,
    score,
)
from headnode.core.scheduling.prediction.replays import POLICY_TRAITS, PredictingPolicy, ReplayShare

Share = TypeVar("Share")
Found = TypeVar("Found")

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def side_by_side(work: Callable[[Share], Found], shares: Sequence[Share]) -> list[Found] | None:
    """Return what the work gives for each share, the first done here, the others in forked processes.

    None if a process cannot be started or was killed.  No process outlives the call.
    """
    fork = multiprocessing.get_context("fork")  # so that what the work reads is not sent
    others: list[tuple[BaseProcess, Connection]] = []
    try:
        for share in shares[1:]:
            reads, writes = fork.Pipe(duplex=False)
            process = fork.Process(target=_send, args=(writes, work, share, os.getpid()), daemon=True)
            process.start()
            others.append((process, reads))
            writes.close()
        return [work(shares[0]), *(reads.recv() for _, reads in others)]
    except (EOFError, OSError):
        return None
    finally:
        for running, reads in others:
            running.kill()
            running.join()
            reads.close()


def _send(writes: Connection, work: Callable[[Share], Found], share: Share, parent: int) -> None:
    """Do a share.  The process ends without a word if it is interrupted, or with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == parent:
        with contextlib.suppress(BrokenPipeError):
            writes.send(work(share))


DAY = 86_400
WARM_UP = 30 * DAY  # seconds, or half of a log that is shorter than twice that
SHORT_LOG = 2_000  # jobs; fewer are faster in one process
MAX_PROCESSES = 64


def _no_progress(_policy: str, _come: int, _jobs: int) -> None:
    """Nobody wants to know."""


class PolicyPredictionScore(NamedTuple):
    """How the predictions under a policy turned out: all, of jobs that had to wait, and by what was told.

    `seconds` are those of reading the log and replaying it; `jobs` are those of the log, the ones that only
    taught among them.
    """

    policy: str
    jobs: int
    all: PredictionScore
    waited: PredictionScore
    by_predicted_wait: dict[str, PredictionScore]
    seconds: float


class PredictionScores(NamedTuple):
    """A log, how many seconds of it only taught, and how predictions turned out under each policy."""

    log: SwfLog
    scene: ReplaySetup
    warm_up: float
    outcomes: tuple[PolicyPredictionScore, ...]


def predict(
    path: str, policies: Sequence[str], scene: ReplaySetup, progress: Progress = _no_progress
) -> PredictionScores:
    """Replay the log at `path` under each of the policies and predict the start of each job that must wait.

    A prediction is made when the job comes, from what was known then; those of the first 30 days only
    teach, or of the first half of a log of less than 60 days.

    Raises:  BadRequest ``policy`` and ``predictions`` before anything is read, and what `read_log` raises.
    """
    for policy in policies:
        _check(policy, scene)
    began = time.perf_counter()
    log = read_log(path, scene.processors, whose=True)
    reading = time.perf_counter() - began
    warm_up = min(WARM_UP, (log.workload.submits[-1] - log.workload.submits[0]) / 2)
    outcomes = []
    for policy in policies:
        began = time.perf_counter()
        score = _score_policy(log, policy, scene, warm_up, partial(progress, policy))
        outcomes.append(score._replace(seconds=reading + time.perf_counter() - began))
    return PredictionScores(log, scene, warm_up, tuple(outcomes))


def _check(policy: str, scene: ReplaySetup) -> None:
    if scene.through_engine or scene.parameters or scene.asking != AS_LOGGED or "+" in policy:
        raise BadRequest(
            code="predictions",
            what="predictions over a log are only made for a pool of processors, not for the engine",
            fix="leave out --engine and --nodes, and what is for them: --set, parameters in --compare, "
            "--priority, --least and --once; --processors gives the size of the pool",
        )
    if policy not in POLICY_TRAITS:
        raise BadRequest(
            code="policy",
            what=f"there is no policy {policy!r} to make predictions for",
            fix=f"choose {', '.join(POLICY_TRAITS)}",
        )


def _score_policy(
    log: SwfLog, policy: str, scene: ReplaySetup, warm_up: float, progress: Callable[[int, int], None]
) -> PolicyPredictionScore:
    workload, jobs = log.workload, len(log.workload.submits)
    known = _foreseen_side_by_side(log, policy, scene.ties, lambda come: progress(come, jobs))
    made = POOL_POLICIES[policy](workload, log.processors, scene.ties)
    foretelling = PredictingPolicy(workload, made, POLICY_TRAITS[policy], known=known)
    replay(workload, foretelling, scene.ties, None if known else lambda come: progress(come, jobs))
    counted = [one for one in foretelling.judged if one.made >= workload.submits[0] + warm_up]
    return PolicyPredictionScore(
        policy,
        jobs,
        score(counted),
        score([one for one in counted if one.waited]),
        by_predicted_wait(counted),
        seconds=0.0,
    )


def _foreseen_side_by_side(
    log: SwfLog, policy: str, ties: Ties, progress: Callable[[int], None]
) -> Mapping[int, PredictedWait] | None:
    """Return what is foreseen for each job that must wait, worked out by a process for each processor.

    None if one process has to do it: the log is short, each prediction goes on from the one before, there is
    one processor, or a process was killed.
    """
    shares = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
    if shares == 1 or len(log.workload.submits) < SHORT_LOG or POLICY_TRAITS[policy].in_turn:
        return None

    def foreseen(share: ReplayShare) -> dict[int, PredictedWait]:
        made = POOL_POLICIES[policy](log.workload, log.processors, ties)
        foretelling = PredictingPolicy(log.workload, made, POLICY_TRAITS[policy], share=share)
        replay(log.workload, foretelling, ties, progress if share.nth == 0 else None)
        return foretelling.foreseen

    found = side_by_side(foreseen, [ReplayShare(nth, shares) for nth in range(shares)])
    return None if found is None else {job: wait for each in found for job, wait in each.items()}


def documents(predictions: PredictionScores) -> list[dict[str, Any]]:
    """Return a document for each policy: parts of the jobs as fractions, times in seconds."""
    of_log = about(predictions.log) | {"warm_up": predictions.warm_up, "ties": predictions.scene.ties.value}
    return [_document(outcome) | of_log for outcome in predictions.outcomes]


def _document(outcome: PolicyPredictionScore) -> dict[str, Any]:
    return {
        "policy": outcome.policy,
        "jobs": outcome.jobs,
        "seconds": outcome.seconds,
        "all": msgspec.to_builtins(outcome.all),
        "waited": msgspec.to_builtins(outcome.waited),
        "by_predicted_wait": [
            {"predicted_wait": wait, **msgspec.to_builtins(score)}
            for wait, score in outcome.by_predicted_wait.items()
        ],
    }
