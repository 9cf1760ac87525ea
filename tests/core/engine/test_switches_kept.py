"""Jobs in a cluster with switches: where they start, for how long they wait, and what they are told."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.formats.batch import read_script
from headnode.core.model.errors import BadRequest, NotAllowed
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, JobId, Seconds
from headnode.core.model.task import Distribution, TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import explain
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.transitions import JobState
from headnode.engine.settings import check_parameter

TREE = "SwitchName=a Nodes=n[1-4];SwitchName=b Nodes=N[5-6] LinkSpeed=10;SwitchName=top Switches=a,b"
EVERY_POLICY = pytest.mark.parametrize("policy", sorted(POLICIES))


def world(policy: str = "easy", topology: str = TREE) -> World:
    made = World()
    for number in range(1, 7):
        made.do(RegisterNode(facts=NodeFacts(name=f"n{number}", processors=2), approved=True))
    made.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    made.do(SetParameter(by=ROOT, name="Topology", value=topology))
    return made


def nodes(made: World, job: JobId) -> list[str]:
    return sorted(node for held in made.nodes.running() if held.job == job for node, _ in held.place)


def on_nodes(made: World, count: int, **options: object) -> JobId:
    task = TaskSpec(command="x", minimum=count, maximum=count)
    return made.submit(task, by=ADA, unit=UnitType.NODE, run_time=Seconds(3600.0), **options)


def reasons_of(made: World, job: JobId) -> list[tuple[str, str]]:
    now = made.clock.now()
    view, request = made.engine.view(now), made.cluster.request(made.record(job))
    return [(reason.why, reason.text) for reason in explain(view, made.engine.plan(now), request)]


@EVERY_POLICY
def test_a_job_runs_under_the_smallest_switch_that_holds_it(policy: str) -> None:
    made = world(policy)
    assert nodes(made, on_nodes(made, 2)) == ["n5", "n6"]
    assert nodes(made, on_nodes(made, 3)) == ["n1", "n2", "n3"]
    plain = world(policy, topology="")
    assert nodes(plain, on_nodes(plain, 2)) == ["n1", "n2"]


@EVERY_POLICY
def test_a_job_waits_for_few_switches_as_long_as_it_says_and_then_starts(policy: str) -> None:
    made = world(policy)
    busy = on_nodes(made, 1, requested_nodes=("n1",))
    job = on_nodes(made, 4, switches=1, switches_wait=Seconds(600.0))
    assert nodes(made, busy) == ["n1"]
    assert made.record(job).state is JobState.QUEUED
    why, text = reasons_of(made, job)[0]
    assert why == "switches"
    assert text == (
        "needs 4 nodes under at most 1 leaf switch; at most 3 would fit now; "
        "in 10m the job accepts any number"
    )
    made.wait(599)
    assert made.record(job).state is JobState.QUEUED
    wake = made.engine.next_wake()
    assert wake is not None
    assert wake <= made.clock.now() + 1
    made.wait(1)
    assert made.record(job).state is JobState.RUNNING
    made.check_replay()


@EVERY_POLICY
def test_a_job_starts_before_its_time_is_over_as_soon_as_few_switches_are_free(policy: str) -> None:
    made = world(policy)
    busy = on_nodes(made, 1, requested_nodes=("n1",))
    job = on_nodes(made, 4, switches=1, switches_wait=FOREVER)
    made.wait(1000)
    assert made.record(job).state is JobState.QUEUED
    made.end(busy, 1)
    assert nodes(made, job) == ["n1", "n2", "n3", "n4"]


def test_tasks_that_are_distributed_over_nodes_wait_for_few_switches_too() -> None:
    made = world()
    on_nodes(made, 1, requested_nodes=("n1",))
    task = TaskSpec(command="x", minimum=4, maximum=4, distribution=Distribution(nodes=4))
    job = made.submit(task, by=ADA, switches=1)
    assert made.record(job).state is JobState.QUEUED
    made.wait(300)
    assert made.record(job).state is JobState.RUNNING


def test_other_switches_count_from_the_next_start_on_and_only_administrators_set_them() -> None:
    made = world()
    on_nodes(made, 1, requested_nodes=("n1",))
    job = on_nodes(made, 4, switches=1)
    with pytest.raises(NotAllowed):
        made.do(SetParameter(by=ADA, name="Topology", value=""))
    made.do(SetParameter(by=ROOT, name="Topology", value="SwitchName=one Nodes=n[1-6]"))
    assert made.record(job).state is JobState.RUNNING
    made.check_replay()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SwitchName=a", "either nodes or switches"),
        ("Nodes=n1", "a switch has a name"),
        ("SwitchName=a Nodes=n1;SwitchName=a Nodes=n2", "defined twice"),
        ("SwitchName=a Nodes=n1;SwitchName=b Nodes=N1", "'n1' is under 'a' already"),
        ("SwitchName=a Switches=b", "'b' is not defined"),
        ("SwitchName=a Switches=b;SwitchName=b Switches=a", "above itself"),
        ("SwitchName=a Nodes=n[1-99999999]", "too long"),
        ("SwitchName=a Nodes=n[1-999]m[1-999]", "more than 65,536 names"),
        (f"SwitchName=a Nodes=n[{','.join(['1-60000'] * 2000)}]", "more than 65,536 names"),
        (f"SwitchName=a Nodes={','.join(['n[1-60000]'] * 2000)}", "more than 65,536 names"),
        ("SwitchName=a Nodes=n[1", "do not match"),
        ("SwitchName=a Nodes=n1 Speed=9", "'Speed=9' is not expected here"),
    ],
)
def test_a_text_that_is_no_tree_of_switches_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=r"topology|switches") as no:
        check_parameter("Topology", text)
    assert why in no.value.what
    with pytest.raises(BadRequest):
        world().do(SetParameter(by=ROOT, name="Topology", value=text))


@pytest.mark.parametrize(
    ("option", "switches", "wait"),
    [
        *(("--switches=2", 2, 300.0), ("--switches=1@10", 1, 600.0), ("--switches=1@0:02", 1, 2.0)),
        ("--switches 1@UNLIMITED", 1, FOREVER),
    ],
)
def test_a_script_of_slurm_says_for_how_many_switches_it_waits_and_how_long(
    option: str, switches: int, wait: float
) -> None:
    spec, _ = read_script(f"#!/bin/sh\n#SBATCH {option} --mincpus=2\ntrue\n")
    assert (spec.switches, spec.switches_wait, spec.minimum_processors_per_node) == (switches, wait, 2)
