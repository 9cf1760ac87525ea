"""What a command takes from its shell (words, work directory, variables), and the shell's last job."""

# ruff: noqa: PTH110, PTH111, PTH117, PTH118, PTH123 (pathlib costs 6 ms of every submit)

import os

from headnode.adapters.files.opening import make_own_directory, open_below, open_own_directory
from headnode.apps.cli.options import Arguments, CliOption
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client
from headnode.apps.client.local_addresses import user_state_home
from headnode.apps.client.submitter import CURRENT, EVERYTHING, below, current_directory, variables_for_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


ENV_ALL = CliOption(
    "envall", "", "Pass the variables of your shell to the task, without those of the session; false: none"
)


def apply_shell(task: "dict[str, Any]", args: Arguments, client: Client) -> None:
    """Complete the terms of a task by what it takes from this shell, as the cluster wants it.

    Raises:  BadRequest ``usage`` when this directory cannot be the work directory of a task.
    """
    defaults, directory = client.ask("submission_defaults"), args.text("workdir") or ""
    if directory.startswith(("/", "%", "$")):
        pass  # the node knows where that is
    elif directory == "~" or directory.startswith("~/"):
        task["workdir"] = (
            directory[2:].lstrip("/") or "."
        )  # what is relative there is below the home directory
    elif args.hpc_pack:
        pass  # there the home directory is the default, and what is relative is below it
    elif defaults["work_directory"] == CURRENT and client.shares_directories:
        task["workdir"] = below(current_directory(), directory, swept="parametric" in task)
    for name in ("stdin", "stdout", "stderr"):
        if task.get(name, "").startswith("~/"):  # no shell replaces it behind a colon or an equals sign
            task[name] = f"$HOME{task[name][1:]}"
    variables = _variables(args, defaults["environment"])
    if variables:
        task["env"] = {**variables, **task.get("env", {})}


def note_directory(task: "dict[str, Any]", args: Arguments, out: Output) -> None:
    """Tell people where a task runs, if they did not say it and it is not where they would look first.

    Scripts of HPC Pack hear its sentences and nothing beside them.
    """
    if "workdir" in args.options or not out.for_people or args.hpc_pack:
        return
    home, current = os.path.expanduser("~"), current_directory()
    if current != home:
        out.note(f"it runs in {current if 'workdir' in task else 'your home directory'}")


def note_missing_program(program: str, task: "dict[str, Any]", args: Arguments, out: Output) -> None:
    """Tell people that what looks like the name of a script is no file here: the node may have it."""
    named = ("." in program or "/" in program) and not program.startswith("/")
    if not named or any(mark in program for mark in " \t\n;|&$%*~{"):
        return
    runs_here = "workdir" in task and "workdir" not in args.options
    if not runs_here or not out.for_people or args.hpc_pack:
        return
    import shutil

    if not os.path.lexists(program) and shutil.which(program) is None:
        out.note(f"there is no file {program!r} here; the job runs a program of that name on its node")


def _variables(args: Arguments, wanted: str) -> "dict[str, str]":
    """Return the variables of this shell that the user asks for, or else the cluster."""
    if "envall" in args.options:
        wanted = EVERYTHING if args.flag("envall") else ""
    return variables_for_tasks(wanted)


def remember(job: int, environ: "Mapping[str, str]" = os.environ, shell: int | None = None) -> None:
    """Keep `job` as the last one of the shell that called us.  Does nothing where CCP_NO_JOB_ID is set."""
    if environ.get("CCP_NO_JOB_ID"):
        return
    name = _name(_shell() if shell is None else shell)
    try:
        folder = make_own_directory(_folder(environ))
        try:
            _write(folder, name, str(job))
        finally:
            os.close(folder)
    except OSError:
        return  # the job is made; a full or read-only disk must not make it look as if it were not


def _write(folder: int, name: str, job: str) -> None:
    try:
        file = open_below(folder, name, os.O_WRONLY | os.O_TRUNC)
    except FileNotFoundError:
        _forget_ended_shells(folder)
        file = open_below(folder, name, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(job)


def recall(environ: "Mapping[str, str]" = os.environ, shell: int | None = None) -> int:
    """Return the last job of the shell that called us.

    Raises:  BadRequest ``usage`` when there is none.
    """
    text = _remembered(environ, shell) or environ.get("CCP_PREVIOUS_JOB_ID", "")
    if environ.get("CCP_NO_JOB_ID") or not (text.isascii() and text.isdigit()):
        from headnode.apps.cli.options import usage

        raise usage(
            "'!!' is the last job of this shell, and this shell has made none", "write the id of the job"
        )
    return int(text)


def _remembered(environ: "Mapping[str, str]", shell: int | None) -> str:
    name = _name(_shell() if shell is None else shell)
    try:
        folder = open_own_directory(_folder(environ))
        try:
            with os.fdopen(open_below(folder, name), encoding="utf-8") as file:
                return file.read(20)
        finally:
            os.close(folder)
    except OSError:
        return ""


def _folder(environ: "Mapping[str, str]") -> str:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    home = os.path.join(runtime if os.path.isabs(runtime) else user_state_home(environ), "headnode")
    return os.path.join(home, "last-job")


_STAND_BETWEEN = frozenset((b"timeout", b"time", b"sudo", b"doas", b"strace", b"ltrace", b"setsid"))
"""Programs that a shell puts before others, and that stay their parent."""
_MAX_BETWEEN = 8


def _shell() -> int:
    """Return the process that called us, or the one that had a program such as timeout call us."""
    shell = os.getppid()
    for _ in range(_MAX_BETWEEN):
        program, parent, _ = _status(shell)
        if program not in _STAND_BETWEEN or parent <= 1:
            break
        shell = parent
    return shell


def _name(shell: int) -> str:
    """Return a file name for a shell; its start time tells it from a later process of the same number."""
    return f"{shell}-{_status(shell)[2]}"


def _status(process: int) -> tuple[bytes, int, str]:
    """Return the name of a process, its parent, and when it started; nothing of one that has ended.

    Source:  proc_pid_stat(5).
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            before, _, after = file.read().rpartition(b")")
    except OSError:
        return b"", 0, "0"
    fields = after.split()
    return before.partition(b"(")[2], int(fields[1]), fields[19].decode()


def _forget_ended_shells(folder: int) -> None:
    for name in os.listdir(folder):
        if not os.path.exists(f"/proc/{name.partition('-')[0]}"):
            os.unlink(name, dir_fd=folder)
