"""What people are told when a gang, or a task with nodes of its own, finds no room."""

import pytest

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.node_needs import NodeNeeds, needs_in_words
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import plan_easy
from headnode.core.scheduling.reasons import explain, never_fits
from headnode.testing import RunningJob, gang, part

from .scenes import asks, node, runs, scene

GPU = {"features": (("gpu",),)}
NODES = [node("a", 4, features=("gpu",)), node("b", 4), node("c", 2, groups=("old",))]


def reasons_of(request: JobRequest, *running: RunningJob) -> list[str]:
    """Return what a job of this request is told while these run, but for what is said node by node."""
    view = scene(NODES, running, [(9, request)])
    return [reason.text for reason in explain(view, plan_easy(view), request) if reason.why is not Why.NODE]


def never(request: JobRequest) -> list[str]:
    return [reason.text for reason in never_fits(request, {each.facts.name: each for each in NODES})]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            gang(part(), part(1, 8, **GPU)),
            "task 2 needs 8 processors on nodes with feature 'gpu'; 4 processors there in all",
        ),
        (
            gang(part(1, 3, **GPU), part(1, 2, **GPU)),
            "task 2 needs 2 processors on nodes with feature 'gpu'; it does not fit beside task 1",
        ),
        (
            gang(part(), part(), part(4, 2), unit=UnitType.PROCESSOR),
            "",
        ),
        (
            gang(part(1, 4, apart=True)),
            "task 1 needs 4 times 1 processor, each on a different node; there is room for 3 of them",
        ),
        (
            gang(part(5)),
            "task 1 needs 5 processors on one node; 4 processors at most on one node",
        ),
        (
            gang(part(5, 1, apart=True)),
            "task 1 needs 5 processors on one node; 4 processors at most on one node",
        ),
        (
            gang(part(1, 3, group="old")),
            "task 1 needs 3 processors on nodes in node group 'old'; 2 processors there in all",
        ),
        (
            gang(part(required_nodes=("z",))),
            "task 1 needs 1 processor on nodes named 'z'; there is no such node",
        ),
        (
            asks(1, 9, parts=(part(1, 5, **GPU),)),
            "a task needs 5 processors on nodes with feature 'gpu'; 4 processors there in all",
        ),
        (
            asks(1, 4, parts=(part(1, 3, **GPU), part(1, 2, group="old"))),
            "the nodes of different kinds that its tasks need add up to more than its maximum, 4 processors",
        ),
    ],
)
def test_a_job_that_never_fits_is_told_which_of_its_tasks_is_too_much(
    request_: JobRequest, text: str
) -> None:
    assert never(request_) == ([text] if text else [])


def test_a_gang_that_waits_is_told_which_task_finds_no_room_now() -> None:
    assert reasons_of(gang(part(), part(1, 4, **GPU)), runs(1, asks(1), ("a", 1))) == [
        "task 2 needs 4 processors on nodes with feature 'gpu'; 3 processors free there"
    ]
    assert reasons_of(gang(part(3, 2), part()), runs(1, asks(2), ("a", 2))) == [
        "task 1 needs 2 times 3 processors, each on one node; there is room for 1 of them now"
    ]
    assert reasons_of(gang(part(3, whole=True)), runs(1, asks(2), ("a", 1), ("b", 1))) == [
        "task 1 needs 3 processors on exclusive nodes; there is room for none of them now"
    ]


def test_of_a_node_is_told_which_tasks_it_cannot_serve() -> None:
    request = gang(part(4, 2), part(1, 1, **GPU), part(1, 1, lacking=("gpu",)))
    view = scene(NODES, [], [(9, request)])
    assert [reason.text for reason in explain(view, plan_easy(view), request) if reason.what] == [
        "node 'a' cannot serve task 3: it has the feature 'gpu', which is excluded",
        "node 'b' cannot serve task 2: it has no feature 'gpu'",
        "node 'c' cannot serve task 2: it has no feature 'gpu'",
    ]
    shared = asks(1, 9, parts=(part(1, 4, **GPU),))
    view = scene(NODES, [runs(1, asks(1), ("a", 1))], [(9, shared)])
    texts = [reason.text for reason in explain(view, plan_easy(view), shared)]
    needed = "a task that needs 4 processors on nodes with feature 'gpu'"
    assert f"node 'b' cannot serve {needed}: it has no feature 'gpu'" in texts


def test_what_a_job_demands_of_all_its_nodes_is_told_of_each_that_lacks_it() -> None:
    request = asks(5, needs=NodeNeeds(features=(("GPU",),)))
    assert never(request) == [
        "needs 5 processors; at most 4 processors on 1 node would fit",
        "each of the nodes b, c has no feature 'GPU'",
    ]
    view = scene(NODES, [runs(1, asks(1), ("a", 1))], [(9, asks(4, needs=NodeNeeds(features=(("GPU",),))))])
    texts = [reason.text for reason in explain(view, plan_easy(view), view.queue[0].request)]
    assert "node 'b' has no feature 'GPU'" in texts


def test_needs_are_said_in_words() -> None:
    needs = NodeNeeds(
        names=("a", "b"),
        excluded=("c",),
        patterns=("n.*",),
        excluded_patterns=("x.*",),
        features=(("gpu",),),
        feature_patterns=("v[0-9]",),
        lacking=("slow",),
        architectures=("x86_64",),
        systems=("linux",),
        minimum_disk=5,
        minimum_virtual=7,
    )
    assert needs_in_words(needs).split(", ") == [
        "named 'a' or 'b'",
        "not named 'c'",
        "with a name that matches 'n.*'",
        "with a name that does not match 'x.*'",
        "with feature 'gpu'",
        "with a feature that matches 'v[0-9]'",
        "without feature 'slow'",
        "of architecture 'x86_64'",
        "with operating system 'linux'",
        "with at least 5 MB of disk",
        "with at least 7 MB of memory and swap together",
    ]
    assert needs_in_words(NodeNeeds(names=tuple("abcdef"))) == "named 'a' or 'b' or 'c' or 'd' or 2 more"
