"""Orders shepherds, hears them, finds those of an earlier agent, and buries the dead."""

import asyncio
import logging
import signal
import time
from functools import partial
from pathlib import Path

from headnode.adapters import process_tree
from headnode.adapters.processes import cgroups, job_journal, shepherd_protocol
from headnode.adapters.processes.factory import ShepherdFactory, ShepherdOrder
from headnode.adapters.processes.job_journal import JournalContent
from headnode.adapters.wire import messages as m
from headnode.adapters.wire.frames import FrameWriter, Streams, deliver_frames, listen
from headnode.adapters.wire.peers import peer_ids
from headnode.apps.agent.leftovers import remove_leftovers
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.places import Places
from headnode.apps.agent.shepherd_handle import (
    Failure,
    ShepherdConversation,
    ShepherdHandle,
    ShepherdPhase,
    ShepherdPlace,
    order_for,
    records_of,
    trouble_of,
    words_for,
)
from headnode.apps.agent.silent_peers import SilentPeers
from headnode.apps.agent.strays import end_strays
from headnode.apps.agent.vacant_shepherds import DISMISSAL, VacantShepherds, kind_of
from headnode.core.launching.environment import SHEPHERD_MARKER
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

_LOOK = 0.02  # seconds between two looks at what is about to change
_AGAIN = 1.0  # seconds until the death of a shepherd is looked into again
_KILL_TIMEOUT = 2.0  # seconds for one try to kill everything a shepherd left


class Shepherds:
    """All shepherds of this node that are not settled."""

    def __init__(self, places: Places, node: str, boot: str, services: NodeServices) -> None:
        self._places, self._node, self._boot, self._services = places, node, boot, services
        self._factory = ShepherdFactory(places.log, self)
        self._vacant = VacantShepherds(places, self._fork, self._factory.serves, services.takes_over)
        self._herd: dict[str, ShepherdHandle] = {}
        self._funerals: dict[str, asyncio.Task[None]] = {}
        self._conversations: set[asyncio.Task[None]] = set()
        self._silent = SilentPeers()
        self._server: asyncio.Server | None = None

    async def open(self, timeout: float) -> None:
        """Start the factory, listen, and find what an earlier agent left; wait for the living to dial."""
        self._factory.start()
        await self._listen()
        await self._adopt_all(timeout)
        await self._end_strays()
        swept = await asyncio.to_thread(cgroups.sweep, time.time())
        if swept:
            log.info("removed empty control groups that were left: %s", " ".join(swept))

    async def _listen(self) -> None:
        # A user's shepherd dials as the user; who it is is checked.
        listener = listen(self._places.socket, 0o666)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener)

    def _listen_again(self) -> None:
        """Listen anew if the socket was removed; existing connections stay."""
        if self._server is not None and not self._places.socket.exists():
            self._server.close()
            task = asyncio.ensure_future(self._listen())
            self._conversations.add(task)
            task.add_done_callback(self._conversations.discard)

    async def _adopt_all(self, timeout: float) -> None:
        self._places.forget_vacant()
        for path in self._places.journals():
            self._adopt(path)
        until = asyncio.get_running_loop().time() + timeout
        while any(
            each.phase in (ShepherdPhase.AWAITED, ShepherdPhase.BURYING) for each in self._herd.values()
        ):
            if asyncio.get_running_loop().time() > until:
                return  # the journals say enough to go on with
            await asyncio.sleep(_LOOK)

    async def _end_strays(self) -> None:
        """End tasks that this agent should know and does not: the head has given them up."""
        ended, left = await asyncio.to_thread(
            end_strays, self._node, self._places, tuple(self._herd), _KILL_TIMEOUT
        )
        if ended:
            log.warning("ended %d processes of tasks that are not in %s", ended, self._places.jobs)
        if left:
            log.error("of these, processes %s cannot be killed", sorted(left))

    def _adopt(self, path: Path) -> None:
        story = job_journal.read(path)
        if story is None:  # it died before it was anything
            path.unlink()
            return
        header = story.header
        tended = ShepherdHandle(JobId(header.job), header.marker, str(path), header.uid)
        tended.seed(story)
        self._herd[tended.marker] = tended
        self._services.adopted(tended)
        self._services.ended(tended, records_of(story))
        self._bury(tended)  # unless it dials

    async def open_file(self, path: str, uid: int, gid: int) -> int:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  as `ShepherdFactory.open_file`.
        """
        return await self._factory.open_file(path, uid, gid)

    def order(self, opened: m.OpenJob, deadline: float | None, grace: float) -> ShepherdHandle:
        """Get a shepherd for a job: one that has served another, or a new one.

        Raises:  Unavailable ``factory``; OSError when the agent's directories cannot be made again.
        """
        order = order_for(opened, self._places, self._boot, deadline, grace)
        marker = order.marker
        tended = ShepherdHandle(opened.job, marker, order.journal, opened.uid)
        if opened.hooks is None:  # what the site does around a job may be about all that its user runs
            tended.place = ShepherdPlace(marker, kind_of(order), time.monotonic())
        if tended.place.kind is None or not self._vacant.find(order, tended):
            self._order_new(order)
        self._herd[marker] = tended
        return tended

    def _order_new(self, order: ShepherdOrder) -> None:
        """Have a shepherd made, which finds the directories of the agent and dials its socket.

        Raises:  as `order`.
        """
        self._places.restore()
        self._listen_again()
        self._factory.order(order)

    def _fork(self, order: ShepherdOrder) -> None:
        """Make a shepherd for a job that was to get one that is there."""
        try:
            self._order_new(order)
        except (OSError, Unavailable) as error:
            self.shepherd_failed(order.marker, words_for(error), trouble_of(error))

    def dismiss(self, tended: ShepherdHandle) -> None:
        """Let a shepherd kill all it has, and end or wait for another job; one that does not is killed."""
        if tended.closing or tended.phase not in (ShepherdPhase.AWAITED, ShepherdPhase.HERE):
            return
        tended.closing = True
        if self._vacant.may_stay(tended):
            self._vacant.clears(tended)
            tended.send_at_once(shepherd_protocol.vacate_message())
        else:
            tended.send(shepherd_protocol.close_message())
        tended.timeout = asyncio.get_running_loop().call_later(DISMISSAL, self._insist, tended)

    def _insist(self, tended: ShepherdHandle) -> None:
        if tended.phase not in (ShepherdPhase.AWAITED, ShepherdPhase.HERE):
            return
        story = job_journal.read(tended.journal) if tended.journal.exists() else None
        if story is not None and job_journal.lives(tended.journal):
            log.warning("the shepherd of job %d does not end; it is killed", tended.job)
            process_tree.send([story.header.process], signal.SIGKILL)
        self._bury(tended)

    def forget(self, tended: ShepherdHandle) -> None:
        """Remove what is kept of a settled shepherd."""
        if tended.has_journal:
            tended.journal.unlink(missing_ok=True)
        if tended.timeout is not None:
            tended.timeout.cancel()
        self._herd.pop(tended.marker, None)

    async def close(self) -> None:
        """Let go of everything; the shepherds live on."""
        if self._server is not None:
            self._server.close()
        for task in (*self._conversations, *self._funerals.values()):
            task.cancel()
        await asyncio.gather(*self._conversations, *self._funerals.values(), return_exceptions=True)
        self._factory.close()

    # What the factory says.

    def shepherd_failed(self, marker: str, why: str, trouble: str) -> None:
        """Tell the owner that there will be none, unless there is one after all."""
        tended = self._herd.get(marker)
        if tended is not None and tended.phase is ShepherdPhase.AWAITED:
            log.error("no shepherd for job %d: %s", tended.job, why)
            self._bury(tended, Failure(why, trouble))

    def shepherd_gone(self, marker: str) -> None:
        """Bury it."""
        if (tended := self._herd.get(marker)) is not None:
            self._bury(tended)

    # What shepherds say.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        channel = FrameWriter(writer)
        try:
            if self._is_awaited(channel):
                first = await self._silent.first_frame(reader, writer, shepherd_protocol.MAX_MESSAGE)
                await self._converse(first, (reader, writer), channel)
        except asyncio.CancelledError:
            return  # we are leaving
        except (BadRequest, OSError) as error:
            log.error("a shepherd's connection was dropped: %s", error)
        finally:
            self._conversations.discard(task)
            channel.close()

    def _is_awaited(self, writer: FrameWriter) -> bool:
        """Whether a shepherd of the user who has connected is on its way."""
        _, uid, _ = peer_ids(writer.socket)
        return any(each.uid == uid and each.phase is ShepherdPhase.AWAITED for each in self._herd.values())

    async def _converse(self, data: bytes | None, streams: Streams, writer: FrameWriter) -> None:
        """Hear a shepherd from its first message on."""
        peer = ShepherdConversation(writer)
        try:
            if data is not None and self._received(peer, data):
                await deliver_frames(streams, shepherd_protocol.MAX_MESSAGE, partial(self._received, peer))
        finally:
            if peer.tended is not None and peer.tended.phase is ShepherdPhase.HERE:
                peer.tended.has_hung_up()
                self._bury(peer.tended)
            elif peer.last is not None:
                self._ended_without_job(peer.last)

    def _received(self, peer: ShepherdConversation, data: bytes) -> bool:
        """Hear a message; return whether to hear the next."""
        tended, last, writer = peer.tended, peer.last, peer.writer
        match shepherd_protocol.read_shepherd_message(data):
            case shepherd_protocol.Introduction() as intro if tended is None:
                tended = self._known(intro, writer) if last is None else self._next(intro, last, writer)
                if tended is not None and last is None:  # the next job has what it is to run already
                    self._introduced(tended, intro, writer)
                peer.tended, peer.last = tended, last if tended is None else None
                return tended is not None
            case shepherd_protocol.ShepherdVacant() if tended is not None and tended.closing:
                self._is_cleared(tended, writer)
                peer.tended, peer.last = None, tended
            case message:
                if tended is None:
                    return False
                self._receive(tended, message)
        return True

    def _next(
        self, intro: shepherd_protocol.Introduction, last: ShepherdHandle, writer: FrameWriter
    ) -> ShepherdHandle | None:
        """Return the job that a known shepherd was told to serve next, if that is what it says."""
        following = self._vacant.introduced(last.marker)
        if following is None or (following.job, following.marker) != (intro.job, intro.marker):
            process, _, _ = peer_ids(writer.socket)
            log.warning("the shepherd of job %d serves another job than requested; it is killed", last.job)
            process_tree.send([process], signal.SIGKILL)
            if following is not None:
                self._bury_next(following)
            return None
        return following if following.phase is ShepherdPhase.HERE else None

    def _is_cleared(self, tended: ShepherdHandle, writer: FrameWriter) -> None:
        """A shepherd has ended all of its job: settle the job, as after its death."""
        tended.phase = ShepherdPhase.GONE
        self._vacant.cleared(tended, writer)
        self._services.vanished(tended, {}, None, rebooted=False)

    def _ended_without_job(self, last: ShepherdHandle) -> None:
        """A shepherd has ended, or was killed, between two jobs."""
        following = self._vacant.gone(last.marker)
        if following is not None:
            self._bury_next(following)
            return
        clearing = asyncio.ensure_future(self._end_what_is_left(last))
        self._conversations.add(clearing)
        clearing.add_done_callback(self._conversations.discard)

    def _bury_next(self, following: ShepherdHandle) -> None:
        """A shepherd has ended before it said that it serves the next job."""
        if following.phase is ShepherdPhase.HERE:
            following.has_hung_up()
        self._bury(following)

    def _known(self, intro: shepherd_protocol.Introduction, writer: FrameWriter) -> ShepherdHandle | None:
        """Return the shepherd that speaks, if it is the one it says it is."""
        tended = self._herd.get(intro.marker)
        process, _, _ = peer_ids(writer.socket)
        if tended is not None and tended.phase is ShepherdPhase.AWAITED and tended.job == intro.job:
            story = job_journal.read(tended.journal)
            if story is not None and story.header.process == process and job_journal.lives(tended.journal):
                return tended
        log.warning("process %d is not a shepherd of this agent; its connection was refused", process)
        return None

    def _introduced(
        self, tended: ShepherdHandle, intro: shepherd_protocol.Introduction, writer: FrameWriter
    ) -> None:
        if intro.suspended:
            self._services.is_suspended(tended, intro.suspended)
        live = {**dict.fromkeys(intro.queued), **{(t, i, a): at for t, i, a, at in intro.running}}
        self._services.ended(tended, intro.ended)
        lost = tended.has_dialed(writer, live)
        if lost:
            self._services.never_arrived(tended, lost)
        self._services.started(tended, intro.running)

    def _receive(self, tended: ShepherdHandle, message: shepherd_protocol.ShepherdMessage) -> None:
        match message:
            case shepherd_protocol.ShepherdStarted(started=begun):
                self._services.started(tended, begun)
            case shepherd_protocol.ShepherdStaging(staging=transfers):
                self._services.staging(tended, transfers)
            case shepherd_protocol.ShepherdEnded(ended=ended):
                self._services.ended(tended, ended)
            case shepherd_protocol.ShepherdSuspended(number=number):
                self._services.stands_still(tended, number)
            case shepherd_protocol.ShepherdSignaled() | shepherd_protocol.ShepherdMeasured():
                if message.question in tended.questions:
                    tended.questions.discard(message.question)
                    self._services.send(message.answer())
            case shepherd_protocol.ShepherdNotLaunched(number=number, message=why):
                self._services.not_launched(number, why)
            case shepherd_protocol.ShepherdLaunchesEnded():
                self._services.launches_over(tended.job, message)
            case shepherd_protocol.Introduction() | shepherd_protocol.ShepherdVacant():
                raise BadRequest(code="shepherd-message", what="a shepherd sent an unexpected message")

    # The dead.

    def _bury(self, tended: ShepherdHandle, failure: Failure | None = None) -> None:
        self._vacant.gone(tended.marker)
        if tended.marker not in self._funerals and tended.phase is not ShepherdPhase.GONE:
            funeral = asyncio.ensure_future(self._funeral(tended, failure))
            self._funerals[tended.marker] = funeral
            funeral.add_done_callback(lambda _: self._funerals.pop(tended.marker, None))

    async def _funeral(self, tended: ShepherdHandle, failure: Failure | None) -> None:
        """Make sure that nothing of a dead shepherd runs, then read what it wrote and say what became.

        Nobody else settles its attempts: where no file can be opened now, it is tried again.
        """
        while True:
            try:
                story = await self._left_by(tended)
                break
            except OSError as error:
                log.error("it is not known yet how job %d ended here: %s; trying on", tended.job, error)
                await asyncio.sleep(_AGAIN)
        if tended.phase is ShepherdPhase.HERE:
            return  # it has dialed again
        if story is not None:
            self._services.ended(tended, records_of(story))
        tended.phase = ShepherdPhase.GONE
        rebooted = story is not None and story.header.boot != self._boot
        started = {} if story is None else story.started
        self._services.vanished(tended, started, failure, rebooted=rebooted)

    async def _left_by(self, tended: ShepherdHandle) -> JournalContent | None:
        """End what a shepherd has left when it is dead, and return its journal, unless it dials again.

        Raises:  OSError.
        """
        while tended.journal.exists() and job_journal.lives(tended.journal):
            if tended.phase is ShepherdPhase.HERE:
                return None
            await asyncio.sleep(_LOOK)
        tended.phase = ShepherdPhase.BURYING
        await self._end_what_is_left(tended)
        story = job_journal.read(tended.journal) if tended.journal.exists() else None
        if story is not None and story.private:
            await asyncio.to_thread(remove_leftovers, story.private, tended.uid)
        return story

    async def _end_what_is_left(self, tended: ShepherdHandle) -> None:
        group = tended.place.group
        if cgroups.exists(group):  # nothing gets out of it
            if cgroups.end(group, 0.0):  # as after most jobs: a thread would cost more
                return
            while not await asyncio.to_thread(cgroups.end, group, _KILL_TIMEOUT):
                log.error("processes of job %d cannot be killed; trying on", tended.job)
            return
        marker = f"{SHEPHERD_MARKER}={tended.marker}".encode()
        while left := await asyncio.to_thread(process_tree.end_marked, marker, _KILL_TIMEOUT):
            log.error("processes of job %d cannot be killed: %s; trying on", tended.job, sorted(left))
