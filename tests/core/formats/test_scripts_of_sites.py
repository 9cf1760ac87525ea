"""Batch scripts as sites of Slurm, PBS, Grid Engine and HTCondor write them are read as they are meant."""

import pytest

from headnode.core.formats.batch import read_script
from headnode.core.formats.condor.reading import read_submit
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, Licence, UnitType
from headnode.core.model.task import ScriptOrigin


def read(*lines: str) -> tuple[JobSpec, tuple[ReportItem, ...]]:
    spec, report = read_script("\n".join(["#!/bin/sh", *lines, "true", ""]))
    return spec, tuple(report)


@pytest.mark.parametrize(
    ("name", "one_node"),
    [
        *((name, False) for name in ("openmpi", "openmpi_ib", "ompi", "OpenMPI", "mpi", "orte", "impi")),
        *((name, True) for name in ("smp", "openmp", "omp", "shm", "sharedmem", "threads", "onenode")),
    ],
)
def test_an_environment_of_open_mpi_is_not_one_of_openmp(name: str, *, one_node: bool) -> None:
    assert read(f"#$ -pe {name} 64")[0].single_node is one_node


@pytest.mark.parametrize("name", ["m_mem_free", "tmem", "h_data", "h_rss", "s_vmem", "mem_req"])
def test_memory_of_a_slot_is_reserved_under_the_names_of_sites(name: str) -> None:
    assert read(f"#$ -l {name}=8G")[0].process_memory == 8192


def test_of_several_memory_resources_the_largest_counts_and_each_may_be_written_again() -> None:
    assert read("#$ -l h_vmem=8G", "#$ -l mem_free=6G")[0].process_memory == 8192
    assert read("#$ -l h_vmem=8G", "#$ -l h_vmem=6G")[0].process_memory == 6144


def test_gpus_and_disk_have_the_names_of_sites() -> None:
    spec, _ = read("#$ -l gpus=2,gpu_type=V100,tmpfs=10G")
    assert (spec.unit, spec.needs.minimum_disk) == (UnitType.GPU, 10240)
    assert ("V100",) in spec.needs.features


def test_resources_of_pbs_that_sites_define_select_nodes_licences_and_the_directory() -> None:
    spec, report = read(
        "#PBS -l ncpus=4,wd,jobfs=2gb,software=ansys+2,storage=gdata/v45",
        "#PBS -l feature='intel14|intel16'",
        "#PBS -W x=FLAGS:ADVRES:course",
    )
    assert spec.licences == (Licence("ansys", 2),)
    assert (spec.needs.minimum_disk, spec.needs.features) == (2048, (("intel14", "intel16"),))
    assert spec.reservation == "course"
    assert {item.where for item in report if item.kind is Fidelity.NOT_SUPPORTED} == {"-l storage"}


def test_a_group_of_the_owner_is_reported() -> None:
    _, report = read("#PBS -W group_list=physics")
    assert [item.kind for item in report if item.where == "-W"] == [Fidelity.NOT_SUPPORTED]


def test_attributes_of_chunks_are_features_and_disk_of_nodes() -> None:
    spec, _ = read("#PBS -l select=1:ncpus=8:model=mil_ait:scratch_local=20gb:cl_adan=True:arch=linux")
    assert spec.needs.features == (("mil_ait",), ("cl_adan",))
    assert spec.needs.minimum_disk == 20480


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("#PBS -l qos=flux", "-q"),
        ("#PBS -l select=1:ncpus=2:nosuch=3", "NAME=true"),
        ("#PBS -W x=PARTITION:a", "leave it out"),
        ("#PBS -l feature=a|", "NAME"),
        ("#PBS -l software=", "software=NAME"),
        ("#$ -l slots=4", "-pe"),
        ("#$ -l tmpfs=true", "4G"),
        ("#SBATCH hetjob", "separate jobs"),
        ("#SBATCH --workdir=/x", "--chdir"),
        ("#SBATCH -n8 --ntasks-per-socket=2", "--ntasks-per-node"),
    ],
)
def test_what_has_no_equivalent_is_refused_with_what_to_write(line: str, instead: str) -> None:
    with pytest.raises(BadRequest) as no:
        read(line)
    assert instead in str(no.value.fix)


@pytest.mark.parametrize(
    ("options", "sockets"),
    [
        ("--nodes=1 --ntasks-per-node=1 --ntasks-per-socket=1", 0),
        ("--nodes=4 --ntasks-per-node=4 --ntasks-per-socket=2", 2),
        ("--ntasks=2 --cpus-per-task=4 --ntasks-per-socket=1 --nodes=1", 2),
        ("--ntasks=8 --nodes=2 --ntasks-per-socket=2", 2),
        ("--ntasks=1 --ntasks-per-socket=5", 0),
        ("-B 4 --nodes=1 --ntasks=4 --ntasks-per-socket=2", 4),
    ],
)
def test_tasks_of_a_socket_select_nodes_with_enough_sockets(options: str, sockets: int) -> None:
    spec, report = read(f"#SBATCH {options}")
    assert (spec.needs.minimum_sockets or 0) == sockets
    kinds = {item.kind for item in report if item.where == "--ntasks-per-socket"}
    assert kinds == {Fidelity.APPROXIMATED if sockets else Fidelity.TRANSLATED}


def test_commands_of_submit_files_may_be_written_as_the_attributes_of_jobs() -> None:
    text = "executable = /bin/a\n{} = YES\n{} = ON_EXIT\n{} = /b\nqueue\n"
    by_command = text.format("should_transfer_files", "when_to_transfer_output", "transfer_input_files")
    by_attribute = text.format("ShouldTransferFiles", "WhenToTransferOutput", "TransferInputFiles")
    origin = ScriptOrigin(directory="/home/ada")
    assert read_submit(by_attribute, origin)[0] == read_submit(by_command, origin)[0]
