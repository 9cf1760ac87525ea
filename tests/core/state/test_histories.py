"""Long random histories: every invariant holds after each step, every arrow is taken, and a restart
remembers exactly what was."""

import contextlib
import functools
import random
import sys

import pytest
from asked_filters import FilteredWorld
from msgspec.structs import replace
from test_corresponding import tour_of_lost_elements
from test_elastic_nodes import tour_of_an_elastic_pool
from test_resources import tour_of_a_choice, tour_of_a_resource
from worlds import ADA, BOB, ROOT, World

from depth import seeds
from headnode.core.filtering import ActivationVerdict
from headnode.core.model.dependency import Condition, DependencyLink, JobDependency
from headnode.core.model.errors import Refused
from headnode.core.model.job import (
    DEPENDENCY_FIELDS,
    Alternative,
    JobSpec,
    TaskAlternative,
    UnitType,
    parents,
)
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, Instant, JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import advance_job, transitions
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import ParentOutcome, elements_of, outcome_of
from headnode.core.state.events import Event
from headnode.core.state.filters import RejectJob, ValidateJob
from headnode.core.state.groups import CreateJobs
from headnode.core.state.hold import HoldJob, HoldTask, ReleaseJob, ReleaseTask
from headnode.core.state.hooks import ReportClosed, ReportHook, ReportReady
from headnode.core.state.job_events import InstancesCanceled, InstanceStage, JobCreated
from headnode.core.state.job_record import JobRecord, decode_spec
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished, SetParameter
from headnode.core.state.preempt import RecallProcessors
from headnode.core.state.report import ReportStaging
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.suspend import ReportSuspended, ResumeJob, SuspendJob
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState

STEPS = 220
SEEDS = 60


class Player:
    """Does anything that somebody might do, right or wrong, chosen by a seed."""

    ways_to_wait = (
        Condition.ON_SUCCESS, Condition.ON_FAILURE, Condition.ON_EXIT, Condition.ON_START,
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(*self.random.choices((1, 2, 4), k=self.random.randint(1, 3)))
        self.known: list[int] = []

    def step(self) -> None:
        move = self.random.choice(
            [self.submit] * 3 + [self.submit_several] + [self.end] * 8 + [self.start] * 4
            + [self.stage]
            + [self.stop, self.stop_task, self.requeue, self.requeue_task, self.modify, self.add_task,
               self.suspend, self.suspend, self.stopped, self.stopped, self.resume, self.resume, self.hold,
               self.release, self.progress, self.time, self.node, self.node, self.submit_created,
               self.parameter]
        )  # fmt: skip
        with contextlib.suppress(Refused):  # a Broken must come through
            move()
        if self.random.random() < 0.05:
            self.world.check_replay()

    def task(self) -> TaskSpec:
        r = self.random
        kind = r.choice((TaskType.BASIC, TaskType.BASIC, TaskType.SWEEP))
        size = r.choice((1, 1, 1, 2))
        return TaskSpec(
            name=r.choice("ab"),
            command="x",
            kind=kind,
            start=1,
            end=r.randint(1, 9) if kind is TaskType.SWEEP else 0,
            minimum=size,
            maximum=size + r.choice((0, 0, 1)),
            rerunnable=r.random() < 0.7,
            depends_on=r.choice(((), (), ("z",))),
            fail_job_on_failure=r.random() < 0.1,
        )

    def spec(self) -> JobSpec:
        r = self.random
        tasks = tuple(self.task() for _ in range(r.randint(0, 4)))
        if any(task.depends_on for task in tasks):
            tasks = (*tasks, TaskSpec(name="z", command="x", rerunnable=True))
        tasks = self.with_special(tasks)
        minimum = r.choice((None, None, 3))
        alone = any(task.kind is TaskType.SERVICE for task in tasks)
        together = bool(tasks) and not alone and minimum is None and r.random() < 0.15
        return JobSpec(
            together=together,
            alternatives=tuple(self.alternative(tasks) for _ in range(r.choice((0, 0, 0, 1, 2)))),
            priority=Priority(r.choice((1000, 2000, 2000, 3000))),
            minimum=minimum,
            maximum=(None if together else r.choice((None, 5))) if minimum is None else r.choice((3, 5)),
            exclusive=r.random() < 0.2,
            run_time=Seconds(r.choice((FOREVER, FOREVER, 50.0, 200.0))),
            fail_on_task_failure=r.random() < 0.2,
            fail_dependent_tasks=r.random() < 0.2,
            run_until_canceled=minimum is not None and r.random() < 0.1,
            task_retry_limit=r.choice((0, 0, 1)),
            hold_until=Instant(self.world.clock.now() + 30) if r.random() < 0.1 else None,
            holds=r.choice(((),) * 12 + (("user",), ("system", "data"))),
            end_by=Instant(self.world.clock.now() + r.choice((60, 300))) if r.random() < 0.1 else None,
            suspendable=r.random() < 0.7,
            **{DEPENDENCY_FIELDS[r.choice(self.ways_to_wait)]: self.some_parents()},
            tasks=tasks,
        )

    def with_special(self, tasks: tuple[TaskSpec, ...]) -> tuple[TaskSpec, ...]:
        """Return the tasks with such as prepare or release nodes, or a service in their place."""
        r = self.random
        before = [TaskSpec(command="x", kind=TaskType.NODE_PREP)] if r.random() < 0.2 else []
        after = [TaskSpec(command="x", kind=TaskType.NODE_RELEASE)] if r.random() < 0.2 else []
        service = TaskSpec(command="x", kind=TaskType.SERVICE, fail_job_on_failure=r.random() < 0.1)
        return (*before, *((service,) if r.random() < 0.1 else tasks), *after)

    def alternative(self, tasks: tuple[TaskSpec, ...]) -> Alternative:
        r = self.random
        found = [TaskAlternative(end=r.choice((None, 3, 12)) if task.end else None) for task in tasks]
        return Alternative(
            run_time=r.choice((None, Seconds(20.0), FOREVER)),
            exclusive=r.choice((None, True, False)),
            tasks=tuple(found) if r.random() < 0.5 else (),
        )

    def some_parents(self) -> tuple[int, ...]:
        count = self.random.choice((0, 0, 0, 1))
        return tuple(self.random.sample(self.known, min(len(self.known), count)))

    def outcomes(self, *specs: JobSpec) -> dict[int, ParentOutcome]:
        named = {parent for spec in specs for parent in parents(spec)}
        numbers = {p: {n for spec in specs for n in elements_of(spec, p)} for p in named}
        return {p: outcome_of(a, numbers[p]) for p in named if (a := self.world.archived(JobId(p)))}

    def user(self):
        return self.random.choice((ROOT, ROOT, ADA, BOB))

    def job(self) -> JobId:
        return JobId(self.random.choice(self.known or [1]))

    def submit(self) -> None:
        spec = self.spec()
        submit = self.random.random() < 0.9
        events = self.world.do(
            CreateJob(by=self.user(), spec=spec, submit=submit, parents=self.outcomes(spec))
        )
        self.known.append(events[0].job)  # type: ignore[attr-defined]

    def submit_several(self) -> None:
        r = self.random
        specs = tuple(self.spec() for _ in range(r.randint(1, 2)))
        numbers = range(len(specs))
        links = tuple(
            DependencyLink(child, parent, r.choice(self.ways_to_wait))
            for parent in numbers
            for child in numbers
            if parent < child and r.random() < 0.3
        )
        command = CreateJobs(
            by=self.user(),
            specs=specs,
            links=links,
            submit=r.random() < 0.9,
            parents=self.outcomes(*specs),
        )
        self.known += [event.job for event in self.world.do(command) if isinstance(event, JobCreated)]

    def submit_created(self) -> None:
        self.world.do(SubmitJob(by=self.user(), job=self.job()))

    def end(self) -> None:
        held = self.world.nodes.running()
        if not held:
            return
        one = self.random.choice(held)
        stopping = one in list(self.world.nodes.stopping())
        kinds = (
            ("stopped", "never-ran", "exited")
            if stopping
            else ("exited",) * 9 + ("lost", "timed-out", "never-ran")
        )
        now = self.world.clock.now()
        report = self.world.nodes.ended(
            one,
            now,
            kind=self.random.choice(kinds),
            exit_code=self.random.choice((0, 0, 0, 1)),
            started=Instant(now - self.random.choice((0.001, 0.001, 5.0))),
        )
        again = report if self.random.random() < 0.1 else None
        self.world.do(report, *([again] if again else []))

    def start(self) -> None:
        held = self.world.nodes.running()
        if held:
            one = self.random.choice(held)
            self.world.do(self.world.nodes.started(one, self.world.clock.now()))

    def stage(self) -> None:
        held = self.world.nodes.running()
        if held:
            self.world.stage(self.random.choice(held), self.random.choice(("in", "in", "ready", "out")))

    def stop(self) -> None:
        self.world.do(
            StopJob(
                by=self.user(),
                job=self.job(),
                outcome=self.random.choice(("canceled", "finished")),
                force=self.random.random() < 0.4,
                graceful=self.random.random() < 0.3,
            )
        )

    def stop_task(self) -> None:
        instance = self.random.choice((None, 1, 2))
        command = StopTask(by=ROOT, job=self.job(), task=self.random.randint(1, 3), instance=instance)
        self.world.do(command)

    def requeue(self) -> None:
        job = self.job()
        archived = self.world.archived(job) if job not in self.world.cluster.jobs else None
        skipped = self.skipped_for(archived)
        outcomes = self.outcomes(*(decode_spec(one.spec) for one in (archived, *skipped) if one is not None))
        command = RequeueJob(by=self.user(), job=job, archived=archived, parents=outcomes, skipped=skipped)
        self.world.do(command)

    def skipped_for(self, record: JobRecord | None) -> tuple[JobRecord, ...]:
        """Return what the archive has of the jobs that were canceled for the end of one, and for theirs."""
        found: dict[int, JobRecord] = {}
        ahead = list(record.skipped_jobs) if record is not None else []
        while ahead:
            one = self.world.archived(JobId(ahead.pop()))
            if one is not None and one.id not in found:
                found[one.id] = one
                ahead += one.skipped_jobs
        return tuple(found.values())

    def requeue_task(self) -> None:
        instance = self.random.choice((None, 1))
        self.world.do(RequeueTask(by=ROOT, job=self.job(), task=self.random.randint(1, 3), instance=instance))

    def modify(self) -> None:
        job = self.job()
        archived = self.world.archived(job) if job not in self.world.cluster.jobs else None
        record = archived or self.world.cluster.job(job)
        old = decode_spec(record.spec)
        field, value = self.random.choice(
            (
                ("priority", Priority(self.random.choice((500, 2500)))),
                ("run_time", Seconds(300.0)),
                ("end_by", Instant(self.world.clock.now() + 200.0)),
                ("name", "n"),
            )
        )
        if field == "name" and job % 2:
            field, value = "run_as", "ada"
        new = replace(old, **{field: value})
        known = {"ada": ADA}
        skipped = self.skipped_for(archived)
        change = ModifyJob(
            by=ROOT,
            job=job,
            spec=new,
            fields=(field,),
            archived=archived,
            users=known,
            parents=self.outcomes(*(decode_spec(one.spec) for one in skipped)),
            skipped=skipped,
        )
        self.world.do(change)

    def add_task(self) -> None:
        job = self.job()
        old = decode_spec(self.world.cluster.job(job).spec)
        added = TaskSpec(name="a", command="x", rerunnable=True)
        spec = replace(old, tasks=(*old.tasks, added))
        self.world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))

    def started_job(self) -> JobId:
        """Return a job that was started, most often: others are refused anyway."""
        return JobId(self.random.choice(sorted(self.world.cluster.graphs) or self.known or [1]))

    def suspend(self) -> None:
        self.world.do(SuspendJob(by=self.user(), job=self.started_job()))

    def stopped(self) -> None:
        for job in sorted(self.world.cluster.graphs):
            for report in self.world.nodes.stopped(job):
                if self.random.random() < 0.8:
                    self.world.do(report)

    def resume(self) -> None:
        self.world.do(ResumeJob(by=self.user(), job=self.started_job()))

    def hold(self) -> None:
        name = self.random.choice(("user", "user", "Data", "system"))
        job = self.random.choice((self.job(), self.started_job()))
        self.world.do(HoldJob(by=self.user(), job=job, name=name, requeue=name == "Data"))

    def release(self) -> None:
        held = [job for job, record in self.world.cluster.jobs.items() if record.holds] or [self.job()]
        name = self.random.choice((None, "user", "data"))
        self.world.do(ReleaseJob(by=self.user(), job=self.random.choice(held), name=name))

    def progress(self) -> None:
        self.world.do(SetProgress(by=ROOT, job=self.job(), percent=self.random.randint(-1, 101)))

    def time(self) -> None:
        self.world.wait(self.random.choice((1, 20, 100)))

    def node(self) -> None:
        new = f"node{self.random.randint(1, 5)}"
        name = self.random.choice([*sorted(self.world.cluster.nodes), new])
        known = self.world.cluster.nodes.get(name)
        facts = known.facts if known else NodeFacts(name=name, processors=2)
        if self.random.random() < 0.3:
            facts = NodeFacts(name=name, processors=facts.processors, memory=self.random.randint(1, 9))
        self.world.do(
            self.random.choice(
                (
                    ChangeNode(by=ROOT, node=name, action=self.wish()),
                    NodeVanished(node=name),
                    RegisterNode(facts=facts),
                    RegisterNode(facts=facts),
                )
            )
        )
        if self.random.random() < 0.05:
            self.world.do(NodeVanished(node=name), GiveUpNode(node=name))

    def wish(self) -> str:
        return self.random.choice(("pause", "pause", "resume", "approve", "approve", "remove"))

    def parameter(self) -> None:
        value = self.random.choice(("easy", "fcfs", None))
        self.world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=value))


class Preempting(Player):
    """Lets jobs be preempted by others, in every way, and be asked for what they hold by nobody."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        kind, parts = self.random.choice((("Immediate", "no"), ("Immediate", "yes"), ("Graceful", "no")))
        self.world.do(SetParameter(by=ROOT, name="PreemptionType", value=kind))
        self.world.do(SetParameter(by=ROOT, name="TaskImmediatePreemption", value=parts))

    def step(self) -> None:
        if self.random.random() < 0.05:
            with contextlib.suppress(Refused):
                self.recall()
        super().step()

    def recall(self) -> None:
        record = self.world.cluster.jobs.get(self.started_job())
        if record is None:
            return
        held = record.run.allocation if record.run else {}
        shares = tuple((node, self.random.randint(0, len(numbers))) for node, numbers in held.items())
        now = self.random.random() < 0.5
        self.world.do(RecallProcessors(job=record.id, shares=shares, immediate=now))


class Holding(Player):
    """Holds, releases and requeues instances of tasks, also those that run or wait for others."""

    ways_to_wait = (Condition.ON_CORRESPONDING, Condition.ON_CORRESPONDING, Condition.ON_SUCCESS)

    def step(self) -> None:
        if self.random.random() < 0.2:
            with contextlib.suppress(Refused):
                self.random.choice((self.hold_task, self.release_task, self.release_task, self.rerun))()
        super().step()

    def spec(self) -> JobSpec:
        """Return a job that may also wait for an element, for some time after a start, or for either."""
        spec, r = super().spec(), self.random
        if not self.known or r.random() < 0.5:
            return spec
        ones = [
            JobDependency(parent, r.choice([*Condition][2:]), element=r.randint(1, 3))
            if r.random() < 0.7
            else JobDependency(parent, Condition.ON_START, delay=Seconds(20.0))
            for parent in r.choices(self.known[-5:], k=r.choice((1, 2)))
        ]
        either = not spec.after_corresponding and r.random() < 0.5
        return replace(spec, dependencies=tuple(ones), any_dependency=either)

    def hold_task(self) -> None:
        task, instance = self.random.randint(1, 3), self.random.choice((None, 1, 2))
        requeue = self.random.random() < 0.5
        self.world.do(HoldTask(by=ROOT, job=self.job(), task=task, instance=instance, requeue=requeue))

    def release_task(self) -> None:
        held = [
            (job.id, number)
            for job in self.world.cluster.jobs.values()
            for number, progress in enumerate(job.run.tasks if job.run is not None else (), 1)
            if progress.waits is not None and progress.waits.held
        ]
        job, task = self.random.choice(held or [(self.job(), 1)])
        instance = self.random.choice((None, None, 1))
        self.world.do(ReleaseTask(by=ROOT, job=job, task=task, instance=instance))

    def rerun(self) -> None:
        held = self.world.nodes.running()
        if held:
            one = self.random.choice(held)
            self.world.do(RequeueTask(by=ROOT, job=one.job, task=one.task, instance=one.instance))


class Hooked(Player):
    """Its site has prologs and epilogs, mostly; nodes say when these have ended, have failed, or nothing."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.hooks()

    def hooks(self) -> None:
        for name in ("PrologProgram", "EpilogProgram", "NodeFilterDirectory"):
            value = self.random.choice(("/site/hook", "/site/hook", None))
            self.world.do(SetParameter(by=ROOT, name=name, value=value))

    def step(self) -> None:
        chance = self.random.random()
        with contextlib.suppress(Refused):
            if chance < 0.01:
                self.hooks()
            elif chance < 0.4:
                self.receive()
        super().step()

    def receive(self) -> None:
        """Let a node say something about a job, mostly what the head waits for."""
        waits = [
            (job, node, node in run.cleaning)
            for job, record in self.world.cluster.jobs.items()
            if (run := record.run) is not None
            for node in (*run.unready, *run.cleaning)
        ]
        job, node, clean = self.random.choice([*waits, (self.started_job(), "node1", True)])
        if self.random.random() < 0.1:
            hook = "epilog" if clean else "prolog"
            self.world.do(ReportHook(node=node, job=job, hook=hook, reason="no disk"))
            self.world.do(ChangeNode(by=ROOT, node=node, action="resume"))
        elif clean:
            self.world.do(ReportClosed(node=node, job=job))
        else:
            self.world.do(ReportReady(node=node, job=job))

    def finish(self) -> None:
        """Let everything be canceled, and every node say what it is waited for."""
        world = self.world
        for job in sorted(world.cluster.jobs):
            with contextlib.suppress(Refused):  # those that waited for others are canceled with them
                world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=True))
        for held in list(world.nodes.running()):
            world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
        for job, record in sorted(world.cluster.jobs.items()):
            for node in list(record.run.cleaning) if record.run is not None else ():
                world.do(ReportClosed(node=node, job=job))


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_any_history_keeps_every_invariant_and_replays_to_the_same_state(seed: int) -> None:
    player = Player(seed)
    for _ in range(STEPS):
        player.step()
    player.world.check_replay()


@pytest.mark.parametrize("seed", seeds(15))
def test_any_history_with_preemption_keeps_every_invariant_and_replays_to_the_same_state(seed: int) -> None:
    player = Preempting(seed)
    for _ in range(STEPS):
        player.step()
    player.world.check_replay()


@pytest.mark.parametrize("seed", seeds(30))
def test_any_history_with_held_instances_keeps_every_invariant_and_replays(seed: int) -> None:
    player = Holding(seed)
    for _ in range(STEPS):
        player.step()
    player.world.check_replay()


@pytest.mark.parametrize("seed", seeds(20))
def test_any_history_with_hooks_keeps_every_invariant_replays_to_the_same_state_and_ends(seed: int) -> None:
    player = Hooked(seed)
    for _ in range(STEPS):
        player.step()
    player.world.check_replay()
    player.finish()
    player.world.wait(100_000)  # for nodes that were away
    assert not player.world.cluster.graphs


class OnGpus(Player):
    """Its nodes have GPUs, and most jobs count them.  Nodes come back without: jobs go on there."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.most: dict[str, int] = {}
        for node in list(self.world.cluster.nodes.values()):
            gpus = self.random.randint(0, node.facts.processors)
            self.world.do(RegisterNode(facts=replace(node.facts, gpus=gpus)))

    def spec(self) -> JobSpec:
        spec = super().spec()
        if self.random.random() < 0.3 or any(task.exclusive for task in spec.tasks):
            return spec
        return replace(spec, unit=UnitType.GPU, processors_per_gpu=self.random.choice((1, 1, 2)))

    def step(self) -> None:
        super().step()
        for name, node in self.world.cluster.nodes.items():
            held = [self.gpus(job, name) for job in self.world.cluster.cores.holders.get(name, ())]
            most = self.most[name] = max(node.facts.gpus, self.most.get(name, 0))
            assert sum(held) <= most, f"{name} has {most} GPUs, jobs hold {held}"

    def gpus(self, job: JobId, node: str) -> int:
        """Return how many GPUs of a node a job holds beside others; its tasks have whole ones."""
        record = self.world.cluster.jobs[job]
        request = self.world.cluster.started_request(record)
        if request.unit is not UnitType.GPU or request.exclusive or record.run is None:
            return 0
        each = request.processors_per_gpu
        for progress in record.run.tasks:
            for live in progress.live.values():
                assert not any(len(numbers) % each for _, numbers in live.placement), live.placement
        return len(record.run.places.get(node, ())) // each


@pytest.mark.parametrize("seed", seeds(40))
def test_any_history_with_gpus_gives_none_of_them_twice_and_replays_to_the_same_state(seed: int) -> None:
    player = OnGpus(seed)
    for _ in range(STEPS):
        player.step()
    player.world.check_replay()


def tour_of_a_node(world: World) -> None:
    """Take a node through what chance may leave out."""
    facts = NodeFacts(name="tour", processors=1)
    for commands in (
        [RegisterNode(facts=facts), RegisterNode(facts=NodeFacts(name="tour", processors=2)), "remove"],
        [RegisterNode(facts=facts), "approve", "pause", "resume", "remove"],
        [RegisterNode(facts=facts, approved=True), "pause", "remove"],
        [
            RegisterNode(facts=facts, approved=True),
            "pause",
            NodeVanished(node="tour"),
            "resume",
            "remove",
        ],
        [RegisterNode(facts=facts, approved=True), NodeVanished(node="tour"), "pause", "remove"],
    ):
        for command in commands:
            wish = (
                command if not isinstance(command, str) else ChangeNode(by=ROOT, node="tour", action=command)
            )
            world.do(wish)


def tour_of_a_graceful_stop(world: World) -> None:
    """Give back what had not started of a job that starts nothing new."""
    job = world.submit(TaskSpec(command="x"))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=True))
    world.end(job, 1, kind="never-ran")


def tour_of_a_held_run(world: World) -> None:
    job = world.submit(TaskSpec(command="x", rerunnable=True))
    world.do(HoldJob(by=ROOT, job=job, name="user", requeue=True))
    world.do(ReleaseJob(by=ROOT, job=job, name=None))


def tour_of_filters(world: FilteredWorld) -> None:
    """Let filters say all that they may of queued and of running jobs, and of those being submitted."""
    other = world.submit(TaskSpec(command="x", minimum=3, maximum=3))
    world.answer(other, ActivationVerdict.START)
    grows = world.submit(*[TaskSpec(command="x")] * 6, minimum=1, maximum=4)
    world.answer(grows, ActivationVerdict.BLOCK_QUEUE)
    world.wait(10)
    world.answer(grows, ActivationVerdict.START)
    world.end(other, 1)
    world.answer(grows, ActivationVerdict.WAIT)
    world.set(SubmissionFilterProgram="/opt/names.sh")
    passes, fails, leaves = (world.submit(TaskSpec(command="x")) for _ in range(3))
    world.do(SetProgress(by=ROOT, job=passes, percent=1))
    world.do(ValidateJob(by=ADA, job=passes, order=world.record(passes).order))
    world.do(RejectJob(job=fails, order=world.record(fails).order, message="no"))
    world.do(StopJob(by=ROOT, job=leaves, outcome="canceled"))


def standing_still(state: JobState, *nodes: int) -> tuple[World, JobId]:
    """Return a world with a job of two tasks that is in one of the three states of a suspended job."""
    world = World(*nodes)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, task, task, minimum=1, maximum=2, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    if state is not JobState.SUSPENDING:
        world.do(*world.nodes.stopped(job))
    if state is JobState.RESUMING:
        world.submit(TaskSpec(command="x", minimum=2, maximum=2))
        world.do(ResumeJob(by=ROOT, job=job))
    assert world.record(job).state is state
    return world, job


def tour_of_standing_still(state: JobState) -> None:
    """Let everything happen to a suspended job that may."""
    world, job = standing_still(state, 1, 1)
    world.do(world.nodes.started(world.nodes.running()[0], world.clock.now()))
    world.do(SetProgress(by=ROOT, job=job, percent=5))
    world.do(StopTask(by=ROOT, job=job, task=3))
    world.do(StopTask(by=ROOT, job=job, task=1))
    world.end(job, 1, kind="stopped")
    world.do(RequeueTask(by=ROOT, job=job, task=1))
    world.do(HoldTask(by=ROOT, job=job, task=1))
    world.do(ReleaseTask(by=ROOT, job=job, task=1))
    changed = decode_spec(world.record(job).spec)
    world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=("name",)))
    held = world.nodes.running()[0].place[0][0]
    lost = "node2" if held == "node1" else "node1"
    world.do(NodeVanished(node=lost), GiveUpNode(node=lost))
    world.do(NodeVanished(node=held), GiveUpNode(node=held))
    assert world.record(job).state is JobState.QUEUED  # it has no node left
    for outcome, codes in (("finished", (0, 0, 0)), ("failed", (0, 1, 0))):
        world, job = standing_still(state, 2)
        world.do(StopTask(by=ROOT, job=job, task=3)) if outcome == "failed" else None
        for task, code in zip((1, 2), codes, strict=False):
            world.end(job, task, exit_code=code)
        if outcome == "finished":  # the third task has not run yet
            world.do(StopTask(by=ROOT, job=job, task=3))
        assert world.record(job).state.value == outcome
    for graceful in (True, False):
        world, job = standing_still(state, 2)
        world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=graceful))
        for task in (1, 2):
            world.end(job, task, kind="stopped" if not graceful else "exited")
        assert world.record(job).state is JobState.CANCELED


def tour_of_staging(state: JobState) -> None:
    """Let files of a job be transferred that stands still, and of one that ends."""
    world, _ = standing_still(state, 1, 1)
    for held in world.nodes.running():
        world.stage(held, "in")
    tour_of_transfers(World(1))
    tour_of_waiting_for_files(World(1))
    tour_of_detached(World(1))


def tour_of_transfers(world: World) -> None:
    """Let files be transferred to and from tasks that wait for their start, run, and end."""
    job = world.submit(TaskSpec(command="x"), run_time=Seconds(600.0))
    (held,) = world.nodes.running()
    world.stage(held, "in")
    assert world.record(job).run.deadline is None
    world.clock.advance(Seconds(1000.0))
    world.do(world.nodes.started(held, world.clock.now()))
    run = world.record(job).run
    assert run is not None
    assert run.deadline == world.clock.now() + 600
    world.stage(held, "out")
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.do(ReportStaging(node="node1", job=job, staging=(InstanceStage(1, 1, 1, "in", Instant(1.0)),)))
    world.end(job, 1, kind="stopped")
    late = world.submit(TaskSpec(command="x"))
    (held,) = world.nodes.running()
    world.do(StopJob(by=ROOT, job=late, outcome="canceled"))
    world.stage(held, "in")
    world.end(late, 1, kind="not-staged")
    assert world.record(late).state is JobState.CANCELED


def tour_of_a_draft(world: World) -> None:
    """Give a job that is not submitted to another owner."""
    spec = JobSpec(tasks=(TaskSpec(command="x"),))
    (created, *_) = world.do(CreateJob(by=ROOT, spec=spec))
    changed = replace(spec, run_as=BOB.name)
    world.do(ModifyJob(by=ROOT, job=created.job, spec=changed, fields=("run_as",), users={BOB.name: BOB}))  # type: ignore[attr-defined]
    assert world.record(created.job).owner == BOB.name  # type: ignore[attr-defined]


def tour_of_waiting_for_files(world: World) -> None:
    """Let a job release its processors while files come, and take them when they are there."""
    job = world.submit(TaskSpec(command="x"))
    (held,) = world.nodes.running()
    world.stage(held, "in")
    world.wait(10.0)
    for report in world.nodes.stopped(job):
        world.do(report)
    assert world.record(job).state is JobState.SUSPENDED
    world.stage(held, "ready")
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1)


def tour_of_detached(world: World) -> None:
    """Let a job release its processors while its results are taken away, and want them again."""
    job = world.submit(TaskSpec(command="x"), TaskSpec(command="x", rerunnable=True), maximum=2)
    world.end(job, 1, exit_code=1)
    (held,) = world.nodes.running()
    world.do(world.nodes.started(held, world.clock.now()))
    world.stage(held, "out")
    other = world.submit(TaskSpec(command="x"))
    assert world.record(other).state is JobState.RUNNING
    world.end(job, 2, kind="lost")
    assert world.record(job).state is JobState.QUEUED
    world.end(other, 1)
    world.end(job, 2)
    assert world.record(job).state is JobState.FAILED


def tour_of_hooks(state: JobState) -> None:
    """Let a node be ready for a job that stands still by then, and be cleaned of it."""
    hooks = [SetParameter(by=ROOT, name=name, value="/hook") for name in ("PrologProgram", "EpilogProgram")]
    world = World(1)
    world.do(*hooks)
    job = world.submit(TaskSpec(command="x"), suspendable=True)
    assert world.dispatched(job) == []
    world.do(SuspendJob(by=ROOT, job=job))
    number = world.record(job).run.suspensions
    if state is not JobState.SUSPENDING:
        world.do(ReportSuspended(node="node1", job=job, number=number))
    if state is JobState.RESUMING:
        other = world.submit(TaskSpec(command="x"))
        world.do(ResumeJob(by=ROOT, job=job))
        assert world.record(other).state is JobState.RUNNING
    assert world.record(job).state is state
    world.do(ReportReady(node="node1", job=job))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=state is JobState.SUSPENDING))
    world.do(ReportClosed(node="node1", job=job))
    assert world.record(job).state is JobState.CANCELED


def tour_of_phases(*special: TaskType) -> None:
    """Let a job leave a node that it needs after all, boot the other, and clean both at the end."""
    world = World()
    world.do(SetParameter(by=ROOT, name="EpilogProgram", value="/hook"))

    def boot(node: str, boot: str) -> None:
        world.do(RegisterNode(facts=NodeFacts(name=node, processors=1, boot_id=boot), approved=True))

    def end(node: str, kind: str = "exited") -> None:
        for held in [held for held in world.nodes.running() if held.place[0][0] == node]:
            world.end(held.job, held.task, held.instance, kind=kind)

    boot("node1", "first")
    boot("node2", "first")
    tasks = [TaskSpec(command="x", kind=kind) for kind in special]
    usual = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=2, rerunnable=True)
    job = world.submit(*tasks, usual, minimum=1, maximum=2)
    if TaskType.NODE_PREP in special:
        end("node1")
        end("node2")
    end("node2")  # it is released, or cleaned where nothing releases it
    spec = decode_spec(world.cluster.job(job).spec)
    more = replace(spec, tasks=(*spec.tasks, replace(usual, name="more", end=3)))
    world.do(ModifyJob(by=ROOT, job=job, spec=more, fields=("tasks",)))
    end("node2")
    boot("node1", "second")
    while world.nodes.running():
        end("node1")
        end("node2")
    for node in ("node1", "node2"):
        world.do(ReportClosed(node=node, job=job))
    assert world.record(job).state is JobState.FINISHED


def tour_of_given_back_nodes() -> None:
    """Let a job lose a processor of its node, and give back another node that never says that it is clean."""
    world = World(2, 1)
    world.do(SetParameter(by=ROOT, name="EpilogProgram", value="/hook"))
    usual = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=4, rerunnable=True)
    job = world.submit(usual, minimum=1, maximum=3)
    world.do(RegisterNode(facts=NodeFacts(name="node1", processors=1, memory=1024), approved=True))

    def end(place: tuple[str, tuple[int, ...]]) -> None:
        held = next(held for held in world.nodes.running() if held.place == (place,))
        world.end(job, held.task, held.instance)

    end(("node1", (1,)))
    end(("node2", (0,)))
    end(("node2", (0,)))
    assert world.record(job).run.cleaning.keys() == {"node2"}
    world.wait(100_000)
    assert world.record(job).run.allocation == {"node1": (0,)}


def spy_on_rules(monkeypatch: pytest.MonkeyPatch) -> set[tuple[JobState, str]]:
    """Return a set that gets each rule that decides what follows for a job, with the state of the job."""
    decided: set[tuple[JobState, str]] = set()

    def watched(state: JobState, rule: advance_job.Rule) -> advance_job.Rule:
        @functools.wraps(rule)
        def decide(
            cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
        ) -> list[Event] | None:
            events = rule(cluster, record, graph, now)
            if events is not None:
                decided.add((state, rule.__name__))
            return events

        return decide

    table = {
        state: tuple(watched(state, rule) for rule in those) for state, those in advance_job.RULES.items()
    }
    monkeypatch.setattr(advance_job, "RULES", table)
    return decided


OF_RELEASED_JOURNALS = {(state, InstancesCanceled, state) for state in (JobState.ENDING, JobState.VALIDATING)}
"""Arrows of events that 0.2.0 wrote there, one for each task; `TasksCanceled` took their place."""


def test_every_arrow_and_every_rule_of_the_life_cycles_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no history takes would be dead, or untested."""
    taken: set[tuple[object, type, object]] = set()

    def spy(name: str) -> None:
        real = getattr(transitions, name)
        users = [one for key, one in sys.modules.items() if key.startswith("headnode.core.")]
        modules = [one for one in users if getattr(one, name, None) is real]
        assert modules

        def watched(state: object, event: object, wanted: object = None) -> object:
            to = real(state, event, wanted)
            taken.add((state, type(event), to))
            return to

        for module in modules:
            monkeypatch.setattr(module, name, watched)

    for name in ("job_target", "instance_target", "node_target", "phase_target"):
        spy(name)
    decided = spy_on_rules(monkeypatch)
    hooked = Hooked(0)
    for player in [*map(Player, range(SEEDS)), *map(Preempting, range(6)), *map(Holding, range(10))]:
        for _ in range(STEPS):
            player.step()
    for _ in range(STEPS):
        hooked.step()
    tour_of_a_node(World(1))
    tour_of_a_graceful_stop(World(1))
    tour_of_a_held_run(World(1))
    tour_of_given_back_nodes()
    tour_of_a_resource(World(1))
    tour_of_a_choice(World(1))
    tour_of_lost_elements(World(4))
    tour_of_an_elastic_pool(World(1))
    tour_of_filters(FilteredWorld(4))
    tour_of_a_draft(World(1))
    for special in (
        (TaskType.NODE_PREP,),
        (TaskType.NODE_RELEASE,),
        (TaskType.NODE_PREP, TaskType.NODE_RELEASE),
    ):
        tour_of_phases(*special)
    for state in (JobState.SUSPENDING, JobState.SUSPENDED, JobState.RESUMING):
        tour_of_standing_still(state)
        tour_of_staging(state)
        tour_of_hooks(state)
    rows = {
        (state, event, to)
        for table in (
            transitions.JOB_TRANSITIONS,
            transitions.INSTANCE_TRANSITIONS,
            transitions.NODE_TRANSITIONS,
            transitions.PHASE_TRANSITIONS,
        )
        for (state, event), targets in table.items()
        for to in targets
    }
    never = sorted(f"{s} {e.__name__} {t}" for s, e, t in rows - taken - OF_RELEASED_JOURNALS)
    assert not never, f"let a Player or a tour of this file go them, or delete the rows: {never}"
    rules = {(state, rule.__name__) for state, those in advance_job.RULES.items() for rule in those}
    assert rules == decided, f"let a Player or a tour of this file need them: {rules ^ decided}"
