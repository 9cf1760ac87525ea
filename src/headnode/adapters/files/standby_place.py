"""The files that tell which state directories belong to a standby head, or to a head that was replaced."""

import os
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.files.job_logs import atomic_file
from headnode.adapters.files.local_daemons import REPLACED, STANDBY
from headnode.core.model.errors import Unavailable, WrongState

CONTROL_SOCKET: Final = "standby.sock"
STANDBY_LOCK: Final = "standby.lock"
BACKUP: Final = "backup-standby.db"  # a copy of the journal of a standby that runs


class StandbyPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a standby: its name, where it listens, and the head that invited it (HOST:PORT).

    takeover_after:  seconds without the head after which it takes over by itself, at least; 0: never
    taking_over:     it has begun to become the head: its journal tells whether it did
    """

    name: str
    listen: str
    head: str
    cluster: str
    takeover_after: float = 0.0
    taking_over: bool = False


class Successor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The head that took over, and the number of the last event that both are known to have; 0: unknown."""

    address: str
    term: int
    number: int = 0


def standby_place(state: Path) -> StandbyPlace | None:
    """Return what kind of standby a state directory is; None: it is none.

    Raises:  Unavailable ``standby-file``.
    """
    data = _read(state / STANDBY)
    try:
        return None if data is None else msgspec.json.decode(data, type=StandbyPlace)
    except msgspec.MsgspecError as error:
        raise _unreadable(state / STANDBY, error) from None


def successor(state: Path) -> Successor | None:
    """Return the head that took over from the one in a state directory; None: it is still the head.

    Raises:  Unavailable ``standby-file``.
    """
    data = _read(state / REPLACED)
    try:
        return None if data is None else msgspec.json.decode(data, type=Successor)
    except msgspec.MsgspecError as error:
        raise _unreadable(state / REPLACED, error) from None


def write_place(state: Path, place: StandbyPlace) -> None:
    """Let a state directory be that of a standby, whatever happens next.

    Raises:  OSError.
    """
    _write(state / STANDBY, place)


def write_successor(state: Path, place: Successor) -> None:
    """Let no head be started in a state directory: another one took over.

    Raises:  OSError.
    """
    _write(state / REPLACED, place)


def refuse_head(state: Path) -> None:
    """Refuse to start a head where a standby is, or where a standby has taken over from the head.

    Raises:  WrongState ``standby-here``, ``head-replaced``; Unavailable ``standby-file``.
    """
    if (place := standby_place(state)) is not None:
        raise WrongState(
            code="standby-here",
            what=f"{str(state)!r} is the standby of cluster {place.cluster}",
            fix="to make it the head: hn standby takeover",
        )
    if (new := successor(state)) is not None:
        raise WrongState(
            code="head-replaced",
            what=f"{new.address} took over from the head in {str(state)!r}; two heads would act at once",
            fix="make this machine a standby of that head: hn standby join; only if it never became the "
            f"head, remove {str(state / REPLACED)!r} and start again",
        )


def unusable_state(state: Path, error: OSError) -> Unavailable:
    """Return the error for a state directory that cannot be written."""
    return Unavailable(
        code="standby-state",
        what=f"the state directory {str(state)!r} cannot be written: {error.strerror or error}",
        fix="make room or rights there, then try again",
    )


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> Unavailable:
    return Unavailable(
        code="standby-file",
        what=f"{str(file)!r} cannot be read: {error}",
        fix="it tells whether a head may run here; see the administrator's guide, standby head",
    )


def _write(file: Path, content: StandbyPlace | Successor) -> None:
    """Write a file so that it survives a power cut."""
    with atomic_file(file) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
