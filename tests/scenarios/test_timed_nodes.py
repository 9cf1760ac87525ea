"""Nodes that know how long tasks take: each attempt is over once, at its time, or when it is stopped."""

from math import inf

from headnode.adapters.nodes.timed_nodes import TimedNodes
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched, InstancesStopping, JobStarted

PLACE = (("n1", (0,)),)
RUN_TIMES = {1: 10.0, 2: 5.0, 3: 5.0}


def started(job: int, at: float, attempt: int = 1, instances: int = 1) -> list[Event]:
    attempts = tuple((instance, attempt) for instance in range(1, instances + 1))
    return [
        JobStarted(at=Instant(at), job=JobId(job), allocation=PLACE),
        InstancesDispatched(at=Instant(at), job=JobId(job), task=1, placement=PLACE, attempts=attempts),
    ]


def nodes(*events: Event) -> TimedNodes:
    made = TimedNodes(lambda job: RUN_TIMES[job])
    made.perform(events, ClusterState())
    return made


def reported_ends(made: TimedNodes, now: float) -> list[tuple[int, int, str, float | None]]:
    return [
        (end.job, report.attempt, report.outcome.kind, report.outcome.ended)
        for end in made.over(now)
        for report in end.reports
    ]


def test_each_attempt_is_over_once_at_its_time() -> None:
    made = nodes(*started(1, 0.0))
    assert made.next_end() == 10
    assert reported_ends(made, 9.9) == []
    assert reported_ends(made, 10) == [(1, 1, "exited", 10)]
    assert reported_ends(made, 10) == []
    assert made.next_end() == inf
    assert made.starts == {1: 0}


def test_what_ends_together_is_reported_in_the_order_of_the_starts() -> None:
    first, second = started(3, 5.0), started(2, 5.0)
    made = nodes(*started(1, 0.0), first[0], second[0], second[1], first[1])  # dispatched the other way round
    assert [job for job, _, _, _ in reported_ends(made, 10)] == [1, 3, 2]


def test_every_instance_runs_by_itself() -> None:
    made = nodes(*started(2, 0.0, instances=3))
    assert len(reported_ends(made, 5)) == 3


def test_what_is_stopped_is_over_at_once_and_never_again() -> None:
    stop = InstancesStopping(at=Instant(3.0), job=JobId(1), task=1, instances=(1,), outcome="failed")
    made = nodes(*started(1, 0.0), *started(2, 0.0), stop)
    assert reported_ends(made, 3) == [(1, 1, "stopped", 3)]
    assert reported_ends(made, 99) == [(2, 1, "exited", 5)]


def test_a_second_attempt_takes_its_whole_time_again() -> None:
    made = nodes(*started(2, 0.0))
    made.over(5)
    made.perform(started(2, 7.0, attempt=2), ClusterState())
    assert reported_ends(made, 99) == [(2, 2, "exited", 12)]


def test_who_started_again_stands_behind_those_who_started_before() -> None:
    made = nodes(*started(1, 0.0), *started(3, 0.0))
    made.over(5)
    made.perform([*started(3, 5.0, attempt=2), *started(2, 5.0)], ClusterState())
    assert [job for job, _, _, _ in reported_ends(made, 10)] == [1, 3, 2]
