"""What heads and agents of this machine leave in files: where heads run, locks, the options of a start."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.files.opening import make_own_directory, open_below
from headnode.core.model.errors import BadRequest

SYSTEM_PLACE = Path("/run/headnode/heads")
SOCKET = "head.sock"
STANDBY = "standby.json"  # only in the state directory of a standby head
REPLACED = "replaced.json"  # only where a standby took over from the head
MAX_FILE = 4096  # bytes of a file that is read
MAX_FILES = 1000  # files of a directory that are read


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
    """Return the heads that this user may mean, each once; the user's own first."""
    heads = [head for place in (own_place(environ), SYSTEM_PLACE) for head in _listed(place)]
    return list(dict.fromkeys(heads))


def _listed(place: Path) -> Iterator[LocalHead]:
    try:
        names = sorted(os.listdir(place))[:MAX_FILES]  # noqa: PTH208 (names are enough)
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
        cluster, state = os.read(file, MAX_FILE).decode().splitlines()
    finally:
        os.close(file)
    return LocalHead(cluster, state)


def _forget_ended(directory: int) -> None:
    for name in os.listdir(directory)[:MAX_FILES]:
        if name.isdigit() and not Path("/proc", name).exists():
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)


AGENT_LOCK = "agent.lock"
MEMBERSHIP = "identity/membership.json"


def take_agent_lock(directory: Path) -> int | None:
    """Lock an agent's directory for as long as this process lives; None when another has it."""
    return take_lock(directory / AGENT_LOCK)


def take_lock(file: Path) -> int | None:
    """Lock a file for as long as this process lives; None when another has it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    return last_agent(directory)


def last_agent(directory: Path) -> int | None:
    """Return the process that locked the directory last; None for none.

    The lock is not tried, so an agent that begins meanwhile gets it.
    """
    try:
        text = (directory / AGENT_LOCK).read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.strip().isdigit() else None


def has_joined(directory: Path) -> bool:
    """Whether an agent's directory says to which cluster its node belongs."""
    return (directory / MEMBERSHIP).exists()


def is_agent_locked(directory: Path) -> bool:
    """Whether an agent lives in the directory."""
    descriptor = take_agent_lock(directory)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


_AGENT_SETTINGS = "settings.json"


def agent_settings(directory: Path, requested: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings of an agent: each as given now, else as at its last start; "" ends that.

    An agent that is started again without a word, as at boot, must not turn its node into another one.
    Raises:  OSError when they cannot be remembered; BadRequest ``agent-settings`` if the file was changed.
    """
    import msgspec  # a head does without

    file = directory / _AGENT_SETTINGS
    try:
        before = msgspec.json.decode(file.read_bytes(), type=dict[str, str]) if file.exists() else {}
    except msgspec.MsgspecError:
        raise BadRequest(
            code="agent-settings",
            what=f"the file {str(file)!r} does not have the settings of the agent",
            fix="remove it, and give them again: hn agent --processors N",
        ) from None
    new = {name: value for name, value in requested.items() if value is not None}
    settings = {name: value for name, value in (before | new).items() if value and name in requested}
    if settings != before:
        written = file.with_suffix(".new")
        written.write_bytes(msgspec.json.encode(settings))
        written.replace(file)
    return settings


_NODES_HERE = "nodes-here"


def cluster_name(state: Path, requested: str) -> str:
    """Return the name of the cluster: as given now, else as at its last start, else the name of the machine.

    Raises:  OSError when the request cannot be remembered.
    """
    remembered = state / "name"
    if requested:
        remembered.write_text(requested + "\n", encoding="utf-8")
    name = remembered.read_text(encoding="utf-8").strip() if remembered.exists() else ""
    return name or socket.gethostname()


def nodes_here(state: Path, nodes: int | None, processors: int | None) -> tuple[int, int | None]:
    """Return how many nodes run on this machine, and the processors of each; None: all that it has.

    They are those of this request, else of the last one: a head that is started again without a word must
    find the nodes on which its tasks run.  A request for one of the two does not get the other of last time.
    Raises:  OSError when the request cannot be remembered; BadRequest ``nodes-here`` if it was changed.
    """
    if nodes is not None or processors is not None:
        values = [1 if nodes is None else nodes, *([] if processors is None else [processors])]
        (state / _NODES_HERE).write_text(" ".join(map(str, values)) + "\n", encoding="ascii")
    return nodes_as_before(state)


def nodes_as_before(state: Path) -> tuple[int, int | None]:
    """Return the number of nodes on this machine, and of processors on each, if no option gives them.

    Raises:  BadRequest ``nodes-here``; OSError.
    """
    remembered = state / _NODES_HERE
    if not remembered.exists():
        return 1, None
    names = remembered.read_text(encoding="ascii", errors="replace").split()
    if len(names) not in (1, 2) or not all(word.isascii() and word.isdigit() for word in names):
        raise BadRequest(
            code="nodes-here",
            what=f"the file {str(remembered)!r} does not have the number of nodes",
            fix="give it again: hn up --nodes N --processors N",
        )
    return int(names[0]), int(names[1]) if len(names) == 2 else None


def host_name() -> str:
    """Return the name of this machine without its domain, as its nodes are called."""
    return socket.gethostname().split(".")[0]


NO_LONGER = "none"
"""What ends what an earlier start of the head began: listening, a gateway."""


def address_to_listen_at(state: Path, requested: str) -> str:
    """Return where to listen: as given now, else as at its last start; empty: nowhere.

    Raises:  OSError when the request cannot be remembered.
    """
    return remembered_word(state / "listen", requested)


GATEWAY_USER = "gateway-user"  # the file that has the account whose gateway may speak for other users


def remembered_word(file: Path, requested: str) -> str:
    """Return an option of the head: as given now, else as at its last start, which is in a file.

    Raises:  OSError when the request cannot be remembered.
    """
    if requested.casefold() == NO_LONGER:
        file.unlink(missing_ok=True)
        return ""
    if requested:
        file.write_text(requested + "\n", encoding="utf-8")
        return requested
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""
