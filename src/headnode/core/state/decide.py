"""Turn one command into the events that it causes, or refuse it; the second request of one key makes
nothing.

Nothing is changed here; `apply_event` does that.  Where people or nodes repeat themselves, the second time
causes nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.user import IdempotencyKey, Receipt, User
from headnode.core.state import (
    advance_job,
    filters,
    groups,
    hooks,
    job_end,
    join,
    modify,
    nodes,
    reservations,
    start,
    stop,
    submit,
    templates,
    tokens,
)
from headnode.core.state import drain as drains
from headnode.core.state import hold as holds
from headnode.core.state import node_loss as losses
from headnode.core.state import preempt as preemption
from headnode.core.state import report as reports
from headnode.core.state import suspend as suspension
from headnode.core.state.advance_job import AdvanceJob
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode, ReportHealth, ReportNonsense
from headnode.core.state.events import Event, RequestCarriedOut
from headnode.core.state.filters import RejectJob, TakeVerdict, ValidateJob
from headnode.core.state.groups import CreateJobs, SubmitJobs
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.hooks import ReportClosed, ReportHook, ReportReady
from headnode.core.state.job_end import RequeueTask
from headnode.core.state.job_events import JobCreated
from headnode.core.state.join import AdmitNode, InviteNode, RegisterNode, SetNode
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter, ShiftLimits, SkipNumbers
from headnode.core.state.preempt import PreemptJob, RecallProcessors
from headnode.core.state.report import ReportEnded, ReportStarted
from headnode.core.state.reservations import (
    AdvanceReservation,
    CancelReservation,
    ChangeReservation,
    MakeReservation,
)
from headnode.core.state.start import GrowJob, StartJob
from headnode.core.state.stop import EndLate, EndOverdue, StopJob, StopTask
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.suspend import ReportSuspended, ResumeJob, SuspendJob
from headnode.core.state.templates import RemoveTemplate, SetTemplate
from headnode.core.state.tokens import OfferLogin, RevokeToken, TakeLogin, UseToken

LIFETIME: Final = 86_400  # seconds, unless the parameter says otherwise
PARAMETER: Final = "IdempotencyLifetime"
REPEATED: Final = "idempotency-repeated"

_CREATING = (CreateJob, CreateJobs, SubmitJob, SubmitJobs, ModifyJob, MakeReservation, InviteNode, OfferLogin)
"""The commands that carry out a request with an idempotency key: their events get a receipt."""


def receipt_of(cluster: ClusterState, user: User, once: IdempotencyKey, now: Instant) -> Receipt | None:
    """Return the receipt of a request that was carried out before; None: it was not.

    Raises:  BadRequest ``idempotency-conflict`` when the key was used for another request.
    """
    found = cluster.receipts.get(user.uid, {}).get(once.key)
    if found is None or found.expires <= now:
        return None
    if (found.verb, found.digest) != (once.verb, once.digest):
        raise BadRequest(
            code="idempotency-conflict",
            what=f"the idempotency key {once.key!r} was used for another request",
            fix="use a new key for a new request; repeat a request without any change",
        )
    return found


def once_of(command: Command) -> tuple[User, IdempotencyKey] | None:
    """Return the user and the idempotency key of a command that carries out a request with a key, or None."""
    by = getattr(command, "by", None)
    if not isinstance(by, User) or by.once is None:
        return None
    return (by, by.once) if isinstance(command, _CREATING) else None


def refuse_repeated(cluster: ClusterState, user: User, once: IdempotencyKey, now: Instant) -> None:
    """Refuse what was carried out before.

    Raises:  WrongState ``idempotency-repeated``; BadRequest ``idempotency-conflict``.
    """
    if receipt_of(cluster, user, once, now) is not None:
        raise WrongState(
            code=REPEATED, what=f"the request with key {once.key!r} has already been carried out"
        )


def receipt_event(
    cluster: ClusterState, command: Command, made: list[Event], user: User, once: IdempotencyKey, now: Instant
) -> RequestCarriedOut:
    """Return the event that keeps what a command makes; `made` are its events, not applied yet."""
    jobs = tuple(event.job for event in made if isinstance(event, JobCreated))
    first = last = 0
    match command:
        case ModifyJob(job=job, spec=spec):
            jobs, last = (job,), len(spec.tasks)
            first = len(cluster.written(cluster.job(job)).tasks) + 1
        case SubmitJob(job=job):
            jobs = (job,)
        case SubmitJobs(jobs=several):
            jobs = tuple(several)
    expires = Instant(now + float(cluster.parameters.get(PARAMETER, LIFETIME)))
    receipt = Receipt(user.uid, once.key, once.digest, once.verb, expires, jobs, first, last)
    return RequestCarriedOut(at=now, receipt=receipt)


def decide(cluster: ClusterState, command: Command, now: Instant) -> list[Event]:
    """Return the events that `command` causes now.

    Raises:  Refused, with what to do about it; then nothing happens.
    """
    asked = once_of(command)
    if asked is None:
        return _DECIDE[type(command)](cluster, command, now)
    refuse_repeated(cluster, *asked, now)
    events = _DECIDE[type(command)](cluster, command, now)
    return [*events, receipt_event(cluster, command, events, *asked, now)]


_DECIDE: Mapping[type, Callable[[ClusterState, Any, Instant], list[Event]]] = MappingProxyType(
    {
        CreateJob: submit.create,
        CreateJobs: groups.create_several,
        SubmitJob: submit.submit,
        SubmitJobs: groups.submit_several,
        ValidateJob: filters.validate,
        RejectJob: filters.reject,
        TakeVerdict: filters.take_verdict,
        ModifyJob: modify.modify,
        SetProgress: modify.set_progress,
        RequeueJob: job_end.requeue,
        StartJob: start.start,
        GrowJob: start.grow,
        RecallProcessors: preemption.recall,
        PreemptJob: preemption.preempt,
        AdvanceJob: advance_job.advance_job,
        StopJob: stop.stop_job,
        EndOverdue: stop.end_overdue,
        EndLate: stop.end_late,
        SuspendJob: suspension.suspend,
        ResumeJob: suspension.resume,
        ReportSuspended: suspension.processes_reported_stopped,
        HoldJob: holds.hold,
        ReleaseJob: holds.release,
        StopTask: stop.stop_task,
        RequeueTask: job_end.requeue_task,
        ReportStarted: reports.started,
        ReportEnded: reports.ended,
        GiveUpNode: losses.give_up_node,
        RegisterNode: join.register,
        InviteNode: join.invite,
        AdmitNode: join.admit,
        SetNode: join.set_node,
        NodeVanished: nodes.node_vanished,
        ChangeNode: nodes.change_node,
        DrainNode: drains.drain,
        MakeReservation: reservations.make_reservation,
        ChangeReservation: reservations.change_reservation,
        CancelReservation: reservations.cancel_reservation,
        AdvanceReservation: reservations.advance_reservation,
        ReportHealth: drains.health,
        ReportNonsense: drains.nonsense,
        ReportReady: hooks.prolog_ended,
        ReportClosed: hooks.epilog_ended,
        ReportHook: hooks.hook_failed,
        OfferLogin: tokens.offer,
        TakeLogin: tokens.take,
        UseToken: tokens.use,
        RevokeToken: tokens.revoke,
        SetParameter: nodes.set_parameter,
        ShiftLimits: nodes.shift_limits,
        SkipNumbers: nodes.skip_numbers,
        SetTemplate: templates.set_template,
        RemoveTemplate: templates.remove_template,
    }
)
