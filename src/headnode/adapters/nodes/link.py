"""One node's connection, as the head has it, from its first message."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.adapters.wire.agent_messages import (
    DEVELOPMENT,
    KNOWS_SIGNALS,
    KNOWS_STANDBYS,
    MAX_GREETING,
    MAX_MESSAGE,
    MAX_REPORT,
    OLDEST,
    PROTOCOL,
    AttemptTransfers,
    AttemptUsage,
    Hello,
    JobMeasured,
    Join,
    OutputListed,
    OutputRead,
    ProgramChecked,
    Results,
    SignalSent,
    Staging,
    Started,
    Table,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.message_checks import stated_protocol
from headnode.adapters.wire.messages import (
    CheckProgram,
    FromHead,
    GetTable,
    ListOutput,
    MeasureJob,
    ReadFile,
    ReadOutput,
    RemoveOutput,
    ResultsAck,
    Run,
    SendSignal,
    Welcome,
)
from headnode.adapters.wire.peers import peer_ids
from headnode.core.model.bounds import WORDS
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState


class Contact(NamedTuple):
    """The last heartbeat of a node, or its greeting.  `load`: the mean of one minute; None: not said."""

    at: Instant
    load: float | None = None
    mark: int = 0  # of the newest `Welcome` that the node has stored


log = logging.getLogger("headnode.nodes")

MAX_TRANSFERS = 100_000  # of a node whose progress is remembered

TRIAL = 5.0  # seconds that an agent has to look at a program
TIMEOUT = 15.0  # seconds that an agent has for its first message, and for an answer
MAX_UNREAD = 2 * MAX_MESSAGE  # bytes that wait for a node that does not read

Question = ReadOutput | ReadFile | ListOutput | CheckProgram | SendSignal | MeasureJob
Answer = OutputRead | OutputListed | ProgramChecked | SignalSent | JobMeasured

_encoder = msgspec.msgpack.Encoder()


class NodeLink:
    """One node's connection."""

    def __init__(self, node: str, writer: asyncio.StreamWriter, protocol: int = PROTOCOL) -> None:
        self.node, self.protocol = node, protocol
        self._writer = writer
        self._gathered: list[bytes] | None = None  # frames to be sent together; None: each is sent at once
        self.received = time.monotonic()  # when it said something last
        self.opened: dict[JobId, int] = {}  # the mark of what was said last of each open job
        self._results: dict[JobId, list[int]] = {}  # the numbers of those that are not acknowledged, by job
        self.transfers: dict[
            tuple[JobId, int, int], AttemptTransfers
        ] = {}  # how far they are, by job, task and instance
        self._asked = 0
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._table = 0  # the number of the table that was asked for last
        # Attempts that are news since; None: not asked.
        self._fresh: set[tuple[int, int, int, int]] | None = None

    @property
    def knows_standbys(self) -> bool:
        """Whether the node understands messages about standby heads; older agents do not."""
        return self.protocol >= KNOWS_STANDBYS

    @property
    def knows_signals(self) -> bool:
        """Whether the node understands messages about signals; older agents do not."""
        return self.protocol >= KNOWS_SIGNALS

    def greet(self, welcome: Welcome, now: Instant) -> None:
        """Send the welcome, first of all or again; `now` is what time the head has."""
        message = welcome if self.knows_standbys else replace(welcome, heads=(), term=0, mark=0)
        self.send(replace(message, now=now))

    def send(self, message: FromHead) -> None:
        """Send a message; a connection that is going down loses it, and reconciling sends it again."""
        self.send_encoded(_encoder.encode(message))

    def send_encoded(self, message: bytes) -> None:
        """Send a message that is encoded already; a node that reads nothing loses its connection."""
        if self._gathered is not None:
            self._gathered.append(frame(message))
            return
        self._write(frame(message))

    def gather(self) -> None:
        """Keep what is sent from now on, to be sent at once."""
        if self._gathered is None:
            self._gathered = []

    def send_gathered(self) -> None:
        """Send what was kept, in order; each write is a system call."""
        if self._gathered is not None:
            data, self._gathered = b"".join(self._gathered), None
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            log.warning("node %s does not read its messages; its connection was closed", self.node)
            self.abort()

    def hand_over(self, message: Run) -> None:
        """Let the node run something."""
        self._note(*((message.job, message.task, *attempt) for attempt in message.attempts))
        self.send(message)

    def reports(self, message: Results) -> None:
        """The node has sent results, which are on their way into the journal."""
        self._results.setdefault(message.job, []).append(message.number)

    def acknowledge(self, message: Results) -> None:
        """Acknowledge results that are on the disk, unless that was done when their job ended."""
        numbers = self._results.get(message.job, [])
        if message.number in numbers:
            numbers.remove(message.number)
            if not numbers:
                del self._results[message.job]
            self.send(ResultsAck(number=message.number))

    def acknowledge_all(self, job: JobId) -> None:
        """Tell the node that it may forget all results of a job: its end is on the disk."""
        for number in self._results.pop(job, ()):
            self.send(ResultsAck(number=number))

    def began(self, message: Started) -> None:
        """The node has reported that tasks run."""
        self._note(*((message.job, each.task, each.instance, each.attempt) for each in message.started))

    def _note(self, *attempts: tuple[int, int, int, int]) -> None:
        if self._fresh is not None:
            self._fresh.update(attempts)

    def ask_for_table(self) -> None:
        """Ask for all that the node has; an answer that is not the last one's is of no use."""
        self._table += 1
        self._fresh = set()
        self.send(GetTable(number=self._table))

    def fresh_at(self, table: Table) -> set[tuple[int, int, int, int]] | None:
        """Return the attempts of which a table cannot tell yet; None when it is not the one asked for."""
        if table.number != self._table or self._fresh is None:
            return None
        fresh, self._fresh = self._fresh, None
        return fresh

    async def read_output(self, job: JobId, task: int, instance: int, span: tuple[int, int]) -> OutputRead:
        """Return captured output of an instance: `span` is the offset and how many bytes at most.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        answer = await self._answer_to(ReadOutput(self._asked, job, task, instance, *span))
        if not isinstance(answer, OutputRead):
            raise node_away(self.node)
        return answer

    async def read_file(
        self, path: str, user: User, span: tuple[int, int], *, same_numbers: bool
    ) -> OutputRead:
        """Return what is in a file of a user's task; `span` as in `read_output`, the rest as in `ReadFile`.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        account = user.name, user.uid, user.gid
        answer = await self._answer_to(ReadFile(self._asked, path, *account, same_numbers, *span))
        if not isinstance(answer, OutputRead):
            raise node_away(self.node)
        return answer

    async def list_output(self, after: JobId, most: int) -> tuple[JobId, ...]:
        """Return the first jobs with ids above `after` whose captured output is there, at most so many.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        answer = await self._answer_to(ListOutput(self._asked, after, most))
        return answer.jobs if isinstance(answer, OutputListed) else ()

    def remove_output(self, jobs: tuple[JobId, ...]) -> None:
        """Let the node remove the captured output of these jobs."""
        if jobs:
            self.send(RemoveOutput(jobs=jobs))

    async def try_program(self, program: str, filters: str) -> str:
        """Return why the agent cannot run a program or the filters of a directory; empty if it can.

        An agent that does not answer finds nothing wrong.
        """
        self._asked += 1
        try:
            answer = await self._answer_to(CheckProgram(self._asked, program, filters), TRIAL)
        except Unavailable:
            return ""
        return answer.problem[: WORDS.most] if isinstance(answer, ProgramChecked) else ""

    async def send_signal(
        self, job: JobId, attempts: tuple[tuple[int, int, int], ...] | None, signal: int, target: str
    ) -> int:
        """Send a signal to attempts of a job on the node, None: to all; return to how many processes it went.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        answer = await self._answer_to(SendSignal(self._asked, job, attempts, signal, target))
        return answer.processes if isinstance(answer, SignalSent) else 0

    async def measure(self, job: JobId) -> tuple[AttemptUsage, ...]:
        """Return what attempts of a job use now on the node.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        answer = await self._answer_to(MeasureJob(self._asked, job))
        return answer.usage if isinstance(answer, JobMeasured) else ()

    async def _answer_to(self, question: Question, timeout: float = TIMEOUT) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[question.number] = answer
        try:
            async with asyncio.timeout(timeout):
                self.send(question)
                return await answer
        except TimeoutError:
            raise node_away(self.node) from None
        finally:
            del self._answers[question.number]

    def transferring(self, report: Staging) -> Staging:
        """Note how far transfers are; return those that were not said before on this connection."""
        fresh = tuple(one for one in report.transfers if self._begins(report.job, one))
        if len(self.transfers) + len(report.transfers) > MAX_TRANSFERS:
            self.transfers.clear()  # what goes on is told again
        self.transfers.update({(report.job, one.task, one.instance): one for one in report.transfers})
        return replace(report, transfers=fresh)

    def _begins(self, job: JobId, transfers: AttemptTransfers) -> bool:
        before = self.transfers.get((job, transfers.task, transfers.instance))
        return before is None or (before.attempt, before.direction) != (
            transfers.attempt,
            transfers.direction,
        )

    def answered(self, number: int, message: Answer) -> None:
        """Complete the question with this number with its answer."""
        waiting = self._answers.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def abort(self) -> None:
        """Abort a connection on which the node does not answer."""
        self._writer.transport.abort()

    def close(self) -> None:
        """Drop the connection; the agent dials again and says what it has."""
        self._writer.close()


def node_away(node: str) -> Unavailable:
    """Return what to say when a node is asked for something and cannot be."""
    return Unavailable(
        code="node-away",
        what=f"node {node!r}, which has the output, does not answer",
        fix="try again when `hn node list` shows it as Ready",
    )


class PeerCredentials(NamedTuple):
    """What the certificate of a connection says: the node, and the digest of its key."""

    node: str
    key: str


class Handshake:
    """The connections of nodes that have not said hello."""

    def __init__(self, cluster: Callable[[], ClusterState]) -> None:
        self._cluster = cluster
        self._arriving: dict[str, asyncio.StreamWriter] = {}

    async def first_message(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: PeerCredentials | None
    ) -> bytes | None:
        """Return the first message of a connection; each certificate may have one that has said nothing yet.

        Who shows a certificate and is no node of ours, or not yet, may only say little.
        """
        if peer is None:
            async with asyncio.timeout(TIMEOUT):
                return await read_frame(reader, MAX_REPORT)
        before = self._arriving.get(peer.node)
        if before is not None:
            before.transport.abort()
        self._arriving[peer.node] = writer
        node = self._cluster().nodes.get(peer.node)
        is_in = node is not None and node.key == peer.key and node.state is not NodeState.PENDING
        try:
            async with asyncio.timeout(TIMEOUT):
                return await read_frame(reader, MAX_REPORT if is_in else MAX_GREETING)
        finally:
            if self._arriving.get(peer.node) is writer:
                del self._arriving[peer.node]


def misunderstanding(protocol: int) -> str:
    """Return why a node with this protocol version is not accepted; empty if it is."""
    if OLDEST <= protocol <= PROTOCOL:
        return ""
    known = f"protocol {PROTOCOL}" if OLDEST == PROTOCOL else f"protocols {OLDEST} to {PROTOCOL}"
    whose = ", which was of a development version" if protocol in DEVELOPMENT else ""
    spoken = f"this head speaks {known}, not {protocol}{whose}"
    where = "on the head node first" if protocol > PROTOCOL else "on this node"
    return f"{spoken}; update Headnode {where}"


def misunderstanding_in(greeting: bytes | None) -> str:
    """Return why a node that greets so is not accepted; empty if it is."""
    return misunderstanding(stated_protocol(greeting)) if greeting is not None else ""


def facts_of(greeting: Hello | Join, address: str = "") -> NodeFacts:
    """Return what a machine says of itself, with what its protocol and its address say of that."""
    return replace(greeting.facts, address=address)


def address_of(writer: asyncio.StreamWriter) -> str:
    """Return the address that a connection comes from; empty for one of this machine."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def of_peers(welcome: Welcome) -> Welcome:
    """Return the welcome for nodes of other machines."""
    return replace(welcome, state_directory="", remote=True)


def refusal(hello: Hello, peer: PeerCredentials | None) -> str:
    """Return why the peer may not be this node, whatever the cluster state; empty if it may."""
    if why_not := misunderstanding(hello.protocol):
        return why_not
    if peer is not None and peer.node != hello.facts.name:
        return f"the certificate is that of node {peer.node!r}"
    return ""


def may_join(writer: asyncio.StreamWriter) -> bool:
    """Only root and the head's own user may speak for this machine's nodes."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    _, uid, _ = peer_ids(connection)
    return uid in (0, os.geteuid())
