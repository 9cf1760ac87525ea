"""Nodes whose agents know no hooks: they run jobs while the site has none, else they are drained."""

import pytest
from msgspec.structs import replace
from worlds import ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.drain import DrainNode
from headnode.core.state.hooks import HOOKS, OLD_AGENT, ReportClosed, ReportHook, ReportReady
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.transitions import JobState

ONE = TaskSpec(command="x")
REASON = "its agent is older than the hooks of this cluster and runs none: update Headnode there"


def says_hello(world: World, node: str = "node1", *, hooks: bool, boot: str = "") -> None:
    facts = world.cluster.nodes[node].facts
    world.do(RegisterNode(facts=replace(facts, hooks=hooks, boot_id=boot)))


def set_hook(world: World, name: str, value: str | None = "/site/hook") -> None:
    world.do(SetParameter(by=ROOT, name=name, value=value))


def old(*processors: int) -> World:
    """Return a head whose first node has an agent of before."""
    world = World(*processors)
    says_hello(world, hooks=False)
    return world


def drains(world: World, node: str = "node1") -> list[tuple[str, str]]:
    return [(each.cause, each.reason) for each in world.cluster.nodes[node].drains]


def why(world: World, job: JobId) -> list[str]:
    plan = world.engine.last_plan
    assert plan is not None
    return [each.text for each in plan.waits[world.cluster.request(world.record(job))].reasons]


def beats(world: World, job: JobId, node: str = "node1") -> None:
    """The head hears an agent of before, of whose node a job waits for a word."""
    world.do(ReportHook(node=node, job=job, hook=OLD_AGENT, reason=REASON))


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_an_old_agent_gets_jobs_until_there_are_hooks_and_again_when_there_are_none(hook: str) -> None:
    scene = old(1)
    first = scene.submit(ONE)
    set_hook(scene, hook)
    scene.end(first, 1)
    scene.do(ReportClosed(node="node1", job=first))
    assert scene.record(first).state is JobState.FINISHED
    second = scene.submit(ONE)
    assert (scene.record(second).state, drains(scene)) == (JobState.QUEUED, [("agent", REASON)])
    assert why(scene, second)[-1] == f"node 'node1' accepts no new jobs: {REASON}"
    set_hook(scene, hook, None)
    assert (scene.record(second).state, drains(scene)) == (JobState.RUNNING, [])
    scene.check_replay()


def test_who_has_two_hooks_and_clears_one_still_keeps_jobs_off() -> None:
    scene = old(1)
    for hook in ("PrologProgram", "EpilogProgram"):
        set_hook(scene, hook)
    set_hook(scene, "PrologProgram", None)
    assert drains(scene) == [("agent", REASON)]


def test_a_new_agent_opens_the_node_and_an_old_one_closes_it() -> None:
    scene = old(1)
    set_hook(scene, "EpilogProgram")
    job = scene.submit(ONE)
    says_hello(scene, hooks=True)
    assert (scene.record(job).state, drains(scene)) == (JobState.RUNNING, [])
    says_hello(scene, hooks=False)
    assert drains(scene) == [("agent", REASON)]
    scene.check_replay()


def test_a_node_that_is_new_and_old_is_closed_from_its_first_word_on() -> None:
    scene = World(1)
    set_hook(scene, "PrologProgram")
    scene.do(RegisterNode(facts=NodeFacts(name="late", processors=1, hooks=False), approved=True))
    assert (drains(scene, "late"), drains(scene)) == ([("agent", REASON)], [])


def test_resuming_a_node_does_not_make_its_agent_younger() -> None:
    scene = old(1)
    set_hook(scene, "PrologProgram")
    resume = ChangeNode(by=ROOT, node="node1", wish="resume")
    with pytest.raises(WrongState, match="old-agent"):
        scene.do(resume)
    scene.do(DrainNode(by=ROOT, node="node1", reason="disks"))
    scene.do(resume)
    assert drains(scene) == [("agent", REASON)]


def test_an_administrators_job_that_names_a_paused_node_is_told_of_the_old_agent_too() -> None:
    scene = old(1, 1)
    scene.do(ChangeNode(by=ROOT, node="node1", wish="pause"))
    set_hook(scene, "PrologProgram")
    job = scene.submit(ONE, requested_nodes=("node1",))
    assert scene.record(job).state is JobState.QUEUED
    assert f"node 'node1' accepts no new jobs: {REASON}" in why(scene, job)


def test_a_job_that_waits_for_a_word_that_never_comes_goes_where_it_comes() -> None:
    scene = World(1, 1)
    set_hook(scene, "PrologProgram")
    job = scene.submit(ONE)
    says_hello(scene, hooks=False)  # somebody went back to an older version before the prolog ended
    beats(scene, job)
    scene.do(ReportClosed(node="node1", job=job))
    run = scene.record(job).run
    assert run is not None
    assert (list(run.allocation), run.unready) == (["node2"], ("node2",))
    scene.do(ReportReady(node="node2", job=job))
    assert scene.dispatched(job) == [(1, 1)]
    beats(scene, job)
    assert (drains(scene), drains(scene, "node2")) == ([("agent", REASON)], [])
    scene.check_replay()


def test_a_node_that_comes_back_from_a_reboot_with_an_old_agent_keeps_nobody_waiting() -> None:
    scene = World(1, 1)
    says_hello(scene, hooks=True, boot="first")
    set_hook(scene, "PrologProgram")
    job = scene.submit(TaskSpec(command="x", rerunnable=True))
    scene.do(ReportReady(node="node1", job=job))
    says_hello(scene, hooks=False, boot="second")
    beats(scene, job)
    scene.do(ReportClosed(node="node1", job=job))
    run = scene.record(job).run
    assert run is not None
    assert list(run.allocation) == ["node2"]
