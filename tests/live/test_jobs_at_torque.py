"""Jobs handed over through the Torque commands of a real Slurm: the nearest to PBS that can be here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sites import add_resource, slurm_fixture

from heads import RealHead, real_head
from testbed.debian_packages import CannotInstall
from testbed.slurm_peer import SlurmPeer
from testbed.torque_commands import torque_commands

slurm = slurm_fixture()


@pytest.fixture(scope="module")
def programs(slurm: SlurmPeer) -> Path:
    try:
        return torque_commands(slurm)
    except CannotInstall as error:
        pytest.skip(f"there are no Torque commands of Slurm: {error}")


@pytest.fixture
def head(tmp_path: Path, programs: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        add(head, programs, tmp_path)
        yield head


def add(head: RealHead, programs: Path, directory: Path, **fields: str) -> None:
    add_resource(head, "old", "torque", directory, programs=str(programs), lost_after=60.0, **fields)


def submit(head: RealHead, command: str, **terms: str) -> int:
    return head.submit(command, terms={"resource": "old", **terms}, workdir="/", numprocessors="2")


def test_jobs_run_there_and_end_as_they_did(head: RealHead) -> None:
    codes = {submit(head, f"echo said; exit {code}"): code for code in (0, 7)}
    for job, code in codes.items():
        assert head.wait(job)["state"] == ("Failed" if code else "Finished")
        assert head.task(job)["exit_code"] == code
    read = head.ask("read_output", job=min(codes), task=1, stream="standard_output")
    assert read["data"] in (b"said\n", "c2FpZAo=")


def test_a_job_has_its_size_is_held_released_and_canceled(head: RealHead, slurm: SlurmPeer) -> None:
    big = submit(head, "sleep 300")
    head.wait_for(big, "Running")
    rest = [submit(head, "sleep 300") for _ in range(3)]
    for job in rest:
        head.wait_for(job, "Running")
    job = submit(head, "sleep 300", runtime="2")
    head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"])
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    found = slurm.run("scontrol", "-o", "show", "job", number)
    assert " NumCPUs=2 " in found
    assert " TimeLimit=00:02:00 " in found
    assert " Requeue=0 " in found
    head.ask("hold_job", job=job)
    head.until(lambda: "JobHeld" in slurm.run("squeue", "-h", "-j", number, "-o", "%r"))
    head.ask("cancel_job", job=big)
    assert head.wait(big)["state"] == "Canceled"
    assert "PENDING" in slurm.run("squeue", "-h", "-j", number, "-o", "%T")
    head.ask("release_job", job=job)
    head.wait_for(job, "Running")
    for one in (*rest, job):
        head.ask("cancel_job", job=one)
        assert head.wait(one)["state"] == "Canceled"
    assert number not in slurm.run("squeue", "-h", "-t", "pending,running", "-o", "%i").split()


def test_what_is_refused_fails_with_its_words(head: RealHead, programs: Path, tmp_path: Path) -> None:
    add(head, programs, tmp_path, queue="nosuch")
    job = submit(head, "true")
    assert head.wait(job)["state"] == "Failed"
    assert "nvalid partition" in head.task(job)["message"]


def test_what_was_handed_over_is_found_by_its_name_after_a_kill(head: RealHead, slurm: SlurmPeer) -> None:
    job = submit(head, "sleep 6; exit 5")
    head.wait_for(job, "Running")
    head.kill()
    head.start_again()
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["exit_code"] == 5
    mark = head.ask("resource", name="old")["resource"]["mark"]
    assert len([name for name in slurm.names() if mark in name]) == 1
