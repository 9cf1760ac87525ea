"""Which GPUs the attempts of a node get: the lowest free ones, the same in a lane, none of two."""

from pathlib import Path

import pytest

from headnode.adapters.processes.gpus import MachineGpus
from headnode.apps.agent.gpu_assignments import BESIDE, GpuAssignment, GpuAssignments, GpuRequest
from headnode.core.model.errors import Unavailable
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import JobId

FOUR = MachineGpus(tuple("0123"))
COUNTS = JobSpec(unit=UnitType.GPU, processors_per_gpu=2)
WHOLE = JobSpec(exclusive=True)
Key = tuple[int, int, int]


class Node:
    """A node on which attempts run until they are over."""

    def __init__(self, file: Path, gpus: MachineGpus = FOUR) -> None:
        self.over: set[tuple[int, Key]] = set()
        self.gpus = GpuAssignments(gpus, file, self._runs, lambda _job, _assigned: None)
        self.gpus.restore()

    def _runs(self, given: GpuAssignment) -> bool:
        return (given.job, given.key) not in self.over

    def given(self, job: int, gpus: int, *keys: Key, spec: JobSpec = COUNTS, lane: str = "") -> str:
        request = GpuRequest(JobId(job), spec, keys, lane or f"m:{job}{keys}", gpus)
        return self.gpus.variables(request)["HEADNODE_GPUS"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "gpus")


def test_attempts_have_the_lowest_free_gpus_and_those_of_a_lane_the_same(node: Node) -> None:
    assert node.given(1, 2, (1, 0, 1)) == "0,1"
    assert node.given(2, 1, (1, 1, 1), (1, 2, 1), lane="m:a") == "2"
    assert node.given(2, 1, (1, 3, 1), lane="m:b") == "3"
    node.over |= {(2, (1, 1, 1)), (2, (1, 2, 1))}
    assert node.given(2, 1, (1, 4, 1), lane="m:a") == "2"
    node.over.add((1, (1, 0, 1)))
    assert node.given(3, 1, (1, 0, 1)) == "0"


def test_a_lane_keeps_its_gpus_while_anything_waits_in_it(node: Node) -> None:
    assert node.given(1, 1, (1, 1, 1), (1, 2, 1), lane="m:a") == "0"
    node.over.add((1, (1, 1, 1)))
    assert node.given(2, 1, (1, 0, 1)) == "1"
    assert node.given(1, 1, (1, 3, 1), lane="m:a") == "0"


def test_a_task_without_free_gpus_is_not_started_and_not_the_fault_of_the_node(node: Node) -> None:
    assert node.given(1, 3, (1, 0, 1)) == "0,1,2"
    with pytest.raises(Unavailable, match="1 free GPUs, not 2") as refused:
        node.given(2, 2, (1, 0, 1))
    assert refused.value.code == "gpus-held"


def test_the_next_agent_knows_what_runs(node: Node, tmp_path: Path) -> None:
    node.given(1, 2, (1, 0, 1))
    node.given(2, 1, (1, 0, 1))
    later = Node(tmp_path / "gpus")
    later.over.add((2, (1, 0, 1)))
    assert later.given(3, 2, (1, 0, 1)) == "2,3"
    assert later.given(1, 2, (1, 0, 1)) == "0,1"  # the head repeats it


def test_a_job_alone_on_the_node_has_all_gpus_but_those_of_suspended_jobs(node: Node) -> None:
    assert node.given(1, 0, (1, 0, 1), spec=WHOLE) == "0,1,2,3"
    assert node.given(1, 0, (2, 0, 1), spec=WHOLE) == "0,1,2,3"
    assert node.given(2, 2, (1, 0, 1)) == "0,1"  # the first is suspended: the head counts none for it
    assert node.given(3, 0, (1, 0, 1), spec=WHOLE) == "2,3"


def test_tasks_of_a_job_alone_on_the_node_have_gpus_apart(node: Node) -> None:
    alone = JobSpec(unit=UnitType.GPU, processors_per_gpu=2, exclusive=True)
    assert node.given(1, 2, (1, 0, 1)) == "0,1"  # it is suspended
    assert node.given(2, 1, (1, 0, 1), spec=alone) == "2"
    assert node.given(2, 2, (2, 0, 1), spec=alone) == "0,3"
    assert node.given(3, 1, (1, 0, 1)) == "2"  # the second is suspended, too
    with pytest.raises(Unavailable):
        node.given(2, 2, (3, 0, 1), spec=alone)


def test_what_runs_beside_the_tasks_has_the_gpus_of_the_job(node: Node) -> None:
    assert node.given(1, 1, (1, 0, 1)) == "0"
    assert node.given(2, 1, (1, 0, 1)) == "1"
    assert node.given(1, 2, BESIDE) == "0,2"
    assert node.given(3, 1, (1, 0, 1)) == "3"
    assert node.given(1, 1, (1, 1, 1)) == "2"


def test_a_file_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Node(tmp_path / "missing" / "gpus").given(1, 1, (1, 0, 1))


def test_gpus_of_amd_are_reported_by_their_own_variable(tmp_path: Path) -> None:
    node = Node(tmp_path / "gpus", FOUR._replace(vendor="amd"))
    found = node.gpus.variables(GpuRequest(JobId(1), COUNTS, [(1, 0, 1)], "m:a", 2))
    assert found == {"HEADNODE_GPUS": "0,1", "CCP_GPUIDS": "0 1", "ROCR_VISIBLE_DEVICES": "0,1"}


def test_a_node_without_gpus_says_nothing_of_them(tmp_path: Path) -> None:
    node = Node(tmp_path / "gpus", MachineGpus())
    assert node.gpus.variables(GpuRequest(JobId(1), COUNTS, [(1, 0, 1)], "m:a", 2)) == {}


def test_a_task_takes_no_gpu_of_another_that_was_used_beside_its_job(node: Node) -> None:
    assert node.given(1, 3, BESIDE, lane="m:a") == "0,1,2"
    assert node.given(2, 3, (1, 0, 1)) == "0,1,3"  # the head counts fewer for the first job by now
    assert node.given(1, 1, (1, 0, 1), lane="m:a") == "2"
