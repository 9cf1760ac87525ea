"""``bkill``, ``bstop``, ``bresume`` and ``brequeue`` of LSF, and ``bpeek``.

Source:  IBM Spectrum LSF 10.1, bkill(1), bstop(1), bresume(1), brequeue(1), bpeek(1).
"""

import sys

from headnode.apps.cli.batch_programs.lsf_rows import (
    CHOICES,
    NOT_DONE,
    REMEMBERED,
    address_of,
    chosen_rows,
    named_rows,
    read_line,
    state_of,
)
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource, numbers_of
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, acted_on, refused
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPTIONS = {
    "bkill": acted_on(f"s r! {CHOICES}"),
    "bstop": acted_on(CHOICES),
    "bresume": acted_on(CHOICES),
    "brequeue": acted_on(f"a! e! r! H! {CHOICES}")
    | refused("d!", "a job that is done does not run again: use hn job clone")
    | refused("p!", "jobs that wait are in the queue"),
    "bpeek": acted_on("f! J q m u"),
}
_DEEDS = {"bkill": "terminated", "bstop": "stopped", "bresume": "resumed", "brequeue": "requeued"}
_OVER = ("DONE", "EXIT")


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """Print output, end, stop or resume jobs, or send them a signal; the worst exit status counts."""
    line = read_line(program, argv, OPTIONS[program])
    if program == "bpeek":
        return _peek(line, client)
    source, chooses = JobSource(client), line.has_any(CHOICES.split())
    if not line.words and not chooses:
        raise ProgramRefusal("Job ID is missing.", status=NOT_DONE, prefix="bare")
    status = 0
    if chooses or "0" in line.words:
        rows = chosen_rows(line, source, ended=REMEMBERED if _takes_ended(program, line) else 0.0)
        named = [word for word in line.words if word != "0"]
        if named:
            ids = {word.partition("[")[0] for word in named}
            rows = [row for row in rows if str(row.id) in ids]
        if not rows:
            raise ProgramRefusal("No matching job found", status=NOT_DONE, prefix="bare")
        for row in _whole(rows, line):
            status = max(status, _act(program, address_of(row), [row], line, source))
        return status
    for word, rows in named_rows(line.words, source):
        status = max(
            status, _act(program, word, _whole(rows, line) if "[" not in word else rows, line, source)
        )
    return status


def _whole(rows: "Sequence[BatchRow]", line: ProgramWords) -> "list[BatchRow]":
    """Return one row for each job in place of those of its elements, unless elements were named."""
    if "[" in line.value("J"):
        return list(rows)
    jobs: dict[int, BatchRow] = {}
    for row in rows:
        if row.number is None:
            jobs[row.id] = row
        elif row.id not in jobs:
            jobs[row.id] = BatchRow(row.source, row.job)
    return list(jobs.values())


def _act(program: str, target: str, rows: "Sequence[BatchRow]", line: ProgramWords, source: JobSource) -> int:
    from headnode.core.model.errors import HeadnodeError, NotFound, WrongState

    if not rows:
        return _failed(target, "No matching job found")
    done = 0
    try:
        for row in rows:
            if state_of(row) not in _OVER or (_takes_ended(program, line) and state_of(row) == "EXIT"):
                done += _do(program, row, line, source)
    except NotFound:
        return _failed(target, "No matching job found")
    except WrongState as refused:
        over = refused.code in ("job-over", "task-over")
        return _failed(target, "Job has already finished" if over else f"{refused.what}; {refused.fix}")
    except HeadnodeError as refused:
        return _failed(target, f"{refused.what}; {refused.fix}")
    if not done:
        return _failed(target, "Job has already finished")
    deed = "signaled" if line.has("s") and not _ends(line) else _DEEDS[program]
    print(f"Job <{target}> is being {deed}")
    return 0


def _takes_ended(program: str, line: ProgramWords) -> bool:
    """Return whether jobs that have failed or were killed are meant, too."""
    return program == "brequeue" and line.has_any("ae")


def _failed(target: str, what: str) -> int:
    sys.stderr.write(f"Job <{target}>: {what}\n")
    return NOT_DONE


def _ends(line: ProgramWords) -> bool:
    """Return whether the signal is the one that ends a job as bkill without -s does."""
    return line.value("s").upper().removeprefix("SIG") in ("KILL", "9")


def _do(program: str, row: BatchRow, line: ProgramWords, source: JobSource) -> bool:
    """Do it to a job or an element; return True.

    Raises:  HeadnodeError.
    """
    whole = row.number is None
    named: dict[str, Any] = {"job": row.id}
    if not whole:
        task = row.task or source.tasks(row.id)[numbers_of(row.job["array"]).index(row.number or 0)]
        named |= {"task": task["task"], "instance": task["instance"]}
    if program == "bkill" and line.has("s") and not _ends(line):
        source.client.ask("signal_job", signal=_signal(line.value("s")), **named)
    elif program == "bkill":
        if whole and line.has("r"):  # without the grace period
            named["force"] = True
        source.client.ask("cancel_job" if whole else "cancel_task", **named)
    elif program == "brequeue":
        _requeue(source.client, named, held=line.has("H"))
    elif not whole and (program == "bresume" or state_of(row) in ("PEND", "PSUSP")):
        source.client.ask("hold_task" if program == "bstop" else "release_task", **named)
    elif not whole:
        raise ProgramRefusal("an element of an array that runs cannot be stopped alone", status=NOT_DONE)
    else:
        waits = state_of(row) in ("PEND", "PSUSP")
        verbs = {"bstop": ("hold_job", "suspend_job"), "bresume": ("release_job", "resume_job")}[program]
        source.client.ask(verbs[0] if waits else verbs[1], **named)
    return True


def _requeue(client: Client, named: "dict[str, Any]", *, held: bool) -> None:
    """Let a job or an element run again; with `held` when it is released.

    Raises:  ProgramRefusal, HeadnodeError.
    """
    if not held:
        client.ask("requeue_job" if "task" not in named else "requeue_task", **named)
    elif "task" in named:
        client.ask("hold_task", requeue=True, **named)
    else:
        client.ask("hold_job", requeue=True, **named)


def _signal(text: str) -> str:
    from headnode.core.model.errors import BadRequest
    from headnode.core.model.signals import signal_name, signal_number

    try:
        return signal_name(signal_number(text))
    except BadRequest:
        raise ProgramRefusal(f"{text[:40]}: Illegal signal value", status=NOT_DONE, prefix="bare") from None


def _peek(line: ProgramWords, client: Client) -> int:
    """Print what a job has printed so far; with ``-f`` what it prints, until its end."""
    source = JobSource(client)
    if line.words:
        ((_, rows),) = named_rows(line.words[:1], source)
    else:
        rows = [row for row in chosen_rows(line, source) if state_of(row) == "RUN"][-1:]
    if not rows:
        raise ProgramRefusal("No matching job found", status=NOT_DONE, prefix="bare")
    question = _question(rows, source)
    print("<< output from stdout >>", flush=True)
    status = _print_output(question, client, ["--follow"] if line.has("f") else [])
    if len(question) > 1 and not line.has("f"):
        names = dict(zip(("job", "task", "instance"), question, strict=False))
        files = client.ask("task_output", **names)
        if files["standard_error"] not in (None, files["standard_output"]):
            print("<< output from stderr >>", flush=True)
            status = _print_output(question, client, ["--stderr"]) or status
    return status


def _question(rows: "Sequence[BatchRow]", source: JobSource) -> "list[int]":
    """Return the numbers of the job, or of its only task, or of the element of an array."""
    row = rows[0]
    tasks = source.tasks(row.id)
    if row.number is not None and len(rows) == 1:
        task = row.task or tasks[numbers_of(row.job["array"]).index(row.number)]
        return [row.id, int(task["task"]), int(task["instance"])]
    return [row.id, int(tasks[0]["task"])] if len(tasks) == 1 and row.number is None else [row.id]


def _print_output(question: "Sequence[int]", client: Client, options: "Sequence[str]") -> int:
    """Print the output of a job, a task or an instance as `hn task output` does."""
    from headnode.apps.cli.catalogue import find_command
    from headnode.apps.cli.options import read_arguments
    from headnode.apps.cli.output import Output

    command = find_command("task", "output")
    args = read_arguments([".".join(map(str, question)), *options], command.options, command.positionals)
    return command.run(args, client, Output(sys.stdout.write, sys.stderr.write, _write_bytes))


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
