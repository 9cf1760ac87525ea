"""The processes of a script whose processes have several processors: variables, hosts, host files."""

import pytest

from headnode.core.formats.batch import BatchSystem, read_script, write_script
from headnode.core.launching.environment import LaunchContext, host_files, process_order, process_places
from headnode.core.launching.recipe import recipe
from headnode.core.model.quantities import JobId
from headnode.core.state.job_events import NodeCores

FOUR_AND_FOUR: NodeCores = (("n1", (0, 1, 2, 3)), ("n2", (0, 1, 2, 3)))


def started(option: str, place: NodeCores) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a script with this option line at a place, and the lines of its node file."""
    spec, _ = read_script(f"#!/bin/sh\n#{option}\ntrue\n")
    task = spec.tasks[0]
    around = LaunchContext(
        job=JobId(7), spec=spec, node="n1", cluster="blue", scheduler="head", base={"HOME": "/home/ada"}
    )
    lines = host_files(process_places(spec, task, place), process_order(spec, task))[2].split()
    return recipe(around, 1, task, place, 1, 1).environment, lines


@pytest.mark.parametrize(
    ("option", "counted", "hosts"),
    [
        ("SBATCH -N2 --ntasks-per-node=2 -c2", "2(x2)", "n1 n1 n2 n2"),
        ("SBATCH -N2 --ntasks-per-node=1 -c4", "1(x2)", "n1 n2"),
        ("SBATCH -n4 -c2 -N2 -m cyclic", "2(x2)", "n1 n2 n1 n2"),
        ("SBATCH -n8", "4(x2)", "n1 n1 n1 n1 n2 n2 n2 n2"),
    ],
)
def test_mpiexec_starts_as_many_processes_as_a_slurm_script_asks_for(
    option: str, counted: str, hosts: str
) -> None:
    variables, lines = started(option, FOUR_AND_FOUR)
    assert variables["SLURM_TASKS_PER_NODE"] == counted
    assert variables["SLURM_JOB_CPUS_PER_NODE"] == "4(x2)"
    assert variables["HEADNODE_HOSTS"] == hosts
    assert lines == hosts.split()
    assert variables["SLURM_NTASKS"] == str(len(lines))


@pytest.mark.parametrize(
    ("option", "hosts", "threads"),
    [
        ("PBS -l select=2:ncpus=4:mpiprocs=2:ompthreads=2", "n1 n1 n2 n2", "2"),
        ("PBS -l select=2:ncpus=4:mpiprocs=4", "n1 n1 n1 n1 n2 n2 n2 n2", "4"),
        ("PBS -l select=2:ncpus=4", "n1 n2", "4"),
        ("PBS -l nodes=2:ppn=4", "n1 n1 n1 n1 n2 n2 n2 n2", None),
    ],
)
def test_the_node_file_of_pbs_has_a_line_for_each_mpi_process_of_the_chunks(
    option: str, hosts: str, threads: str | None
) -> None:
    variables, lines = started(option, FOUR_AND_FOUR)
    assert lines == hosts.split()
    assert variables["HEADNODE_HOSTS"] == hosts
    assert variables["PBS_NP"] == str(len(lines))
    assert variables.get("OMP_NUM_THREADS") == threads


def test_processes_are_dealt_to_nodes_as_they_have_processors() -> None:
    variables, lines = started("SBATCH -n4 -c2", (("n1", (0, 1, 2, 3, 4, 5)), ("n2", (0, 1))))
    assert lines == ["n1", "n1", "n1", "n2"]
    assert variables["SLURM_TASKS_PER_NODE"] == "3,1"


@pytest.mark.parametrize(
    ("option", "system", "written"),
    [
        ("SBATCH -N2 --ntasks-per-node=2 -c2", "slurm", "--ntasks=4"),
        ("SBATCH -N2 --ntasks-per-node=2 -c2", "slurm", "--cpus-per-task=2"),
        ("SBATCH -N2 --ntasks-per-node=2 -c2", "pbs", "select=2:ncpus=4:mpiprocs=2:ompthreads=2"),
        ("PBS -l select=2:ncpus=4:mpiprocs=2", "slurm", "--cpus-per-task=2"),
        ("PBS -l select=2:ncpus=4", "pbs", "select=2:ncpus=4\n"),
        ("SBATCH -n2 -N1", "pbs", "select=1:ncpus=2:mpiprocs=2:ompthreads=1"),
    ],
)
def test_a_script_for_another_scheduler_has_as_many_processes(option: str, system: str, written: str) -> None:
    spec, _ = read_script(f"#!/bin/sh\n#{option}\ntrue\n")
    assert written in write_script(spec, BatchSystem(system))[0].decode()


def test_it_is_reported_where_a_process_cannot_have_several_processors() -> None:
    spec, _ = read_script("#!/bin/sh\n#SBATCH -n2 -c4\ntrue\n")
    for system in (BatchSystem.LSF, BatchSystem.GRID_ENGINE):
        report = write_script(spec, system)[1]
        assert any("each process here has 4" in item.what for item in report)


def test_a_script_reads_the_partition_account_qos_and_memory_of_its_job() -> None:
    names = ("SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS", "SLURM_MEM_PER_CPU")
    variables, _ = started("SBATCH -n2 -p gpu -A chem -q long --mem-per-cpu=2G", (("n1", (0, 1)),))
    assert [variables[name] for name in names] == ["gpu", "chem", "long", "2048"]
    variables, _ = started("SBATCH -n2", (("n1", (0, 1)),))
    assert [variables.get(name) for name in names] == ["all", None, None, None]


def test_scripts_of_pbs_and_grid_engine_read_the_home_of_their_owner() -> None:
    assert started("PBS -l ncpus=1", (("n1", (0,)),))[0]["PBS_O_HOME"] == "/home/ada"
    variables, _ = started("$ -N mine", (("n1", (0,)),))
    assert (variables["SGE_O_HOME"], variables["REQUEST"]) == ("/home/ada", "mine")
