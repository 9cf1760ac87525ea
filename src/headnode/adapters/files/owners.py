"""Which users can change a file that this process runs or trusts: by the file, or a directory of its path."""

import grp
import logging
import os
import pwd
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import headnode
from headnode.core.model.errors import Unavailable

_MAX_LINKS = 40  # as the kernel has it
_MAX_INTERPRETERS = 4  # one that the first line of another names, as the kernel has it
_FIRST_LINE = 256  # bytes that the kernel reads of it
_INTERPRETERS = ("sh", "bash", "dash", "ksh", "zsh", "env", "python", "perl", "ruby", "node", "lua", "tclsh")


class Unsafe(Exception):
    """Why a file must not be used by this process, and what to do; one sentence."""


def why_not_run(argv: Sequence[str]) -> str:
    """Return why this process must not run a program with these arguments; empty if it may.

    The program is looked at, the interpreter that its first line names and, if it is itself a known
    interpreter, the script among its arguments.  Links are followed as the kernel does.
    """
    if not argv:
        return "no program is named"
    try:
        _check_program(argv, _MAX_INTERPRETERS)
    except (Unsafe, ValueError) as why:
        return str(why)
    return ""


def why_not_trusted(path: str) -> str:
    """Return why other users could change a file or a directory; empty if they cannot.

    Of a path that is not there, the part that is there is looked at.
    """
    there = path
    while not os.path.lexists(there):
        there = str(Path(there).parent)
    try:
        _check_path(there, shared=there != path)
    except (Unsafe, ValueError) as why:
        return str(why)
    return ""


def read_trusted(path: Path, most: int, *, secret: bool = False) -> bytes:
    """Return the content of a file that no other user can change; nor read, if it is `secret`.

    most:  bytes that it may have
    Raises:  Unsafe; OSError.
    """
    if why_not := why_not_trusted(str(path)):
        raise Unsafe(why_not)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe(f"{str(path)!r} is not a file")
        if secret and status.st_mode & 0o077:
            raise Unsafe(f"{str(path)!r} can be read by others than its owner; chmod 600 {path}")
        data = file.read(most + 1)
    if len(data) > most:
        raise Unsafe(f"{str(path)!r} is larger than {most} bytes")
    return data


def _check_program(argv: Sequence[str], interpreters: int) -> None:
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0])
    if program is None:
        raise Unsafe(f"there is no program {argv[0]!r}; write its absolute path")
    real = _check_path(program)
    if not stat.S_ISREG(Path(real).stat().st_mode):
        raise Unsafe(f"{program!r} is not a file; name a program")
    if not os.access(real, os.X_OK, effective_ids=True):
        raise Unsafe(f"{program!r} is not executable; make it so: chmod +x {program}")
    if interpreters == 0:
        return
    interpreter = _interpreter(real)
    if interpreter:
        _check_program(interpreter, interpreters - 1)
    script = next((word for word in argv[1:] if word.startswith("/")), "")
    if script and _is_interpreter(program) and Path(script).is_file():
        _check_path(script)


def _is_interpreter(program: str) -> bool:
    name = program.rpartition("/")[2].rstrip("0123456789.")
    return name in _INTERPRETERS


def _interpreter(path: str) -> list[str]:
    """Return the words behind ``#!`` in the first line of a program; none if there is no such line."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:  # a program that may be run and not read
        return []
    return os.fsdecode(first[2:]).split(None, 1) if first.startswith(b"#!") else []


def _check_path(path: str, *, shared: bool = False) -> str:
    """Walk to a file; return its path without links.  `shared`: it may be a sticky directory, as ``/tmp``.

    Raises:  Unsafe, for the first step that another user can change, or that is not there.
    """
    whole = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    steps = [step for step in reversed(whole.split("/")) if step not in ("", ".")]
    _check_step("/", "/")
    walked, links = "", _MAX_LINKS
    while steps:
        step = steps.pop()
        if step == "..":
            walked = walked.rpartition("/")[0]
            continue
        directory = f"{walked}/{step}"
        if not stat.S_ISLNK(_check_step(directory, path).st_mode):
            walked = directory
            continue
        links -= 1
        target = os.readlink(directory)  # noqa: PTH115
        if links < 0:
            raise Unsafe(f"{path!r} contains too many symbolic links")
        steps.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
        walked = "" if target.startswith("/") else walked
    last = Path(walked or "/").stat()
    if not shared or not last.st_mode & stat.S_ISVTX:
        _refuse_writers(walked or "/", last)
    return walked or "/"


def _check_step(directory: str, path: str) -> os.stat_result:
    """Return its content, if no other user can change it.

    Raises:  Unsafe.
    """
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        part = "" if directory == path else f", a part of the path {path!r}"
        raise Unsafe(f"{directory!r} does not exist{part}; create it, or correct the path") from None
    except OSError as error:
        missing = "" if directory == path else f" ({path!r} leads there)"
        raise Unsafe(f"{directory!r} cannot be checked: {(error.strerror or '').lower()}{missing}") from None
    what = "directory" if stat.S_ISDIR(status.st_mode) else "file"
    if status.st_uid not in (0, os.geteuid()):
        raise Unsafe(
            f"{what} {directory!r} belongs to user {_name(status.st_uid)}, who could change what "
            f"{_name(os.geteuid())} runs or reads; chown {_name(os.geteuid())} {directory}"
        )
    if stat.S_ISLNK(status.st_mode) or (what == "directory" and status.st_mode & stat.S_ISVTX):
        return status  # nobody can rename or remove what is another's in a sticky directory
    _refuse_writers(directory, status)
    return status


def _refuse_writers(directory: str, status: os.stat_result) -> None:
    """Raise Unsafe if the mode of a file or directory lets others write."""
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid)):
        writers = "everybody" if status.st_mode & stat.S_IWOTH else f"group {_group(status.st_gid)}"
        raise Unsafe(f"{directory!r} can be changed by {writers}; chmod go-w {directory}")


def _is_own_group(number: int) -> bool:
    """Whether a group is the private one of this user, without other members; never for root."""
    if os.geteuid() == 0:
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_gid == user.pw_gid and group.gr_name == user.pw_name and not group.gr_mem


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


FILE_MODE_MASK = 0o022  # of the head and the agents, whoever starts them: group and others write nothing


def refuse_unsafe_state(state: Path) -> None:
    """Refuse, as root, a state directory that another user can change or replace.

    Raises:  Unavailable ``unsafe-state``.
    """
    if os.geteuid() != 0:
        return
    if why_not := why_not_trusted(str(state)):
        raise Unavailable(
            code="unsafe-state",
            what=f"root does not use {str(state)!r}: {why_not}",
            fix="correct that, or choose a directory that belongs to root",
        )


def warn_of_unsafe_code(log: logging.Logger) -> None:
    """Warn, as root, if another user can change the program itself."""
    if os.geteuid() == 0 and (why_not := why_not_trusted(str(Path(headnode.__file__).parent))):
        log.warning("Headnode runs as root, and others can change its code: %s", why_not)
