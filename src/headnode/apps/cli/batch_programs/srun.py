"""``srun``: in a job it starts a program on the processors of the job; else it makes a job of it and waits.

Source:  Slurm 22.05, srun(1).
"""

import contextlib
import os
import sys

from headnode.apps.cli.batch_programs.sbatch import OPTIONS as OF_JOBS
from headnode.apps.cli.batch_programs.sbatch import UNREADABLE, job_options, script_request, submitted
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    errors_of_ours,
    ignored,
    number_of,
    read_words,
    refused,
)
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import EVERYTHING, current_directory, quoted_line, variables_for_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_NOT_OF_SRUN = (
    "array",
    "batch",
    "export-file",
    "parsable",
    "test-only",
    "wait",
    "wrap",
    "hold",
    "overcommit",
)
_OF_STEPS = acted_on(
    "error/e export input/i job-name/J jobid label/l! open-mode output/o overcommit/O! overlap! pty! "
    "unbuffered/u! mpi hold/H!"
)
OPTIONS = {
    **{name: option for name, option in OF_JOBS.items() if name not in _NOT_OF_SRUN},
    **_OF_STEPS,
    **ignored(
        "cpu-bind preserve-env/E! exact! slurmd-debug threads/T disable-status/X! quit-on-interrupt/q! "
        "interactive! msg-timeout debugger-test! accel-bind send-libs bcast-exclude",
        "the tasks have all that their job has",
    ),
    **refused(
        "multi-prog! het-group relative/r no-allocate/Z! prolog epilog task-prolog task-epilog bcast",
        "write a script that does it",
    ),
    **refused("immediate/I wait/W", "tasks start when there is room, and end by themselves"),
}
OPTIONS["kill-on-bad-exit"] = acted_on("kill-on-bad-exit/K")["kill-on-bad-exit"]
OPTIONS["kill-on-bad-exit"].takes = "by ="
_LAYOUT = (
    *("ntasks", "nodes", "cpus-per-task", "ntasks-per-node", "tasks-per-node", "nodelist", "exclude"),
    *("distribution", "overcommit", "overlap", "label", "kill-on-bad-exit", "export", "job-name", "quiet"),
    "gpus-per-task",
)
"""Options of the tasks of a step; srun in the job that it makes gets them again."""
_OF_HERE = (
    *("error", "input", "output", "open-mode", "label", "unbuffered", "pty", "jobid", "mpi", "overlap"),
    *("overcommit", "kill-on-bad-exit", "quiet", "verbose", "version", "help", "usage", "cpu-bind"),
    *("preserve-env", "exact", "slurmd-debug", "threads", "disable-status", "quit-on-interrupt"),
    *("interactive", "msg-timeout", "debugger-test", "accel-bind", "send-libs", "bcast-exclude"),
)
"""Options that do not describe the job."""


def run(argv: "Sequence[str]", client: Client) -> int:
    """Start tasks; return the highest exit code of them."""
    args = read_words(argv, OPTIONS, stops=True, status=UNREADABLE)
    if args.text("mpi") == "list":
        print("MPI plugin types are...\n\tnone")
        return 0
    if (args.text("mpi") or "none") != "none":
        raise ProgramRefusal(
            f"--mpi={args.text('mpi')} is not supported here: start the program with mpiexec, which has the "
            "processors of the job"
        )
    if not args.words:
        raise ProgramRefusal("No command given to execute.", prefix="fatal: ")
    own = os.environ.get("HEADNODE_JOB", "")
    job = args.text("jobid") or _job_around() or own  # salloc may be typed in a job
    if own and job == own:
        from headnode.apps.cli.batch_programs.steps import run_step

        return run_step(args)
    if job:
        return _in_job_of_others(job, args, client)
    return _as_job(args, client)


def _job_around() -> str:
    """Return the job whose command we are, as of salloc; empty if there is none."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or ""


def _in_job_of_others(job: str, args: ProgramWords, client: Client) -> int:
    """Run the program as a step of a running job."""
    if number_of(job) is None:
        raise ProgramRefusal(f'Invalid numeric value "{job[:40]}" for --jobid.', status=UNREADABLE)
    directory = args.text("chdir") or (current_directory() if client.shares_directories else "")
    question = {
        "job": int(job),
        "in_task": True,
        "command": _step_command(args),
        "directory": directory,
        "environment": variables_for_tasks(EVERYTHING),
    }
    try:
        return _converse(client, question, args)
    except errors_of_ours() as refused:
        if refused.code not in ("no-such-job", "job-over"):
            raise
        known = f"srun: error: Unable to confirm allocation for job {job}: Invalid job id specified"
        hint = f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}"
        raise ProgramRefusal(known, hint, prefix="bare") from None


def _step_command(args: ProgramWords) -> str:
    """Return the command line of a step of a running job.

    Without a number of tasks it has as many as the allocation of salloc around it; one on each node if there
    is none.
    """
    if args.has("pty") or "SLURM_NTASKS" in os.environ or args.has("ntasks") or args.has("nodes"):
        return _command(args, alone=args.has("pty"))
    everywhere = _command(args, alone=False, more=' --nodes="$SLURM_NNODES"')
    return f"unset SLURM_NTASKS; {everywhere}"


def _as_job(args: ProgramWords, client: Client) -> int:
    """Make a job of the program, pass its streams on, and return its exit code."""
    name = args.text("job-name") or os.path.basename(args.words[0])  # noqa: PTH119
    options = [*job_options(args, _OF_HERE), "--output=", "--no-requeue"]
    request = script_request(client, "slurm", f"#!/bin/sh\n{_command(args)}\n", [name], options)
    job = submitted("srun", client, request, quiet=args.has("quiet"), terms={"interactive": "true"})
    from headnode.apps.cli.commands.job_shell import canceled_on_failure

    with canceled_on_failure(client, job):
        return _converse(client, {"job": job}, args)


def _command(args: ProgramWords, *, alone: bool | None = None, more: str = "") -> str:
    """Return the command line: the program itself, or `hn` as srun where there is more than one task.

    `more`: further options, for the shell on the node.
    """
    if _is_alone(args) if alone is None else alone:
        from headnode.apps.cli.batch_programs.step_tasks import start_or_fail

        return start_or_fail(args.words)
    step = [f"--{name}={value}" if value else f"--{name}" for name, value in args.in_order if name in _LAYOUT]
    own = quoted_line([os.path.realpath(sys.argv[0])])
    command = quoted_line(["compat", "run", "srun", *step])
    words = f"{command}{more} {quoted_line(['--', *args.words])}"
    return f"if [ -x {own} ]; then exec {own} {words}; else exec hn {words}; fi"


def _is_alone(args: ProgramWords) -> bool:
    """Return whether the program is started without `hn` between it and its job."""
    of_steps = ("ntasks", "nodes", "ntasks-per-node", "tasks-per-node", "label")
    return args.has("pty") or not any(map(args.has, of_steps))


def _converse(client: Client, question: "dict[str, Any]", args: ProgramWords) -> int:
    from headnode.apps.cli.commands.job_shell import TerminalClosed, join_terminal, terminal_size

    rows, columns, kind = terminal_size() if args.has("pty") else (0, 0, "")
    says = os.dup(2)  # what srun says itself is not in the files of the program
    if not args.has("pty"):
        _redirect(args, str(question["job"]))
    conversation = client.begin("shell", rows=rows, columns=columns, kind=kind, **question)
    try:
        printed = False
        while True:
            answer = conversation.receive()
            if "waits" in answer and not printed and not args.has("quiet"):
                printed = True
                _print_line(says, f"srun: job {question['job']} queued and waiting for resources")
            elif "node" in answer:
                if printed:
                    _print_line(says, f"srun: job {question['job']} has been allocated resources")
                ended = join_terminal(conversation, notices=args.has("pty"))
                return _print_end(ended, str(answer["node"]), args, says)
            elif answer.get("done"):
                return _print_end(answer, "", args, says)
    except TerminalClosed as left:  # by a signal, or from the keyboard: the program ends with the connection
        return left.status
    finally:
        os.dup2(says, 2)
        os.close(says)
        conversation.close()


def _redirect(args: ProgramWords, job: str) -> None:
    """Connect our streams with the files that were named; a terminal is not read without ``--pty``."""
    option = args.text("input")
    if option not in (None, "none", "all"):
        from headnode.apps.cli.batch_programs.step_tasks import open_input

        _onto(open_input(str(option)), 0)
    elif option == "none" or os.isatty(0):
        _onto(os.open(os.devnull, os.O_RDONLY), 0)
    for name, streams in (("output", (1, 2)), ("error", (2,))):
        path = args.text(name)
        if path is None or path == "all":
            continue
        from headnode.apps.cli.batch_programs.step_tasks import open_output, output_name

        file = open_output(
            output_name(path, {"j": job, "A": job, "t": "0", "n": "0"}), args.text("open-mode")
        )
        for stream in streams:
            os.dup2(file, stream)
        os.close(file)


def _onto(file: int, stream: int) -> None:
    os.dup2(file, stream)
    os.close(file)


def _print_line(stream: int, text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(stream, f"{text}\n".encode())


def _print_end(answer: "dict[str, Any]", node: str, args: ProgramWords, says: int) -> int:
    status = int(answer["exit"])
    if answer["problem"]:
        raise ProgramRefusal(str(answer["problem"]), status=status or 1)
    if status and not args.has("quiet") and _is_alone(args):  # else the srun in the job has said it
        from headnode.apps.cli.batch_programs.step_tasks import ending

        _print_line(says, f"srun: error: {node}: task 0: {ending(status)}")
    return status
