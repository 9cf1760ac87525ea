"""Remembers the last job each shell made, so that ``!!`` can stand for it.

Source:  HPC Pack ``job`` command: ``!!``, CCP_PREVIOUS_JOB_ID, CCP_NO_JOB_ID.
"""
# ruff: noqa: PTH103, PTH108, PTH110, PTH117, PTH118, PTH123, PTH208 (pathlib costs 6 ms of every submit)

import os

from headnode.apps.client.where import user_state_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def remember(job: int, environ: "Mapping[str, str]" = os.environ, shell: int | None = None) -> None:
    """Keep `job` as the last one of the shell that called us.  Does nothing where CCP_NO_JOB_ID is set."""
    if environ.get("CCP_NO_JOB_ID"):
        return
    folder = _folder(environ)
    path = os.path.join(folder, _name(os.getppid() if shell is None else shell))
    try:
        if not os.path.exists(path):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _forget_ended_shells(folder)
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(job))
    except OSError:
        return  # the job is made; a full or read-only disk must not make it look as if it were not


def recall(environ: "Mapping[str, str]" = os.environ, shell: int | None = None) -> int:
    """Return the last job of the shell that called us.

    Raises:  BadRequest ``usage`` when there is none.
    """
    text = _kept(environ, shell) or environ.get("CCP_PREVIOUS_JOB_ID", "")
    if environ.get("CCP_NO_JOB_ID") or not (text.isascii() and text.isdigit()):
        from headnode.apps.cli.options import usage

        raise usage("this shell has made no job that '!!' could stand for", "write the job's id")
    return int(text)


def _kept(environ: "Mapping[str, str]", shell: int | None) -> str:
    path = os.path.join(_folder(environ), _name(os.getppid() if shell is None else shell))
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(20)
    except OSError:
        return ""


def _folder(environ: "Mapping[str, str]") -> str:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    home = os.path.join(runtime if os.path.isabs(runtime) else user_state_home(environ), "headnode")
    return os.path.join(home, "last-job")


def _name(shell: int) -> str:
    """Return a file name for a shell; its start time tells it from a later process of the same number."""
    try:
        with open(f"/proc/{shell}/stat", "rb") as file:
            started = file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        started = "0"
    return f"{shell}-{started}"


def _forget_ended_shells(folder: str) -> None:
    for name in os.listdir(folder):
        if not os.path.exists(f"/proc/{name.partition('-')[0]}"):
            os.unlink(os.path.join(folder, name))
