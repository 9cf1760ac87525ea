"""The standby heads of this head: a thread sends each of them the events, and acknowledgements wait for it.

A standby that takes over gets every event first; then this head ends.
Source:  docs/decisions/0057-standby-heads.md.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from headnode import __version__
from headnode.adapters.files.copied_tables import RowChanges
from headnode.adapters.files.local_daemons import GATEWAY_USER, REPLACED, remembered_word
from headnode.adapters.files.standby_place import Successor, write_successor
from headnode.adapters.journal.sqlite import JOURNAL
from headnode.adapters.nodes.link import Contact
from headnode.adapters.nodes.membership import read_address
from headnode.adapters.standby.followed import FollowedJournal, Followers
from headnode.adapters.standby.sender import SenderParts, StandbySender, ask_whether_head
from headnode.adapters.wire.peers import written_address
from headnode.adapters.wire.standby_messages import STANDBY_PROTOCOL, STANDBY_PURPOSE, HeadHello, IsHead
from headnode.adapters.wire.tls import Authority
from headnode.apps.server.agent_supervisor import HEAD_USER
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.standby_fence import StandbyFence
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.quantities import DurationHistogram
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.drain import DrainNode
from headnode.core.state.events import Event, StandbyAdmitted, StandbyRemoved
from headnode.engine.engine import Engine
from headnode.engine.ports import EventSource
from headnode.protocol.node_answers import IN_STEP, StandbyObject

log = logging.getLogger("headnode.standby")

HAND_OVER_TIME: Final = 10.0  # seconds for the standby to become the head
LOOK: Final = 0.05  # seconds
BETWEEN_LOOKS: Final = 1.0  # seconds, at whether this head must stop, and whether all senders live
LOOK_AT_ALL: Final = 12.0  # seconds for all standby heads to say at the start whether they are a head
AUDIT_LOOKS: Final = 20  # at the audit log before a hand-over


class HeadParts(NamedTuple):
    """What standby heads need of the head.

    rows:           says what changes in the tables beside the journal
    contacts:       when each node said something last
    address:        HOST:PORT of this head; empty: it does not listen
    welcome_nodes:  sends the connected nodes of other machines a new welcome
    shut_down:      ends the head
    audit_is_open:  whether lines of the audit log are being written
    """

    state: Path
    cluster: str
    rows: RowChanges
    contacts: Mapping[str, Contact]
    address: Callable[[], str]
    welcome_nodes: Callable[[], None]
    shut_down: Callable[[], None]
    audit_is_open: Callable[[], bool]


class StandbyHeads:
    """Sends the events to all standby heads, from its making until the head ends."""

    def __init__(self, engine: Engine, batcher: CommandBatcher, source: EventSource, head: HeadParts) -> None:
        self._engine, self._batcher, self._source, self._head = engine, batcher, source, head
        self._followers = Followers(engine.number)
        engine.journal = FollowedJournal(engine.journal, self._followers, self._wait)
        self._authority = Authority(head.state / "authority")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._senders: dict[str, StandbySender] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._handing_over = self._is_over = False
        self._fence = StandbyFence(
            engine, head.contacts, self._followers, head.welcome_nodes, time.monotonic()
        )

    def _wait(self) -> float:
        """Return for how many seconds a write may wait; the head answers no heartbeat in that time."""
        settings = self._engine.settings
        return min(settings.number("StandbyWait"), settings.number("HeartbeatInterval") / 2)

    @property
    def mark(self) -> int:
        """What nodes repeat when they have stored the present `heads_for_nodes`."""
        return self._fence.mark

    def heads_for_nodes(self) -> tuple[str, ...]:
        """Return HOST:PORT of the standby heads where nodes may find the head if this one is away."""
        offered = self._fence.is_offered
        standbys = self._engine.cluster.standbys.values()
        return tuple(one.address for one in standbys if offered or not one.takeover_after)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Follow what events say of standby heads."""
        changed = any(isinstance(event, StandbyAdmitted | StandbyRemoved) for event in events)
        if changed and self._loop is not None:
            self._update()
            self._head.welcome_nodes()

    async def keep(self) -> None:
        """Send events until the head ends."""
        self._loop = asyncio.get_running_loop()
        for left in self._head.state.glob("standby-*.db*"):  # copies of a head that was killed
            left.unlink(missing_ok=True)
        self._update()
        self._head.welcome_nodes()
        try:
            while True:
                automatic = [one.name for one in self._engine.cluster.standbys.values() if one.takeover_after]
                self._fence.look(self._senders.get(automatic[0]) if automatic else None, time.monotonic())
                await asyncio.sleep(BETWEEN_LOOKS)
                self._begin_ended_again()
        finally:
            for name in list(self._senders):
                self._stop(name)

    def _begin_ended_again(self) -> None:
        """Begin senders again that have ended by an error."""
        for name in [name for name, sender in self._senders.items() if not sender.is_alive()]:
            if not self._handing_over:
                self._stop(name)
                self._update()

    def _update(self) -> None:
        """Have one sender for each standby."""
        wanted = {standby.name: standby.address for standby in self._engine.cluster.standbys.values()}
        for name, sender in list(self._senders.items()):
            if wanted.get(name) is None or read_address(wanted[name], "listen") != sender.place:
                self._stop(name)
        for name in wanted.keys() - self._senders.keys():
            sender = self._senders[name] = StandbySender(
                name, read_address(wanted[name], "listen"), self._parts()
            )
            sender.start()

    def _stop(self, name: str) -> None:
        self._senders.pop(name).stop()
        with self._followers.changed:
            self._followers.followers.pop(name, None)
            self._followers.changed.notify_all()

    def _parts(self) -> SenderParts:
        state = self._head.state
        return SenderParts(
            self._source,
            self._followers,
            self.hello,
            state / "authority" / "authority.pem",
            state,
            self._head.rows,
            state / "audit.log",
            lambda found: self._report(self._replaced, found),
            lambda name: self._report(self._begin_hand_over, name),
            lambda: sum(file.stat().st_size for file in state.glob(f"{JOURNAL}*")),
        )

    def _report(self, what: Callable[[Any], None], word: object) -> None:
        """Do something in the loop of the head; called in the thread of a sender."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(what, word)
        except RuntimeError:  # it is closed
            log.info("the head ends: nothing is done about %s", word)

    def hello(self, name: str) -> HeadHello:
        """Return the greeting for a standby."""
        return HeadHello(
            STANDBY_PROTOCOL,
            __version__,
            self._head.cluster,
            self._source.cluster_id,
            name,
            self._head.address(),
            self._authority.derived_secret(STANDBY_PURPOSE),
            self._engine.cluster.term,
            remembered_word(self._head.state / GATEWAY_USER, ""),
        )

    def objects(self) -> list[StandbyObject]:
        """Return each standby as clients see it."""
        with self._followers.changed:
            return [self._object(self._senders[name]) for name in sorted(self._senders)]

    def _object(self, sender: StandbySender) -> StandbyObject:
        follower, known = sender.follower, self._engine.cluster.standbys.get(sender.standby)
        following = "CatchingUp" if self._followers.waits else "HeadReplica"
        state = "InStep" if follower.in_step else following if follower.connected else "Away"
        p50, p99 = follower.delays.quantiles(time.monotonic()) or (None, None)
        return StandbyObject(
            name=sender.standby,
            address=written_address(sender.place),
            state=state,
            since=sender.since,
            event=follower.confirmed,
            behind=max(0, self._followers.last - follower.confirmed),
            problem=sender.problem or "; ".join(filter(None, sender.troubles)),
            takeover_after=0.0 if known is None else known.takeover_after,
            wait_p50=p50,
            wait_p99=p99,
        )

    def refuse_changes(self) -> None:
        """Refuse what is to be stored beside the journal, if a standby is or may be the head.

        Raises:  Unavailable ``handed-over``, ``isolated``.
        """
        self._followers.refuse_changes()

    async def rows_copied(self) -> None:
        """Wait until standby heads have what has changed beside the journal: as long as for an event."""
        wanted = [(sender, sender.rows.noted) for sender in self._senders.values()]
        deadline = time.monotonic() + self._wait()
        while (now := time.monotonic()) < deadline and any(
            sender.follower.waited_for and sender.rows.lacks(number, now) for sender, number in wanted
        ):
            await asyncio.sleep(LOOK)

    def in_words(self) -> dict[str, str]:
        """Return how each standby is, by its name."""
        return {one.name: _words(one) for one in self.objects()}

    def behind(self) -> dict[str, int]:
        """Return how many events each standby does not have yet, by its name."""
        return {one.name: one.behind for one in self.objects()}

    def delays(self) -> dict[str, DurationHistogram]:
        """Return how long writes have waited for each standby, by its name."""
        return {name: sender.follower.delays.all for name, sender in sorted(self._senders.items())}

    async def is_replaced(self) -> bool:
        """Return whether a standby is a head, since this takeover or a later one; note that if so.

        One that does not say so in time is none, as one that is away.
        """
        known = self._engine.cluster
        asked = [
            asyncio.create_task(
                asyncio.to_thread(ask_whether_head, name, read_address(one.address, "listen"), self._parts())
            )
            for name, one in known.standbys.items()
        ]
        if not asked:
            return False
        answered, _ = await asyncio.wait(asked, timeout=LOOK_AT_ALL)
        answers = [task.result() for task in answered]
        newer = [one for one in answers if one is not None and one.term >= known.term]
        for one in newer:
            if one.term == known.term:
                log.critical(
                    "%s is the head of this cluster, too: neither took over from the other", one.address
                )
            self._note(one)
        return bool(newer)

    def _note(self, answer: IsHead) -> None:
        address = answer.address or "another machine"
        log.critical(
            "%s took over from this head, which ends; to make this machine its standby: hn standby invite "
            "there, hn standby join here",
            address,
        )
        try:
            write_successor(self._head.state, Successor(address, answer.term))
        except OSError as error:
            log.critical("that %s took over could not be noted: %s", address, error)

    def _replaced(self, answer: IsHead) -> None:
        """A machine is the head that took over: this one ends, and is no head any more."""
        if answer.term > self._engine.cluster.term and not self._is_over:
            if not self._handing_over:  # else its file is there, and only the answer of the standby was lost
                self._note(answer)
            self._is_over = self._handing_over = True
            self._head.shut_down()

    def _begin_hand_over(self, name: str) -> None:
        if not self._handing_over and name in self._senders:
            self._handing_over = True
            task = asyncio.create_task(self._hand_over(self._senders[name]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _hand_over(self, sender: StandbySender) -> None:
        """Write nothing more, and end once the standby has said that it is the head."""
        await self._empty_own_nodes()
        await self._batcher.settled()
        number, term = self._engine.number, self._engine.cluster.term + 1
        log.warning("this head hands over to its standby %s after event %d", sender.standby, number)
        try:
            write_successor(self._head.state, Successor(written_address(sender.place), term, number))
        except OSError as error:
            log.error("this head does not hand over: it cannot note that it has: %s", error)
            self._handing_over = False
            return
        self._followers.seal(number, "")
        await self._audit_written()
        self._followers.seal(number, sender.standby)
        deadline = time.monotonic() + HAND_OVER_TIME
        while not sender.handed_over.is_set():
            await asyncio.sleep(LOOK)
            if time.monotonic() <= deadline:
                continue
            if sender.take_back():
                self._go_on(sender)
                return
            deadline += HAND_OVER_TIME
            log.error(
                "standby %s has not said that it is the head; this head changes nothing until it has. If "
                "that machine is lost and never became the head: hn down, remove %s, then hn up",
                sender.standby,
                self._head.state / REPLACED,
            )
        self._head.shut_down()

    async def _empty_own_nodes(self) -> None:
        """Requeue or fail what runs on this head's own machine: the standby cannot reach these nodes."""
        cluster = self._engine.cluster
        own = [name for name, node in cluster.nodes.items() if not node.key and cluster.on_node(name)]
        until = time.monotonic() + self._engine.settings.number("TaskCancelGracePeriod") + HAND_OVER_TIME
        for name in own:
            log.warning(
                "node %s of this machine does not go on under the standby: its tasks are killed", name
            )
            reason = "the standby takes over, and cannot reach this node"
            try:
                await self._batcher.ask(DrainNode(by=HEAD_USER, node=name, reason=reason, force=True))
            except HeadnodeError as error:
                log.warning("node %s could not be drained: %s", name, error)
        while any(map(cluster.on_node, own)) and time.monotonic() < until:
            await asyncio.sleep(LOOK)

    async def _audit_written(self) -> None:
        """Let the requests that were carried out write their lines; those refused now may write for ever."""
        for _ in range(AUDIT_LOOKS):
            await asyncio.sleep(LOOK)
            if not self._head.audit_is_open():
                return

    def _go_on(self, sender: StandbySender) -> None:
        """The standby was not reached with the last events: this is the head still."""
        self._handing_over = False
        log.error(
            "this head goes on: its standby %s has not got all events: %s; nodes of this machine that were "
            "drained for the takeover stay so: hn node resume NAME",
            sender.standby,
            sender.problem,
        )
        try:
            (self._head.state / REPLACED).unlink(missing_ok=True)
        except OSError as error:
            log.critical("remove %s, or this head is not started again: %s", REPLACED, error)


def _words(standby: StandbyObject) -> str:
    if standby.state == "InStep":
        return IN_STEP
    missing = f"{standby.behind} events behind"
    if standby.state in ("CatchingUp", "HeadReplica"):
        return f"{'following' if standby.state == 'Following' else 'catching up'}, {missing}"
    return f"away, {missing}" + (f": {standby.problem}" if standby.problem else "")
