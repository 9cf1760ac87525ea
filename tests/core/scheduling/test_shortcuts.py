"""What passes leave out changes no plan: classes that are refused together, and what is kept from before."""

import random
from typing import Any

import msgspec
import pytest

from depth import seeds
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.pass_state import PassMemory
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import EASY, FCFS, BackfillRule, schedule_pass
from headnode.core.scheduling.shadow_reservation import ReleaseCache, releases_of
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.checking import MANNERS, Manner, random_histories, random_history
from headnode.testing.histories import live

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
