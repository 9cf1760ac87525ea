"""The bars of the plan, the load and the marks, from answers of the head."""

from typing import Any

from headnode.apps.web.console.job import timeline
from headnode.apps.web.console.job_form import preview
from headnode.apps.web.console.load_chart import ProcessorSpan, _in_buckets
from headnode.apps.web.console.marks import job_mark, node_mark
from headnode.apps.web.console.plan import bars_by_row


def job(number: int, **more: Any) -> dict[str, Any]:
    """A job of a list."""
    return {
        "id": number, "nodes": "", "started": None, "ended": None, "run_time": 3600.0,
        "expected": None, "places": [], "submitted": 0.0, **more,
    }  # fmt: skip


def test_a_job_has_a_bar_on_each_of_its_nodes_and_without_one_in_its_own_row() -> None:
    rows = bars_by_row(
        ["n1", "n2"],
        running=[job(1, nodes="n[1-2]", started=0.0)],
        waiting=[
            job(2, expected={"p50": 3600.0, "promise": None}, places=[{"node": "n2", "processors": 1}]),
            job(3, expected={"p50": 50.0, "promise": None}),
            job(4),
        ],
        ended=[],
        now=100.0,
    )
    assert {name: [bar.job["id"] for bar in bars] for name, bars in rows.items()} == {
        "n1": [1],
        "n2": [1, 2],
        "no node yet": [3],
    }


def test_the_load_of_a_bucket_is_the_mean_of_the_processors_in_use() -> None:
    spans = [ProcessorSpan(0.0, 15.0, 4), ProcessorSpan(5.0, 10.0, 2), ProcessorSpan(-50.0, 500.0, 1)]
    assert _in_buckets(spans, 0.0, 10.0, 0, 3) == [6.0, 3.0, 1.0]


def test_a_timeline_covers_all_of_its_width_in_order() -> None:
    drawn = timeline(job(1, created=0.0, submitted=10.0, started=40.0, ended=100.0), now=500.0)
    assert drawn is not None
    parts = [(part["kind"], part["x"], part["width"]) for part in drawn["parts"]]
    assert parts == [("set-up", 0.0, 64.0), ("waited", 64.0, 192.0), ("ran", 256.0, 384.0)]


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
