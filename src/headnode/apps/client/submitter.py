"""What a submitted task takes from the process that submits it: its command, work directory and variables."""

# ruff: noqa: PTH109, PTH116, PTH117, PTH118 (pathlib costs 6 ms of every submit)

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_^")


def command_line(argv: "Sequence[str]") -> str:
    """Return the words of a program as one command line.

    A single word is a command line already, as in ``hn job submit "echo a b"``; several are quoted where
    they need it, so that the program gets them as they were typed and no shell on the way changes them.

    >>> command_line(["echo", "a b", "*"]), command_line(["echo a b"])
    ("echo 'a b' '*'", 'echo a b')
    """
    return argv[0] if len(argv) == 1 else quoted_line(argv)


def quoted_line(argv: "Sequence[str]") -> str:
    """Return a program and its arguments as one command line that gives them to it as they are."""
    return " ".join(map(_quoted, argv))


def _quoted(word: str) -> str:
    if word and set(word) <= _PLAIN:
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


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


def passed_variables(mine: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables that ``--env-all`` passes to a task: without those of the session.

    >>> passed_variables({"HOME": "/home/ann", "SSH_AUTH_SOCK": "/tmp/a", "VIRTUAL_ENV": "/v", "EMPTY": ""})
    {'VIRTUAL_ENV': '/v'}
    """
    return {
        name: value
        for name, value in mine.items()
        if value and name not in _NOT_PASSED and not name.startswith(_NOT_PASSED_PREFIXES)
    }


def below(directory: str, path: str, *, swept: bool) -> str:
    """Return the work directory of a task that is `path` relative to `directory`.

    Raises:  BadRequest ``usage`` when the node would read the name of `directory` as something else.

    >>> below("/data/a*b", "", swept=True), below("/data/a*b", "run1", swept=False)
    ('/data/a^*b', '/data/a*b/run1')
    """
    if "$" in directory or "%" in directory:
        _refuse_variables(directory)
    escaped = directory.replace("^", "^^").replace("*", "^*") if swept else directory
    return os.path.join(escaped, path) if path else escaped


def _refuse_variables(directory: str) -> None:
    from headnode.core.model.variable_names import names_a_variable

    if names_a_variable(directory):
        raise _usage(
            f"the directory {directory!r} has a name that is read as a variable in a work directory",
            "change to another directory, or name one: --workdir DIRECTORY",
        )


def current_directory() -> str:
    """Return the directory of this process by the name that its shell has for it.

    Raises:  BadRequest ``usage`` when it has no name any more, or one that is not UTF-8.
    """
    try:
        directory = os.getcwd()
        named = os.environ.get("PWD", "")
        if named != directory and os.path.isabs(named) and _is_here(named):
            directory = named
        directory.encode()
    except OSError:
        what = "your current directory was removed"
    except UnicodeEncodeError:
        what = f"the name of the directory {directory!a} is not UTF-8"
    else:
        return directory
    raise _usage(what, "change to another directory, or name one: --workdir DIRECTORY")


def _is_here(path: str) -> bool:
    """Whether a path without dots in it leads to the directory of this process."""
    if {".", ".."} & set(path.split("/")):
        return False
    try:
        return os.path.samestat(os.stat(path), os.stat("."))
    except OSError:
        return False


def _of_this_user() -> "dict[str, str]":
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


def variables_for_tasks(wanted: str) -> "dict[str, str]":
    """Return the variables of this process that the cluster passes to tasks: SubmitterEnvironment.

    `wanted`: names between commas, `all`, or "".
    """
    mine = _of_this_user()
    if wanted.lower() == EVERYTHING:
        return passed_variables(mine)
    return {name: mine[name] for name in map(str.strip, wanted.split(",")) if name in mine}


def _usage(what: str, fix: str) -> Exception:
    from headnode.core.model.errors import BadRequest

    return BadRequest(code="usage", what=what, fix=fix)
