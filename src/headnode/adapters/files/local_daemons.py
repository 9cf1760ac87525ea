"""The heads on this machine by the name of their cluster, and the lock of the one agent of a directory."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.files.opening import make_own_directory, open_below

SYSTEM_PLACE = Path("/run/headnode/heads")
SOCKET = "head.sock"
LONGEST = 4096  # bytes of a file that is read
MOST = 1000  # files of a directory that are read


class LocalHead(NamedTuple):
    """A head of this machine."""

    cluster: str
    state: str


def own_place(environ: Mapping[str, str]) -> Path:
    """Return where the heads of this user are listed."""
    home = environ.get("XDG_STATE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path("~/.local/state").expanduser()
    return base / "headnode-heads"


@contextlib.contextmanager
def announced(environ: Mapping[str, str], cluster: str, state: Path) -> Iterator[None]:
    """List a head while it runs; root's heads are listed for every user of the machine."""
    name = str(os.getpid())
    opened: list[int] = []
    for place in (own_place(environ), *([SYSTEM_PLACE] if os.geteuid() == 0 else [])):
        with contextlib.suppress(OSError):  # a head without a list runs as well
            opened.append(make_own_directory(str(place), 0o755))
            _announce(opened[-1], name, f"{cluster}\n{state.absolute()}\n")
    try:
        yield
    finally:
        for directory in opened:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)
            os.close(directory)


def _announce(directory: int, name: str, text: str) -> None:
    _forget_ended(directory)
    with os.fdopen(open_below(directory, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o644)


def local_heads(environ: Mapping[str, str]) -> list[LocalHead]:
    """Return the heads that this user may mean, his own first, each once."""
    found = [head for place in (own_place(environ), SYSTEM_PLACE) for head in _listed(place)]
    return list(dict.fromkeys(found))


def _listed(place: Path) -> Iterator[LocalHead]:
    try:
        names = sorted(os.listdir(place))[:MOST]  # noqa: PTH208 (names are enough)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError, ValueError):
            head = _read(place / name)
            if (Path(head.state) / SOCKET).exists():
                yield head


def _read(path: Path) -> LocalHead:
    """Return what a file says.

    Raises:  OSError; ValueError when it is another user's, or says nothing.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_uid not in (0, os.geteuid()):
            raise ValueError(f"{path} belongs to another user")
        cluster, state = os.read(file, LONGEST).decode().splitlines()
    finally:
        os.close(file)
    return LocalHead(cluster, state)


def _forget_ended(directory: int) -> None:
    for name in os.listdir(directory)[:MOST]:
        if name.isdigit() and not Path("/proc", name).exists():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)


AGENT_LOCK = "agent.lock"


def take_agent_lock(directory: Path) -> int | None:
    """Lock an agent's directory for as long as this process lives; None when another has it."""
    descriptor = os.open(directory / AGENT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def agent_lock_holder(directory: Path) -> int | None:
    """Return the process id of the agent that lives in the directory; None when there is none.

    Raises:  PermissionError when it is another user's.
    """
    if not (directory / AGENT_LOCK).exists() or not is_agent_locked(directory):
        return None
    text = (directory / AGENT_LOCK).read_text()
    return int(text) if text.strip().isdigit() else None


def is_agent_locked(directory: Path) -> bool:
    """Whether an agent lives in the directory."""
    descriptor = take_agent_lock(directory)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
