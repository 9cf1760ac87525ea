"""The verbs of the local protocol that are about tasks and their output."""

from itertools import islice
from typing import Any, Literal

from headnode.adapters.nodes.link import node_away
from headnode.apps.server import answers_jobs as show
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.lookups import Found
from headnode.apps.server.outputs import not_kept, output_is_kept, output_paths, read_own_file
from headnode.apps.server.private_environments import seen_by
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.permission import may_read_output
from headnode.core.lifecycle.states import TaskState
from headnode.core.lifecycle.waiting import task_reasons
from headnode.core.model.bounds import TASK_PAGE
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.engine.ports import InstanceRow

Object = dict[str, Any]


async def tasks(desk: Desk, by: User, wish: w.TasksWish) -> Object:  # noqa: ARG001  (everybody sees all)
    """Show the tasks of a job, or the instances of one of them."""
    found = desk.lookups.job(wish.job)
    limit = min(max(1, wish.limit), TASK_PAGE.most)
    states = {_word(state) for state in wish.states if state.lower() not in ("all", "*")}
    if wish.expand is not None:
        return _instances(desk, found, wish, states, limit)
    shown: list[Object] = []
    for number in range(wish.after + 1, len(found.spec.tasks) + 1):
        if len(shown) == limit:
            return {"tasks": shown, "more": number - 1}
        state = show.task_state(found.record, show.progress_of(found.record, found.spec, number))
        if not states or state in states:
            shown.append(_task(desk, found, number))
    return {"tasks": shown, "more": None}


def _word(state: str) -> str:
    plain = state.strip().lower().replace("cancelled", "canceled")
    words = {
        "notsubmitted": "Configuring",
        "not submitted": "Configuring",
        "configuring": "Configuring",
    }
    known = {word.lower(): word for word in ("Queued", "Running", "Finished", "Failed", "Canceled")} | words
    if plain not in known:
        raise BadRequest(
            code="state",
            what=f"{state!r} is not a state of a task",
            fix="use Queued, Running, Finished, Failed, Canceled or all",
        )
    return known[plain]


def _instances(desk: Desk, found: Found, wish: w.TasksWish, states: set[str], limit: int) -> Object:
    number = wish.expand or 0
    task_of(found, number)
    chosen = list(islice(show.instances_in(found.record, found.spec, number, states, wish.after), limit + 1))
    page = chosen[:limit]
    rows = _rows(desk, found, number, page)
    pending = _pending(desk, found, number)
    shown = [
        show.instance_object(found.record, found.spec, number, instance, rows.get(instance), pending)
        for instance in page
    ]
    return {"tasks": shown, "more": page[-1] if len(chosen) > limit else None}


def _rows(desk: Desk, found: Found, number: int, page: list[int]) -> dict[int, InstanceRow]:
    if not page:
        return {}
    span = page[-1] - page[0] + 1
    if span > 4 * len(page):
        rows = [desk.lookups.archive.instance(found.record.id, number, instance) for instance in page]
        return {row.instance: row for row in rows if row is not None}
    found_rows = desk.lookups.archive.instances(found.record.id, number, page[0] - 1, span)
    return {row.instance: row for row in found_rows if row.instance <= page[-1]}


def task_of(found: Found, number: int) -> TaskSpec:
    """Return the description of a task.

    Raises:  NotFound ``no-such-task``.
    """
    if not 1 <= number <= len(found.spec.tasks):
        count = len(found.spec.tasks)
        raise NotFound(
            code="no-such-task",
            what=f"job {found.record.id} has no task {number}",
            fix=f"it has tasks 1 to {count}" if count else "it has no tasks",
        )
    return found.taken.tasks[number - 1]


def _task(desk: Desk, found: Found, number: int) -> Object:
    row = None
    if found.spec.tasks[number - 1].kind is TaskType.BASIC:
        row = desk.lookups.archive.instance(found.record.id, number, 1)
    return show.task_object(found.record, found.spec, number, row, _pending(desk, found, number))


def _pending(desk: Desk, found: Found, number: int) -> str:
    if found.ended:
        return ""
    reasons = task_reasons(desk.cluster, found.record, number - 1)
    return reasons[0].text if reasons else ""


def _one(desk: Desk, found: Found, wish: w.TaskWish) -> tuple[TaskSpec, Object]:
    task = task_of(found, wish.task)
    if wish.instance is None:
        return task, _task(desk, found, wish.task)
    check_instance(found, wish)
    row = desk.lookups.archive.instance(found.record.id, wish.task, wish.instance)
    pending = _pending(desk, found, wish.task)
    return task, show.instance_object(found.record, found.spec, wish.task, wish.instance, row, pending)


def check_instance(found: Found, wish: w.TaskWish) -> None:
    """Refuse an instance that the task does not have."""
    count = show.instances_of(found.record, found.spec, wish.task)
    if wish.instance is not None and not 1 <= wish.instance <= count:
        raise NotFound(
            code="no-such-instance",
            what=f"task {found.record.id}.{wish.task} has no sub-task {wish.instance}",
            fix=f"it has sub-tasks 1 to {count}" if count else "it has none yet",
        )


async def task(desk: Desk, by: User, wish: w.TaskWish) -> Object:
    """Show a task, or one instance of it, with everything that the user may know."""
    found = desk.lookups.job(wish.job)
    seen, left_out = seen_by(desk, by, found)
    spec, shown = _one(desk, Found(found.record, seen, ended=found.ended), wish)
    return {"task": show.detailed_task(shown, spec) | {"private": bool(left_out)}}


async def cancel_task(desk: Desk, by: User, wish: w.StopTaskWish) -> Object:
    """Cancel a task, or one instance of it."""
    return await _stop(desk, by, wish, "canceled", "failed")


async def finish_task(desk: Desk, by: User, wish: w.StopTaskWish) -> Object:
    """Stop a task, or one instance of it, and count what runs as finished."""
    return await _stop(desk, by, wish, "finished", "finished")


async def _stop(
    desk: Desk, by: User, wish: w.StopTaskWish, word: str, outcome: Literal["failed", "finished"]
) -> Object:
    found = _active(desk, wish, word)
    command = c.StopTask(
        by=by,
        job=found.record.id,
        task=wish.task,
        instance=wish.instance,
        message=wish.message,
        force=wish.force,
        outcome=outcome,
    )
    await desk.ask(command)
    found = desk.lookups.job(wish.job)
    return {
        "state": _one(desk, found, w.TaskWish(job=wish.job, task=wish.task, instance=wish.instance))[1][
            "state"
        ]
    }


def _active(desk: Desk, wish: w.TaskWish, word: str) -> Found:
    found = desk.lookups.job(wish.job)
    task_of(found, wish.task)
    if found.ended:
        raise WrongState(
            code="job-over",
            what=f"job {wish.job} is {found.record.state.value}, so no task of it can be {word}",
            fix=f"run the job again: hn job requeue {wish.job}",
        )
    return found


async def requeue_task(desk: Desk, by: User, wish: w.TaskWish) -> Object:
    """Run a task that is over again."""
    found = _active(desk, wish, "requeued")
    command = c.RequeueTask(by=by, job=found.record.id, task=wish.task, instance=wish.instance)
    await desk.ask(command)
    return {"state": "Queued"}


async def output(desk: Desk, by: User, wish: w.TaskWish) -> Object:
    """Say where the output of a task lies.  Who reads it does so as himself."""
    found = desk.lookups.job(wish.job)
    spec = task_of(found, wish.task)
    check_instance(found, wish)
    if spec.kind is not TaskType.BASIC and wish.instance is None:
        count = show.instances_of(found.record, found.spec, wish.task)
        raise BadRequest(
            code="which-instance",
            what=f"task {wish.job}.{wish.task} is a {_noun(spec)} of {count} sub-tasks",
            fix=f"name one, for example {wish.job}.{wish.task}.1",
        )
    instance = wish.instance or 1
    progress = show.progress_of(found.record, found.spec, wish.task)
    live = progress.live.get(instance)
    row = desk.lookups.archive.instance(found.record.id, wish.task, instance)
    node = live.place[0][0] if live is not None else (row.node if row is not None else "")
    state = show.instance_state(found.record, progress, instance)
    if state in (TaskState.CONFIGURING, TaskState.QUEUED) or not node:
        nothing = {"standard_output": None, "standard_error": None, "captured": False, "kept": None}
        return {**nothing, "state": state.value}
    place = live.place if live is not None else ((node, ()),)
    record = desk.cluster.nodes.get(node)
    remote = record is not None and bool(record.key)
    kept = output_is_kept(desk.state, node, found.record.id)
    variables = desk.engine.settings.environment()
    return output_paths(desk.state, desk.name, found, wish.task, instance, place, variables) | {
        "state": state.value,
        "by": by.name,
        "remote": remote,
        "gone": "" if remote or not found.ended or kept else not_kept(found.record.id),
    }


def _noun(task: TaskSpec) -> str:
    return task.kind.value if task.kind in (TaskType.SWEEP, TaskType.SERVICE) else f"{task.kind.value} task"


async def read_output(desk: Desk, by: User, wish: w.ReadOutputWish) -> Object:
    """Read output on the node where it lies; only its owner and administrators may."""
    found = desk.lookups.job(wish.job)
    may_read_output(by, found.record)
    where = await output(desk, by, w.TaskWish(job=wish.job, task=wish.task, instance=wish.instance))
    own = where[wish.stream] if wish.stream != "captured" else None
    if own is not None and own != where["kept"]:
        return await read_own_file(desk, found.record, where["node"], own, (wish.offset, wish.most))
    if not where["captured"]:
        raise NotFound(
            code="no-output",
            what=f"task {wish.job}.{wish.task} wrote all its output to files of its own",
            fix="see: hn task view",
        )
    link = desk.links.get(where["node"])
    if link is None:
        raise node_away(where["node"])
    span = wish.offset, wish.most
    read = await link.read_output(found.record.id, wish.task, wish.instance or 1, span)
    if read.problem:
        raise NotFound(code="no-output", what=read.problem, fix="see: hn task view")
    if read.gone and found.ended:
        raise NotFound(code="no-output", what=not_kept(found.record.id), fix="see: hn job view")
    return {"data": read.data, "size": read.size}
