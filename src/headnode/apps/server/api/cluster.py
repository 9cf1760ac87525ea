"""The verbs about the whole cluster: state, parameters, metrics, past jobs, predictions, backup and stop."""

import asyncio
import os
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import structs
from msgspec.structs import replace

from headnode import __version__
from headnode.apps.server.api import nodes as show
from headnode.apps.server.api.access import whoami
from headnode.apps.server.api.job_objects import Object, count_by_state
from headnode.apps.server.api.verbs import ADMINISTERS, READS, VerbAccess, VerbUsers, verb
from headnode.apps.server.predicted_starts import judged_predictions, prediction_scores
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import PAST_PAGE
from headnode.core.model.errors import Unavailable
from headnode.core.model.owner_limits import LIMIT_PARAMETERS
from headnode.core.model.quantities import FOREVER, Instant
from headnode.core.model.user import User
from headnode.core.state.events import ParameterSet
from headnode.core.state.nodes import SetParameter
from headnode.core.state.permissions import must_administer
from headnode.core.state.transitions import ACTIVE, STATE_NAMES, JobState
from headnode.engine.policy_registry import PolicyRegistry, check_one_order
from headnode.engine.settings import Settings, check_parameter, parameters_with, read_parameter
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import (
    BackupAnswer,
    ClusterAnswer,
    ClusterObject,
    DefaultsAnswer,
    DownAnswer,
    JournalSize,
    NoticeCounts,
    ParameterChange,
    ParameterHistoryAnswer,
    ParameterObject,
    ParametersAnswer,
    PastJobObject,
    PastJobsAnswer,
    PingAnswer,
    PlugInProblem,
    PredictionsAnswer,
)

if TYPE_CHECKING:
    from headnode.engine.past_jobs import PastJob
from collections import Counter

from headnode.apps.server.api.nodes import cluster_counts
from headnode.core.model.quantities import DurationHistogram
from headnode.protocol.cluster_answers import HistogramObject, MetricsAnswer
from headnode.protocol.requests import VerbRequest

_LEFT_BEHIND: Final = 3600.0  # seconds after which a copy of the journal was forgotten by who asked for it


@verb(READS)
async def ping(context: ServerContext, by: User, request: w.VerbRequest) -> PingAnswer:  # noqa: ARG001
    """Show which head answers."""
    return PingAnswer(
        version=__version__,
        cluster=context.name,
        pid=os.getpid(),
        state_directory=str(context.state),
    )


@verb(READS)
async def submission_defaults(context: ServerContext, by: User, request: w.VerbRequest) -> DefaultsAnswer:  # noqa: ARG001
    """Show what a job from the command line takes from the shell of its submitter by default."""
    settings = context.engine.settings
    return DefaultsAnswer(
        work_directory=settings.text("DefaultWorkDirectory"),
        environment=settings.text("SubmitterEnvironment"),
    )


@verb(READS)
async def cluster(context: ServerContext, by: User, request: w.VerbRequest) -> ClusterAnswer:
    """Show the cluster."""
    ended = context.lookups.archive.count_ended(owner=None)
    settings, archive = context.engine.settings, context.lookups.archive
    answer = ClusterObject(
        name=context.name,
        version=__version__,
        started=context.started,
        jobs=count_by_state(context.cluster, ended),
        policy=settings.text("SchedulingPolicy"),
        mode=settings.text("SchedulingMode"),
        policy_problem=_policy_trouble(context),
        plug_ins=_plug_ins(context),
        notices=_notices(context),
        licence_problem=context.licence_problem,
        requesting_user=await whoami(context, by, request),
        state_directory=str(context.state),
        journal=JournalSize(
            events=context.engine.number,
            bytes=0 if context.store is None else context.store.size(),
            damage=list(archive.damage()),
            problem=context.engine.write_problem,
        ),
        **structs.asdict(show.cluster_counts(context.cluster, context.now())),
        failed_parts=_failed_parts(context),
        standbys={} if context.standbys is None else context.standbys.in_words(),
    )
    return ClusterAnswer(answer)


def _failed_parts(context: ServerContext) -> dict[str, str]:
    """Return the parts of the head that do not work, and why."""
    audit = context.audit.problem()
    changes = {"audit log": f"commands that change something are refused: {audit}"} if audit else {}
    return context.failed_parts | changes


def _notices(context: ServerContext) -> NoticeCounts:
    """Return how many notices wait to be sent, and why the last one, or a webhook's events, were not sent."""
    problem = next(iter(context.webhook_problems.values()), "")
    if context.notices is None:
        return NoticeCounts(0, problem)
    return NoticeCounts(context.notices.waiting(), context.notices.problem or problem)


def _policy_trouble(context: ServerContext) -> str:
    """Return what is wrong with the policy in use, or nothing."""
    registry = context.engine.policies
    named = context.engine.settings.text("SchedulingPolicy")
    return registry.trouble(named) if isinstance(registry, PolicyRegistry) else ""


def _plug_ins(context: ServerContext) -> list[PlugInProblem]:
    """Return the plug-ins that there are, and what is wrong with them."""
    registry = context.engine.policies
    if not isinstance(registry, PolicyRegistry):
        return []
    return [PlugInProblem(name, trouble) for name, trouble in registry.troubles().items()]


@verb(READS)
async def parameters(context: ServerContext, by: User, request: w.VerbRequest) -> ParametersAnswer:  # noqa: ARG001
    """Show the cluster's parameters."""
    settings = context.engine.settings
    return ParametersAnswer(
        [
            ParameterObject(
                name=known.name,
                value=settings.text(known.name),
                default=known.default,
                unit=known.unit,
                doc=known.doc,
                choices=list(known.choices),
            )
            for known in parameters_with(context.engine.policies).values()
        ]
    )


@verb(ADMINISTERS)
async def set_parameters(
    context: ServerContext, by: User, request: w.SetParametersRequest
) -> ParametersAnswer:
    """Set cluster parameters; all of them or, if one is wrong, none.

    An unknown user or group in a value is accepted: `notes` of the answer names it.
    """
    from headnode.apps.server.api.filters_templates import check_programs
    from headnode.apps.server.unknown_accounts import notes_about

    there_are = parameters_with(context.engine.policies)
    known = [read_parameter(name, value, there_are) for name, value in request.values.items()]
    wanted = {parameter.name: value or "" for parameter, value in known}
    check_one_order(context.engine.policies, Settings({**context.engine.settings.values, **wanted}))
    await check_programs(context, {parameter.name: value for parameter, value in known})
    before = {name: context.engine.settings.text(name) for name in wanted}
    for parameter, value in known:
        if parameter.name in LIMIT_PARAMETERS and value:
            await _set_limits(context, by, parameter.name, value)
        else:
            await context.ask(SetParameter(by=by, name=parameter.name, value=value))
        by = replace(by, expected=None)  # a condition is for the first change
    notes = await notes_about({name: (before[name], value) for name, value in wanted.items()})
    return replace(await parameters(context, by, w.VerbRequest()), notes=notes)


async def _set_limits(context: ServerContext, by: User, name: str, value: str) -> None:
    from headnode.apps.server.user_groups import note_owners  # few clusters have limits

    must_administer(by, "set cluster parameters")  # before anything is looked up
    seen = await note_owners(context, name, value)
    await context.ask(SetParameter(by=by, name=name, value=value))
    await note_owners(context, name, value, seen)


@verb(VerbAccess(VerbUsers.ADMINISTRATOR, changes=True, near=True))
async def backup(context: ServerContext, by: User, request: w.VerbRequest) -> BackupAnswer:  # noqa: ARG001
    """Copy the journal into a new file in the state directory, which the client must remove."""
    must_administer(by, "make a backup")
    for left in context.state.glob("backup-*.db*"):
        if time.time() - left.stat().st_mtime > _LEFT_BEHIND:
            left.unlink(missing_ok=True)
    if context.store is None:
        raise Unavailable(code="no-journal", what="this head has no journal to copy")
    copy = context.state / f"backup-{secrets.token_hex(8)}.db"
    try:
        await asyncio.to_thread(context.store.copy_to, copy)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    return BackupAnswer(str(copy), context.name, done=True)


@verb(ADMINISTERS)
async def stop_head(context: ServerContext, by: User, request: w.StopHeadRequest) -> DownAnswer:
    """End the head. Running tasks go on, and the next head learns how they ended."""
    must_administer(by, "stop the head")
    left = []
    if request.cancel_jobs:
        from headnode.apps.server.cancel_all_jobs import cancel_all_jobs

        left = await cancel_all_jobs(context, by)
    running = show.cluster_counts(context.cluster, context.now()).tasks_running
    context.going_down = True
    return DownAnswer(running, left)


@verb(READS)
async def ended_jobs(context: ServerContext, by: User, request: w.PastJobsRequest) -> PastJobsAnswer:  # noqa: ARG001  (everybody sees all)
    """Show a page of the jobs that have ended, in the order of their ids.

    An answer examines `limit` ended jobs and has those of the period, maybe none.
    """
    from headnode.engine.past_jobs import past_jobs as page_of_past_jobs

    # it reads beside the event loop: a page of a thousand takes some 50 ms
    since = None if request.since is None else Instant(request.since)
    until = None if request.until is None else Instant(request.until)
    limit = min(max(1, request.limit), PAST_PAGE.most)
    archive = context.lookups.archive
    page = await asyncio.to_thread(page_of_past_jobs, archive, request.after, limit, since, until)
    about = _about(context) if request.after == 0 else {}
    return PastJobsAnswer([_past_job(job) for job in page.jobs], page.more, **about)


@verb(READS)
async def parameter_history(
    context: ServerContext, by: User, request: w.ParameterHistoryRequest
) -> ParameterHistoryAnswer:
    """Show the newest changes of cluster parameters; `by` and `from` only to administrators."""
    there_are = parameters_with(context.engine.policies)
    names = {check_parameter(name, None, there_are).name for name in request.names}
    units = {known.name: known.unit for known in there_are.values()}
    limit = min(max(1, request.limit), PAST_PAGE.most)
    archive = context.lookups.archive

    def read() -> list[ParameterChange]:
        values: dict[str, str | None] = {}
        changes: deque[ParameterChange] = deque(maxlen=limit)
        for event in archive.parameter_changes():
            before, values[event.name] = values.get(event.name), event.value
            if not names or event.name in names:
                changes.append(_parameter_change(event, before, by, units.get(event.name, "")))
        return list(changes)

    return ParameterHistoryAnswer(await asyncio.to_thread(read))


def _parameter_change(event: ParameterSet, before: str | None, by: User, unit: str) -> ParameterChange:
    """Return one change.  A value of None is the default; `by` is None if the caller may not see it."""
    return ParameterChange(
        at=event.at,
        name=event.name,
        before=before,
        value=event.value,
        by=event.by if by.administrator else None,
        origin=event.origin if by.administrator else None,
        unit=unit,
    )


@verb(READS)
async def predictions(
    context: ServerContext,
    by: User,  # noqa: ARG001
    request: w.PredictionScoresRequest,
) -> PredictionsAnswer:
    """Show how often predicted starts held, of the jobs that had to wait and started since then."""
    since = Instant(0.0 if request.since is None else request.since)
    scores = await asyncio.to_thread(
        lambda: prediction_scores(list(judged_predictions(context.predictions, since)))
    )
    policy = context.engine.settings.text("SchedulingPolicy")
    return PredictionsAnswer(request.since, policy, *structs.astuple(scores))


def _about(context: ServerContext) -> Object:
    """Return what a log of this cluster says of it, and how many jobs are not over."""
    counts, nodes = context.cluster.counts, context.cluster.nodes.values()
    return {
        "cluster": context.name,
        "version": __version__,
        "processors": sum(node.facts.processors for node in nodes),
        "nodes": len(nodes),
        "ended": sum(context.lookups.archive.count_ended(owner=None).values()),
        "queued": counts.get(JobState.QUEUED, 0) + counts.get(JobState.HANDED, 0),
        "running": sum(counts.get(state, 0) for state in {JobState.ENDING, *ACTIVE} - {JobState.HANDED}),
    }


def _past_job(job: "PastJob") -> PastJobObject:
    request = job.request
    return PastJobObject(
        id=job.id,
        owner=job.owner,
        name=job.name,
        project=job.project,
        state=STATE_NAMES[JobState(job.state)],
        submitted=job.submitted,
        started=job.started,
        ended=job.ended,
        processors=job.processors,
        minimum=request.minimum,
        maximum=request.maximum,
        unit=request.unit.value,
        run_time=None if request.run_time == FOREVER else request.run_time,
        priority=job.priority,
        exclusive=request.exclusive,
        memory=job.memory,
        parents=list(job.parents),
        requeues=job.requeues,
    )


@verb(READS)
async def metrics(context: ServerContext, by: User, request: VerbRequest) -> MetricsAnswer:  # noqa: ARG001
    """Show counts, counters and durations.  Counters begin at the start of the head."""
    counters, engine, standbys = context.job_counters, context.engine, context.standbys
    counts = cluster_counts(context.cluster, context.now())
    return MetricsAnswer(
        cluster=context.name,
        version=__version__,
        policy=engine.settings.text("SchedulingPolicy"),
        started=context.started,
        jobs=count_by_state(context.cluster, context.lookups.archive.count_ended(owner=None)),
        nodes=counts.nodes,
        processors=counts.processors,
        tasks_running=counts.tasks_running,
        jobs_submitted=counters.submitted,
        jobs_started=counters.started,
        jobs_backfilled=counters.backfilled,
        jobs_ended=_all_of(counters.ended, "finished", "failed", "canceled"),
        tasks_ended=_all_of(counters.tasks_ended, "finished", "failed", "canceled", "queued"),
        waits={name: _histogram(each) for name, each in sorted(counters.waits.items())},
        runs={name: _histogram(each) for name, each in sorted(counters.runs.items())},
        passes=_histogram(engine.passes),
        commits=_histogram(engine.commits),
        event_number=engine.number,
        agents_connected=len(context.links),
        notices_waiting=0 if context.notices is None else context.notices.waiting(),
        coverage=await context.coverage.newest(),
        failed_parts=len(_failed_parts(context)),
        standbys_behind={} if standbys is None else standbys.behind(),
        standby_waits={
            name: _histogram(each)
            for name, each in (standbys.delays() if standbys is not None else {}).items()
        },
        recurring_jobs=_recurring(context),
        recurring_jobs_refused=context.cluster.recurring.refused(),
    )


def _recurring(context: ServerContext) -> dict[str, int]:
    records = context.cluster.recurring.numbered.values()
    suspended = sum(each.recurring.suspended for each in records)
    return {"active": len(records) - suspended, "suspended": suspended}


def _all_of(counted: Counter[str], *names: str) -> dict[str, int]:
    return {name: counted[name] for name in names}


def _histogram(durations: DurationHistogram) -> HistogramObject:
    return HistogramObject(list(durations.bounds), list(durations.counts), durations.total)
