"""The output of a whole sweep or job is printed in order, and followed while it is written."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli_scripted_head import ScriptedHead, hn, job, task

SWEEP = {"total": 3, "queued": 0, "running": 0, "finished": 3, "failed": 0, "canceled": 0}


def submitted(state: Path, *words: str) -> str:
    result = hn("job", "submit", *words, state=state)
    assert result.returncode == 0, result.stderr
    return re.search(r"ID: (\d+)\.", result.stdout)[1]


def test_who_waits_for_a_sweep_sees_what_its_instances_printed(state: Path) -> None:
    result = hn("job", "submit", "--wait", "/parametric:1-12", "echo *", state=state)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Job has been submitted. ID: ")
    assert "finished: 12 tasks finished" in lines[1]
    assert lines[2:] == [str(number) for number in range(1, 13)]


def test_the_output_of_a_sweep_and_of_a_job_is_that_of_each_instance_in_order(state: Path) -> None:
    made = re.search(r"(\d+)$", hn("job", "new", state=state).stdout.strip())
    assert made
    number = made[1]
    for words in (["echo first"], ["/parametric:2-4", "sh -c 'echo *; echo e* >&2'"], ["printf end"]):
        assert hn("job", "add", number, *words, state=state).returncode == 0
    assert hn("job", "submit", f"/id:{number}", state=state).returncode == 0
    assert hn("job", "wait", number, state=state).returncode == 0
    assert hn("task", "output", number, state=state).stdout == "first\n2\ne2\n3\ne3\n4\ne4\nend"
    assert hn("task", "output", f"{number}.2", state=state).stdout == "2\ne2\n3\ne3\n4\ne4\n"
    assert hn("task", "output", f"{number}.2.3", state=state).stdout == "4\ne4\n"
    result = hn("task", "output", number, "--headers", state=state).stdout
    assert result.startswith(
        f"==> {number}.1 <==\nfirst\n\n==> {number}.2.1 <==\n2\ne2\n\n==> {number}.2.2 <=="
    )
    assert result.endswith(f"\n==> {number}.3 <==\nend")
    paths = hn("task", "output", number, "--quiet", state=state).stdout.splitlines()
    assert [Path(path).name for path in paths] == ["1.1.out", "2.1.out", "2.2.out", "2.3.out", "3.1.out"]


def test_following_a_sweep_shows_each_piece_when_it_comes_and_ends_with_the_job(
    state: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    waits = f"sh -c 'echo begun *; while [ ! -e {gate} ]; do sleep 0.1; done; echo ended *'"
    number = submitted(state, "/parametric:1-3", waits)
    following = subprocess.Popen(
        [sys.executable, "-m", "headnode.apps.cli", "task", "output", number, "--follow", "--state", state],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    begun = {following.stdout.readline() for _ in range(2)}  # the node has two processors
    gate.touch()
    rest, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert begun == {"begun 1\n", "begun 2\n"}
    assert sorted(rest.splitlines()) == ["begun 3", "ended 1", "ended 2", "ended 3"]


def test_nothing_is_read_twice_and_no_more_than_a_page_is_asked_for_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("x\n")
    sweep = task(1, "Running", kind="sweep", instances=SWEEP)
    instances = [task(1, "Finished", instance=number) for number in (1, 2, 3)]

    def tasks(request: dict[str, object]) -> dict[str, object]:
        if "expand" not in request:
            return {"tasks": [sweep], "more": None}
        after = request["after"]
        assert isinstance(after, int)
        return {"tasks": instances[after : after + 1], "more": after + 1 if after < 2 else None}

    states = iter(["Running", "Finished"])
    files = {"standard_output": str(out), "captured": True, "captured_path": str(out), "state": "finished"}
    script = {
        "tasks": tasks,
        "task_output": files,
        "read_output": lambda request: {"data": "" if request["offset"] else "eAo=", "size": 2},
        "job": lambda _: {"job": job(12, next(states))},
    }
    with ScriptedHead(tmp_path, script) as head:
        result = hn("task", "output", "12", "--follow", state=tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == ("x\nx\nx\n", "", 0)
    assert sum(request["verb"] == "task_output" for request in head.asked) == 3


def test_following_asks_only_for_instances_that_are_not_printed(tmp_path: Path) -> None:
    states, asked = iter(["Running", "Running", "Finished"]), []
    over = {1, 3, 4}  # the second goes on for longer

    def tasks(request: dict[str, Any]) -> dict[str, Any]:
        if "expand" not in request:
            return {"tasks": [task(1, "Running", kind="sweep", instances=SWEEP)], "more": None}
        asked.append((request["after"], request["limit"]))
        found = [
            task(1, "Finished" if number in over else "Running", instance=number)
            for number in range(request["after"] + 1, 5)
        ]
        return {"tasks": found[: request["limit"]], "more": None}

    out = tmp_path / "out"
    out.write_text("x\n")
    script = {
        "tasks": tasks,
        "task_output": {
            "standard_output": str(out),
            "captured": True,
            "captured_path": str(out),
            "state": "running",
        },
        "read_output": lambda request: {"data": "" if request["offset"] else "eAo=", "size": 2},
        "job": lambda _: {"job": job(12, next(states))},
    }
    with ScriptedHead(tmp_path, script):
        result = hn("task", "output", "12", "--follow", state=tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == ("x\n" * 4, "", 0)
    assert asked[0] == (0, 500)
    assert asked[1:3] == [(1, 1), (4, 500)]  # the second alone, and what is new


def test_what_has_not_begun_is_reported_and_not_taken_for_no_output(tmp_path: Path) -> None:
    script = {"tasks": {"tasks": [task(1)], "more": None}, "job": {"job": job(12, "Queued")}}
    with ScriptedHead(tmp_path, script):
        result = hn("task", "output", "12", state=tmp_path)
    assert (result.stdout, result.returncode) == ("", 0)
    assert result.stderr == "hn: nothing of job 12 has begun; with --follow, this command waits for it\n"
