"""Past jobs through the whole head: every start is the pool's, which is the reference simulators'."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from depth import share_of
from headnode.adapters.files.job_logs import read_log
from headnode.adapters.journal.event_table import OF_JOB, kind_of
from headnode.apps.simulate.engine_replay import STEP, EngineReplay
from headnode.apps.simulate.machine import SimulatedMachine, pool
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts
from headnode.core.model.workload import Workload
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay
from headnode.core.scheduling.view import View
from headnode.core.state.invariants import check_cluster
from headnode.core.state.job_events import JobCreated, JobEnded, JobEvent
from headnode.engine.recovery import recover, save

SIZE = 8
TRACES = Path(__file__).parents[3] / "shared" / "traces"


def worlds(count: int, jobs: int) -> Iterator[Workload]:
    """Yield crowded worlds: jobs of few kinds, many at the same instant, half of which end early."""
    dice = random.Random(5)
    for _ in range(count):
        kinds = [(dice.randint(1, SIZE), dice.randint(2, 12)) for _ in range(5)]
        rows, submit = [], 0
        for number in range(1, jobs + 1):
            submit += dice.choice((0, 0, 1, 2, 5))
            processors, estimate = dice.choice(kinds)
            run_time = dice.choice((estimate, dice.randint(1, estimate)))
            rows.append((number, submit, run_time, estimate, processors))
        yield Workload(*zip(*rows, strict=True))


def pooled(workload: Workload, policy: str, ties: Ties, size: int = SIZE) -> list[float]:
    return list(replay(workload, POOL_POLICIES[policy](workload, size, ties), ties))


def first(workload: Workload, jobs: int) -> Workload:
    return Workload(*(column[:jobs] for column in workload))


# A round of looks at all reservations after each end is a rule of the lab under arrivals-first alone.
IN_BOTH = [
    (policy, ties)
    for policy in POLICIES
    for ties in Ties
    if (policy, ties) != ("conservative", Ties.ARRIVALS_FIRST)
]


@pytest.mark.parametrize(("policy", "ties"), IN_BOTH)
def test_every_start_is_that_of_the_pool(policy: str, ties: Ties) -> None:
    for workload in worlds(share_of(40), 60):
        assert EngineReplay(workload, pool(SIZE), policy).run(ties) == pooled(workload, policy, ties)


def test_nodes_of_one_processor_are_a_pool() -> None:
    nodes = tuple(NodeFacts(name=f"n{number}", processors=1) for number in range(SIZE))
    for workload in worlds(10, 60):
        starts = EngineReplay(workload, SimulatedMachine(nodes), "easy").run()
        assert starts == pooled(workload, "easy", Ties.ENDS_FIRST)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not beside the repository")
def test_a_real_log_starts_on_128_nodes_of_one_processor_as_in_a_pool() -> None:
    log = read_log(str(TRACES / "SDSC-SP2.swf.xz"))
    workload = first(log.workload, 400)
    nodes = tuple(NodeFacts(name=f"n{number}", processors=1) for number in range(log.processors))
    starts = EngineReplay(workload, SimulatedMachine(nodes), "easy").run()
    assert starts == pooled(workload, "easy", Ties.ENDS_FIRST, log.processors)


def test_every_job_lives_a_whole_life_and_ends_finished() -> None:
    for workload in worlds(3, 60):
        replayed = EngineReplay(workload, pool(SIZE), "easy")
        starts = replayed.run()
        found: dict[int, list[JobEvent]] = {}
        for _, event in replayed.journal.replay():
            if isinstance(event, JobEvent) and kind_of(event) == OF_JOB:
                found.setdefault(event.job, []).append(event)
        assert len(found) == 60
        for row, start in enumerate(starts):
            _, submitted, _, ended = course = found[row + 1]
            assert [type(each).__name__ for each in course] == [
                "JobCreated", "JobSubmitted", "JobStarted", "JobEnded"
            ]  # fmt: skip
            assert isinstance(ended, JobEnded)
            assert ended.outcome == "finished"
            assert (submitted.at, ended.at) == (workload.submits[row], start + workload.run_times[row])
        cluster = replayed.engine.cluster
        check_cluster(cluster)
        assert not cluster.jobs
        assert sum(map(len, cluster.cores.free.values())) == SIZE


def test_jobs_belong_to_the_users_of_their_log() -> None:
    alike = [1] * 4
    workload = Workload(range(4), range(4), alike, alike, alike, users=("7", "", "9", "7"))
    replayed = EngineReplay(workload, pool(1), "easy")
    replayed.run()
    created = [event for _, event in replayed.journal.replay() if isinstance(event, JobCreated)]
    assert [event.owner for event in created] == ["user7", "somebody", "user9", "user7"]


def test_what_happens_at_one_instant_is_seen_by_one_pass() -> None:
    for workload in worlds(3, 60):
        passes: list[float] = []

        def watched(view: View, passes: list[float] = passes) -> Plan:
            passes.append(view.now)
            return POLICIES["easy"](view)

        EngineReplay(workload, pool(SIZE), "watched", {"watched": watched}).run()
        assert passes == sorted(set(passes))


def test_what_a_replay_leaves_is_what_its_events_say() -> None:
    replayed = EngineReplay(next(worlds(1, 40)), pool(SIZE), "easy")
    replayed.run()
    remembered, number, _ = recover(replayed.journal)
    assert number == replayed.engine.number
    assert save(remembered) == save(replayed.engine.cluster)


def test_a_policy_that_never_starts_a_job_is_refused_with_its_number() -> None:
    workload = Workload((7, 9), (0, 0), (1, 1), (1, 1), (1, 1))

    def idle(view: View) -> Plan:
        return Plan((), (), {})

    with pytest.raises(BadRequest, match="never starts 2 of the jobs, the first of which is 7"):
        EngineReplay(workload, pool(1), "idle", {"idle": idle}).run()


def test_progress_is_reported_while_jobs_come() -> None:
    messages: list[int] = []
    jobs = 2 * STEP + 1
    workload = Workload(range(jobs), range(jobs), [1] * jobs, [1] * jobs, [1] * jobs)
    EngineReplay(workload, pool(1), "fcfs").run(progress=messages.append)
    assert messages == [STEP, 2 * STEP]
