"""How a machine becomes the standby of a head: it shows an invitation, and gets the keys of the cluster."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headnode.adapters.files.copied_tables import DELEGATIONS, FILES, WAITING
from headnode.adapters.files.local_daemons import REPLACED, STANDBY
from headnode.adapters.files.owners import FILE_MODE_MASK, refuse_unsafe_state
from headnode.adapters.files.standby_place import (
    STANDBY_LOCK,
    StandbyPlace,
    standby_place,
    successor,
    unusable_state,
    write_place,
)
from headnode.adapters.journal.journal_file import SingleProcess
from headnode.adapters.journal.sqlite import JOURNAL, cluster_id, write_cluster_id
from headnode.adapters.nodes.membership import (
    Invitation,
    ask_to_be_standby,
    head_away,
    learn_authority,
    read_address,
)
from headnode.adapters.wire.agent_messages import JoinStandby
from headnode.adapters.wire.messages import StandbyJoined
from headnode.adapters.wire.standby_messages import STANDBY_PROTOCOL
from headnode.adapters.wire.tls import AUTHORITY_FILES, fingerprint_of
from headnode.apps.standby.former_head import FORMER
from headnode.core.model.errors import NotAllowed, Unavailable, WrongState
from headnode.core.model.quantities import Seconds
from headnode.core.state.join import check_address, check_name

_BESIDE: Final = frozenset({"head.log", STANDBY_LOCK, WAITING.file})
_OWN: Final = frozenset({"authority.new", "authority.former", f"{JOURNAL}.lock"})
KEPT: Final = tuple(file for file in FILES if file != DELEGATIONS.file)
"""Of a former head.  Stored credentials are not: those that the head does not have are overwritten soon."""
_UNREACHABLE: Final = ("0.0.0.0", "::", "*", "localhost")  # noqa: S104  (they are refused)


def join(
    state: Path, invitation: Invitation, name: str, listen: str, takeover_after: float = 0.0
) -> StandbyPlace:
    """Make a state directory that of a standby of the head that invites it.

    listen:          HOST:PORT where it will listen; others must reach it there
    takeover_after:  seconds without the head after which it takes over by itself; 0: never
    Raises:  WrongState ``standby-exists`` for a directory in use; BadRequest, NotAllowed, Unavailable of the
             head, or when it is not reached; Unavailable ``already-running``, ``listen``, ``standby-state``.
             Until the head has answered nothing is changed.
    """
    try:
        return _join(state, invitation, name, listen, takeover_after)
    except OSError as error:
        raise unusable_state(state, error) from None


def _join(state: Path, invitation: Invitation, name: str, listen: str, takeover_after: float) -> StandbyPlace:
    os.umask(FILE_MODE_MASK)  # others must not write what says where the head is
    check_name(name)
    host, port = read_address(listen, "listen")
    if host in _UNREACHABLE:
        raise NotAllowed(
            code="listen",
            what=f"the head, nodes and clients of other machines cannot reach a standby at {host}",
            fix="write the name or address of this machine: hn standby join ... --listen HOST",
        )
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    check_address(address)
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o755 if os.geteuid() == 0 else 0o700)
    refuse_unsafe_state(state)
    former = successor(state) is not None or _has_keys_of(state, invitation)
    _refuse_directory_in_use(state, former=former)
    lock = SingleProcess(state / f"{JOURNAL}.lock")  # no head runs here, and none begins
    try:
        _refuse_address_in_use(host, port)
        scratch = state / "authority.new"
        scratch.mkdir(mode=0o700, exist_ok=True)
        question = JoinStandby(
            protocol=STANDBY_PROTOCOL,
            secret=invitation.secret,
            name=name,
            address=address,
            takeover_after=Seconds(takeover_after),
        )
        joined = asyncio.run(_ask(invitation, scratch / "authority.pem", question))
        place = StandbyPlace(name, address, _place_of(invitation), joined.cluster, takeover_after)
        before = standby_place(state)
        if former or (before is not None and before.taking_over) or cluster_id(state) != joined.cluster_id:
            _set_aside(state)
        return _settle(state, scratch, joined, place)
    finally:
        lock.release()


def _has_keys_of(state: Path, invitation: Invitation) -> bool:
    """Whether a head was here of the cluster that invites: another machine is that head now.

    Raises:  OSError; BadRequest ``certificate``.
    """
    authority = state / "authority" / "authority.pem"
    there = (state / JOURNAL).exists() and authority.exists()
    return there and fingerprint_of(authority.read_bytes()) == invitation.fingerprint


def _refuse_address_in_use(host: str, port: int) -> None:
    """Refuse an address at which the standby could not listen; the invitation works only once.

    Raises:  Unavailable ``listen``.
    """
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        socket.create_server(where[:2], family=family).close()
    except OSError as error:
        raise Unavailable(
            code="listen",
            what=f"a standby cannot listen here at {host}:{port}: {error.strerror or error}",
            fix="name an address of this machine and a free port: hn standby join ... --listen HOST:PORT",
        ) from None


def _place_of(invitation: Invitation) -> str:
    return str(invitation).partition("/")[0]


def _refuse_directory_in_use(state: Path, *, former: bool) -> None:
    if (state / STANDBY).exists() or former:
        return  # it joins again
    names = sorted({file.name for file in state.iterdir()} - _BESIDE - _OWN)
    if names:
        raise WrongState(
            code="standby-exists",
            what=f"the state directory {str(state)!r} is in use: it has {', '.join(names[:3])}",
            fix="name another: --state DIRECTORY; or stop the head there, and move the directory away",
        )


async def _ask(invitation: Invitation, authority: Path, question: JoinStandby) -> StandbyJoined:
    with _reaching(invitation):
        known = await learn_authority(invitation)
    authority.write_bytes(known)
    with _reaching(invitation):
        return await ask_to_be_standby(invitation, authority, question)


@contextlib.contextmanager
def _reaching(invitation: Invitation) -> Iterator[None]:
    """Say which head was not reached.

    Raises:  Unavailable ``head-away``.
    """
    try:
        yield
    except TimeoutError:
        raise head_away(_place_of(invitation), "it does not answer") from None
    except OSError as error:
        raise head_away(_place_of(invitation), str(error)) from None


def _set_aside(state: Path) -> None:
    """Keep what a former head has, in a directory beside the rest: some of it may be nowhere else."""
    moved = [
        file
        for file in sorted(state.iterdir())
        if file.name.startswith((JOURNAL, "audit.log", *KEPT))
        and file.name != f"{JOURNAL}.lock"  # it is held
    ]
    if not moved:
        return
    kept = state / f"{FORMER}{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    kept.mkdir(mode=0o700)
    for file in moved:
        file.rename(kept / file.name)


def _settle(state: Path, scratch: Path, joined: StandbyJoined, place: StandbyPlace) -> StandbyPlace:
    """Write what the head gave; the file that makes the directory that of a standby comes last."""
    for name in AUTHORITY_FILES:
        if name not in joined.authority:
            raise NotAllowed(code="not-joined", what=f"the head has not sent its file {name!r}")
        number = os.open(scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(joined.authority[name])
            file.flush()
            os.fsync(number)
    authority, former = state / "authority", state / "authority.former"
    _remove(former)
    if authority.exists():
        authority.rename(former)
    scratch.rename(authority)
    write_cluster_id(state, joined.cluster_id)
    (state / "name").write_text(joined.cluster + "\n", encoding="utf-8")
    (state / "nodes-here").write_text("0\n", encoding="ascii")
    write_place(state, place)
    (state / REPLACED).unlink(missing_ok=True)  # not before: a head could begin here
    _remove(former)
    return place


def _remove(directory: Path) -> None:
    if directory.exists():
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
