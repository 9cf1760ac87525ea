"""What a task means on Windows only: paths, variables, and how cmd.exe joins commands."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

PATHS: Mapping[str, str] = {
    "work_directory": "work directory",
    "standard_input": "standard input",
    "standard_output": "standard output",
    "standard_error": "standard error",
}
"""Fields that hold paths, and what they are called."""

_ABSOLUTE = re.compile(r"(?:\A|/)\\\\[A-Za-z0-9_.$-]{2,}\\|\A[A-Za-z]:[\\/]|/[A-Za-z]:\\")
"""``\\\\server\\share``, ``C:\\`` and ``C:/``; also below the directory where a submitter stands."""
_IN_COMMAND = re.compile(
    r"(?:^|[\s\"'=,;])((?:\\\\[A-Za-z0-9_.$-]{2,}\\|[A-Za-z]:\\[A-Za-z0-9_.]{2})[^\s\"']*)"
)
_RELATIVE = re.compile(r"\s*\"?([A-Za-z0-9_.%-]+\\[A-Za-z0-9_.][^\s\"']*)")  # the program bin\prog
_JOINED = re.compile(r"(?<!&)&(?!&)")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|[0-9]?>&[0-9-]|&>")
_VARIABLE = re.compile(r"%([A-Za-z_][A-Za-z0-9_().]*)%")
_CMD = re.compile(r"\s*\"?(cmd|cmd\.exe|powershell|powershell\.exe)\"?(?:\s|\Z)", re.IGNORECASE)
_SHELL_QUOTING = re.compile(r"'|\$[({A-Za-z_]|`|\\[\s\"'$]")
_WINDOWS_VARIABLES = frozenset(
    """
    ALLUSERSPROFILE APPDATA CD COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) COMPUTERNAME COMSPEC DATE ERRORLEVEL
    HOMEDRIVE HOMEPATH LOCALAPPDATA LOGONSERVER NUMBER_OF_PROCESSORS OS PATHEXT PROCESSOR_ARCHITECTURE
    PROCESSOR_IDENTIFIER PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 PUBLIC RANDOM SYSTEMDRIVE
    SYSTEMROOT TEMP TIME TMP USERDOMAIN USERDNSDOMAIN WINDIR CCP_HOME CCP_DATA CCP_LOGROOT_SYS CCP_LOGROOT_USR
    """.split()  # noqa: SIM905
)
"""Variables of Windows and of HPC Pack there, which no task has here unless its job sets them."""


class WindowsFinding(msgspec.Struct, frozen=True, gc=False):
    """What means something else here; `field` is that of the task.

    `path` is the Windows path that is meant.  Its sentence is made when needed: there may be many.
    """

    field: str
    kind: Fidelity
    sentence: str = ""
    path: str = ""

    @property
    def what(self) -> str:
        """The finding as a sentence."""
        return self.sentence or _path(PATHS.get(self.field, "command line"), self.path)


def may_have_findings(task: TaskSpec) -> bool:
    """Return False for most tasks that `task_findings` has nothing to say of; it costs little."""
    command = task.command
    paths = "".join(_paths(task))
    if "\\" in paths or ":" in paths or "%" in paths or "\\" in command or "%" in command or "&" in command:
        return True
    return _may_call_cmd(command) and _CMD.match(command) is not None


def _may_call_cmd(command: str) -> bool:
    return command[:1] in 'cCpP"' or command[:1].isspace()


def _paths(task: TaskSpec) -> tuple[str, str, str, str]:
    """Return the values of the fields in `PATHS`."""
    return task.work_directory, task.standard_input, task.standard_output, task.standard_error


def paths_alone(task: TaskSpec) -> int:
    """Return how many findings a task for cmd.exe has, if all of them are paths of files; else 0.

    It costs less than the findings, where there are so many that they are only counted.
    """
    command, found = task.command, 0
    if "\\" in command or "%" in command or "&" in command or _may_call_cmd(command):
        return 0
    for text in _paths(task):
        if "%" in text:
            return 0
        if "\\" in text or (":" in text and _ABSOLUTE.search(text)):
            found += 1
    return found


def task_findings(task: TaskSpec, job_environment: Mapping[str, str], *, cmd: bool) -> list[WindowsFinding]:
    """Return what a task means on Windows only; `cmd`: its command line was written for cmd.exe."""
    paths, command = _paths(task), task.command
    match = [
        WindowsFinding(field, Fidelity.NOT_SUPPORTED, "", text)
        for field, text in zip(PATHS, paths, strict=True)
        if ("\\" in text and (cmd or _ABSOLUTE.search(text))) or (":" in text and _ABSOLUTE.search(text))
    ]
    if "\\" in command:
        path = _IN_COMMAND.search(command) or (_RELATIVE.match(command) if cmd else None)
        if path:
            match.append(WindowsFinding("command", Fidelity.NOT_SUPPORTED, path=path[path.re.groups]))
    if cmd and ("&" in command or (_may_call_cmd(command) and _CMD.match(command))):
        match += _cmd_syntax(command)
    if cmd and ("%" in command or "%" in "".join(paths)):
        match += _variables(task, job_environment)
    return match


def _cmd_syntax(command: str) -> Iterator[WindowsFinding]:
    """Yield what cmd.exe reads differently in a command line, and calls of the shells of Windows."""
    if "&" in command and _JOINED.search(_QUOTED.sub("", command)):
        what = "'&' in the command line: cmd.exe runs one command after the other, /bin/sh runs the first in "
        yield WindowsFinding(
            "command", Fidelity.APPROXIMATED, f"{what}the background; write ';' for one after the other"
        )
    if match := _CMD.match(command):
        what = f"the command line calls {match[1]!r}, a shell of Windows; write a line for /bin/sh"
        yield WindowsFinding("command", Fidelity.NOT_SUPPORTED, what)


def _variables(task: TaskSpec, job_environment: Mapping[str, str]) -> Iterator[WindowsFinding]:
    """Yield the variables of Windows that a task names and that its job does not set."""
    for field in ("command", *PATHS):
        own = {name.upper() for name in (*job_environment, *task.environment)}
        for name in dict.fromkeys(_VARIABLE.findall(getattr(task, field))):
            if name.upper() in _WINDOWS_VARIABLES - own:
                where = PATHS.get(field, "command line")
                what = f"%{name}% in the {where} is a variable of Windows: it stays as it is; "
                yield WindowsFinding(
                    field, Fidelity.NOT_SUPPORTED, f"{what}set it with the job, or write a path"
                )


def _path(called: str, text: str) -> str:
    start = text if len(text) <= 80 else f"{text[:79]}…"
    written = repr(start).replace("\\\\", "\\")  # as it was typed, but without control characters
    return (
        f"{called} {written} is a path of Windows: here no directory has that name, and a backslash is part "
        "of a name; write a path of Linux, such as /srv/share/file"
    )


def items(spec: JobSpec, *, cmd: bool = False) -> Iterator[ReportItem]:
    """Yield what the tasks of a job mean on Windows only, as findings without a place."""
    for number, task in enumerate(spec.tasks, 1):
        if not may_have_findings(task):
            continue
        for finding in task_findings(task, spec.environment, cmd=cmd):
            yield ReportItem(finding.kind, f"Task {number}", finding.what)


def shell_quoting(command: str) -> str:
    """Return what cmd.exe would read differently in a command line for /bin/sh; "" for nothing.

    >>> shell_quoting("echo 'a b'"), shell_quoting('echo "a b"')
    ("'", '')
    """
    match = _SHELL_QUOTING.search(command)
    return match[0][:1] if match else ""
