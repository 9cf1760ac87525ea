"""How a signal for the processes of a job is requested, and the answer.

The page of the protocol is printed from it.  The comment of a field is what the page says of it.
"""

from headnode.core.model.signals import SignalTarget
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import JobIdRequest, Word


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
