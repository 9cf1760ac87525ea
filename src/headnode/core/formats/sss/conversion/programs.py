"""What a task runs: executable, arguments and shell as a command line and back, its files and limits."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from headnode.core.formats.grid.command_lines import join, with_directory
from headnode.core.formats.sss.conversion.extensions import (
    ConversionFindings,
    TextLosses,
)
from headnode.core.formats.sss.conversion.simple_fields import SortedScope
from headnode.core.formats.sss.properties import (
    LimitKind,
    Redirect,
    SssLimit,
    SssProperty,
    SssStream,
    Unit,
)
from headnode.core.model.staging import local_path
from headnode.core.model.task import (
    SHELL,
    ResourceLimit,
    TaskSpec,
    argv_of,
    is_far,
    words_of,
)

ENV = "/usr/bin/env"
"""The program that looks for another one in PATH, as Headnode does for a command without a slash."""

MAX_SCRIPT = 100_000  # characters; a system takes 128 KB in one argument
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


class ProgramCommand(NamedTuple):
    """A command line; `lost` has what could not be written, `changed` what is written in another way."""

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


def program_of(executable: str, arguments: str, shell: str, scripts: Mapping[str, str]) -> ProgramCommand:
    """Return the command line that runs `executable`; `scripts` are the bodies of Files by their ids."""
    words, changed = arguments_in(arguments)
    if executable.startswith("#"):
        return _script(executable[1:], scripts.get(executable[1:]), words, shell)
    if is_far(executable):
        path = local_path(executable)
        if not path:
            note = changed or f"Executable {executable!r} is transferred to the node before the task starts"
            return ProgramCommand(join([executable, *words]), changed=note)
        executable, changed = path, changed or f"Executable {executable!r}: it is the file {path!r}"
    if not executable:
        lost = "Arguments or Shell without an Executable: there is no command" if words or shell else ""
        return ProgramCommand("", lost=lost)
    own = "" if shell else _own_line(executable, words)
    if own:
        return ProgramCommand(own, changed=changed)
    line = _path(with_directory(executable))
    if words:
        line = f"{line} {join(words)}"
    if shell:
        return ProgramCommand(
            f"{_path(shell)} {line}", changed=changed or "Shell: it is the first word of the command"
        )
    if "/" not in executable:
        changed = changed or f"Executable: it is in the working directory: './{executable}'"
    return ProgramCommand(line, changed=changed)


def _own_line(executable: str, argv: list[str]) -> str:
    """Return the command line that starts exactly these words, where Headnode calls the shell or PATH itself.

    That is ``/bin/sh -c TEXT`` where it would hand the text to that shell, and ``/usr/bin/env PROGRAM`` where
    it would look for the program in PATH.  "" for all else.
    """
    if executable == SHELL and len(argv) == 2 and argv[0] == "-c":
        return argv[1] if _is_for_shell(argv[1]) else ""
    if executable != ENV or not argv or "/" in argv[0] or not _PLAIN_PROGRAM.fullmatch(argv[0]):
        return ""
    line = join(argv)
    return line if argv_of(line) == tuple(argv) else ""


def _is_for_shell(text: str) -> bool:
    """Whether Headnode would start ``/bin/sh -c text`` for the command line `text`."""
    return bool(text.strip()) and argv_of(text) == (SHELL, "-c", text) and not _VARIABLE.search(text)


def _path(text: str) -> str:
    """Quote a program; a shell shall know the home directory."""
    return f"~/{join([text[2:]])}" if text.startswith("~/") and len(text) > 2 else join([text])


def _script(name: str, body: str | None, argv: list[str], shell: str) -> ProgramCommand:
    match = _SHEBANG.match(body or "")
    path, option = (match[1], match[2]) if match else (SHELL, None)
    if match and path.endswith("/env") and option:
        path, option = option, None
    path, option = (shell, None) if shell else (path, option)
    way = _TAKES_SCRIPT.get(path.rpartition("/")[2])
    if body is None or way is None or option or len(body) > MAX_SCRIPT:
        why = "there is no such File" if body is None else "scripts of this kind or length are not included"
        return ProgramCommand("", lost=f"Executable '#{name}': {why}; there is no command")
    flag, before = way
    own = [before.replace("name", name)] if before == "name" or (before and argv) else []
    changed = f"Executable '#{name}': its script stands in the command"
    return ProgramCommand(join([path, flag, body, *own, *argv]), changed=changed)


class SssProgram(NamedTuple):
    """A command line in the words of SSS; `lost` says what is not the same there."""

    executable: str
    arguments: str
    lost: str = ""
    changed: str = ""


def as_program(command: str) -> SssProgram:
    """Return Executable and Arguments of what Headnode starts for a command line.

    >>> as_program("/bin/echo 'a b'"), as_program("make all").executable, as_program("a | b").arguments
    (SssProgram(executable='/bin/echo', arguments="'a b'", lost='', changed=''), '/usr/bin/env', "-c 'a | b'")
    """
    if not command.strip():
        return SssProgram("", "", "command: it is empty" if command else "")
    match = _VARIABLE.search(command)
    if match:
        lost = f"command: {match[0]} is not replaced there"
        return SssProgram(SHELL, join(["-c", command]), lost)
    executable, arguments = _started(command)
    if program_of(executable, arguments, "", {}).command == command:
        return SssProgram(executable, arguments)
    return SssProgram(executable, arguments, changed="command: the program is written in another form")


def _started(command: str) -> tuple[str, str]:
    """Return Executable and Arguments of the process that a command line becomes."""
    words = argv_of(command)
    if command.startswith("~/") and _PLAIN_WORDS.fullmatch(command[2:]):
        first, *rest = words_of(command)
        return first, join(rest)
    strange = words[0] != words[0].strip() or local_path(words[0])
    if "/" not in words[0] or strange:
        return ENV, join(words)
    return words[0], join(words[1:])


NOWHERE = "/dev/null"
_WITHOUT_EFFECT = (Redirect.FLUSH, Redirect.KEEP)


class TaskStreams(NamedTuple):
    """The fields of a task, and the findings."""

    fields: Mapping[str, str | bool]
    translated: tuple[str, ...]
    unsaid: tuple[SssStream, ...]


def streams_of(properties: Iterable[SssProperty]) -> TaskStreams:
    """Return what the streams among `properties` become."""
    streams = {one.name: one for one in properties if isinstance(one, SssStream)}
    if not streams:
        return _NONE
    reading, writing, errors = (streams.get(name) for name in ("InputFile", "OutputFile", "ErrorFile"))
    findings: list[str] = []
    output, error = _written(writing, findings), _written(errors, findings)
    if errors and Redirect.MERGE in errors.redirects:
        findings.append("ErrorFile: Merge is the file of the output")
        error = output
    elif writing and Redirect.MERGE in writing.redirects and not writing.value:
        findings.append("OutputFile: Merge is the file of the errors")
        output = error
    fields: dict[str, str | bool] = {
        "standard_input": _input(reading, findings),
        "standard_output": output.path,
        "standard_error": error.path,
        "append_output": output.append,
        "append_error": error.append,
    }
    kept = {name: value for name, value in fields.items() if value}
    return TaskStreams(kept, tuple(findings), tuple(one for one in streams.values() if _is_unsaid(one)))


_NONE = TaskStreams({}, (), ())


class _OutputFile(NamedTuple):
    """A file that is written, and whether what it holds stays."""

    path: str
    append: bool = False


def _written(one: SssStream | None, findings: list[str]) -> _OutputFile:
    path = _stream_path(one, findings)
    return _OutputFile(path, bool(path) and one is not None and Redirect.APPEND in one.redirects)


def _is_unsaid(one: SssStream) -> bool:
    """Whether a redirection has no effect: flushing, keeping, and appending to what has no name."""
    if any(word in one.redirects for word in _WITHOUT_EFFECT):
        return True
    return Redirect.APPEND in one.redirects and (one.name == "InputFile" or not one.value)


def _input(one: SssStream | None, findings: list[str]) -> str:
    if one and Redirect.CLOSE in one.redirects:
        findings.append("InputFile: Close: nothing is read")
        return ""
    return _stream_path(one, findings)


def _stream_path(one: SssStream | None, findings: list[str]) -> str:
    if one is None:
        return ""
    if Redirect.CLOSE in one.redirects and not one.value:
        findings.append(f"{one.name}: Close is {NOWHERE}")
        return NOWHERE
    return home(str(one.value or ""))


def home(path: str) -> str:
    """Return a path as Headnode writes it: the home directory by its variable.

    >>> home("~/my job.out")
    '$HOME/my job.out'
    """
    return f"$HOME/{path[2:]}" if path.startswith("~/") else "$HOME" if path == "~" else path


KNOWN: Mapping[str, str] = {
    "CoreFileSize": "core",
    "CpuTime": "cpu",
    "DataSegSize": "data",
    "FileSize": "fsize",
    "MaxMemorySize": "rss",
    "MaxProcesses": "nproc",
    "MaxSwap": "as",
    "MaxMemLock": "memlock",
    "OpenFiles": "nofile",
    "Stacksize": "stack",
}
"""How setrlimit calls the limits of the document; the others are of no process."""

_NEAREST = {"MaxMemory": "as"}
_WORDS = {name: word for word, name in KNOWN.items()}
_COUNTED = ("MaxProcesses", "OpenFiles")
_AMOUNT = re.compile(r"([0-9]{1,18})\s*([A-Za-z]{0,2})\Z")
_CLOCK = re.compile(r"(?:([0-9]{1,6}):)?([0-9]{1,2}):([0-9]{1,2})\Z")
_MAX_LIMIT = 2**62


def limits_of(scope: SortedScope) -> tuple[ResourceLimit, ...]:
    """Return the limits that a scope has itself; of two for the same thing the lower one counts."""
    limits: dict[str, ResourceLimit] = {}
    for one in scope.structured.get(SssLimit, ()):
        if not one.value:
            continue
        name = KNOWN.get(one.called) or _NEAREST.get(one.called)
        amount = _amount(one.called, str(one.value))
        if name is None:
            scope.unsaid(one, "the system has no such limit for processes")
        elif amount is None:
            scope.unsaid(one, "not a number: the limit of the node applies")
        else:
            if one.called in _NEAREST:
                what = f"ResourceLimit {one.called}: it limits the address space of each process"
                scope.findings.approximated(what)
            limits[name] = _lower(limits.get(name, ResourceLimit(name)), one.kind, amount)
    return tuple(limits.values())


def _amount(called: str, text: str) -> int | None:
    """Return bytes, seconds or a number; None when it is none of them."""
    clock = _CLOCK.match(text) if called == "CpuTime" else None
    if clock:
        hours, minutes, seconds = (int(each or 0) for each in clock.groups())
        return hours * 3600 + minutes * 60 + seconds
    match = _AMOUNT.match(text)
    unit = match[2].upper() if match else ""
    if match is None or (unit and (unit not in Unit.__members__ or called in (*_COUNTED, "CpuTime"))):
        return None
    amount = int(match[1]) * (Unit(unit).size if unit else 1)
    return amount if amount <= _MAX_LIMIT else None


def _lower(one: ResourceLimit, kind: LimitKind | None, amount: int) -> ResourceLimit:
    soft = one.soft if kind is LimitKind.HARD else _least(one.soft, amount)
    hard = one.hard if kind is LimitKind.SOFT else _least(one.hard, amount)
    return ResourceLimit(one.name, soft, hard)


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def limits_back(limits: Iterable[ResourceLimit], findings: ConversionFindings) -> Iterator[SssLimit]:
    """Yield the limits as they are written; without a type, it is both the soft and the hard one."""
    for one in limits:
        word = _WORDS.get(one.name)
        if word is None:
            findings.lost(f"resource_limits: {one.name!r} is not available in SSS: left out")
        elif one.soft == one.hard:
            if one.hard is not None:
                yield _limit(word, None, one.hard)
        else:
            for kind, amount in ((LimitKind.SOFT, one.soft), (LimitKind.HARD, one.hard)):
                if amount is not None:
                    yield _limit(word, kind, amount)


def _limit(word: str, kind: LimitKind | None, amount: int) -> SssLimit:
    return SssLimit(name="ResourceLimit", called=word, kind=kind, value=str(amount))


SWEPT = ("command", "standard_input", "standard_output", "standard_error", "work_directory")
"""The fields of a task in which an asterisk is the swept value."""


def run_of(task: TaskSpec, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield what a task runs, where, and with which files."""
    program = as_program(task.command)
    if program.lost:
        findings.approximated(program.lost)
    if program.changed:
        findings.translated(program.changed)
    texts = TextLosses(findings)
    for field in SWEPT[1:]:
        texts.path(field, getattr(task, field))
    simple = (
        ("Executable", program.executable),
        ("Arguments", program.arguments),
        ("InitialWorkingDirectory", task.work_directory),
    )
    yield from (SssProperty(name=name, value=text) for name, text in simple if text)
    yield from _streams(task, findings)


def _streams(task: TaskSpec, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the files of a task.  Errors in the file of the output go to the same opened file."""
    if task.standard_input:
        yield SssStream(name="InputFile", value=task.standard_input)
    if task.standard_output:
        append = (Redirect.APPEND,) if task.append_output else ()
        yield SssStream(name="OutputFile", value=task.standard_output, redirects=append)
    if task.standard_output and task.standard_error == task.standard_output:
        yield SssStream(name="ErrorFile", redirects=(Redirect.MERGE,))
        if task.append_error != task.append_output:
            findings.translated("append_error: errors go to the file of the output as it is opened")
    elif task.standard_error:
        append = (Redirect.APPEND,) if task.append_error else ()
        yield SssStream(name="ErrorFile", value=task.standard_error, redirects=append)
    for field, path in (("append_output", task.standard_output), ("append_error", task.standard_error)):
        if getattr(task, field) and not path:
            findings.translated(f"{field}: there is no file to write behind")
