"""Jobs handed over to a real Slurm run there as their users, and each exactly once, whatever is killed."""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hand_off_chaos import check_chaos
from sites import add_resource, polite_fixture, slurm_fixture

from headnode.apps.client.client import Client
from headnode.core.model.errors import WrongState
from heads import RealHead, real_head
from testbed.other_users import being
from testbed.slurm_peer import SlurmPeer

NOBODY = 65534


slurm = slurm_fixture()
peer = polite_fixture("slurm")


@pytest.fixture
def head(tmp_path: Path, peer: SlurmPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        add(head, peer, tmp_path)
        yield head


def add(head: RealHead, peer: SlurmPeer, directory: Path, **fields: Any) -> None:
    paths = {"settings": str(peer.settings), "programs": str(peer.programs)}
    add_resource(head, "peer", "slurm", directory, **paths, **fields)


def submit(head: RealHead, command: str, terms: dict[str, str] | None = None, **task: Any) -> int:
    return head.submit(command, terms={"resource": "peer", **(terms or {})}, workdir="/", **task)


@pytest.mark.parametrize(
    ("command", "state", "code"), [("echo said", "Finished", 0), ("exit 7", "Failed", 7)]
)
def test_a_job_runs_there_and_ends_as_it_did(head: RealHead, command: str, state: str, code: int) -> None:
    job = submit(head, command)
    assert head.wait(job)["state"] == state
    assert head.task(job)["exit_code"] == code
    if not code:
        read = head.ask("read_output", job=job, task=1, stream="standard_output")
        assert read["data"] in (b"said\n", "c2FpZAo=")


def test_a_job_gets_the_size_and_the_limit_that_it_asks_for(head: RealHead, peer: SlurmPeer) -> None:
    job = submit(head, "sleep 60", {"runtime": "2"}, numprocessors="3", env="GREETING=hi")
    head.wait_for(job, "Running")
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    found = peer.run("scontrol", "-o", "show", "job", number)
    assert " NumCPUs=3 " in found
    assert " TimeLimit=00:02:00 " in found
    assert " Requeue=0 " in found
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"
    assert number not in peer.run("squeue", "-h", "-t", "pending,running", "-o", "%i").split()


def test_a_waiting_job_is_queued_and_says_why_it_waits(head: RealHead, peer: SlurmPeer) -> None:
    big = submit(head, "sleep 60", {"exclusive": "true"}, numprocessors="8")
    head.wait_for(big, "Running")
    job = submit(head, "true", numprocessors="8")
    head.until(lambda: "Resources" in head.ask("job", job=job)["job"]["pending_reason"])
    shown = head.ask("job", job=job)["job"]
    assert shown["state"] == "Queued"
    assert shown["started"] is None
    assert f"waits at peer as job {shown['resource_jobs'][0]}" in shown["pending_reason"]
    assert head.ask("explain_job", job=job)["reasons"][0]["kind"] == "resource"
    assert job in [one["id"] for one in head.ask("jobs", states=["Queued"])["jobs"]]
    for one in (big, job):
        head.ask("cancel_job", job=one)
    assert head.wait(job)["state"] == "Canceled"


def test_a_job_is_held_there_released_and_given_another_limit(head: RealHead, peer: SlurmPeer) -> None:
    big = submit(head, "sleep 60", {"exclusive": "true"}, numprocessors="8")
    head.wait_for(big, "Running")
    job = submit(head, "sleep 60", {"runtime": "5"})
    head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"])
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    head.ask("hold_job", job=job)
    head.until(lambda: "JobHeldUser" in peer.run("squeue", "-h", "-j", number, "-o", "%r"))
    head.ask("cancel_job", job=big)
    assert head.wait(big)["state"] == "Canceled"
    shown = head.ask("job", job=job)["job"]
    assert shown["state"] == "Queued"
    assert "it has the hold 'user'" in shown["pending_reason"]
    head.ask("modify_job", job=job, terms={"runtime": "7"})
    head.until(lambda: " TimeLimit=00:07:00 " in peer.run("scontrol", "-o", "show", "job", number))
    assert "PENDING" in peer.run("squeue", "-h", "-j", number, "-o", "%T")
    head.ask("release_job", job=job)
    head.wait_for(job, "Running")
    head.ask("modify_job", job=job, terms={"runtime": "3"})
    head.until(lambda: " TimeLimit=00:03:00 " in peer.run("scontrol", "-o", "show", "job", number))
    head.ask("cancel_job", job=job)
    assert head.wait(job)["state"] == "Canceled"


def test_what_slurm_refuses_fails_with_its_words(head: RealHead, peer: SlurmPeer, tmp_path: Path) -> None:
    add(head, peer, tmp_path, queue="nosuch")
    job = submit(head, "true")
    assert head.wait(job)["state"] == "Failed"
    assert "Slurm refused it" in head.task(job)["message"]
    assert "nvalid partition" in head.task(job)["message"]


def test_waiting_for_a_job_that_never_ran_there_says_only_why(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    add(head, peer, tmp_path, queue="nosuch")
    words = ["job", "submit", "--resource", "peer", "--workdir", "/", "--wait", "true"]
    command = [Path(sys.executable).with_name("hn"), *words]
    variables = {**os.environ, "HEADNODE_STATE": str(head.state), "HEADNODE_RESIDENT_CLIENT": "0"}
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "Slurm refused it" in done.stdout + done.stderr
    assert "cannot be read" not in done.stdout + done.stderr


def test_a_job_whose_directory_is_not_there_says_so_in_its_output(head: RealHead) -> None:
    job = head.submit("true", terms={"resource": "peer"}, workdir="/nowhere/at/all")
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["exit_code"] == 98
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert b"/nowhere/at/all" in base64.b64decode(read["data"])


def test_a_job_that_is_canceled_there_fails_here(head: RealHead, peer: SlurmPeer) -> None:
    job = submit(head, "sleep 60", rerunnable="true")
    head.wait_for(job, "Running")
    peer.run("scancel", head.ask("job", job=job)["job"]["resource_jobs"][0])
    assert head.wait(job)["state"] == "Failed"
    assert "CANCELLED" in head.task(job)["message"]


def test_a_job_runs_as_its_user_with_nothing_of_the_head(head: RealHead, tmp_path: Path) -> None:
    terms, task = {"resource": "peer"}, {"command": "id -u; env; ls /proc/self/fd", "workdir": "/"}
    with being(NOBODY), closing(Client(str(head.state))) as client:
        job = int(client.ask("submit_job", terms=terms, tasks=[task])["job"])
    assert head.wait(job)["state"] == "Finished"
    (output,) = (tmp_path / "attempts").glob("nobody/*/*/output")
    lines = output.read_text().splitlines()
    assert lines[0] == str(NOBODY)
    assert not [line for line in lines if "HEADNODE_STATE" in line or "PYTHON" in line or "VIRTUAL" in line]
    assert output.stat().st_uid == NOBODY
    assert output.parent.stat().st_mode & 0o777 == 0o700


def test_a_job_of_another_user_with_the_same_name_is_not_taken_for_it(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    """Eve sees the names of all jobs.  Her job fails at once; that of the victim goes on."""
    job = submit(head, f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done")
    head.wait_for(job, "Running")
    number = head.ask("job", job=job)["job"]["resource_jobs"][0]
    marker = peer.run("squeue", "-h", "-j", number, "-o", "%j").strip()
    with being(NOBODY), closing(Client(str(head.state))) as client:  # from now on her jobs are polled, too
        task = {"command": "sleep 60", "workdir": "/"}
        hers = int(client.ask("submit_job", terms={"resource": "peer"}, tasks=[task])["job"])
    subprocess.run(
        ["sbatch", "-D", "/", "-o", "/dev/null", "-J", marker, "--wrap", "exit 9"],
        env=peer.environment, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=True, timeout=30,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    head.until(lambda: "FAILED" in peer.run("squeue", "-h", "-t", "all", "-n", marker, "-o", "%T"))
    seen = head.ask("resource", name="peer")["resource"]["polled"]
    head.until(lambda: head.ask("resource", name="peer")["resource"]["polled"] > seen + 2)
    shown = head.ask("job", job=job)["job"]
    assert (shown["state"], shown["resource_jobs"]) == ("Running", [number])
    (tmp_path / "end").touch()
    head.ask("cancel_job", job=hers)
    assert head.wait(job)["state"] == "Finished"


SAID = {"all": {"program", "child", "step"}, "program": {"program"}, "steps": {"step"}}
CATCHES = """trap 'echo {who} >> {place}/got; {ends}' USR1; : > {place}/{who}
until [ -e {place}/end ]; do sleep 0.05; done; {then}
"""


def catching(peer: SlurmPeer, place: Path, *, ends: bool = False) -> str:
    """Return a command with a child and a step: each says that it got the signal, and how often.

    ends:  all of it ends some seconds after the signal, and not with a file of the test.
    """
    end = f"(sleep 2; : > {place}/end) &" if ends else ""
    place.mkdir(exist_ok=True)
    for who, then in (("program", "wait"), ("child", ""), ("step", "")):
        (place / f"{who}.sh").write_text(CATCHES.format(who=who, place=place, then=then, ends=end))
    srun = f"env SLURM_CONF={peer.settings} srun sh {place}/step.sh"
    return f"sh {place}/child.sh & {srun} & . {place}/program.sh"


def got(place: Path) -> list[str]:
    file = place / "got"
    return sorted(file.read_text().split()) if file.exists() else []


def test_a_job_there_gets_signals_that_its_owner_sends(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    ids = []
    for name in ("all", "program", "steps"):
        (tmp_path / name).mkdir()
        ids.append(submit(head, catching(peer, tmp_path / name)))
    for job, name, expected in zip(ids, SAID, SAID.values(), strict=True):
        place = tmp_path / name
        head.wait_for(job, "Running")
        head.until(lambda place=place: {each.name for each in place.iterdir()} >= SAID["all"])
        answer = head.ask("signal_job", job=job, signal="USR1", target=name)
        assert answer["nodes"] == ["@peer"]
        head.until(lambda place=place, expected=expected: got(place) == sorted(expected))
        (place / "end").touch()
        assert head.wait(job)["state"] == "Finished"
        assert got(place) == sorted(expected), "it came twice"


def test_a_job_there_gets_its_signal_before_the_limit(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    """Slurm looks each 30 s: a signal 20 s before comes 10 to 40 s after the start, and ends the job."""
    letters = {"all": "", "program": "B:", "steps": "S:"}
    jobs = {
        name: submit(
            head,
            catching(peer, tmp_path / name, ends=True),
            {"runtime": "60s", "signal": f"{letter}USR1@20"},
        )
        for name, letter in letters.items()
    }
    for name, job in jobs.items():
        assert head.wait(job)["state"] == "Finished"
        assert got(tmp_path / name) == sorted(SAID[name])


def test_a_waiting_job_there_gets_no_signal(head: RealHead) -> None:
    big = submit(head, "sleep 60", {"exclusive": "true"}, numprocessors="8")
    head.wait_for(big, "Running")
    job = submit(head, "true", numprocessors="8")
    head.until(lambda: head.ask("job", job=job)["job"]["resource_jobs"])
    with pytest.raises(WrongState, match="does not run"):
        head.ask("signal_job", job=job, signal="USR1")
    for one in (job, big):
        head.ask("cancel_job", job=one)


def test_one_poll_serves_all_jobs(head: RealHead, peer: SlurmPeer, tmp_path: Path) -> None:
    counter = tmp_path / "polls"
    counter.touch()
    squeue = peer.programs / "squeue"
    squeue.write_text(squeue.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho >> {counter}\n"))
    job = submit(head, "sleep 3", parametric="1-20")
    assert head.wait(job)["state"] == "Finished"
    shown = head.ask("job", job=job)["job"]
    assert len(counter.read_text().splitlines()) <= shown["ended"] - shown["submitted"] + 3


def test_what_is_handed_over_runs_once_whatever_is_killed(
    head: RealHead, peer: SlurmPeer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """More of it, as `docs/hand-off.md` says:  --chaos-kills 10000 --chaos-record FILE --timeout 0 -s."""
    check_chaos(request, head, peer, tmp_path, submit, faults=300)
