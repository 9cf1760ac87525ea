"""``hn job add``: give a job one more task."""

from headnode.apps.cli.command import KEY, Command
from headnode.apps.cli.described import task_terms
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.submitter import ENV_ALL, take_over
from headnode.apps.cli.terms import TASK_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

TASK_FILE = Option("taskfile", "FILE", "Take the task from a job file with one Task, or all tasks of its job")


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Add the task and print its address."""
    job = job_id(asked.words[:1])
    if (path := asked.text("taskfile")) is not None:
        return _from_file(job, path, asked, client, out)
    if len(asked.words) < 2:
        raise usage("the task has no program", "write it after the options: hn job add ID [options] PROGRAM")
    task = task_terms(asked, asked.words[1:])
    take_over(task, asked, client)
    answer = client.ask("add_tasks", job=job, tasks=[task], idempotency=asked.text(KEY.name))
    return _tell_added(job, answer, out)


def _from_file(job: int, path: str, asked: "Asked", client: "Client", out: "Output") -> int:
    """Add the tasks of a file."""
    from headnode.apps.cli.command import EVERYWHERE
    from headnode.apps.cli.job_files import read_job_file

    anyway = {"taskfile", KEY.name, *(option.name for option in EVERYWHERE)}
    others = [name for name in asked.options if name not in anyway]
    if len(asked.words) > 1 or others:
        what = asked.words[1] if len(asked.words) > 1 else f"option {others[0]!r}"
        raise usage(f"a task file was given, and {what} too", "give one of them")
    answer = client.ask("add_tasks", job=job, jobfile=read_job_file(path), idempotency=asked.text(KEY.name))
    return _tell_added(job, answer, out)


def _tell_added(job: int, answer: "dict[str, Any]", out: "Output") -> int:
    for number in answer["tasks"]:
        out.said(f"Task has been added. ID: {job}.{number}.", answer, f"{job}.{number}")
    if answer.get("report"):
        from headnode.apps.cli.fidelity import tell

        tell(answer["report"], "task", out)
    return 0


COMMANDS = (
    Command(
        "add",
        "ID [task options] PROGRAM [ARGUMENT...]",
        "Add a task to a job that has not ended",
        run,
        options=(*TASK_OPTIONS, ENV_ALL, TASK_FILE, KEY),
        example="hn job add 12 /name:merge /depend:left,right ./merge.sh",
        notes=(
            "Words from the program on belong to its command line; a single word is a whole command line.",
        ),
        positionals=1,
    ),
)
