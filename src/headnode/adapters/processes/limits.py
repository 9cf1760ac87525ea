"""Resource limits of users, tasks and attempts; and whether the node or the user has used up his own.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import errno
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from headnode.adapters.processes.cgroups import ROOT

DIRECTORY = "/etc/security"
_KB, _MINUTE = 1024, 60
_ITEMS = {
    "core": (resource.RLIMIT_CORE, _KB),
    "data": (resource.RLIMIT_DATA, _KB),
    "fsize": (resource.RLIMIT_FSIZE, _KB),
    "memlock": (resource.RLIMIT_MEMLOCK, _KB),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "rss": (resource.RLIMIT_RSS, _KB),
    "stack": (resource.RLIMIT_STACK, _KB),
    "cpu": (resource.RLIMIT_CPU, _MINUTE),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "as": (resource.RLIMIT_AS, _KB),
    "sigpending": (resource.RLIMIT_SIGPENDING, 1),
    "msgqueue": (resource.RLIMIT_MSGQUEUE, 1),
    "rtprio": (resource.RLIMIT_RTPRIO, 1),
}
_WITHOUT_END = ("unlimited", "infinity", "-1")
_EVERYBODY, _GROUP, _USER = range(3)  # how special a line is; the more special one wins


class ProcessLimit(NamedTuple):
    """A limit in the system's own units; None leaves that half as it is."""

    soft: int | None = None
    hard: int | None = None


RequestedLimit = tuple[str, int | None, int | None]
"""A limit that a task asks for: its name, soft and hard; None leaves that side as it is, -1 is no limit."""


class CannotSet(Exception):
    """A task asks for more than its user may have on this node."""

    def __init__(self, name: str, amount: int, allowed: int) -> None:
        wish = "no limit" if amount == resource.RLIM_INFINITY else str(amount)
        super().__init__(
            f"the task requests the limit {name}={wish}; on this node its user may have at most {allowed}; "
            "request less, or ask an administrator to raise it in /etc/security/limits.conf of the node"
        )


def limits_of(user: str, groups: Iterable[str], lines: Iterable[str]) -> dict[int, ProcessLimit]:
    """Return the limits that lines of limits.conf give a user, by resource.

    What is not understood is passed over, as pam_limits does: a site's mistake must not cost a job.
    """
    found: dict[int, dict[str, tuple[int, int]]] = {}
    domains = {"*": _EVERYBODY, **{f"@{group}": _GROUP for group in groups}, user: _USER}
    for domain, kind, item, value in _fields(lines):
        rank = domains.get(domain)
        number = _number(value, _ITEMS[item][1]) if item in _ITEMS else None
        if rank is None or number is None or (rank == _EVERYBODY and user == "root"):
            continue
        halves = found.setdefault(_ITEMS[item][0], {})
        for half in ("soft", "hard") if kind == "-" else (kind,):
            if rank >= halves.get(half, (_EVERYBODY, 0))[0]:
                halves[half] = (rank, number)
    return {
        what: ProcessLimit(*(halves[half][1] if half in halves else None for half in ("soft", "hard")))
        for what, halves in found.items()
    }


def _fields(lines: Iterable[str]) -> Iterator[tuple[str, str, str, str]]:
    for line in lines:
        fields = line.partition("#")[0].split()
        if len(fields) == 4 and fields[1] in ("soft", "hard", "-"):
            yield fields[0], fields[1], fields[2].lower(), fields[3]


def _number(text: str, unit: int) -> int | None:
    if text in _WITHOUT_END:
        return resource.RLIM_INFINITY
    return int(text) * unit if text.isdecimal() else None


def lines_of(directory: str = DIRECTORY) -> list[str]:
    """Return the lines of limits.conf and of the files in limits.d, in the order they count."""
    lines: list[str] = []
    extra = os.path.join(directory, "limits.d")  # noqa: PTH118 (pathlib costs every shepherd memory)
    names = sorted(os.listdir(extra)) if os.path.isdir(extra) else []  # noqa: PTH112, PTH208
    files = [os.path.join(extra, name) for name in names if name.endswith(".conf")]  # noqa: PTH118
    for file in (os.path.join(directory, "limits.conf"), *files):  # noqa: PTH118
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123
                lines += opened
        except OSError:
            continue  # many systems have none
    return lines


def set_limits(limits: dict[int, ProcessLimit]) -> None:
    """Take the limits on, as far as the system allows: a job never fails because a limit cannot be raised."""
    for what, limit in limits.items():
        soft, hard = resource.getrlimit(what)
        hard = hard if limit.hard is None else limit.hard
        soft = _smaller(soft if limit.soft is None else limit.soft, hard)
        try:
            resource.setrlimit(what, (soft, hard))
        except (OSError, ValueError) as error:
            print(f"limit {what} stays as it is: {error}", file=sys.stderr)  # noqa: T201 (the shepherds' log)


def requested_limits(limits: Iterable[RequestedLimit]) -> list[tuple[str, int, int, int]]:
    """Return (name, resource, soft, hard) as a task wants them, given what this process has.

    A hard limit that is lowered takes the soft one with it.
    Raises:  CannotSet when it wants more than it may have here.
    """
    found = []
    for name, soft, hard in limits:
        what = _ITEMS[name][0]
        own_soft, own_hard = resource.getrlimit(what)
        wanted = own_hard if hard is None else hard
        for amount in (soft, hard):
            if amount is not None and _above(amount, own_hard) and (amount != hard or os.geteuid() != 0):
                raise CannotSet(name, amount, own_hard)
        found.append((name, what, _smaller(own_soft if soft is None else soft, wanted), wanted))
    return found


def _above(amount: int, limit: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return False
    return amount == resource.RLIM_INFINITY or amount > limit


def _smaller(soft: int, hard: int) -> int:
    if hard == resource.RLIM_INFINITY:
        return soft
    return hard if soft == resource.RLIM_INFINITY else min(soft, hard)


_MB = 1024 * 1024
PROCESSES = "nproc"  # the limit that a group counts, where there is one


class Bounds(NamedTuple):
    """`processors`: those of the machine that it is bound to; none: it is not bound.

    `memory`: MB for each of its processors here; 0: as much as there is.  `held`: how many those are.
    `parallel`: it has several, so that it is likely to be several processes.
    """

    processors: tuple[int, ...] = ()
    memory: int = 0
    held: int = 1
    parallel: bool = False

    @property
    def most_memory(self) -> int | None:
        """How many bytes it may have; None: there is no limit."""
        return self.memory * self.held * _MB or None


UNBOUND = Bounds()


def most_processes(limits: Iterable[RequestedLimit]) -> int | None:
    """Return how many processes an attempt may have, threads counted, if it asks for such a limit."""
    for name, *sides in limits:
        if name == PROCESSES:
            return min((side for side in sides if isinstance(side, int) and side >= 0), default=None)
    return None


def without_processes(limits: Iterable[RequestedLimit]) -> tuple[RequestedLimit, ...]:
    """Return the limits but for that of processes, which the group of the attempt keeps."""
    return tuple(limit for limit in limits if limit[0] != PROCESSES)


SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_OWN_GROUPS_FILE = "headnode-"  # how the group of a shepherd with all of its job begins


def nothing_is_left() -> bool:
    """Whether this process gets no descriptor or no child, whatever program it is to start."""
    try:
        os.close(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        child = os.fork()
    except OSError as error:
        return error.errno in SHORT
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False


def own_limit_is_reached() -> bool:
    """Whether the limits of this process, its user or its job are why there is no more: not the node."""
    bounded = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if any(resource.getrlimit(which)[0] != resource.RLIM_INFINITY for which in bounded):
        return True
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    counted = os.getuid() != 0 and processes != resource.RLIM_INFINITY
    return (counted and _threads_of(os.getuid()) >= processes) or any(map(_is_full, _own_groups()))


def _threads_of(user: int) -> int:
    """Return how many threads a user has on this machine."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended
                found += len(list((entry / "task").iterdir())) if entry.stat().st_uid == user else 0
    return found


def _own_groups() -> Iterator[Path]:
    """Yield the groups that hold what this job has of processes, one for each tree."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            tree = ROOT / "pids" if "pids" in controllers.split(",") else ROOT
            for group in (own := tree / path.lstrip("/"), *own.parents):
                if group.name.startswith(_OWN_GROUPS_FILE):
                    yield group


def _is_full(group: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):  # "max": there is no limit
        return int((group / "pids.current").read_text()) >= int((group / "pids.max").read_text())
    return False
