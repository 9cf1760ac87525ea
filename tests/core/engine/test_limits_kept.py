"""Whatever jobs come, grow, end and are suspended: no user or project has more than its limits allow."""

import random
from collections import Counter

import pytest
from worlds import ADA, BOB, ROOT, World

from depth import seeds
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.job_record import started_run
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits

MOST = {
    "user,jobs,ada": 3,
    "user,processors,ada": 7,
    "user,gpus,ada": 2,
    "user,jobs,bob": 4,
    "project,processors,wind": 6,
    "project,gpus,wind": 3,
    "group,processors,staff": 8,
    "group,gpus,staff": 3,
}
LIMITS = {
    "UserLimits": "ada:jobs=3,processors=7,gpus=2;bob:jobs=4",
    "ProjectLimits": "wind:processors=6,gpus=3",
    "GroupLimits": "staff:processors=8,gpus=3",
}
MODES = [
    *({"SchedulingPolicy": policy} for policy in POLICIES),
    {"SchedulingPolicy": "easy", "SchedulingMode": "Balanced"},
    {"SchedulingPolicy": "easy", "PreemptionType": "Immediate"},
]


def world(**parameters: str) -> World:
    made = World()
    for number in (1, 2, 3):
        facts = NodeFacts(name=f"n{number}", processors=6, gpus=2, memory=1000)
        made.do(RegisterNode(facts=facts, approved=True))
    made.do(SetUserGroups(groups={user.name: ("staff",) for user in (ADA, BOB)}))
    for name, value in parameters.items():
        made.do(SetParameter(by=ROOT, name=name, value=value))
    return made


def held(made: World) -> Counter[str]:
    """Return what jobs hold of limits, counted anew from what their records say of nodes."""
    found: Counter[str] = Counter()
    for job in (*made.cluster.running, *made.cluster.detached):
        record, spec = made.record(job), made.cluster.spec(made.record(job))
        size = sum(map(len, started_run(record).places.values()))
        for owner in (f"user,{{}},{record.owner}", f"project,{{}},{spec.project}", "group,{},staff"):
            if job in made.cluster.running:
                found[owner.format("jobs")] += 1
                found[owner.format("processors")] += size
            if spec.unit is UnitType.GPU:
                found[owner.format("gpus")] += size // spec.processors_per_gpu
    return found


class Player:
    """Does something to a world again and again, and counts after each step."""

    def __init__(self, seed: int, mode: dict[str, str]) -> None:
        self.dice = random.Random(f"{seed} {mode}")
        self.world = world(**LIMITS, **mode)
        self.reached: set[str] = set()

    def step(self) -> None:
        made, dice = self.world, self.dice
        busy = made.nodes.running()
        suspended = [
            job for job in sorted(made.cluster.detached) if made.record(job).state is JobState.SUSPENDED
        ]
        running = [job for job in sorted(made.cluster.running) if made.record(job).state is JobState.RUNNING]
        match dice.randrange(9):
            case 0 | 1 | 2 | 3:
                self.submit()
            case 4 | 5 if busy:
                one = dice.choice(busy)
                made.do(made.nodes.ended(one, made.clock.now(), kind="exited", exit_code=0))
            case 6 | 7 if running and dice.random() < 0.5:
                job = dice.choice(running)
                made.do(SuspendJob(by=ROOT, job=job))
                made.do(*made.nodes.stopped(job))
            case 6 | 7 if suspended:
                made.do(ResumeJob(by=ROOT, job=dice.choice(suspended)))
            case _:
                made.wait(dice.choice((5.0, 60.0, 600.0)))

    def submit(self) -> None:
        dice = self.dice
        tasks = [TaskSpec(command="x", rerunnable=True)] * dice.choice((1, 1, 2, 4))
        options: dict[str, object] = {
            "project": dice.choice(("", "wind")),
            "run_time": Seconds(dice.choice((60.0, 600.0, 3600.0))),
            "priority": dice.choice((500, 1000, 2000)),
            "suspendable": True,
            "minimum": 1,
            "maximum": dice.randint(1, len(tasks)),
        }
        if dice.random() < 0.5:
            options |= {"unit": UnitType.GPU, "processors_per_gpu": dice.choice((1, 2))}
        elif dice.random() < 0.2:
            options["exclusive"] = True
        self.world.submit(*tasks, by=dice.choice((ADA, BOB)), **options)

    def check(self) -> None:
        now, view = held(self.world), self.world.engine.view(self.world.clock.now())
        for key, most in MOST.items():
            assert now[key] <= most, (key, now)
            if now[key] == most:
                self.reached.add(key)
            if key in view.licences:
                assert view.licences[key] == (most, most - now[key]), (key, now)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: " ".join(mode.values()))
def test_limits_hold_at_every_step_of_a_random_history(mode: dict[str, str]) -> None:
    reached: set[str] = set()
    for seed in seeds(12):
        player = Player(seed, mode)
        for _ in range(80):
            player.step()
            player.check()
        player.world.check_replay()
        reached |= player.reached
    assert len(reached) > 3, reached


@pytest.mark.parametrize("policy", POLICIES)
def test_a_limited_job_is_expected_to_start_when_a_job_of_its_user_ends(policy: str) -> None:
    made = world(UserLimits="*:jobs=1", SchedulingPolicy=policy)
    task = TaskSpec(command="x")
    for hours, user in ((2.0, ADA), (1.0, BOB)):
        made.submit(task, by=user, run_time=Seconds(hours * 3600))
    waiting = [made.submit(task, by=user, run_time=Seconds(600.0)) for user in (ADA, ADA, BOB)]
    now = made.clock.now()
    view = made.engine.view(now)
    found = simulate_ahead(view, POLICIES[policy], {}, to_the_limits(view), lambda: False)
    after = [(found.starts[job] - now) / 3600 for job in waiting]
    assert after == pytest.approx([2.0, 2.0 + 1 / 6, 1.0])


def test_a_limit_that_is_lowered_stops_no_job_and_lets_none_start_until_enough_have_ended() -> None:
    made = world(UserLimits="ada:jobs=3")
    jobs = [made.submit(TaskSpec(command="x"), by=ADA) for _ in range(4)]
    made.do(SetParameter(by=ROOT, name="UserLimits", value="ada:jobs=2"))
    states = [made.record(job).state for job in jobs]
    assert states == [*[JobState.RUNNING] * 3, JobState.QUEUED]
    made.end(jobs[0], 1)
    assert made.record(jobs[3]).state is JobState.QUEUED
    made.end(jobs[1], 1)
    assert made.record(jobs[3]).state is JobState.RUNNING
    assert made.clock.now() == Instant(1_000_000.0)
