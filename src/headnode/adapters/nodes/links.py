"""The head's end of the connections to its nodes."""

import asyncio
import logging
import math
import os
import socket
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import read_frame
from headnode.adapters.nodes.hooks import HOOK_PARAMETERS, cleaned_on, hooks_of
from headnode.adapters.nodes.keeping_alive import keep_alive
from headnode.adapters.nodes.link import PATIENCE, Link
from headnode.adapters.nodes.reconciling import (
    awaits_word,
    deadline_of,
    expected_digest,
    health_check,
    releases_nodes,
    standing,
    still,
    unwanted,
    wanted,
)
from headnode.adapters.nodes.relaying import Relay
from headnode.adapters.nodes.sessions import Sessions
from headnode.adapters.nodes.tables import check_text
from headnode.adapters.nodes.whereabouts import Whereabouts
from headnode.core.launching.processors import binds
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord, encode_spec
from headnode.core.model.errors import HeadnodeError, NotAllowed, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.engine.settings import Settings

log = logging.getLogger("headnode.nodes")

Ask = Callable[[c.Command], Awaitable[object]]
"""Give a command to the engine; the answer comes when it is durable.  Raises what refuses it."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(m.FromAgent)


class _Shown(NamedTuple):
    """What the certificate of a connection says: the node, and the digest of its key."""

    node: str
    key: str


class NodeLinks:
    """All connections, and what durable events mean for the nodes behind them."""

    def __init__(self, ask: Ask, welcome: Callable[[], m.Welcome], cluster: Callable[[], Cluster]) -> None:
        self._ask = ask
        self._welcome = welcome
        self._cluster = cluster
        self.links: dict[str, Link] = {}
        self.open_jobs: dict[JobId, set[str]] = {}
        self.leases: dict[
            str, float
        ] = {}  # seconds for which a node may believe that nobody gets what it runs
        self.sessions = Sessions(self._say)
        self._relay = Relay(self._say, self.sessions)
        self._whereabouts: Whereabouts | None = None  # worked out when it is needed first
        self._arriving: dict[str, asyncio.StreamWriter] = {}  # connections that have not said hello

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
                case e.NodesCleaning(job=job, nodes=nodes):
                    self.open_jobs.get(job, set()).difference_update(nodes)
                    self._close(job, set(nodes))
                case e.ParameterSet(name=name) if name in HOOK_PARAMETERS:
                    for job in sorted(cluster.flows):
                        self.open_job(cluster, job)
                case e.JobSuspending():
                    self._tell_standing(cluster, event.job)
                case e.JobEnding() if releases_nodes(cluster, event.job):
                    self.open_job(cluster, event.job)
                    self._tell_standing(cluster, event.job)
                case e.ClockSet():
                    for job in sorted(cluster.running):
                        self.open_job(cluster, job)
                case e.JobResumed():
                    self.open_job(cluster, event.job)
                    self._tell_standing(cluster, event.job)
                case e.JobEnded() | e.JobRequeued() | e.JobReturned():
                    self._close(event.job, self.open_jobs.pop(event.job, set()))
                case e.NodeRemoved(node=node) if node in self.links:
                    self.links[node].send(m.Goodbye(reason="this node was removed from the cluster"))
                    self.links[node].close()
                case e.NodeApproved(node=node) if node in self.links:
                    self._order_check(self.links[node], cluster)
                case e.ParameterSet(name="HealthCheckProgram" | "HealthCheckInterval"):
                    for link in self.links.values():
                        self._order_check(link, cluster, changed=True)
                case e.AllocationShrunk() | e.AllocationLost():
                    self._shrink(event, cluster)
                case _:
                    pass
        self._relay.end_what_is_over(events, cluster)
        self._where().note(events)

    def _where(self) -> Whereabouts:
        if self._whereabouts is None:
            self._whereabouts = Whereabouts(self._cluster())
        return self._whereabouts

    def _say(self, node: str, message: m.FromHead) -> None:
        if node in self.links:
            self.links[node].send(message)

    def _run(self, event: e.InstancesDispatched) -> None:
        link = self.links.get(event.place[0][0])
        if link is not None:
            link.hand_over(m.Run(job=event.job, task=event.task, place=event.place, attempts=event.attempts))

    def open_job(self, cluster: Cluster, job: JobId, only: str | None = None) -> None:
        """Tell the nodes of a job's allocation, or only one of them, about the job."""
        record = cluster.jobs.get(job)
        if record is None or record.run is None or not record.run.places:
            return
        if only is not None and only not in record.run.places:
            return
        entered = [node for node in record.run.places if node not in record.run.cleaning]
        spec, settings = cluster.spec(record), Settings(cluster.parameters)
        message = m.OpenJob(
            job=job,
            owner=record.owner,
            uid=record.uid,
            gid=record.gid,
            spec=_spec_of(cluster, record),
            allocation=tuple(record.run.places.items()),
            deadline=deadline_of(record),
            suspendable=spec.suspendable,
            parts=record.run.parts,
            bound=binds(settings.text("AffinityType"), exclusive=spec.exclusive),
            memory_limited=settings.text("EnforceMemory") == "yes",
            most_processes=int(settings.number("JobProcessLimit")),
            same_numbers=settings.text("UserMapping") == "name-and-number",
            now=_now(),
            hooks=hooks_of(settings, record.run),
        )
        encoded = _encoder.encode(message)
        mark = zlib.crc32(encoded)
        for node in entered if only is None else {only} & set(entered):
            link = self.links.get(node)
            if link is not None:
                link.send_encoded(encoded)
                link.opened[job] = mark
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
                link.send(replace(message, now=_now()) if isinstance(message, m.Continue) else message)

    def _shrink(self, event: e.AllocationShrunk | e.AllocationLost, cluster: Cluster) -> None:
        record = cluster.jobs.get(event.job)
        held = record.run.places if record is not None and record.run is not None else {}
        left = {node for node, _ in event.removed if node not in held}
        opened = self.open_jobs.get(event.job, set())
        self._close(event.job, left & opened)  # the others were told when they were to be cleaned
        opened.difference_update(left)

    def _close(self, job: JobId, nodes: set[str]) -> None:
        for node in sorted(nodes):
            link = self.links.get(node)
            if link is not None:
                self._close_on(link, job)

    def _close_on(self, link: Link, job: JobId) -> None:
        link.opened.pop(job, None)
        link.send(m.CloseJob(job=job))

    def _order_check(self, link: Link, cluster: Cluster, *, changed: bool = False) -> None:
        """Tell a node which health check it runs, if there is one or was one."""
        node, check = cluster.nodes.get(link.node), health_check(cluster, link.node)
        if check.program or changed or (node is not None and any(x.cause == "health" for x in node.drains)):
            link.send(check)

    def silent(self, patience: Mapping[str, float]) -> list[str]:
        """Hang up on the nodes that have said nothing for so long (seconds, by name), and return them."""
        now = time.monotonic()
        found = [link for link in self.links.values() if now - link.heard > patience.get(link.node, math.inf)]
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
        welcome = replace(self._welcome(), state_directory="", far=True)
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
                self.sessions.node_away(link.node)
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
        first = await self._first_message(reader, writer, shown)
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
        link.send(replace(welcome, now=_now()))
        self._order_check(link, self._cluster())
        await self._put_right(link, hello)
        log.info("node %s is here: %d tasks live", link.node, len(hello.live))
        return link

    async def _first_message(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, shown: "_Shown | None"
    ) -> bytes | None:
        """Return the first message of a connection; each certificate may have one that has said nothing yet.

        Who shows a certificate and is no node of ours, or not yet, may only say little.
        """
        if shown is None:
            async with asyncio.timeout(PATIENCE):
                return await read_frame(reader, m.LARGEST_REPORT)
        before = self._arriving.get(shown.node)
        if before is not None:
            before.transport.abort()
        self._arriving[shown.node] = writer
        node = self._cluster().nodes.get(shown.node)
        is_in = node is not None and node.key == shown.key and node.state is not NodeState.PENDING
        try:
            async with asyncio.timeout(PATIENCE):
                return await read_frame(reader, m.LARGEST_REPORT if is_in else m.LARGEST_GREETING)
        finally:
            if self._arriving.get(shown.node) is writer:
                del self._arriving[shown.node]

    async def _put_right(
        self, link: Link, holdings: m.Holdings, fresh: Collection[tuple[int, int, int, int]] = ()
    ) -> None:
        """Put the node's table and ours right, whatever was lost since they last agreed."""
        cluster = self._cluster()
        held, opened = cluster.on_node(link.node), dict(holdings.opened)
        anew = isinstance(holdings, m.Hello)  # commands of people end with the connection, and not before
        dirty = cleaned_on(cluster, link.node)
        for job in holdings.open_jobs:
            if job in dirty:
                self._close_on(link, job)
            elif job in held:
                self.open_jobs.setdefault(job, set()).add(link.node)
            elif job > 0 or anew:
                self._close_on(link, job)
        plan = wanted(link.node, self._where().of(link.node, cluster), holdings, fresh)
        for job in sorted((held & cluster.flows.keys()) - dirty):
            if job not in opened or link.opened.get(job) != opened[job]:
                self.open_job(cluster, job, only=link.node)
        for message in (
            *still(cluster, link.node, holdings),
            *unwanted(cluster, link.node, holdings),
            *plan.messages,
        ):
            link.send(message)
        self._learn_launched(link, holdings.launched if anew else _of_tasks(holdings.launched))
        for report in plan.reports:
            await self._ask(report)
        for job in sorted(dirty - set(holdings.open_jobs)):
            await self._ask(c.ReportClosed(node=link.node, job=job))

    def _learn_launched(self, link: Link, launched: Sequence[m.Live]) -> None:
        if launched:
            self._relay.greeted(link.node, launched, self._cluster())

    async def _listen(self, reader: asyncio.StreamReader, link: Link) -> None:
        while (data := await read_frame(reader, m.LARGEST_REPORT)) is not None:
            message = _decoder.decode(data)
            link.heard = time.monotonic()
            match message:
                case m.Heartbeat():
                    self._answer(link, message)
                case m.Table():
                    await self._compare(link, message)
                case m.Started(job=job, begun=begun):
                    link.began(message)
                    said = tuple(e.Begun(b.task, b.instance, b.attempt, b.at) for b in begun)
                    self._report(c.ReportStarted(node=link.node, job=job, begun=said), link, None)
                case m.JobReady(job=job):
                    self._report(c.ReportReady(node=link.node, job=job), link, None)
                case m.JobClosed(job=job) if job in cleaned_on(self._cluster(), link.node):
                    self._report(c.ReportClosed(node=link.node, job=job), link, None)
                case m.HookFailed():
                    self._hook_failed(message, link)
                case m.Suspended(job=job, number=number):
                    self._report(c.ReportSuspended(node=link.node, job=job, number=number), link, None)
                case m.OutputRead(number=number) | m.OutputListed(number=number):
                    link.answered(number, message)
                case m.Launch() | m.LaunchPiece() | m.LaunchTaken() | m.LaunchesOver():
                    self._relay.pass_on(link.node, message, self._cluster())
                case m.Health(well=well, said=said):
                    self._report(c.ReportHealth(node=link.node, well=well, said=said), link, None)
                case m.Results():
                    self._report(_report_of(link.node, message), link, message.number)
                case _:
                    pass

    def _answer(self, link: Link, heartbeat: m.Heartbeat) -> None:
        """Answer a heartbeat, and ask for the table when something must have been lost, or may have been."""
        cluster = self._cluster()
        known = self._where().of(link.node, cluster)
        if heartbeat.digest and (
            heartbeat.digest != expected_digest(cluster, link.node, known, link.opened.items())
            or awaits_word(cluster, link.node, known)
        ):
            link.ask_for_table()
        self._learn_launched(link, _of_tasks(heartbeat.launched))
        lease = Settings(cluster.parameters).lease()
        self.leases[link.node] = max(heartbeat.lease, lease)
        link.send(m.Heard(number=heartbeat.number, lease=lease, now=_now()))

    async def _compare(self, link: Link, table: m.Table) -> None:
        """Put right what a node's table shows; one that is twice or too late shows nothing."""
        fresh = link.fresh_at(table)
        if fresh is None:
            return
        check = health_check(self._cluster(), link.node)
        if table.check != check_text(check.program, check.every):
            link.send(check)
        await self._put_right(link, table, fresh)

    def _hook_failed(self, message: m.HookFailed, link: Link) -> None:
        """Note that a prolog or an epilog failed; the node hears when that is durable."""
        command = c.ReportHook(node=link.node, job=message.job, hook=message.hook, said=message.said)
        task = asyncio.ensure_future(self._ask(command))

        def heard(done: "asyncio.Future[object]") -> None:
            _acknowledge(done, link, None)
            if not done.cancelled() and done.exception() is None:
                link.send(m.HookHeard(job=message.job, hook=message.hook))

        task.add_done_callback(heard)

    def _report(self, command: c.Command, link: Link, number: int | None) -> None:
        task = asyncio.ensure_future(self._ask(command))
        task.add_done_callback(lambda done: _acknowledge(done, link, number))


def _now() -> Instant:
    """Return the time of day of this machine, by which deadlines are told."""
    return Instant(time.time())


def _of_tasks(launched: Sequence[m.Live]) -> list[m.Live]:
    """Return those that tasks have launched, not people."""
    return [live for live in launched if live.job > 0 and live.task > 0]


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
    """Return the description that a node is told: with the request that the job was given for its own.

    The release of a node takes no longer than the cluster allows it.
    """
    given = record.run is not None and record.run.option
    flow = cluster.flows.get(record.id)
    if flow is None or flow.release is None:
        return encode_spec(cluster.spec(record)) if given else record.spec
    spec, limit = flow.spec, Seconds(Settings(cluster.parameters).number("NodeReleaseTaskTimeout"))
    tasks = list(spec.tasks)
    tasks[flow.release] = replace(tasks[flow.release], run_time=min(tasks[flow.release].run_time, limit))
    return encode_spec(replace(spec, tasks=tuple(tasks)))


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
            bytes_read=r.bytes_read,
            bytes_written=r.bytes_written,
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
