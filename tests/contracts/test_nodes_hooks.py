"""What the head tells nodes of hooks, and how it goes on when a word of them is lost."""

import asyncio

from test_nodes_reconciling import LinkedWorld, known
from worlds import ROOT

from headnode.adapters.nodes.reconcile import awaits_report
from headnode.adapters.wire.agent_messages import PROTOCOL, Hello, HookFailed
from headnode.adapters.wire.messages import Hooks, OpenJob
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.hooks import ReportClosed, ReportReady
from headnode.core.state.nodes import SetParameter
from headnode.core.state.transitions import JobState

ONE = TaskSpec(command="x")


def hooked(*processors: int, **more: str) -> LinkedWorld:
    """Return a head with links whose site has a prolog and an epilog."""
    world = LinkedWorld(*processors)
    for name, value in {"PrologProgram": "/site/in", "EpilogProgram": "/site/out", **more}.items():
        world.do(SetParameter(by=ROOT, name=name, value=value))
    return world


def put_right(world: LinkedWorld, node: str, *open_jobs: JobId) -> list[str]:
    """Let a node say all that it has, these jobs; return what it hears."""
    world.received(node)
    facts = world.cluster.nodes[node].facts
    hello = Hello(protocol=PROTOCOL, facts=facts, open_jobs=open_jobs)

    async def receive() -> None:
        world.links._put_right(world.links.links[node], hello)
        while len(asyncio.all_tasks()) > 1:  # what follows for the head is on its way
            await asyncio.sleep(0)

    asyncio.run(receive())
    return world.received(node)


def opened(world: LinkedWorld, node: str) -> list[Hooks | None]:
    messages = world.papers[node].sent
    found = [message.hooks for message in messages if isinstance(message, OpenJob)]
    messages.clear()
    return found


def test_a_node_hears_its_hooks_before_anything_runs_and_is_closed_before_the_job_is_over() -> None:
    world = hooked(1, PrologTimeout="5")
    job = world.submit(ONE)
    (hooks,) = opened(world, "node1")
    assert hooks is not None
    assert (hooks.prolog, hooks.prolog_timeout, hooks.epilog, hooks.filters) == (
        "/site/in",
        5.0,
        "/site/out",
        "",
    )
    world.do(ReportReady(node="node1", job=job))
    assert world.received("node1") == ["Run"]
    world.end(job, 1)
    assert world.received("node1")[-1] == "CloseJob"
    assert world.record(job).state is JobState.ENDING
    world.do(ReportClosed(node="node1", job=job))
    assert (world.received("node1"), world.record(job).state) == ([], JobState.FINISHED)


def test_without_hooks_a_node_hears_of_none() -> None:
    world = LinkedWorld(1)
    world.submit(ONE)
    assert opened(world, "node1") == [None]


def test_who_changes_a_hook_tells_the_nodes_of_running_jobs_and_who_takes_all_away_is_still_answered() -> (
    None
):
    world = hooked(1)
    job = world.submit(ONE)
    opened(world, "node1")
    world.do(SetParameter(by=ROOT, name="EpilogProgram", value="/site/other"))
    (hooks,) = opened(world, "node1")
    assert hooks is not None
    assert hooks.epilog == "/site/other"
    for name in ("EpilogProgram", "PrologProgram"):
        world.do(SetParameter(by=ROOT, name=name, value=None))
    assert Hooks() in [h and Hooks(prolog=h.prolog, epilog=h.epilog) for h in opened(world, "node1")]
    world.do(ReportReady(node="node1", job=job))
    world.do(SetParameter(by=ROOT, name="PrologTimeout", value="9"))
    assert opened(world, "node1") == [None]


def test_a_node_that_is_being_cleaned_hears_that_again_and_is_clean_when_it_has_nothing() -> None:
    world = hooked(1)
    job = world.submit(ONE)
    world.do(ReportReady(node="node1", job=job))
    assert not awaits_report(world.cluster, "node1", known(world, "node1"))
    world.end(job, 1)
    assert awaits_report(world.cluster, "node1", known(world, "node1"))
    assert put_right(world, "node1", job) == ["CloseJob"]
    assert world.record(job).state is JobState.ENDING
    assert put_right(world, "node1") == []
    assert world.record(job).state is JobState.FINISHED


def test_a_node_that_a_running_job_gives_back_hears_once_that_it_is_closed() -> None:
    world = hooked(1, 1)
    job = world.submit(ONE, ONE, minimum=1, maximum=2)
    for node in ("node1", "node2"):
        world.do(ReportReady(node=node, job=job))
    world.received("node2")
    world.end(job, 2)
    assert world.received("node2") == ["CloseJob"]
    world.do(ReportClosed(node="node2", job=job))
    assert world.received("node2") == []
    assert world.cluster.cores.free["node2"] == [0]


def test_the_failure_of_a_hook_is_answered_when_it_is_durable() -> None:
    world = hooked(1, 1)
    job = world.submit(ONE)
    world.received("node1")

    async def receive() -> None:
        link = world.links.links["node1"]
        world.links._hook_failed(HookFailed(job=job, hook="prolog", message="no disk"), link)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(receive())
    assert world.received("node1") == ["CloseJob", "HookFailureAck"]
    assert [drain.cause for drain in world.cluster.nodes["node1"].drains] == ["hook"]
