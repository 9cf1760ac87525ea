"""What each task of a job needs of its own, as the scheduler is told."""

from typing import Any

import pytest

from headnode.core.model.job import Alternative, JobSpec, RequestPart, TaskAlternative, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.job_request import request_of

GPU = NodeNeeds(features=(("gpu",),))


def basic(processors: int = 1, **more: Any) -> TaskSpec:
    return TaskSpec(minimum=processors, maximum=processors, **more)


def sweep(instances: int, processors: int = 1, **more: Any) -> TaskSpec:
    size = {"minimum": processors, "maximum": processors}
    return TaskSpec(kind=TaskType.SWEEP, start=1, end=instances, **size, **more)


def part_of(task: TaskSpec, **job: Any) -> RequestPart:
    (found,) = request_of(JobSpec(tasks=(task,), together=True, **job)).parts
    return found


def test_a_gang_is_as_large_as_all_its_tasks_together_whatever_size_the_job_says() -> None:
    request = request_of(JobSpec(tasks=(basic(3), sweep(4, 2)), together=True, minimum=3, maximum=5))
    assert (request.minimum, request.maximum, request.together) == (11, 11, True)
    assert [part.lumps for part in request.parts] == [((1, 3),), ((2, 4),)]


def test_a_gang_without_tasks_or_with_nothing_to_run_is_a_job_like_any_other() -> None:
    for tasks in ((), (basic(kind=TaskType.NODE_PREP),)):
        request = request_of(JobSpec(tasks=tasks, together=True))
        assert (request.together, request.parts, request.minimum) == (False, (), 1)
    prepared = request_of(JobSpec(tasks=(basic(kind=TaskType.NODE_PREP), basic(2)), together=True))
    assert [part.lumps for part in prepared.parts] == [(), ((1, 2),)]


@pytest.mark.parametrize(
    ("rule", "lumps"),
    [
        (Distribution(per_node=2), ((2, 2), (1, 1))),
        (Distribution(per_node=9), ((5, 1),)),
        (Distribution(nodes=2), ((3, 1), (2, 1))),
        (Distribution(nodes=7), ((1, 5),)),
        (Distribution(geometry=((1, 4), (2,), (3, 5))), ((2, 2), (1, 1))),
        (Distribution(geometry=((1, 2, 3),)), ((3, 1), (1, 2))),
    ],
)
def test_a_distribution_is_lumps_on_nodes_of_their_own(rule: Distribution, lumps: object) -> None:
    of_processors = part_of(basic(5, distribution=rule))
    assert (of_processors.lumps, of_processors.apart, of_processors.spread) == (lumps, True, False)
    of_instances = part_of(sweep(5, 2, distribution=rule))
    assert of_instances.lumps == tuple((2 * size, times) for size, times in lumps)  # type: ignore[attr-defined]


def test_round_robin_spreads_what_may_lie_anywhere() -> None:
    found = part_of(sweep(5, 2, distribution=Distribution(round_robin=True)))
    assert (found.lumps, found.apart, found.spread) == (((2, 5),), False, True)


def test_where_the_job_counts_nodes_each_lump_is_a_node() -> None:
    for task in (basic(3), sweep(3), sweep(3, distribution=Distribution(per_node=2))):
        found = part_of(task, unit=UnitType.NODE)
        assert (found.lumps, found.apart, found.whole) == (((1, 3),), False, False)
    assert part_of(sweep(3, 2), unit=UnitType.NODE).lumps == ((1, 6),)


def test_an_exclusive_task_has_nodes_of_its_own_and_each_instance_of_a_sweep_one() -> None:
    one = part_of(basic(3, exclusive=True), exclusive=True)
    assert (one.lumps, one.apart, one.whole) == (((1, 3),), False, True)
    each = part_of(sweep(2, 3, exclusive=True), exclusive=True)
    assert (each.lumps, each.apart, each.whole) == (((3, 2),), True, True)
    request = request_of(JobSpec(tasks=(basic(3, exclusive=True),), together=True, exclusive=True))
    assert request.node_share == 0


def test_a_part_says_what_its_task_asks_of_nodes_and_the_request_what_the_job_asks() -> None:
    asked = request_of(
        JobSpec(
            tasks=(basic(needs=GPU), basic(node_group="old"), basic(required_nodes=("a",))),
            together=True,
            needs=NodeNeeds(lacking=("slow",)),
        )
    )
    assert asked.needs == NodeNeeds(lacking=("slow",))
    assert [(each.needs, each.node_group, each.required_nodes) for each in asked.parts] == [
        (GPU, "", ()),
        (NodeNeeds(), "old", ()),
        (NodeNeeds(), "", ("a",)),
    ]
    assert asked.required_nodes == ("a",)


def test_one_task_that_says_how_it_lies_on_nodes_is_placed_as_a_gang() -> None:
    spec = JobSpec(tasks=(basic(4, distribution=Distribution(nodes=2)),), minimum=1, maximum=9)
    request = request_of(spec)
    assert (request.together, request.minimum, request.maximum) == (True, 4, 4)
    assert request.parts == (RequestPart(((2, 2),), apart=True),)


def test_tasks_that_share_are_one_part_for_each_kind_of_nodes_as_large_as_the_largest() -> None:
    tasks = (
        basic(2, needs=GPU),
        basic(5),
        basic(3, needs=GPU),
        sweep(9, 2, node_group="Old"),
        basic(node_group="old"),
    )
    request = request_of(JobSpec(tasks=tasks))
    assert (request.together, request.minimum, request.maximum) == (False, 5, 29)
    assert request.parts == (RequestPart(((1, 3),), needs=GPU), RequestPart(((1, 2),), node_group="old"))


def test_a_task_that_shares_and_is_laid_out_is_a_part_with_its_lumps() -> None:
    laid = basic(4, distribution=Distribution(per_node=2))
    request = request_of(JobSpec(tasks=(laid, laid, sweep(4, distribution=Distribution(per_node=2)))))
    assert (request.together, request.parts) == (False, (RequestPart(((2, 2),), apart=True),))


def test_a_job_whose_tasks_ask_for_nothing_special_has_no_parts() -> None:
    assert request_of(JobSpec(tasks=(basic(2), sweep(5)))).parts == ()


def test_each_alternative_has_parts_of_its_own() -> None:
    spec = JobSpec(
        tasks=(basic(4), basic(needs=GPU)),
        together=True,
        alternatives=(Alternative(tasks=(TaskAlternative(minimum=2, maximum=2), TaskAlternative())),),
    )
    own, (other,) = request_of(spec), request_of(spec).alternatives
    assert [part.units for part in own.parts] == [4, 1]
    assert [part.units for part in other.parts] == [2, 1]
    assert (own.minimum, other.minimum) == (5, 3)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "rule", [Distribution(per_node=1), Distribution(nodes=2**31 - 1), Distribution(per_node=2)]
)
def test_more_than_any_cluster_has_is_counted_and_not_listed(rule: Distribution, together: bool) -> None:
    task = TaskSpec(command="x", minimum=2**31 - 1, maximum=2**31 - 1, distribution=rule)
    (part,) = request_of(JobSpec(tasks=(task,), together=together)).parts
    assert len(part.lumps) <= 2
    assert sum(size * times for size, times in part.lumps) == 2**31 - 1


def test_a_geometry_is_held_against_the_number_of_processes_without_listing_them() -> None:
    drawn = Distribution(geometry=((1, 3), (2,)))
    assert drawn.draws(3)
    assert not any(drawn.draws(other) for other in (2, 4, 2**31 - 1))
    assert not Distribution(geometry=((1, 1), (2,))).draws(3)
    assert not Distribution(geometry=((1, 4), (2,))).draws(3)


def test_a_task_that_requires_nodes_needs_room_on_them_beyond_some_of_each() -> None:
    tasks = (basic(3, required_nodes=("N1",)), basic(4, required_nodes=("n1",)), basic(5))
    assert request_of(JobSpec(tasks=tasks)).parts == (RequestPart(((1, 4),), required_nodes=("n1",)),)
    assert request_of(JobSpec(tasks=(basic(2, required_nodes=("n1", "n2")),))).parts == ()
