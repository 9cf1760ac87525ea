"""The bars of the plan, the load and the marks, from answers of the head."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.web.console.job import advice
from headnode.apps.web.console.job_drawings import MAX_BOXES, MAX_LINES, task_graph, timeline
from headnode.apps.web.console.job_form import preview
from headnode.apps.web.console.job_rows import job_mark, node_mark
from headnode.apps.web.console.load_chart import (
    MAX_LANES,
    STEP,
    ProcessorSpan,
    bars_of,
    in_rows,
    lanes_of,
    mean_in_use,
)
from headnode.apps.web.console.plan import MAX_BARS, PlanWindow, drawn_rows


def job(number: int, **more: Any) -> dict[str, Any]:
    """A job of a list."""
    return {
        "id": number, "nodes": "", "started": None, "ended": None, "run_time": 3600.0,
        "expected": None, "places": [], "submitted": 0.0, **more,
    }  # fmt: skip


NODES = [
    {"name": "n1", "groups": ["gpu"], "processors": 4},
    {"name": "n2", "groups": [], "processors": 8},
    {"name": "n3", "groups": [], "processors": 8},
]


def bars() -> list[Any]:
    """A job on two nodes, one that is planned on one of them, one without a node yet, one without a start."""
    return bars_of(
        running=[job(1, nodes="n[1-2]", started=0.0, owner="ada")],
        waiting=[
            job(
                2,
                expected={"p50": 3600.0, "promise": None},
                places=[{"node": "n2", "processors": 1}],
                owner="bob",
            ),
            job(3, expected={"p50": 50.0, "promise": None}, owner="ada"),
            job(4),
        ],
        ended=[],
        now=100.0,
    )


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("node", {"n1": [1], "n2": [1, 2], "n3": [], "no node yet": [3]}),
        ("class", {"8 processors": [1, 2], "gpu": [1], "no node yet": [3]}),
        ("owner", {"ada": [1, 3], "bob": [2]}),
    ],
)
def test_a_job_has_a_bar_in_each_row_that_it_uses_and_without_a_node_in_its_own(
    by: str, rows: dict[str, list[int]]
) -> None:
    found = in_rows(bars(), by, NODES)
    assert {name: [bar.job["id"] for bar in of_row] for name, of_row in found.items()} == rows


def test_bars_of_a_lane_never_overlap_until_the_lanes_are_used_up() -> None:
    jobs = [job(n, nodes="n1", started=float(n), ended=float(n + 3)) for n in range(20)]
    lanes = lanes_of(bars_of([], [], jobs, now=100.0))
    assert [len(lane) for lane in lanes] == [7, 7, 6]
    assert all(one.end <= other.since for lane in lanes for one, other in pairwise(lane))
    at_once = [job(n, nodes="n1", started=0.0, ended=9.0) for n in range(20)]
    assert [len(lane) for lane in lanes_of(bars_of([], [], at_once, now=100.0))] == [1] * (MAX_LANES - 1) + [
        13
    ]


@pytest.mark.parametrize("by", ["node", "class", "owner"])
def test_a_plan_of_ten_thousand_jobs_on_a_thousand_nodes_is_bounded(by: str) -> None:
    nodes = [{"name": f"n{n}", "groups": [], "processors": 64} for n in range(1000)]
    jobs = [
        job(n, nodes=f"n{n % 1000}", started=float(n % 3000), owner=f"u{n % 50}", name="")
        for n in range(10_000)
    ]
    rows = in_rows(bars_of(jobs, [], [], now=4000.0), by, nodes)
    drawn, height, cut = drawn_rows(rows, PlanWindow(0.0, 9000.0), "owner")
    assert sum(len(row["bars"]) for row in drawn) <= MAX_BARS
    assert cut  # and the page says so
    assert height <= len(drawn) * (MAX_LANES * 15 + 5)


def test_the_load_of_a_step_is_the_mean_of_the_processors_in_use() -> None:
    spans = [
        ProcessorSpan(0.0, 1.5 * STEP, 4),
        ProcessorSpan(0.5 * STEP, STEP, 2),
        ProcessorSpan(-50.0, 99 * STEP, 1),
    ]
    assert mean_in_use(spans, 0.0, 3) == [6.0, 3.0, 1.0]
    assert mean_in_use([ProcessorSpan(0.0, 2.5 * STEP, 4)], 0.0, 3, until=2.5 * STEP) == [4.0, 4.0, 4.0]


@given(st.lists(st.tuples(st.floats(-5, 12), st.floats(-5, 12), st.integers(1, 9)), max_size=8))
def test_the_mean_is_the_sum_of_what_each_job_held_in_each_step(held: list[tuple[float, float, int]]) -> None:
    spans = [ProcessorSpan(*one) for one in held]
    wanted = [
        sum(max(0.0, min(end, step + 1) - max(since, step)) * number for since, end, number in held)
        for step in range(6)
    ]
    assert mean_in_use(spans, 0.0, 6, step_of=1.0) == pytest.approx(wanted, abs=0.011)


def test_a_timeline_covers_all_of_its_width_in_order() -> None:
    drawn = timeline(job(1, created=0.0, submitted=10.0, started=40.0, ended=100.0), now=500.0)
    assert drawn is not None
    parts = [(part["kind"], part["x"], part["width"]) for part in drawn["parts"]]
    assert parts == [("set-up", 0.0, 64.0), ("waited", 64.0, 192.0), ("ran", 256.0, 384.0)]


def test_a_timeline_has_each_hold_suspension_and_requeue_of_its_history() -> None:
    found = [
        (0, "Created by ada"), (0, "Submitted by ada"), (10, "Hold user set by ada: wait"),
        (20, "Holds user, operator released by root"), (30, "Started on n1 with 2 cores"), (40, "Suspended"),
        (50, "Resumed on n1 with 2 cores"), (60, "Requeue requested by ada"), (70, "Requeued by ada"),
        (80, "Started on n2 with 2 cores"), (95, "All tasks ended"), (100, "Job Finished"),
    ]  # fmt: skip
    history = [{"at": float(at), "text": text} for at, text in found]
    times = {"created": 0.0, "submitted": 0.0, "started": 80.0, "ended": 100.0, "state": "Finished"}
    drawn = timeline(job(1, **times), now=500.0, history=history)
    assert drawn is not None
    assert [(part["kind"], part["since"]) for part in drawn["parts"]] == [
        ("waited", 0.0), ("held", 10.0), ("waited", 20.0), ("ran", 30.0), ("held", 40.0), ("ran", 50.0),
        ("waited", 70.0), ("ran", 80.0),
    ]  # fmt: skip
    assert round(sum(part["width"] for part in drawn["parts"]), 2) == 640.0


def test_a_drawing_of_tasks_has_each_after_all_that_it_waits_for_and_is_bounded() -> None:
    flow = [
        {"name": "get"}, {"name": "a", "depends_on": ["get"]}, {"name": "a", "depends_on": ["get"]},
        {"name": "end", "depends_on": ["a", "get", "nobody"]}, {},
    ]  # fmt: skip
    drawn = task_graph(flow, {1: "finished", 2: "finished", 3: "failed", 4: "queued"})
    assert drawn is not None
    places = {box["label"]: (box["x"], box["state"]) for box in drawn["boxes"]}
    assert places["get"][0] < places["a ×2"][0] < places["end"][0]
    assert (places["a ×2"][1], places["Task 5"][1], len(drawn["lines"])) == ("failed", "queued", 3)
    assert task_graph([{"name": "alone"}], {}) is None
    chain = [{"name": f"t{n}", "depends_on": [f"t{m}" for m in range(n)]} for n in range(300)]
    drawn = task_graph(chain, {})
    assert drawn is not None
    assert (len(drawn["boxes"]), drawn["cut"], len(drawn["lines"])) == (MAX_BOXES, 100, MAX_LINES)


def test_a_circle_of_tasks_is_drawn_and_ends() -> None:
    drawn = task_graph([{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}], {})
    assert drawn is not None
    assert len(drawn["boxes"]) == 2


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ({"message": "the job's run time expired"}, {"runtime": "2h"}),
        (
            {"message": "the task was killed: it needed more memory", "peak_memory": 2048},
            {"estimatedprocessmemory": "4"},
        ),
        ({"message": "the run time limit of the task, 5 s, expired"}, {}),
        ({"exit_code": 127}, {}),
        ({"exit_code": 3}, {}),
    ],
)
def test_a_failure_has_advice_and_the_options_that_help(
    task: dict[str, Any], options: dict[str, str]
) -> None:
    found = {"message": "", "peak_memory": None, "exit_code": None, "signal": None, **task}
    (point,) = advice(job(1, run_time=3600.0), [found, found])
    assert point["text"].endswith((".", ":"))
    assert point["options"] == options


def test_a_held_job_and_a_full_node_have_marks_of_their_own() -> None:
    assert job_mark({"state": "Queued", "held": True}) == "held"
    assert job_mark({"state": "Queued", "held": False}) == "queued"
    assert node_mark({"state": "Ready", "used": 0, "free": 4}) == "ready"
    assert node_mark({"state": "Ready", "used": 2, "free": 2}) == "busy"
    assert node_mark({"state": "Ready", "used": 4, "free": 0}) == "full"
    assert node_mark({"state": "Drained", "used": 4, "free": 0}) == "drained"


def test_a_sweep_shows_its_first_command_lines() -> None:
    assert preview("run * > *.out", "5-100:10") == ["run 5 > 5.out", "run 15 > 15.out", "run 25 > 25.out"]
    assert preview("run *", "2") == ["run 1", "run 2"]
    assert preview("run", "") == preview("run", "nonsense") == preview("run *", "1-9:0") == []
