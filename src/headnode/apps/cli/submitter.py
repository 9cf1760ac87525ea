"""What a task from the command line takes from the shell it is typed in: the work directory and variables.

Job files do not pass here: they keep the meaning of their language.
Source:  sbatch(1), ``--chdir`` and ``--export``; qsub(1) of PBS, ``-d`` and ``-V``.
"""
# ruff: noqa: PTH109, PTH111, PTH117, PTH118 (pathlib costs 6 ms of every submit)

import os

from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

ENV_ALL = Option(
    "envall", "", "Pass the variables of your shell to the task, without those of the session; false: none"
)
CURRENT = "Current"  # DefaultWorkDirectory: the directory where the submitter stands
EVERYTHING = "all"  # SubmitterEnvironment: all variables of the submitter

_NOT_PASSED = frozenset(
    """HOME USER LOGNAME SHELL MAIL PWD OLDPWD SHLVL _ PS1 PS2 PS4 PROMPT_COMMAND TERM COLORTERM COLUMNS
    LINES DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS WINDOWID TMUX TMUX_PANE STY GPG_TTY
    GPG_AGENT_INFO INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_PID LISTEN_FDS LISTEN_FDNAMES
    MANAGERPID SYSTEMD_EXEC_PID LD_PRELOAD LD_AUDIT LD_DEBUG PBS_NODEFILE""".split()  # noqa: SIM905
)
_NOT_PASSED_PREFIXES = (
    "CCP_", "HEADNODE_", "SSH_", "SUDO_", "LESS_TERMCAP_", "XDG_", "VTE_", "TERM_", "HYDRA_",
    "I_MPI_HYDRA_", "PMI_", "PMIX_", "PRTE_", "OMPI_", "SLURM_",
)  # fmt: skip
"""Variables of the login, of the terminal, of the loader and of the job that the shell itself runs in."""


def passed_on(mine: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables that ``--env-all`` passes to a task: without those of the session.

    >>> passed_on({"HOME": "/home/ann", "SSH_AUTH_SOCK": "/tmp/a", "VIRTUAL_ENV": "/v", "EMPTY": ""})
    {'VIRTUAL_ENV': '/v'}
    """
    return {
        name: value
        for name, value in mine.items()
        if value and name not in _NOT_PASSED and not name.startswith(_NOT_PASSED_PREFIXES)
    }


def take_over(task: "dict[str, Any]", asked: "Asked", client: "Client") -> None:
    """Complete the terms of a task by what it takes from this shell, as the cluster wants it.

    Raises:  BadRequest ``usage`` when this directory cannot be the work directory of a task.
    """
    defaults, given = client.ask("defaults"), asked.text("workdir") or ""
    if given.startswith(("/", "%", "$")):
        pass  # the node knows where that is
    elif given == "~" or given.startswith("~/"):
        task["workdir"] = given[2:].lstrip("/") or "."  # what is relative there is below the home directory
    elif asked.hpc_pack:
        pass  # there the home directory is the default, and what is relative is below it
    elif defaults["work_directory"] == CURRENT and client.shares_directories:
        task["workdir"] = below(current_directory(), given, swept="parametric" in task)
    variables = _variables(asked, defaults["environment"])
    if variables:
        task["env"] = {**variables, **task.get("env", {})}


def tell_directory(task: "dict[str, Any]", asked: "Asked", out: "Output") -> None:
    """Tell people where a task runs, if they did not say it and it is not where they would look first.

    Scripts of HPC Pack hear its sentences and nothing beside them.
    """
    if "workdir" in asked.options or not out.for_people or asked.hpc_pack:
        return
    home, here = os.path.expanduser("~"), current_directory()
    if here != home:
        out.note(f"it runs in {here if 'workdir' in task else 'your home directory'}")


def below(here: str, given: str, *, swept: bool) -> str:
    """Return the work directory of a task that is `given` relative to the directory `here`.

    Raises:  BadRequest ``usage`` when the node would read the name of `here` as something else.

    >>> below("/data/a*b", "", swept=True), below("/data/a*b", "run1", swept=False)
    ('/data/a^*b', '/data/a*b/run1')
    """
    if "$" in here or "%" in here:
        _refuse_variables(here)
    escaped = here.replace("^", "^^").replace("*", "^*") if swept else here
    return os.path.join(escaped, given) if given else escaped


def _refuse_variables(here: str) -> None:
    from headnode.core.launching.expansion import names_a_variable

    if names_a_variable(here):
        raise usage(
            f"the directory {here!r} has a name that stands for a variable in a work directory",
            "change to another directory, or name one: --workdir DIRECTORY",
        )


def current_directory() -> str:
    """Return the directory of this process by the name that its shell has for it.

    Raises:  BadRequest ``usage`` when it has no name any more, or one that is not UTF-8.
    """
    try:
        here = os.getcwd()
        named = os.environ.get("PWD", "")
        if named != here and os.path.isabs(named) and _is_here(named):
            here = named
        here.encode()
    except OSError:
        what = "the directory you stand in was removed"
    except UnicodeEncodeError:
        what = f"the name of the directory {here!a} is not UTF-8"
    else:
        return here
    raise usage(what, "change to another directory, or name one: --workdir DIRECTORY")


def _is_here(path: str) -> bool:
    """Whether a path without dots in it leads to the directory of this process."""
    if {".", ".."} & set(path.split("/")):
        return False
    try:
        return os.path.samestat(os.stat(path), os.stat("."))  # noqa: PTH116
    except OSError:
        return False


def _variables(asked: "Asked", wanted: str) -> "dict[str, str]":
    """Return the variables of this shell that the user asks for, or else the cluster."""
    if "envall" in asked.options:
        return passed_on(_mine()) if asked.flag("envall") else {}
    if wanted.lower() == EVERYTHING:
        return passed_on(_mine())
    mine, names = _mine(), [name.strip() for name in wanted.split(",")]
    return {name: mine[name] for name in names if name in mine}


def _mine() -> "dict[str, str]":
    """Return the variables of this process that a job can have."""
    return {
        name: value for name, value in os.environ.items() if name == name.strip() and _is_text(name + value)
    }


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
