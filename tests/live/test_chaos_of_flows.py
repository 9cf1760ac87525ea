"""Flows that nodes start themselves, while anything is killed: no task runs twice, or before its parents."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_chaos import PARTS, TIMEOUT, Victim

from depth import share_of
from heads import RealHead, head_fixture

WIDTH, DEPTH = 6, 12  # tasks in a layer, and layers
LONG = 17  # each such task takes longer than what waits behind it does
BAD = 31  # each such task fails, and those that depend on it


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    made = Victim(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def parents_of(number: int) -> list[int]:
    """Return two tasks of the layer before."""
    if number <= WIDTH:
        return []
    first = (number - 1) // WIDTH * WIDTH - WIDTH + 1
    return [first + (number - 1) % WIDTH, first + number % WIDTH]


def flow(place: Path) -> dict[str, Any]:
    """Return a job in layers, whose tasks read what their parents have written."""
    tasks = []
    for number in range(1, WIDTH * DEPTH + 1):
        files = "".join(f" {place}/$CCP_JOBID.{parent}" for parent in parents_of(number))
        read = f"cat{files} >/dev/null || echo $HEADNODE_TASK >>{place}/early; " if files else ""
        pause = "sleep 0.15; " if number % LONG == 0 else ""
        end = "exit 1" if number % BAD == 0 else f"echo x >{place}/$CCP_JOBID.{number}"
        tasks.append(
            {
                "command": f"echo $CCP_JOBID.{number} >>{place}/ran; {read}{pause}{end}",
                "name": f"t{number}",
                "depends_on": [f"t{parent}" for parent in parents_of(number)],
                "rerunnable": False,
            }
        )
    return {"fail_dependent_tasks": True, "tasks": tasks}


def test_a_flow_survives_the_death_of_anything_at_any_moment(victim: Victim, tmp_path: Path) -> None:
    dice, place = random.Random(5), tmp_path / "work"
    place.mkdir()
    place.chmod(0o777)
    (place / "ran").touch()
    described = json.dumps(flow(place))
    jobs: list[int] = []
    for _ in range(share_of(40)):
        victim.ask("ping")
        while len(victim.ask("jobs", states=["active"])["jobs"]) < 2:
            jobs.append(victim.ask("submit_job", jobfile=described)["job"])
        time.sleep(dice.uniform(0.05, 0.6))  # the moment is what is tried
        victim.kill(dice.choice([*filter(victim.processes, PARTS), "all"]))
    deadline = time.monotonic() + TIMEOUT
    while active := victim.ask("jobs", states=["active"])["jobs"]:
        assert time.monotonic() < deadline, f"stuck: {active}\n{victim.log()}"
        time.sleep(0.05)
    ran = Counter((place / "ran").read_text().split())
    assert not (place / "early").exists(), (place / "early").read_text()
    assert [name for name, times in ran.items() if times > 1] == []
    finished = sum(_check(victim, job, ran) for job in jobs)
    assert finished > len(jobs) * WIDTH * DEPTH / 5, "hardly anything ran"


def _check(victim: Victim, job: int, ran: Counter[str]) -> int:
    """Compare what the head says of the tasks of a job with what ran; return how many have finished."""
    tasks = {task["task"]: task for task in victim.ask("tasks", job=job)["tasks"]}
    for number, task in tasks.items():
        good = [parent for parent in parents_of(number) if tasks[parent]["state"] == "Finished"]
        if task["state"] == "Finished":
            assert ran[f"{job}.{number}"] == 1, task
        else:
            assert (task["state"], bool(task["message"])) == ("Failed", True), task
        if len(good) < len(parents_of(number)):
            assert ran[f"{job}.{number}"] == 0, task
            assert task["message"] == "it never ran: a task it depends on failed", task
    return sum(task["state"] == "Finished" for task in tasks.values())


head = head_fixture()


def test_a_chain_in_which_each_task_reads_what_the_one_before_has_captured(head: RealHead) -> None:
    tasks = [{"command": "echo 0", "name": "t0", "stdout": "line0"}]
    for n in range(1, 200):
        command = f"test $(cat line{n - 1}) = {n - 1} && echo {n}"
        tasks.append({"command": command, "name": f"t{n}", "depends_on": [f"t{n - 1}"]})
        tasks[-1]["stdout"] = f"line{n}"
    job = head.ask("submit_job", jobfile=json.dumps({"tasks": tasks}))["job"]
    assert head.wait(job)["state"] == "Finished"
