"""Wishes: what somebody or something wants to happen.  `decide` answers with events, or refuses."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from headnode.core.filtering.activation import Verdict
from headnode.core.lifecycle.events import Begun, Outcome
from headnode.core.lifecycle.parents import Fate
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.dependencies import Link
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.template import JobTemplate
from headnode.core.model.user import User


class Command(msgspec.Struct, frozen=True, gc=False):
    """Anything wished for."""


class CreateJob(Command, frozen=True):
    """Make a job; with `submit`, put it into the queue at once.  `parents` as in `SubmitJob`.

    `known` are the users of the head's machine that the job names.
    """

    by: User
    spec: JobSpec
    submit: bool = False
    parents: Mapping[int, Fate] = {}
    known: Mapping[str, User] = {}


class CreateJobs(Command, frozen=True):
    """Make several jobs in one step, and submit them with `submit`: all of them, or none.

    `links` say which of them wait for which; `parents` as in `SubmitJob`, `known` as in `CreateJob`.
    """

    by: User
    specs: tuple[JobSpec, ...]
    links: tuple[Link, ...] = ()
    submit: bool = False
    parents: Mapping[int, Fate] = {}
    known: Mapping[str, User] = {}


class SubmitJob(Command, frozen=True):
    """Put a job into the queue.  `parents` says what became of those of its parent jobs that are over."""

    by: User
    job: JobId
    parents: Mapping[int, Fate] = {}


class SubmitJobs(Command, frozen=True):
    """Put several jobs into the queue in one step: all of them, or none.  `parents` as in `SubmitJob`."""

    by: User
    jobs: tuple[JobId, ...]
    parents: Mapping[int, Fate] = {}


class ValidateJob(Command, frozen=True):
    """Head: the submission filters let a job into the queue, as `spec` if they changed it.

    `by` is its owner, whose job template is now applied.  `order` is that of the submission they were
    asked about.  `parents` as in `SubmitJob`.
    """

    by: User
    job: JobId
    order: int
    filters: tuple[str, ...] = ()
    spec: JobSpec | None = None
    parents: Mapping[int, Fate] = {}


class RejectJob(Command, frozen=True):
    """Head: a submission filter failed a job, or made of it what cannot be in the queue."""

    job: JobId
    order: int
    message: str


class ModifyJob(Command, frozen=True):
    """Replace a job's description.  `fields` are the names of what changes; `tasks` may grow at the end."""

    by: User
    job: JobId
    spec: JobSpec
    fields: tuple[str, ...]
    archived: JobRecord | None = None  # the job, when it is over
    known: Mapping[str, User] = {}  # as in `CreateJob`
    changed_task: int | None = None  # the number of the one task that changes, of a job not yet submitted
    parents: Mapping[int, Fate] = {}  # as in `RequeueJob`
    skipped: tuple[JobRecord, ...] = ()


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
    parents: Mapping[int, Fate] = {}  # what became of those that it, and the skipped, depend on
    skipped: tuple[JobRecord, ...] = ()  # what was canceled for its end


class SuspendJob(Command, frozen=True):
    """Stop the processes of a running job, and give others what it holds."""

    by: User
    job: JobId


class ResumeJob(Command, frozen=True):
    """Let a suspended job go on as soon as there is room for it."""

    by: User
    job: JobId


class HoldJob(Command, frozen=True):
    """Keep a job from starting until the hold of this name is released."""

    by: User
    job: JobId
    name: str
    message: str = ""


class ReleaseJob(Command, frozen=True):
    """Release the hold of this name, or with None every one."""

    by: User
    job: JobId
    name: str | None


class StopTask(Command, frozen=True):
    """Stop one instance of a task, or with `instance` None all that are not over.

    `outcome` is that of instances that run: finished if the task is finished, failed if it is canceled.
    """

    by: User
    job: JobId
    task: int
    instance: int | None = None
    message: str = ""
    force: bool = False
    outcome: Literal["failed", "finished"] = "failed"


class RequeueTask(Command, frozen=True):
    """Run one instance of a task again, or with `instance` None all that failed or were canceled."""

    by: User
    job: JobId
    task: int
    instance: int | None = None


class StartJob(Command, frozen=True):
    """Scheduler: give the job these processors of these nodes; `option` and `parts` as in `JobStarted`."""

    job: JobId
    shares: tuple[tuple[str, int], ...]
    backfilled: bool = False
    option: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()


class TakeVerdict(Command, frozen=True):
    """Head: the activation filters have answered about the offer of this number.

    `filter` is the one that decided, `words` what it did and said; `hold` how long a hold without a date is.
    `kept` is what the job was offered, when that is kept for it: the engine adds it.
    """

    job: JobId
    offer: int
    verdict: Verdict
    filter: str = ""
    words: str = ""
    hold: Seconds = Seconds(0.0)
    kept: StartJob | None = None


class GrowJob(Command, frozen=True):
    """Scheduler: give the running job more."""

    job: JobId
    shares: tuple[tuple[str, int], ...]


class RecallProcessors(Command, frozen=True):
    """Scheduler: let the running job give up so many processors of these nodes, in all, as its tasks end.

    In place of what was recalled before; nothing: it may keep what it has.  `immediate`: tasks that run there
    are stopped, to run again.  `for_jobs` are to have the processors.
    """

    job: JobId
    shares: tuple[tuple[str, int], ...]
    immediate: bool = False
    for_jobs: tuple[JobId, ...] = ()
    message: str = ""


class PreemptJob(Command, frozen=True):
    """Scheduler: stop the running job and queue it again, so that another can have what it holds."""

    job: JobId
    for_job: JobId


class Attend(Command, frozen=True):
    """Engine: something of this job changed; dispatch, shrink or end it."""

    job: JobId


class SkipNumbers(Command, frozen=True):
    """Give the next job a number that is higher by so many: jobs made since a backup had those between."""

    by: User
    count: int


class ShiftLimits(Command, frozen=True):
    """Engine: somebody has set the clock by so many seconds; what runs has run no longer for it."""

    by: Seconds


class EndOverdue(Command, frozen=True):
    """Engine: the job's run time limit may be over."""

    job: JobId


class EndLate(Command, frozen=True):
    """Engine: the queued job may not be able to end by its deadline any more."""

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
    average_memory: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    trouble: str = ""  # of one that was not started, in a word of `core.model.faults`


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


class ReportSuspended(Command, frozen=True):
    """Node: of this suspension of the job, everything here stands still."""

    node: str
    job: JobId
    number: int


Attempt = tuple[int, int, int, int]
"""Job, task, instance and attempt."""


class RegisterNode(Command, frozen=True):
    """Node: this is what I am, and I can be reached.

    `kept`: the attempts of which it can tell, or will, how they are or ended.  It matters after a reboot.
    """

    facts: NodeFacts
    approved: bool = False
    key: str = ""  # digest of the key it showed; empty: it is on the head's own machine
    kept: tuple[Attempt, ...] = ()


class InviteNode(Command, frozen=True):
    """Let whoever shows the secret with this digest join once; `node` names who, if it matters."""

    by: User
    digest: str
    expires: Instant
    approve: bool = False  # it is ready at once
    node: str = ""


class AdmitNode(Command, frozen=True):
    """A node of another machine shows an invitation and its own key."""

    digest: str  # of the invitation's secret
    facts: NodeFacts
    key: str  # digest of the node's key


class SetNode(Command, frozen=True):
    """Say what an administrator knows of a node; None leaves it as it is."""

    by: User
    node: str
    groups: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    comment: str | None = None


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


class DrainNode(Command, frozen=True):
    """Let a node start nothing that may not be over at this instant; None: nothing from now on."""

    by: User
    node: str
    closes: Instant | None = None
    reason: str = ""
    force: bool = False  # at once, and what runs there is stopped


class MakeReservation(Command, frozen=True):
    """Reserve nodes; `regardless` of jobs that may still run there when it begins."""

    by: User
    reservation: NodeReservation
    regardless: bool = False


class ChangeReservation(Command, frozen=True):
    """Let a reservation have these fields of `reservation`; the others stay as they are."""

    by: User
    name: str
    reservation: NodeReservation
    fields: tuple[str, ...]
    regardless: bool = False


class CancelReservation(Command, frozen=True):
    """Take a reservation back; jobs inside go on."""

    by: User
    name: str


class AttendReservation(Command, frozen=True):
    """Engine: the reservation may be over, or have lost a node."""

    name: str


class ReportHealth(Command, frozen=True):
    """Node: what its health check said; `said` is why it is not well."""

    node: str
    well: bool
    said: str = ""


class ReportNonsense(Command, frozen=True):
    """Head: the node has said what cannot be; `said` is what."""

    node: str
    said: str


class ReportReady(Command, frozen=True):
    """Node: the prolog of the job has ended here; its tasks may come."""

    node: str
    job: JobId


class ReportClosed(Command, frozen=True):
    """Node: nothing of the job is left here, and its epilog has ended."""

    node: str
    job: JobId


OLD_AGENT = "old agent"
"""In place of a hook: a node that never says that it is ready for a job, because its agent knows no hooks."""


class ReportHook(Command, frozen=True):
    """Node: the prolog or the epilog (`hook`) of the job failed here; `said` is why.

    of_node:  it was not even started there, so the job is not to blame
    """

    node: str
    job: JobId
    hook: str
    said: str
    of_node: bool = False


class OfferLogin(Command, frozen=True):
    """Let whoever shows the secret with this digest have a token of a user; `lifetime` is the token's."""

    by: User
    digest: str
    user: str
    lifetime: Seconds


class TakeLogin(Command, frozen=True):
    """Somebody shows the secret of a login, from an address, and gets the token with this digest."""

    login: str
    digest: str
    address: str = ""


class UseToken(Command, frozen=True):
    """Somebody comes in with a token, from an address."""

    digest: str
    address: str = ""


class RevokeToken(Command, frozen=True):
    """Make the token of this number worth nothing."""

    by: User
    token: int


class SetTemplate(Command, frozen=True):
    """Make a job template, or replace the one of its name."""

    by: User
    template: JobTemplate


class RemoveTemplate(Command, frozen=True):
    """Take a job template away."""

    by: User
    name: str


class SetParameter(Command, frozen=True):
    """Give a cluster parameter a value, or with None its default."""

    by: User
    name: str
    value: str | None
