"""Balanced mode on a real head: sweeps share a node, one of higher priority has more, and every task runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from heads import RealHead, real_head

HELD = "echo {number}.$CCP_TASKINSTANCEID >> {folder}/begun; while [ ! -e {folder}/end ]; do sleep 0.02; done"
EACH = 12  # tasks


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, processors=9) as head:
        head.ask("set_parameters", values={"SchedulingMode": "Balanced", "RebalancingInterval": "1"})
        yield head


def sweep(head: RealHead, folder: Path, number: int, priority: int = 2000) -> int:
    """Submit a sweep of tasks that last until there is a file called end."""
    task = {
        "sweep": f"1-{EACH}",
        "rerunnable": True,
        "command": HELD.format(number=number, folder=folder),
    }
    described = json.dumps({"priority": priority, "tasks": [task]})
    return int(head.ask("submit_job", jobfile=described, dialect="native")["job"])


def running(head: RealHead, *jobs: int) -> list[int]:
    """Return how many tasks of each job run."""
    return [head.ask("job", job=job)["job"]["tasks"].get("running", 0) for job in jobs]


def test_sweeps_share_a_node_and_one_of_higher_priority_takes_its_share(
    head: RealHead, tmp_path: Path
) -> None:
    first, second = (sweep(head, tmp_path, number) for number in (1, 2))
    head.until(lambda: running(head, first, second) == [5, 4])
    urgent = sweep(head, tmp_path, 3, priority=3000)
    head.until(lambda: running(head, first, second, urgent) == [2, 2, 5])
    assert head.ask("job", job=urgent)["job"]["share"] == 5
    assert head.ask("cluster")["cluster"]["mode"] == "Balanced"
    (tmp_path / "end").touch()
    for job in (first, second, urgent):
        ended = head.wait(job)
        assert ended["state"] == "Finished"
        assert ended["tasks"]["finished"] == EACH
    begun = (tmp_path / "begun").read_text().split()
    assert set(begun) == {f"{number}.{task}" for number in (1, 2, 3) for task in range(1, EACH + 1)}
    assert len(begun) > len(set(begun)), "some were stopped for others, and ran again"
