"""Elements of arrays with real processes: one waits for another, is held, and is requeued while it runs."""

from contextlib import closing
from pathlib import Path

import pytest

from headnode.apps.cli.batch_programs.dependencies import dependency
from headnode.apps.cli.batch_programs.job_commands import update_job
from headnode.apps.cli.batch_programs.rows import JobSource, rows_of
from headnode.apps.client.client import Client
from headnode.core.model.errors import WrongState
from heads import RealHead, shared_head_fixture

head = shared_head_fixture(processors=4)


def submit(head: RealHead, text: str) -> int:
    """Submit a batch script of Slurm."""
    return int(head.ask("submit_job", jobfile=text)["job"])


def test_an_element_of_aftercorr_runs_while_another_of_the_first_array_still_does(
    head: RealHead, tmp_path: Path
) -> None:
    first = submit(
        head,
        f"#!/bin/sh\n#SBATCH --array=1-2 --output=/dev/null\n"
        f"while [ ! -e {tmp_path}/go$SLURM_ARRAY_TASK_ID ]; do sleep 0.02; done\n",
    )
    second = submit(
        head,
        f"#!/bin/sh\n#SBATCH --array=1-2 --output=/dev/null --dependency=aftercorr:{first}\n"
        f"touch {tmp_path}/ran$SLURM_ARRAY_TASK_ID\n",
    )
    answer = head.ask("explain_job", job=second)["reasons"]
    assert f"{second}.1.1 waits for the instance of its number in job {first}" in str(answer)
    (tmp_path / "go2").touch()
    head.until((tmp_path / "ran2").exists)
    assert not (tmp_path / "ran1").exists()
    assert head.ask("job", job=first)["job"]["state"] == "Running"
    (tmp_path / "go1").touch()
    assert head.wait(second)["state"] == "Finished"
    assert (tmp_path / "ran1").exists()


def test_a_running_element_is_requeued_and_held_alone(head: RealHead, tmp_path: Path) -> None:
    """The other elements run on, and each start is one line of its file."""
    job = submit(
        head,
        f"#!/bin/sh\n#SBATCH --array=1-2 --output=/dev/null --requeue\n"
        f"echo started >> {tmp_path}/$SLURM_ARRAY_TASK_ID\n"
        f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done\n",
    )

    def starts(number: int) -> int:
        file = tmp_path / str(number)
        return len(file.read_text().splitlines()) if file.exists() else 0

    def state(number: int) -> str:
        return str(head.ask("task", job=job, task=1, instance=number)["task"]["state"])

    head.until(lambda: starts(1) == starts(2) == 1)
    head.ask("requeue_task", job=job, task=1, instance=1)
    head.until(lambda: starts(1) == 2)
    head.until(lambda: state(1) == "Running")
    with pytest.raises(WrongState, match="only queued instances can be held"):
        head.ask("hold_task", job=job, task=1, instance=1)
    head.ask("hold_task", job=job, task=1, instance=1, requeue=True)
    head.until(lambda: state(1) == "Queued")
    (tmp_path / "go").touch()
    head.until(lambda: state(2) == "Finished")
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Queued")
    (reason,) = head.ask("explain_job", job=job)["reasons"][:1]
    assert (reason["kind"], reason["subject"]) == ("hold", f"{job}.1.1")
    assert f"{job}.1.1 is held; release it: hn task release {job}.1.1" in reason["text"]
    (listed,) = [each for each in head.ask("jobs")["jobs"] if each["id"] == job]
    with closing(Client(str(head.state))) as client:
        held, finished = rows_of(JobSource(client), listed, expand=False)
        assert (held.numbers, held.state, held.reason) == ("1", "PENDING", "JobHeldUser")
        assert (finished.number, finished.state) == (2, "COMPLETED")
    assert (starts(1), starts(2)) == (2, 1)
    head.ask("release_task", job=job, task=1, instance=1)
    assert head.wait(job)["state"] == "Finished"
    assert (starts(1), starts(2)) == (3, 1)


def test_jobs_wait_for_one_element_for_minutes_or_for_any_job_and_programs_say_so(
    head: RealHead, tmp_path: Path
) -> None:
    """squeue shows what each waits for, and scontrol changes it."""
    array = submit(
        head,
        f"#!/bin/sh\n#SBATCH --array=1-2 --output=/dev/null\n"
        f"while [ ! -e {tmp_path}/go$SLURM_ARRAY_TASK_ID ]; do sleep 0.02; done\n",
    )

    def waits(dependency: str) -> int:
        return submit(head, f"#!/bin/sh\n#SBATCH --output=/dev/null --dependency={dependency}\ntrue\n")

    def shown(job: int) -> str:
        (listed,) = [each for each in head.ask("jobs")["jobs"] if each["id"] == job]
        with closing(Client(str(head.state))) as client:
            (row,) = rows_of(JobSource(client), listed, expand=False)
            return f"{row.reason} {dependency(row)}"

    head.until(lambda: head.ask("task", job=array, task=1, instance=2)["task"]["state"] == "Running")
    child = waits(f"afterok:{array}_2")
    either = waits(f"afternotok:{array}_1?afterok:{array}_2")
    later = waits(f"after:{array}+30")
    both = waits(f"afterok:{array}_1:{array}_2")
    assert shown(child) == f"Dependency afterok:{array}_2(unfulfilled)"
    assert shown(either) == f"Dependency afternotok:{array}_1(unfulfilled)?afterok:{array}_2(unfulfilled)"
    assert shown(later).startswith("BeginTime")
    assert "delay after the start of its parent" in str(head.ask("explain_job", job=later)["reasons"])
    answer = str(head.ask("explain_job", job=either)["reasons"])
    assert f"element 2 of job {array} to finish, which is running" in answer
    assert "any of its dependencies is enough" in answer
    with closing(Client(str(head.state))) as client:
        update_job(str(later), {"dependency": f"afterok:{child}"}, client)
    assert shown(later) == f"Dependency afterok:{child}(unfulfilled)"
    (tmp_path / "go2").touch()
    for job in (child, either, later):
        assert head.wait(job)["state"] == "Finished"
    assert shown(both) == f"Dependency afterok:{array}_1(unfulfilled)"
    (tmp_path / "go1").touch()
    assert head.wait(both)["state"] == "Finished"
