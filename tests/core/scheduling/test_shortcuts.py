"""What passes leave out changes no plan: classes that are refused together, and what is kept from before."""

import random
from functools import partial
from typing import Any

import msgspec
import pytest

from depth import seeds
from headnode.core.model.job import HeldAmounts, UnitType
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.candidates import Candidate
from headnode.core.scheduling.carried_reservations import PlanMemory
from headnode.core.scheduling.conservative import ConservativePass, plan_conservative, plan_conservative_anew
from headnode.core.scheduling.free_resources import Allocation, FreeResources
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.pass_state import PassMemory
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import EASY, FCFS, BackfillRule, schedule_pass
from headnode.core.scheduling.shadow_reservation import ReleaseCache, releases_of
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.checking import MANNERS, Manner, random_histories, random_history
from headnode.testing.histories import Arrival, Policy, live
from headnode.testing.scenes import limited

from .scenes import MINUTE, NOW, asks, node, runs, scene


def decided(view: View, rule: BackfillRule) -> tuple[Any, ...]:
    """Return all that a pass decides, with all reasons."""
    plan = schedule_pass(view, rule)
    assert len(plan.waits) == len(list(plan.waits)) == len(set(plan.waits))
    return plan.starts, plan.grows, plan.reservations, dict(plan.waits)


@pytest.mark.parametrize("rule", [EASY, FCFS], ids=["easy", "fcfs"])
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
def test_what_is_refused_together_would_have_been_refused_one_by_one(
    rule: BackfillRule, manner: Manner
) -> None:
    one_by_one = rule._replace(is_hopeless=lambda *_: False)

    def policy(view: View) -> Plan:
        return schedule_pass(view, rule)

    for seed, history in random_histories(manner, 5):
        for moment in live(history, policy):
            assert decided(moment.view, rule) == decided(moment.view, one_by_one), seed


@pytest.mark.parametrize("rule", [EASY, FCFS], ids=["easy", "fcfs"])
def test_a_pass_that_remembers_the_one_before_decides_as_one_that_does_not(rule: BackfillRule) -> None:
    """A job that arrives may take what the head of the pass before needs of the limits of its user."""
    manner = Manner(
        "limits", wholes=0, special=0, early=0.1, ahead=0.5, endless=0, growing=0, closed=0, limits=1
    )
    remembered = 0
    for seed in seeds(60):
        history = random_history(manner, seed)
        table = NodeTable(scene(history.nodes).nodes)
        for moment in live(history, lambda view: schedule_pass(view, rule)):
            known = msgspec.structs.replace(moment.view, ground=KnownNodes(moment.view.nodes, table))
            ended = table.cache.of(PassMemory).ended
            one, other = decided(known, rule), decided(moment.view, rule)
            assert (one[:-1], one[-1].keys()) == (other[:-1], other[-1].keys()), seed  # its words may differ
            remembered += ended is not None and ended is not table.cache.of(PassMemory).ended
    assert remembered > 20


class RefusesOneByOne(ConservativePass):
    """A pass of conservative that asks about each job whether it fits."""

    def _is_refused(self, candidate: Candidate) -> bool:
        return False


def all_of(plan: Plan) -> tuple[Any, ...]:
    """Return all that is planned, with all reasons."""
    return plan.starts, plan.grows, plan.reservations, plan.wake, dict(plan.waits)


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
def test_conservative_refuses_together_what_it_would_refuse_one_by_one(manner: Manner) -> None:
    for depth in (1, 3):
        for seed, history in random_histories(manner, 4, depth=depth):
            for moment in live(history, plan_conservative):
                one_by_one = RefusesOneByOne(moment.view, anew=False).plan()
                assert all_of(moment.plan) == all_of(one_by_one), seed


ALIKE = Manner("alike", alike=True, wholes=0.4, special=0, early=0.8, endless=0.02, growing=0, closed=0)
VARIED = Manner("varied", wholes=0.3, special=0, early=0.8, ahead=0.3, growing=0.1)


AMOUNTS = Manner("amounts", special=0.9, wholes=0.1, early=0.8, ahead=0.3, growing=0.1, gpus=0.3, closed=0)
POLICIES = pytest.mark.parametrize("policy", [plan_conservative, plan_conservative_anew], ids=["", "anew"])


@POLICIES
@pytest.mark.parametrize("manner", [*MANNERS, ALIKE, VARIED, AMOUNTS], ids=lambda manner: manner.name)
@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
def test_conservative_plans_as_if_it_kept_nothing_of_the_pass_before(
    manner: Manner, late: bool, policy: Policy
) -> None:
    """Late passes find jobs over their limits, reservations that should have begun, and clocks set back."""
    for seed, history in random_histories(manner, 5, jobs=40):
        dice = random.Random(seed)
        compared = partial(both_ways, NodeTable(scene(history.nodes).nodes), dice if late else None, policy)
        for _ in live(history, compared):
            pass


def both_ways(table: NodeTable, late: random.Random | None, policy: Policy, view: View) -> Plan:
    """Return the plan of a pass that goes on from the one before, after comparing it with one made anew."""
    if late is not None:
        view = msgspec.structs.replace(view, now=Instant(view.now + late.choice((0, 0, 1, 20, 90))))
    plan = policy(on(table, view))
    assert all_of(plan) == all_of(policy(view))
    return plan


@POLICIES
@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
def test_conservative_plans_as_if_it_kept_nothing_where_licences_and_limits_come_and_go(
    policy: Policy, late: bool
) -> None:
    """What was used of limits of minutes becomes less; a licence is counted no longer, and then again."""
    for seed, history in random_histories(AMOUNTS, 20, jobs=40):
        dice = random.Random(seed)
        arrivals = [of_a_user(dice, each) for each in history.arrivals]
        table = NodeTable(scene(history.nodes).nodes)
        compared = partial(
            with_other_licences, dice, partial(both_ways, table, dice if late else None, policy)
        )
        for _ in live(history._replace(arrivals=arrivals), compared):
            pass


@pytest.mark.parametrize("manner", [*MANNERS, VARIED, AMOUNTS], ids=lambda manner: manner.name)
def test_slots_given_anew_do_not_depend_on_those_of_the_plan_before(manner: Manner) -> None:
    """Where a job had its slot is only where a search looks first."""
    for seed, history in random_histories(manner, 5, jobs=40):
        for moment in live(history, plan_conservative_anew):
            alone = msgspec.structs.replace(moment.view, before=None)
            assert all_of(moment.plan) == all_of(plan_conservative_anew(alone)), seed


def of_a_user(dice: random.Random, arrival: Arrival) -> Arrival:
    """Return the job as that of a user with limits, or of none."""
    user = dice.choice(("ann", "bob", ""))
    most = {"processors": 3, "processor_minutes": 30} if user == "ann" else {"jobs": 2, "gpus": 2}
    return arrival._replace(request=limited(arrival.request, user, **most)) if user else arrival


def with_other_licences(dice: random.Random, policy: Policy, view: View) -> Plan:
    """Return the plan where something else is free of licences and limits."""
    licences = {
        name: (most, free + dice.choice((0, 0, 1 if "," not in name or is_spent(name) else 0)))
        for name, (most, free) in view.licences.items()
        if dice.random() > 0.03
    }
    return policy(msgspec.structs.replace(view, licences=licences))


def test_conservative_plans_as_if_made_anew_after_starts_that_were_refused() -> None:
    """The engine refuses a stale start: the job still waits, and what was taken for it is free."""
    refused = 0
    for _, history in random_histories(VARIED, 10, jobs=40):
        table = NodeTable(scene(history.nodes).nodes)
        for moment in live(history, plan_conservative):
            before = plan_conservative(on(table, moment.view))
            both_ways(table, None, plan_conservative, msgspec.structs.replace(moment.view, before=before))
            refused += bool(before.starts)
    assert refused > 20


@POLICIES
@pytest.mark.parametrize("manner", [VARIED, AMOUNTS], ids=lambda manner: manner.name)
def test_conservative_goes_on_from_the_pass_before(manner: Manner, policy: Policy) -> None:
    (_, history), *_ = random_histories(manner, 1, jobs=60)
    table = NodeTable(scene(history.nodes).nodes)
    ends = []
    for _ in live(history, lambda view: policy(on(table, view))):
        ended = table.cache.of(PlanMemory).ended
        ends.append(None if ended is None else id(ended.future))
    assert len(set(ends)) < len(ends) / 2


def on(table: NodeTable, view: View) -> View:
    """Return a view whose nodes are those of a table."""
    return msgspec.structs.replace(view, ground=KnownNodes(view.nodes, table))


def test_conservative_begins_anew_where_a_reservation_has_lost_its_room() -> None:
    """A job that goes on after its limit holds what was reserved for longer than was expected."""
    table = NodeTable(scene([node("a", 4), node("b", 4)]).nodes)
    running = [runs(1, asks(4), ("a", 4), minutes_left=1), runs(2, asks(4), ("b", 4), minutes_left=9)]
    waiting = [(3, asks(4, minutes=30, exclusive=True), 2000), (4, asks(2, minutes=5), 2000)]
    view = scene([node("a", 4), node("b", 4)], running, waiting)
    before = plan_conservative(on(table, view))
    assert [each.at for each in before.reservations] == [NOW + MINUTE, NOW + 9 * MINUTE]
    later = msgspec.structs.replace(view, now=Instant(NOW + 2 * MINUTE), before=before)
    plan = plan_conservative(on(table, later))
    assert all_of(plan) == all_of(plan_conservative(later))
    assert plan.reservations[0].at > later.now


@pytest.mark.parametrize("rule", [EASY, FCFS], ids=["easy", "fcfs"])
def test_an_exclusive_job_on_gpus_starts_where_enough_gpus_are_idle(rule: BackfillRule) -> None:
    need = asks(4, unit=UnitType.GPU, exclusive=True, processors_per_gpu=2)
    view = scene([node("a", 8, gpus=4)], queue=[(1, need)])
    assert [each.job for each in schedule_pass(view, rule).starts] == [1]


def test_releases_are_in_order_whatever_jobs_come_and_go() -> None:
    dice = random.Random(5)
    nodes = [node(f"n{number}", 8) for number in range(4)]
    table = NodeTable(scene(nodes).nodes)
    running = [job(dice, number) for number in range(80)]
    views = []
    for number in range(80, 200):
        running = [each for each in running if dice.random() > 0.01] + [job(dice, number)]
        if number % 7 == 0:  # one is as it was, but for its end
            running[3] = msgspec.structs.replace(running[3], end=Instant(NOW + dice.randint(1, 50)))
        now = Instant(NOW + max(0, number - 170))  # in the end some are over their limits
        views.append(msgspec.structs.replace(scene(nodes), running=list(running), now=now))
    kept = 0
    for view in views:
        assert releases_of(view, table) == releases_of(view, NodeTable(scene(nodes).nodes))
        kept += table.cache.of(ReleaseCache).returning is not None
    assert 80 < kept < len(views)


def job(dice: random.Random, number: int) -> RunningJob:
    """Return a job that ends at some time, often when others do."""
    share = f"n{dice.randrange(4)}", dice.randint(1, 3)
    return runs(number, asks(share[1]), share, minutes_left=dice.randint(5, 60) / MINUTE)


def test_what_is_free_of_nodes_is_what_a_fresh_look_shows_whatever_nodes_have_changed() -> None:
    dice = random.Random(7)
    views = dict(scene([node(f"n{number:02}", 8) for number in range(40)]).nodes)
    table = NodeTable(views)
    for _ in range(200):
        for name in dice.sample(sorted(views), dice.choice((0, 1, 1, 4, 20))):
            views = {**views, name: used(dice, views[name])}
        kept = FreeResources.now(table, views, {"x": 3})
        fresh = FreeResources.now(NodeTable(views), views, {"x": 3})
        assert (kept.free, kept.jobs, kept.owned) == (fresh.free, fresh.jobs, fresh.owned)
        assert (kept.amounts, kept.licences) == (fresh.amounts, fresh.licences)
        kept.put(Allocation(((dice.randrange(40), 2),), True, {"x": 1}, 5, HeldAmounts(disk=3), 1))


def used(dice: random.Random, before: NodeView) -> NodeView:
    """Return a node of which jobs have something else."""
    return msgspec.structs.replace(
        before,
        free=dice.randint(0, 8),
        jobs=dice.randint(0, 3),
        exclusive_to=dice.choice((None, JobId(1))),
        memory_held=dice.randint(0, 100),
        disk_held=dice.randint(0, 100),
        swap_held=dice.randint(0, 100),
        gpus_held=dice.randint(0, 2),
    )
