"""Real tasks are preempted by an urgent job, which then runs; they run again, and nothing is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from heads import RealHead, real_head

WORKS = "echo begun >> {folder}/begun; while [ ! -e {folder}/end ]; do sleep 0.02; done; echo $HEADNODE_TASK"


def submit(head: RealHead, command: str, **more: Any) -> int:
    described = json.dumps(
        {"tasks": [{"command": command, "rerunnable": True, **more.pop("task", {})}], **more}
    )
    return int(head.ask("submit_job", jobfile=described, dialect="native")["job"])


def begun(folder: Path) -> int:
    return len((folder / "begun").read_text().splitlines()) if (folder / "begun").exists() else 0


def texts(head: RealHead, job: int) -> list[str]:
    return [entry["text"] for entry in head.ask("job", job=job)["job"]["history"]]


@pytest.mark.parametrize("dies", [False, True], ids=["head lives", "head dies meanwhile"])
def test_an_urgent_job_takes_the_place_of_a_running_one_which_runs_again(tmp_path: Path, dies: bool) -> None:
    with real_head(tmp_path) as head:
        head.ask("set_parameters", values={"PreemptionType": "Immediate"})
        low = submit(head, WORKS.format(folder=tmp_path), priority=1000, task={"processors": 2})
        head.until(lambda: begun(tmp_path) == 1)
        urgent = submit(head, f"cat {tmp_path}/begun", priority=3000, task={"processors": 2})
        if dies:
            head.kill()
            head.start_again()
        assert head.wait(urgent)["state"] == "Finished"
        head.until(lambda: begun(tmp_path) == 2)
        (tmp_path / "end").touch()
        assert head.wait(low)["state"] == "Finished"
        found = texts(head, low)
        assert f"Job is being preempted by job {urgent}" in found
        assert f"Back in the queue: preempted by job {urgent}" in found
        task = head.ask("tasks", job=low)["tasks"][0]
        assert (task["state"], task["exit_code"]) == ("Finished", 0)


def test_gracefully_no_task_is_stopped_and_the_urgent_job_starts_as_they_end(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        head.ask("set_parameters", values={"PreemptionType": "Graceful"})
        each = "echo begun >> {0}/begun; while [ ! -e {0}/end$HEADNODE_VALUE ]; do sleep 0.02; done"
        low = submit(
            head,
            each.format(tmp_path),
            priority=1000,
            task={"sweep": "1-4"},
            processors="1-2",
        )
        head.until(lambda: begun(tmp_path) == 2)
        urgent = submit(head, "true", priority=3000)
        answer = head.ask("explain_job", job=urgent)["reasons"]
        assert f"job {low} releases processors for it as tasks end" in [reason["text"] for reason in answer]
        (tmp_path / "end1").touch()
        assert head.wait(urgent)["state"] == "Finished"
        for instance in (2, 3, 4):
            (tmp_path / f"end{instance}").touch()
        assert head.wait(low)["state"] == "Finished"
        assert begun(tmp_path) == 4
