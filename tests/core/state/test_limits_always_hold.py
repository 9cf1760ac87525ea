"""Random histories with limits: no limit is exceeded, and what counts is counted."""

from collections import Counter

import pytest
from asked_filters import FilteredWorld
from msgspec.structs import replace
from test_histories import Player
from test_limits_of_owners import set_limits
from worlds import ROOT, World

from depth import seeds
from headnode.core.filtering import ActivationVerdict
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import SetParameter, SetUserGroups

MODES = ("easy", "fcfs", "conservative", "conservative-replan", "Balanced")
VERDICTS = [each for each in ActivationVerdict if each is not ActivationVerdict.FAIL]


class Limited(Player):
    """Sets and unsets limits at random; jobs change their projects, and users their groups."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.limit()

    def step(self) -> None:
        if self.random.random() < 0.06:
            self.limit()
        if self.random.random() < 0.06:
            self.regroup()
        super().step()

    def regroup(self) -> None:
        """Put users into groups at random."""
        r = self.random
        users = r.sample(("root", "ada", "bob"), k=r.randint(1, 3))
        groups = {user: tuple(sorted(r.sample(("g", "h"), k=r.randint(0, 2)))) for user in users}
        self.world.do(SetUserGroups(groups=groups))

    def limit(self) -> None:
        r = self.random

        def entry(name: str) -> str:
            amounts = r.sample(["jobs", "processors", "submitted"], k=r.randint(1, 3))
            return f"{name}:" + ",".join(f"{each}={r.choice((0, 1, 2, 5, 'unlimited'))}" for each in amounts)

        for scope, names in (
            (LimitScope.USER, ("*", "ada", "bob", "@g")),
            (LimitScope.PROJECT, ("*", "p", "q")),
            (LimitScope.GROUP, ("g", "h")),
        ):
            chosen = r.sample(names, k=r.randint(0, len(names)))
            value = ";".join(map(entry, chosen)) or None
            self.world.do(SetParameter(by=ROOT, name=scope.parameter, value=value))

    def spec(self) -> JobSpec:
        return replace(super().spec(), project=self.random.choice(("", "p", "q")))

    def modify(self) -> None:
        record = self.world.cluster.jobs.get(self.job())
        if record is None or self.random.random() < 0.5:
            super().modify()
            return
        new = replace(self.world.cluster.written(record), project=self.random.choice(("", "p", "q")))
        self.world.do(ModifyJob(by=ROOT, job=record.id, spec=new, fields=("project",)))


@pytest.mark.parametrize("seed", seeds(40))
def test_counts_and_requests_are_as_the_limits_say_after_every_step(seed: int) -> None:
    player = Limited(seed)
    for _ in range(220):
        player.step()
    player.world.check_replay()


def test_nothing_that_a_user_does_exceeds_the_number_of_submitted_jobs() -> None:
    most = 0
    for seed in seeds(40):
        player = Limited(seed)
        set_limits(player.world, "*:submitted=4", "p:submitted=2")
        player.limit = lambda: None
        for _ in range(220):
            player.step()
            index = player.world.cluster.limit_index
            there = [index.submitted(LimitScope.USER, name) for name in ("root", "ada", "bob")]
            most = max(most, *there)
            assert index.submitted(LimitScope.PROJECT, "p") <= 2
    assert most == 4


def held(world: World) -> tuple[Counter[str], Counter[str]]:
    """Return how many jobs run, and on how many processors, of each user and each project."""
    jobs, processors = Counter[str](), Counter[str]()
    for record in map(world.record, world.cluster.running):
        size = sum(map(len, record.run.allocation.values())) if record.run else 0
        for owner in (record.owner, f"project {world.cluster.written(record).project}"):
            jobs[owner] += 1
            processors[owner] += size
    return jobs, processors


class Busy(Limited):
    """Has enough processors, which stay; jobs are small and not held, and the limits stay as they are."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed)
        self.world = World(4, 4)
        parameter = "SchedulingMode" if mode == "Balanced" else "SchedulingPolicy"
        self.world.do(SetParameter(by=ROOT, name=parameter, value=mode))
        set_limits(self.world, "*:jobs=2,processors=3", "*:processors=4;p:jobs=1,processors=2")
        self.world.do(SetUserGroups(groups={"ada": ("g",), "bob": ("g",)}))
        self.world.do(SetParameter(by=ROOT, name="GroupLimits", value="g:jobs=3,processors=4"))

    def spec(self) -> JobSpec:
        small = {"holds": (), "exclusive": self.random.random() < 0.03}
        if self.random.random() < 0.7:
            small |= {"minimum": None, "maximum": None, "run_until_canceled": False}
        return replace(super().spec(), **small)

    def stays(self) -> None:
        """Do nothing: in place of what would leave the processors without jobs."""

    limit = regroup = parameter = hold = node = stays


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_happens_makes_running_jobs_exceed_a_limit(mode: str) -> None:
    full = Counter[str]()
    for seed in seeds(20):
        player = Busy(seed, mode)
        for _ in range(220):
            player.step()
            jobs, processors = held(player.world)
            for user in ("root", "ada", "bob"):
                assert (jobs[user] <= 2, processors[user] <= 3) == (True, True)
                full.update(jobs=jobs[user] == 2, processors=processors[user] == 3)
            assert (jobs["project p"] <= 1, processors["project p"] <= 2) == (True, True)
            assert processors["project q"] <= 4
            members = [(jobs[user], processors[user]) for user in ("ada", "bob")]
            of_group = tuple(map(sum, zip(*members, strict=True)))
            assert (of_group[0] <= 3, of_group[1] <= 4) == (True, True)
            full.update(p=jobs["project p"], g=(of_group[0] == 3) + (of_group[1] == 4))
    assert min(full["jobs"], full["processors"], full["p"], full["g"]) > 20


class BusyWithGpus(Busy):
    """Most jobs ask for GPUs; running and suspended ones hold them."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed, mode)
        for number in (1, 2):
            facts = NodeFacts(name=f"node{number}", processors=8, gpus=4, memory=1024)
            self.world.do(RegisterNode(facts=facts, approved=True))
        set_limits(self.world, "*:gpus=2", "p:gpus=3,jobs=2")

    def spec(self) -> JobSpec:
        r, plain = self.random, super().spec()
        if r.random() < 0.3:
            return plain
        most = r.randint(1, 3)
        return replace(
            plain,
            unit=UnitType.GPU,
            processors_per_gpu=r.choice((1, 1, 2)),
            minimum=r.randint(1, most),
            maximum=most,
            tasks=tuple(replace(task, minimum=1, maximum=1) for task in plain.tasks),
            together=False,
            alternatives=(),
            run_until_canceled=False,
            exclusive=r.random() < 0.1,
        )

    def held_gpus(self) -> Counter[str]:
        """Return how many GPUs the jobs of each user and project hold, counted from their nodes."""
        cluster, found = self.world.cluster, Counter[str]()
        for record in map(self.world.record, cluster.running | cluster.detached):
            spec, run = cluster.spec(record), record.run
            if spec.unit is not UnitType.GPU or run is None or run.detached:
                continue
            places = run.allocation if record.id in cluster.running else run.places
            size = sum(map(len, places.values())) // (spec.processors_per_gpu or 1)
            gpus = cluster.request(record).maximum if spec.exclusive else size
            found.update({record.owner: gpus, f"project {spec.project}": gpus})
        return found


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_happens_makes_jobs_hold_more_gpus_than_their_limit(mode: str) -> None:
    full = 0
    for seed in seeds(12):
        player = BusyWithGpus(seed, mode)
        for _ in range(200):
            player.step()
            gpus = player.held_gpus()
            assert max(gpus[user] for user in ("root", "ada", "bob")) <= 2
            assert gpus["project p"] <= 3
            full += 2 in gpus.values()
    assert full > 100


class BusyWithGpuMinutes(BusyWithGpus):
    """Users and a project may use GPU-minutes, which decay fast, and reserve only some at a time."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed, mode)
        of_users = "*:gpu-minutes=5,gpu-minutes-per-job=3,gpu-minutes-running=4"
        set_limits(self.world, of_users, "p:gpu-minutes=4,processor-minutes-running=6")
        self.world.do(SetParameter(by=ROOT, name="UsageHalfLife", value="120"))

    def spec(self) -> JobSpec:
        return replace(super().spec(), run_time=Seconds(self.random.choice((20.0, 60.0, 90.0))))

    def sizes(self) -> dict[JobId, tuple[int, int]]:
        """Return the processors and GPUs of running jobs."""
        found = {}
        for record in map(self.world.record, self.world.cluster.running):
            spec, run = self.world.cluster.spec(record), record.run
            size = sum(map(len, run.allocation.values())) if run is not None else 0
            gpus = size // spec.processors_per_gpu if spec.unit is UnitType.GPU else 0
            whole = gpus and spec.exclusive
            found[record.id] = size, self.world.cluster.request(record).maximum if whole else gpus
        return found

    def left(self, job: JobId) -> float:
        """Return the seconds for which a job may still run."""
        record = self.world.record(job)
        run, spec = record.run, self.world.cluster.spec(record)
        assert run is not None
        if run.started is None or run.staged_since is not None:  # its time has not begun
            return spec.run_time
        end = min(run.started + run.not_run + spec.run_time, spec.end_by or float("inf"))
        return max(0.0, end - self.world.clock.now())

    def totals(self) -> dict[str, Counter[str]]:
        """Return the GPU-seconds used or reserved, and those and the processor-seconds that are reserved."""
        found = {kind: Counter[str]() for kind in ("all", "gpus", "processors")}
        usage, now = self.world.cluster.usage, self.world.clock.now()
        for user in ("root", "ada", "bob"):
            found["all"][user] += usage.used_by_owner(user, now, gpus=True)
        found["all"]["project p"] += usage.used_by_project("p", now, gpus=True)
        for job, (processors, gpus) in self.sizes().items():
            record, left = self.world.record(job), self.left(job)
            for owner in (record.owner, f"project {self.world.cluster.spec(record).project}"):
                found["all"][owner] += gpus * left
                found["gpus"][owner] += gpus * left
                found["processors"][owner] += processors * left
        return found


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_starts_or_grows_may_use_more_gpu_minutes_than_are_left(mode: str) -> None:
    full = grown = 0
    for seed in seeds(20):
        player = BusyWithGpuMinutes(seed, mode)
        before: dict[JobId, tuple[int, int]] = {}
        for _ in range(200):
            player.step()
            sizes, totals = player.sizes(), player.totals()
            for job in (job for job, size in sizes.items() if size > before.get(job, (0, 0))):
                record = player.world.record(job)
                if player.world.cluster.spec(record).project == "p":
                    assert totals["processors"]["project p"] <= 6 * 60 + 0.01, seed
                if sizes[job][1] <= before.get(job, (0, 0))[1]:
                    continue
                grown += 1
                assert sizes[job][1] * player.left(job) <= 3 * 60 + 0.01
                assert totals["all"][record.owner] <= 5 * 60 + 0.01, seed
                assert totals["gpus"][record.owner] <= 4 * 60 + 0.01, seed
                if player.world.cluster.spec(record).project == "p":
                    assert totals["all"]["project p"] <= 4 * 60 + 0.01, seed
            full += any(totals["all"][user] > 3 * 60 for user in ("root", "ada", "bob"))
            before = sizes
        player.world.check_replay()
    assert min(full, grown) > 20


class BusyWithFilters(Busy):
    """Activation filters answer late and at random; what they keep for a job counts when it starts."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed, mode)
        limits = dict(self.world.cluster.parameters)
        self.world = self.filtered = FilteredWorld(4, 4)
        self.filtered.set(**limits)

    def step(self) -> None:
        questions = self.filtered.filters.questions
        if questions and self.random.random() < 0.7:
            question = self.random.choice(questions[-6:])
            verdict = self.random.choice([ActivationVerdict.START] * 6 + VERDICTS)
            self.world.do(
                TakeVerdict(job=question.job, offer=question.offer, verdict=verdict, hold=Seconds(5.0))
            )
        super().step()
        if self.random.random() < 0.2:
            self.world.wait(11)


@pytest.mark.parametrize("mode", ["easy", "conservative", "Balanced"])
def test_what_activation_filters_let_start_late_exceeds_no_limit(mode: str) -> None:
    full = 0
    for seed in seeds(20):
        player = BusyWithFilters(seed, mode)
        for _ in range(220):
            player.step()
            jobs, processors = held(player.world)
            for user in ("root", "ada", "bob"):
                assert (jobs[user] <= 2, processors[user] <= 3) == (True, True)
                full += processors[user] == 3
            assert (jobs["project p"] <= 1, processors["project p"] <= 2) == (True, True)
            assert processors["project q"] <= 4
    assert full > 20


class BusyWithMinutes(Busy):
    """Users, a project and a group may use processor-minutes, which decay fast."""

    def __init__(self, seed: int, mode: str) -> None:
        super().__init__(seed, mode)
        set_limits(self.world, "*:processor-minutes=6,processor-minutes-per-job=4", "p:processor-minutes=5")
        self.world.do(SetParameter(by=ROOT, name="GroupLimits", value="g:processor-minutes=8"))
        self.world.do(SetParameter(by=ROOT, name="UsageHalfLife", value="120"))

    def spec(self) -> JobSpec:
        return replace(super().spec(), run_time=Seconds(self.random.choice((20.0, 60.0, 90.0))))

    def sizes(self) -> dict[JobId, int]:
        records = map(self.world.record, self.world.cluster.running)
        return {each.id: sum(map(len, each.run.allocation.values())) for each in records if each.run}

    def totals(self) -> Counter[str]:
        """Return the processor-seconds that each owner has used or reserved, counted from all accounts."""
        cluster, now, found = self.world.cluster, self.world.clock.now(), Counter[str]()
        amounts = [(owner, project, used) for (owner, project), used in cluster.usage.used(now).items()]
        for job, size in self.sizes().items():
            record, spec = self.world.record(job), cluster.spec(self.world.record(job))
            assert record.run is not None
            started, stood_still = record.run.started, record.run.not_run
            if started is None or record.run.staged_since is not None:  # its time has not begun
                left = size * spec.run_time
            else:
                end = min(started + stood_still + spec.run_time, spec.end_by or float("inf"))
                left = size * max(0.0, end - now)
            amounts.append((record.owner, spec.project, left))
        for owner, project, amount in amounts:
            found.update({owner: amount, f"project {project}": amount})
            found.update({"group g": amount} if owner in ("ada", "bob") else {})
        return found


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_starts_or_grows_may_use_more_processor_minutes_than_are_left(mode: str) -> None:
    full = grown = 0
    most = {"root": 6, "ada": 6, "bob": 6, "project p": 5, "group g": 8}
    for seed in seeds(20):
        player = BusyWithMinutes(seed, mode)
        before: dict[JobId, int] = {}
        for _ in range(220):
            player.step()
            sizes, totals = player.sizes(), player.totals()
            more = [job for job, size in sizes.items() if size > before.get(job, 0)]
            grown += len(more)
            for job in more:
                record = player.world.record(job)
                spec = player.world.cluster.spec(record)
                ends = float("inf") if spec.end_by is None else spec.end_by - player.world.clock.now()
                assert sizes[job] * min(spec.run_time, ends) <= 4 * 60
                for owner in (record.owner, f"project {spec.project}", "group g"):
                    if owner in most and (owner != "group g" or record.owner in ("ada", "bob")):
                        assert totals[owner] <= most[owner] * 60 + 0.01, (owner, seed)
            full += any(totals[owner] > (most[owner] - 1) * 60 for owner in most)
            before = sizes
        player.world.check_replay()
    assert min(full, grown) > 30
