"""A job that names several places goes to the one that is expected to start it first, and stays else."""

from itertools import permutations, product

import pytest

from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import PlaceEstimate, StartBasis
from headnode.core.state.place_choice import MARGIN, choose_place, expected_by_waits, places_in_words

NOW = Instant(1000.0)
LATER = Instant(NOW + MARGIN)
STATES = (
    ("now", NOW, ""),
    ("a margin later", LATER, ""),
    ("later still", Instant(LATER + 1.0), ""),
    ("unknown", None, ""),
    ("not possible", None, "it does not answer"),
)


def estimate(place: str, state: tuple[str, Instant | None, str], *, never: bool = False) -> PlaceEstimate:
    _, start, problem = state
    basis = StartBasis.UNKNOWN if start is None else StartBasis.QUEUE
    return PlaceEstimate(place, start, StartBasis.NEVER if never else basis, problem)


def worlds(*places: str) -> list[list[PlaceEstimate]]:
    """Return every order of the places in every state that each may have."""
    return [
        [estimate(place, state) for place, state in zip(order, states, strict=True)]
        for order in permutations(places)
        for states in product(STATES, repeat=len(places))
    ]


def test_a_job_leaves_own_nodes_only_for_a_place_that_is_earlier_by_more_than_the_margin() -> None:
    moved = 0
    for world in worlds("here", "a", "b"):
        known = {each.place: each for each in world}
        chosen, here = choose_place(world), known["here"]
        assert chosen in ("", "a", "b")
        if not chosen:
            continue
        moved += 1
        assert not known[chosen].problem
        if here.problem:
            continue
        start = known[chosen].start
        assert start is not None
        assert here.start is not None
        assert start + MARGIN < here.start
    assert moved


def test_no_place_that_can_be_used_is_earlier_than_the_chosen_one() -> None:
    for world in [*worlds("here", "a", "b"), *worlds("a", "b", "c")]:
        known = {each.place: each for each in world}
        chosen = choose_place(world)
        starts = [each.at for each in world if not each.problem and each.start is not None]
        if chosen:
            assert known[chosen].at == min([*starts, known[chosen].at])
        elif "here" in known and not known["here"].problem and known["here"].start is not None:
            assert known["here"].start - MARGIN <= min(starts)


def test_a_job_that_may_not_run_here_goes_somewhere_as_soon_as_one_place_answers() -> None:
    for world in worlds("a", "b", "c"):
        assert bool(choose_place(world)) == any(not each.problem for each in world)


def test_of_equal_places_the_one_that_the_job_names_first_is_chosen() -> None:
    for order in permutations("abc"):
        assert choose_place([estimate(place, STATES[0]) for place in order]) == order[0]


def test_what_own_nodes_can_never_run_goes_elsewhere_however_late() -> None:
    here = estimate("here", STATES[3], never=True)
    assert choose_place([here, estimate("a", STATES[2])]) == "a"
    assert choose_place([here, estimate("a", STATES[3])]) == ""


@pytest.mark.parametrize(
    ("waited", "waiting", "wait", "basis"),
    [
        ([], [], 0.0, StartBasis.IDLE),
        ([10.0, 500.0, 30.0], [], 30.0, StartBasis.WAITS),
        ([10.0, 500.0, 30.0], [NOW - 400.0], 400.0, StartBasis.WAITS),
        ([], [NOW - 1.0], None, StartBasis.UNKNOWN),
    ],
)
def test_the_waits_of_our_tasks_say_when_the_next_one_starts(
    waited: list[float], waiting: list[float], wait: float | None, basis: StartBasis
) -> None:
    found = expected_by_waits(
        "a", NOW, [Seconds(each) for each in waited], [Instant(each) for each in waiting]
    )
    assert found.start == (None if wait is None else NOW + wait)
    assert found.basis is basis


def test_the_numbers_of_all_places_are_told_the_earliest_first() -> None:
    world = [
        PlaceEstimate("here", Instant(NOW + 5400.0), StartBasis.PREDICTED),
        PlaceEstimate("a", problem="it does not answer"),
        PlaceEstimate("b", NOW, StartBasis.QUEUE),
    ]
    assert places_in_words(world, NOW) == (
        "b now (predicted from its queue); here in 1h30m (predicted from the queue here); "
        "not a: it does not answer"
    )
