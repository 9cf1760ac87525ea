"""What the buttons on the pages of a job do."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.web.console.job_form import IN_ROW
from headnode.apps.web.console.visit import ConsoleAction, GoTo, PageMessage, Visit, numbers, texts
from headnode.core.model.errors import BadRequest, Refused, WrongState

MAX_KEY: Final = 64  # characters of an idempotency key
SIMPLE: Final[Mapping[str, tuple[str, str]]] = {
    "submit": ("submit_job", "Job {job} has been submitted."),
    "requeue": ("requeue_job", "Job {job} is queued again; what has finished is not repeated."),
    "suspend": ("suspend_job", "Job {job} is being suspended."),
    "resume": ("resume_job", "Job {job} continues when its processors are free."),
}
"""The word of the address -> the verb, and the message."""


def _job(visit: Visit) -> int:
    return int(visit.request.path_params["job"])


def _back(visit: Visit, text: str) -> GoTo:
    job = _job(visit)
    return GoTo(f"/jobs/{job}", PageMessage(text.format(job=job)))


async def simply(visit: Visit, form: FormData) -> GoTo:  # noqa: ARG001
    """Carry out an action that needs nothing but the job."""
    verb, past = SIMPLE[visit.request.url.path.rpartition("/")[2]]
    await visit.ask(verb, job=_job(visit))
    return _back(visit, past)


async def cancel(visit: Visit, form: FormData) -> GoTo:
    """Cancel a job."""
    await visit.ask("cancel_job", job=_job(visit), **_ending(form))
    return _back(visit, "Job {job} is being canceled.")


async def finish(visit: Visit, form: FormData) -> GoTo:
    """Finish a job: what runs is stopped, and counts as finished."""
    await visit.ask("finish_job", job=_job(visit), **_ending(form))
    return _back(visit, "Job {job} is being finished.")


def _ending(form: FormData) -> dict[str, Any]:
    how = texts(form, "how")
    return {"message": texts(form, "message"), "force": how == "force", "graceful": how == "graceful"}


async def hold(visit: Visit, form: FormData) -> GoTo:
    """Hold a job."""
    name = texts(form, "name")
    await visit.ask("hold_job", job=_job(visit), name=name or None, message=texts(form, "message"))
    return _back(visit, "Job {job} is held.")


async def release(visit: Visit, form: FormData) -> GoTo:
    """Release one hold of a job, or all of them."""
    name = texts(form, "name")
    if name:
        await visit.ask("release_job", job=_job(visit), name=name)
        return _back(visit, "The hold of job {job} is released.")
    await visit.ask("release_job", job=_job(visit), all=True)
    return _back(visit, "All holds of job {job} are released.")


async def change(visit: Visit, form: FormData) -> GoTo:
    """Give a job other options: those of the fields whose names begin with ``term-``."""
    terms = terms_of(form)
    if not terms:
        raise BadRequest(code="field", what="no option was changed", fix="name at least one option")
    if again := texts(form, "again"):
        return await _submit_again(visit, terms, again)
    answer = await visit.ask("modify_job", job=_job(visit), terms=terms)
    changed = ", ".join(name.replace("_", " ") for name in answer["changed"]) or "nothing"
    return _back(visit, f"Changed of job {{job}}: {changed}.")


async def _submit_again(visit: Visit, terms: dict[str, str], again: str) -> GoTo:
    """Submit a copy of a job with other options, then cancel the job if it is not over.

    A form that is sent twice makes one copy: `again` is its own.
    """
    job = _job(visit)
    once = f"again {job} {again}"[:MAX_KEY]
    copy = (await visit.ask("clone_job", job=job, idempotency=once))["job"]
    try:
        await visit.ask("submit_job", job=copy, terms=terms)
    except Refused as refused:
        if refused.code != "already-submitted":
            with contextlib.suppress(WrongState):  # it is over
                await visit.ask("cancel_job", job=copy, message="it cannot be submitted with these options")
            raise
    try:
        await visit.ask("cancel_job", job=job, message=f"submitted again as job {copy}")
    except WrongState:  # it is over, perhaps since a moment ago
        return GoTo(f"/jobs/{copy}", PageMessage(f"Job {copy} is a copy of job {job} with these options."))
    return GoTo(f"/jobs/{copy}", PageMessage(f"Job {copy} replaces job {job}, which is canceled."))


async def clone(visit: Visit, form: FormData) -> GoTo:  # noqa: ARG001
    """Make a copy of a job, which is not submitted yet."""
    answer = await visit.ask("clone_job", job=_job(visit))
    lost = "; ".join(item["what"] for item in answer["report"])
    message = f"Job {answer['job']} is a copy of job {_job(visit)}. It is not submitted yet."
    return GoTo(f"/jobs/{answer['job']}", PageMessage(message + (f" {lost}." if lost else "")))


async def act_on_task(visit: Visit, form: FormData) -> GoTo:
    """Cancel, finish or requeue a task, or one instance of it."""
    job, verb = _job(visit), texts(form, "do")
    if verb not in ("cancel", "finish", "requeue"):
        raise BadRequest(code="action", what="no action was chosen", fix="choose cancel, finish or requeue")
    chosen = numbers([texts(form, "instance")])
    task = visit.request.path_params["task"]
    await visit.ask(f"{verb}_task", job=job, task=task, instance=chosen[0] if chosen else None)
    which = f"{job}.{task}" + (f".{chosen[0]}" if chosen else "")
    return GoTo(f"/jobs/{job}/tasks", PageMessage(f"Task {which}: {verb} is requested."))


async def add_task(visit: Visit, form: FormData) -> GoTo:
    """Add a task to a job, also to one that runs."""
    row = {name: texts(form, name) for name in IN_ROW if texts(form, name)}
    if "command" not in row:
        raise BadRequest(code="empty", what="there is no command", fix="write the command of the new task")
    await visit.ask("add_tasks", job=_job(visit), tasks=[row])
    return GoTo(f"/jobs/{_job(visit)}/tasks", PageMessage(f"A task is added to job {_job(visit)}."))


async def change_task(visit: Visit, form: FormData) -> GoTo:
    """Change the options of a queued task."""
    job, task = _job(visit), visit.request.path_params["task"]
    terms = terms_of(form)
    if not terms:
        raise BadRequest(code="field", what="no option was changed", fix="name at least one option")
    await visit.ask("modify_task", job=job, task=task, terms=terms)
    return GoTo(f"/jobs/{job}/tasks", PageMessage(f"Task {job}.{task} is changed."))


def terms_of(form: FormData) -> dict[str, str]:
    """Return the options of a form: the fields whose names begin with ``term-``.

    A form that says `only` leaves out empty fields; elsewhere an empty one sets the option to nothing.
    """
    only = bool(texts(form, "only"))
    return {
        key.removeprefix("term-"): value.strip()
        for key, value in form.multi_items()
        if key.startswith("term-") and isinstance(value, str) and (value.strip() or not only)
    }


JOB_ACTIONS: Final = (
    *(ConsoleAction(f"/jobs/{{job:int}}/{word}", simply) for word in SIMPLE),
    ConsoleAction("/jobs/{job:int}/cancel", cancel),
    ConsoleAction("/jobs/{job:int}/finish", finish),
    ConsoleAction("/jobs/{job:int}/hold", hold),
    ConsoleAction("/jobs/{job:int}/release", release),
    ConsoleAction("/jobs/{job:int}/change", change),
    ConsoleAction("/jobs/{job:int}/clone", clone),
    ConsoleAction("/jobs/{job:int}/tasks", add_task),
    ConsoleAction("/jobs/{job:int}/tasks/{task:int}", act_on_task),
    ConsoleAction("/jobs/{job:int}/tasks/{task:int}/change", change_task),
)
