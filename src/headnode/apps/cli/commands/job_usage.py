"""``hn job usage``: what the running tasks of jobs use now."""

from headnode.apps.cli.arguments import job_ids
from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.screens.efficiency import percent
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted, memory, short_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = dict[str, Any]

_COLUMNS = ("Id", "Node", "Processes", "Cores", "Elapsed", "CPU Time", "CPU", "Memory", "Peak", "Requested")
_NOT_KNOWN = "-"


def run(asked: Arguments, client: Client, out: Output) -> int:
    """Measure the running tasks of jobs."""
    answers: list[Answer] = []

    def measure(job: int) -> None:
        answer = client.ask("job_usage", job=job)
        if answer["silent"]:
            out.note(f"no answer from {', '.join(answer['silent'])}: what runs there is not shown")
        answers.append(answer)

    status = for_each(job_ids(asked.words), measure, out)
    if answers:
        rows = [_row(answer["job"], task) for answer in answers for task in answer["tasks"]]
        out.show_table(
            RecordTable(
                "Id",
                rows,
                answers[0] if len(answers) == 1 else answers,
                columns=_COLUMNS,
                right=_COLUMNS[2:],
                trailer=_total([task for answer in answers for task in answer["tasks"]]),
            )
        )
    return status


def _row(job: int, task: "Answer") -> "dict[str, str]":
    instance = "" if task["instance"] is None else f".{task['instance']}"
    return {
        "Id": f"{job}.{task['task']}{instance}",
        "Node": task["node"],
        "Processes": str(task["processes"]),
        "Cores": str(task["processors"]),
        "Elapsed": _NOT_KNOWN if task["run_time"] is None else short_duration(task["run_time"]),
        "CPU Time": short_duration(_time(task)),
        "CPU": percent(_share(task)),
        "Memory": memory(task["memory"]),
        "Peak": memory(task["peak_memory"]),
        "Requested": memory(task["requested_memory"]) if task["requested_memory"] else _NOT_KNOWN,
    }


def _time(task: "Answer") -> float:
    return float(task["user_time"] + task["system_time"])


def _share(task: "Answer") -> float | None:
    """Return the share of the processor time that a task has held on the node so far; None: not known."""
    held = (task["run_time"] or 0.0) * task["processors"]
    return _time(task) / held if held else None


def _total(tasks: "list[Answer]") -> str:
    if not tasks:
        return "no task runs"
    processes = sum(task["processes"] for task in tasks)
    used = memory(sum(task["memory"] for task in tasks))
    return f"{counted(processes, 'process', 'processes')} with {used} of memory"


COMMANDS = (
    CliCommand(
        "usage",
        "ID...",
        "Measure what running tasks use now",
        run,
        options=(FORMAT,),
        example="hn job usage 12",
        notes=(
            "CPU Time is that of the processes of a task since its start. CPU is that time, divided by the "
            "time of the processors that the task holds on the node. Memory is what its processes have "
            "resident; pages that they share count for each. Requested is the memory for its processors "
            "there.",
            "For tasks that have ended: hn job efficiency.",
        ),
    ),
)
