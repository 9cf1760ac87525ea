"""The head's end of the connections to its nodes."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.nodes.reconciling import unwanted, wanted
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.errors import HeadnodeError, Unavailable
from headnode.core.model.quantities import NEVER, JobId, Seconds

log = logging.getLogger("headnode.nodes")

Ask = Callable[[c.Command], Awaitable[object]]
"""Give a command to the engine; the answer comes when it is durable.  Raises what refuses it."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(m.FromAgent)


class Link:
    """One node's connection."""

    def __init__(self, node: str, writer: asyncio.StreamWriter) -> None:
        self.node = node
        self._writer = writer

    def send(self, message: m.FromHead) -> None:
        """Send a message; a connection that is going down loses it, and reconciling sends it again."""
        if not self._writer.is_closing():
            self._writer.write(frame(_encoder.encode(message)))

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
                case e.JobEnded() | e.JobRequeued() | e.JobReturned():
                    self._close(event.job, self.open_jobs.pop(event.job, set()))
                case e.AllocationShrunk() | e.AllocationLost():
                    self._shrink(event, cluster)
                case _:
                    pass

    def _run(self, event: e.InstancesDispatched) -> None:
        link = self.links.get(event.place[0][0])
        if link is not None:
            link.send(m.Run(job=event.job, task=event.task, place=event.place, attempts=event.attempts))

    def open_job(self, cluster: Cluster, job: JobId, only: str | None = None) -> None:
        """Tell the nodes of a job's allocation, or only one of them, about the job."""
        record = cluster.jobs.get(job)
        if record is None or record.run is None or not record.run.allocation:
            return
        message = m.OpenJob(
            job=job,
            owner=record.owner,
            uid=record.uid,
            gid=record.gid,
            spec=record.spec,
            allocation=tuple(record.run.allocation.items()),
            deadline=NEVER if record.run.deadline is None else record.run.deadline,
        )
        for node in record.run.allocation:
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

    def _shrink(self, event: e.AllocationShrunk | e.AllocationLost, cluster: Cluster) -> None:
        record = cluster.jobs.get(event.job)
        held = record.run.allocation if record is not None and record.run is not None else {}
        left = {node for node, _ in event.removed if node not in held}
        self.open_jobs.get(event.job, set()).difference_update(left)
        self._close(event.job, left)

    def _close(self, job: JobId, nodes: set[str]) -> None:
        for node in sorted(nodes):
            link = self.links.get(node)
            if link is not None:
                link.send(m.CloseJob(job=job))

    # What nodes say

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one agent until it goes away."""
        link: Link | None = None
        try:
            if _may_join(writer):
                link = await self._greet(reader, writer)
            if link is not None:
                await self._listen(reader, link)
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

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Link | None:
        first = await read_frame(reader, m.LARGEST_MESSAGE)
        hello = _decoder.decode(first) if first is not None else None
        if not isinstance(hello, m.Hello):
            return None
        link = Link(hello.facts.name, writer)
        if hello.protocol != m.PROTOCOL:
            link.send(m.Goodbye(reason=f"this head speaks protocol {m.PROTOCOL}, not {hello.protocol}"))
            return None
        await self._ask(c.RegisterNode(facts=hello.facts, approved=True))
        before = self.links.get(link.node)
        if before is not None:
            log.warning("node %s connected a second time; the newer connection stays", link.node)
            before.close()
        self.links[link.node] = link
        link.send(self._welcome())
        await self._reconcile(link, hello)
        log.info("node %s is here: %d tasks live", link.node, len(hello.live))
        return link

    async def _reconcile(self, link: Link, hello: m.Hello) -> None:
        """Put the node's table and ours right, whatever was lost since they last agreed."""
        cluster = self._cluster()
        for job in hello.open_jobs:
            record = cluster.jobs.get(job)
            held = record.run.allocation if record is not None and record.run is not None else {}
            if link.node in held:
                self.open_jobs.setdefault(job, set()).add(link.node)
            else:
                link.send(m.CloseJob(job=job))
        plan = wanted(cluster, link.node, hello)
        for job in sorted(cluster.running):
            self.open_job(cluster, job, only=link.node)
        for message in (*unwanted(cluster, hello), *plan.messages):
            link.send(message)
        for report in plan.lost:
            await self._ask(report)

    async def _listen(self, reader: asyncio.StreamReader, link: Link) -> None:
        while (data := await read_frame(reader, m.LARGEST_MESSAGE)) is not None:
            message = _decoder.decode(data)
            match message:
                case m.Started(job=job, begun=begun):
                    said = tuple(e.Begun(b.task, b.instance, b.attempt, b.at) for b in begun)
                    self._report(c.ReportStarted(node=link.node, job=job, begun=said), link, None)
                case m.Results():
                    self._report(_report_of(link.node, message), link, message.number)
                case _:
                    pass

    def _report(self, command: c.Command, link: Link, number: int | None) -> None:
        task = asyncio.ensure_future(self._ask(command))
        task.add_done_callback(lambda done: _acknowledge(done, link, number))


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
