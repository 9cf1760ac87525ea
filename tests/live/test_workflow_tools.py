"""Workflow tools for Slurm, PBS, Grid Engine and LSF run unchanged on the programs of `hn compat install`."""

from pathlib import Path

import pytest
from batch_programs import Programs
from workflow_programs import USE_OF_DASK, needs, run_python

from heads import RealHead, shared_head_fixture

head = shared_head_fixture(nodes=2, processors=2)


@pytest.fixture(scope="module")
def slurm(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(head, tmp_path_factory.mktemp("slurm"), "--only", "slurm")


def run(programs: Programs, where: Path, *words: str) -> str:
    """Return what a Python program prints that finds the programs."""
    return run_python(words, programs.environment(where), where)


WORKFLOW = """
rule all:
    input: "sum.txt"
rule number:
    output: "{n}.txt"
    resources: runtime=5, mem_mb=1000
    shell: "echo {wildcards.n} $SLURM_JOB_ID > {output}"
rule sum:
    input: expand("{n}.txt", n=range(1, 4))
    output: "sum.txt"
    threads: 2
    shell: "awk '{{s += $1}} END {{print s}}' {input} > {output}"
"""


@needs("snakemake_executor_plugin_slurm")
@pytest.mark.parametrize("options", [(), ("--slurm-array-jobs", "all")], ids=["jobs", "arrays"])
def test_snakemake_s_slurm_executor_runs_a_workflow(
    slurm: Programs, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    soon = ("--slurm-init-seconds-before-status-checks", "2")
    run(slurm, tmp_path, "-m", "snakemake", "--executor", "slurm", "--jobs", "4", *soon, *options)
    assert (tmp_path / "sum.txt").read_text() == "6\n"
    numbers = {(tmp_path / f"{n}.txt").read_text().split()[1] for n in range(1, 4)}
    assert len(numbers) == (1 if options else 3)
    assert (
        slurm.output(f"sacct -X -n -P -o State -j {','.join(numbers)}", tmp_path).split() == ["COMPLETED"] * 3
    )


@needs("snakemake_executor_plugin_lsf")
def test_snakemake_s_lsf_executor_runs_a_workflow(head: RealHead, tmp_path: Path) -> None:
    lsf = Programs(head, tmp_path / "bin", "--only", "lsf")
    (tmp_path / "Snakefile").write_text(WORKFLOW.replace("SLURM_JOB_ID", "LSB_JOBID"))
    soon = ("--default-resources", "runtime=5", "mem_mb=1000")
    result = run(lsf, tmp_path, "-m", "snakemake", "--executor", "lsf", "--jobs", "4", *soon)
    assert (tmp_path / "sum.txt").read_text() == "6\n"
    numbers = [(tmp_path / f"{n}.txt").read_text().split()[1] for n in range(1, 4)]
    assert all(f"has been submitted with LSF jobid {number}" in result for number in numbers)
    states = lsf.output(f"bjobs -noheader -o 'stat queue' {' '.join(numbers)}", tmp_path)
    assert states.split() == ["DONE", "Default"] * 3


PSIJ = """
import datetime
import pathlib
import sys

import psij

executor = psij.JobExecutor.get_instance(sys.argv[1])
executor.config.queue_polling_interval = 1  # seconds, not 30

def job(script):
    return psij.Job(psij.JobSpec(
        executable="/bin/sh", arguments=["-c", script], stdout_path=pathlib.Path("out").absolute(),
        resources=psij.ResourceSpecV1(node_count=2, processes_per_node=1),
        attributes=psij.JobAttributes(duration=datetime.timedelta(minutes=5)),
    ))

for each in (job("echo done"), job("exit 3")):
    executor.submit(each)
    found = each.wait(timeout=datetime.timedelta(seconds=100))
    print(found.state.name, found.exit_code)
"""


@needs("psij")
@pytest.mark.parametrize(
    ("executor", "options"),
    [
        ("slurm", ("--only", "slurm")),
        ("lsf", ("--only", "lsf")),
        ("pbs", ("--only", "qsub", "--qsub", "pbs")),
    ],
)
def test_psij_sees_how_its_jobs_end(
    head: RealHead, tmp_path: Path, executor: str, options: tuple[str, ...]
) -> None:
    programs = Programs(head, tmp_path / "bin", *options)
    (tmp_path / "work.py").write_text(PSIJ)
    result = run(programs, tmp_path, "work.py", executor)
    assert result.splitlines() == ["COMPLETED 0", "FAILED 3"]


@needs("snakemake_executor_plugin_slurm")
def test_snakemake_s_slurm_executor_runs_jobs_of_an_account_that_sacctmgr_knows(
    slurm: Programs, tmp_path: Path
) -> None:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    words = ("-m", "snakemake", "--executor", "slurm", "--jobs", "4")
    soon = ("--slurm-init-seconds-before-status-checks", "2", "--default-resources")
    slurm.head.ask("set_parameters", values={"ProjectLimits": "chem:jobs=50"})
    run(slurm, tmp_path, *words, *soon, "slurm_account=chem")
    assert (tmp_path / "sum.txt").read_text() == "6\n"
    output = slurm.output("sacct -X -n -P -S now-1hour -A chem -o Account,State", tmp_path)
    assert output.split() == ["chem|COMPLETED"] * 4
    (tmp_path / "sum.txt").unlink()
    environment = slurm.environment(tmp_path)
    found = run_python((*words, *soon, "slurm_account=phys"), environment, tmp_path, status=1)
    assert "The given account phys appears to be invalid" in found


SUBMITIT = """
import submitit

def add(a, b):
    here = submitit.JobEnvironment()
    return a + b, here.global_rank, here.num_tasks

def fail():
    raise RuntimeError("no")

executor = submitit.AutoExecutor(folder="log")
executor.update_parameters(timeout_min=4, slurm_partition="all")
print(executor.submit(add, 5, 7).result())
print([job.result() for job in executor.map_array(add, [1, 2, 3], [4, 5, 6])])
executor.update_parameters(tasks_per_node=2)
print(executor.submit(add, 1, 1).results())
executor.update_parameters(tasks_per_node=1)
try:
    executor.submit(fail).result()
except submitit.core.utils.FailedJobError as failed:
    print(type(failed).__name__)
"""


@needs("submitit")
def test_submitit_runs_functions_arrays_and_parallel_tasks(slurm: Programs, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SUBMITIT)
    assert run(slurm, tmp_path, "work.py").splitlines() == [
        "(12, 0, 1)",
        "[(5, 0, 1), (7, 0, 1), (9, 0, 1)]",
        "[(2, 0, 2), (2, 1, 2)]",
        "FailedJobError",
    ]


DASK = """
import sys
import dask_jobqueue
from distributed import Client

OF_ONE = {"HTCondorCluster": {"disk": "1 MB"}, "LSFCluster": {"walltime": "00:10"}}
with getattr(dask_jobqueue, sys.argv[1])(
    cores=1, processes=1, memory="400 MB", interface="lo", nanny=False,
    scheduler_options={"dashboard_address": None}, **OF_ONE.get(sys.argv[1], {"walltime": "00:10:00"}),
) as cluster"""


@needs("dask_jobqueue")
@pytest.mark.parametrize(
    ("cluster", "options"),
    [
        ("SLURMCluster", ("--only", "slurm")),
        ("PBSCluster", ("--only", "qsub", "--qsub", "pbs")),
        ("SGECluster", ("--only", "qsub", "--qsub", "gridengine")),
        ("LSFCluster", ("--only", "lsf")),
        ("HTCondorCluster", ("--only", "condor")),
    ],
)
def test_dask_has_its_workers_as_jobs_and_cancels_them_at_the_end(
    head: RealHead, tmp_path: Path, cluster: str, options: tuple[str, ...]
) -> None:
    programs = Programs(head, tmp_path / "bin", *options)
    (tmp_path / "work.py").write_text(DASK + USE_OF_DASK)
    before = head.ask("jobs", limit=1)["jobs"]
    assert "sum 285" in run(programs, tmp_path, "work.py", cluster)
    known = before[0]["id"] if before else 0
    workers = [job["id"] for job in head.ask("jobs", limit=10)["jobs"] if job["id"] > known]
    assert len(workers) == 2
    head.until(lambda: {head.ask("job", job=job)["job"]["state"] for job in workers} == {"Canceled"})


PARSL_WORK = """
block = HighThroughputExecutor(
    label="block", address="127.0.0.1", loopback_address="127.0.0.1", encrypted=False,
    max_workers_per_node=1, provider=provider,
)

@parsl.python_app
def square(n):
    return n * n

with parsl.load(Config(executors=[block], strategy="none")):
    print("sum", sum(each.result() for each in [square(n) for n in range(10)]))
    jobs = list(block.blocks_to_job_id.values())
    print([one.state.name for one in provider.status(jobs)], provider.cancel(jobs))
"""
"""What each of these does with its provider."""
PARSL = """
import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import CondorProvider

provider = CondorProvider(init_blocks=1, max_blocks=1, cores_per_slot=1, mem_per_slot=0.25,
    worker_init=f"export PATH={sys.prefix}/bin:$PATH")
"""


@needs("parsl")
def test_parsl_has_its_block_as_a_job_that_it_sees_and_removes(head: RealHead, tmp_path: Path) -> None:
    condor = Programs(head, tmp_path / "bin", "--only", "condor")
    (tmp_path / "work.py").write_text(PARSL + PARSL_WORK)
    result = run(condor, tmp_path, "work.py").splitlines()
    assert result[:2] == ["sum 285", "['RUNNING'] [True]"]
    (cluster,) = condor.output("condor_history -limit 1 -af ClusterId", tmp_path).split()
    assert condor.output(f"condor_history {cluster} -af:j JobStatus", tmp_path) == f"{cluster}.0 3"


PARSL_ELSEWHERE = """
import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SingleNodeLauncher, SrunLauncher
from parsl.providers import LSFProvider, PBSProProvider, SlurmProvider

common = {"init_blocks": 1, "max_blocks": 1, "nodes_per_block": 1, "walltime": "00:05:00",
    "worker_init": f"export PATH={sys.prefix}/bin:$PATH"}
provider = {
    "slurm": lambda: SlurmProvider(partition="all", cores_per_node=1, exclusive=False,
        launcher=SrunLauncher(), **common),
    "lsf": lambda: LSFProvider(cores_per_block=1, cores_per_node=1, request_by_nodes=False,
        launcher=SingleNodeLauncher(), **common),
    "pbs": lambda: PBSProProvider(cpus_per_node=1, launcher=SingleNodeLauncher(), **common),
}[sys.argv[1]]()
"""


@needs("parsl")
@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("slurm", ("--only", "slurm")),
        ("lsf", ("--only", "lsf")),
        ("pbs", ("--only", "qsub", "--qsub", "pbs")),
    ],
)
def test_parsl_runs_functions_in_a_block_of_slurm_lsf_and_pbs(
    head: RealHead, tmp_path: Path, provider: str, options: tuple[str, ...]
) -> None:
    programs = Programs(head, tmp_path / "bin", *options)
    (tmp_path / "work.py").write_text(PARSL_ELSEWHERE + PARSL_WORK)
    result = run(programs, tmp_path, "work.py", provider).splitlines()
    assert result[:2] == ["sum 285", "['RUNNING'] [True]"]
