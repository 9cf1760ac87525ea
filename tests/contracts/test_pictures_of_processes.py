"""In a picture of processes every living one descends from its reaper, whatever ended meanwhile."""

from collections.abc import Callable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.adapters.process_tree import Picture, Process, descendants, picture, picture_of

REAPER = 100  # to whom all that others leave goes


class Machine:
    """Processes of which some end between two readings, in any order; the reaper lives on."""

    def __init__(self, parents: dict[int, int], ends: Iterator[int | None]) -> None:
        self.parents, self._ends = parents, ends

    def read(self, process: int) -> Process | None:
        """Return what is seen of a process at this moment; after it, another one may end."""
        parent = self.parents.get(process)
        ending = next(self._ends, None)
        if ending is not None and ending != REAPER and ending in self.parents:
            left_to = REAPER
            del self.parents[ending]
            self.parents = {one: left_to if of == ending else of for one, of in self.parents.items()}
        return None if parent is None else Process(parent, session=process)

    def living(self) -> set[int]:
        return set(self.parents) - {REAPER}


numbers = st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True)


@settings(max_examples=share_of(1_000))
@given(numbers, st.data())
def test_what_lives_after_a_picture_descends_from_its_reaper_in_it(
    processes: list[int], data: st.DataObject
) -> None:
    parents = {REAPER: 0}  # 0: of nobody
    for process in processes:  # a child may have a lower number than its parent
        parents[process] = data.draw(st.sampled_from([*parents]))
    ends = data.draw(st.lists(st.none() | st.sampled_from(processes), max_size=20))
    machine = Machine(parents, iter(ends))

    found = picture_of(sorted(parents), machine.read)

    assert machine.living() <= descendants([REAPER], found)


def test_a_child_that_was_read_before_its_parent_ended_is_the_reapers() -> None:
    machine = Machine({REAPER: 0, 7: REAPER, 3: 7}, iter([7]))  # 3 is read, then 7 ends, then 7 is read
    assert picture_of([3, 7, REAPER], machine.read) == {3: Process(REAPER, 3), REAPER: Process(0, REAPER)}


def test_where_only_own_processes_are_seen_their_parents_need_not_be() -> None:
    def read(process: int) -> Process:
        return Process(parent=process - 1, session=1)

    seen: Callable[[int], Process | None] = read
    assert picture_of([50], seen) == {50: Process(49, 1)}


def test_a_picture_of_this_machine_has_this_process_below_the_first() -> None:
    now: Picture = picture()
    first = min(now)
    assert descendants([first], now) >= {first}
