"""Executable, Arguments and Shell as a command line, and back.

Source: SSS 3.1.0, Table 25-2 and its note on Executable; SSSRMAP, File.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headnode.core.formats.grid.command_lines import join, with_directory
from headnode.core.model.command_lines import SHELL, argv_of, words_of

ENV = "/usr/bin/env"
"""The program that looks for another one in PATH, as Headnode does for a command without a slash."""

LONGEST_SCRIPT = 100_000  # characters; a system takes 128 KB in one argument
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%")
_PLAIN_PROGRAM = re.compile(r"[\w+.,@][\w+.,:@-]*", re.ASCII)  # neither an option nor a variable
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
    try:
        return words_of(text), ""
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
    own = "" if shell else _own_line(executable, words)
    if own:
        return Program(own)
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


def _own_line(executable: str, words: list[str]) -> str:
    """Return the command line that starts exactly these words, where Headnode calls the shell or PATH itself.

    That is ``/bin/sh -c TEXT`` where it would hand the text to that shell, and ``/usr/bin/env PROGRAM`` where
    it would look for the program in PATH.  "" for all else.
    """
    if executable == SHELL and len(words) == 2 and words[0] == "-c":
        return words[1] if _is_for_shell(words[1]) else ""
    if executable != ENV or not words or "/" in words[0] or not _PLAIN_PROGRAM.fullmatch(words[0]):
        return ""
    line = join(words)
    return line if argv_of(line) == tuple(words) else ""


def _is_for_shell(text: str) -> bool:
    """Whether Headnode would start ``/bin/sh -c text`` for the command line `text`."""
    return bool(text.strip()) and argv_of(text) == (SHELL, "-c", text) and not _VARIABLE.search(text)


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
    changed: str = ""


def spoken(command: str) -> Spoken:
    """Return Executable and Arguments of what Headnode starts for a command line.

    >>> spoken("/bin/echo 'a b'"), spoken("make all").executable, spoken("a | b").arguments
    (Spoken(executable='/bin/echo', arguments="'a b'", lost='', changed=''), '/usr/bin/env', "-c 'a | b'")
    """
    if not command.strip():
        return Spoken("", "", "command: it is empty" if command else "")
    found = _VARIABLE.search(command)
    if found:
        lost = f"command: {found[0]} is not replaced there"
        return Spoken(SHELL, join(["-c", command]), lost)
    executable, arguments = _started(command)
    if program_of(executable, arguments, "", {}).command == command:
        return Spoken(executable, arguments)
    return Spoken(executable, arguments, changed="command: what it starts is written another way")


def _started(command: str) -> tuple[str, str]:
    """Return Executable and Arguments of the process that a command line becomes."""
    words = argv_of(command)
    if command.startswith("~/") and _PLAIN_WORDS.fullmatch(command[2:]):
        first, *rest = words_of(command)
        return first, join(rest)
    strange = words[0] != words[0].strip() or _URL.match(words[0])
    if "/" not in words[0] or strange:
        return ENV, join(words)
    return words[0], join(words[1:])
