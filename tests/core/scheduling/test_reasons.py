"""What people are told when a job does not fit."""

import math

import pytest
from msgspec.structs import replace

from headnode.core.model.job import Licence, UnitType
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import plan_easy
from headnode.core.scheduling.reasons import MAX_NODES_NAMED, explain, never_fits, never_with_any
from headnode.core.scheduling.view import View

from .scenes import asks, node, runs, scene

TWO = {"a": node("a", 8), "b": node("b", 8)}


def never_fits_reasons(*args: object, **more: object) -> list[str]:
    reasons = never_fits(asks(*args, **more), TWO)
    assert {reason.why for reason in reasons} <= {Why.NEVER_FITS}
    return [reason.text for reason in reasons]


def test_a_job_that_could_run_on_the_empty_cluster_is_not_refused() -> None:
    assert never_fits_reasons(16) == []
    assert never_fits_reasons(2, exclusive=True) == []


def test_a_job_too_large_is_told_what_would_fit() -> None:
    assert never_fits_reasons(17) == ["needs 17 processors; at most 16 processors on 2 nodes would fit"]
    assert never_fits_reasons(9, single_node=True) == [
        "needs 9 processors; at most 8 processors on one node would fit"
    ]
    assert never_fits_reasons(3, unit=UnitType.NODE) == ["needs 3 nodes; at most 2 nodes would fit"]


def test_a_job_that_no_node_can_serve_is_told_why_of_each() -> None:
    assert never_fits_reasons(1, minimum_memory=64, excluded_nodes=("b",)) == [
        "needs 1 processor; no node is eligible",
        "node 'a' has 0 MB of memory; the job needs at least 64",
        "node 'b' is excluded by the job",
    ]


def test_nodes_of_which_the_same_is_true_are_told_together() -> None:
    many = {f"n{number}": node(f"n{number}", 8) for number in range(1, 201)} | {"b": node("b", 8)}
    wish = asks(1, minimum_memory=64, excluded_nodes=("b",))
    assert [reason.text for reason in never_fits(wish, many)] == [
        "needs 1 processor; no node is eligible",
        "node 'b' is excluded by the job",
        "each of the nodes n[1-200] has 0 MB of memory; the job needs at least 64",
    ]


def test_a_job_that_names_nodes_wrongly_is_told_which() -> None:
    assert never_fits_reasons(1, required_nodes=("c",)) == ["there is no node 'c'"]
    assert never_fits_reasons(1, required_nodes=("B",), excluded_nodes=("b",)) == [
        "node 'b' is excluded by the job"
    ]
    assert never_fits_reasons(1, 1, required_nodes=("a", "b")) == [
        "its tasks require 2 nodes, but its maximum is 1 processor"
    ]
    assert "there is no node 'x'" in never_fits_reasons(1, requested_nodes=("x",))


def test_closed_nodes_count_as_possible_and_removed_ones_do_not() -> None:
    assert never_fits(asks(2), {"a": node("a", closed="unreachable")}) == ()
    assert never_fits(asks(2), {"a": node("a", closed="removed")}) != ()


def test_more_licences_than_there_are_never_fit_and_taken_ones_may() -> None:
    wish = asks(1, licences=(Licence("x", 3),))
    assert never_fits(wish, TWO, {"x": (3, 0)}) == ()
    assert [reason.text for reason in never_fits(wish, TWO, {"x": (2, 2)})] == [
        "needs 3 of licence 'x'; 2 available"
    ]


def test_every_node_that_gives_nothing_says_why() -> None:
    nodes = [
        node("busy", 2, memory=8),
        node("mine", 2, memory=8),
        node("off", 2, memory=8, closed="paused"),
        node("half", 4, memory=8),
        node("small", 2, memory=1),
        node("good", 2, memory=8),
    ]
    running = [
        runs(1, asks(2), ("busy", 2)),
        runs(2, asks(1, exclusive=True), ("mine", 2)),
        runs(3, asks(1), ("half", 1)),
    ]
    wish = asks(5, exclusive=True, minimum_memory=4)
    view = scene(nodes, running, [(7, wish)])
    reasons = explain(view, plan_easy(view), wish)
    assert {reason.what: reason.text for reason in reasons if reason.why is Why.NODE} == {
        "busy": "node 'busy' has 1 job running, and this job needs exclusive nodes",
        "mine": "node 'mine' is used exclusively by one job",
        "off": "node 'off' accepts no new jobs: paused",
        "half": "node 'half' has 1 job running, and this job needs exclusive nodes",
        "small": "node 'small' has 1 MB of memory; the job needs at least 4",
    }
    assert reasons[0].why is Why.PROCESSORS
    assert explain(view, plan_easy(view), asks(1)) == ()


def test_an_explanation_counts_what_the_same_pass_has_given_away() -> None:
    large, small = asks(2), asks(1)
    view = scene([node("a", 2)], [], [(1, large), (2, small)])
    reasons = explain(view, plan_easy(view), small)
    assert "node 'a' has all 2 processors in use" in [reason.text for reason in reasons]


def test_an_explanation_counts_growth_too() -> None:
    running = runs(1, asks(1, 2), ("a", 1), wants=1)
    view = scene([node("a", 2)], [running], [(2, asks(1))])
    texts = [reason.text for reason in explain(view, plan_easy(view), asks(1))]
    assert "node 'a' has all 2 processors in use" in texts


def test_a_pass_names_only_a_few_of_many_closed_nodes() -> None:
    nodes = [node(f"n{i:02}", closed="paused") for i in range(30)]
    decided = plan_easy(scene(nodes, [], [(1, asks(1))]))
    reasons = decided.waits[asks(1)].reasons
    assert len([reason for reason in reasons if reason.why is Why.NODE]) == MAX_NODES_NAMED + 1
    assert reasons[-1].text == "22 more nodes are not available"


@pytest.mark.parametrize(
    ("closed", "text"),
    [
        (
            {"a": "drained by root: disk"},
            "needs 1 processor; the only suitable node accepts no new jobs: a is drained by root: disk",
        ),
        (
            {"a": "unreachable", "b": "paused"},
            "needs 1 processor; none of the 2 suitable nodes accepts new jobs; a is unreachable",
        ),
        ({"a": "paused", "b": ""}, "needs 1 processor; no eligible node has a free one"),
    ],
)
def test_a_job_whose_nodes_are_all_closed_is_told_so_first(closed: dict[str, str], text: str) -> None:
    nodes = [node(name, 4, closed=why) for name, why in closed.items()]
    running = [runs(1, asks(4), (name, 4)) for name, why in closed.items() if not why]
    decided = plan_easy(scene(nodes, running, [(2, asks(1))]))
    assert decided.waits[asks(1)].reasons[0].text == text


@pytest.mark.parametrize(
    ("open_for", "closed", "text"),
    [
        (
            {"a": 60.0},
            "",
            "needs 1 processor; the only suitable node does not accept the job now: "
            "a closes before the job would end",
        ),
        (
            {"a": 60.0, "b": 90.0},
            "",
            "needs 1 processor; none of the 2 suitable nodes accepts the job now; "
            "a closes before the job would end",
        ),
        (
            {"a": 60.0, "b": math.inf},
            "paused",
            "needs 1 processor; none of the 2 suitable nodes accepts the job now; "
            "a closes before the job would end",
        ),
    ],
)
def test_a_job_that_is_too_long_for_free_nodes_is_not_told_that_none_is_free(
    open_for: dict[str, float], closed: str, text: str
) -> None:
    nodes = [
        replace(node(name, 4, closed=closed if left == math.inf else ""), open_for=left)
        for name, left in open_for.items()
    ]
    wish = asks(1, run_time=600)
    decided = plan_easy(scene(nodes, [], [(2, wish)]))
    assert decided.waits[wish].reasons[0].text == text


def test_whether_a_request_can_ever_run_is_remembered_for_the_same_nodes_and_licences_only() -> None:
    wish = asks(1, licences=(Licence("x", 3),))
    known = KnownNodes(TWO, NodeTable(TWO))
    view = View(now=Instant(0.0), nodes=TWO, queue=(), running=(), licences={"x": (2, 2)}, ground=known)
    more = replace(view, licences={"x": (3, 0)})
    for _ in range(2):
        assert never_with_any(wish, view) == never_fits(wish, TWO, view.licences) != ()
        assert never_with_any(wish, more) == ()
    small = {"a": node("a", 1)}
    assert never_with_any(asks(2), view) == ()
    assert never_with_any(asks(2), replace(view, nodes=small)) != ()
