"""Suspended jobs on a real head: processes stand still, others get their processors, nothing is lost."""

import json
from pathlib import Path

from heads import RealHead, head_fixture, real_head

COUNTING = "while [ ! -e {0}/end ]; do printf . >> {0}/count; sleep 0.01; done"

head = head_fixture()


def count(folder: Path) -> int:
    return (folder / "count").stat().st_size if (folder / "count").exists() else 0


def counts(folder: Path, head: RealHead) -> None:
    before = count(folder)
    head.until(lambda: count(folder) > before)


def state(head: RealHead, job: int) -> str:
    return str(head.ask("job", job=job)["job"]["state"])


def counting_job(head: RealHead, folder: Path) -> int:
    """Submit a job that counts on both processors until there is a file called end."""
    task = {"command": COUNTING.format(folder), "processors": 2}
    described = json.dumps({"suspendable": True, "tasks": [task]})
    job = int(head.ask("submit_job", jobfile=described, dialect="native")["job"])
    counts(folder, head)
    return job


def suspend(head: RealHead, job: int) -> None:
    head.ask("suspend_job", job=job)
    head.until(lambda: state(head, job) == "Suspended")


def test_another_job_runs_meanwhile_and_the_suspended_one_goes_on_where_it_was(
    head: RealHead, tmp_path: Path
) -> None:
    job = counting_job(head, tmp_path)
    suspend(head, job)
    at = count(tmp_path)
    other = head.submit("sleep 0.2", terms={"numprocessors": "2"})
    assert head.wait(other)["state"] == "Finished"
    assert count(tmp_path) == at
    head.ask("resume_job", job=job)
    counts(tmp_path, head)
    (tmp_path / "end").touch()
    ended = head.wait(job)
    assert ended["state"] == "Finished"
    shown = head.ask("job", job=job)["job"]
    assert shown["suspended_for"] >= 0.2
    assert shown["starts"] == 1
    assert [entry["text"].split(" on ")[0].split(" by ")[0] for entry in shown["history"]][3:7] == [
        "Suspend requested", "Suspended", "Resume requested", "Resumed",
    ]  # fmt: skip


def test_it_stays_suspended_through_the_death_of_the_head_and_of_the_agent(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        job = counting_job(head, tmp_path)
        suspend(head, job)
        at = count(tmp_path)
        head.kill()
        head.start_again()
        assert state(head, job) == "Suspended"
        other = head.submit("sleep 0.1", terms={"numprocessors": "2"})
        assert head.wait(other)["state"] == "Finished"
        assert count(tmp_path) == at
        head.ask("resume_job", job=job)
        counts(tmp_path, head)
        (tmp_path / "end").touch()
        assert head.wait(job)["state"] == "Finished"


def test_a_head_that_dies_right_after_it_said_yes_suspends_and_resumes_all_the_same(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        job = counting_job(head, tmp_path)
        head.ask("suspend_job", job=job)
        head.kill()
        head.start_again()
        head.until(lambda: state(head, job) == "Suspended")
        head.ask("resume_job", job=job)
        head.kill()
        head.start_again()
        counts(tmp_path, head)
        assert state(head, job) == "Running"


def test_a_suspended_job_is_canceled_with_all_its_processes(head: RealHead, tmp_path: Path) -> None:
    job = counting_job(head, tmp_path)
    suspend(head, job)
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    at = count(tmp_path)
    assert head.wait(head.submit("sleep 0.1"))["state"] == "Finished"
    assert count(tmp_path) == at
