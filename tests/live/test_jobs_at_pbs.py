"""Jobs handed over to a program that speaks as OpenPBS or Torque, with their defects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hand_off_chaos import check_chaos
from sites import add_resource

from headnode.core.model.errors import BadRequest, WrongState
from heads import RealHead, real_head
from testbed.pbs_peer import PbsPeer, pbs_peer

SITES: dict[str, dict[str, Any]] = {
    "openpbs": {"speaks": "openpbs", "defects": ["", "escapes", "quotes"]},
    "openpbs without history": {"speaks": "openpbs", "history": False},
    "torque": {"speaks": "torque", "defects": ["escapes"]},
    "torque with short names": {"speaks": "torque", "longest_name": 15},
}


@pytest.fixture(params=SITES)
def peer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PbsPeer]:
    with pbs_peer(tmp_path / "site", **SITES[request.param]) as peer:
        yield peer


@pytest.fixture
def head(tmp_path: Path, peer: PbsPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        add(head, peer, tmp_path)
        yield head


def add(head: RealHead, peer: PbsPeer, directory: Path, **fields: Any) -> None:
    add_resource(head, "old", "pbs", directory, programs=str(peer.programs), **fields)


def submit(head: RealHead, command: str, terms: dict[str, str] | None = None, **task: Any) -> int:
    return head.submit(command, terms={"resource": "old", **(terms or {})}, workdir="/", **task)


def number_of(head: RealHead, job: int) -> str:
    head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"])
    return str(head.ask("job", job=job)["job"]["resource_jobs"][0])


def test_jobs_run_there_and_end_as_they_did(head: RealHead, peer: PbsPeer) -> None:
    codes = {submit(head, f"echo said; exit {code}"): code for code in (0, 7)}
    for job, code in codes.items():
        assert head.wait(job)["state"] == ("Failed" if code else "Finished")
        assert head.task(job)["exit_code"] == code
    read = head.ask("read_output", job=min(codes), task=1, stream="standard_output")
    assert read["data"] in (b"said\n", "c2FpZAo=")
    for file in ("started", "exit"):
        assert len(list(peer.directory.parent.glob(f"attempts/*/*/*/{file}"))) == 2


def test_a_job_is_held_there_released_limited_and_canceled(head: RealHead, peer: PbsPeer) -> None:
    big = [submit(head, "sleep 300") for _ in range(4)]
    for job in big:
        head.wait_for(job, "Running")
    job = submit(head, "sleep 300", {"runtime": "5"}, numprocessors="2")
    number = number_of(head, job)
    assert peer.job(number)["limits"] == {"nodes": "1:ppn=2", "walltime": "0:05:00"}
    head.until(lambda: "Insufficient" in head.ask("job", job=job)["job"]["pending_reason"])
    head.ask("hold_job", job=job)
    peer.until(lambda: peer.job(number)["state"] == "H")
    head.ask("cancel_job", job=big[0])
    assert head.wait(big[0])["state"] == "Canceled"
    head.ask("modify_job", job=job, terms={"runtime": "7"})
    peer.until(lambda: peer.job(number)["limits"]["walltime"] == "0:07:00")
    assert peer.job(number)["state"] == "H"
    head.ask("release_job", job=job)
    head.wait_for(job, "Running")
    for one in (*big[1:], job):
        head.ask("cancel_job", job=one)
        assert head.wait(one)["state"] == "Canceled"
    assert {each["state"] for each in peer.jobs()} <= {"F", "C"}


def test_all_processes_of_a_job_get_signals_that_its_owner_sends(head: RealHead, tmp_path: Path) -> None:
    catches = "trap 'echo {0} >> {1}/got' USR1; : > {1}/{0}; until [ -e {1}/end ]; do sleep 0.05; done"
    (tmp_path / "child.sh").write_text(catches.format("child", tmp_path))
    job = submit(head, f"sh {tmp_path}/child.sh & {catches.format('program', tmp_path)}; wait")
    head.until(lambda: all((tmp_path / name).exists() for name in ("child", "program")))
    head.wait_for(job, "Running")
    assert head.ask("signal_job", job=job, signal="USR1")["nodes"] == ["@old"]
    got = tmp_path / "got"
    head.until(lambda: got.exists() and sorted(got.read_text().split()) == ["child", "program"])
    with pytest.raises(BadRequest, match="SIGUSR1 cannot be sent to its steps alone"):
        head.ask("signal_job", job=job, signal="USR1", target="steps")
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"
    with pytest.raises(WrongState, match="does not run"):
        head.ask("signal_job", job=job, signal="USR1")
    with pytest.raises(BadRequest, match="PBS has no option"):
        submit(head, "true", {"runtime": "5", "signal": "USR1@60"})


def test_a_task_and_an_instance_alone_get_a_signal_there(head: RealHead, tmp_path: Path) -> None:
    catches = f"trap 'exit 7' USR1; : > {tmp_path}/ready*; until [ -e {tmp_path}/end ]; do sleep 0.05; done"
    job = submit(head, catches, parametric="1-2")
    head.until(lambda: {each.name for each in tmp_path.glob("ready*")} == {"ready1", "ready2"})
    head.until(lambda: len(head.ask("tasks", job=job, expand=1, states=["Running"])["tasks"]) == 2)
    assert head.ask("signal_job", job=job, signal="USR1", task=1, instance=2)["processes"] == 1
    head.until(lambda: head.task(job, 1, 2)["state"] == "Failed")
    assert head.task(job, 1, 2)["exit_code"] == 7
    assert head.task(job, 1, 1)["state"] == "Running"
    with pytest.raises(BadRequest, match="has no task 3"):
        head.ask("signal_job", job=job, signal="USR1", task=3)
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job, 1, 1)["state"] == "Finished"


def test_what_pbs_refuses_fails_with_its_words(head: RealHead, peer: PbsPeer, tmp_path: Path) -> None:
    add(head, peer, tmp_path, queue="nosuch")
    job = submit(head, "true")
    assert head.wait(job)["state"] == "Failed"
    assert "PBS refused it: qsub: Unknown queue" in head.task(job)["message"]


@pytest.mark.parametrize("peer", ["openpbs", "torque"], indirect=True)
def test_a_server_that_is_away_changes_nothing(head: RealHead, peer: PbsPeer, tmp_path: Path) -> None:
    job = submit(head, f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done; exit 3")
    head.wait_for(job, "Running")
    peer.go_away(away=True)
    head.until(lambda: head.ask("resource", name="old")["resource"]["problem"])
    assert "cannot connect" in head.ask("resource", name="old")["resource"]["problem"]
    late = submit(head, "exit 4")
    (tmp_path / "end").touch()
    peer.until(lambda: all(each["state"] in "FC" for each in peer.jobs()))
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    peer.go_away(away=False)
    for one, code in ((job, 3), (late, 4)):
        assert head.wait(one)["state"] == "Failed"
        assert head.task(one)["exit_code"] == code
    assert len(peer.names()) == len(set(peer.names())) == 2


def test_a_job_that_is_canceled_there_fails_here(head: RealHead, peer: PbsPeer) -> None:
    job = submit(head, "sleep 300", rerunnable="true")
    head.wait_for(job, "Running")
    peer.run("qdel", number_of(head, job))
    assert head.wait(job)["state"] == "Failed"


@pytest.mark.parametrize("peer", ["openpbs", "torque with short names"], indirect=True)
def test_what_is_handed_over_runs_once_whatever_is_killed(
    head: RealHead, peer: PbsPeer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """More of it, as `docs/hand-off.md` says:  --chaos-kills 10000 --chaos-record FILE --timeout 0 -s."""
    add(head, peer, tmp_path, settle=12.0)  # a submission that comes a second late must be over by then
    check_chaos(request, head, peer, tmp_path, submit, faults=150, resource="old")


@pytest.mark.parametrize("peer", ["openpbs"], indirect=True)
def test_how_long_jobs_waited_there_is_known_after_a_restart(head: RealHead, peer: PbsPeer) -> None:
    assert head.wait(submit(head, "true"))["state"] == "Finished"
    big = [submit(head, "sleep 300") for _ in range(4)]
    for job in big:
        head.wait_for(job, "Running")
    behind = submit(head, "true")
    number_of(head, behind)
    head.kill()
    head.start_again()
    job = submit(head, "true", {"resource": "here,old"})
    head.until(lambda: "as long as our tasks waited there" in history_of(head, job))
    for one in (*big, behind):
        head.ask("cancel_job", job=one)
    assert head.wait(job)["state"] == "Finished"


def history_of(head: RealHead, job: int) -> str:
    return " ".join(entry["text"] for entry in head.ask("job_history", job=job)["history"])
