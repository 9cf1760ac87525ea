"""What would let a job start is true, and no more than that: the policy itself is asked."""

import random
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from depth import seeds
from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import HIGHEST, JobId, Priority, Seconds
from headnode.core.scheduling.explain.change_words import changes_in_words
from headnode.core.scheduling.explain.changes import (
    MAX_LIMIT,
    ChangeAxis,
    ChangeKind,
    ChangeLimits,
    Subject,
    axes_of,
    planned_start,
    with_job,
    without_job,
)
from headnode.core.scheduling.explain.counterfactual import (
    MAX_PLANS,
    RequestChange,
    Suggestion,
    Suggestions,
    search_changes,
)
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing import gang, part

from .scenes import INF, asks, node, on_gpus, runs, scene, turn_of

POLICY = sorted(POLICIES)
MINE = 50
NORMAL = Priority(2000)
PLAIN = ChangeLimits(highest=NORMAL)
PARTED = 0.4  # so often has a job of a random small world parts


def counterfactuals(
    view: View, policy: Policy, subject: Subject, room: ChangeLimits, *, most: int = MAX_PLANS
) -> Suggestions:
    """Return what would make the subject, a job that queues in the view, start now, or else sooner."""
    search = search_changes(view, policy(view), subject, room, most=most)
    try:
        asked = next(search)
        while True:
            asked = search.send(policy(asked))
    except StopIteration as ended:
        found: Suggestions = ended.value
        return found


def found_for(
    view: View, request: JobRequest, policy: str = "easy", room: ChangeLimits | None = None
) -> Suggestions:
    """Return what is found for job 50, which queues behind all others of its priority."""
    subject = Subject(turn_of(MINE), request)
    return counterfactuals(with_job(view, subject), POLICIES[policy], subject, room or PLAIN)


def offered_changes(
    view: View, request: JobRequest, policy: str = "easy", room: ChangeLimits | None = None
) -> list[str]:
    return [changes_in_words(offer, request) for offer in found_for(view, request, policy, room).offers]


BLOCKED = scene(
    [node("a", 8), node("b", 8)],
    [runs(1, asks(8), ("a", 8), minutes_left=120)],
    [(2, asks(16, minutes=60))],
)
"""Half of the cluster is free for two hours; then job 2 gets all of it."""


def test_a_job_that_would_delay_a_reservation_is_told_the_longest_limit_with_which_it_starts() -> None:
    assert offered_changes(BLOCKED, asks(4, minutes=600)) == [
        "with a run time limit of at most 2h instead of 10h",
    ]
    assert offered_changes(BLOCKED, asks(4)) == ["with a run time limit of at most 2h"]


def test_a_job_too_large_for_what_is_free_is_told_the_size_that_fits() -> None:
    view = scene([node("a", 8), node("b", 8)], [runs(1, asks(2), ("a", 2), minutes_left=60)])
    assert offered_changes(view, asks(16)) == ["with 14 processors instead of 16"]
    assert offered_changes(view, asks(15, 20)) == ["with at least 14 processors instead of 15"]
    assert offered_changes(view, asks(2, unit=UnitType.NODE)) == ["with 1 node instead of 2"]
    sockets = scene([node("a", 8, sockets=2)], [runs(1, asks(1), ("a", 1))])
    assert offered_changes(sockets, asks(2, unit=UnitType.SOCKET)) == ["with 1 socket instead of 2"]
    graphics = scene([node("a", 8, gpus=4)], [runs(1, on_gpus(3), ("a", 3))])
    assert offered_changes(graphics, on_gpus(2)) == ["with 1 GPU instead of 2"]


def test_a_job_of_gpus_is_told_of_fewer_gpus_or_of_fewer_processors_for_each() -> None:
    idle = scene([node("a", 8, gpus=2), node("b", 8)])
    assert offered_changes(idle, asks(3, unit=UnitType.GPU, processors_per_gpu=2)) == [
        "with 2 GPUs instead of 3"
    ]
    view = scene([node("a", 8, gpus=4)], [runs(1, asks(4), ("a", 4), minutes_left=60)])
    assert offered_changes(view, asks(4, unit=UnitType.GPU, processors_per_gpu=2)) == [
        "with 2 GPUs instead of 4",
        "with 1 processor for each GPU instead of 2",
    ]


def test_size_that_the_tasks_need_is_only_offered_for_a_new_submission() -> None:
    view = scene([node("a", 8)], [runs(1, asks(2), ("a", 2), minutes_left=60)])
    assert offered_changes(view, asks(8), room=ChangeLimits(least=7)) == []
    again = ChangeLimits(least=8, most=8, again=turn_of(60))
    (offer,) = found_for(view, asks(8), room=again).offers
    assert changes_in_words(offer, asks(8)) == "with 6 processors instead of 8, submitted again"
    assert (offer.subject.job, offer.subject.request) == (60, asks(6))


def test_a_maximum_that_tasks_need_stays() -> None:
    view = scene([node("a", 8)], [runs(1, asks(2), ("a", 2), minutes_left=60)])
    (offer,) = found_for(view, asks(8), room=ChangeLimits(least=4, most=8)).offers
    assert (offer.subject.request.minimum, offer.subject.request.maximum) == (6, 8)


def test_two_changes_are_told_when_no_single_one_helps() -> None:
    offers = found_for(BLOCKED, asks(12, minutes=600)).offers
    assert [changes_in_words(offer, asks(12, minutes=600)) for offer in offers] == [
        "with a run time limit of at most 2h instead of 10h and 8 processors instead of 12",
    ]


def test_every_kind_of_wish_about_nodes_can_be_dropped_while_the_others_stay() -> None:
    nodes = [
        node("a", 8, groups=("gpu", "old"), memory=64),
        node("b", 8, groups=("gpu",), memory=32),
        node("c", 4, groups=("old",), memory=16),
    ]
    view = scene(nodes, [runs(1, asks(8), ("a", 8), minutes_left=60)])
    assert offered_changes(view, asks(1, requested_nodes=("a",), node_groups=("gpu",))) == [
        "on any node of node group 'gpu' instead of a"
    ]
    assert offered_changes(view, asks(1, excluded_nodes=("b", "c"))) == ["on the nodes it excludes too: b, c"]
    assert offered_changes(view, asks(1, required_nodes=("a",))) == ["without the nodes its tasks require: a"]
    assert offered_changes(view, asks(1, minimum_memory=40)) == [
        "on nodes with at least 32 MB of memory instead of 40"
    ]
    assert offered_changes(view, asks(1, minimum_memory=60, node_groups=("gpu", "old"))) == []  # two, not one
    assert offered_changes(view, asks(1, node_groups=("gpu", "old"))) == [
        "on nodes outside node group 'gpu' too",
        "on nodes outside node group 'old' too",
    ]
    assert offered_changes(view, asks(5, minimum_processors_per_node=9)) == [
        "on nodes with at least 8 processors instead of 9"
    ]
    assert offered_changes(view, asks(1, maximum_processors_per_node=3)) == [
        "on nodes with at most 4 processors instead of 3"
    ]
    assert offered_changes(view, asks(1, maximum_memory=10)) == [
        "on nodes with at most 16 MB of memory instead of 10"
    ]
    uniform = asks(12, node_groups=("gpu", "old"), node_group_op=NodeGroupOp.UNIFORM)
    assert "on nodes of several of its node groups at once" in offered_changes(view, uniform)


def test_what_a_job_or_one_of_its_tasks_demands_of_nodes_is_offered_to_be_dropped() -> None:
    view = scene(
        [node("a", 4, features=("gpu",)), node("b", 4), node("c", 4)],
        [runs(1, asks(4), ("a", 4), minutes_left=60)],
    )
    gpu = {"features": (("gpu",),)}
    assert offered_changes(view, asks(1, needs=NodeNeeds(**gpu))) == [
        "on any nodes instead of nodes with feature 'gpu'"
    ]
    assert offered_changes(view, gang(part(4), part(1, 2, **gpu), part(1, 1, **gpu))) == [
        "with tasks 2, 3 on any nodes instead of nodes with feature 'gpu'"
    ]
    assert offered_changes(view, asks(1, 9, parts=(part(1, 2, **gpu),))) == [
        "with its tasks on any nodes instead of nodes with feature 'gpu'"
    ]
    assert offered_changes(view, gang(part(2, required_nodes=("a",)), required_nodes=("a",))) == [
        "without the nodes its tasks require: a"
    ]


def test_the_size_of_a_gang_is_not_offered_to_be_less_because_its_tasks_make_it() -> None:
    view = scene([node("a", 4)], [runs(1, asks(1), ("a", 1), minutes_left=60)])
    assert offered_changes(view, asks(4)) == ["with 3 processors instead of 4"]
    assert offered_changes(view, gang(part(1, 4)), room=ChangeLimits(again=turn_of(60))) == []


def test_exclusive_and_single_node_jobs_are_told_what_sharing_and_spreading_would_do() -> None:
    view = scene(
        [node("a", 4), node("b", 4)],
        [runs(1, asks(1), ("a", 1), minutes_left=60), runs(2, asks(1), ("b", 1), minutes_left=60)],
    )
    assert offered_changes(view, asks(2, exclusive=True)) == ["sharing its nodes with other jobs"]
    assert offered_changes(view, asks(4, single_node=True)) == [
        "with 3 processors instead of 4",
        "on several nodes instead of one",
    ]


def test_licences_are_offered_down_to_none() -> None:
    view = scene([node("a", 4)], licences={"mesh": (4, 2), "view": (1, 0)})
    assert offered_changes(view, asks(1, licences=(Licence("mesh", 3),))) == [
        "with 2 of licence 'mesh' instead of 3"
    ]
    assert offered_changes(view, asks(1, licences=(Licence("view", None),))) == ["without licence 'view'"]


def test_memory_that_jobs_hold_is_offered_to_be_less() -> None:
    nodes = [node("a", 4, memory=1000)]
    assert offered_changes(scene(nodes), asks(4, memory=300)) == [
        "with 3 processors instead of 4",
        "with 250 MB of memory for each processor instead of 300",
    ]


def test_a_priority_is_offered_that_passes_those_in_the_way_and_no_higher() -> None:
    view = scene([node("a", 4)], [runs(1, asks(2), ("a", 2))], [(2, asks(3), 2500), (3, asks(2), 2200)])
    room = ChangeLimits(fixed=frozenset({ChangeKind.SIZE}), highest=HIGHEST)
    assert offered_changes(view, asks(2), "fcfs", room) == ["with priority AboveNormal-499 or higher"]
    mine = ChangeLimits(fixed=frozenset({ChangeKind.SIZE}), highest=NORMAL)
    assert offered_changes(view, asks(2), "fcfs", mine) == []


def test_the_same_priority_is_enough_to_pass_those_who_came_later() -> None:
    view = scene([node("a", 4)], [runs(1, asks(2), ("a", 2))], [(60, asks(3), 2500)])
    room = ChangeLimits(fixed=frozenset({ChangeKind.SIZE}), highest=HIGHEST)
    assert offered_changes(view, asks(2), "fcfs", room) == ["with priority Normal+500 or higher"]


@pytest.mark.parametrize(("asked", "longest"), [(60.0, None), (61.0, 1), (120.0, 1), (150.0, 2)])
def test_only_limits_shorter_than_what_is_asked_are_tried(asked: float, longest: int | None) -> None:
    subject = Subject(turn_of(MINE), asks(1, minutes=asked / 60))
    axes = axes_of(subject, BLOCKED, POLICIES["easy"](BLOCKED), PLAIN)
    limits = next((axis.values for axis in axes if axis.what is ChangeKind.RUN_TIME), ())
    assert next(iter(limits), None) == longest


def test_what_cannot_be_changed_is_not_offered() -> None:
    room = ChangeLimits(fixed=frozenset({ChangeKind.RUN_TIME}), highest=NORMAL)
    assert offered_changes(BLOCKED, asks(4, minutes=600), room=room) == []
    longer = ChangeLimits(shortest=Seconds(121 * 60.0), highest=NORMAL)
    assert offered_changes(BLOCKED, asks(4, minutes=600), room=longer) == []


def test_a_job_that_starts_anyway_is_offered_nothing() -> None:
    assert found_for(BLOCKED, asks(8, minutes=120)) == Suggestions()


def test_when_nothing_lets_it_start_now_it_is_told_what_lets_it_start_sooner() -> None:
    view = scene(
        [node("a", 8), node("b", 8)],
        [runs(1, asks(8), ("a", 8), minutes_left=60), runs(2, asks(8), ("b", 8), minutes_left=300)],
    )
    (offer,) = found_for(view, asks(16, minutes=60)).offers
    assert changes_in_words(offer, asks(16)) == "with 8 processors instead of 16"
    assert offer.outcome.at == view.now + 60 * 60


def test_the_search_says_when_it_was_cut_short_and_what_it_tells_is_true_all_the_same() -> None:
    request = asks(4, minutes=600)
    subject = Subject(turn_of(MINE), request)
    view = with_job(BLOCKED, subject)
    none = counterfactuals(view, POLICIES["easy"], subject, ChangeLimits(), most=0)
    assert none == Suggestions((), 0, cut=True)
    one = counterfactuals(view, POLICIES["easy"], subject, ChangeLimits(), most=1)
    assert (one.plans, one.cut, len(one.offers)) == (1, True, 1)


def test_whoever_plans_himself_may_stop_at_any_plan() -> None:
    subject = Subject(turn_of(MINE), asks(4, minutes=600))
    view = with_job(BLOCKED, subject)
    search = search_changes(view, POLICIES["easy"](view), subject, ChangeLimits())
    next(search)
    with pytest.raises(StopIteration) as ended:
        search.send(None)
    assert ended.value.value == Suggestions((), 0, cut=True)


# Random small worlds


def worlds(seed: int, count: int) -> Iterator[tuple[View, Subject]]:
    """Yield small worlds with a job that may have to wait."""
    dice = random.Random(seed)
    for _ in range(count):
        view = scene(nodes := _nodes(dice), _running(dice, nodes), _queue(dice), _licences(dice))
        subject = Subject(turn_of(MINE, dice.choice((1000, 2000))), _request(dice, nodes))
        yield with_job(view, subject), subject


def _nodes(dice: random.Random) -> list[NodeView]:
    return [
        node(
            name,
            dice.choice((2, 4)),
            sockets=2,
            memory=dice.choice((16, 32, 64)),
            gpus=dice.choice((0, 1, 2)),
            groups=dice.choice(((), ("x",), ("y",), ("x", "y"))),
            closed="paused" if dice.random() < 0.1 else "",
        )
        for name in "abcd"[: dice.randint(1, 4)]
    ]


def _running(dice: random.Random, nodes: Sequence[NodeView]) -> list[RunningJob]:
    jobs = []
    for number, each in enumerate(nodes, 1):
        size = dice.randint(0, each.facts.processors)
        if size:
            wants = dice.choice((0, 0, 1))
            request = asks(size, size + wants, exclusive=dice.random() < 0.2)
            left = dice.choice((10, 25, 60, INF))
            jobs.append(runs(number, request, (each.facts.name, size), minutes_left=left, wants=wants))
    return jobs


def _queue(dice: random.Random) -> list[tuple[int, JobRequest, int]]:
    return [
        (
            10 + number,
            asks(dice.randint(1, 9), minutes=dice.choice((5, 30, 90, INF))),
            dice.choice((1000, 2000, 3000)),
        )
        for number in range(dice.randint(0, 3))
    ]


def _licences(dice: random.Random) -> dict[str, tuple[int, int]]:
    return {"lic": (4, dice.randint(0, 4))}


def _request(dice: random.Random, nodes: Sequence[NodeView]) -> JobRequest:
    names = [each.facts.name for each in nodes]
    wishes: dict[str, object] = {
        "exclusive": True,
        "single_node": True,
        "requested_nodes": (dice.choice(names),),
        "excluded_nodes": (dice.choice(names),),
        "required_nodes": (dice.choice(names),),
        "node_groups": dice.choice((("x",), ("x", "y"))),
        "node_group_op": dice.choice(list(NodeGroupOp)),
        "minimum_memory": dice.choice((20, 64)),
        "maximum_memory": dice.choice((16, 40)),
        "minimum_processors_per_node": 3,
        "maximum_processors_per_node": 3,
        "licences": (Licence("lic", dice.choice((2, 4, None))),),
        "memory": dice.choice((8, 20)),
        "unit": dice.choice(list(UnitType)),
        "start_at_maximum": True,
    }
    if dice.random() < PARTED:
        return _with_parts(dice, names)
    chosen = dict(dice.sample(sorted(wishes.items(), key=lambda item: item[0]), dice.randint(0, 3)))
    if chosen.get("unit") is UnitType.GPU:
        chosen["processors_per_gpu"] = dice.choice((1, 2, 3))
    least = dice.randint(1, 8)
    return asks(least, least + dice.choice((0, 0, 4)), minutes=dice.choice((20, 61, 300, INF)), **chosen)


def _with_parts(dice: random.Random, names: Sequence[str]) -> JobRequest:
    """Return a gang, or a job whose tasks share, with what they demand of nodes."""
    needs: list[dict[str, object]] = [
        {},
        {"features": (("x",),)},
        {"lacking": ("y",)},
        {"excluded": (dice.choice(names),)},
        {"minimum_memory": 32, "apart": True},
        {"group": "y"},
    ]
    parts = [part(dice.choice((1, 1, 2)), dice.randint(1, 3), **dice.choice(needs)) for _ in range(2)]
    minutes = dice.choice((20, 61, 300, INF))
    wanted = NodeNeeds(
        **dice.choice(({}, {}, {"features": (("x",),)}, {"minimum_memory": 20, "lacking": ("y",)}))
    )
    if dice.random() < 0.6:
        return gang(*parts, minutes=minutes, needs=wanted, exclusive=dice.random() < 0.2)
    return asks(1, dice.randint(2, 8), minutes, parts=tuple(parts), needs=wanted)


def milder(axis: ChangeAxis, change: RequestChange) -> int | None:
    """Return the value before that of the change, or None if it is the mildest."""
    place = axis.values.index(change.value)
    return axis.values[place - 1] if place else None


def axis_of(axes: Sequence[ChangeAxis], change: RequestChange) -> ChangeAxis:
    return next(axis for axis in axes if (axis.what, axis.about) == (change.what, change.about))


def changed(subject: Subject, axes: Sequence[ChangeAxis], changes: Sequence[RequestChange]) -> Subject:
    for change in changes:
        subject = axis_of(axes, change).change(subject, change.value)
    return subject


@pytest.mark.parametrize("policy", POLICY)
@pytest.mark.parametrize("seed", seeds(4))
def test_every_offer_in_random_small_worlds_is_true_and_one_less_would_not_do(policy: str, seed: int) -> None:
    plan_of = POLICIES[policy]
    offered = {"now": 0, "pairs": 0, "sooner": 0}
    for view, subject in worlds(seed, 120):
        plan = plan_of(view)
        base = planned_start(plan, view, subject)
        found = counterfactuals(view, plan_of, subject, ChangeLimits(highest=HIGHEST), most=200)
        assert not found.cut
        assert not (base.now and found.offers)
        axes = axes_of(subject, view, plan, ChangeLimits())
        for offer in found.offers:
            check_offer(view, plan_of, subject, axes, offer, base.at)
            offered["now" if offer.outcome.now else "sooner"] += 1
            offered["pairs"] += len(offer.changes) > 1
    assert min(offered.values()) > 0, offered


def check_offer(
    view: View, plan_of, subject: Subject, axes: Sequence[ChangeAxis], offer: Suggestion, base: float
) -> None:
    """The change is one, does what is said of it, and the next milder one does not."""

    def outcome(changes: Sequence[RequestChange]):
        asked = changed(subject, axes, changes)
        world = with_job(without_job(view, subject), asked)
        return planned_start(plan_of(world), world, asked)

    assert offer.subject == changed(subject, axes, offer.changes) != subject
    assert changes_in_words(offer, subject.request)
    what = outcome(offer.changes)
    assert what == offer.outcome
    assert what.now or what.at < base
    for number, change in enumerate(offer.changes):
        value = milder(axis_of(axes, change), change)
        if value is not None:
            less = [*offer.changes]
            less[number] = change._replace(value=value)
            assert not outcome(less).now if what.now else outcome(less).at > what.at, (change, offer)


def test_the_world_without_a_job_is_the_one_it_was_put_into() -> None:
    subject = Subject(turn_of(MINE), asks(16, minutes=60))
    alike = with_job(BLOCKED, subject)
    assert [len(waiting.turns) for waiting in alike.queue] == [2]
    assert [list(each.turns) for each in without_job(alike, subject).queue] == [
        list(each.turns) for each in BLOCKED.queue
    ]
    alone = with_job(scene([node("a")]), subject)
    assert without_job(alone, subject).queue == []
    assert without_job(BLOCKED, subject) is BLOCKED


def test_a_limit_is_offered_to_jobs_without_one_up_to_a_year() -> None:
    view = msgspec.structs.replace(BLOCKED, running=[runs(1, asks(8), ("a", 8), minutes_left=2 * MAX_LIMIT)])
    assert offered_changes(view, asks(4)) == ["with a run time limit of at most 366d"]
    assert found_for(view, asks(4)).offers[0].subject.job == JobId(MINE)
