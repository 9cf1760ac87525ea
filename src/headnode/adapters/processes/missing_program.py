"""Why a program cannot be started, and what to do, as a sentence for the owner of its job.

Standard library only: this is loaded by the shepherd factory."""

import errno
import os

_FIRST_LINE = 256  # bytes of a script that the kernel reads as its first line


def beside(name: str, directory: str) -> str:
    """Return what to do if a command lies in the work directory, which shells do not search either."""
    path = f"{directory}/{name}"
    if not os.path.isfile(path):  # noqa: PTH113 - a Path may not be looked into here
        return ""
    first = "" if os.access(path, os.X_OK) else f"type chmod +x {path} and "
    return f"{first}write ./{name} for the one in {directory!r}, or "


def why_not(path: str, error: OSError, directory: str, node: str) -> str:
    """Return why the program at `path` was not started from `directory`; `node` is " on node n1"."""
    if error.errno == errno.ENOENT:
        if os.path.exists(path):  # noqa: PTH110
            return _no_interpreter(path)
        where = "" if path.startswith("/") else f" in {directory!r}"
        fix = "correct the command line" if where else "correct the command line or install it"
        return f"there is no program {path!r}{where}{node}; {fix}"
    if error.errno == errno.EACCES:
        if os.path.isdir(path):  # noqa: PTH112
            return f"{path!r} is a directory, not a program; correct the command line"
        return f"{path!r} is not executable for the owner of the job; make it so with chmod +x {path}"
    if error.errno == errno.E2BIG:
        return f"the command line and the environment of {path!r} are too long; shorten them"
    return f"{path!r} cannot be started: {reason(error)}; correct the command line"


def _no_interpreter(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            first = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        first = b""  # users may run what they cannot read
    if first.startswith(b"#!") and first.endswith(b"\r"):
        return f"the lines of {path!r} end as in Windows; convert it: dos2unix {path}"
    named = f" {first[2:].decode(errors='replace').strip()!r}" if first.startswith(b"#!") else ""
    return f"the interpreter{named} of the first line of {path!r} is not on this node; correct the line"


def reason(error: OSError) -> str:
    """Return the words of the system for an error."""
    return os.strerror(error.errno or 0).lower()
