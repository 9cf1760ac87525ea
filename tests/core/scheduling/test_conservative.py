"""Conservative backfill told by example: who is given which slot, what is kept, and what moves."""

import msgspec
import pytest

from headnode.core.model.job import JobRequest, Licence, UnitType
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View

from .scenes import INF, MINUTE, NOW, asks, node, reserved, runs, scene, started

plan, plan_anew = POLICIES["conservative"], POLICIES["conservative-replan"]
BOTH = pytest.mark.parametrize("policy", ["conservative", "conservative-replan"])


def slots(made: Plan) -> dict[int, float]:
    """Return in how many minutes everybody with a reservation starts."""
    return {each.job: (each.at - NOW) / MINUTE for each in made.reservations}


def crowd() -> View:
    """Four processors; three are busy for ten minutes, and jobs of all sizes wait."""
    running = [runs(1, asks(3, minutes=20), ("a", 3), minutes_left=10)]
    queue = [
        (2, asks(4, minutes=5)),
        (3, asks(2, minutes=8)),
        (4, asks(1, minutes=20)),
        (5, asks(1, minutes=10)),
        (6, asks(2, minutes=4)),
    ]
    return scene([node("a", 4)], running, queue)


@BOTH
def test_everybody_has_the_earliest_slot_that_touches_no_other(policy: str) -> None:
    made = POLICIES[policy](crowd())
    assert started(made) == [5]
    assert slots(made) == {2: 10, 3: 15, 4: 15, 6: 23}
    assert made.wake == NOW + 10 * MINUTE
    assert made.waits[asks(4, minutes=5)].not_before == NOW + 10 * MINUTE


@BOTH
def test_as_many_have_a_slot_as_the_depth_allows_and_nobody_behind_them(policy: str) -> None:
    view = crowd()
    for depth, kept in ((1, {2: 10}), (2, {2: 10, 3: 15})):
        made = POLICIES[policy](_with(view, depth=depth))
        assert (slots(made), started(made)) == (kept, [5])


@pytest.mark.parametrize("depth", [1, 2])
def test_who_starts_now_leaves_its_reservation_to_the_next_in_turn(depth: int) -> None:
    whole, other = asks(1, minutes=6, unit=UnitType.NODE), asks(1, minutes=4, exclusive=True)
    queue = [(4, other, 3000), (6, other, 3000), (2, whole), (3, other), (5, whole)]
    before = [reserved(2, whole, ("a", 1), minutes=0)]
    made = plan(scene([node("a", 1)], [], queue, depth=depth, before=before, freed=False))
    assert started(made) == [2]
    assert slots(made) == dict([(4, 6), (6, 10)][:depth])


def test_who_has_a_reservation_keeps_it_whoever_comes_with_a_better_turn() -> None:
    before = [reserved(3, asks(2, minutes=8), ("a", 2), minutes=10)]
    queue = [(3, asks(2, minutes=8)), (4, asks(4, minutes=5), 3000)]
    running = [runs(1, asks(3, minutes=20), ("a", 3), minutes_left=10)]
    view = scene([node("a", 4)], running, queue, before=before, freed=False)
    assert slots(plan(view)) == {3: 10, 4: 18}
    assert slots(plan_anew(view)) == {4: 10, 3: 15}


def test_what_became_free_is_offered_to_those_with_a_reservation_in_turn() -> None:
    queue = [(2, asks(4, minutes=5)), (3, asks(1, minutes=8))]
    before = [
        reserved(3, asks(1, minutes=8), ("a", 1), minutes=10),
        reserved(2, asks(4, minutes=5), ("a", 4), minutes=20),
    ]
    idle = scene([node("a", 4)], [], queue, before=before)
    assert started(plan(idle)) == [2]
    assert slots(plan(idle)) == {3: 5}


def test_nobody_is_offered_anything_when_nothing_became_free() -> None:
    """It cannot be earlier then; and looking would cost a placement for each."""
    before = [reserved(2, asks(2, minutes=5), ("a", 2), minutes=10)]
    view = scene([node("a", 2)], [], [(2, asks(2, minutes=5))], before=before, freed=False)
    assert slots(plan(view)) == {2: 10}
    assert started(plan(_with(view, freed=True))) == [2]


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ([(3, asks(1, minutes=5))], "the job is gone"),
        ([(2, asks(2, minutes=6)), (3, asks(1, minutes=5))], "it was modified"),
        ([(2, asks(2, minutes=5), 1000), (3, asks(1, minutes=5))], "it has another turn"),
    ],
)
def test_who_is_gone_or_changed_loses_the_reservation_and_others_are_offered_it(
    queue: list[tuple[int, JobRequest]], why: str
) -> None:
    before = [
        reserved(2, asks(2, minutes=5), ("a", 2), minutes=3),
        reserved(3, asks(1, minutes=5), ("a", 1), minutes=8),
    ]
    running = [runs(1, asks(1), ("a", 1), minutes_left=3)]
    made = plan(scene([node("a", 2)], running, queue, before=before, freed=False))
    assert slots(made).get(3, 0) < 8, why


def test_a_reservation_on_a_node_that_closed_is_lost() -> None:
    nodes = [node("a", 2, closed="paused"), node("b", 2)]
    before = [reserved(2, asks(2, minutes=5), ("a", 2), minutes=3)]
    running = [runs(1, asks(2), ("b", 2), minutes_left=9)]
    made = plan(scene(nodes, running, [(2, asks(2, minutes=5))], before=before, freed=False))
    assert slots(made) == {2: 9}
    sooner = [runs(1, asks(2), ("b", 2), minutes_left=2)]
    made = plan(scene(nodes, sooner, [(2, asks(2, minutes=5))], before=before, freed=False))
    assert slots(made) == {2: 2}


def test_a_kept_slot_whose_time_has_come_starts_also_where_names_were_examples() -> None:
    nodes = [node("a", 2), node("b", 2)]
    request = asks(2, minutes=5, exclusive=True)
    before = [reserved(job, request, ("a", 2), minutes=0) for job in (2, 3)]
    made = plan(scene(nodes, [], [(2, request), (3, request)], before=before, freed=False))
    assert [start.allocation for start in made.starts] == [(("a", 2),), (("b", 2),)]


def test_names_that_were_examples_are_bound_in_the_order_of_the_starts() -> None:
    """Job 4 wants one node, so nodes are told apart now; both reservations had named node a."""
    nodes = [node(name, 1) for name in "abc"]
    running = [
        runs(number, asks(1), (name, 1), minutes_left=left)
        for number, name, left in ((7, "a", 10), (8, "b", 20), (9, "c", 20))
    ]
    two, one = asks(2, minutes=5), asks(1, minutes=30)
    before = [reserved(2, two, ("a", 1), ("b", 1), minutes=20), reserved(3, one, ("a", 1), minutes=10)]
    queue = [(2, two), (3, one), (4, asks(1, minutes=5, single_node=True))]
    made = plan(scene(nodes, running, queue, before=before, freed=False))
    assert slots(made) == {2: 20, 3: 10, 4: 25}
    assert made.reservations[0].allocation == (("b", 1), ("c", 1))


def test_who_owns_a_node_need_not_count_its_memory() -> None:
    """Half of the node is as much as its memory is enough for; all of it is held."""
    owner = asks(1, minutes=5, exclusive=True, memory=4)
    before = [reserved(3, owner, ("a", 2), minutes=10)]
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    queue = [(3, owner), (4, asks(2, minutes=5), 3000)]
    made = plan(scene([node("a", 2, memory=4)], running, queue, before=before, freed=False))
    assert slots(made) == {3: 10, 4: 15}
    ends = [runs(1, owner, ("a", 2), minutes_left=10)]
    too_large = scene(
        [node("a", 2, memory=4)], ends, [(2, asks(1, minutes=1, memory=8)), (3, asks(1, memory=4))]
    )
    assert slots(plan(too_large)) == {3: 10}


def test_a_job_for_one_node_is_not_spread_over_others_when_its_own_is_held_too_long() -> None:
    single = asks(2, minutes=5, single_node=True)
    late = runs(1, asks(2), ("a", 2), minutes_left=-1)
    halves = [runs(8, asks(1), ("b", 1)), runs(9, asks(1), ("c", 1))]
    before = [reserved(3, single, ("a", 2), minutes=0.005)]
    nodes = [node(name, 2) for name in "abc"]
    made = plan(scene(nodes, [late, *halves], [(3, single)], before=before, freed=False))
    assert [each.allocation for each in made.reservations] == [(("a", 2),)]
    assert made.reservations[0].at == NOW + 1


@pytest.mark.parametrize(("exclusive", "other"), [(True, [(4, asks(1, minutes=0.001))]), (False, [])])
def test_others_like_the_reserved_node_must_have_all_of_it(
    exclusive: bool, other: list[tuple[int, JobRequest]]
) -> None:
    request = asks(2, minutes=5, exclusive=exclusive)
    late = runs(1, asks(2), ("a", 2), minutes_left=-1)
    halves = [runs(8, asks(1), ("b", 1)), *([runs(9, asks(1), ("c", 1))] if exclusive else [])]
    nodes = [node(name, 2) for name in ("abc" if exclusive else "ab")]
    before = [reserved(3, request, ("a", 2), minutes=0.005)]
    made = plan(scene(nodes, [late, *halves], [(3, request), *other], before=before, freed=False))
    assert [(each.at, sum(n for _, n in each.allocation)) for each in made.reservations] == [(NOW + 1, 2)]


@BOTH
def test_a_whole_node_comes_back_with_the_last_of_its_jobs(policy: str) -> None:
    running = [
        runs(1, asks(1), ("a", 1), minutes_left=2),
        runs(2, asks(1), ("a", 1), minutes_left=6),
        runs(3, asks(1), ("b", 1)),
    ]
    whole = [(4, asks(2, minutes=5, exclusive=True))]
    assert slots(POLICIES[policy](scene([node("a"), node("b")], running, whole))) == {4: 6}


@BOTH
def test_a_node_that_somebody_unknown_still_holds_is_not_counted_on(policy: str) -> None:
    running = [runs(1, asks(1), ("a", 1), minutes_left=5)]
    view = scene([node("a"), node("b")], running, [(2, asks(4, minutes=5, exclusive=True))])
    ending = {**view.nodes, "a": msgspec.structs.replace(view.nodes["a"], free=0, jobs=2)}
    assert slots(POLICIES[policy](view)) == {2: 5}
    assert slots(POLICIES[policy](_with(view, nodes=ending))) == {}


def test_a_reservation_that_is_overdue_is_kept_from_now_on() -> None:
    request = asks(2, minutes=5)
    before = [reserved(2, request, ("a", 2), minutes=-3)]
    made = plan(
        scene([node("a", 2)], [], [(2, request), (3, asks(1, minutes=1), 3000)], before=before, freed=False)
    )
    assert started(made) == [2]


@BOTH
def test_growth_touches_no_reservation(policy: str) -> None:
    growing = runs(1, asks(1, 4, 30), ("a", 1), minutes_left=30, wants=3)
    running = [growing, runs(2, asks(1), ("a", 1), minutes_left=5)]
    queue = [(3, asks(3, minutes=5)), (4, asks(1, minutes=5))]
    before = [reserved(3, asks(3, minutes=5), ("a", 3), minutes=5)]
    made = plan(scene([node("a", 4)], running, queue, before=before))
    assert not made.grows
    assert slots(made) == {3: 5}
    without = POLICIES[policy](scene([node("a", 4)], running, []))
    assert [grow.allocation for grow in without.grows] == [(("a", 2),)]


@BOTH
def test_a_job_takes_more_than_its_minimum_where_that_touches_nobody(policy: str) -> None:
    running = [runs(1, asks(1), ("a", 1), minutes_left=10)]
    queue = [(2, asks(4, minutes=5)), (3, asks(1, 3, 10)), (4, asks(1, 3, 11))]
    made = POLICIES[policy](scene([node("a", 4)], running, queue))
    assert [(start.job, start.allocation) for start in made.starts] == [(3, (("a", 3),))]


@BOTH
def test_jobs_without_a_limit_leave_the_first_that_no_end_will_help_its_place(policy: str) -> None:
    running = [runs(1, asks(2), ("a", 2))]
    queue = [(2, asks(3)), (3, asks(1)), (4, asks(1)), (5, asks(2, minutes=9))]
    made = POLICIES[policy](scene([node("a", 4)], running, queue))
    assert started(made) == [3], "four less job 3 is still enough for job 2; less job 4 too is not"
    assert made.reservations == () or slots(made).keys() == {5}


@BOTH
def test_a_job_without_a_limit_may_not_take_the_place_that_others_behind_already_hold(policy: str) -> None:
    behind = runs(9, asks(1), ("a", 1))
    queue = [(2, asks(3)), (10, asks(1))]
    made = POLICIES[policy](scene([node("a", 4)], [runs(1, asks(2), ("a", 2)), behind], queue))
    assert started(made) == []
    ahead = runs(1, asks(3), ("a", 3))
    assert started(POLICIES[policy](scene([node("a", 4)], [ahead], queue))) == [10]


@BOTH
def test_it_is_the_first_of_those_whose_place_is_left_to_it(policy: str) -> None:
    queue = [(2, asks(4)), (3, asks(2)), (4, asks(1))]
    made = POLICIES[policy](scene([node("a", 4)], [runs(1, asks(3), ("a", 3))], queue))
    assert started(made) == [], "job 4 would leave job 3 its place, but not job 2"


@BOTH
def test_a_job_without_a_limit_does_not_grow_into_the_place_of_one_ahead_of_it(policy: str) -> None:
    running = [runs(1, asks(1), ("a", 1)), runs(9, asks(1, 3), ("a", 1), wants=2)]
    made = POLICIES[policy](scene([node("a", 4)], running, [(2, asks(3))]))
    assert not made.grows
    limited = [running[0], runs(9, asks(1, 3, 5), ("a", 1), wants=2, minutes_left=5)]
    assert len(POLICIES[policy](scene([node("a", 4)], limited, [(2, asks(3))])).grows) == 1


@BOTH
def test_beyond_the_depth_too_its_place_is_left_to_it(policy: str) -> None:
    solver = (Licence("x", 1),)
    running = [runs(1, asks(1), ("a", 1)), runs(5, asks(1, licences=solver), ("a", 1), minutes_left=5)]
    queue = [(6, asks(4)), (7, asks(1, minutes=5, licences=solver)), (8, asks(1)), (9, asks(1, minutes=1))]
    made = POLICIES[policy](scene([node("a", 4)], running, queue, {"x": (1, 0)}, depth=1))
    assert slots(made) == {7: 5}
    assert started(made) == [9]


@BOTH
def test_a_job_that_can_never_run_holds_up_nobody_and_is_told_so(policy: str) -> None:
    queue = [(2, asks(9)), (3, asks(4)), (4, asks(1, minutes=1))]
    made = POLICIES[policy](scene([node("a", 4)], [runs(1, asks(1), ("a", 1))], queue))
    assert started(made) == [4]
    assert "never-fits" in [reason.why for reason in made.waits[asks(9)].reasons]
    assert all("job 2 is ahead in the queue" not in reason.text for reason in made.waits[asks(4)].reasons)


@BOTH
def test_memory_and_licences_are_reserved_as_processors_are(policy: str) -> None:
    nodes = [node("a", 4, memory=8)]
    running = [runs(1, asks(1, memory=6, licences=(Licence("x", 1),)), ("a", 1), minutes_left=7)]
    queue = [
        (2, asks(1, minutes=5, memory=8)),
        (3, asks(1, minutes=9, memory=2)),
        (4, asks(1, minutes=7, memory=2)),
        (5, asks(1, minutes=5, licences=(Licence("x", 2),))),
        (6, asks(1, minutes=8, licences=(Licence("x", 1),))),
    ]
    made = POLICIES[policy](scene(nodes, running, queue, {"x": (2, 1)}))
    assert started(made) == [4]
    assert slots(made) == {2: 7, 3: 12, 5: 7, 6: 12}


@BOTH
def test_all_the_licences_of_a_job_come_back_with_its_end(policy: str) -> None:
    both = asks(1, minutes=5, licences=(Licence("x", 2),))
    each = asks(2, minutes=5, licences=(Licence("x", None),))
    running = [runs(1, each, ("a", 2), minutes_left=7)]
    made = POLICIES[policy](scene([node("a", 4)], running, [(2, both), (3, each)], {"x": (2, 0)}))
    assert slots(made) == {2: 7, 3: 12}


@BOTH
def test_reasons_name_who_goes_first_and_what_is_in_the_way(policy: str) -> None:
    queue = [(2, asks(4, minutes=5)), (3, asks(1, minutes=INF))]
    made = POLICIES[policy](scene([node("a", 4)], [runs(1, asks(1), ("a", 1), minutes_left=10)], queue))
    texts = [reason.text for reason in made.waits[asks(1)].reasons]
    assert texts == [
        "job 2 is ahead in the queue",
        "the job fits now, but could delay job 2, which has a reservation; "
        "with a run time limit, the job could be backfilled",
    ]


@BOTH
def test_whole_nodes_and_processors_meet_on_the_same_nodes(policy: str) -> None:
    nodes = [node("a", 2), node("b", 2)]
    running = [runs(1, asks(1), ("a", 1), minutes_left=4), runs(2, asks(1), ("b", 1), minutes_left=9)]
    queue = [(3, asks(1, minutes=6, unit=UnitType.NODE)), (4, asks(2, minutes=4)), (5, asks(1, minutes=4))]
    made = POLICIES[policy](scene(nodes, running, queue))
    assert slots(made)[3] == 4
    assert started(made) == [4], "it is over when job 3 needs node a"


def _with(view: View, **changes: object) -> View:
    return msgspec.structs.replace(view, **changes)
