"""How a machine becomes the standby of a head: it shows an invitation, and gets the keys of the cluster."""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from headnode.adapters.files.local_daemons import REPLACED, STANDBY
from headnode.adapters.files.owners import refuse_unsafe_state
from headnode.adapters.files.standby_place import StandbyPlace, successor, write_place
from headnode.adapters.journal.sqlite import JOURNAL, write_cluster_id
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
from headnode.adapters.wire.tls import AUTHORITY_FILES
from headnode.apps.standby.former_head import FORMER
from headnode.core.model.errors import NotAllowed, WrongState
from headnode.core.model.quantities import Seconds

_BESIDE: Final = frozenset({"head.log", "standby.lock", "notices.db"})
_UNREACHABLE: Final = ("0.0.0.0", "::", "*", "localhost")  # noqa: S104  (they are refused)


def join(
    state: Path, invitation: Invitation, name: str, listen: str, takeover_after: float = 0.0
) -> StandbyPlace:
    """Make a state directory that of a standby of the head that invites it.

    listen:          HOST:PORT where it will listen; others must reach it there
    takeover_after:  seconds without the head after which it takes over by itself; 0: never
    Raises:  WrongState ``standby-exists`` for a directory in use; BadRequest, NotAllowed, Unavailable of the
             head, or when it is not reached; OSError when the directory cannot be written.
    """
    host, port = read_address(listen, "listen")
    if host in _UNREACHABLE:
        raise NotAllowed(
            code="listen",
            what=f"the head, nodes and clients of other machines cannot reach a standby at {host}",
            fix="write the name or address of this machine: hn standby join ... --listen HOST",
        )
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o755 if os.geteuid() == 0 else 0o700)
    refuse_unsafe_state(state)
    former = successor(state) is not None
    _refuse_directory_in_use(state, former=former)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
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
    if former:
        _set_aside(state)
    place = StandbyPlace(name, address, _place_of(invitation), joined.cluster, takeover_after)
    return _settle(state, scratch, joined, place)


def _place_of(invitation: Invitation) -> str:
    return str(invitation).partition("/")[0]


def _refuse_directory_in_use(state: Path, *, former: bool) -> None:
    if (state / STANDBY).exists() or former:
        return  # it joins again
    found = sorted({file.name for file in state.iterdir()} - _BESIDE - {"authority.new"})
    if found:
        raise WrongState(
            code="standby-exists",
            what=f"the state directory {str(state)!r} is in use: it has {', '.join(found[:3])}",
            fix="name another: --state DIRECTORY; or stop the head there, and move the directory away",
        )


async def _ask(invitation: Invitation, authority: Path, question: JoinStandby) -> StandbyJoined:
    try:
        authority.write_bytes(await learn_authority(invitation))
        return await ask_to_be_standby(invitation, authority, question)
    except TimeoutError:
        raise head_away(_place_of(invitation), "it does not answer") from None
    except OSError as error:
        raise head_away(_place_of(invitation), str(error)) from None


def _set_aside(state: Path) -> None:
    """Keep what a former head has, in a directory beside the rest: some of it may be nowhere else."""
    kept = state / f"{FORMER}{time.strftime('%Y%m%dT%H%M%S')}"
    kept.mkdir(mode=0o700)
    for file in sorted(state.iterdir()):
        if file.name.startswith((JOURNAL, "audit.log", "delegations.db", "webhooks.db", REPLACED)):
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
    authority = state / "authority"
    if authority.exists():
        for former in authority.iterdir():
            former.unlink()
        authority.rmdir()
    scratch.rename(authority)
    write_cluster_id(state, joined.cluster_id)
    (state / "name").write_text(joined.cluster + "\n", encoding="utf-8")
    (state / "nodes-here").write_text("0\n", encoding="ascii")
    write_place(state, place)
    return place
