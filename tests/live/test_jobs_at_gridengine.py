"""Jobs handed over to a real Grid Engine."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hand_off_chaos import check_chaos
from sites import add_resource, grid_engine_fixture, polite_fixture

from headnode.core.model.errors import BadRequest
from heads import TIMEOUT, RealHead, real_head
from testbed.gridengine_peer import GridEnginePeer

grid_engine = grid_engine_fixture()
peer = polite_fixture("grid_engine")


@pytest.fixture
def head(tmp_path: Path, peer: GridEnginePeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen="127.0.0.1:0") as head:
        paths = {"settings": str(peer.root), "programs": str(peer.programs)}
        add_resource(head, "lab", "gridengine", tmp_path, parallel="smp", lost_after=60.0, **paths)
        yield head


def submit(head: RealHead, command: str, terms: dict[str, str] | None = None, **task: Any) -> int:
    return head.submit(command, terms={"resource": "lab", **(terms or {})}, workdir="/", **task)


@pytest.mark.parametrize(
    ("command", "state", "code"), [("echo said", "Finished", 0), ("exit 7", "Failed", 7)]
)
def test_a_job_runs_there_and_ends_as_it_did(head: RealHead, command: str, state: str, code: int) -> None:
    job = submit(head, command)
    assert head.wait(job)["state"] == state
    assert head.task(job)["exit_code"] == code


def test_a_job_gets_its_signal_before_the_limit(head: RealHead, tmp_path: Path) -> None:
    catches = "trap 'echo {0} >> {1}/got' USR1; until [ -e {1}/end ]; do sleep 0.05; done"
    (tmp_path / "child.sh").write_text(catches.format("child", tmp_path))
    job = submit(
        head,
        f"sh {tmp_path}/child.sh & {catches.format('program', tmp_path)}; wait",
        {"runtime": "2m", "signal": "USR1@117"},
    )
    got = tmp_path / "got"
    head.until(lambda: got.exists() and len(got.read_text().split()) == 2)
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"
    assert sorted(got.read_text().split()) == ["child", "program"]


def test_signals_that_grid_engine_cannot_send_are_refused(head: RealHead, tmp_path: Path) -> None:
    for text in ("USR2@60", "B:USR1@60", "S:USR1@60"):
        with pytest.raises(BadRequest, match="another signal before the limit than USR1"):
            submit(head, "true", {"runtime": "10m", "signal": text})
    job = submit(head, f"until [ -e {tmp_path}/end ]; do sleep 0.05; done")
    head.wait_for(job, "Running")
    with pytest.raises(BadRequest, match="SIGUSR1 cannot be sent to all processes"):
        head.ask("signal_job", job=job, signal="USR1")
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"


def test_what_a_job_used_is_that_of_the_accounting(head: RealHead, peer: GridEnginePeer) -> None:
    job = submit(head, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; exit 3")
    assert head.wait(job)["state"] == "Failed"
    task = head.task(job)
    number = head.ask("job", job=job)["job"]["resource_jobs"]
    assert task["exit_code"] == 3
    assert task["user_time"] > 0.02
    assert task["peak_memory"] > 500, (number, task)


def test_a_job_gets_its_slots_and_obeys_no_directive_in_its_words(head: RealHead) -> None:
    job = submit(head, "echo $NSLOTS; echo '\n#$ -t 1-5\n'", numprocessors="3")
    assert head.wait(job)["state"] == "Finished"
    (output,) = head.state.parent.glob("attempts/*/*/*/output")
    assert output.read_text().splitlines()[0] == "3"


def test_a_job_is_held_there_released_and_given_another_limit(head: RealHead, peer: GridEnginePeer) -> None:
    big = submit(head, "sleep 300", numprocessors="8")
    head.wait_for(big, "Running")
    job = head.submit("sleep 300", terms={"resource": "lab", "runtime": "5"}, workdir="/")
    head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"])
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    head.ask("hold_job", job=job)
    peer.until(lambda: "hqw" in peer.run("qstat"))
    head.ask("cancel_job", job=big)
    assert head.wait(big)["state"] == "Canceled"
    head.ask("modify_job", job=job, terms={"runtime": "7"})
    peer.until(lambda: "h_rt=420" in peer.run("qstat", "-j", number))
    assert head.ask("job", job=job)["job"]["state"] == "Queued"
    head.ask("release_job", job=job)
    head.wait_for(job, "Running")
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"


def test_a_job_that_is_canceled_here_ends_there(head: RealHead, peer: GridEnginePeer) -> None:
    job = submit(head, "sleep 300")
    head.wait_for(job, "Running")
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    assert peer.run("qstat", "-j", number)
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    peer.until(lambda: not peer.run("qstat", "-j", number, check=False))


def test_a_job_that_is_killed_there_fails_with_its_signal(head: RealHead, peer: GridEnginePeer) -> None:
    job = submit(head, "sleep 300")
    head.wait_for(job, "Running")
    peer.run("qdel", head.ask("job", job=job)["job"]["resource_jobs"][0])
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["message"]


def test_what_grid_engine_refuses_fails_with_its_words(head: RealHead) -> None:
    head.ask("set_resource", name="lab", queue="nosuch.q")
    job = submit(head, "true")
    assert head.wait(job)["state"] == "Failed"
    assert "nosuch.q" in head.task(job)["message"]


def test_an_allocation_there_is_a_node_here_and_leaves_when_it_is_idle(
    head: RealHead, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    head.ask("set_elastic_pool", name="burst", resource="lab", processors=2, idle_time=1.0)
    job = head.submit(
        f"echo $CCP_NODES $NSLOTS > {out}", terms={"runtime": "1"}, workdir="/", numprocessors="2"
    )
    assert head.wait(job)["state"] == "Finished"
    _, node, *words = out.read_text().split()
    assert (node[:6], words[1:]) == ("burst-", [])
    until = time.monotonic() + 4 * TIMEOUT  # a job that was deleted is over when the accounting has it
    while head.ask("elastic_pool", name="burst")["pool"]["allocations"]:
        assert time.monotonic() < until, head.log()
        time.sleep(0.2)
    assert head.ask("nodes")["nodes"] == []
    assert head.ask("elastic_pool", name="burst")["pool"]["failures"] == 0
    head.ask("remove_elastic_pool", name="burst")


def test_what_is_handed_over_runs_once_whatever_is_killed(
    head: RealHead, peer: GridEnginePeer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """More of it, as `docs/hand-off.md` says:  --chaos-kills 10000 --chaos-record FILE --timeout 0 -s."""
    check_chaos(request, head, peer, tmp_path, submit, faults=200, resource="lab")
