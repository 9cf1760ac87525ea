"""``hn job listtasks``; ``hn task view``, ``modify``, ``cancel``, ``finish`` and ``requeue``."""

from headnode.apps.cli.arguments import job_id, task_address, tasks_named
from headnode.apps.cli.catalogue import FORMAT, STATE, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, read_states, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.screens.task import COLUMNS, WIDTHS, row, view
from headnode.apps.cli.table import RecordTable
from headnode.apps.cli.terms import TASK_OPTIONS, changed_terms
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from headnode.apps.cli.catalogue import Run

PAGE = 1000  # tasks


def list_tasks(args: Arguments, client: Client, out: Output) -> int:
    """List the tasks; with ``/expandparametric`` the instances of sweeps too."""
    job, wanted, limit = job_id(args.words), read_states(args.text("state")), args.number("limit")
    most = PAGE if limit is None else limit
    tasks, more = _task_page(client, most, job=job, after=args.number("after"), states=wanted)
    if args.flag("expandparametric"):
        tasks = _with_instances(client, tasks, wanted, most)
    trailer = counted(len(tasks), "task")
    if more is not None:
        trailer += f", more with --after {more}"
    rows = [row(task) for task in tasks]
    from headnode.apps.cli.screens.job_table import COLOURS

    sheet = RecordTable(
        "Task Id", rows, tasks, columns=COLUMNS, widths=WIDTHS, trailer=trailer, prose=True, colours=COLOURS
    )
    out.show_table(sheet)
    return 0


def _task_page(client: Client, most: int, **fields: "Any") -> "tuple[list[dict[str, Any]], int | None]":
    answer = client.ask("tasks", limit=most, **fields)
    return answer["tasks"], answer["more"]


def _with_instances(
    client: Client, tasks: "list[dict[str, Any]]", wanted: "list[str] | None", most: int
) -> "list[dict[str, Any]]":
    rows: list[dict[str, Any]] = []
    for task in tasks:
        rows.append(task)
        after: int | None = None
        while task.get("instances") and len(rows) < most:
            page, after = _task_page(
                client, most - len(rows), job=task["job"], expand=task["task"], after=after, states=wanted
            )
            rows += page
            if after is None:
                break
    return rows


PEEK = 4096  # bytes


def view_task(args: Arguments, client: Client, out: Output) -> int:
    """Show the task, and the end of its output if told to."""
    job, number, instance = task_address(args.words)
    task = client.ask("task", job=job, task=number, instance=instance)["task"]
    fields = view(task)
    if args.flag("peekoutput"):
        fields["Output"] = task["output"] = _end_of_output(client, job, number, instance)
    out.show_table(RecordTable("Task Id", [fields], task))
    return 0


def _end_of_output(client: Client, job: int, task: int, instance: int | None) -> str:
    from headnode.apps.cli.output_reading import copy_output, source_of

    question = {"job": job, "task": task, "instance": instance}
    files = client.ask("task_output", **question)
    path = files["standard_output"]
    pieces: list[bytes] = []
    if path:
        source = source_of(client, question, files, path)
        copy_output(source, pieces.append, start=-PEEK, captured=path == files["captured_path"])
    return b"".join(pieces).decode(errors="replace").rstrip("\n")


def modify_task(args: Arguments, client: Client, out: Output) -> int:
    """Change the task; tell what is different now."""
    job, task, instance = task_address(args.words)
    if instance is not None:
        raise usage("a sub-task has no options of its own", f"change the task: {job}.{task}")
    terms = changed_terms(args)
    if (command := args.text("commandline")) is not None:
        terms["command"] = command
    if not terms:
        raise usage("nothing is to be changed", "give options that are to be different, such as /stdout:FILE")
    changed = client.ask("modify_task", job=job, task=task, terms=terms)["changed"]
    message = (
        f"has been modified: {', '.join(changed)}" if changed else "is unchanged: it has these values already"
    )
    out.outcome(f"Task {job}.{task} {message}.", {"job": job, "changed": changed}, f"{job}.{task}")
    return 0


_STOPPING = (
    CliOption("message", "TEXT", "Reason, stored with the task"),
    CliOption("force", "", "Kill it at once, without TaskCancelGracePeriod"),
)


def _act_on_tasks(verb: str, sentence: "Callable[[Mapping[str, Any]], str]", *, stops: bool = True) -> "Run":
    """Return a command that asks a verb for each task, or the whole of a sweep."""

    def run(args: Arguments, client: Client, out: Output) -> int:
        fields: dict[str, Any] = {"requeue": True} if not stops and args.flag("requeue") else {}
        if stops:
            fields = {"message": args.text("message"), "force": args.flag("force") or None}

        def deed(word: str) -> None:
            job, task, instance = task_address([word])
            answer = client.ask(verb, job=job, task=task, instance=instance, **fields)
            out.outcome(f"Task {word} {sentence(answer)}.", answer, word)

        return for_each(_named_tasks(args), deed, out)

    return run


def _finished(answer: "Mapping[str, Any]") -> str:
    never = answer["state"] == "Canceled"
    return "had not started, and has been canceled" if never else "has been finished"


def _named_tasks(args: Arguments) -> list[str]:
    if not args.words:
        raise usage("no task was given", "write job.task or job.task.instance, for example 12.1")
    return tasks_named(args.words)


COMMANDS = (
    CliCommand(
        "listtasks",
        "ID",
        "List the tasks of a job",
        list_tasks,
        options=(
            STATE,
            CliOption(
                "expandparametric", "", "List the instances of sweeps, services and tasks of nodes, too"
            ),
            CliOption("limit", "N", f"How many at most (default: {PAGE})"),
            CliOption("after", "TASK", "Only tasks with a larger number: the next page"),
            FORMAT,
        ),
        example="hn job listtasks 12 /state:failed /expandparametric",
    ),
    CliCommand(
        "view",
        "JOB.TASK[.INSTANCE]",
        "Show a task",
        view_task,
        options=(
            CliOption("detailed", "", "Accepted from older commands; everything is shown anyway"),
            CliOption("peekoutput", "", f"Show the last {PEEK} bytes of what it printed"),
            FORMAT,
        ),
        example="hn task view 12.3",
    ),
    CliCommand(
        "modify",
        "JOB.TASK [task options]",
        "Change a task of a job that was not submitted",
        modify_task,
        options=(*TASK_OPTIONS, CliOption("commandline", "TEXT", "The program and its arguments")),
        example="hn task modify 12.1 /stdout:result.txt",
        notes=("The tasks of a job that was submitted do not change: clone the job, and change the copy.",),
    ),
    CliCommand(
        "cancel",
        "JOB.TASK[.INSTANCE[-LAST]]...",
        "Cancel tasks",
        _act_on_tasks("cancel_task", lambda _: "has been canceled"),
        options=_STOPPING,
        example="hn task cancel 12.3",
    ),
    CliCommand(
        "finish",
        "JOB.TASK[.INSTANCE[-LAST]]...",
        "Stop tasks and count them as finished",
        _act_on_tasks("finish_task", _finished),
        options=_STOPPING,
        example="hn task finish 12.3",
        notes=("Instances that have not started are canceled.",),
    ),
    CliCommand(
        "requeue",
        "JOB.TASK[.INSTANCE[-LAST]]...",
        "Run tasks again",
        _act_on_tasks("requeue_task", lambda _: "has been requeued", stops=False),
        example="hn task requeue 12.3.17",
        notes=("An instance that runs is stopped first; it must be named.",),
    ),
    CliCommand(
        "hold",
        "JOB.TASK[.INSTANCE[-LAST]]...",
        "Keep queued instances of tasks from starting",
        _act_on_tasks("hold_task", lambda _: "is held", stops=False),
        options=(CliOption("requeue", "", "Also those that run: they are stopped and go back to the queue"),),
        example="hn task hold 12.1.3",
        notes=("The job goes on with its other instances.  hn job hold holds the whole job.",),
    ),
    CliCommand(
        "release",
        "JOB.TASK[.INSTANCE[-LAST]]...",
        "Release held instances of tasks",
        _act_on_tasks("release_task", lambda _: "is released", stops=False),
        example="hn task release 12.1.3",
    ),
)
