"""The head's end of the connections to its nodes."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.nodes.keeping_alive import keep_alive
from headnode.adapters.nodes.reconciling import standing, still, unwanted, wanted
from headnode.adapters.nodes.relaying import Relay
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord, encode_spec
from headnode.core.model.errors import HeadnodeError, NotAllowed, Unavailable
from headnode.core.model.quantities import NEVER, JobId, Seconds
from headnode.engine.settings import Settings

log = logging.getLogger("headnode.nodes")

PATIENCE = 15.0  # seconds that an agent has for its first message

Ask = Callable[[c.Command], Awaitable[object]]
"""Give a command to the engine; the answer comes when it is durable.  Raises what refuses it."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(m.FromAgent)


class _Shown(NamedTuple):
    """What the certificate of a connection says: the node, and the digest of its key."""

    node: str
    key: str


class Link:
    """One node's connection."""

    def __init__(self, node: str, writer: asyncio.StreamWriter) -> None:
        self.node = node
        self._writer = writer
        self.heard = time.monotonic()  # when it said something last
        self._asked = 0
        self._answers: dict[int, asyncio.Future[m.OutputRead]] = {}

    def send(self, message: m.FromHead) -> None:
        """Send a message; a connection that is going down loses it, and reconciling sends it again."""
        if not self._writer.is_closing():
            self._writer.write(frame(_encoder.encode(message)))

    async def read_output(self, job: JobId, task: int, instance: int, span: tuple[int, int]) -> m.OutputRead:
        """Return captured output of an instance: `span` is the offset and how many bytes at most.

        Raises:  Unavailable ``node-away`` when the node does not answer.
        """
        self._asked += 1
        question = m.ReadOutput(self._asked, job, task, instance, *span)
        answer: asyncio.Future[m.OutputRead] = asyncio.get_running_loop().create_future()
        self._answers[question.number] = answer
        try:
            async with asyncio.timeout(PATIENCE):
                self.send(question)
                return await answer
        except TimeoutError:
            raise node_away(self.node) from None
        finally:
            del self._answers[question.number]

    def answered(self, number: int, message: m.OutputRead) -> None:
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


class NodeLinks:
    """All connections, and what durable events mean for the nodes behind them."""

    def __init__(self, ask: Ask, welcome: Callable[[], m.Welcome], cluster: Callable[[], Cluster]) -> None:
        self._ask = ask
        self._welcome = welcome
        self._cluster = cluster
        self.links: dict[str, Link] = {}
        self.open_jobs: dict[JobId, set[str]] = {}
        self._relay = Relay(self._say)

    # What events mean for nodes

    def perform(self, events: Sequence[e.Event], cluster: Cluster) -> None:
        """Tell the nodes what follows from durable events."""
        for event in events:
            match event:
                case e.InstancesDispatched():
                    self._run(event)
                case e.JobStarted() | e.AllocationGrown() | e.JobModified():
                    self.open_job(cluster, event.job)
                case e.InstancesStopping():
                    self._stop(event, cluster)
                case e.JobSuspending():
                    self._tell_standing(cluster, event.job)
                case e.JobResumed():
                    self.open_job(cluster, event.job)
                    self._tell_standing(cluster, event.job)
                case e.JobEnded() | e.JobRequeued() | e.JobReturned():
                    self._close(event.job, self.open_jobs.pop(event.job, set()))
                case e.NodeRemoved(node=node) if node in self.links:
                    self.links[node].send(m.Goodbye(reason="this node was removed from the cluster"))
                case e.ParameterSet(name="HealthCheckProgram" | "HealthCheckInterval"):
                    for link in self.links.values():
                        self._order_check(link, cluster, changed=True)
                case e.AllocationShrunk() | e.AllocationLost():
                    self._shrink(event, cluster)
                case _:
                    pass
        self._relay.end_what_is_over(events, cluster)

    def _say(self, node: str, message: m.FromHead) -> None:
        if node in self.links:
            self.links[node].send(message)

    def _run(self, event: e.InstancesDispatched) -> None:
        link = self.links.get(event.place[0][0])
        if link is not None:
            link.send(m.Run(job=event.job, task=event.task, place=event.place, attempts=event.attempts))

    def open_job(self, cluster: Cluster, job: JobId, only: str | None = None) -> None:
        """Tell the nodes of a job's allocation, or only one of them, about the job."""
        record = cluster.jobs.get(job)
        if record is None or record.run is None or not record.run.places:
            return
        message = m.OpenJob(
            job=job,
            owner=record.owner,
            uid=record.uid,
            gid=record.gid,
            spec=_spec_of(cluster, record),
            allocation=tuple(record.run.places.items()),
            deadline=NEVER if record.run.deadline is None else record.run.deadline,
            suspendable=cluster.spec(record).suspendable,
        )
        for node in record.run.places:
            link = self.links.get(node)
            if link is not None and only in (None, node):
                link.send(message)
                self.open_jobs.setdefault(job, set()).add(node)

    def _stop(self, event: e.InstancesStopping, cluster: Cluster) -> None:
        record = cluster.jobs.get(event.job)
        if record is None or record.run is None:
            return
        live = record.run.tasks[event.task - 1].live
        by_node: dict[str, list[tuple[int, int, int]]] = {}
        for instance in event.instances:
            if instance in live:
                attempt = (event.task, instance, live[instance].attempt)
                by_node.setdefault(live[instance].place[0][0], []).append(attempt)
        for node, attempts in by_node.items():
            link = self.links.get(node)
            if link is not None:
                link.send(m.Stop(job=event.job, attempts=tuple(attempts), force=event.force))

    def _tell_standing(self, cluster: Cluster, job: JobId) -> None:
        """Tell the nodes of a job whether its processes stand still, as it is by now."""
        message = standing(cluster, job)
        run = cluster.jobs[job].run if job in cluster.jobs else None
        for node in run.places if message is not None and run is not None else ():
            link = self.links.get(node)
            if link is not None and message is not None:
                link.send(message)

    def _shrink(self, event: e.AllocationShrunk | e.AllocationLost, cluster: Cluster) -> None:
        record = cluster.jobs.get(event.job)
        held = record.run.places if record is not None and record.run is not None else {}
        left = {node for node, _ in event.removed if node not in held}
        self.open_jobs.get(event.job, set()).difference_update(left)
        self._close(event.job, left)

    def _close(self, job: JobId, nodes: set[str]) -> None:
        for node in sorted(nodes):
            link = self.links.get(node)
            if link is not None:
                link.send(m.CloseJob(job=job))

    def _order_check(self, link: Link, cluster: Cluster, *, changed: bool = False) -> None:
        """Tell a node which health check it runs, if there is one or was one."""
        settings, node = Settings(cluster.parameters), cluster.nodes.get(link.node)
        program = settings.text("HealthCheckProgram")
        if program or changed or (node is not None and any(each.cause == "health" for each in node.drains)):
            every = Seconds(settings.number("HealthCheckInterval"))
            link.send(m.CheckHealth(program=program, every=every))

    def silent(self, patience: float) -> list[str]:
        """Hang up on the nodes that have said nothing for so long (seconds), and return them."""
        now = time.monotonic()
        found = [link for link in self.links.values() if now - link.heard > patience]
        for link in found:
            log.warning("node %s has said nothing for %.0f s", link.node, now - link.heard)
            link.abort()
        return [link.node for link in found]

    # What nodes say

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one agent of this machine until it goes away."""
        if _may_join(writer):
            await self._converse(reader, writer, self._welcome())
        else:
            writer.close()

    async def serve_peer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, key: str
    ) -> None:
        """Talk to one agent of another machine, who showed the certificate of `node`, until it goes away."""
        welcome = replace(self._welcome(), state_directory="")
        await self._converse(reader, writer, welcome, _Shown(node, key))

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        welcome: m.Welcome,
        shown: "_Shown | None" = None,
    ) -> None:
        link: Link | None = None
        keep_alive(writer)
        try:
            link = await self._greet(reader, writer, welcome, shown)
            if link is not None:
                await self._listen(reader, link)
        except TimeoutError:
            log.warning("a node's connection was dropped: it said nothing in time")
        except (HeadnodeError, msgspec.MsgspecError) as error:
            log.warning("a node's connection was dropped: %s", error)
        finally:
            if link is not None and self.links.get(link.node) is link:
                del self.links[link.node]
                await self._vanished(link.node)
            writer.close()

    async def _vanished(self, node: str) -> None:
        log.info("node %s cannot be reached", node)
        try:
            await self._ask(c.NodeVanished(node=node))
        except Unavailable as error:
            log.error("node %s could not be recorded as unreachable: %s", node, error)

    async def _greet(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        welcome: m.Welcome,
        shown: "_Shown | None",
    ) -> Link | None:
        async with asyncio.timeout(PATIENCE):
            first = await read_frame(reader, m.LARGEST_MESSAGE)
        hello = _decoder.decode(first) if first is not None else None
        if not isinstance(hello, m.Hello):
            return None
        link = Link(hello.facts.name, writer)
        if hello.protocol != m.PROTOCOL:
            link.send(m.Goodbye(reason=f"this head speaks protocol {m.PROTOCOL}, not {hello.protocol}"))
            return None
        if shown is not None and shown.node != hello.facts.name:
            link.send(m.Goodbye(reason=f"the certificate is that of node {shown.node!r}"))
            return None
        try:
            key = "" if shown is None else shown.key
            kept = tuple(
                (each.job, each.task, each.instance, each.attempt) for each in (*hello.live, *hello.ended)
            )
            await self._ask(c.RegisterNode(facts=hello.facts, approved=shown is None, key=key, kept=kept))
        except NotAllowed as error:
            link.send(m.Goodbye(reason=str(error)))
            raise
        before = self.links.get(link.node)
        if before is not None:
            log.warning("node %s connected a second time; the newer connection stays", link.node)
            before.close()
        self.links[link.node] = link
        link.send(welcome)
        self._order_check(link, self._cluster())
        await self._reconcile(link, hello)
        log.info("node %s is here: %d tasks live", link.node, len(hello.live))
        return link

    async def _reconcile(self, link: Link, hello: m.Hello) -> None:
        """Put the node's table and ours right, whatever was lost since they last agreed."""
        cluster = self._cluster()
        for job in hello.open_jobs:
            record = cluster.jobs.get(job)
            held = record.run.places if record is not None and record.run is not None else {}
            if link.node in held:
                self.open_jobs.setdefault(job, set()).add(link.node)
            else:
                link.send(m.CloseJob(job=job))
        plan = wanted(cluster, link.node, hello)
        for job in sorted(cluster.flows):
            self.open_job(cluster, job, only=link.node)
        for message in (*still(cluster, link.node, hello), *unwanted(cluster, hello), *plan.messages):
            link.send(message)
        self._relay.greeted(link.node, hello, cluster)
        for report in plan.lost:
            await self._ask(report)

    async def _listen(self, reader: asyncio.StreamReader, link: Link) -> None:
        while (data := await read_frame(reader, m.LARGEST_MESSAGE)) is not None:
            message = _decoder.decode(data)
            link.heard = time.monotonic()
            match message:
                case m.Started(job=job, begun=begun):
                    said = tuple(e.Begun(b.task, b.instance, b.attempt, b.at) for b in begun)
                    self._report(c.ReportStarted(node=link.node, job=job, begun=said), link, None)
                case m.Suspended(job=job, number=number):
                    self._report(c.ReportSuspended(node=link.node, job=job, number=number), link, None)
                case m.OutputRead(number=number):
                    link.answered(number, message)
                case m.Launch() | m.LaunchPiece() | m.LaunchTaken():
                    self._relay.pass_on(link.node, message, self._cluster())
                case m.Health(well=well, said=said):
                    self._report(c.ReportHealth(node=link.node, well=well, said=said), link, None)
                case m.Results():
                    self._report(_report_of(link.node, message), link, message.number)
                case _:
                    pass

    def _report(self, command: c.Command, link: Link, number: int | None) -> None:
        task = asyncio.ensure_future(self._ask(command))
        task.add_done_callback(lambda done: _acknowledge(done, link, number))


def node_away(node: str) -> Unavailable:
    """Return what to say when a node is asked for something and cannot be."""
    return Unavailable(
        code="node-away",
        what=f"node {node!r}, which has the output, does not answer",
        fix="try again when `hn node list` shows it as Ready",
    )


def _acknowledge(done: "asyncio.Future[object]", link: Link, number: int | None) -> None:
    """Acknowledge what is durable.  What could not be recorded is said again after the next hello."""
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        if number is not None:
            link.send(m.Ack(number=number))
        return
    log.error("a report of node %s could not be recorded: %s", link.node, error)
    link.close()


def _spec_of(cluster: Cluster, record: JobRecord) -> bytes:
    """Return the description that a node is told: with the request that the job was given for its own."""
    given = record.run is not None and record.run.option
    return encode_spec(cluster.spec(record)) if given else record.spec


def _report_of(node: str, message: m.Results) -> c.ReportEnded:
    reports = tuple(
        c.Report(
            task=r.task,
            instance=r.instance,
            attempt=r.attempt,
            kind=r.kind,
            exit_code=r.exit_code,
            signal=r.signal,
            started=r.started,
            ended=r.ended,
            user_time=r.user_time,
            system_time=r.system_time,
            peak_memory=r.peak_memory,
            message=r.message,
            average_memory=r.average_memory,
        )
        for r in message.results
    )
    return c.ReportEnded(node=node, job=message.job, reports=reports)


def _may_join(writer: asyncio.StreamWriter) -> bool:
    """Only root and the head's own user may speak for this machine's nodes."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    _, uid, _ = peer_ids(connection)
    return uid in (0, os.geteuid())


def welcome(cluster: str, heartbeat: float, grace: float, state_directory: str) -> m.Welcome:
    """Return the head's answer to a hello.  `heartbeat` and `grace` in seconds."""
    return m.Welcome(
        cluster=cluster,
        heartbeat=Seconds(heartbeat),
        grace=Seconds(grace),
        state_directory=state_directory,
    )
