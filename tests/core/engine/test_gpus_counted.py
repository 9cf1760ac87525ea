"""Jobs that count GPUs: what they hold of nodes, beside whom they run, and what they are told."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.job import OrderKey, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import explain
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState

ONE = TaskSpec(command="/bin/train")
TWO = TaskSpec(command="/bin/train", minimum=2, maximum=2)


def world(*nodes: NodeFacts, policy: str = "easy") -> World:
    made = World()
    for facts in nodes or (NodeFacts(name="n1", processors=32, gpus=4),):
        made.do(RegisterNode(facts=facts, approved=True))
    made.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    return made


def on_gpus(made: World, *tasks: TaskSpec, each: int = 1, **options: object) -> JobId:
    return made.submit(*tasks, by=ADA, unit=UnitType.GPU, processors_per_gpu=each, **options)


def states(made: World, *jobs: JobId) -> list[JobState]:
    return [made.record(job).state for job in jobs]


def reasons_of(made: World, job: JobId) -> list[str]:
    now = made.clock.now()
    view, request = made.engine.view(now), made.cluster.request(made.record(job))
    return [reason.text for reason in explain(view, made.engine.plan(now), request)]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_more_jobs_run_than_there_are_gpus_though_processors_are_free(policy: str) -> None:
    made = world(policy=policy)
    jobs = [on_gpus(made, TWO) for _ in range(3)]
    assert states(made, *jobs) == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    assert len(made.cluster.cores.free["n1"]) == 28
    made.end(jobs[0], 1)
    assert states(made, jobs[2]) == [JobState.RUNNING]
    made.check_replay()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_job_for_processors_runs_beside_those_on_gpus(policy: str) -> None:
    made = world(policy=policy)
    four = on_gpus(made, TaskSpec(command="x", minimum=4, maximum=4), each=2)
    plain = made.submit(TaskSpec(command="x", minimum=24, maximum=24))
    assert states(made, four, plain) == [JobState.RUNNING, JobState.RUNNING]


def test_each_gpu_comes_with_its_processors_on_the_same_node() -> None:
    made = world(NodeFacts(name="n1", processors=12, gpus=4), NodeFacts(name="n2", processors=8, gpus=1))
    job = on_gpus(made, TaskSpec(command="x", minimum=3, maximum=3), each=6)
    (held,) = (held for held in made.nodes.running() if held.job == job)
    assert sorted((node, len(numbers)) for node, numbers in held.place) == [("n1", 12), ("n2", 6)]


def test_instances_of_a_sweep_have_a_gpu_each_and_the_next_takes_the_place_of_one_that_ends() -> None:
    made = world(NodeFacts(name="n1", processors=8, gpus=2), NodeFacts(name="n2", processors=2, gpus=2))
    sweep = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=9)
    job = on_gpus(made, sweep, each=2)
    places = [held.place for held in made.nodes.running()]
    assert sorted(node for ((node, _),) in places) == ["n1", "n1", "n2"]
    assert all(len(numbers) == 2 for ((_, numbers),) in places)
    for instance in range(1, 10):
        made.end(job, 1, instance)
        assert len(made.nodes.running()) == min(3, 9 - instance)
    assert states(made, job) == [JobState.FINISHED]
    assert made.cluster.cores.free == {"n1": list(range(8)), "n2": [0, 1]}


def test_a_job_on_two_nodes_has_as_many_gpus_on_each_as_its_distribution_says() -> None:
    made = world(*(NodeFacts(name=name, processors=8, gpus=4) for name in ("n1", "n2", "n3")))
    task = TaskSpec(command="x", minimum=4, maximum=4, distribution=Distribution(per_node=2))
    on_gpus(made, task, each=4)
    ((held,),) = ([held.place for held in made.nodes.running()],)
    assert [(node, len(numbers)) for node, numbers in held] == [("n1", 8), ("n2", 8)]


def test_a_job_that_waits_is_told_what_each_node_lacks() -> None:
    made = world(
        NodeFacts(name="busy", processors=4, gpus=1),
        NodeFacts(name="full", processors=4, gpus=2),
        NodeFacts(name="plain", processors=4),
    )
    first = made.submit(TaskSpec(command="x", required_nodes=("busy",)), unit=UnitType.GPU)
    second = made.submit(TaskSpec(command="x", minimum=3, maximum=3, required_nodes=("full",)))
    job = on_gpus(made, TWO, each=2)
    assert states(made, first, second, job) == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    assert reasons_of(made, job) == [
        "needs 2 GPUs; no eligible node has a free one",
        "node 'busy' has its 1 GPU in use",
        "node 'full' has 2 GPUs and 1 processor free; a GPU needs 2 of them",
        "node 'plain' has no GPUs",
    ]


def test_a_job_that_can_never_run_is_told_so() -> None:
    made = world(NodeFacts(name="n1", processors=4, gpus=2))
    job = on_gpus(made, ONE, each=8)
    assert "node 'n1' has 4 processors; a GPU needs 8 of them" in reasons_of(made, job)
    many = on_gpus(made, TaskSpec(command="x", minimum=3, maximum=3))
    assert "needs 3 GPUs; at most 2 GPUs on 1 node would fit" in reasons_of(made, many)
    large = on_gpus(made, TWO, each=4)
    assert "needs 2 GPUs with 4 processors each; at most 1 GPU on 1 node would fit" in reasons_of(made, large)


def test_a_suspended_job_keeps_its_gpus_for_its_stopped_processes_still_use_them() -> None:
    made = world(NodeFacts(name="n1", processors=8, gpus=2))
    job = on_gpus(made, TWO, suspendable=True)
    made.do(SuspendJob(by=ROOT, job=job))
    made.do(*made.nodes.stopped(job))
    assert states(made, job) == [JobState.SUSPENDED]
    other, plain = on_gpus(made, ONE), made.submit(ONE)
    assert states(made, other, plain) == [JobState.QUEUED, JobState.RUNNING]
    made.do(ResumeJob(by=ROOT, job=job))
    assert made.record(job).state in (JobState.RESUMING, JobState.RUNNING)


def test_a_node_that_comes_back_with_fewer_gpus_takes_no_job_until_it_is_resumed() -> None:
    made = world(NodeFacts(name="n1", processors=8, gpus=4))
    first = on_gpus(made, TWO)
    made.do(RegisterNode(facts=NodeFacts(name="n1", processors=8, gpus=2)))
    second = on_gpus(made, ONE)
    assert states(made, first, second) == [JobState.RUNNING, JobState.QUEUED]
    made.end(first, 1)
    assert states(made, second) == [JobState.QUEUED]
    assert [drain.reason for drain in made.cluster.node("n1").drains] == [
        "the node has 2 GPUs; it had 4 before; if 2 is right: hn node resume n1"
    ]
    made.do(ChangeNode(by=ROOT, node="n1", action="resume"))
    assert states(made, second) == [JobState.RUNNING]
    made.do(RegisterNode(facts=NodeFacts(name="n1", processors=8, gpus=4)))
    assert made.cluster.node("n1").drains == ()
    made.check_replay()


def test_a_job_with_whole_nodes_has_their_gpus_and_nobody_else_any() -> None:
    made = world(NodeFacts(name="n1", processors=8, gpus=4))
    owner = made.submit(ONE, exclusive=True)
    other = on_gpus(made, ONE)
    assert states(made, owner, other) == [JobState.RUNNING, JobState.QUEUED]
    made.end(owner, 1)
    alone = on_gpus(made, ONE, exclusive=True)
    assert states(made, other, alone) == [JobState.RUNNING, JobState.QUEUED]


def test_a_job_without_gpus_leaves_nodes_with_gpus_to_others_unless_it_says_its_own_order() -> None:
    made = world(
        NodeFacts(name="large", processors=4, memory=512_000, gpus=4),
        NodeFacts(name="small", processors=4, memory=16_000),
    )
    first = made.submit(ONE)
    own = made.submit(ONE, order_by=(OrderKey("memory"),))
    more = made.submit(TaskSpec(command="x", minimum=4, maximum=4))
    places = {held.job: [node for node, _ in held.place] for held in made.nodes.running()}
    assert places == {first: ["small"], own: ["large"], more: ["small", "large"]}
