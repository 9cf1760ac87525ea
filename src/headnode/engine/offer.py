"""One offer of resources to a job that activation filters must let start, and whether it still holds.

Source: HPC filters, "Job activation filters and their return values".
"""

from bisect import bisect_left
from enum import Enum

import msgspec

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.units import units_in
from headnode.core.model.job import JobRequest
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.engine.passes import Giving


class Stage(Enum):
    """Where an offer is."""

    ASKED = 1  # the filters have not answered
    CLEARED = 2  # they let the job have it
    KEPT = 3  # they do not, and it is kept for the job


class Offer(msgspec.Struct):
    """What a job was offered.  `firm`: policies see it as held."""

    number: int
    job: JobId
    giving: Giving
    units: int
    request: JobRequest  # of the job, when it was offered: a job that was changed is asked about again
    firm: bool = False
    stage: Stage = Stage.ASKED
    again: Instant = NEVER  # when its filters are asked again

    @property
    def grows(self) -> bool:
        """Whether it is for a running job."""
        return isinstance(self.giving, c.GrowJob)

    @property
    def backfilled(self) -> bool:
        """Whether the job would start before one that goes first."""
        return isinstance(self.giving, c.StartJob) and self.giving.backfilled


def place_in(cluster: Cluster, record: JobRecord) -> int:
    """Return the place of a job in the queue, from 1; of a running one, where it would be."""
    turn = cluster.turn(record)
    return 1 + sum(bisect_left(turns, turn) for turns in cluster.queue.values())


def units_of(cluster: Cluster, record: JobRecord, wished: Giving) -> int:
    """Return how many of its units a job is offered."""
    option = wished.option if isinstance(wished, c.StartJob) else 0
    unit = cluster.request(record).option(option).unit
    return sum(units_in(unit, count, cluster.nodes[node].facts) for node, count in wished.shares)


def in_line(cluster: Cluster, record: JobRecord) -> bool:
    """Whether a job is in the queue, and nothing but filters and others keeps it there."""
    return (
        record.state is JobState.QUEUED
        and record.id not in cluster.held
        and not record.holds
        and not record.waits_for
    )


def stands(cluster: Cluster, offer: Offer) -> bool:
    """Whether a job may still have what it was offered, as far as the job and the nodes are concerned."""
    record = cluster.jobs.get(offer.job)
    if record is None or cluster.request(record) != offer.request:
        return False
    if not (record.state is JobState.RUNNING if offer.grows else in_line(cluster, record)):
        return False
    if not offer.firm:
        return True
    nodes = (cluster.nodes.get(node) for node, _ in offer.giving.shares)
    return all(node is not None and node.state is NodeState.READY for node in nodes)


def is_behind(cluster: Cluster, offer: Offer, blocker: JobRecord | None) -> bool:
    """Whether a job must wait behind another that blocks the queue."""
    if blocker is None or offer.grows or offer.job == blocker.id:
        return False
    return cluster.jobs[offer.job].priority <= blocker.priority
