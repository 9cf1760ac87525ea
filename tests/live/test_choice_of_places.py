"""A job that may run at several places goes where it is expected to start first, and says why there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sites import add_resource

from heads import RealHead, real_head
from testbed.other_users import open_to_all
from testbed.slurm_peer import SlurmPeer, slurm_peer


@pytest.fixture
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmPeer]:
    """Start a Slurm for one test: jobs of other tests would show that jobs there end early."""
    directory = tmp_path_factory.mktemp("there")
    open_to_all(directory)
    with slurm_peer(directory / "slurm") as peer:
        peer.write()
        yield peer


@pytest.fixture
def head(tmp_path: Path, peer: SlurmPeer) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=1, processors=1) as head:
        paths = {"settings": str(peer.settings), "programs": str(peer.programs)}
        add_resource(head, "peer", "slurm", tmp_path, **paths)
        yield head


def submit(head: RealHead, command: str, resource: str, **terms: str) -> int:
    return head.submit(command, terms={"resource": resource, "runtime": "5", **terms}, workdir="/")


def explained(head: RealHead, job: int) -> str:
    return " ".join(reason["text"] for reason in head.ask("explain_job", job=job)["reasons"])


def test_a_job_that_may_run_anywhere_goes_to_the_place_that_starts_it_first(head: RealHead) -> None:
    busy = submit(head, "sleep 600", "here", runtime="60")
    head.wait_for(busy, "Running")
    job = submit(head, 'echo "at $HEADNODE_RESOURCE"', "any")
    assert head.wait(job)["state"] == "Finished"
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert read["data"] in (b"at peer\n", "YXQgcGVlcgo=")
    history = [entry["text"] for entry in head.ask("job_history", job=job)["history"]]
    (why,) = [text for text in history if text.startswith("Goes to peer: ")]
    assert "peer now (predicted from its queue)" in why
    assert "here in 1h (predicted from the queue here)" in why
    head.ask("cancel_job", job=busy)


def submit_file(head: RealHead, text: str) -> int:
    job: int = head.ask("submit_job", jobfile=text)["job"]
    return job


def test_a_job_runs_with_another_request_at_the_resource_that_starts_it_first(head: RealHead) -> None:
    busy = submit(head, "sleep 600", "here", runtime="60")
    head.wait_for(busy, "Running")
    text = """command = "echo $HEADNODE_RESOURCE $SLURM_NTASKS"
run_time = "5m"
work_directory = "/"
processors = 1
[[alternatives]]
resource = "peer"
processors = 3
run_time = "2m"
"""
    job = submit_file(head, text)
    assert head.wait(job)["state"] == "Finished"
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert read["data"] in (b"peer 3\n", "cGVlciAzCg==")
    shown = head.ask("job", job=job)["job"]
    assert (shown["alternative"], shown["alternatives"]) == (1, 1)
    head.ask("cancel_job", job=busy)


def test_a_job_stays_on_own_nodes_with_its_own_request_where_one_is_free(head: RealHead) -> None:
    text = """command = "echo [$HEADNODE_RESOURCE] $CCP_NUMCPUS"
work_directory = "/"
[[alternatives]]
resource = "peer"
processors = 3
"""
    job = submit_file(head, text)
    assert head.wait(job)["state"] == "Finished"
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert read["data"] in (b"[] 1\n", "W10gMQo=")


def test_a_job_that_may_run_anywhere_stays_where_a_node_is_free(head: RealHead) -> None:
    job = submit(head, 'echo "at [$HEADNODE_RESOURCE]"', "peer,here")
    assert head.wait(job)["state"] == "Finished"
    read = head.ask("read_output", job=job, task=1, stream="standard_output")
    assert read["data"] in (b"at []\n", "YXQgW10K")


def test_a_full_resource_does_not_get_it_and_explain_shows_the_numbers_of_both(head: RealHead) -> None:
    busy = submit(head, "sleep 600", "here", runtime="10")
    there = head.submit(
        "sleep 600", terms={"resource": "peer", "runtime": "120"}, workdir="/", numprocessors="8"
    )
    head.wait_for(busy, "Running")
    head.wait_for(there, "Running")
    job = submit(head, "true", "any")
    head.until(lambda: "peer in" in explained(head, job))
    assert "it goes where it is expected to start first: here in 10m" in explained(head, job)
    assert head.ask("job", job=job)["job"]["state"] == "Queued"
    head.ask("cancel_job", job=busy)
    assert head.wait(job)["state"] == "Finished"
    head.ask("cancel_job", job=there)
    assert head.wait(there)["state"] == "Canceled"
