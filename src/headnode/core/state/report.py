"""What the reports of nodes mean: how task instances ended, and what follows for their job."""

from collections.abc import Iterator

import msgspec

from headnode.core.model.faults import Fault, fault_of
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOfTask, AttemptOutcome, ended_well
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import SPECIAL, TaskSpec
from headnode.core.state import command as c
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport, Command
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstanceEnd, InstanceStage, InstanceStart
from headnode.core.state.job_record import JobRecord, JobRun, LiveAttempt
from headnode.core.state.job_usage import why_it_failed
from headnode.core.state.node_faults import (
    drain_for_failures,
    drain_for_fault,
    is_node_at_fault,
    task_retries,
)
from headnode.core.state.stop import fail_job
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import SUSPENDED_STATES, JobState, TaskState


class ReportStarted(Command, frozen=True):
    """Node: these attempts have started."""

    node: str
    job: JobId
    starts: tuple[InstanceStart, ...]


class ReportStaging(Command, frozen=True):
    """Node: files of these attempts are transferred."""

    node: str
    job: JobId
    staging: tuple[InstanceStage, ...]


class ReportEnded(Command, frozen=True):
    """Node: these attempts have ended."""

    node: str
    job: JobId
    reports: tuple[AttemptReport, ...]


def started(cluster: ClusterState, command: ReportStarted, now: Instant) -> list[Event]:
    """Note which attempts run."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None:
        return []
    run = record.run
    begun = [b for b in command.starts if _is_fresh(run, b, command.node)]
    fresh = tuple({(b.task, b.instance): b for b in begun}.values())
    return [e.InstancesStarted(at=now, job=record.id, started=fresh)] if fresh else []


def staging(cluster: ClusterState, command: ReportStaging, now: Instant) -> list[Event]:
    """Note for which attempts files are transferred."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None:
        return []
    fresh: dict[tuple[int, int], InstanceStage] = {}
    for stage in command.staging:
        live = _live(record.run, stage.task, stage.instance, stage.attempt, command.node)
        if live is not None and live.staging != stage.direction and _follows(record, live, stage.direction):
            fresh[stage.task, stage.instance] = stage
    return [e.InstancesStaging(at=now, job=record.id, staging=tuple(fresh.values()))] if fresh else []


def _follows(record: JobRecord, live: LiveAttempt, direction: str) -> bool:
    """Whether an attempt can come to this: files are ready only where it waits for processors."""
    if direction == "ready":
        return live.started is None and record.state in SUSPENDED_STATES
    return direction == "out" or (live.started is None and live.staging != "ready")


def _is_fresh(run: JobRun, start: e.InstanceStart, node: str) -> bool:
    """Whether a start is news; one that overtook the end of a parent is told again."""
    live = _live(run, start.task, start.instance, start.attempt, node)
    return live is not None and live.started is None and not any(waits_for(run, live))


def waits_for(run: JobRun, live: LiveAttempt) -> Iterator[AttemptOfTask]:
    """Yield the attempts of parents after which this one comes, and of which no end is known."""
    for task, instance, attempt in live.after:
        parent = run.tasks[task - 1].live.get(instance)
        if parent is not None and parent.attempt == attempt:
            yield task, instance, attempt


def may_follow(run: JobRun, live: LiveAttempt) -> bool:
    """Whether every parent after which an attempt comes has finished, or has not ended yet."""
    waits = set(waits_for(run, live))
    return all(key in waits or key[1] in run.tasks[key[0] - 1].finished for key in live.after)


def _live(run: JobRun, task: int, instance: int, attempt: int, node: str) -> LiveAttempt | None:
    """Return the attempt, if `node` may speak of it: the first node of its place started it."""
    if not 1 <= task <= len(run.tasks):
        return None
    live = run.tasks[task - 1].live.get(instance)
    if live is None or live.attempt != attempt or live.placement[0][0] != node:
        return None
    return live


def ended(cluster: ClusterState, command: ReportEnded, now: Instant) -> list[Event]:
    """Note how attempts ended, and stop the job when that follows."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or record.id not in cluster.graphs:
        return []
    graph = cluster.graph(record.id)
    judged: dict[tuple[int, int], InstanceEnd] = {}
    faulty: list[Event] = []
    for said in command.reports:
        live = _live(record.run, said.task, said.instance, said.attempt, command.node)
        if live is not None:
            report = _as_job_has_it(cluster, said, command.node)
            if report is not said and fault_of(said.outcome.fault) is Fault.NODE:
                faulty = faulty or drain_for_fault(cluster, command.node, said.outcome.message, now)
            how = _judge(cluster, graph, record, live, report, command.node)
            judged[report.task, report.instance] = how
    if not judged:
        return []
    over = tuple(judged.values())
    return [
        *(faulty or drain_for_failures(cluster, record, command.node, over, now)),  # before it is given more
        e.InstancesEnded(at=now, job=record.id, ended=over),
        *_consequences(record, record.run, graph, over, now),
    ]


def _as_job_has_it(cluster: ClusterState, report: c.AttemptReport, node: str) -> c.AttemptReport:
    """Return a report without what the job is not to blame for: what the node did not start never ran."""
    outcome = report.outcome
    if outcome.kind != "not-started" or not is_node_at_fault(cluster, node, outcome.fault):
        return report
    never_ran = outcome._replace(kind="never-ran", message="", fault="")
    return msgspec.structs.replace(report, outcome=never_ran)


def _judge(
    cluster: ClusterState,
    graph: TaskGraph,
    record: JobRecord,
    live: LiveAttempt,
    report: c.AttemptReport,
    node: str,
) -> InstanceEnd:
    """Say how one attempt ended, in the head's words."""
    task = graph.spec.tasks[report.task - 1]
    if task.kind in SPECIAL:
        state, cause, message = _verdict_of_special(graph, task, live, report.outcome)
    else:
        state, cause, message = _verdict(graph, task, record, live, report, task_retries(cluster))
    if state == "queued" and record.state.is_active and _starts_nothing(graph.run):
        state = "canceled" if live.state is TaskState.DISPATCHED else "failed"
    return InstanceEnd(
        task=report.task,
        instance=report.instance,
        attempt=report.attempt,
        state=state,
        outcome=report.outcome
        if message == report.outcome.message
        else report.outcome._replace(message=message),
        node=node,
        cause=cause,
        nodes=tuple(name for name, _ in live.placement) if len(live.placement) > 1 else (),
    )


PARENT_FAILED = "a task it depends on failed"

Verdict = tuple[e.EndState, e.Cause, str]


def _starts_nothing(run: JobRun) -> bool:
    """Return whether the job is to end when its running tasks have ended."""
    return run.end is not None and not run.end.requeue


def _verdict_of_special(
    graph: TaskGraph, task: TaskSpec, live: LiveAttempt, outcome: AttemptOutcome
) -> Verdict:
    """Say how an instance of a special task ended: none runs again, others are made in its place."""
    if ended_well(outcome, graph.spec.valid_codes(task)):
        return "finished", "program", outcome.message
    if outcome.kind == "never-ran" and live.started is None:
        return "canceled", "request", live.message
    if live.state is TaskState.ENDING:
        return live.outcome or "failed", "system" if live.cause == "system" else "request", live.message
    if outcome.kind in ("lost", "never-ran"):
        return "failed", "system", outcome.message or "the node lost the task"
    return "failed", "program", _words(outcome)


def _verdict(
    graph: TaskGraph,
    task: TaskSpec,
    record: JobRecord,
    live: LiveAttempt,
    report: c.AttemptReport,
    allowed: int,
) -> Verdict:
    """Say how an instance ended; `allowed` is how often one may run again that was lost."""
    spec, outcome = graph.spec, report.outcome
    if ended_well(outcome, spec.valid_codes(task)):
        return "finished", "program", outcome.message
    progress = graph.run.tasks[report.task - 1]
    stopping = live.outcome if live.state is TaskState.ENDING else None
    end = graph.run.end
    again = record.state is JobState.ENDING and end is not None and end.requeue
    if outcome.kind == "never-ran" and live.started is not None:
        outcome = outcome._replace(kind="lost", message="the node lost the record that the task had started")
    if outcome.kind == "never-ran":
        if stopping is None and spec.fail_dependent_tasks and graph.has_failed_parent(report.task - 1):
            return "failed", "request", f"it never ran: {PARENT_FAILED}"
        if stopping is None or again or live.requeue or live.cause in ("system", "preempted"):
            return "queued", "request", ""
        return "canceled", "request", live.message
    if again or (stopping is not None and live.requeue):
        return "queued", "request", live.message
    if stopping is not None:
        if live.cause == "preempted":
            return "queued", "preempted", live.message
        if live.cause == "system":
            return _after_loss(task, live.message, progress.system_retries.get(report.instance, 0), allowed)
        return stopping, "request", live.message
    if outcome.kind == "lost":
        words = outcome.message or "the node lost the task"
        return _after_loss(task, words, progress.system_retries.get(report.instance, 0), allowed)
    return _after_failure(spec, outcome, progress.retries.get(report.instance, 0))


def _after_loss(task: TaskSpec, node: str, retries: int, allowed: int) -> Verdict:
    if task.rerunnable and retries < allowed:
        return "queued", "system", node
    why = f"after {retries} retries" if task.rerunnable else "and it is not rerunnable"
    return "failed", "system", f"{node}, {why}"


def _after_failure(spec: JobSpec, outcome: AttemptOutcome, retries: int) -> Verdict:
    if outcome.kind == "exited" and retries < spec.task_retry_limit:
        return "queued", "program", _words(outcome)
    return "failed", "program", _words(outcome)


def _words(outcome: AttemptOutcome) -> str:
    if outcome.message:
        return outcome.message
    if outcome.kind == "timed-out":
        return "the run time limit of the task expired"
    if outcome.signal is not None:
        from headnode.core.model.signals import signal_in_words  # few programs are ended by one

        return f"the program was ended by signal {signal_in_words(outcome.signal)}"
    return f"the program ended with exit code {outcome.exit_code}"


def _consequences(
    record: JobRecord, run: JobRun, graph: TaskGraph, over: tuple[InstanceEnd, ...], now: Instant
) -> list[Event]:
    """Return what failed tasks do to the rest of their job."""
    failed = [how for how in over if how.state == "failed" and _matters(graph, how.task - 1)]
    if not failed or not record.state.is_active or _starts_nothing(run):
        return []
    critical = _critical(graph, run, failed)
    if critical is not None:
        why = next((how.outcome.message for how in failed if how.task == critical), "")
        message = f"task {record.id}.{critical} failed{why_it_failed(why)}"
        return fail_job_after(record, graph, over, message, now)
    if graph.spec.fail_dependent_tasks:
        return _fail_dependents(record, graph, over, failed, now)
    return []


def _matters(graph: TaskGraph, index: int) -> bool:
    """Return whether the failure of a task can fail its job; a node preparation task must say so."""
    return graph.counts(index) or graph.spec.tasks[index].fail_job_on_failure


def _critical(graph: TaskGraph, run: JobRun, failed: list[InstanceEnd]) -> int | None:
    """Return a task whose failure fails the whole job."""
    if graph.spec.fail_on_task_failure:
        return failed[0].task
    for how in failed:
        task = graph.spec.tasks[how.task - 1]
        now_failed = sum(1 for other in failed if other.task == how.task)
        in_all = len(run.tasks[how.task - 1].failed) + now_failed
        if task.fail_job_on_failure and in_all >= task.fail_job_count:
            return how.task
    return None


def fail_job_after(
    record: JobRecord, graph: TaskGraph, over: tuple[InstanceEnd, ...], message: str, now: Instant
) -> list[Event]:
    """Return the events that fail the job; instances in `over` are no longer live, or queued again."""
    gone = {(how.task, how.instance) for how in over}
    events: list[Event] = []
    for event in fail_job(record, graph, message, now):
        if isinstance(event, e.InstancesStopping):
            left = tuple(n for n in event.instances if (event.task, n) not in gone)
            if left:
                events.append(msgspec.structs.replace(event, instances=left))
        else:
            events.append(event)
    again = [how for how in over if how.state == "queued"]
    return events + [
        e.InstancesCanceled(
            at=now, job=record.id, task=how.task, spans=((how.instance, how.instance),), message=message
        )
        for how in again
    ]


def _fail_dependents(
    record: JobRecord,
    graph: TaskGraph,
    over: tuple[InstanceEnd, ...],
    failed: list[InstanceEnd],
    now: Instant,
) -> list[Event]:
    """Fail what waits for failed tasks and is queued, or was given back just now."""
    doomed = {index for how in failed for index in graph.dependents(how.task - 1)}
    tasks = graph.run.tasks
    spans = {index: [*tasks[index].queued.spans(), *tasks[index].blocked.spans()] for index in doomed}
    for how in over:
        if how.state == "queued" and how.task - 1 in doomed:
            spans[how.task - 1].append((how.instance, how.instance))
    return [
        e.InstancesCanceled(
            at=now,
            job=record.id,
            task=index + 1,
            spans=tuple(spans[index]),
            outcome="failed",
            message=PARENT_FAILED,
        )
        for index in sorted(doomed)
        if spans[index]
    ]
