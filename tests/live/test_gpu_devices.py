"""Tasks open the GPUs of their own job and no others; two device files of the kernel stand for GPUs."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_gpus import submit, visible_gpus, waiting

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.device_filter import Device, deny, device_of, why_no_filter
from headnode.adapters.processes.gpus import MachineGpus
from headnode.apps.agent.gpu_confinement import GpuConfinement
from headnode.apps.agent.job_table import JobTable
from headnode.apps.agent.shepherd_handle import ShepherdHandle
from headnode.core.model.quantities import JobId
from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address

PLACE = cgroups.find().unified
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files"),
    pytest.mark.skipif(PLACE is None, reason="there are no control groups of version 2"),
    pytest.mark.skipif(os.geteuid() == 0 and bool(why_no_filter()), reason="the kernel filters no devices"),
]
DEVICES = (Device(1, 5), Device(1, 7))  # zero and full: two endless sources
OPENED = '{ for n in 0 1; do head -c 1 "$GPU$n" > /dev/null 2>&1 && echo $n; done; true; }'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two device files; the path of both without their number."""
    start = tmp_path_factory.mktemp("devices") / "gpu"
    for number, device in enumerate(DEVICES):
        os.mknod(f"{start}{number}", stat.S_IFCHR | 0o666, os.makedev(*device))
    start.parent.chmod(0o755)
    return str(start)


@pytest.fixture(scope="module")
def node(files: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    options = ("--gpu-files", f"{files}0,{files}1")
    with cluster_on_loopback(
        tmp_path_factory.mktemp("node"), ("red",), free_address(), 4, options
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_job_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "node" in request.fixturenames:
        cluster: Cluster = request.getfixturevalue("node")
        for job in cluster.ask("jobs", states=["Queued", "Running"])["jobs"]:
            cluster.ask("cancel_job", job=job["id"], force=True)


def looking(node: Cluster, directory: Path, files: str, name: str, **described: object) -> int:
    """Submit a job that says which GPUs it has and can open, and waits for a file."""
    (directory / name).with_suffix(".sh").write_text(
        f"GPU={files}; {OPENED} > {name}.opened; echo ${{HEADNODE_GPUS:-none}} > {name}.new\n"
        f"mv {name}.new {name}; while [ ! -e {name}.end ]; do sleep 0.05; done\n{OPENED} > {name}.later\n"
    )
    return submit(node, directory, f"/bin/sh {name}.sh", **described)


def opened(node: Cluster, directory: Path, name: str) -> tuple[list[str], list[str]]:
    """Return the GPUs that a job has, and those that it could open."""
    node.until((directory / name).exists, f"{name} has looked")
    has = (directory / name).read_text().split()
    return has, (directory / f"{name}.opened").read_text().split()


def test_jobs_beside_each_other_open_their_own_gpu_alone(node: Cluster, files: str, tmp_path: Path) -> None:
    one = looking(node, tmp_path, files, "one", gpus=1, task={"gpus": 1})
    two = looking(node, tmp_path, files, "two", gpus=1, task={"gpus": 1})
    none = looking(node, tmp_path, files, "none", processors=1)
    found = {name: opened(node, tmp_path, name) for name in ("one", "two", "none")}
    assert sorted(has for has, _ in found.values()) == [["0"], ["1"], ["none"]]
    assert all(could == [number for number in has if number != "none"] for has, could in found.values())
    for name in found:
        (tmp_path / f"{name}.end").touch()
    assert {node.wait(job) for job in (one, two, none)} == {"Finished"}
    for name, (_, could) in found.items():
        assert (tmp_path / f"{name}.later").read_text().split() == could, name


def test_the_next_jobs_of_a_user_open_what_they_have_and_not_what_the_last_had(
    node: Cluster, files: str, tmp_path: Path
) -> None:
    (tmp_path / "look.sh").write_text(
        f'GPU={files}; echo "${{HEADNODE_GPUS:-none}}:" $({OPENED}) >> looked\n'
    )
    two = {"gpus": 2, "task": {"gpus": 2}}
    for described in (two, {"processors": 1}, {"gpus": 1}, {"exclusive": True}, {"processors": 2}):
        assert node.wait(submit(node, tmp_path, "/bin/sh look.sh", **described)) == "Finished"
    looked = (tmp_path / "looked").read_text().splitlines()
    assert looked == ["0,1: 0 1", "none:", "0: 0", "0,1: 0 1", "none:"]


def test_a_sweep_of_each_gpu_opens_those_of_its_job(node: Cluster, files: str, tmp_path: Path) -> None:
    (tmp_path / "look.sh").write_text(f"GPU={files}; {OPENED} > opened.$1\n")
    sweep = {"sweep": "1-20", "gpus": 1}
    job = submit(node, tmp_path, "/bin/sh look.sh *", gpus=2, task=sweep)
    assert node.wait(job) == "Finished"
    assert {(tmp_path / f"opened.{number}").read_text() for number in range(1, 21)} <= {
        "0\n1\n",
        "0\n",
        "1\n",
    }


def test_what_a_command_beside_the_tasks_opens_is_what_its_job_has(
    node: Cluster, files: str, tmp_path: Path
) -> None:
    other = waiting(node, tmp_path, 1, "other")
    [taken] = visible_gpus(node, tmp_path / "other")
    job = submit(node, tmp_path, "sleep 600", gpus=1, task={"gpus": 1})
    node.until(lambda: node.ask("tasks", job=job, states=["Running"])["tasks"], "it runs")
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", str(node.state), "job", "shell"]
    command += ["--job", str(job), "--", f"GPU={files}; {OPENED}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == [str(1 - int(taken))], done.stderr
    for each in (job, other):
        node.ask("cancel_job", job=each, force=True)
        assert node.wait(each) == "Canceled"


def test_an_agent_that_was_killed_keeps_jobs_apart_again(node: Cluster, files: str, tmp_path: Path) -> None:
    one = looking(node, tmp_path, files, "one", gpus=1, task={"gpus": 1})
    has, could = opened(node, tmp_path, "one")
    node.nodes["red"].kill_agent()
    node.nodes["red"].start_agent()
    two = looking(node, tmp_path, files, "two", gpus=1, task={"gpus": 1})
    assert opened(node, tmp_path, "two") == (["1"], ["1"])
    assert has == could == ["0"]
    for name in ("one", "two"):
        (tmp_path / f"{name}.end").touch()
    assert {node.wait(job) for job in (one, two)} == {"Finished"}
    assert (tmp_path / "one.later").read_text().split() == ["0"]


@pytest.fixture
def group() -> Iterator[Path]:
    assert PLACE is not None
    made = PLACE / cgroups.name_of(f"test{os.getpid()}")
    made.mkdir()
    yield made
    assert cgroups.remove(made)


def can_open(group: Path, files: str) -> list[str]:
    script = f"echo $$ > {group}/cgroup.procs; GPU={files}; {OPENED}"
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_what_is_denied_is_replaced_and_ends(group: Path, files: str) -> None:
    for denied, left in ((DEVICES[:1], ["1"]), (DEVICES, []), (DEVICES[1:], ["0"]), ((), ["0", "1"])):
        deny(group, denied)
        assert can_open(group, files) == left
    inside = group / "inside"
    inside.mkdir()
    deny(group, DEVICES)
    assert can_open(inside, files) == []


def test_a_gpu_that_another_job_gets_is_taken_from_the_one_before(group: Path, files: str) -> None:
    table, marker = JobTable(), group.name.removeprefix(cgroups.PREFIX)
    before, after = JobId(1), JobId(2)
    table.job(before).herd[marker] = ShepherdHandle(before, marker, Path("none"), 0)
    table.job(after)
    confinement = GpuConfinement(
        MachineGpus(("0", "1"), devices=tuple((device,) for device in DEVICES)), table
    )
    confinement.keep_apart(before, {before: frozenset({0, 1})})
    assert can_open(group, files) == ["0", "1"]
    confinement.keep_apart(after, {before: frozenset({1}), after: frozenset({0})})
    assert can_open(group, files) == ["1"]


def test_only_devices_are_devices_of_gpus(files: str, tmp_path: Path) -> None:
    assert [device_of(Path(f"{files}{number}")) for number in (0, 1)] == list(DEVICES)
    (tmp_path / "file").touch()
    assert device_of(tmp_path / "file") is device_of(tmp_path / "none") is None
