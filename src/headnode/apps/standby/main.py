"""The process of a standby head: it listens, follows its head, and becomes the head when it is told to."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from headnode.adapters.files.local_daemons import take_lock
from headnode.adapters.files.owners import FILE_MODE_MASK, refuse_unsafe_state, warn_of_unsafe_code
from headnode.adapters.files.standby_place import (
    BACKUP,
    CONTROL_SOCKET,
    STANDBY_LOCK,
    StandbyPlace,
    standby_place,
)
from headnode.adapters.nodes.entrance import Entrance, LogRateLimit
from headnode.adapters.nodes.membership import read_address
from headnode.adapters.own_python import module_command
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import listen, quiet_at_the_end, read_frame
from headnode.adapters.wire.peers import peer_ids, user_name
from headnode.adapters.wire.standby_messages import STANDBY_PURPOSE
from headnode.adapters.wire.tls import AUTHORITY_FILES, Authority, head_side
from headnode.apps.standby.door import StandbyDoor, Votes, refuse_clients
from headnode.apps.standby.following import HeadReplica
from headnode.apps.standby.missing_here import MissingHere
from headnode.apps.standby.takeover import Takeover
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import IS_STANDBY, HeadnodeError, Unavailable, WrongState
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.standby_votes import voters

log = logging.getLogger("headnode.standby")

MAX_ORDER: Final = 4096  # bytes
ANSWER_TIME: Final = 5.0  # seconds for the answers to the last orders
BETWEEN_LOOKS: Final = 1.0  # seconds, at whether the head is lost
BETWEEN_LOOKS_AT_FILES: Final = 10.0  # seconds, at whether programs of the site are here
LEAVING_TIME: Final = 3.0  # seconds in which the head hears that this standby is being stopped
MAX_REFUSALS: Final = 100  # clients of this machine that are told at the same time where the head is


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an administrator of this machine asks a standby: `status`, `take over`, or `backup`.

    A backup is a copy of the journal, in the file `BACKUP` of the state directory.
    """

    ask: Literal["status", "take over", "backup"]
    force: bool = False


class StandbyStatus(msgspec.Struct, frozen=True):
    """What a standby says of itself.

    number:    the last event on its disk; 0: it has no journal yet
    head:      the address of the head that sent it, or of the one that invited it
    heard:     seconds since the head said something; None: it has not yet
    problem:   why it cannot store what the head sends
    missing:   what the head names and this machine does not have, in sentences
    lost:      what a former head in its directory had and the present one has not, in sentences
    """

    pid: int
    name: str
    cluster: str
    listen: str
    head: str
    connected: bool
    heard: float | None
    number: int
    jobs: int
    problem: str
    missing: tuple[str, ...]
    lost: tuple[str, ...]


def main(arguments: list[str]) -> int:
    """Run a standby until it is told to end, or becomes the head; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.standby", description="Run a standby head in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="state directory")
    state = Path(os.path.abspath(parser.parse_args(arguments).state))  # noqa: PTH100
    logging.raiseExceptions = False
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr
    )
    os.umask(FILE_MODE_MASK)
    warn_of_unsafe_code(log)
    for name in ("headnode.strangers", "asyncio"):
        logging.getLogger(name).addFilter(LogRateLimit())
    try:
        refuse_unsafe_state(state)
        place = standby_place(state)
        if place is None:
            raise WrongState(
                code="no-standby", what=f"{str(state)!r} is no standby", fix="make it one: hn standby join"
            )
        if take_lock(state / STANDBY_LOCK) is None:
            raise WrongState(code="already-running", what=f"a standby runs in {str(state)!r} already")
        standby = StandbyHead(state, place)
        asyncio.run(standby.run())
    except HeadnodeError as error:
        log.critical("%s", error)
        return error.exit_status
    except OSError as error:
        log.critical("the state directory %s cannot be used: %s", state, error)
        return 1
    if standby.goes_on_as_head:
        command = module_command("headnode.apps.server", "--state", str(state))
        os.execv(command[0], command)
    return 0


def _refuse_without_keys(state: Path) -> None:
    """Make no new keys where those of the cluster are missing: nobody would trust them.

    Raises:  Unavailable ``authority``.
    """
    missing = [name for name in AUTHORITY_FILES if not (state / "authority" / name).exists()]
    if missing:
        raise Unavailable(
            code="authority",
            what=f"the keys of the cluster are not in {str(state / 'authority')!r}: {', '.join(missing)}",
            fix="join the head again: hn standby invite there, hn standby join here; or copy that "
            "directory of the head, or of a backup",
        )


class StandbyHead:
    """Everything of one standby, put together."""

    def __init__(self, state: Path, place: StandbyPlace) -> None:
        """Open what is there.

        Raises:  Unavailable ``authority``, or what the journal raises; OSError.
        """
        self._state, self._place = state, place
        _refuse_without_keys(state)
        self._authority = Authority(state / "authority")
        self._ended, self._is_stopped = asyncio.Event(), False
        self._answered = asyncio.Event()  # nobody waits for the answer to an order
        self._answered.set()
        self._refusing, self._votes = 0, Votes()
        secret = self._authority.derived_secret(STANDBY_PURPOSE)
        self.following = HeadReplica(state, place.name, secret, self._handed_over)
        self._takeover = Takeover(state, place, self.following)
        self._missing = MissingHere(self._cluster, place.name, state)

    async def run(self) -> None:
        """Serve until told to end, or this is the head."""
        if self._place.taking_over or self._takeover.is_recorded():
            self._takeover.go_on()
        if not self._takeover.is_head:
            await self._follow()
        if self.following.replica is not None:
            self.following.replica.store.close()

    @property
    def goes_on_as_head(self) -> bool:
        """Whether this is the head, and was not told to end.  Asked after the loop, which hears that."""
        if self._is_stopped and self._takeover.is_head:
            log.warning("this machine is the head now, and was told to end: hn up starts it")
        return self._takeover.is_head and not self._is_stopped

    def _stop(self) -> None:
        self._is_stopped = True
        self._ended.set()

    def _cluster(self) -> ClusterState | None:
        replica = self.following.replica
        return replica.cluster if replica is not None else None

    async def _look_for_missing(self) -> None:
        """Tell the head what this machine does not have, now and then."""
        while True:
            self.following.missing = "; ".join(await self._missing.look())
            await asyncio.sleep(BETWEEN_LOOKS_AT_FILES)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        async with self._serving():
            log.info(
                "standby %s of cluster %s is ready in %s", self._place.name, self._place.cluster, self._state
            )
            beside = [asyncio.create_task(work) for work in (self._watch(), self._look_for_missing())]
            await self._ended.wait()
            for task in beside:
                task.cancel()
            await self._send_farewell()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_TIME):
                    await self._answered.wait()

    async def _send_farewell(self) -> None:
        """Tell the head that this standby is being stopped: it will not take over, so the head may go on."""
        self.following.leaves = True
        if self.following.connected and not self._takeover.is_head:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVING_TIME):
                    await self.following.farewell.wait()

    async def _watch(self) -> None:
        """Take over by itself, if that is requested, once the head and most nodes have lost each other."""
        while not self._takeover.is_head:
            await asyncio.sleep(BETWEEN_LOOKS)
            if self._place.takeover_after and self._may_take_over(time.monotonic()):
                log.critical("the head at %s is lost: this standby takes over", self.following.head)
                try:
                    self._takeover.become_head(forced=True)
                except HeadnodeError as error:
                    log.critical("it cannot take over: %s", error)
                    continue
                self._ended.set()

    def _may_take_over(self, now: float) -> bool:
        """Whether head and most nodes have lost each other, and all that it acknowledged is here."""
        following, replica = self.following, self.following.replica
        if replica is None or following.connected or not following.in_step or following.trouble:
            return False
        received, requested = following.received, self._place.takeover_after
        return received is not None and self._votes.head_is_lost(
            received, voters(replica.cluster), requested, now
        )

    def _knocked(self, node: str, key: str, silent: float) -> None:
        """Note what a node says of its head, if it is a node of this cluster with its key."""
        replica = self.following.replica
        known = replica.cluster.nodes.get(node) if replica is not None else None
        if known is not None and known.key == key:
            self._votes.knock(node, silent, time.monotonic())

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        host, port = read_address(self._place.listen, "listen")
        door = StandbyDoor(self.following, self._refusal, self._knocked)
        entrance = Entrance(head_side(self._authority), door.serve)
        try:
            await entrance.listen(host, port)
        except Unavailable as error:
            raise Unavailable(
                code="listen",
                what=f"the standby cannot listen: {error.what}",
                fix="free that address; or name another: hn standby join ... --listen HOST:PORT",
            ) from None
        servers = [
            await asyncio.start_unix_server(quiet_at_the_end(serve), sock=listen(self._state / name, mode))
            for name, mode, serve in (
                ("head.sock", 0o666, self._refuse_here),
                (CONTROL_SOCKET, 0o600, self._obey),
            )
        ]
        try:
            yield
        finally:
            entrance.close()
            self.following.hang_up()
            for server in servers:
                server.close()
            (self._state / CONTROL_SOCKET).unlink(missing_ok=True)
            (self._state / "head.sock").unlink(missing_ok=True)

    def _refusal(self) -> Unavailable:
        head = self.following.head or self._place.head
        return Unavailable(
            code=IS_STANDBY,
            what=f"this machine is the standby of cluster {self._place.cluster}; its head is at {head}",
            fix="ask there; if that machine is lost, an administrator runs here: hn standby takeover",
        )

    async def _refuse_here(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._refusing += 1
        try:
            if self._refusing <= MAX_REFUSALS:  # others keep their descriptors for the journal and the head
                await refuse_clients(reader, writer, self._refusal)
        except (OSError, *UNREADABLE, HeadnodeError) as error:
            log.debug("a client of this machine was dropped: %s", error)
        finally:
            self._refusing -= 1
            writer.close()

    async def _obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry out the orders of an administrator of this machine, who alone can open the socket."""
        _, uid, gid = peer_ids(writer.get_extra_info("socket"))
        user = User(name=user_name(uid), uid=uid, gid=gid, administrator=True)
        try:
            while (data := await read_frame(reader, MAX_ORDER)) is not None:
                self._answered.clear()
                answer = await self._answer(data, user)
                writer.write(frame(msgspec.json.encode(answer)))
                await writer.drain()
                self._answered.set()
                if self._takeover.is_head:
                    self._ended.set()
        except (OSError, HeadnodeError) as error:
            log.warning("a connection of this machine was dropped: %s", error)
        finally:
            self._answered.set()
            writer.close()

    async def _answer(self, data: bytes, user: User) -> dict[str, Any]:
        try:
            order = msgspec.json.decode(data, type=Order)
            if order.ask == "take over":
                await self._takeover.begin(user, force=order.force)
            if order.ask == "backup":
                await self._copy_journal()
            if order.ask == "status":
                await self._missing.look()
            return {"ok": True, **msgspec.to_builtins(self.status())}
        except HeadnodeError as error:
            return {"ok": False, **error.as_fields()}
        except UNREADABLE as error:
            return {
                "ok": False,
                **WrongState(code="order", what=f"the order was not understood: {error}").as_fields(),
            }

    def status(self) -> StandbyStatus:
        """Return how this standby is."""
        following, place = self.following, self._place
        received = None if following.received is None else time.monotonic() - following.received
        replica = following.replica
        return StandbyStatus(
            os.getpid(),
            place.name,
            place.cluster,
            place.listen,
            following.head or place.head,
            following.connected,
            received,
            replica.number if replica is not None else 0,
            len(replica.cluster.jobs) if replica is not None else 0,
            following.trouble,
            self._missing.sentences,
            tuple(following.lost),
        )

    async def _copy_journal(self) -> None:
        copy = self._state / BACKUP
        copy.unlink(missing_ok=True)
        await asyncio.to_thread(self._takeover.replica().store.copy_to, copy)

    def _handed_over(self) -> None:
        """The head has ended; its last event is here."""
        self._takeover.become_head(forced=False)
        self._ended.set()
