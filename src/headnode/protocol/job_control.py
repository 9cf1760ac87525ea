"""How jobs are held, released and sent signals, how allocations are ended, and the answers.

The page of the protocol is printed from it.  The comment of a field is what the page says of it.
"""

from typing import Annotated

from msgspec import Meta

from headnode.core.model.signals import SignalTarget
from headnode.core.model.value_checks import DEFAULT_HOLD
from headnode.protocol.answers import HoldObject, VerbAnswer
from headnode.protocol.requests import JobIdRequest, Name, Note, Word


class SignalJobRequest(JobIdRequest, frozen=True, kw_only=True):
    """signal_job."""

    signal: Word  # a name or a number: USR1, 10
    target: SignalTarget = "all"  # which processes; program: the first of a task; steps: of `srun`
    task: int | None = None  # its running instances; null: all tasks
    instance: int | None = None  # this one


class SignalJobAnswer(VerbAnswer, frozen=True):
    """signal_job."""

    job: int
    signal: str  # its name
    processes: int  # to which it was sent; at a resource: jobs there
    nodes: list[str]  # on which it was sent; at a resource: its place, such as @physics
    silent: list[str]  # nodes that did not answer: it may have arrived there


class EndAllocationRequest(JobIdRequest, frozen=True, kw_only=True):
    """end_allocation."""

    exit_code: Annotated[int, Meta(ge=0, le=255)]  # of its command; 128 and more: the signal that ended it


class HoldJobRequest(JobIdRequest, frozen=True):
    """hold_job.  `name` is that of the hold."""

    name: Name = DEFAULT_HOLD  # of the hold
    message: Note = ""
    requeue: bool = False  # a running job is stopped and goes back to the queue


class ReleaseJobRequest(JobIdRequest, frozen=True):
    """release_job.  With `all` every hold, else that of the name."""

    name: Name = DEFAULT_HOLD  # of the hold
    all: bool = False  # every hold


class HoldsAnswer(VerbAnswer, frozen=True):
    """hold_job, release_job."""

    job: int
    holds: list[HoldObject]  # all holds that the job has now
