"""Turn one command into the events that it causes, or refuse it; the second request of one key makes
nothing.

Nothing is changed here; `apply_event` does that.  Where people or nodes repeat themselves, the second time
causes nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.user import ExpectedState, IdempotencyKey, Receipt, User, receipt_in
from headnode.core.state import (
    advance_job,
    bank,
    drain,
    elastic,
    filters,
    groups,
    hold,
    hooks,
    job_end,
    join,
    modify,
    node_loss,
    nodes,
    place_choice,
    preempt,
    report,
    reservations,
    resources,
    start,
    stop,
    submit,
    suspend,
    templates,
    tokens,
)
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, RequestCarriedOut
from headnode.core.state.job_events import JobCreated
from headnode.core.state.recurring_record import RECURRING_COMMANDS, CreateRecurring

LIFETIME: Final = 86_400  # seconds, unless the parameter says otherwise
PARAMETER: Final = "IdempotencyLifetime"
REPEATED: Final = "idempotency-repeated"

_CREATING = (
    submit.CreateJob,
    submit.SubmitJob,
    groups.CreateJobs,
    groups.SubmitJobs,
    modify.ModifyJob,
    reservations.MakeReservation,
    join.InviteNode,
    tokens.OfferLogin,
    CreateRecurring,
)
"""The commands that carry out a request with an idempotency key: their events get a receipt."""


def receipt_of(cluster: ClusterState, user: User, once: IdempotencyKey, now: Instant) -> Receipt | None:
    """Return the receipt of a request that was carried out before; None: it was not.

    Raises:  BadRequest ``idempotency-conflict`` when the key was used for another request.
    """
    data = cluster.receipts.get(user.uid, {}).get(once.key)
    found = None if data is None else receipt_in(data, user.uid, once.key)
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
    cluster: ClusterState,
    command: Command,
    events: list[Event],
    user: User,
    once: IdempotencyKey,
    now: Instant,
) -> RequestCarriedOut:
    """Return the event that keeps what a command makes; `events` are its events, not applied yet."""
    jobs = tuple(event.job for event in events if isinstance(event, JobCreated))
    first = last = 0
    batch = b""
    match command:
        case modify.ModifyJob(job=job, spec=spec):
            jobs, last = (job,), len(spec.tasks)
            first = len(cluster.written(cluster.job(job)).tasks) + 1
        case submit.SubmitJob(job=job):
            jobs = (job,)
        case groups.CreateJobs() if command.batch:
            jobs, batch = jobs[:1], command.batch
        case groups.SubmitJobs(jobs=several):
            jobs = tuple(several)
    expires = Instant(now + float(cluster.parameters.get(PARAMETER, LIFETIME)))
    receipt = Receipt(user.uid, once.key, once.digest, once.verb, expires, jobs, first, last, batch)
    return RequestCarriedOut(at=now, receipt=receipt)


def state_of(cluster: ClusterState, kind: str, name: str) -> bytes:
    """Return what users decide of a thing, as bytes to compare; b"" if it is not there, or has ended."""
    found: Any = None
    match kind:
        case "job" if (job := cluster.jobs.get(JobId(int(name)))) is not None:
            found = (job.spec, job.state, job.priority, job.hold_until, job.holds, job.group)
        case "node" if (node := cluster.nodes.get(name)) is not None:
            found = (node.state, node.groups, node.features, node.comment, node.drains, node.key)
        case "reservation":
            found = cluster.reservation_index.named.get(name.lower())
        case "template":
            found = cluster.templates.get(name.lower())
        case "parameters":
            found = sorted(cluster.parameters.items())
    return b"" if found is None else msgspec.msgpack.encode(found)


def refuse_changed(cluster: ClusterState, expected: ExpectedState) -> None:
    """Refuse a change of what has changed since the user has read it.

    Raises:  WrongState ``changed``.
    """
    if state_of(cluster, expected.kind, expected.name) != expected.state:
        raise WrongState(
            code="changed",
            what=f"{expected.kind} {expected.name}".strip() + " has changed since you read it",
            fix="read it again, then repeat the change",
        )


def decide(cluster: ClusterState, command: Command, now: Instant) -> list[Event]:
    """Return the events that `command` causes now.

    Raises:  Refused, with what to do about it; then nothing happens.
    """
    kind = type(command)
    if kind not in _BY_USERS:  # most come from nodes and from the engine
        return _DECIDE[kind](cluster, command, now)
    by = getattr(command, "by", None)
    if not isinstance(by, User) or (by.expected is None and by.once is None):
        return _DECIDE[kind](cluster, command, now)
    if by.expected is not None:
        refuse_changed(cluster, by.expected)
    asked = once_of(command)
    if asked is None:
        return _DECIDE[kind](cluster, command, now)
    refuse_repeated(cluster, *asked, now)
    events = _DECIDE[kind](cluster, command, now)
    return [*events, receipt_event(cluster, command, events, *asked, now)]


def _requeue_task(cluster: ClusterState, command: stop.RequeueTask, now: Instant) -> list[Event]:
    from headnode.core.state.rerun import requeue_task  # few instances run again

    return requeue_task(cluster, command, now)


def _recurring(cluster: ClusterState, command: Command, now: Instant) -> list[Event]:
    """Decide about recurring jobs; few clusters have any, so what does it is imported here."""
    from headnode.core.state.recurring_table import RECURRING_DECISIONS

    return RECURRING_DECISIONS[type(command)](cluster, command, now)


_DECIDE: Mapping[type, Callable[[ClusterState, Any, Instant], list[Event]]] = MappingProxyType(
    {
        submit.CreateJob: submit.create,
        groups.CreateJobs: groups.create_several,
        submit.SubmitJob: submit.submit,
        groups.SubmitJobs: groups.submit_several,
        filters.ValidateJob: filters.validate,
        filters.RejectJob: filters.reject,
        filters.TakeVerdict: filters.take_verdict,
        modify.ModifyJob: modify.modify,
        modify.SetProgress: modify.set_progress,
        modify.RequeueJob: job_end.requeue,
        start.StartJob: start.start,
        start.GrowJob: start.grow,
        preempt.RecallProcessors: preempt.recall,
        preempt.PreemptJob: preempt.preempt,
        advance_job.AdvanceJob: advance_job.advance_job,
        stop.StopJob: stop.stop_job,
        stop.EndOverdue: stop.end_overdue,
        stop.EndLate: stop.end_late,
        suspend.SuspendJob: suspend.suspend,
        suspend.ResumeJob: suspend.resume,
        suspend.ReportSuspended: suspend.processes_reported_stopped,
        hold.HoldJob: hold.hold,
        hold.ReleaseJob: hold.release,
        stop.StopTask: stop.stop_task,
        stop.RequeueTask: _requeue_task,
        hold.HoldTask: hold.hold_task,
        hold.ReleaseTask: hold.release_task,
        report.ReportStaging: report.staging,
        report.ReportStarted: report.started,
        report.ReportEnded: report.ended,
        node_loss.GiveUpNode: node_loss.give_up_node,
        join.RegisterNode: join.register,
        join.InviteNode: join.invite,
        join.AdmitNode: join.admit,
        join.AdmitStandby: join.admit_standby,
        join.RemoveStandby: join.remove_standby,
        join.TakeOver: join.take_over,
        join.SetNode: join.set_node,
        nodes.NodeVanished: nodes.node_vanished,
        nodes.ChangeNode: nodes.change_node,
        drain.DrainNode: drain.drain,
        reservations.MakeReservation: reservations.make_reservation,
        reservations.ChangeReservation: reservations.change_reservation,
        reservations.CancelReservation: reservations.cancel_reservation,
        reservations.AdvanceReservation: reservations.advance_reservation,
        drain.ReportHealth: drain.health,
        drain.ReportNonsense: drain.nonsense,
        hooks.ReportReady: hooks.prolog_ended,
        hooks.ReportClosed: hooks.epilog_ended,
        hooks.ReportHook: hooks.hook_failed,
        tokens.OfferLogin: tokens.offer,
        tokens.TakeLogin: tokens.take,
        tokens.UseToken: tokens.use,
        tokens.RevokeToken: tokens.revoke,
        nodes.SetParameter: nodes.set_parameter,
        nodes.SetUserGroups: nodes.set_user_groups,
        nodes.ShiftLimits: nodes.shift_limits,
        nodes.SkipNumbers: nodes.skip_numbers,
        resources.SetResource: resources.set_resource,
        resources.RemoveResource: resources.remove_resource,
        resources.ReportHanded: resources.handed,
        place_choice.PlaceJob: place_choice.place,
        bank.AskBank: bank.ask,
        bank.NoteBank: bank.note,
        bank.RefundRuns: bank.refund,
        elastic.SetElasticPool: elastic.set_pool,
        elastic.PauseElasticPool: elastic.pause_pool,
        elastic.ResumeElasticPool: elastic.resume_pool,
        elastic.RemoveElasticPool: elastic.remove_pool,
        elastic.MakeElasticNode: elastic.make_node,
        elastic.GiveBackNode: elastic.give_back_node,
        elastic.SettleElasticNode: elastic.settle_node,
        templates.SetTemplate: templates.set_template,
        templates.RemoveTemplate: templates.remove_template,
        job_end.PurgeJobs: job_end.purge_jobs,
        **dict.fromkeys(RECURRING_COMMANDS, _recurring),
    }
)

_BY_USERS = frozenset(
    kind for kind in _DECIDE if issubclass(kind, Command) and "by" in kind.__struct_fields__
)
"""The commands whose `by` may say what a user expects; the others are of nodes and of the engine."""
