"""Elastic nodes on a real Slurm: agents inside allocations, which come as jobs want them, and leave."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hand_off_chaos import hand_off_processes
from sites import add_resource, polite_fixture, slurm_fixture

from depth import share_of
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, processes, real_head
from testbed.other_users import being
from testbed.real_peers import free_ports
from testbed.slurm_peer import SlurmPeer

NOBODY = 65534
SOON = {"idle_time": 1.5, "retry": 1.0, "margin": 20.0, "allocation_time": 120.0, "processors": 2}


slurm = slurm_fixture(processors=32)
peer = polite_fixture("slurm")


@pytest.fixture
def head(tmp_path: Path, peer: SlurmPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=f"127.0.0.1:{free_ports(1)[0]}") as head:
        paths = {"settings": str(peer.settings), "programs": str(peer.programs)}
        add_resource(head, "peer", "slurm", tmp_path, **paths)
        head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "3"})
        yield head
        with suppress(HeadnodeError):
            head.ask("remove_elastic_pool", name="burst")
        head.until(lambda: not head.ask("elastic_pools")["pools"])


def add(head: RealHead, **fields: Any) -> None:
    head.ask("set_elastic_pool", name="burst", resource="peer", **{**SOON, **fields})


def pool(head: RealHead) -> dict[str, Any]:
    found: dict[str, Any] = head.ask("elastic_pool", name="burst")["pool"]
    return found


def in_slurm(peer: SlurmPeer) -> list[str]:
    return peer.run("squeue", "-h", "-t", "pending,running", "-o", "%j").split()


def submit(head: RealHead, command: str, runtime: str = "1", **task: str) -> int:
    return head.submit(command, terms={"runtime": runtime}, workdir="/", **task)


def ended(head: RealHead, job: int) -> dict[str, Any]:
    head.until(lambda: head.ask("job", job=job)["job"]["ended"] is not None)
    found: dict[str, Any] = head.ask("job", job=job)["job"]
    return found


def patiently(head: RealHead, happened: Callable[[], object]) -> None:
    until = time.monotonic() + 4 * TIMEOUT
    while not happened():
        assert time.monotonic() < until, head.log()
        time.sleep(0.2)


def test_a_job_that_fits_nowhere_gets_a_node_which_leaves_when_it_is_idle(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    add(head)
    out = tmp_path / "out"
    job = submit(head, f"(echo $CCP_NODES; env) > {out}")
    assert ended(head, job)["state"] == "Finished"
    lines = out.read_text().splitlines()
    assert lines[0].split()[1].startswith("burst-")
    assert not [line for line in lines if "SLURM" in line]
    head.until(lambda: not pool(head)["allocations"] and not in_slurm(peer))
    assert head.ask("nodes")["nodes"] == []
    assert pool(head)["failures"] == 0
    assert 0 < pool(head)["node_hours"] < 0.1


def test_two_pools_make_one_node_for_one_job(head: RealHead, peer: SlurmPeer) -> None:
    add(head)
    head.ask("set_elastic_pool", name="other", resource="peer", **SOON)
    job = submit(head, "sleep 3")  # both pools look at it again while it waits, and while it runs
    assert ended(head, job)["state"] == "Finished"
    assert submit(head, "true") == job + 2  # the allocation is the only job between the two
    head.ask("remove_elastic_pool", name="other")
    head.until(lambda: len(head.ask("elastic_pools")["pools"]) == 1)


def test_the_token_of_an_allocation_is_for_its_owner_only(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    add(head, idle_time=60.0)
    blocked = tmp_path / "blocked"
    job = submit(head, f"touch {blocked}; sleep 30")
    head.until(blocked.exists)
    (secret,) = (tmp_path / "attempts").glob("root/*/*/secret")
    word = secret.read_text().partition("/")[2].partition(".")[0]
    assert len(word) == 64
    with being(NOBODY), pytest.raises(PermissionError):
        secret.read_text()
    number = head.ask("job", job=pool(head)["allocations"][0]["job"])["job"]["resource_jobs"][0]
    found = peer.run("scontrol", "-d", "show", "job", number) + peer.run("squeue", "-O", "ALL")
    assert word not in found + peer.run("scontrol", "write", "batch_script", number, "-")
    assert not list(processes(word.encode()))  # neither in arguments nor in the environment
    kept = [path for path in head.state.rglob("*") if path.is_file() and "authority" not in path.parts]
    assert not [path for path in kept if word.encode() in path.read_bytes()]
    assert word not in head.log()
    head.ask("cancel_job", job=job)
    ended(head, job)


def test_a_pool_that_slurm_refuses_pauses_and_says_why(head: RealHead, peer: SlurmPeer) -> None:
    head.ask("set_resource", name="peer", queue="nosuch")
    add(head)
    job = submit(head, "true")
    head.until(lambda: pool(head)["failures"])
    assert "nvalid partition" in pool(head)["trouble"]

    def refused() -> bool:  # at the next attempt the pool says for a moment that it makes nodes
        texts = [each["text"] for each in head.ask("explain_job", job=job)["reasons"]]
        return any("burst" in text and "nvalid partition" in text for text in texts)

    head.until(refused)
    head.ask("set_resource", name="peer", queue="")
    head.ask("resume_elastic_pool", name="burst")
    assert ended(head, job)["state"] == "Finished"


def test_an_allocation_for_which_its_owner_has_no_room_is_made_when_there_is(
    head: RealHead, peer: SlurmPeer
) -> None:
    add(head)
    head.ask("set_parameters", values={"UserLimits": "*:submitted=1"})
    job = submit(head, "true")
    patiently(head, lambda: "may have 1 submitted job at once" in pool(head)["says"])
    assert not in_slurm(peer)
    head.ask("set_parameters", values={"UserLimits": "*:submitted=1;root:submitted=unlimited"})
    assert ended(head, job)["state"] == "Finished"


def test_a_job_that_is_too_long_makes_no_allocation_and_is_told_so(head: RealHead, peer: SlurmPeer) -> None:
    add(head)
    job = submit(head, "true", runtime="3")
    head.until(lambda: pool(head)["says"])
    reasons = [each["text"] for each in head.ask("explain_job", job=job)["reasons"]]
    assert any("it may run" in text for text in reasons), reasons
    assert not pool(head)["allocations"]
    assert not in_slurm(peer)
    head.ask("cancel_job", job=job)


def test_what_is_left_when_an_allocation_ends_runs_again_elsewhere(head: RealHead, peer: SlurmPeer) -> None:
    """HyperQueue 978: workers that die take their tasks along."""
    add(head)
    job = submit(head, "sleep 4", rerunnable="true")
    head.wait_for(job, "Running")
    first = pool(head)["allocations"][0]
    peer.run("scancel", head.ask("job", job=first["job"])["job"]["resource_jobs"][0])
    assert ended(head, job)["state"] == "Finished"
    head.until(lambda: not pool(head)["allocations"] and not in_slurm(peer))


def test_a_task_that_is_signaled_a_moment_before_its_agent_runs_again_elsewhere(
    head: RealHead, peer: SlurmPeer, tmp_path: Path
) -> None:
    add(head)
    mark = f"MARK={tmp_path}/task"
    job = submit(head, f"{mark} exec sleep 4", rerunnable="true")
    head.wait_for(job, "Running")
    first = pool(head)["allocations"][0]
    there = head.ask("job", job=first["job"])["job"]["resource_jobs"][0]
    head.until(lambda: list(processes(b"sleep", mark.encode())))
    for process in processes(b"sleep", mark.encode()):
        os.kill(process, signal.SIGTERM)
    peer.run("scancel", there)
    found = ended(head, job)
    assert found["state"] == "Finished", found
    head.until(lambda: not pool(head)["allocations"] and not in_slurm(peer))


def test_no_process_of_a_canceled_allocation_is_left(head: RealHead, peer: SlurmPeer, tmp_path: Path) -> None:
    add(head)
    mark = f"MARK={tmp_path}/task"
    job = submit(head, f"{mark} exec sleep 987")
    head.wait_for(job, "Running")
    head.until(lambda: list(processes(b"sleep", mark.encode())))
    head.ask("remove_elastic_pool", name="burst")
    head.until(lambda: not head.ask("elastic_pools")["pools"])
    assert not in_slurm(peer)
    assert head.ask("nodes")["nodes"] == []
    head.until(lambda: not list(processes(mark.encode())))
    head.until(lambda: not list(processes(b"--allocation", b"burst")))
    with suppress(HeadnodeError):
        head.ask("cancel_job", job=job)


def ids_and_names(peer: SlurmPeer) -> set[tuple[str, ...]]:
    lines = peer.run("squeue", "-h", "-a", "-t", "all", "-o", "%i %j").splitlines()
    return {tuple(line.split()) for line in lines}


def test_whatever_is_killed_no_allocation_is_lost_doubled_or_left_behind(
    head: RealHead, peer: SlurmPeer, request: pytest.FixtureRequest
) -> None:
    """More: make test TESTS='tests/live/test_elastic_nodes_live.py --chaos-kills 1000 --timeout 0 -s'."""
    wanted = request.config.getoption("--chaos-kills") or share_of(20)
    chance, kills, jobs, seen = random.Random(7), 0, list[int](), set[tuple[str, ...]]()
    add(head, most_nodes=3, most_queued=3, idle_time=1.0)
    peer.be_rude(0.3)
    while kills < wanted:
        with suppress(HeadnodeError):
            jobs.append(submit(head, f"sleep {chance.choice([0, 1, 2])}", rerunnable="true"))
        time.sleep(chance.choice([0.1, 0.5, 1.0, 4.0]))
        if chance.random() < 0.5:
            head.kill()
            head.start_again()
        else:
            for process in hand_off_processes(head):
                os.kill(process, signal.SIGKILL)
        kills += 1
        head.until(lambda: len(pool(head)["allocations"]) <= 3)
        seen |= ids_and_names(peer)
    peer.be_rude(0.0)
    patiently(head, lambda: all(head.ask("job", job=job)["job"]["ended"] for job in jobs))
    states = [head.ask("job", job=job)["job"]["state"] for job in jobs]
    patiently(head, lambda: not pool(head)["allocations"])
    names = [name for _, name in seen | ids_and_names(peer)]
    print(f"{kills} kills, {len(jobs)} jobs, {len(names)} allocations, {peer.faults()} lost or late answers")
    assert states == ["Finished"] * len(jobs)
    assert len(names) == len(set(names))
    assert not in_slurm(peer)
    assert head.ask("nodes")["nodes"] == []


def test_a_pool_is_removed_although_the_head_is_killed_meanwhile(head: RealHead, peer: SlurmPeer) -> None:
    add(head, most_nodes=3, most_queued=3, idle_time=1.0)
    jobs = [submit(head, "sleep 60", numprocessors="2") for _ in range(3)]
    head.until(lambda: len(in_slurm(peer)) == 3)
    head.ask("remove_elastic_pool", name="burst")
    head.kill()
    head.start_again()
    patiently(head, lambda: not head.ask("elastic_pools")["pools"])
    assert not in_slurm(peer)
    assert head.ask("nodes")["nodes"] == []
    for job in jobs:
        with suppress(HeadnodeError):
            head.ask("cancel_job", job=job)


def test_many_agents_come_for_a_sweep_and_leave_after_it(
    head: RealHead, peer: SlurmPeer, request: pytest.FixtureRequest
) -> None:
    """All 64: make test TESTS='tests/live/test_elastic_nodes_live.py -k many_agents --depth 100 -s'."""
    wanted, began = share_of(32) * 2, time.monotonic()
    head.ask("set_parameters", values={"HeartbeatInterval": "5"})  # 64 agents share what runs these tests
    add(head, processors=1, most_nodes=wanted, most_queued=wanted, allocation_time=600.0, idle_time=5.0)
    terms = {"runtime": "5", "numprocessors": f"1-{wanted}"}
    job = head.submit("sleep 10", terms=terms, workdir="/", parametric=f"1-{2 * wanted}")
    most = 0

    def over() -> bool:
        nonlocal most
        most = max(most, sum(each["state"] == "node" for each in pool(head)["allocations"]))
        return head.ask("job", job=job)["job"]["ended"] is not None

    patiently(head, over)
    ran = time.monotonic() - began
    patiently(head, lambda: not pool(head)["allocations"])
    print(
        f"{most} of {wanted} nodes, {2 * wanted} tasks in {ran:.0f} s, "
        f"gone after {time.monotonic() - began:.0f} s"
    )
    assert head.ask("job", job=job)["job"]["state"] == "Finished"
    assert most <= wanted
    assert most > wanted / 2
    assert pool(head)["failures"] == 0
    assert not in_slurm(peer)
