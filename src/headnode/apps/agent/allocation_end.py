"""Results of tasks when an allocation ends: its system signals tasks and agent one after the other."""

import signal

from headnode.adapters.wire.agent_messages import AttemptResult
from headnode.adapters.wire.messages import OpenJob
from headnode.core.state.job_record import decode_spec

ALLOCATION_ENDS = "the allocation of the node was ended"
SIGNALED_HOLD = 2.0
"""Seconds that a result that the end of an allocation may have caused waits for the end of the agent.

All processes of an allocation are signaled within moments; SIGKILL follows after the grace of the system
(KillWait of Slurm is 30 s).
"""

_SHELLS_ADD = 128  # to the signal that ended their last program, sh(1)
_AT_THE_END = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL})


def is_signaled(result: AttemptResult) -> bool:
    """Return True if a signal that may end an allocation has ended a task, for no known reason."""
    outcome = result.outcome
    if outcome.kind != "exited" or outcome.message:
        return False
    return outcome.signal in _AT_THE_END or (outcome.exit_code or 0) - _SHELLS_ADD in _AT_THE_END


def ended_with_it(result: AttemptResult, opened: OpenJob | None) -> bool:
    """Return True if the end of an allocation may have ended a task.

    A task that may run again may have caught the signal and ended with an exit code of its own.
    """
    if is_signaled(result):
        return True
    outcome = result.outcome
    if opened is None or outcome.kind != "exited" or not outcome.exit_code:
        return False
    job = decode_spec(opened.spec)
    task = job.tasks[result.task - 1]
    succeeded = any(first <= outcome.exit_code <= last for first, last in job.valid_codes(task))
    return task.rerunnable and not succeeded


def as_lost(result: AttemptResult, opened: OpenJob | None) -> AttemptResult:
    """Return the result of a task when its allocation ends: lost, if that may have ended the task.

    Its own end, such as an exit code of success or a run time limit, stays as it is.
    """
    if result.outcome.kind != "stopped" and not ended_with_it(result, opened):
        return result
    lost = result.outcome._replace(kind="lost", exit_code=None, signal=None, message=ALLOCATION_ENDS)
    return AttemptResult(result.task, result.instance, result.attempt, lost)
