"""What a job asks for and what the cluster allows holds its tasks, and is told of them."""

import os
import sys
from pathlib import Path

import pytest

from headnode.core.model.errors import HeadnodeError
from heads import RealHead, head_fixture, real_head

PYTHON = f"{sys.executable} -I -S -c"
HOLD = f"{PYTHON} 'import time; x = bytearray(220 << 20); x[::4096] = x[1::4096]; time.sleep({{}})'"
AFFINITY = f"{PYTHON} 'import os; print(*sorted(os.sched_getaffinity(0)))'"
HERE = sorted(os.sched_getaffinity(0))

head = head_fixture(processors=None)


def test_a_job_that_underestimates_its_memory_fails_and_says_so_unless_the_cluster_lets_it(
    head: RealHead,
) -> None:
    asks = {"estimatedprocessmemory": "100"}
    job = head.submit(HOLD.format(60), terms=asks)
    assert head.wait(job)["state"] == "Failed"
    assert "needed more than the 100 MB that it requested" in head.task(job)["message"]
    head.ask("set_parameters", values={"EnforceMemory": "no"})
    job = head.submit(HOLD.format(1.2), terms=asks)
    assert head.wait(job)["state"] == "Finished"
    assert head.task(job)["peak_memory"] > 220 * 1024


@pytest.mark.skipif(len(HERE) < 2, reason="this machine has one processor")
def test_tasks_of_jobs_that_share_nodes_are_bound_and_others_as_the_cluster_says(head: RealHead) -> None:
    for affinity, exclusive, bound in (
        ("NonExclusiveJobs", "false", True),
        ("NonExclusiveJobs", "true", False),
        ("AllJobs", "true", True),
        ("NoJobs", "false", False),
    ):
        head.ask("set_parameters", values={"AffinityType": affinity})
        job = head.submit(AFFINITY, terms={"exclusive": exclusive, "numprocessors": "1"})
        assert head.wait(job)["state"] == "Finished"
        shown = [int(word) for word in head.output(job).split()]
        assert shown == (HERE[:1] if bound else HERE), (affinity, exclusive)


def test_what_a_task_read_and_wrote_is_reported_it_and_of_its_job(head: RealHead) -> None:
    job = head.submit("head -c 2000000 /dev/zero > $HEADNODE_TASK.zeros; rm $HEADNODE_TASK.zeros")
    assert head.wait(job)["state"] == "Finished"
    task = head.task(job)
    assert task["bytes_written"] >= 2_000_000
    delivered = head.ask("job", job=job)["job"]["usage"]
    assert delivered["bytes_written"] == task["bytes_written"]
    assert delivered["bytes_read"] == task["bytes_read"]


def test_a_node_shows_what_its_system_keeps(head: RealHead) -> None:
    node = head.ask("nodes")["nodes"][0]
    assert node["control_groups"] in ("v1", "v2", "none")
    assert node["machine_processors"] == HERE


def test_a_limit_that_is_none_of_the_choices_is_refused(head: RealHead) -> None:
    for name, value in (("EnforceMemory", "maybe"), ("AffinityType", "Some"), ("JobProcessLimit", "1")):
        with pytest.raises(HeadnodeError, match=name):
            head.ask("set_parameters", values={name: value})


def test_nodes_that_share_a_machine_bind_nothing(tmp_path: Path) -> None:
    with real_head(tmp_path, nodes=2, processors=None) as head:
        assert [node["machine_processors"] for node in head.ask("nodes")["nodes"]] == [[], []]
