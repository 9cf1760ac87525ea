"""A new job: one command, a form with every option, or a file of any job language; each can be checked."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from headnode.apps.cli.local_zone import local_zone
from headnode.apps.readable_values import counted, duration, unit_word
from headnode.apps.web.console.explained import explained
from headnode.apps.web.console.job_drawings import task_graph
from headnode.apps.web.console.job_form import FORM_TABS, form_model, form_request, moved_up
from headnode.apps.web.console.rendering import plain_text
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    Visit,
    numbers,
    texts,
)
from headnode.core.formats.dialects import DIALECTS, ReadOptions, convert, write
from headnode.core.formats.slash_terms import read_terms
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.quantities import Instant
from headnode.core.model.schedule import read_schedule

NEXT: Final = 5  # times of a schedule that are shown
WAYS: Final = {"": "One command", "form": "Form", "file": "File"}
MAX_UPLOAD: Final = 16 * 1024 * 1024  # bytes
_SIZES: Final = ("numprocessors", "numgpus")
_SIMPLE: Final = ("command", "jobname", *_SIZES, "corespergpu", "runtime", "parametric")


async def show_new(visit: Visit) -> Model:
    """Return the empty form of one of the three ways."""
    way = visit.query.get("way", "")
    return blank(way if way in WAYS else "", oversees=visit.oversees) | {"filled": {}}


def blank(way: str, *, oversees: bool) -> Model:
    """Return what all three ways have."""
    return {
        "title": "New job",
        "way": way,
        "ways": [
            {"path": f"/new?way={word}" if word else "/new", "name": name, "here": word == way}
            for word, name in WAYS.items()
        ],
        "dialects": [(name, each.title) for name, each in DIALECTS.items()],
        "tabs": FORM_TABS,
        "form": form_model({}, oversees=oversees) if way == "form" else None,
        "filled": {},
        "zone": zone_here(),
        "errors": {},
        "error": None,
        "checked": None,
        "next": [],
        "graph": None,
        "file": None,
    }


def zone_here() -> str:
    """Return the time zone of the gateway by name, UTC if it has no name."""
    try:
        return local_zone()
    except BadRequest:
        return "UTC"


# ---------------------------------------------------------------- what was filled in


async def described(form: FormData) -> HeadAnswer:
    """Return the fields of a submission that a form describes.

    Raises:  BadRequest ``empty`` when it describes nothing.
    """
    way = texts(form, "way")
    if way == "form":
        return form_request(form)
    if way == "file":
        text = await _file_text(form)
        if not text.strip():
            raise BadRequest(
                code="empty",
                what="the job file is empty",
                fix="paste a job file or choose one",
                path=("jobfile",),
            )
        return {
            "jobfile": text,
            "dialect": texts(form, "dialect") or None,
            "lenient": bool(texts(form, "lenient")),
            "awareness": texts(form, "awareness") or "warn",
        }
    command = texts(form, "command")
    if not command:
        raise BadRequest(
            code="empty", what="there is no command", fix="write the command to run", path=("command",)
        )
    named = {name: texts(form, name) for name in _SIMPLE[1:] if texts(form, name)}
    task = {"command": command} | {name: named.pop(name) for name in ("parametric",) if name in named}
    if "parametric" not in task:
        task |= {name: named[name] for name in _SIZES if name in named and "*" not in named[name]}
    return {"terms": named, "tasks": [task]}


async def _file_text(form: FormData) -> str:
    """Return the file that was chosen, or else the text that was pasted."""
    chosen = form.get("upload")
    if isinstance(chosen, UploadFile) and chosen.filename:
        await chosen.seek(0)  # it is read to be submitted, and to be shown again
        data = await chosen.read(MAX_UPLOAD + 1)
        if len(data) > MAX_UPLOAD:
            raise BadRequest(
                code="large",
                what="the file is larger than 16 MB",
                fix="submit it with hn job submit",
                path=("upload",),
            )
        return data.decode(errors="surrogateescape").encode(errors="replace").decode()
    pasted = form.get("jobfile")
    return pasted if isinstance(pasted, str) else ""


async def _filled(form: FormData) -> Mapping[str, str]:
    """Return the values of a form, to show it again; a file that was chosen becomes text."""
    values = {key: value for key, value in form.multi_items() if isinstance(value, str)}
    if texts(form, "way") == "file":
        values["jobfile"] = await _file_text(form)
    return values


# ---------------------------------------------------------------- check, show, submit


async def act_on_new(visit: Visit, form: FormData) -> GoTo | FormAgain | Response:
    """Check a description, show or save it as a file, add or move a row, or submit it."""
    do = texts(form, "do")
    if do in ("check", "show", "row") or do.startswith("up-"):
        return await _again(visit, form, do)
    try:
        request = await described(form)
        if do == "save":
            return saved(request, texts(form, "as") or "native", visit.now)
        request |= repeated(form, suspended=do == "create")
        once = key_of(texts(form, "once"), do, request)
        verb = "create_job" if do == "create" else "submit_job"
        answer = await visit.ask("create_recurring_job" if "schedule" in request else verb, **request, **once)
    except HeadnodeError as error:
        return await _again(visit, form, "", error)
    if "schedule" in request:
        made = answer["recurring_job"]
        state = ", suspended" if made["state"] == "Suspended" else ""
        sentence = f"Recurring job {made['name']} has been created{state}."
        return GoTo(f"/recurring/{made['number']}", _with_losses(sentence, answer["report"]))
    jobs = answer.get("jobs") or [answer["job"]]
    what = "created; submit it when it is complete" if do == "create" else "submitted"
    sentence = f"Job {jobs[-1]} is {what}." if len(jobs) == 1 else f"Jobs {jobs[0]} to {jobs[-1]} are {what}."
    if answer.get("repeated"):
        sentence += " The form was sent again and made no second job; for another, use New job."
    return GoTo(f"/jobs/{jobs[-1]}", _with_losses(sentence, answer["report"]))


def _with_losses(sentence: str, report: Iterable[HeadAnswer]) -> PageMessage:
    """Return a message, and what of the job file has no effect, or another one."""
    lost = [item for item in report if item["kind"] in ("not-supported", "approximated")]
    if not lost:
        return PageMessage(sentence)
    return PageMessage(
        sentence, "warning", "; ".join(f"{item['where']}: {item['what']}" for item in lost[:5])
    )


def repeated(form: FormData, *, suspended: bool) -> HeadAnswer:
    """Return the fields of a recurring job that a form describes; none if it has no schedule."""
    schedule, zone = texts(form, "schedule"), texts(form, "zone")
    fields: HeadAnswer = {"schedule": schedule, "zone": zone, "suspended": suspended}
    return fields if schedule else {}


def next_times(form: FormData, now: float) -> list[float]:
    """Return the next times of the schedule in a form; none if there is no schedule.

    Raises:  BadRequest ``schedule``, ``zone``.
    """
    schedule, zone = texts(form, "schedule"), texts(form, "zone")
    if not schedule:
        return []
    return [*islice(read_schedule(schedule, zone or "UTC", Instant(now)).times_after(Instant(now)), NEXT)]


def key_of(once: str, do: str, request: HeadAnswer) -> dict[str, str]:
    """Return the idempotency key of a form with these contents, as a field; none without its own key `once`.

    If the form is sent twice, one job is made. With other contents, as after Back in the browser, it makes
    another job.
    """
    if not once:
        return {}
    digest = hashlib.sha256(msgspec.json.encode([once, do, request], order="deterministic"))
    return {"idempotency": digest.hexdigest()}


async def _again(visit: Visit, form: FormData, do: str, error: HeadnodeError | None = None) -> FormAgain:
    """Return the form as it was filled in, with what was asked for beside it."""
    way = texts(form, "way")
    model = blank(way if way in WAYS else "", oversees=visit.oversees) | {"filled": await _filled(form)}
    if way == "form":
        if task := next(iter(numbers([do.removeprefix("up-")])), 0):
            model["filled"] = moved_up(model["filled"], task)
        model["form"] = form_model(model["filled"], oversees=visit.oversees, more=do == "row")
    if do in ("", "check", "show") and error is None:
        try:
            request = await described(form)
            model["next"] = next_times(form, visit.now)
            model["checked"] = checked(await visit.ask("check_job", **request), visit.now)
            model["graph"] = flow_of(request.get("tasks", ()))
            if do == "show":
                model["file"] = as_file(request, texts(form, "as") or "native", visit.now)
        except HeadnodeError as wrong:
            error = wrong
    if error is not None:
        model["error"] = {"what": error.what, "fix": error.fix}
        model["errors"] = field_errors(error)
    if model["checked"] is not None:
        model["checked"]["report"] = list(_with_lines(model["checked"]["report"], model["filled"]))
    return FormAgain("new.html", model, 200 if do else 422)


def field_errors(error: HeadnodeError) -> dict[str, str]:
    """Return the name of the field that an error is about, with its sentence."""
    message = f"{error.what}; {error.fix}" if error.fix else error.what
    match list(error.path):
        case ["terms", str(name), *_]:
            return {name: message, f"job-{name}": message}
        case ["tasks", int(number), str(name), *_]:
            return {name: message, f"task-{number + 1}-{name}": message}
        case [str(name), *_]:
            return {name: message, f"job-{name}": message}
    return {}


def _with_lines(report: Iterable[HeadAnswer], filled: Mapping[str, str]) -> Iterator[Model]:
    """Yield the findings about a file, each with the text of its line; "" for those without a line."""
    lines = filled.get("jobfile", "").splitlines()
    for item in report:
        number = item["line"] or 0
        yield {**item, "text": lines[number - 1][:200].strip() if 0 < number <= len(lines) else ""}


def checked(answer: HeadAnswer, now: float) -> Model:
    """Return what a page shows of a dry run."""
    alone = [{"job": answer["job"], "explanation": answer["explanation"]}] if answer.get("job") else []
    jobs = answer.get("jobs") or alone
    return {
        "report": answer["report"],
        "count": answer.get("count") or len(jobs),
        "jobs": [
            {
                "job": one["job"],
                "cost": cost(one["job"]),
                "why": explained(one["explanation"], one["job"], now, dry_run=True),
            }
            for one in jobs
        ],
    }


def flow_of(tasks: Iterable[HeadAnswer]) -> Model | None:
    """Return the drawing of the tasks of a form; None if none of them waits for another."""
    names = [
        {"name": task.get("name"), "depends_on": [name.strip() for name in task.get("depend", "").split(",")]}
        for task in tasks
    ]
    return task_graph(names, {})


def cost(job: HeadAnswer) -> str:
    """Return what a job takes at most: its processors for its run time limit."""
    least, most, unit = job["minimum"], job["maximum"], unit_word(job["unit"])
    size = counted(most, unit) if least == most else f"{least} to {most} {unit}s"
    if job["run_time"] is None:
        return f"{size}, without a run time limit"
    hours = most * job["run_time"] / 3600
    return f"{size} for {duration(job['run_time'])}: at most {hours:,.1f} {unit} hours"


def saved(request: HeadAnswer, dialect: str, now: float) -> Response:
    """Return the description as a file to keep, from which a job can be submitted again.

    Raises:  as `as_file`.
    """
    file = as_file(request, dialect, now)
    return plain_text(file["text"].encode(), f"job{DIALECTS[file['dialect']].suffix}")


def as_file(request: HeadAnswer, dialect: str, now: float) -> Model:
    """Return the description as a file in a job language, with what that language cannot say.

    Raises:  BadRequest as the readers and writers of job files.
    """
    if "jobfile" in request:
        how = ReadOptions(lenient=request["lenient"])
        text, report = convert(request["jobfile"], how, dialect)[2]
    else:
        text, report = write(read_terms(request["terms"], request["tasks"], now=Instant(now)), dialect)
    content = text.decode() if isinstance(text, bytes) else text
    return {"dialect": dialect, "text": content, "report": [_item(each) for each in report]}


def _item(each: Any) -> HeadAnswer:
    return {"kind": str(each.kind), "where": each.where, "what": each.what}


NEW_PAGES: Final = (ConsolePage("/new", "new.html", show_new),)
NEW_ACTIONS: Final = (ConsoleAction("/new", act_on_new),)
