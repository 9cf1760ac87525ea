"""The comparison that the tests make after each step finds what is wrong with the instances of a task."""

from collections.abc import Callable

import pytest
from worlds import World

from headnode.core.model.errors import Broken
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.invariants import check_cluster
from headnode.core.state.job_record import TaskProgress


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda sweep: sweep.finished.add(9), r"instances .*\(3, 9\), \(9, 9\)\] of 9"),
        (lambda sweep: sweep.finished.add(1), r"instances \[\(1, 1\), \(1, 1\), .* of 9"),
        (lambda sweep: sweep.queued.add(10), r"instances .*\(3, 10\)\] of 9"),
        (lambda sweep: sweep.failed.add(0), r"instances \[\(0, 0\), .* of 9"),
        (lambda sweep: sweep.queued.discard(9), r"instances .*\(3, 8\)\] of 9"),
        (lambda sweep: sweep.live.pop(1), r"instances \[\(2, 2\), \(3, 9\)\] of 9"),
        (lambda sweep: sweep.withdrawn.add(3), "withdrawn, not canceled"),
    ],
)
def test_an_instance_that_is_nowhere_or_in_two_states_is_found(
    change: Callable[[TaskProgress], None], text: str
) -> None:
    """Instances 1 and 2 of a sweep run, 3 to 9 are queued."""
    world = World(2)
    job = world.submit(TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=9))
    run = world.record(job).run
    assert run is not None
    check_cluster(world.cluster)
    change(run.tasks[0])
    with pytest.raises(Broken, match=text):
        check_cluster(world.cluster)
