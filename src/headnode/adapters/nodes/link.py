"""One node's connection, as the head has it."""

import asyncio
import logging
import time

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame
from headnode.core.model.bounds import WORDS
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

log = logging.getLogger("headnode.nodes")

TRIAL = 5.0  # seconds that an agent has to look at a program
PATIENCE = 15.0  # seconds that an agent has for its first message, and for an answer
MOST_UNREAD = 2 * m.LARGEST_MESSAGE  # bytes that wait for a node that does not read

Question = m.ReadOutput | m.ReadFile | m.ListOutput | m.TryProgram
Answer = m.OutputRead | m.OutputListed | m.ProgramTried

_encoder = msgspec.msgpack.Encoder()


class Link:
    """One node's connection."""

    def __init__(self, node: str, writer: asyncio.StreamWriter, protocol: int = m.PROTOCOL) -> None:
        self.node, self.protocol = node, protocol
        self._writer = writer
        self.heard = time.monotonic()  # when it said something last
        self.opened: dict[JobId, int] = {}  # the mark of what was said last of each open job
        self._asked = 0
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._table = 0  # the number of the table that was asked for last
        self._fresh: set[tuple[int, int, int, int]] | None = (
            None  # attempts that are news since; None: not asked
        )

    def send(self, message: m.FromHead) -> None:
        """Send a message; a connection that is going down loses it, and reconciling sends it again.

        An agent that is too old for it does not hear it.
        """
        if m.SINCE.get(type(message), 0) > self.protocol:
            return
        self.send_encoded(_encoder.encode(message))

    def send_encoded(self, message: bytes) -> None:
        """Send a message that is encoded already; a node that reads nothing loses its connection."""
        if self._writer.is_closing():
            return
        self._writer.write(frame(message))
        if self._writer.transport.get_write_buffer_size() > MOST_UNREAD:
            log.warning("node %s does not read its messages; its connection was closed", self.node)
            self.abort()

    def hand_over(self, message: m.Run) -> None:
        """Let the node run something."""
        self._note(*((message.job, message.task, *who) for who in message.attempts))
        self.send(message)

    def began(self, message: m.Started) -> None:
        """The node has said that something runs."""
        self._note(*((message.job, each.task, each.instance, each.attempt) for each in message.begun))

    def _note(self, *attempts: tuple[int, int, int, int]) -> None:
        if self._fresh is not None:
            self._fresh.update(attempts)

    def ask_for_table(self) -> None:
        """Ask for all that the node has; an answer that is not the last one's is of no use."""
        self._table += 1
        self._fresh = set()
        self.send(m.TellTable(number=self._table))

    def fresh_at(self, table: m.Table) -> set[tuple[int, int, int, int]] | None:
        """Return the attempts of which a table cannot tell yet; None when it is not the one asked for."""
        if table.number != self._table or self._fresh is None:
            return None
        fresh, self._fresh = self._fresh, None
        return fresh

    async def read_output(self, job: JobId, task: int, instance: int, span: tuple[int, int]) -> m.OutputRead:
        """Return captured output of an instance: `span` is the offset and how many bytes at most.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        answer = await self._answer_to(m.ReadOutput(self._asked, job, task, instance, *span))
        if not isinstance(answer, m.OutputRead):
            raise node_away(self.node)
        return answer

    async def read_file(
        self, path: str, user: User, span: tuple[int, int], *, same_numbers: bool
    ) -> m.OutputRead:
        """Return what is in a file of a user's task; `span` as in `read_output`, the rest as in `ReadFile`.

        Raises:  Unavailable ``node-away`` when the node does not answer, ``old-agent`` when it cannot.
        """
        if self.protocol < m.SINCE[m.ReadFile]:
            raise Unavailable(
                code="old-agent",
                what=f"the agent of node {self.node!r} is too old to read {path!r} for others",
                fix="read it there, or let an administrator update Headnode there",
            )
        self._asked += 1
        who = user.name, user.uid, user.gid
        answer = await self._answer_to(m.ReadFile(self._asked, path, *who, same_numbers, *span))
        if not isinstance(answer, m.OutputRead):
            raise node_away(self.node)
        return answer

    async def list_output(self, after: JobId, most: int) -> tuple[JobId, ...]:
        """Return the first jobs with ids above `after` whose captured output is there, at most so many.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        if self.protocol < m.SINCE[m.ListOutput]:
            return ()
        self._asked += 1
        answer = await self._answer_to(m.ListOutput(self._asked, after, most))
        return answer.jobs if isinstance(answer, m.OutputListed) else ()

    def remove_output(self, jobs: tuple[JobId, ...]) -> None:
        """Let the node remove the captured output of these jobs."""
        if jobs:
            self.send(m.RemoveOutput(jobs=jobs))

    async def try_program(self, program: str, filters: str) -> str:
        """Return why the agent cannot run a program or the filters of a directory; empty if it can.

        An agent that does not answer, or is too old, finds nothing wrong.
        """
        if self.protocol < m.SINCE[m.TryProgram]:
            return ""
        self._asked += 1
        try:
            answer = await self._answer_to(m.TryProgram(self._asked, program, filters), TRIAL)
        except Unavailable:
            return ""
        return answer.trouble[: WORDS.most] if isinstance(answer, m.ProgramTried) else ""

    async def _answer_to(self, question: Question, patience: float = PATIENCE) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[question.number] = answer
        try:
            async with asyncio.timeout(patience):
                self.send(question)
                return await answer
        except TimeoutError:
            raise node_away(self.node) from None
        finally:
            del self._answers[question.number]

    def answered(self, number: int, message: Answer) -> None:
        """Hand an answer to whoever waits for it."""
        waiting = self._answers.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def abort(self) -> None:
        """Drop a connection that nobody answers on, without a word."""
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
