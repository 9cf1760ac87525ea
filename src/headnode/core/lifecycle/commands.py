"""Wishes: what somebody or something wants to happen.  `decide` answers with events, or refuses."""

from collections.abc import Mapping

import msgspec

from headnode.core.lifecycle.events import Begun, Outcome
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User


class Command(msgspec.Struct, frozen=True, gc=False):
    """Anything wished for."""


class CreateJob(Command, frozen=True):
    """Make a job; with `submit`, put it into the queue at once.  `parents` as in `SubmitJob`."""

    by: User
    spec: JobSpec
    submit: bool = False
    parents: Mapping[int, str] = {}


class SubmitJob(Command, frozen=True):
    """Put a job into the queue.  `parents` says how the ended ones of its parent jobs ended."""

    by: User
    job: JobId
    parents: Mapping[int, str] = {}


class ModifyJob(Command, frozen=True):
    """Replace a job's description.  `fields` are the names of what changes; `tasks` may grow at the end."""

    by: User
    job: JobId
    spec: JobSpec
    fields: tuple[str, ...]
    archived: JobRecord | None = None  # the job, when it is over


class SetProgress(Command, frozen=True):
    """Say how far a job is."""

    by: User
    job: JobId
    percent: int | None = None
    message: str | None = None


class StopJob(Command, frozen=True):
    """Cancel or finish a job.

    force: kill without grace.  graceful: start nothing new and let what runs end by itself.
    """

    by: User
    job: JobId
    outcome: Outcome
    message: str = ""
    force: bool = False
    graceful: bool = False


class RequeueJob(Command, frozen=True):
    """Run a job again, but for what has finished."""

    by: User
    job: JobId
    archived: JobRecord | None = None
    parents: Mapping[int, str] = {}


class StopTask(Command, frozen=True):
    """Cancel one instance of a task, or with `instance` None all that are not over."""

    by: User
    job: JobId
    task: int
    instance: int | None = None
    message: str = ""
    force: bool = False


class RequeueTask(Command, frozen=True):
    """Run one instance of a task again, or with `instance` None all that failed or were canceled."""

    by: User
    job: JobId
    task: int
    instance: int | None = None


class StartJob(Command, frozen=True):
    """Scheduler: give the job these processors of these nodes."""

    job: JobId
    shares: tuple[tuple[str, int], ...]
    backfilled: bool = False


class GrowJob(Command, frozen=True):
    """Scheduler: give the running job more."""

    job: JobId
    shares: tuple[tuple[str, int], ...]


class Attend(Command, frozen=True):
    """Engine: something of this job changed; dispatch, shrink or end it."""

    job: JobId


class EndOverdue(Command, frozen=True):
    """Engine: the job's run time limit may be over."""

    job: JobId


class Report(msgspec.Struct, frozen=True, gc=False):
    """What a node says of one attempt that is over; see the node protocol for the kinds."""

    task: int
    instance: int
    attempt: int
    kind: str
    exit_code: int | None = None
    signal: int | None = None
    started: Instant | None = None
    ended: Instant | None = None
    user_time: Seconds = Seconds(0.0)
    system_time: Seconds = Seconds(0.0)
    peak_memory: int = 0
    message: str = ""


class ReportStarted(Command, frozen=True):
    """Node: these attempts run."""

    node: str
    job: JobId
    begun: tuple[Begun, ...]


class ReportEnded(Command, frozen=True):
    """Node: these attempts are over."""

    node: str
    job: JobId
    reports: tuple[Report, ...]


class RegisterNode(Command, frozen=True):
    """Node: this is what I am, and I can be reached."""

    facts: NodeFacts
    approved: bool = False


class NodeVanished(Command, frozen=True):
    """Engine: the connection to a node was lost."""

    node: str


class GiveUpNode(Command, frozen=True):
    """Engine: the node has been away too long, or came back without what it ran."""

    node: str


class ChangeNode(Command, frozen=True):
    """Approve, pause, resume or remove a node; `wish` is that word."""

    by: User
    node: str
    wish: str


class SetParameter(Command, frozen=True):
    """Give a cluster parameter a value, or with None its default."""

    by: User
    name: str
    value: str | None
