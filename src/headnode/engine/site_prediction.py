"""When jobs start in another scheduler: our own scheduler run ahead over its queue, and corrected.

It learns how long jobs run from those that have ended, and how far predictions were wrong from all jobs that
it saw wait and start.  It does not know fair share, limits of accounts, or jobs that are not shown.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from headnode.core.batch.dialect import ForeignState
from headnode.core.batch.site import SiteFacts, SiteJob, SiteSnapshot
from headnode.core.batch.slurm_reasons import may_start
from headnode.core.batch.slurm_site import node_names
from headnode.core.model.job import HeldAmounts, JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.scheduling.node_view import NodeView, held_with
from headnode.core.scheduling.prediction.calibration import Calibration, PredictedWait
from headnode.core.scheduling.prediction.run_times import JobTraits, RunTimeHistory
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.engine.prediction import (
    MAX_JOBS,
    MIN_JOBS,
    ExpectedStart,
    PredictionInput,
    PredictionResult,
    drawn,
)

SHORT_WAIT = 60.0  # seconds: a site starts jobs in passes that are as far apart
MAX_ELEMENTS = 100  # of an array that are simulated
MAX_KNOWN = 50_000  # ended jobs whose ids are remembered, so that each teaches once
_ENDED_BY_OTHERS = frozenset({"CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "failed 100"})


class SiteSituation(NamedTuple):
    """The queue of a site as input of a prediction, and the ids there of the jobs in it."""

    ahead: PredictionInput
    ids: dict[JobId, str]


class SiteForecast:
    """What is known of one site, and what follows for the starts of its waiting jobs."""

    def __init__(self) -> None:
        self.snapshot: SiteSnapshot | None = None
        self.history, self.calibration = RunTimeHistory(), Calibration(short=SHORT_WAIT)
        self.judged = 0  # predictions whose start was seen
        self.most_jobs = MAX_JOBS
        self.ended: OrderedDict[str, SiteJob] = OrderedDict()  # the newest, oldest first
        self.computed: Instant | None = None
        self._expected: dict[str, ExpectedStart] = {}
        self._foreseen: dict[str, tuple[Instant, PredictedWait]] = {}
        self._ids: dict[JobId, str] = {}  # of the last situation

    def observe(self, snapshot: SiteSnapshot) -> None:
        """Take in what the site shows now, and learn from it."""
        self.snapshot = snapshot
        there = set()
        for job in (*snapshot.ended, *snapshot.jobs):
            there.add(job.id)
            if job.state is not ForeignState.WAITING:
                self._expected.pop(job.id, None)
                self._calibrate(job)
            if job.state is ForeignState.ENDED and job.id not in self.ended:
                self._learn(snapshot, job)
        if not snapshot.left_out:
            for gone in self._foreseen.keys() - there:
                del self._foreseen[gone]
        while len(self.ended) > MAX_KNOWN:
            self.ended.popitem(last=False)

    def _learn(self, snapshot: SiteSnapshot, job: SiteJob) -> None:
        self.ended[job.id] = job
        if job.started is None or job.ended is None or job.ended <= job.started:
            return
        used = Seconds(job.ended - job.started)
        if job.word not in _ENDED_BY_OTHERS or used >= job.limit:
            self.history.learn(traits_of(snapshot.facts, job), used)

    def _calibrate(self, job: SiteJob) -> None:
        foreseen = self._foreseen.pop(job.id, None)
        if foreseen is None or job.started is None or job.started <= foreseen[0]:
            return
        made, wait = foreseen
        self.judged += 1
        self.calibration.learn(wait, Seconds(job.started - made), job.started)

    def expected(self, job: str) -> ExpectedStart | None:
        """Return the expected start of a waiting job by its id there; None if it is not known."""
        return self._expected.get(job)

    def situation(self) -> PredictionInput | None:
        """Return the queue as input of a prediction; None if there is nothing to predict."""
        found = None if self.snapshot is None else self._situation(self.snapshot)
        self._expected, self._ids = ({}, {}) if found is None else (self._expected, found.ids)
        return None if found is None else found.ahead

    def with_jobs(self, jobs: Sequence[SiteJob]) -> "SiteSituation | None":
        """Return the queue with jobs that could be submitted; None if nothing can be predicted.

        A job without a partition is for the default one.
        """
        if self.snapshot is None:
            return None
        default = self.snapshot.facts.partition("")
        usual = () if default is None else (default.name,)
        added = [msgspec.structs.replace(job, partitions=job.partitions or usual) for job in jobs]
        return self._situation(msgspec.structs.replace(self.snapshot, jobs=(*self.snapshot.jobs, *added)))

    def starts_of(self, situation: "SiteSituation", outlook: PredictionResult) -> dict[str, Instant]:
        """Return the corrected starts of all jobs of which one was seen, by their ids; half start by then."""
        now, found = situation.ahead.view.now, {}
        for number, foreseen in outlook.foreseen.items():
            wait = self.calibration.expected(foreseen).p50
            if number in situation.ids and isfinite(wait):
                found[situation.ids[number]] = Instant(now + wait)
        return found

    def _situation(self, snapshot: SiteSnapshot) -> "SiteSituation | None":
        if not snapshot.nodes:
            return None
        numbered = {JobId(number): job for number, job in enumerate(snapshot.jobs, 1)}
        view = _view(snapshot, numbered, self.most_jobs)
        waiting = [turn.job for each in view.queue for turn in each.turns]
        if not waiting:
            return None
        jobs = {number: numbered[_job_of(number, len(numbered))] for number in waiting}
        ids = {number: job.id for number, job in jobs.items() if number in numbered}
        facts, forecast = snapshot.facts, self.history.forecast
        lasts = {number: drawn(number, forecast(traits_of(facts, job))) for number, job in jobs.items()}
        ends = {}
        for running in view.running:
            job = numbered[running.job]
            since = job.started or view.now
            likely = forecast(traits_of(snapshot.facts, job), Seconds(max(0.0, view.now - since)))
            ends[running.job] = [Instant(since + each) for each in drawn(running.job, likely)]
        return SiteSituation(PredictionInput(view, snapshot.facts.policy, {}, ends, lasts), ids)

    def accept(self, situation: PredictionInput, outlook: PredictionResult) -> None:
        """Take over what was seen ahead; the first prediction of each job is kept to be judged."""
        looked_at, now = len(situation.lasts), situation.view.now
        if not outlook.whole:
            self.most_jobs = max(MIN_JOBS, looked_at // 2)
        elif looked_at >= self.most_jobs:
            self.most_jobs = min(MAX_SIMULATED, self.most_jobs * 2)
        self.computed = now
        self._expected = {}
        for number, foreseen in outlook.foreseen.items():
            job = self._ids.get(number)
            if job is None or not isfinite(foreseen.middle):
                continue
            wait = self.calibration.expected(foreseen)
            p90 = Instant(now + wait.p90) if isfinite(wait.p90) else None
            self._expected[job] = ExpectedStart(None, Instant(now + wait.p50), p90)
            self._foreseen.setdefault(job, (now, foreseen))


MAX_SIMULATED = 3_000  # waiting jobs of a site that are looked at, where that is quick


def traits_of(facts: SiteFacts, job: SiteJob) -> JobTraits:
    """Return what is known of a job there before it runs."""
    return JobTraits(job.user, job.name, limit_of(facts, job))


def limit_of(facts: SiteFacts, job: SiteJob) -> Seconds:
    """Return the time limit of a job, which may be that of its partition."""
    partition = facts.partition(job.partitions[0]) if job.partitions else None
    if isfinite(job.limit) or partition is None:
        return job.limit
    return partition.default_time or partition.most_time


def ahead_of(snapshot: SiteSnapshot, job: SiteJob) -> list[SiteJob]:
    """Return the waiting jobs that go first: by priority, where they compete for a partition."""
    own, wanted = turn_of(job), set(job.partitions)
    return sorted(
        (
            other
            for other in snapshot.jobs
            if other.state is ForeignState.WAITING
            and may_start(other.reason)
            and turn_of(other) < own
            and not wanted.isdisjoint(other.partitions)
        ),
        key=turn_of,
    )


def turn_of(job: SiteJob) -> tuple[int, float, str]:
    """Return the place of a job in the queue there: the smallest goes first."""
    return -job.priority, job.submitted or 0.0, job.id


def _job_of(number: JobId, jobs: int) -> JobId:
    """Return the row of an element of an array; the first element has the number of the row itself."""
    return JobId((number - 1) % jobs + 1)


def _view(snapshot: SiteSnapshot, numbered: Mapping[JobId, SiteJob], most: int) -> View:
    nodes = {node.name: _node_view(snapshot, node.name, at) for at, node in enumerate(snapshot.nodes)}
    running = list(_running(snapshot, numbered, nodes))
    waiting = sorted(
        (turn_of(job), number, job)
        for number, job in numbered.items()
        if job.state is ForeignState.WAITING and may_start(job.reason)
    )
    queue: dict[JobRequest, list[QueuePosition]] = {}
    left = most
    for order, (_, number, job) in enumerate(waiting):
        turns = queue.setdefault(_request(snapshot, job), [])
        count = min(job.elements, MAX_ELEMENTS, left)
        turns += (
            QueuePosition(0, -job.priority, order, JobId(number + len(numbered) * element))
            for element in range(count)
        )
        left -= count
        if left == 0:
            break
    return View(
        now=snapshot.at,
        nodes=nodes,
        queue=[WaitingClass(request, sorted(turns)) for request, turns in queue.items() if turns],
        running=running,
    )


def _node_view(snapshot: SiteSnapshot, name: str, at: int) -> NodeView:
    node = snapshot.nodes[at]
    hidden = node.allocated if snapshot.facts.hides_jobs else 0
    facts = NodeFacts(
        name=name,
        processors=max(1, node.processors),
        memory=node.memory,
        groups=node.partitions,
        features=node.features,
    )
    return NodeView(facts=facts, free=max(0, facts.processors - hidden), closed=node.closed)


def _running(
    snapshot: SiteSnapshot, numbered: Mapping[JobId, SiteJob], nodes: dict[str, NodeView]
) -> Iterator[RunningJob]:
    """Yield the running jobs, and take what they hold from the nodes."""
    hides = snapshot.facts.hides_jobs
    for number, job in numbered.items():
        if job.state is not ForeignState.RUNNING:
            continue
        names = [name for name in node_names(job.nodes, len(nodes)) if name in nodes]
        request = _request(snapshot, job)
        shares = []
        for at, name in enumerate(names):
            node = nodes[name]
            share = job.processors // len(names) + (at < job.processors % len(names))
            if request.exclusive:
                share = node.facts.processors
            share = share if hides else min(share, node.free)
            if share > 0:
                shares.append((name, share))
                nodes[name] = msgspec.structs.replace(
                    held_with(node, request, share, first=True),
                    free=node.free if hides else node.free - share,
                    jobs=node.jobs + 1,
                    exclusive_to=number if request.exclusive else node.exclusive_to,
                )
        if shares:
            end = Instant((job.started or snapshot.at) + request.run_time)
            turn = QueuePosition(0, -job.priority, 0, number)
            yield RunningJob(number, turn, request, max(end, snapshot.at), tuple(shares))


def _request(snapshot: SiteSnapshot, job: SiteJob) -> JobRequest:
    facts = snapshot.facts
    whole = job.exclusive or facts.whole_nodes
    size = job.node_count if whole else job.processors
    return JobRequest(
        unit=UnitType.NODE if whole else UnitType.PROCESSOR,
        minimum=size,
        maximum=size,
        exclusive=whole,
        single_node=False,
        run_time=limit_of(facts, job),
        licences=(),
        node_groups=job.partitions,
        node_group_op=NodeGroupOp.UNIFORM,
        requested_nodes=(),
        required_nodes=(),
        excluded_nodes=(),
        order_by=(),
        minimum_memory=None,
        maximum_memory=None,
        minimum_processors_per_node=None,
        maximum_processors_per_node=None,
        held=HeldAmounts(memory=job.memory if facts.counts_memory else 0),
        needs=NodeNeeds(features=job.features),
    )
