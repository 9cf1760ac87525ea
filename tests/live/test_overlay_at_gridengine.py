"""A head over a real Grid Engine shows its queue and hosts, and says when its jobs start there."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sites import attempts_in, grid_engine_fixture

from headnode.core.model.errors import Unavailable
from heads import RealHead, real_head
from testbed.gridengine_peer import GridEnginePeer

grid_engine = grid_engine_fixture()


@pytest.fixture
def head(tmp_path: Path, grid_engine: GridEnginePeer) -> Iterator[RealHead]:
    grid_engine.write()
    with real_head(tmp_path, nodes=0) as head:
        paths = {"settings": str(grid_engine.root), "programs": str(grid_engine.programs)}
        paths["directory"] = attempts_in(tmp_path)
        head.ask(
            "set_resource", name="site", system="gridengine", overlay=True, poll=1.0, parallel="smp", **paths
        )
        head.until(lambda: site(head)["polled"])
        yield head
    grid_engine.cancel_all()


def site(head: RealHead) -> dict[str, Any]:
    try:
        found: dict[str, Any] = head.ask("site_nodes")["site"]
    except Unavailable:
        return {"polled": None}
    return found


def fill(peer: GridEnginePeer, name: str) -> str:
    """Let another job have all slots; return its id."""
    words = (
        "-terse",
        "-b",
        "y",
        "-N",
        name,
        "-pe",
        "smp",
        "8",
        "-l",
        "h_rt=180",
        "-o",
        "/dev/null",
        "-j",
        "y",
    )
    return peer.run("qsub", *words, "/bin/sleep", "100").strip()


def listed(head: RealHead, **fields: Any) -> dict[str, dict[str, Any]]:
    return {job["id"]: job for job in head.ask("site_jobs", **fields)["jobs"]}


def test_its_queue_its_hosts_and_its_history_are_shown(head: RealHead, grid_engine: GridEnginePeer) -> None:
    big = fill(grid_engine, "big")
    head.until(lambda: listed(head).get(big, {}).get("state") == "running")
    shown = listed(head)[big]
    assert (shown["name"], shown["processors"], shown["run_time"]) == ("big", 8, 180.0)
    assert abs(shown["started"] - time.time()) < 60
    head.until(lambda: head.ask("site_nodes")["nodes"][0]["used"] == 8)
    (node,) = head.ask("site_nodes")["nodes"]
    assert (node["name"], node["processors"], node["partitions"]) == ("localhost", 8, ["main.q"])
    assert [each["name"] for each in site(head)["partitions"]] == ["main.q"]
    grid_engine.run("qdel", big)
    head.until(lambda: big not in listed(head))


def test_a_job_waits_there_with_who_is_before_it_and_a_start(
    head: RealHead, grid_engine: GridEnginePeer
) -> None:
    big = fill(grid_engine, "big")
    head.until(lambda: listed(head).get(big, {}).get("state") == "running")
    next_one = fill(grid_engine, "next")
    job = head.submit("true", terms={"runtime": "1"}, workdir="/")

    def why() -> dict[str, Any]:
        found: dict[str, Any] = head.ask("explain_job", job=job)
        return found

    head.until(lambda: (why()["expected"] or {}).get("p50") and (why()["site"] or {}).get("reason"))
    answer = why()
    assert "waits for its turn" in answer["site"]["text"]
    assert [one["id"] for one in answer["site"]["jobs_ahead"]] == [next_one]
    assert answer["expected"]["p50"] > time.time() + 100
    assert listed(head)[answer["site"]["id"]]["job"] == job
    grid_engine.run("qdel", big, next_one)
    assert head.wait(job)["state"] == "Finished"
