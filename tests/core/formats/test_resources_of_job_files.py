"""Job files that name another scheduler or machine: the resource of the cluster that has it runs them."""

import json

import pytest

from headnode.core.formats.dialects import ReadOptions, read
from headnode.core.formats.grid import placed_by_batch, refuse_other_batch
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem

SLURM = BatchResource(name="Physics", system=ResourceSystem.SLURM, mark="0a1b2c3d")
ENGINE = BatchResource(name="lab", system=ResourceSystem.GRID_ENGINE, mark="0a1b2c3d")
PBS = BatchResource(name="old", system=ResourceSystem.PBS, mark="0a1b2c3d")
CLEO = BatchResource(name="cleo", system=ResourceSystem.SLURM, mark="0a1b2c3d")


def grid(**requirements: str) -> JobSpec:
    task = {"id": "a", "definition": {"version": 2, "executable": "/bin/true"}}
    text = json.dumps({"version": 2, "tasks": [task], "requirements": requirements})
    return read(text).jobs[0]


@pytest.mark.parametrize(
    ("lrms", "resources", "found"),
    [
        ("Slurm", (SLURM, ENGINE), "Physics"),
        ("SGE", (SLURM, ENGINE), "lab"),
        ("Cleo", (SLURM, CLEO), "cleo"),
        ("Slurm", (SLURM, CLEO), ""),
        ("PBS", (SLURM, ENGINE), ""),
        ("PBS", (SLURM, PBS), "old"),
        ("Torque", (PBS, ENGINE), "old"),
        ("pbs pro", (PBS,), "old"),
        ("PBS", (PBS, PBS), ""),
        ("Cleo", (SLURM, PBS), ""),
        ("Fork", (SLURM,), ""),
    ],
)
def test_a_grid_job_goes_where_its_batch_system_is(
    lrms: str, resources: tuple[BatchResource, ...], found: str
) -> None:
    spec = placed_by_batch(grid(lrms=lrms), resources)
    assert spec.resource == found
    if found or lrms == "Fork":
        refuse_other_batch(spec)
    else:
        with pytest.raises(BadRequest, match=lrms):
            refuse_other_batch(spec)


def sss(machine: str, *resources: BatchResource) -> JobSpec:
    asked = f"<Requested><Machine>{machine}</Machine></Requested>"
    text = f"<Job><Id>a</Id><Executable>/bin/true</Executable>{asked}</Job>"
    return read(text, ReadOptions(machine="home", resources=resources)).jobs[0]


def test_a_job_goes_to_the_resource_that_it_names_as_its_machine() -> None:
    assert sss("PHYSICS", SLURM, ENGINE).resource == "Physics"
    assert sss("home", SLURM).resource == ""
    with pytest.raises(BadRequest, match="elsewhere"):
        sss("elsewhere", SLURM)
