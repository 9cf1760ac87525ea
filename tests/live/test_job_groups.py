"""Jobs that wait for one another, with real processes; and a head that is killed while they are submitted."""

import random
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from depth import share_of
from headnode.core.model.errors import HeadnodeError
from heads import RealHead, real_head, shared_head_fixture

EXAMPLE = Path(__file__).parents[2] / "examples" / "group"
HOME = "%USERPROFILE%/headnode-examples/group"
JOBS_OF_A_GROUP = 60
ROUNDS = share_of(8)

head = shared_head_fixture(processors=4)


def submit(head: RealHead, text: str) -> list[int]:
    """Submit a job file; return the ids of its jobs in their order."""
    answer = head.ask("submit_job", jobfile=text)
    jobs: list[int] = answer.get("jobs", [answer["job"]])
    return jobs


def native(group: str, jobs: dict[str, dict[str, Any]]) -> str:
    """Return a file in the native form: jobs by name with a shell command and whom they wait for."""
    lines = [f'job_group = "{group}"']
    for name, fields in jobs.items():
        lines += ["[[jobs]]", f'name = "{name}"', *(f"{key} = {value!r}" for key, value in fields.items())]
    return "\n".join(lines)


def ends(head: RealHead, group: str) -> dict[str, dict[str, Any]]:
    """Wait until nothing of a group goes on; return its jobs by name."""
    ids = head.ask("group", group=group)["jobs"]
    for answer in head.client.follow("watch_jobs", job=ids):
        if answer["done"]:
            return {job["name"]: job for job in answer["jobs"]}
    raise AssertionError("the head hung up")


def states(jobs: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: "skipped" if job["skipped"] else job["state"] for name, job in jobs.items()}


def test_the_example_runs_its_branch_for_failures_and_computes_what_its_readme_says(
    head: RealHead, tmp_path: Path
) -> None:
    folder = tmp_path / "group"
    shutil.copytree(EXAMPLE, folder)
    text = (folder / "night.toml").read_text()
    assert text.count("[[jobs]]") == text.count(HOME) == 6
    submit(head, text.replace(HOME, str(folder)))
    assert states(ends(head, "night")) == {
        "measure": "Finished",
        "note": "Finished",
        "check": "Failed",
        "repair": "Finished",
        "alarm": "skipped",
        "sum": "Finished",
    }
    promised = re.findall(r"^ {4}(\S.*)$", (folder / "README.md").read_text(), re.MULTILINE)[-1]
    assert (folder / "result.txt").read_text().strip() == promised
    assert not (folder / "alarm").exists()


def test_a_diamond_with_a_failing_side_runs_what_waits_for_that_failure(
    head: RealHead, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def send(name: str, then: str = "true") -> str:
        return f"echo {name} >> {log}; {then}"

    diamond = {
        "top": {"command": send("top")},
        "left": {"command": send("left", "exit 7"), "parents": ["top"]},
        "right": {"command": send("right"), "parents": ["top"]},
        "bottom": {"command": send("bottom"), "parents": ["left", "right"]},
        "mend": {"command": send("mend"), "after_failure": ["left"]},
        "mourn": {"command": send("mourn"), "after_failure": ["right"]},
        "tell": {"command": send("tell"), "after_exit": ["mend", "mourn"]},
    }
    submit(head, native("diamond", diamond))
    ended = ends(head, "diamond")
    assert states(ended) == {
        "top": "Finished",
        "left": "Failed",
        "right": "Finished",
        "bottom": "skipped",
        "mend": "Finished",
        "mourn": "skipped",
        "tell": "Finished",
    }
    output = log.read_text().split()
    assert output[0] == "top"
    assert output.index("left") < output.index("mend") < output.index("tell")
    assert sorted(output) == ["left", "mend", "right", "tell", "top"]
    left, right, bottom = (ended[name]["id"] for name in ("left", "right", "bottom"))
    why = f"it waits for job {left} to finish (OnSuccess), and job {left} failed"
    assert ended["bottom"]["message"] == why
    assert ended["mourn"]["message"] == (
        f"it waits for job {right} to fail (OnFailure), and job {right} finished"
    )
    answer = head.ask("explain_job", job=bottom)
    assert [(one["job"], one["status"]) for one in answer["dependencies"]] == [
        (left, "never"),
        (right, "met"),
    ]


def test_a_job_that_waits_for_a_start_runs_beside_its_parent(head: RealHead, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    pair = {
        "waiting": {"command": f"while ! test -e {flag}; do sleep 0.02; done"},
        "beside": {"command": f"touch {flag}", "after_start": ["waiting"]},
    }
    submit(head, native("pair", pair))
    assert states(ends(head, "pair")) == {"waiting": "Finished", "beside": "Finished"}


def test_a_group_that_is_canceled_starts_nothing_on_its_way(head: RealHead, tmp_path: Path) -> None:
    group = {
        "long": {"command": "sleep 100"},
        "mend": {"command": f"touch {tmp_path}/mend", "after_failure": ["long"]},
        "held": {"command": "true", "holds": ["data"]},
        "instead": {"command": "true", "after_failure": ["held"]},
    }
    ids = submit(head, native("stopped", group))
    head.wait_for(ids[0], "Running")
    answer = head.ask("cancel_group", group="stopped", force=True)
    assert [one["job"] for one in answer["jobs"]] == ids
    assert answer["refused"] == []
    ended = ends(head, "stopped")
    assert set(states(ended).values()) == {"Canceled"}
    assert [name for name, job in ended.items() if job["started"]] == ["long"]
    assert not (tmp_path / "mend").exists()
    assert head.ask("group", group="stopped")["state"] == "Completed"


def test_a_parent_that_runs_again_lets_its_child_go_when_it_succeeds(head: RealHead, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    group = {"try": {"command": f"test -e {flag}"}, "then": {"command": "true", "parents": ["try"]}}
    submit(head, native("again", group))
    failed = ends(head, "again")
    assert states(failed) == {"try": "Failed", "then": "skipped"}
    flag.touch()
    head.ask("requeue_job", job=failed["try"]["id"])
    assert head.wait(failed["then"]["id"])["state"] == "Finished"


def test_a_job_of_a_group_is_written_in_sss_with_what_it_waits_for(head: RealHead) -> None:
    group = {
        "first": {"command": "true"},
        "second": {"command": "true", "parents": ["first"]},
        "third": {"command": "true", "after_exit": ["first"], "after_failure": ["second"]},
    }
    first, second, third = submit(head, native("written", group))
    text = head.ask("export_job", job=third, dialect="sss")["text"]
    found = re.findall(r'<Dependency condition="(\w+)"[^>]*>(\d+)</Dependency>', text)
    assert sorted(found) == [("OnExit", str(first)), ("OnFailure", str(second))]
    assert "written" in text


def test_the_files_of_one_head_that_is_killed_again_and_again_are_there_in_full_or_not_at_all(
    tmp_path: Path,
) -> None:
    dice = random.Random(5)
    acknowledged: list[str] = []
    with real_head(tmp_path) as head:
        for number in range(ROUNDS):
            known, name = len(acknowledged), f"round-{number}"
            worker = threading.Thread(target=keep_submitting, args=(head, name, acknowledged))
            worker.start()
            while number % 2 and len(acknowledged) == known and worker.is_alive():
                worker.join(0.01)  # each other round the head has taken a file before it is killed
            before = time.monotonic()
            while time.monotonic() - before < dice.uniform(0.05, 0.6):
                worker.join(0.01)
            head.process.kill()
            head.process.wait()
            worker.join()
            head.client.close()
            head.start_again()
        found = jobs_of_each_group(head)
        assert set(found.values()) == {JOBS_OF_A_GROUP}
        assert set(acknowledged) <= set(found)
        assert len(acknowledged) >= ROUNDS // 2, "too few submissions to learn anything"


def keep_submitting(head: RealHead, name: str, acknowledged: list[str]) -> None:
    """Submit group after group until the head is gone."""
    for number in range(10_000):
        group = f"{name}-{number}"
        chain = {"job-0": {"command": "true"}} | {
            f"job-{place}": {"command": "true", "after_exit": [f"job-{place - 1}"]}
            for place in range(1, JOBS_OF_A_GROUP)
        }
        try:
            submit(head, native(group, chain))
        except HeadnodeError:
            return
        acknowledged.append(group)


def jobs_of_each_group(head: RealHead) -> dict[str, int]:
    counts: dict[str, int] = {}
    before = None
    while True:
        page = head.ask("jobs", before=before, limit=1000)
        for job in page["jobs"]:
            counts[job["group"]] = counts.get(job["group"], 0) + 1
        before = page["more"]
        if before is None:
            return counts
