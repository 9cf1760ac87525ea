"""What running tasks use is measured when somebody asks: on each node, with all that they have launched."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_programs import Programs

from headnode.core.model.errors import Unavailable, WrongState
from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import free_address

MEGABYTES = 60
BUSY = f"""
import pathlib, sys, time
held = bytearray(b"x") * ({MEGABYTES} * 1024 * 1024)
while time.process_time() < 0.4:
    pass
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of two processors."""
    with cluster_on_loopback(tmp_path_factory.mktemp("pair"), ("left", "right"), free_address()) as made:
        yield made


class Work:
    """A job whose tasks hold memory and use processor time until they are told to end."""

    def __init__(self, cluster: Cluster, folder: Path, **options: Any) -> None:
        folder.chmod(0o777)
        self.cluster, self.folder, self.end = cluster, folder, folder / "end"
        (folder / "busy.py").write_text(BUSY)
        task = {"command": self.command(), "work_directory": str(folder), **options.pop("task", {})}
        text = json.dumps({"tasks": [task], **options})
        self.job = int(cluster.ask("submit_job", jobfile=text, dialect="native")["job"])

    def command(self, name: str = "${HEADNODE_TASK}") -> str:
        return f"{sys.executable} busy.py {name} {self.end}"

    def until_busy(self, count: int) -> None:
        self.cluster.until(
            lambda: len(list(self.folder.glob(f"{self.job}.*"))) >= count, f"{count} tasks have begun"
        )

    def usage(self) -> dict[str, Any]:
        return self.cluster.ask("job_usage", job=self.job)

    def finish(self) -> None:
        self.end.touch()
        assert self.cluster.wait(self.job) == "Finished"


def test_memory_processor_time_and_processes_of_a_task_are_those_of_all_that_it_has_started(
    cluster: Cluster, tmp_path: Path
) -> None:
    work = Work(cluster, tmp_path, process_memory="100 MB", task={"processors": 2})
    work.until_busy(1)
    answer = work.usage()
    (task,) = answer["tasks"]
    assert (task["task"], task["instance"], task["processors"], answer["silent"]) == (1, 1, 2, [])
    assert MEGABYTES * 1024 <= task["memory"] <= task["peak_memory"] < 2 * MEGABYTES * 1024
    assert task["requested_memory"] == 2 * 100 * 1024
    assert task["user_time"] + task["system_time"] >= 0.3
    assert task["run_time"] >= 0.3
    assert task["processes"] >= 1
    work.finish()
    with pytest.raises(WrongState, match="does not run: it is finished"):
        work.usage()


def test_what_a_task_launches_on_another_node_is_shown_with_that_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    there = f"{sys.executable} busy.py $HEADNODE_TASK.there {tmp_path}/end"
    other = """$(printf '%s\\n' $HEADNODE_HOSTS | grep -v "^$HEADNODE_NODE$" | head -n 1)"""
    (tmp_path / "script").write_text(f"touch $HEADNODE_TASK\n$HEADNODE_LAUNCH {other} '{there}'\n")
    work = Work(cluster, tmp_path, processors=4, task={"command": "/bin/sh script", "processors": 4})
    work.until_busy(2)
    here, other = sorted(work.usage()["tasks"], key=lambda task: int(task["memory"]))
    assert {here["node"], other["node"]} == {"left", "right"}
    assert here["memory"] < MEGABYTES * 1024 <= other["memory"]
    assert other["user_time"] + other["system_time"] >= 0.3
    assert (here["processors"], other["processors"]) == (2, 2)
    work.finish()


def test_the_programs_show_what_a_job_and_an_element_of_an_array_use(
    cluster: Cluster, tmp_path: Path
) -> None:
    programs = Programs(cluster, tmp_path / "bin", "--only", "slurm")
    command = f"{sys.executable} busy.py $SLURM_JOB_ID.$SLURM_ARRAY_TASK_ID {tmp_path}/end"
    (tmp_path / "busy.py").write_text(BUSY)
    job = int(programs.said(f"sbatch --parsable --array=3,5 --wrap '{command}'", tmp_path))
    cluster.until(lambda: len(list(tmp_path.glob("*.[35]"))) == 2, "both elements have begun")
    shown = programs.said(f"sstat -nP -o jobid,maxrss,ntasks,avecpu -j {job}", tmp_path).splitlines()
    assert [line.split("|")[0] for line in shown] == [f"{job}_3.batch", f"{job}_5.batch"]
    for line in shown:
        _, memory, tasks, time = line.split("|")
        assert int(memory.removesuffix("K")) >= MEGABYTES * 1024
        assert (tasks, time > "00:00.300") == ("1", True)
    (one,) = programs.said(f"sstat -nP -o jobid {job}_5", tmp_path).splitlines()
    assert one == f"{job}_5.batch"
    table = programs.said(f"hn job usage {job}", tmp_path)
    assert f"{job}.1.2" in table
    assert "processes with 1" in table.splitlines()[-1], table
    (tmp_path / "end").touch()
    assert cluster.wait(job) == "Finished"
    refused = programs.run(f"sstat -j {job}", tmp_path)
    assert (refused.returncode, refused.stderr) == (1, f"sstat: error: No steps running for job {job}\n")


def test_qstat_shows_what_a_job_that_is_named_uses_and_has_used(cluster: Cluster, tmp_path: Path) -> None:
    pbs = Programs(cluster, tmp_path / "pbs", "--only", "qsub", "--qsub", "pbs")
    engine = Programs(cluster, tmp_path / "engine", "--only", "qsub", "--qsub", "gridengine")
    work = Work(cluster, tmp_path)
    work.until_busy(1)

    def used(option: str) -> dict[str, Any]:
        (job,) = json.loads(pbs.said(f"qstat {option} -f -F json {work.job}", tmp_path))["Jobs"].values()
        return dict(job["resources_used"])

    while_it_runs = used("")
    assert int(while_it_runs["mem"].removesuffix("kb")) >= MEGABYTES * 1024
    assert while_it_runs["cput"] == "00:00:00"
    (usage,) = (x for x in engine.said(f"qstat -j {work.job}", tmp_path).splitlines() if "usage" in x)
    assert usage.startswith("usage         1:            cpu=00:00:00, mem=N/A, io=N/A, vmem=")
    assert float(usage.rpartition("maxvmem=")[2].removesuffix("M")) >= MEGABYTES
    work.finish()
    assert int(used("-x")["mem"].removesuffix("kb")) >= MEGABYTES * 1024


def test_a_node_that_is_away_is_named_and_the_rest_is_shown(cluster: Cluster, tmp_path: Path) -> None:
    work = Work(cluster, tmp_path, processors=4, task={"sweep": "1-2", "processors": 2})
    work.until_busy(2)
    cluster.nodes["left"].kill_agent()
    cluster.until(lambda: work.usage()["silent"] == ["left"], "the head knows that a node is away")
    assert [task["node"] for task in work.usage()["tasks"]] == ["right"]
    cluster.nodes["right"].kill_agent()

    def shown() -> int:
        try:
            return len(work.usage()["tasks"])
        except Unavailable:
            return 0

    cluster.until(lambda: shown() == 0, "the head knows that both are away")
    with pytest.raises(Unavailable, match="no node of job"):
        work.usage()
    for node in cluster.nodes.values():
        node.start_agent()
    cluster.until(lambda: shown() == 2, "agents measure what they have adopted")
    work.finish()
