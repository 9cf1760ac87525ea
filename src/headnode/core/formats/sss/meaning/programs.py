"""Executable, Arguments and Shell as a command line, and back.

Source: SSS 3.1.0, Table 25-2 and its note on Executable; SSSRMAP, File.
"""

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from headnode.core.formats.grid.command_lines import SHELL, join, with_directory

LONGEST_SCRIPT = 100_000  # characters; a system takes 128 KB in one argument
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%")
_SHEBANG = re.compile(r"#!\s*(\S+)(?:[ \t]+(\S+))?")

_PLAIN_WORDS = re.compile(r"[\w@%+=:,./ \t-]*", re.ASCII)  # without a sign that a shell knows
_TAKES_SCRIPT = {
    **dict.fromkeys(("sh", "bash", "dash", "ksh", "zsh"), ("-c", "name")),
    **dict.fromkeys(("python", "python3"), ("-c", "")),
    **dict.fromkeys(("perl", "ruby"), ("-e", "--")),
}
"""How interpreters take a script as an argument, and what stands before the script's own arguments."""


class Program(NamedTuple):
    """A command line; `lost` says what could not be said, `changed` what is said another way."""

    command: str
    lost: str = ""
    changed: str = ""


def arguments_in(text: str) -> tuple[list[str], str]:
    """Return the words of Arguments, with quotes as a shell has them; a quote alone is a sign like others.

    >>> arguments_in("-i 'a b'"), arguments_in("it's")[0]
    ((['-i', 'a b'], ''), ["it's"])
    """
    if not text or _PLAIN_WORDS.fullmatch(text):
        return text.split(), ""
    try:
        return shlex.split(text), ""
    except ValueError:
        return text.split(), "Arguments: a quote is not closed; they are taken apart at blanks"


def program_of(executable: str, arguments: str, shell: str, scripts: Mapping[str, str]) -> Program:
    """Return the command line that runs `executable`; `scripts` are the bodies of Files by their ids."""
    words, changed = arguments_in(arguments)
    if executable.startswith("#"):
        return _script(executable[1:], scripts.get(executable[1:]), words, shell)
    if _URL.match(executable):
        return Program("", lost=f"Executable {executable!r} would have to be fetched: there is no command")
    if not executable:
        lost = "Arguments or Shell without an Executable: there is no command" if words or shell else ""
        return Program("", lost=lost)
    if not shell and (executable, words[:1], len(words)) == (SHELL, ["-c"], 2) and _is_for_shell(words[1]):
        return Program(words[1])
    line = _path(with_directory(executable))
    if words:
        line = f"{line} {join(words)}"
    if shell:
        return Program(
            f"{_path(shell)} {line}", changed=changed or "Shell: it is the first word of the command"
        )
    if "/" not in executable:
        changed = changed or f"Executable: it is in the working directory: './{executable}'"
    return Program(line, changed=changed)


def _is_for_shell(text: str) -> bool:
    """Whether `text` was a command line of ours, and means here what a shell makes of it."""
    return bool(text.strip()) and _plain_words(text) is None and not _VARIABLE.search(text)


def _path(text: str) -> str:
    """Quote a program; a shell shall know the home directory."""
    return f"~/{join([text[2:]])}" if text.startswith("~/") and len(text) > 2 else join([text])


def _script(name: str, body: str | None, words: list[str], shell: str) -> Program:
    found = _SHEBANG.match(body or "")
    path, option = (found[1], found[2]) if found else (SHELL, None)
    if found and path.endswith("/env") and option:
        path, option = option, None
    path, option = (shell, None) if shell else (path, option)
    way = _TAKES_SCRIPT.get(path.rpartition("/")[2])
    if body is None or way is None or option or len(body) > LONGEST_SCRIPT:
        why = (
            "there is no such File" if body is None else "scripts of that kind or length are not taken along"
        )
        return Program("", lost=f"Executable '#{name}': {why}; there is no command")
    flag, before = way
    own = [before.replace("name", name)] if before == "name" or (before and words) else []
    changed = f"Executable '#{name}': its script stands in the command"
    return Program(join([path, flag, body, *own, *words]), changed=changed)


class Spoken(NamedTuple):
    """A command line in the words of SSS; `lost` says what is not the same there."""

    executable: str
    arguments: str
    lost: str = ""


def spoken(command: str) -> Spoken:
    """Return Executable and Arguments; what only a shell understands is handed to one.

    >>> spoken("/bin/echo 'a b'")
    Spoken(executable='/bin/echo', arguments="'a b'", lost='')
    """
    if not command.strip():
        return Spoken("", "", "command: it is empty" if command else "")
    words = _plain_words(command)
    if words is not None:
        return Spoken(words[0], join(words[1:]))
    if command.startswith("~/"):
        words = _plain_words(f"./{command[2:]}")
        if words is not None:
            return Spoken(f"~/{words[0][2:]}", join(words[1:]))
    found = _VARIABLE.search(command)
    lost = f"command: {found[0]} is not replaced there" if found else ""
    return Spoken(SHELL, join(["-c", command]), lost)


def _plain_words(command: str) -> list[str] | None:
    """Return the words of a line that `join` could have written, and SSS can say; None of any other."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not words or join(words) != command or "/" not in words[0] or words[0] != words[0].strip():
        return None
    strange = words[0].startswith(("#", "~/")) or _URL.match(words[0]) or words[:2] == [SHELL, "-c"]
    return None if strange else words
