"""GPUs in the commands of Slurm and PBS, on a node that has four."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_programs import Programs

from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("gpus")
    with cluster_on_loopback(directory, ("red",), free_address(), 8, ("--gpus", "4")) as started:
        yield started


@pytest.fixture(scope="module")
def slurm(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(cluster, tmp_path_factory.mktemp("slurm"), "--only", "slurm")


@pytest.fixture(scope="module")
def pbs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(cluster, tmp_path_factory.mktemp("pbs"), "--only", "qsub")


def test_gpus_that_were_asked_for_are_reported_as_slurm_shows_them(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable -H --gres=gpu:2 -c 8 --wrap true", tmp_path)
    line = slurm.output(f"squeue -h -j {number} -o '%C %b'", tmp_path)
    assert line == "8 gres:gpu:2"
    wide = slurm.output(f"squeue -h -j {number} -O tres:40,tres-per-job", tmp_path)
    assert wide.split() == ["cpu=8,node=1,gres/gpu=2", "N/A"]
    shown = slurm.output(f"scontrol show job {number}", tmp_path)
    assert "NumCPUs=8 NumTasks=1 CPUs/Task=8" in shown
    assert "TRES=cpu=8,node=1,billing=8,gres/gpu=2\n" in shown
    assert "TresPerNode=gres:gpu:2" in shown
    assert slurm.output(f"sacct -X -n -P -j {number} -o ReqTRES,AllocTRES,ReqCPUS", tmp_path) == (
        "billing=8,cpu=8,gres/gpu=2,node=1||8"
    )
    apart = slurm.output("sbatch --parsable -H -n 3 -G 3 --wrap true", tmp_path)
    assert slurm.output(f"squeue -h -j {apart} -o '%C %b'", tmp_path) == "3 N/A"
    assert "TresPerJob=gres:gpu:3" in slurm.output(f"scontrol show job {apart}", tmp_path)
    array = slurm.output("sbatch --parsable -H -a 1-3 -G 1 -c 2 --wrap true", tmp_path)
    assert slurm.output(f"squeue -h -r -j {array} -o '%C %b'", tmp_path).splitlines() == ["2 gres:gpu:1"] * 3
    plain = slurm.output("sbatch --parsable -H --wrap true", tmp_path)
    assert slurm.output(f"squeue -h -j {plain} -o '%b'", tmp_path) == "N/A"
    assert "Tres" not in slurm.output(f"scontrol show job {plain}", tmp_path)


def test_a_script_has_the_gpus_and_processes_that_it_asks_for(slurm: Programs, tmp_path: Path) -> None:
    variables = "$SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_CPUS_ON_NODE"
    slurm.output(
        f"sbatch --wait -o out.txt --gres=gpu:2 -c 6 --wrap 'echo {variables} $HEADNODE_HOSTS'", tmp_path
    )
    assert (tmp_path / "out.txt").read_text() == "0,1 2 1 1 6 red\n"


def test_no_more_jobs_run_at_once_than_there_are_gpus(slurm: Programs, tmp_path: Path) -> None:
    """Eight elements would fit onto the processors; each has a GPU alone, which a lock shows."""
    element = "mkdir gpu$HEADNODE_GPUS || exit 3; sleep 0.2; rmdir gpu$HEADNODE_GPUS"
    slurm.output(f"sbatch --wait -a 1-8 -G 1 --wrap '{element}'", tmp_path)
    assert not list(tmp_path.glob("gpu*"))


def test_sacct_shows_the_gpus_that_a_job_had(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.output("sbatch --parsable --wait -G 2 --cpus-per-gpu=3 --wrap true", tmp_path)
    assert slurm.output(f"sacct -X -n -P -j {number} -o State,AllocTRES", tmp_path) == (
        "COMPLETED|billing=6,cpu=6,gres/gpu=2,node=1"
    )


def test_srun_makes_a_job_with_gpus(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.output("srun --gpus=2 sh -c 'echo $HEADNODE_GPUS'", tmp_path) == "0,1"
    assert slurm.run("srun --gpus=9 true", tmp_path).returncode == 1


def test_qstat_shows_gpus_as_pbs_shows_them(pbs: Programs, tmp_path: Path) -> None:
    script = "#!/bin/sh\n#PBS -l select=1:ncpus=4:ngpus=2\ntrue\n"
    (tmp_path / "job.pbs").write_text(script)
    number = pbs.output("qsub.pbs -h job.pbs", tmp_path)
    shown = pbs.output(f"qstat.pbs -f {number}", tmp_path)
    assert "Resource_List.ncpus = 4\n    Resource_List.nodect = 1\n    Resource_List.ngpus = 2\n" in shown


TOLD = 'sh -c "echo \\$SLURM_PROCID \\$HEADNODE_GPUS \\$CUDA_VISIBLE_DEVICES \\$SLURM_GPUS_ON_NODE"'


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("-n 4 --gpus-per-task=1", ["0 0 0 1", "1 1 1 1", "2 2 2 1", "3 3 3 1"]),
        ("-n 2 --gpus-per-task=2", ["0 0,1 0,1 2", "1 2,3 2,3 2"]),
        ("-n 2 --gres=gpu:3", ["0 0,1,2 0,1,2 3", "1 0,1,2 0,1,2 3"]),
        ("-n 1 --gpus=1", ["0 0 0 1"]),
        ("-n 1", ["0 0,1,2,3 0,1,2,3 4"]),
        ("-n 1 --export=NONE", ["0 0,1,2,3 0,1,2,3 4"]),
        ("-n 1 --overlap --gpus=2", ["0 0,1 0,1 2"]),
    ],
)
def test_the_tasks_of_a_step_have_the_gpus_that_it_asks_for(
    slurm: Programs, tmp_path: Path, options: str, lines: list[str]
) -> None:
    slurm.output(
        f"sbatch --wait -o out.txt --gres=gpu:4 -n 4 --wrap '/usr/bin/env srun {options} {TOLD}'", tmp_path
    )
    assert sorted((tmp_path / "out.txt").read_text().splitlines()) == lines


def test_steps_beside_each_other_have_different_gpus(slurm: Programs, tmp_path: Path) -> None:
    step = 'srun -Q -n 1 --gpus=1 sh -c "mkdir gpu\\$HEADNODE_GPUS && sleep 0.3 && rmdir gpu\\$HEADNODE_GPUS"'
    script = f"{step} & {step} & {step} & wait -n && wait -n && wait -n"
    (tmp_path / "steps.sh").write_text(f"#!/bin/bash\n{script.replace(chr(92), '')}\n".replace('"', "'"))
    slurm.output("sbatch --wait -o out.txt --gres=gpu:2 -n 4 steps.sh", tmp_path)
    assert (tmp_path / "out.txt").read_text() == ""


@pytest.mark.parametrize("options", ["--gpus-per-task=2 -n 2", "--gres=gpu:3", "--ntasks-per-gpu=1"])
def test_a_step_that_asks_for_more_gpus_than_its_job_has_is_refused(
    slurm: Programs, tmp_path: Path, options: str
) -> None:
    done = slurm.run(f"sbatch --wait -o out.txt --gres=gpu:2 -n 2 --wrap 'srun {options} true'", tmp_path)
    assert done.returncode == 1
    output = (tmp_path / "out.txt").read_text()
    assert "generic resource" in output or "--ntasks-per-gpu" in output


def test_tasks_of_srun_outside_of_a_job_have_gpus_of_their_own(slurm: Programs, tmp_path: Path) -> None:
    output = slurm.output("srun -n 4 --gpus-per-task=1 sh -c 'echo $HEADNODE_GPUS'", tmp_path)
    assert sorted(output.split()) == ["0", "1", "2", "3"]


def test_mpiexec_has_as_many_processes_as_the_script_asks_for(slurm: Programs, tmp_path: Path) -> None:
    options = "-n 2 --gpus-per-task=2 -c 3 -N 1"
    slurm.output(f"sbatch --wait -o out.txt {options} --wrap 'cat $CCP_MPI_HOSTFILE $PBS_NODEFILE'", tmp_path)
    assert (tmp_path / "out.txt").read_text().split() == ["red:2", "red", "red"]


def test_tasks_of_a_step_on_other_nodes_have_gpus_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    directory = tmp_path_factory.mktemp("two")
    options = ("--gpus", "2")
    with cluster_on_loopback(directory, ("blue", "red"), free_address(), 4, options) as two:
        slurm = Programs(two, tmp_path_factory.mktemp("slurm"), "--only", "slurm")
        shown = 'sh -c "echo \\$SLURMD_NODENAME \\$HEADNODE_GPUS \\$CUDA_VISIBLE_DEVICES \\$SLURM_STEP_GPUS"'
        wrapped = f"srun --gpus-per-task=1 {shown}; srun -n 2 --gpus-per-node=2 {shown}"
        slurm.output(
            f"sbatch --wait -o out.txt -N 2 -n 4 --gpus-per-node=2 --export=ALL --wrap '{wrapped}'", tmp_path
        )
        lines = (tmp_path / "out.txt").read_text().splitlines()
        assert sorted(lines[:4]) == ["blue 0 0 0", "blue 1 1 1", "red 0 0 0", "red 1 1 1"]
        assert sorted(lines[4:]) == ["blue 0,1 0,1 0,1", "red 0,1 0,1 0,1"]
        hosts = "sbatch --wait -o hosts.txt -N 2 -n 2 --gpus-per-node=2 -c 2 --wrap"
        slurm.output(f"{hosts} 'cat $CCP_MPI_HOSTFILE; echo $SLURM_TASKS_PER_NODE $HEADNODE_HOSTS'", tmp_path)
        found = (tmp_path / "hosts.txt").read_text().split()
        assert sorted(found) == ["1(x2)", "blue", "blue:1", "red", "red:1"]


def test_a_job_with_gpus_is_tested_with_all_its_processors(slurm: Programs, tmp_path: Path) -> None:
    found = slurm.run("sbatch --test-only -G 2 --cpus-per-gpu=3 --wrap true", tmp_path).stderr
    assert "using 6 processors on nodes red in partition all" in found
