"""``hn job add``: give a job one more task."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.described import task_terms
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import usage
from headnode.apps.cli.submitter import ENV_ALL, take_over
from headnode.apps.cli.terms import TASK_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Add the task and print its address."""
    job = job_id(asked.words[:1])
    if len(asked.words) < 2:
        raise usage("the task has no program", "write it after the options: hn job add ID [options] PROGRAM")
    task = task_terms(asked, asked.words[1:])
    take_over(task, asked, client)
    answer = client.ask("add_tasks", job=job, tasks=[task])
    for number in answer["tasks"]:
        out.said(f"Task has been added. ID: {job}.{number}.", answer, f"{job}.{number}")
    return 0


COMMANDS = (
    Command(
        "add",
        "ID [task options] PROGRAM [ARGUMENT...]",
        "Add a task to a job that is not over",
        run,
        options=(*TASK_OPTIONS, ENV_ALL),
        example="hn job add 12 /name:merge /depend:left,right ./merge.sh",
        notes=(
            "Everything from the program on is left alone; a single word is taken as a whole command line.",
        ),
        positionals=1,
    ),
)
