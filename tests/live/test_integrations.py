"""Real Snakemake, Dask and PSI/J run their workflows on a real head, by the packages of `integrations`."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateways import real_gateway, write_certificate
from workflow_programs import USE_OF_DASK, needs, run_python

from headnode.sdk import HeadnodeClient
from heads import RealHead, shared_head_fixture
from testbed.clusters import cluster_on_loopback
from testbed.processes import free_address
from testbed.request_relay import RequestRelay, request_relay

INTEGRATIONS = Path(__file__).parents[2] / "integrations"

head = shared_head_fixture(processors=4)


@pytest.fixture
def relay(head: RealHead, tmp_path: Path) -> Iterator[RequestRelay]:
    with request_relay(tmp_path / "relay", head.state) as opened:
        yield opened


@pytest.fixture(params=["socket", "https"])
def door(request: pytest.FixtureRequest, head: RealHead, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the variables by which programs find the head: on its socket, or by a gateway with TLS."""
    if request.param == "socket":
        yield {"HEADNODE_STATE": str(head.state)}
        return
    file, key = map(str, write_certificate(tmp_path))
    with real_gateway(head, "--certificate", file, "--key", key) as gateway:
        yield {
            "HEADNODE_URL": gateway.address,
            "HEADNODE_TOKEN": gateway.token(),
            "HEADNODE_CA_FILE": file,
        }


def run(words: list[str], door: dict[str, str], where: Path, *, status: int = 0) -> str:
    """Return what a program prints that finds the packages and the head."""
    packages = os.pathsep.join(str(each) for each in INTEGRATIONS.iterdir())
    own = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(where),
        "PYTHONPATH": packages,
        "HEADNODE_RESIDENT_CLIENT": "0",
    }
    return run_python(words, own | door, where, status=status)


WORKFLOW = """
rule all:
    input: "sum.txt"
rule number:
    output: "{n}.txt"
    threads: 1
    resources: runtime=5, mem_mb=200, headnode_priority="AboveNormal"
    shell: "echo {wildcards.n} $CCP_JOBID > {output}"
rule sum:
    input: expand("{n}.txt", n=range(1, 5))
    output: "sum.txt"
    threads: 2
    shell: "awk '{{s += $1}} END {{print s}}' {input} > {output}"
"""


@needs("snakemake")
def test_snakemake_runs_a_workflow_and_polls_nothing(relay: RequestRelay, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    options = ["--executor", "headnode", "--jobs", "4", "--headnode-project", "thesis"]
    run(["-m", "snakemake", *options], {"HEADNODE_STATE": str(relay.state)}, tmp_path)
    assert (tmp_path / "sum.txt").read_text() == "10\n"
    numbers = [int((tmp_path / f"{n}.txt").read_text().split()[1]) for n in range(1, 5)]
    with HeadnodeClient(relay.state) as client:
        jobs = {job.id: job for job in client.jobs(project="thesis")}
        assert len(jobs) == 5
        shown = client.job(numbers[0]).show()
    assert {jobs[number].priority_name for number in numbers} == {"AboveNormal"}
    assert (shown.run_time, shown.maximum) == (300.0, 1)
    assert relay.asked["watch_events"] == 1
    assert relay.asked["job"] <= 5 * 6  # when it is added, and at each of its states


@needs("snakemake")
def test_snakemake_shows_which_job_of_the_cluster_has_failed(door: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "x"\n    shell: "exit 3"\n')
    printed = run(["-m", "snakemake", "--executor", "headnode", "--jobs", "1"], door, tmp_path, status=1)
    number = re.findall(r"Headnode job (\d+) is Failed", printed)
    assert number, printed
    assert f"hn task output {number[0]}.1" in printed


DASK = """
from dask_jobqueue_headnode import HeadnodeCluster
from distributed import Client

with HeadnodeCluster(
    cores=1, processes=1, memory="400 MB", walltime="10m", project="dask", nanny=False,
    scheduler_options={"dashboard_address": None}, interface="lo",
    job_extra_directives={"priority": "BelowNormal"},
) as cluster"""
NUMBER_OF_WORKER = """
    print("job", client.submit(lambda: __import__("os").environ["CCP_JOBID"]).result())
"""


@needs("dask_jobqueue")
def test_dask_has_its_workers_as_jobs_and_cancels_them_at_the_end(
    head: RealHead, door: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(DASK + USE_OF_DASK + NUMBER_OF_WORKER)
    before = head.ask("jobs", limit=1)["jobs"]
    printed = run(["work.py"], door, tmp_path)
    assert "sum 285" in printed
    with HeadnodeClient(head.state) as client:
        started = [job for job in client.jobs(project="dask") if not before or job.id > before[0]["id"]]
        ended = client.wait(*started, timeout=60)
    assert len(ended) == 2
    assert {(job.priority_name, job.run_time) for job in ended} == {("BelowNormal", 600.0)}
    assert int(printed.split("job ")[1].split()[0]) in [job.id for job in ended]


GPUS = """
rule all:
    output: "gpus.txt"
    threads: 3
    resources: gpu=2, gpu_model="gpu"
    shell: "echo $HEADNODE_GPUS $CCP_NUMCPUS > {output}"
"""
PSIJ_GPUS = """
import pathlib
from psij import Job, JobExecutor, JobSpec, ResourceSpecV1

resources = ResourceSpecV1(process_count=1, cpu_cores_per_process=3, gpu_cores_per_process=2)
command = ["-c", "echo $HEADNODE_GPUS $CCP_NUMCPUS"]
here = pathlib.Path.cwd()
job = Job(JobSpec("/bin/sh", command, directory=here, stdout_path="gpus.txt", resources=resources))
executor = JobExecutor.get_instance("headnode")
executor.submit(job)
print(job.wait().state.name)
"""


@pytest.mark.parametrize(
    ("name", "program"),
    [
        pytest.param("Snakefile", GPUS, marks=needs("snakemake")),
        pytest.param("work.py", PSIJ_GPUS, marks=needs("psij")),
    ],
)
def test_gpus_of_a_workflow_are_those_of_the_cluster(name: str, program: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(program)
    snakemake = ["-m", "snakemake", "--executor", "headnode", "--jobs", "1"]
    with cluster_on_loopback(tmp_path / "c", ("red",), free_address(), 8, ("--gpus", "2")) as cluster:
        door = {"HEADNODE_STATE": str(cluster.state)}
        run(snakemake if name == "Snakefile" else [name], door, tmp_path)
    assert (tmp_path / "gpus.txt").read_text() == "0,1 4\n"


PSIJ = """
import datetime, pathlib, sys
from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1

executor = JobExecutor.get_instance("headnode")
seen = []
executor.set_job_status_callback(lambda job, status: seen.append((job.native_id, status.state.name)))

def spec(command, **options):
    attributes = JobAttributes(
        duration=datetime.timedelta(minutes=5), account="psij",
        custom_attributes={"headnode.priority": "Lowest"},
    )
    return JobSpec("/bin/sh", ["-c", command], directory=pathlib.Path.cwd(), attributes=attributes, **options)

good = Job(spec("echo $WHO said $0", stdout_path="good.txt", environment={"WHO": "psij"}))
executor.submit(good)
bad = Job(spec("exit 7"))
executor.submit(bad)
three = ResourceSpecV1(process_count=3)
many = Job(spec("echo one", stdout_path="many.txt", launcher="multiple", resources=three))
executor.submit(many)
long = Job(spec("sleep 600"))
executor.submit(long)
again = Job()
executor.attach(again, long.native_id)
assert long.native_id in executor.list()
long.wait(target_states=[JobState.ACTIVE], timeout=datetime.timedelta(seconds=60))
executor.cancel(long)
for job in (good, bad, many, again):
    status = job.wait(timeout=datetime.timedelta(seconds=60))
    print(status.state.name, status.exit_code)
print([state for number, state in seen if number == good.native_id])
"""


@needs("psij")
def test_psij_submits_follows_attaches_and_cancels(
    head: RealHead, door: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(PSIJ)
    printed = run(["work.py"], door, tmp_path).splitlines()
    assert printed[-5:-2] == ["COMPLETED 0", "FAILED 7", "COMPLETED 0"]
    assert printed[-2].startswith("CANCELED ")
    assert printed[-1].endswith("'COMPLETED']")
    assert (tmp_path / "good.txt").read_text() == "psij said /bin/sh\n"
    assert (tmp_path / "many.txt").read_text() == "one\n" * 3
    with HeadnodeClient(head.state) as client:
        jobs = list(client.jobs(project="psij"))
    assert {(job.priority_name, job.run_time) for job in jobs} == {("Lowest", 300.0)}
