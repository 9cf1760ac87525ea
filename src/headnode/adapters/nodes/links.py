"""The head's end of the connections to its nodes."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from headnode.adapters.nodes.event_dispatch import EventDispatch, cleaned_on, time_for_nodes
from headnode.adapters.nodes.link import (
    Contact,
    Handshake,
    NodeLink,
    PeerCredentials,
    address_of,
    facts_of,
    may_join,
    misunderstanding_in,
    of_peers,
    refusal,
)
from headnode.adapters.nodes.reconcile import (
    AttemptsByNode,
    attempts_to_stop,
    awaits_report,
    expected_digest,
    health_check,
    orders_to_repeat,
    suspensions_to_repeat,
    unchecked,
)
from headnode.adapters.nodes.report_queue import ReportQueue, Tell, attempt_report, staging_report
from headnode.adapters.nodes.streams import Relay, Sessions
from headnode.adapters.wire.agent_messages import (
    MAX_REPORT,
    Health,
    Heartbeat,
    Hello,
    Holdings,
    HookFailed,
    JobClosed,
    JobMeasured,
    JobReady,
    Launch,
    LaunchAck,
    LaunchData,
    LaunchesEnded,
    NotUnderstood,
    OutputListed,
    OutputRead,
    ProgramChecked,
    ReportedAttempt,
    Results,
    SignalSent,
    Staging,
    Started,
    Suspended,
    Table,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import deliver_frames, keep_alive
from headnode.adapters.wire.message_checks import Nonsense, checked_results, health_check_text, read_message
from headnode.adapters.wire.messages import FromHead, Goodbye, HeartbeatAck, HookFailureAck, Welcome
from headnode.core.model.bounds import WORDS
from headnode.core.model.errors import HeadnodeError, NotAllowed
from headnode.core.model.quantities import JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.drain import ReportHealth, ReportNonsense
from headnode.core.state.events import Event
from headnode.core.state.hooks import ReportClosed, ReportHook, ReportReady
from headnode.core.state.job_events import InstanceStart
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.report import ReportStarted
from headnode.core.state.suspend import ReportSuspended
from headnode.engine.settings import Settings

log = logging.getLogger("headnode.nodes")
strangers = logging.getLogger("headnode.strangers")


class NodeLinks:
    """All connections, and what durable events mean for the nodes behind them."""

    def __init__(
        self, tell: Tell, welcome: Callable[[], Welcome], cluster: Callable[[], ClusterState]
    ) -> None:
        self._reports = ReportQueue(tell)
        self._welcome = welcome
        self._cluster = cluster
        self.links: dict[str, NodeLink] = {}
        self.contacts: dict[str, Contact] = {}  # the last of each node, also of those that are away
        self._telling = EventDispatch(self.links)
        # Seconds for which a node may assume that no other node gets its tasks.
        self.leases: dict[str, float] = {}
        self.sessions = Sessions(self._send)
        self._relay = Relay(self._send, self.sessions)
        self._whereabouts: AttemptsByNode | None = None  # worked out when it is needed first
        self._arrivals = Handshake(cluster)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Tell the nodes what follows from durable events."""
        self._telling.perform(events, cluster)
        self._relay.end_what_is_over(events, cluster)
        self._where().note(events)

    @property
    def open_jobs(self) -> Mapping[JobId, Collection[str]]:
        """By job, the nodes to which it was sent."""
        return self._telling.open_jobs

    def _where(self) -> AttemptsByNode:
        if self._whereabouts is None:
            self._whereabouts = AttemptsByNode(self._cluster())
        return self._whereabouts

    def _send(self, node: str, message: FromHead) -> None:
        if node in self.links:
            self.links[node].send(message)

    def silent(self, least: float, limit: Callable[[str], float]) -> list[str]:
        """Close the connections of nodes that were silent for longer than their limit, and return them.

        `limit` returns seconds, and never less than `least`.
        """
        now = time.monotonic()
        quiet = [link for link in self.links.values() if now - link.received > least]
        silent = [link for link in quiet if now - link.received > limit(link.node)]
        for link in silent:
            log.warning("node %s has sent nothing for %.0f s", link.node, now - link.received)
            link.abort()
        return [link.node for link in silent]

    def forgive(self, seconds: float) -> None:
        """Let all nodes be silent for so much longer."""
        for link in self.links.values():
            link.received += seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one agent of this machine until it goes away."""
        if may_join(writer):
            await self._converse(reader, writer)
        else:
            writer.close()

    async def serve_peer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, key: str
    ) -> None:
        """Talk to an agent of another machine, with the certificate of `node`, until it disconnects."""
        await self._converse(reader, writer, PeerCredentials(node, key))

    def welcome_again(self) -> None:
        """Tell the nodes of other machines what has changed in their welcome, such as the standby heads."""
        welcome, nodes = of_peers(self._welcome()), self._cluster().nodes
        for link in self.links.values():
            if link.knows_standbys and link.node in nodes and nodes[link.node].key:
                link.greet(welcome, time_for_nodes())

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: PeerCredentials | None = None,
    ) -> None:
        link: NodeLink | None = None
        keep_alive(writer)
        try:
            link = await self._greet(reader, writer, peer)
            if link is not None:
                await deliver_frames((reader, writer), MAX_REPORT, partial(self._receive, link))
        except TimeoutError:
            strangers.warning("a node's connection was dropped: it sent nothing in time")
        except Nonsense as error:
            if link is None:
                writer.write(frame(_goodbye(f"the head refused a message of this machine: {error}")))
            else:
                link.send(NotUnderstood(message=str(error)))
            self._doubt(peer, link, str(error))
        except HeadnodeError as error:
            strangers.warning("a node's connection was dropped: %s", error)
        finally:
            if link is not None and self.links.get(link.node) is link:
                del self.links[link.node]
                self.sessions.node_away(link.node)
                self._vanished(link.node)
            writer.close()

    def _doubt(self, peer: PeerCredentials | None, link: NodeLink | None, problem: str) -> None:
        """Note what a node has said that cannot be; a node that we know takes no more jobs."""
        name = link.node if link is not None else peer.node if peer is not None else ""
        strangers.warning("the connection of node %s was dropped: %s", name or "?", problem)
        known = self._cluster().nodes.get(name)
        if known is None or (peer is not None and known.key != peer.key):
            return
        self._reports.give(ReportNonsense(node=name, reason=problem), lambda _: None)

    def _vanished(self, node: str) -> None:
        log.info("node %s cannot be reached", node)
        self._reports.give(NodeVanished(node=node), lambda _: None)

    async def _greet(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: PeerCredentials | None,
    ) -> NodeLink | None:
        first = await self._arrivals.first_message(reader, writer, peer)
        if why_not := misunderstanding_in(first):
            writer.write(frame(_goodbye(why_not)))
            return None
        hello = read_message(first, time_for_nodes()) if first is not None else None
        if not isinstance(hello, Hello):
            return None
        link = NodeLink(hello.facts.name, writer, hello.protocol)
        if why_not := refusal(hello, peer):
            link.send(Goodbye(reason=why_not))
            return None
        try:
            key = "" if peer is None else peer.key
            kept = tuple((x.job, x.task, x.instance, x.attempt) for x in (*hello.live, *hello.ended))
            facts = facts_of(hello, address_of(writer))
            boot = self._boot_of(facts.name)
            known = RegisterNode(facts=facts, approved=peer is None, key=key, kept=kept)
            await self._reports.recorded(known)
            if boot not in ("", facts.boot_id):
                log.warning("node %s has rebooted: its tasks are lost", facts.name)
        except NotAllowed as error:
            link.send(Goodbye(reason=str(error)))
            raise
        if (before := self.links.get(link.node)) is not None:
            log.warning("node %s connected a second time; the newer connection stays", link.node)
            before.close()
        self.links[link.node] = link
        self.contacts[link.node] = Contact(time_for_nodes())
        welcome = self._welcome()  # not before: it may change until the link is known
        link.greet(welcome if peer is None else of_peers(welcome), time_for_nodes())
        self._telling.order_check(link, self._cluster())
        self._put_right(link, hello)
        log.info("node %s is connected: %d live tasks", link.node, len(hello.live))
        return link

    def _boot_of(self, name: str) -> str:
        """Return in which boot of its machine a node was seen last; empty when that is not known."""
        known = self._cluster().nodes.get(name)
        return "" if known is None else known.facts.boot_id

    def _put_right(
        self, link: NodeLink, holdings: Holdings, fresh: Collection[tuple[int, int, int, int]] = ()
    ) -> None:
        """Put the node's table and ours right, whatever was lost since they last agreed."""
        cluster = self._cluster()
        held, opened = cluster.on_node(link.node), dict(holdings.opened)
        anew = isinstance(holdings, Hello)  # commands of people end with the connection, and not before
        dirty = cleaned_on(cluster, link.node)
        for job in holdings.open_jobs:
            if job in dirty:
                self._telling.close_on(link, job)
            elif job in held:
                self._telling.knows(job, link.node)
            elif job > 0 or anew:
                self._telling.close_on(link, job)
        plan = orders_to_repeat(link.node, self._where().of(link.node, cluster), holdings, fresh)
        for job in sorted((held & cluster.graphs.keys()) - dirty):
            if job not in opened or link.opened.get(job) != opened[job]:
                self._telling.open_job(cluster, job, only=link.node)
        for message in (
            *suspensions_to_repeat(cluster, link.node, holdings),
            *attempts_to_stop(cluster, link.node, holdings),
            *plan.messages,
        ):
            link.send(message)
        self._learn_launched(link, holdings.launched if anew else _of_tasks(holdings.launched))
        for report in plan.reports:
            self._report(report, link)
        for job in sorted(dirty - set(holdings.open_jobs)):
            self._report(ReportClosed(node=link.node, job=job), link)

    def _learn_launched(self, link: NodeLink, launched: Sequence[ReportedAttempt]) -> None:
        if launched:
            self._relay.greeted(link.node, launched, self._cluster())

    def _receive(self, link: NodeLink, data: bytes) -> bool:
        message = read_message(data, time_for_nodes())
        link.received = time.monotonic()
        match message:
            case Heartbeat():
                self._answer(link, message)
            case Table():
                self._compare(link, message)
            case Started(job=job, started=begun):
                link.began(message)
                starts = tuple(InstanceStart(b.task, b.instance, b.attempt, b.at) for b in begun)
                self._report(ReportStarted(node=link.node, job=job, starts=starts), link)
            case Staging() if (fresh := link.transferring(message)).transfers:
                self._report(staging_report(link.node, fresh), link)
            case JobReady(job=job):
                self._report(ReportReady(node=link.node, job=job), link)
            case JobClosed(job=job) if job in cleaned_on(self._cluster(), link.node):
                self._report(ReportClosed(node=link.node, job=job), link)
            case HookFailed():
                self._hook_failed(message, link)
            case Suspended(job=job, number=number):
                self._report(ReportSuspended(node=link.node, job=job, number=number), link)
            case OutputRead() | OutputListed() | ProgramChecked() | SignalSent() | JobMeasured():
                link.answered(message.number, message)
            case Launch() | LaunchData() | LaunchAck() | LaunchesEnded():
                self._relay.pass_on(link.node, message, self._cluster())
            case Health(healthy=ok, message=why):
                self._report(ReportHealth(node=link.node, well=ok, reason=why[: WORDS.most]), link)
            case Results():
                self._take(message, link)
            case NotUnderstood(message=complaint):
                words = complaint[: WORDS.most]
                strangers.warning("node %s refused a message of this head: %s", link.node, words)
        return True

    def _answer(self, link: NodeLink, heartbeat: Heartbeat) -> None:
        """Answer a heartbeat, and ask for the table when something must have been lost, or may have been."""
        cluster = self._cluster()
        self.contacts[link.node] = Contact(time_for_nodes(), heartbeat.load, heartbeat.mark)
        known = self._where().of(link.node, cluster)
        if heartbeat.digest and (
            heartbeat.digest != expected_digest(cluster, link.node, known, link.opened.items())
            or awaits_report(cluster, link.node, known)
        ):
            link.ask_for_table()
        if unchecked(cluster, link.node):  # its last report of health was lost, or came late
            self._report(ReportHealth(node=link.node, well=True), link)
        self._learn_launched(link, _of_tasks(heartbeat.launched))
        lease = Settings(cluster.parameters).lease()
        self.leases[link.node] = max(heartbeat.lease, lease)
        link.send(HeartbeatAck(number=heartbeat.number, lease=lease, now=time_for_nodes()))

    def _compare(self, link: NodeLink, table: Table) -> None:
        """Put right what a node's table shows; one that is twice or too late shows nothing."""
        if (fresh := link.fresh_at(table)) is None:
            return
        check = health_check(self._cluster(), link.node)
        if table.health_check != health_check_text(check.program, check.interval):
            link.send(check)
        self._put_right(link, table, fresh)

    def _take(self, message: Results, link: NodeLink) -> None:
        """Report how attempts ended, as far as it can be believed."""
        results, problem = checked_results(message.results, time_for_nodes())
        if problem:
            strangers.warning("node %s sent an invalid report: %s", link.node, problem)
            self._report(ReportNonsense(node=link.node, reason=problem), link)
        command = attempt_report(link.node, replace(message, results=results))

        def recorded(error: Exception | None) -> None:
            _close_if_refused(error, link)
            if error is None:
                link.acknowledge(message)

        if self._reports.give(command, recorded, (link, message.number)):
            link.reports(message)

    def _hook_failed(self, message: HookFailed, link: NodeLink) -> None:
        """Note that a prolog or an epilog failed; the node is told when this is on the disk."""
        job, hook, of_node = message.job, message.hook, message.node_at_fault
        output = message.message[: WORDS.most]
        command = ReportHook(node=link.node, job=job, hook=hook, reason=output, of_node=of_node)

        def received(error: Exception | None) -> None:
            _close_if_refused(error, link)
            if error is None:
                link.send(HookFailureAck(job=job, hook=hook))

        self._reports.give(command, received, (link, job, hook))

    def _report(self, command: Command, link: NodeLink) -> None:
        self._reports.give(command, lambda error: _close_if_refused(error, link), command)


def _goodbye(reason: str) -> bytes:
    return msgspec.msgpack.encode(Goodbye(reason=reason))


def _of_tasks(launched: Sequence[ReportedAttempt]) -> list[ReportedAttempt]:
    """Return those that tasks have launched, not people."""
    return [live for live in launched if live.job > 0 and live.task > 0]


def _close_if_refused(error: Exception | None, link: NodeLink) -> None:
    """Let a node say again, after its next hello, what was refused."""
    if error is not None:
        log.error("a report of node %s could not be recorded: %s", link.node, error)
        link.close()
