"""Elastic pools at work: asks the policy what waits for more nodes, and lets allocations come and go."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

from headnode.adapters.own_python import module_command
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId, format_time_limit
from headnode.core.model.resource import ElasticPool
from headnode.core.scheduling.elastic_demand import NO_DEMAND, ElasticDemand, IdleNodes, elastic_demand
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode
from headnode.core.state.elastic import (
    ELASTIC,
    GiveBackNode,
    MakeElasticNode,
    SettleElasticNode,
    node_of_allocation,
)
from headnode.core.state.elastic_record import (
    CLOSES,
    YOUNG,
    ElasticAllocation,
    ElasticRecord,
    next_step,
)
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.engine.engine import Engine
from headnode.engine.view_builder import with_all_wants

if TYPE_CHECKING:
    from headnode.apps.server.doors.network import NetworkListener

log = logging.getLogger("headnode.elastic")

LOOK, PAUSE = 2.0, 0.1  # seconds between two looks, at most and at least
REST = 20  # the policy is asked again after so many times as long as its answer took
TRIES = 5  # to get the number of a job
CORRECTION = 5.0  # seconds by which the end of an allocation may be wrong without being corrected


class ElasticNodes:
    """The allocations of all elastic pools.  What it remembers itself may be lost: clocks, and sentences."""

    def __init__(
        self, engine: Engine, batcher: CommandBatcher, network: "Callable[[], NetworkListener | None]"
    ) -> None:
        self._engine, self._batcher, self._network = engine, batcher, network
        self.says: dict[str, str] = {}  # by pool: why it does not do more
        self._demands: dict[str, ElasticDemand] = {}
        self._idle_since: dict[JobId, Instant] = {}  # of nodes, by the job of the allocation
        self._unwanted_since: dict[str, Instant] = {}  # of pools with more allocations than are wanted
        self._ask_policy_at = 0.0  # not before, on the clock of the event loop
        self._wakes = asyncio.Event()

    @property
    def _cluster(self) -> ClusterState:
        return self._engine.cluster

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Look soon at what has happened."""
        if events and cluster.elastic.named:
            self._wakes.set()

    def secret_of(self, record: JobRecord) -> str:
        """Return what the agent of an allocation joins with; empty for any other job.

        It is made of the key of the cluster's authority, so that it is in no journal, and a head that was
        killed between the intention and the submission knows it.
        """
        found, network = self._cluster.elastic.of_job(record.id), self._network()
        if found is None or network is None or found[1].leaving or found[1].joined is not None:
            return ""
        return network.allocation_invitation(found[1].node)[0]

    async def keep(self) -> None:
        """Look after all pools for ever."""
        while True:
            self._wakes.clear()
            for record in list(self._cluster.elastic.named.values()):
                await self._tend_all(record)
            await self._follow_demands()
            await asyncio.sleep(PAUSE)
            if self._cluster.elastic.named:
                await self._wait(LOOK)
            else:
                await self._wakes.wait()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wakes.wait()
        except TimeoutError:
            return

    async def _tend_all(self, record: ElasticRecord) -> None:
        """Forget the allocations of a pool that are over, and give back those that are idle."""
        now = self._engine.clock.now()
        for each in list(record.allocations):
            job = self._cluster.jobs.get(each.job)
            if job is None:
                await self._ask(SettleElasticNode(name=record.pool.name, job=each.job))
            else:
                await self._tend(record, each, job, now)

    async def _follow_demands(self) -> None:
        """Ask the policy what waits for more nodes, not too often, and make or give back allocations.

        What makes allocations waits for commits: only the time of the policy counts for the rest.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._ask_policy_at:
            return
        took = 0.0
        for record in list(self._cluster.elastic.named.values()):
            if self._cluster.agenda.pass_needed or self._engine.closing:
                continue  # what waits may start where it is
            now, began = self._engine.clock.now(), loop.time()
            demand = self._demands[record.pool.key] = self._demand(record, now)
            took += loop.time() - began
            await self._meet_demand(record, demand, now)
        self._ask_policy_at = loop.time() + REST * took

    async def _meet_demand(self, record: ElasticRecord, demand: ElasticDemand, now: Instant) -> None:
        """Make and give back allocations of a pool, as its demand wants."""
        name = record.pool.name
        wanted = max(0, demand.nodes - self._joining(record, now))
        surplus = len(record.pending) > wanted
        since = self._unwanted_since.setdefault(record.pool.key, now) if surplus else now
        if not surplus:
            self._unwanted_since.pop(record.pool.key, None)
        step = next_step(record, wanted, now - since, now)
        network = self._network()
        self.says[record.pool.key] = step.reason if network is not None else NOT_LISTENING
        for job_id in step.give_back:
            await self._ask(GiveBackNode(name=name, job=job_id, reason="no waiting job wants it any more"))
        for _ in range(step.make if network is not None else 0):
            await self._make(record)

    async def _tend(
        self, record: ElasticRecord, one: ElasticAllocation, job: JobRecord, now: Instant
    ) -> None:
        """Correct the time at which the node closes, and give it back when it has nothing to do."""
        node, pool = self._cluster.nodes.get(one.node), record.pool
        if node is None or one.joined is None or one.leaving:
            return
        began = _began(job)
        if began is not None:
            closes = Instant(began + pool.usable_time)
            if closes > now and abs(closes - node.closes) > CORRECTION and node.closes > now:
                await self._ask(DrainNode(by=ELASTIC, node=one.node, closes=closes, reason=CLOSES))
        if self._cluster.on_node(one.node):
            self._idle_since.pop(one.job, None)
            return
        since = self._idle_since.setdefault(one.job, now)
        over = now >= (one.joined if began is None else began) + pool.usable_time
        if over or now - since >= pool.idle_time:
            why = "its time is over" if over else f"no job has used it for {now - since:.0f} s"
            await self._ask(GiveBackNode(name=pool.name, job=one.job, reason=why))
            self._idle_since.pop(one.job, None)

    def _demand(self, record: ElasticRecord, now: Instant) -> ElasticDemand:
        """Return what the policy would do with all the nodes that the pool may have, and has not."""
        pool = record.pool
        if record.removing:
            return NO_DEMAND
        there = len(record.allocations) - self._coming(record, now)
        most, policy = pool.most_nodes - there, self._engine.policy()
        coming = [
            _idle(other, self._coming(other, now))
            for other in self._cluster.elastic.named.values()
            if other is not record and not other.removing
        ]
        more = most * pool.processors + sum(each.like.processors * each.number for each in coming)
        view = with_all_wants(self._cluster, self._engine.view(now), more)
        return elastic_demand(view, policy, _idle(record, most), coming)

    def _coming(self, record: ElasticRecord, now: Instant) -> int:
        """Return how many allocations of a pool will be nodes on which jobs start."""
        return len(record.pending) + self._joining(record, now)

    def _joining(self, record: ElasticRecord, now: Instant) -> int:
        """Return how many have joined, and their agents are not connected yet."""
        nodes = self._cluster.nodes
        return sum(
            each.joined is not None
            and not each.leaving
            and now - each.joined < YOUNG
            and (node := nodes.get(each.node)) is not None
            and node.state is NodeState.UNREACHABLE
            for each in record.allocations
        )

    async def _make(self, record: ElasticRecord) -> None:
        network, pool = self._network(), record.pool
        if network is None:
            return
        for _ in range(TRIES):  # another job may get the number first
            job = JobId(self._cluster.next_job)
            _, digest = network.allocation_invitation(f"{pool.name}-{job}")
            made = MakeElasticNode(name=pool.name, agent=_agent_words(pool), job=job, digest=digest)
            refused = await self._ask(made)
            if refused is None:
                return
            self.says[pool.key] = f"no allocation was made: {refused.what}"

    async def _ask(self, command: Command) -> Refused | Unavailable | None:
        """Ask for what is due; what is refused or cannot be written now is seen again at the next look."""
        try:
            await self._batcher.ask(command)
        except (Refused, Unavailable) as error:
            log.info("%s: %s", type(command).__name__, error)
            return error
        return None

    def reasons(self, job: JobId) -> list[str]:
        """Return what the pools do for a job that waits for nodes, a sentence for each."""
        cluster = self._cluster
        return [self._reason(record, cluster.jobs[job]) for record in cluster.elastic.named.values()]

    def _reason(self, record: ElasticRecord, job: JobRecord) -> str:
        pool = record.pool
        demand, says = self._demands.get(pool.key, NO_DEMAND), self.says.get(pool.key, "it has not begun")
        if job.id in demand.jobs:
            coming = f"{len(record.pending)} nodes of it are coming" if record.pending else "it makes nodes"
            return f"the elastic pool {pool.name} is to run it; {coming}: {says}"
        span = self._cluster.request(job).run_time
        if span > pool.usable_time:
            limit = "it has no run time limit" if span == inf else f"it may run {format_time_limit(span)}"
            usable = format_time_limit(pool.usable_time)
            return f"the elastic pool {pool.name} makes no node for it: {limit}, and a node is there {usable}"
        others = self._cluster.elastic.named.items()
        taker = next((each for key, each in others if job.id in self._demands.get(key, NO_DEMAND).jobs), None)
        why = "its nodes would not let it start now" if taker is None else f"{taker.pool.name} makes one"
        return f"the elastic pool {pool.name} makes no node for it: {why}"


NOT_LISTENING = "the head does not listen for agents: hn down; hn up --listen HOST"


def _idle(record: ElasticRecord, count: int) -> IdleNodes:
    return IdleNodes(node_of_allocation(record.pool), record.pool.usable_time, count)


def _began(job: JobRecord) -> Instant | None:
    """Return when the job of an allocation began at the resource; None if that is not known yet."""
    lives = (live for each in (job.run.tasks if job.run else ()) for live in each.live.values())
    return next((live.started for live in lives if live.started is not None), None)


def _agent_words(pool: ElasticPool) -> tuple[str, ...]:
    if pool.python:
        return (pool.python, "-P", "-m", "headnode.apps.agent")
    return tuple(module_command("headnode.apps.agent", environment={}))
