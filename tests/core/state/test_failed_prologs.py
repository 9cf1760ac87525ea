"""A prolog that fails is the node's fault or the job's: neither a job nor its owner drains a cluster."""

from worlds import ADA, BOB, ROOT, World

from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.state.hold import ReleaseJob
from headnode.core.state.hooks import ReportHook, ReportReady
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState

ONE = TaskSpec(command="x")


def world(nodes: int) -> World:
    made = World(*[1] * nodes)
    made.do(SetParameter(by=ROOT, name="PrologProgram", value="/site/prolog"))
    return made


def holds(world: World, job: JobId) -> list[str]:
    run = world.record(job).run
    return [] if run is None else list(run.allocation)


def fails(world: World, job: JobId) -> str:
    """Let the prolog of a job fail on its first node; return that."""
    node = holds(world, job)[0]
    world.do(ReportHook(node=node, job=job, hook="prolog", reason="no disk"))
    return node


def fails_everywhere(world: World, job: JobId) -> list[str]:
    """Let the prolog of a job fail wherever it comes."""
    nodes = []
    while holds(world, job):
        nodes.append(fails(world, job))
    return nodes


def drained(world: World) -> list[str]:
    return sorted(name for name, node in world.cluster.nodes.items() if node.drains)


def messages(world: World, job: JobId) -> list[tuple[str, str]]:
    return [(hold.name, hold.message) for hold in world.record(job).holds]


def test_a_job_whose_prolog_fails_on_two_nodes_is_held_and_the_nodes_take_jobs_again() -> None:
    scene = world(4)
    job = scene.submit(ONE, by=ADA)
    assert fails_everywhere(scene, job) == ["node1", "node2"]
    assert scene.record(job).state is JobState.QUEUED
    found = (
        "prologs failed on 2 nodes (node1, node2), only for jobs of ada: node node2 could not be made ready"
    )
    assert messages(scene, job) == [("system", f"{found}: no disk")]
    assert drained(scene) == []
    other = scene.submit(ONE, by=BOB)
    assert holds(scene, other) == ["node1"]
    scene.check_replay()


def test_one_owner_drains_no_cluster_however_many_jobs_of_his_fail() -> None:
    scene = world(2)
    jobs = [scene.submit(ONE, by=ADA, name="bad") for _ in range(10)]
    good = scene.submit(ONE, by=BOB)
    while running := [job for job in jobs if holds(scene, job)]:
        fails(scene, running[0])
    assert drained(scene) == []
    assert all(messages(scene, job) for job in jobs if job in scene.cluster.jobs and not holds(scene, job))
    (node,) = holds(scene, good)
    scene.do(ReportReady(node=node, job=good))
    scene.check_replay()


def test_a_node_that_fails_jobs_of_two_owners_stays_drained_and_the_second_runs_elsewhere() -> None:
    scene = world(4)
    fails_everywhere(scene, scene.submit(ONE, by=ADA))
    other = scene.submit(ONE, by=BOB)
    assert fails(scene, other) == "node1"
    assert holds(scene, other) == ["node2"]
    scene.do(ReportReady(node="node2", job=other))
    assert drained(scene) == ["node1"]
    assert messages(scene, other) == []
    scene.check_replay()


def test_a_node_is_to_blame_where_the_same_job_was_made_ready_on_another() -> None:
    scene = world(3)
    job = scene.submit(ONE, by=ADA)
    assert fails(scene, job) == "node1"
    scene.do(ReportReady(node="node2", job=job))
    scene.end(job, 1)
    second = scene.submit(ONE, by=ADA)
    assert holds(scene, second) == ["node2"]
    assert fails(scene, second) == "node2"
    assert (drained(scene), messages(scene, second)) == (["node1", "node2"], [])
    assert holds(scene, second) == ["node3"]
    scene.check_replay()


def test_a_node_that_fails_several_jobs_of_the_only_owner_stays_drained() -> None:
    scene = world(2)
    fails_everywhere(scene, scene.submit(ONE, by=ADA))
    second = scene.submit(ONE, by=ADA)
    assert fails_everywhere(scene, second) == ["node1", "node2"]
    assert (drained(scene), messages(scene, second)) == (["node1", "node2"], [])
    scene.check_replay()


def test_several_jobs_of_one_owner_tell_nothing_where_those_of_another_are_made_ready_meanwhile() -> None:
    scene = world(3)
    fails_everywhere(scene, scene.submit(ONE, by=ADA))
    other = scene.submit(ONE, by=BOB, requested_nodes=("node3",))
    scene.do(ReportReady(node="node3", job=other))
    second = scene.submit(ONE, by=ADA)
    assert fails_everywhere(scene, second) == ["node1", "node2"]
    assert drained(scene) == []
    assert [name for name, _ in messages(scene, second)] == ["system"]
    scene.check_replay()


def test_a_prolog_that_is_broken_for_all_holds_few_jobs_and_then_all_nodes_are_drained() -> None:
    scene = world(6)
    users = [User(name=f"u{number}", uid=2000 + number, gid=2000) for number in range(20)]
    jobs = [scene.submit(ONE, by=user) for user in users]
    while running := [job for job in jobs if holds(scene, job)]:
        fails(scene, running[0])
    held = [job for job in jobs if scene.record(job).holds]
    assert drained(scene) == [f"node{number}" for number in range(1, 7)]
    assert len(held) <= 3
    assert all(scene.record(job).state is JobState.QUEUED for job in jobs)


def test_what_the_last_nodes_of_a_large_job_still_report_drains_no_node() -> None:
    scene = world(5)
    job = scene.submit(*[ONE] * 5, by=ADA, minimum=5, maximum=5)
    nodes = holds(scene, job)
    for node in nodes:
        scene.do(ReportHook(node=node, job=job, hook="prolog", reason="no disk"))
    assert drained(scene) == []
    assert [name for name, _ in messages(scene, job)] == ["system"]
    scene.check_replay()


def test_only_an_operator_lets_the_job_go_on_and_it_is_held_again_after_two_more_nodes() -> None:
    scene = world(3)
    job = scene.submit(ONE, by=ADA)
    fails_everywhere(scene, job)
    scene.do(ReleaseJob(by=ROOT, job=job, name=None))
    assert len(fails_everywhere(scene, job)) == 2
    assert ([name for name, _ in messages(scene, job)], drained(scene)) == (["system"], [])
    scene.do(ReleaseJob(by=ROOT, job=job, name=None))
    (node,) = holds(scene, job)
    scene.do(ReportReady(node=node, job=job))
    scene.end(job, 1)
    assert scene.record(job).state is JobState.FINISHED
    scene.check_replay()


def test_a_prolog_that_a_node_cannot_even_start_is_never_laid_to_the_job() -> None:
    scene = world(3)
    job = scene.submit(ONE, by=ADA)
    for node in ("node1", "node2"):
        found = "the prolog '/site/prolog' cannot be run: it can be changed by everybody"
        scene.do(ReportHook(node=node, job=job, hook="prolog", reason=found, of_node=True))
    assert (drained(scene), messages(scene, job)) == (["node1", "node2"], [])
    assert holds(scene, job) == ["node3"]
    scene.check_replay()


def test_jobs_that_are_canceled_while_their_prologs_fail_drain_no_cluster() -> None:
    scene = world(3)
    for _ in range(6):
        job = scene.submit(ONE, by=ADA)
        (node,) = holds(scene, job)
        scene.do(StopJob(by=ADA, job=job, outcome="canceled"))
        scene.do(ReportHook(node=node, job=job, hook="prolog", reason="no disk"))
    assert len(drained(scene)) <= 1
    scene.check_replay()


def test_a_node_with_another_fault_of_its_hooks_is_not_given_back_with_those_of_a_job() -> None:
    scene = world(2)
    scene.do(ReportHook(node="node1", job=JobId(99), hook="epilog", reason="unclean"))
    job = scene.submit(ONE, by=ADA)
    assert holds(scene, job) == ["node2"]
    assert scene.do(ReportHook(node="node1", job=job, hook="prolog", reason="no disk"))
    fails(scene, job)
    assert drained(scene) == ["node1", "node2"]
    assert messages(scene, job) == []
    scene.check_replay()


def test_an_administrator_who_resumes_a_node_takes_the_doubt_away() -> None:
    scene = world(1)
    job = scene.submit(ONE, by=ADA)
    fails(scene, job)
    assert drained(scene) == ["node1"]
    scene.do(ChangeNode(by=ROOT, node="node1", action="resume"))
    assert scene.cluster.suspects == {}
    assert holds(scene, job) == ["node1"]
    scene.check_replay()
