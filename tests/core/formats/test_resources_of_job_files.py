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


def grid(**requirements: str | list[str]) -> JobSpec:
    task = {"id": "a", "definition": {"version": 2, "executable": "/bin/true"}}
    text = json.dumps({"version": 2, "tasks": [task], "requirements": requirements})
    return read(text).jobs[0]


@pytest.mark.parametrize(
    ("lrms", "resources", "found"),
    [
        ("Slurm", (SLURM, ENGINE), "Physics"),
        ("SGE", (SLURM, ENGINE), "lab"),
        ("Cleo", (SLURM, CLEO), "cleo"),
        ("Slurm", (SLURM, CLEO), "Physics,cleo"),
        ("PBS", (SLURM, ENGINE), ""),
        ("PBS", (SLURM, PBS), "old"),
        ("Torque", (PBS, ENGINE), "old"),
        ("pbs pro", (PBS,), "old"),
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


@pytest.mark.parametrize(
    ("hosts", "lrms", "resource", "nodes"),
    [
        (["physics", "lab"], "", "Physics,lab", ()),
        (["physics", "lab"], "SGE", "lab", ()),
        (["physics", "n1"], "", "", ("physics", "n1")),
    ],
)
def test_the_hosts_of_a_grid_job_may_be_resources(
    hosts: list[str], lrms: str, resource: str, nodes: tuple[str, ...]
) -> None:
    spec = placed_by_batch(grid(hostname=hosts, **({"lrms": lrms} if lrms else {})), (SLURM, ENGINE))
    assert (spec.resource, spec.requested_nodes) == (resource, nodes)


def test_no_resource_is_both_the_host_and_of_the_kind_of_a_grid_job() -> None:
    with pytest.raises(BadRequest, match="SGE"):
        refuse_other_batch(placed_by_batch(grid(hostname=["physics"], lrms="SGE"), (SLURM, ENGINE)))


def sss(machine: str, *resources: BatchResource) -> JobSpec:
    asked = f"<Requested><Machine>{machine}</Machine></Requested>"
    text = f"<Job><Id>a</Id><Executable>/bin/true</Executable>{asked}</Job>"
    return read(text, ReadOptions(machine="home", resources=resources)).jobs[0]


def test_a_job_goes_to_the_resource_that_it_names_as_its_machine() -> None:
    assert sss("PHYSICS", SLURM, ENGINE).resource == "Physics"
    assert sss("home", SLURM).resource == ""
    with pytest.raises(BadRequest, match="elsewhere"):
        sss("elsewhere", SLURM)


def requested(asked: str, *resources: BatchResource) -> JobSpec:
    text = f"<Job><Id>a</Id><Executable>/bin/true</Executable><Requested>{asked}</Requested></Job>"
    return read(text, ReadOptions(machine="home", resources=resources)).jobs[0]


def manager(kind: str, attributes: str = "") -> str:
    return f"<ResourceManagerType{attributes}>{kind}</ResourceManagerType>"


@pytest.mark.parametrize(
    ("kind", "resources", "resource"),
    [
        ("Slurm", (SLURM, ENGINE), "Physics"),
        ("SLURM", (SLURM, ENGINE, CLEO), "Physics,cleo"),
        ("GridEngine", (SLURM, ENGINE), "lab"),
        ("Headnode", (SLURM,), "here"),
        ("Fork", (SLURM,), "here"),
    ],
)
def test_a_job_goes_to_a_resource_with_the_scheduler_that_it_names(
    kind: str, resources: tuple[BatchResource, ...], resource: str
) -> None:
    spec = requested(manager(kind), *resources)
    assert spec.resource == resource
    assert kind in "".join(spec.extensions.values())


@pytest.mark.parametrize("asked", [manager("LSF"), f"<Machine>lab</Machine>{manager('Slurm')}"])
def test_a_scheduler_that_no_resource_has_is_refused_by_name(asked: str) -> None:
    with pytest.raises(BadRequest, match=r"ResourceManagerType '(LSF|Slurm)'"):
        requested(asked, SLURM, ENGINE)


def test_a_job_file_is_read_where_it_is_not_known_which_cluster_runs_it() -> None:
    text = f"<Job><Id>a</Id><Executable>/bin/true</Executable><Requested>{manager('LSF')}</Requested></Job>"
    assert read(text).jobs[0].resource == ""


def either(one: str, other: str) -> str:
    return f"<Machine group='1'>{one}</Machine><Machine conj='Or' group='-1'>{other}</Machine>"


@pytest.mark.parametrize(
    ("asked", "resource"),
    [
        (either("lab", "physics"), "Physics,lab"),
        (either("lab", "home"), "here,lab"),
        (either("lab", "elsewhere"), "lab"),
        (manager("Slurm", " group='1'") + manager("SGE", " conj='Or' group='-1'"), "Physics,lab"),
    ],
)
def test_a_job_with_alternative_machines_may_go_to_each_of_them(asked: str, resource: str) -> None:
    spec = requested(asked + "<Processors>2</Processors>", SLURM, ENGINE)
    assert (spec.resource, spec.minimum, spec.alternatives) == (resource, 2, ())


def test_machines_with_different_requests_are_not_mixed() -> None:
    asked = (
        "<Machine group='1'>lab</Machine><Processors group='-1'>2</Processors>"
        "<Machine conj='Or' group='1'>home</Machine><Processors group='-1'>4</Processors>"
    )
    spec = requested(asked, SLURM, ENGINE)
    assert (spec.resource, spec.minimum, spec.alternatives) == ("", 4, ())
