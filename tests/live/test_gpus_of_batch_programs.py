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


def test_gpus_that_were_asked_for_are_told_as_slurm_tells_them(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.said("sbatch --parsable -H --gres=gpu:2 -c 8 --wrap true", tmp_path)
    line = slurm.said(f"squeue -h -j {number} -o '%C %b'", tmp_path)
    assert line == "8 gres:gpu:2"
    wide = slurm.said(f"squeue -h -j {number} -O tres:40,tres-per-job", tmp_path)
    assert wide.split() == ["cpu=8,node=1,gres/gpu=2", "N/A"]
    shown = slurm.said(f"scontrol show job {number}", tmp_path)
    assert "NumCPUs=8 NumTasks=1 CPUs/Task=8" in shown
    assert "TRES=cpu=8,node=1,billing=8,gres/gpu=2\n" in shown
    assert "TresPerNode=gres:gpu:2" in shown
    assert slurm.said(f"sacct -X -n -P -j {number} -o ReqTRES,AllocTRES,ReqCPUS", tmp_path) == (
        "billing=8,cpu=8,gres/gpu=2,node=1||8"
    )
    apart = slurm.said("sbatch --parsable -H -n 3 -G 3 --wrap true", tmp_path)
    assert slurm.said(f"squeue -h -j {apart} -o '%C %b'", tmp_path) == "3 N/A"
    assert "TresPerJob=gres:gpu:3" in slurm.said(f"scontrol show job {apart}", tmp_path)
    array = slurm.said("sbatch --parsable -H -a 1-3 -G 1 -c 2 --wrap true", tmp_path)
    assert slurm.said(f"squeue -h -r -j {array} -o '%C %b'", tmp_path).splitlines() == ["2 gres:gpu:1"] * 3
    plain = slurm.said("sbatch --parsable -H --wrap true", tmp_path)
    assert slurm.said(f"squeue -h -j {plain} -o '%b'", tmp_path) == "N/A"
    assert "Tres" not in slurm.said(f"scontrol show job {plain}", tmp_path)


def test_a_script_has_the_gpus_and_processes_that_it_asks_for(slurm: Programs, tmp_path: Path) -> None:
    variables = "$SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_CPUS_ON_NODE"
    slurm.said(
        f"sbatch --wait -o out.txt --gres=gpu:2 -c 6 --wrap 'echo {variables} $HEADNODE_HOSTS'", tmp_path
    )
    assert (tmp_path / "out.txt").read_text() == "0,1 2 1 1 6 red\n"


def test_no_more_jobs_run_at_once_than_there_are_gpus(slurm: Programs, tmp_path: Path) -> None:
    """Eight elements would fit onto the processors; each has a GPU alone, which a lock shows."""
    element = "mkdir gpu$HEADNODE_GPUS || exit 3; sleep 0.2; rmdir gpu$HEADNODE_GPUS"
    slurm.said(f"sbatch --wait -a 1-8 -G 1 --wrap '{element}'", tmp_path)
    assert not list(tmp_path.glob("gpu*"))


def test_sacct_tells_the_gpus_that_a_job_had(slurm: Programs, tmp_path: Path) -> None:
    number = slurm.said("sbatch --parsable --wait -G 2 --cpus-per-gpu=3 --wrap true", tmp_path)
    assert slurm.said(f"sacct -X -n -P -j {number} -o State,AllocTRES", tmp_path) == (
        "COMPLETED|billing=6,cpu=6,gres/gpu=2,node=1"
    )


def test_srun_makes_a_job_with_gpus(slurm: Programs, tmp_path: Path) -> None:
    assert slurm.said("srun --gpus=2 sh -c 'echo $HEADNODE_GPUS'", tmp_path) == "0,1"
    assert slurm.run("srun --gpus=9 true", tmp_path).returncode == 1


def test_qstat_tells_gpus_as_pbs_tells_them(pbs: Programs, tmp_path: Path) -> None:
    script = "#!/bin/sh\n#PBS -l select=1:ncpus=4:ngpus=2\ntrue\n"
    (tmp_path / "job.pbs").write_text(script)
    number = pbs.said("qsub.pbs -h job.pbs", tmp_path)
    shown = pbs.said(f"qstat.pbs -f {number}", tmp_path)
    assert "Resource_List.ncpus = 4\n    Resource_List.nodect = 1\n    Resource_List.ngpus = 2\n" in shown
