"""Memory, disk and swap that a job asks for in SSS are its own while it runs."""

import msgspec
import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.formats.dialects import read
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import explain
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.submit import CreateJob
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState

GB = 1024


def world(*nodes: NodeFacts, policy: str = "easy") -> World:
    made = World()
    for facts in nodes or (NodeFacts(name="n1", processors=8, memory=24 * GB, disk=24 * GB, swap=24 * GB),):
        made.do(RegisterNode(facts=facts, approved=True))
    made.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    return made


def wants(inside: str) -> JobSpec:
    text = f"<Job><Id>1</Id><Executable>/bin/x</Executable><Requested>{inside}</Requested></Job>"
    (spec,) = read(text).jobs
    return spec


def submit(made: World, spec: JobSpec, by: User = ADA) -> JobId:
    (job, *_) = (event.job for event in made.do(CreateJob(by=by, spec=spec, submit=True)))  # type: ignore[attr-defined]
    return job


def state(made: World, job: JobId) -> JobState:
    return made.record(job).state


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("what", ["Memory", "Disk", "Swap"])
def test_two_jobs_of_20_gb_do_not_run_together_on_24(what: str, policy: str) -> None:
    made = world(policy=policy)
    first, second = (submit(made, wants(f'<{what} units="GB">20</{what}>'), by) for by in (ADA, BOB))
    small = submit(made, wants(f'<{what} units="GB">4</{what}>'))
    assert state(made, first) is JobState.RUNNING
    assert state(made, second) is JobState.QUEUED
    assert state(made, small) is (JobState.QUEUED if policy == "fcfs" else JobState.RUNNING)
    made.end(first, 1)
    assert state(made, second) is JobState.RUNNING


@pytest.mark.parametrize("what", ["memory", "disk", "swap"])
def test_the_reason_to_wait_names_what_is_held(what: str) -> None:
    made = world()
    element = what.capitalize()
    submit(made, wants(f'<{element} units="GB">20</{element}>'))
    second = submit(made, wants(f'<{element} units="GB">20</{element}>'))
    view = made.engine.view(made.clock.now())
    request = next(each.request for each in view.queue if each.turns[0].job == second)
    found = explain(view, made.engine.plan(made.clock.now()), request)
    assert any(f"4096 MB of {what} that no job holds" in reason.text for reason in found)


def test_a_job_that_grows_holds_no_more_of_its_nodes_and_stays_on_them() -> None:
    made = world(
        NodeFacts(name="n1", processors=4, memory=24 * GB), NodeFacts(name="n2", processors=4, memory=24 * GB)
    )
    busy = submit(made, wants("<Processors>3</Processors><Node>n1</Node>"))
    grows = submit(
        made,
        wants(
            '<Processors op="GE">1</Processors><Processors op="LE">8</Processors>'
            '<Memory units="GB">20</Memory><Node>n1</Node><Node>n2</Node>'
        ),
    )
    assert state(made, grows) is JobState.RUNNING
    held = {name: view.memory_held for name, view in made.engine.view(made.clock.now()).nodes.items()}
    made.end(busy, 1)
    after = {name: view.memory_held for name, view in made.engine.view(made.clock.now()).nodes.items()}
    assert held == after
    assert set(held.values()) <= {0, 20 * GB}


def test_a_suspended_job_keeps_its_memory() -> None:
    made = world()
    spec = wants('<Memory units="GB">20</Memory>')
    first = submit(made, msgspec.structs.replace(spec, suspendable=True))
    made.do(SuspendJob(by=ROOT, job=first))
    assert made.cluster.detached or state(made, first) is JobState.SUSPENDING
    second = submit(made, spec)
    assert state(made, second) is JobState.QUEUED
