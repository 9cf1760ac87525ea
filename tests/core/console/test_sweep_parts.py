"""The parts of a sweep count what its instances are, one by one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.server.api.tasks import sweep_parts
from headnode.apps.web.console.job_tasks import part_state
from headnode.core.model.ranges import Ranges
from headnode.core.state.job_record import TaskProgress

STATES = ("queued", "finished", "failed", "canceled")


@given(st.lists(st.sampled_from(STATES), min_size=0, max_size=60), st.integers(1, 70))
def test_each_instance_is_counted_once_in_the_part_that_it_belongs_to(states: list[str], parts: int) -> None:
    sets = {state: Ranges() for state in STATES}
    for instance, state in enumerate(states, start=1):
        sets[state].add(instance)
    found = sweep_parts(TaskProgress(**sets), len(states), parts)
    assert len(found) <= parts
    assert [number for part in found for number in range(part.first, part.last + 1)] == [
        *range(1, len(states) + 1)
    ]
    for part in found:
        counted = Counter(states[part.first - 1 : part.last])
        assert {state: getattr(part.counts, state) for state in STATES} == {
            state: counted[state] for state in STATES
        }
        assert part.counts.total == part.last - part.first + 1


def test_a_cell_shows_a_failure_before_all_else() -> None:
    none = dict.fromkeys(("queued", "running", "finished", "failed", "canceled"), 0)
    assert part_state({**none, "finished": 5}) == "finished"
    assert part_state({**none, "finished": 5, "running": 1}) == "running"
    assert part_state({**none, "finished": 5, "running": 1, "failed": 1}) == "failed"
