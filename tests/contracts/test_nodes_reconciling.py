"""Two tables of what a node has: the head puts them right, whatever was lost since they last agreed."""

import random
from collections.abc import Callable

import msgspec
from worlds import ROOT, World

from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.nodes.reconcile import (
    AttemptsByNode,
    CatchUp,
    ExpectedAttempt,
    Key,
    attempts_to_stop,
    awaits_report,
    expected_digest,
    orders_to_repeat,
)
from headnode.adapters.wire.agent_messages import PROTOCOL, Hello, Holdings, ReportedAttempt, Table
from headnode.adapters.wire.frame_codec import HEADER
from headnode.adapters.wire.message_checks import digest_of_holdings
from headnode.adapters.wire.messages import FromHead, OpenJob, Run, Stop, Welcome
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import events as e
from headnode.core.state.command import Command
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

TRUE = TaskSpec(command="x", rerunnable=True)
ONCE = TaskSpec(command="x")


def hello(
    world: World,
    node: str,
    *,
    live: tuple[ReportedAttempt, ...] = (),
    ended: tuple[ReportedAttempt, ...] = (),
) -> Hello:
    return Hello(protocol=PROTOCOL, facts=world.cluster.nodes[node].facts, live=live, ended=ended)


def known(world: World, node: str) -> list[ExpectedAttempt]:
    return AttemptsByNode(world.cluster).of(node, world.cluster)


def plan_of(world: World, node: str, holdings: Holdings, *fresh: Key) -> CatchUp:
    return orders_to_repeat(node, known(world, node), holdings, fresh)


def start(world: World) -> None:
    for held in world.nodes.running():
        world.do(world.nodes.started(held, world.clock.now()))


def test_what_never_started_is_handed_over_again_and_what_had_is_lost() -> None:
    world = World(2)
    job = world.submit(ONCE, ONCE)
    world.do(world.nodes.started(world.nodes.running()[0], world.clock.now()))
    plan = plan_of(world, "node1", hello(world, "node1"))
    assert plan.messages == (Run(job=job, task=2, placement=(("node1", (1,)),), attempts=((1, 1),)),)
    (report,) = plan.reports
    assert [(r.task, r.outcome.kind) for r in report.reports] == [(1, "lost")]
    world.do(report)
    world.end(job, 2)
    assert world.record(job).state is JobState.FAILED


def test_what_is_handed_over_again_says_how_often_it_was_given_back() -> None:
    world = World(1)
    world.submit(ONCE)
    world.do(world.nodes.ended(world.nodes.running()[0], world.clock.now(), kind="never-ran"))
    (run,) = plan_of(world, "node1", hello(world, "node1")).messages
    assert isinstance(run, Run)
    assert (run.attempts, run.unstarted) == (((1, 2),), ((1, 1),))


def test_what_the_node_has_live_or_ended_is_left_alone() -> None:
    world = World(2)
    job = world.submit(ONCE, ONCE)
    start(world)
    table = hello(
        world,
        "node1",
        live=(ReportedAttempt(job, 1, 1, 1, True),),
        ended=(ReportedAttempt(job, 2, 1, 1, False),),
    )
    plan = plan_of(world, "node1", table)
    assert (plan.messages, plan.reports, attempts_to_stop(world.cluster, "node1", table)) == ((), (), [])


def test_what_is_being_stopped_is_stopped_again_or_known_to_be_gone() -> None:
    world = World(3)
    job = world.submit(TRUE, TRUE, TRUE)
    for held in world.nodes.running()[:2]:
        world.do(world.nodes.started(held, world.clock.now()))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    plan = plan_of(world, "node1", hello(world, "node1", live=(ReportedAttempt(job, 1, 1, 1, True),)))
    assert plan.messages == (Stop(job=job, attempts=((1, 1, 1),)),)
    assert [(r.task, r.outcome.kind) for r in plan.reports[0].reports] == [(2, "lost"), (3, "never-ran")]
    world.do(*plan.reports)
    world.end(job, 1, kind="stopped")
    run = world.record(job).run
    assert run is not None
    assert [len(run.tasks[1].failed), len(run.tasks[2].canceled)] == [1, 1]


def test_an_older_attempt_and_a_job_nobody_knows_are_stopped_by_force() -> None:
    world = World(1)
    job = world.submit(TRUE)
    world.end(job, 1, kind="lost")
    strangers = (
        ReportedAttempt(job, 1, 1, 1, True),
        ReportedAttempt(JobId(9), 1, 1, 1, True),
        ReportedAttempt(job, 7, 1, 1, True),
        ReportedAttempt(job, 0, 1, 2, True),
        ReportedAttempt(job, 1, 5, 2, True),
    )
    table = hello(world, "node1", live=(*strangers, ReportedAttempt(job, 1, 1, 2, True)))
    assert attempts_to_stop(world.cluster, "node1", table) == [
        Stop(job=s.job, attempts=((s.task, s.instance, s.attempt),), force=True) for s in strangers
    ]
    assert plan_of(world, "node1", table).messages == ()


def test_only_the_first_node_of_a_place_is_asked_about_its_instance() -> None:
    world = World(1, 1)
    job = world.submit(TaskSpec(command="x", minimum=2, maximum=2))
    assert plan_of(world, "node2", hello(world, "node2")).messages == ()
    first = plan_of(world, "node1", hello(world, "node1")).messages
    assert [(message.job, message.attempts) for message in first if isinstance(message, Run)] == [
        (job, ((1, 1),))
    ]


def test_reconciling_twice_says_the_same_and_every_lost_message_leads_to_the_same_end() -> None:
    world = World(2)
    job = world.submit(*[TRUE] * 4)
    start(world)
    for _ in range(2):
        plan = plan_of(world, "node1", hello(world, "node1"))
        again = plan_of(world, "node1", hello(world, "node1"))
        assert plan == again
        world.do(*plan.reports)
        world.do(*plan.reports)  # an old report: nothing more happens
        start(world)
    while world.dispatched(job):
        world.end(job, *world.dispatched(job)[0])
    assert world.record(job).state is JobState.FINISHED


class Paper:
    """The end of a connection that keeps what is written."""

    def __init__(self) -> None:
        self.sent: list[FromHead] = []
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        while data:
            end = HEADER + int.from_bytes(data[:HEADER], "big")
            self.sent.append(msgspec.msgpack.decode(data[HEADER:end], type=FromHead))
            data = data[end:]

    def is_closing(self) -> bool:
        return False


class LinkedWorld(World):
    """A world whose events also go to links that write on paper."""

    def __init__(self, *processors: int) -> None:
        super().__init__(*processors)
        self.links = NodeLinks(
            self._tell, lambda: Welcome("c", Seconds(1.0), Seconds(1.0)), lambda: self.cluster
        )
        self.papers = {name: Paper() for name in self.cluster.nodes}
        for name, paper in self.papers.items():
            self.links.links[name] = NodeLink(name, paper)

    def _tell(self, command: Command, answered: Callable[[object], None]) -> None:
        answered(self.do(command))

    def do(self, *commands: Command) -> tuple[e.Event, ...]:
        before = self.engine.number
        answer = super().do(*commands)
        if hasattr(self, "links"):
            self.links.perform([event for _, event in self.journal.replay(before)], self.cluster)
        return answer

    def received(self, node: str) -> list[str]:
        """Return the names of what a node has heard since it was asked last."""
        found = [type(message).__name__ for message in self.papers[node].sent]
        self.papers[node].sent.clear()
        return found


def test_a_job_is_opened_before_it_runs_and_closed_when_it_is_over() -> None:
    world = LinkedWorld(1)
    job = world.submit(TRUE)
    assert world.received("node1") == ["OpenJob", "Run"]
    world.end(job, 1)
    assert world.received("node1") == ["CloseJob"]
    assert world.links.open_jobs == {}


def test_a_job_that_goes_back_to_the_queue_and_starts_in_one_batch_is_closed_before_it_is_opened() -> None:
    world = LinkedWorld(1)
    job = world.submit(TRUE)
    world.do(RequeueJob(by=ROOT, job=job))
    assert world.received("node1") == ["OpenJob", "Run", "Stop"]
    world.end(job, 1, kind="stopped")
    assert world.received("node1") == ["CloseJob", "OpenJob", "Run"]


def test_a_node_that_a_job_no_longer_uses_closes_it_and_hears_of_it_again_when_it_grows() -> None:
    world = LinkedWorld(1, 1)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=2)
    world.received("node2")
    world.end(job, 2)
    assert world.received("node2") == ["CloseJob"]
    spec = JobSpec(tasks=(TRUE, TRUE, TRUE))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    assert world.received("node2")[-2:] == ["OpenJob", "Run"]
    assert world.received("node1")[-1] == "OpenJob"


def test_new_tasks_and_limits_of_a_running_job_reach_its_nodes_before_they_matter() -> None:
    world = LinkedWorld(2)
    job = world.submit(TRUE, minimum=2, maximum=2)
    spec = JobSpec(tasks=(TRUE, TRUE), run_time=Seconds(60.0))
    world.papers["node1"].sent.clear()
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks", "run_time")))
    opened, run = world.papers["node1"].sent[0], world.papers["node1"].sent[-1]
    assert isinstance(opened, OpenJob)
    assert isinstance(run, Run)
    assert (opened.deadline, run.task) == (Instant(world.clock.now() + 60), 2)


def test_a_stop_names_the_attempt_that_runs_and_passes_force_on() -> None:
    world = LinkedWorld(1)
    job = world.submit(TRUE)
    world.end(job, 1, kind="lost")
    world.papers["node1"].sent.clear()
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=True))
    assert world.papers["node1"].sent == [Stop(job=job, attempts=((1, 1, 2),), force=True)]


def test_a_given_up_node_is_forgotten_by_the_jobs_that_were_open_there() -> None:
    world = LinkedWorld(1, 1)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=2)
    assert world.links.open_jobs == {job: {"node1", "node2"}}
    world.do(NodeVanished(node="node2"))
    world.do(GiveUpNode(node="node2"))
    assert world.links.open_jobs == {job: {"node1"}}


def table_of(world: LinkedWorld, node: str) -> Table:
    """Return what a node has that has heard everything, and whose every word was heard."""
    live = tuple(
        ReportedAttempt(each.job, each.task, each.instance, each.live.attempt, each.live.started is not None)
        for each in known(world, node)
    )
    jobs = tuple(sorted(world.links.links[node].opened))
    marks = tuple((job, world.links.links[node].opened[job]) for job in jobs)
    return Table(number=0, open_jobs=jobs, live=live, opened=marks)


def agrees(world: LinkedWorld, node: str, table: Table) -> bool:
    opened = world.links.links[node].opened.items()
    return digest_of_holdings(table) == expected_digest(world.cluster, node, known(world, node), opened)


def test_digests_agree_while_nothing_is_lost_and_differ_by_whatever_is() -> None:
    world = LinkedWorld(4)
    job, other = world.submit(TRUE, TRUE), world.submit(TRUE)
    world.do(world.nodes.started(world.nodes.running()[0], world.clock.now()))
    table = table_of(world, "node1")
    assert agrees(world, "node1", table)
    replace = msgspec.structs.replace
    started, waiting, last = table.live
    others = (
        replace(table, live=(started, waiting)),
        replace(table, live=(*table.live, ReportedAttempt(job, 1, 2, 1, True))),
        replace(table, live=(started, replace(waiting, running=True), last)),
        replace(table, live=(started, replace(waiting, attempt=2), last)),
        replace(table, opened=table.opened[:1]),
        replace(table, opened=((job, 0), table.opened[1])),
        replace(table, suspended=(other,)),
        replace(table, health_check="300 /bin/true"),
    )
    assert not [each for each in others if agrees(world, "node1", each)]
    reordered = replace(table, live=table.live[::-1], opened=table.opened[::-1])
    assert agrees(world, "node1", reordered)
    commands = replace(table, opened=(*table.opened, (JobId(-3), 7)), open_jobs=(*table.open_jobs, JobId(-3)))
    assert agrees(world, "node1", commands), "commands of people are no jobs of the cluster"


def test_what_ended_and_is_not_acknowledged_counts_as_what_had_begun() -> None:
    world = LinkedWorld(1)
    world.submit(TRUE)
    start(world)
    table = table_of(world, "node1")
    assert agrees(world, "node1", msgspec.structs.replace(table, live=(), ended=table.live))


def test_a_start_of_which_nobody_heard_is_reported_from_the_table() -> None:
    world = LinkedWorld(1)
    job = world.submit(TRUE)
    began = Instant(world.clock.now() - 5)
    table = Table(number=1, live=(ReportedAttempt(job, 1, 1, 1, True, began),))
    plan = plan_of(world, "node1", table)
    assert plan.messages == ()
    world.do(*plan.reports)
    (each,) = known(world, "node1")
    assert each.live.started == began
    assert plan_of(world, "node1", table).reports == ()


def test_what_was_handed_over_after_the_question_is_let_be() -> None:
    world = LinkedWorld(2)
    job = world.submit(TRUE, TRUE)
    world.do(world.nodes.started(world.nodes.running()[0], world.clock.now()))
    empty = Table(number=1)
    plan = plan_of(world, "node1", empty, (job, 1, 1, 1), (job, 2, 1, 1))
    assert (plan.messages, plan.reports) == ((), ())


def test_a_word_is_awaited_of_nodes_that_end_something_and_of_no_others() -> None:
    world = LinkedWorld(1, 1)
    job = world.submit(TRUE, TRUE, minimum=1, maximum=2)
    assert not awaits_report(world.cluster, "node1", known(world, "node1"))
    world.do(StopTask(by=ROOT, job=job, task=1))
    assert [awaits_report(world.cluster, name, known(world, name)) for name in ("node1", "node2")] == [
        True,
        False,
    ]


def test_the_whereabouts_kept_by_events_are_those_that_a_search_finds() -> None:
    dice, world = random.Random(5), World(3, 2)
    kept = AttemptsByNode(world.cluster)
    number = world.engine.number
    for _ in range(300):
        _anything(dice, world)
        kept.note([event for _, event in world.journal.replay(number)])
        number = world.engine.number
        for node in world.cluster.nodes:
            assert kept.of(node, world.cluster) == known(world, node)


def _anything(dice: random.Random, world: World) -> None:
    held = [each for each in world.nodes.running() if each.job in world.cluster.jobs]
    what = dice.random()
    if what < 0.4 or not held:
        sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=dice.randint(1, 5), rerunnable=True)
        world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(sweep,)), submit=True))
    elif what < 0.8:
        kind = dice.choice(("exited", "lost", "never-ran"))
        world.do(world.nodes.ended(dice.choice(held), world.clock.now(), kind=kind))
    elif what < 0.9:
        node = dice.choice(sorted(world.cluster.nodes))
        world.do(NodeVanished(node=node))
        world.do(GiveUpNode(node=node))
        world.do(RegisterNode(facts=world.cluster.nodes[node].facts))
    else:
        world.do(StopJob(by=ROOT, job=dice.choice(held).job, outcome="canceled"))


def _family(*ends: int) -> tuple[World, JobId]:
    """Return a world whose node has two parents and their child; the parents have these exit codes so far."""
    world = World(2)
    parents = [TaskSpec(command="p", name="p")] * 2
    job = world.submit(TaskSpec(command="warm up"), *parents, TaskSpec(command="c", depends_on=("p",)))
    now = world.clock.now()
    world.do(world.nodes.ended(world.nodes.running()[0], now, started=Instant(now - 0.001)))
    assert [(held.task, held.after) for held in world.nodes.running()][2:] == [(4, ((2, 1, 1), (3, 1, 1)))]
    for code in ends:
        world.do(world.nodes.ended(world.nodes.running()[0], now, exit_code=code))
    return world, job


def test_a_child_is_handed_over_again_behind_the_parents_that_have_not_ended() -> None:
    for ends, after in (((), ((2, 1, 1), (3, 1, 1))), ((0,), ((3, 1, 1),)), ((0, 0), ())):
        world, _ = _family(*ends)
        runs = plan_of(world, "node1", hello(world, "node1")).messages
        assert [run.after for run in runs if isinstance(run, Run) and run.task == 4] == [after]


def test_a_child_whose_parent_did_not_end_well_is_not_handed_over_again() -> None:
    world, job = _family(1)
    plan = plan_of(world, "node1", hello(world, "node1"))
    assert [run.task for run in plan.messages if isinstance(run, Run)] == [3]
    (report,) = plan.reports
    assert [(each.task, each.outcome.kind) for each in report.reports] == [(4, "never-ran")]
    world.do(report)
    world.end(job, 3)
    assert [(held.task, held.attempt, held.after) for held in world.nodes.running()] == [(4, 2, ())]


def test_a_child_that_started_unheard_is_reported_when_its_parents_ends_are_known() -> None:
    world, job = _family(0)
    table = hello(world, "node1", live=(ReportedAttempt(job, 4, 1, 1, True, world.clock.now()),))
    (report,) = plan_of(world, "node1", table).reports
    assert world.do(report) == (), "the end of its parent is still on its way"
    world.end(job, 3)
    (report,) = plan_of(world, "node1", table).reports
    assert world.do(report) != ()
