"""What running tasks use is measured when somebody asks: on each node, with all that they have launched."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from batch_programs import Programs

from headnode.adapters.processes.attempts import Lanes
from headnode.adapters.processes.current_usage import UsageMeter
from headnode.adapters.processes.remote_steps import RemoteCommands
from headnode.adapters.wire.agent_messages import MAX_MESSAGE, PROTOCOL, JobMeasured
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.core.model.errors import Unavailable, WrongState
from heads import TIMEOUT, RealHead, real_head
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


@pytest.fixture(autouse=True)
def no_job_stays(cluster: Cluster) -> Iterator[None]:
    """Cancel what a test has left, so that the next one has its processors."""
    yield
    for job in cluster.ask("jobs", states=["Queued", "Running"])["jobs"]:
        cluster.ask("cancel_job", job=job["id"], force=True)


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
    assert (task["task"], task["instance"], task["processors"], answer["silent"]) == (1, None, 2, [])
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
    job = int(programs.output(f"sbatch --parsable --array=3,5 --wrap '{command}'", tmp_path))
    cluster.until(lambda: len(list(tmp_path.glob("*.[35]"))) == 2, "both elements have begun")
    shown = programs.output(f"sstat -nP -o jobid,maxrss,ntasks,avecpu -j {job}", tmp_path).splitlines()
    assert [line.split("|")[0] for line in shown] == [f"{job}_3.batch", f"{job}_5.batch"]
    for line in shown:
        _, memory, tasks, time = line.split("|")
        assert int(memory.removesuffix("K")) >= MEGABYTES * 1024
        assert (tasks, time > "00:00.300") == ("1", True)
    (one,) = programs.output(f"sstat -nP -o jobid {job}_5", tmp_path).splitlines()
    assert one == f"{job}_5.batch"
    table = programs.output(f"hn job usage {job}", tmp_path)
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
        (job,) = json.loads(pbs.output(f"qstat {option} -f -F json {work.job}", tmp_path))["Jobs"].values()
        return dict(job["resources_used"])

    while_it_runs = used("")
    assert int(while_it_runs["mem"].removesuffix("kb")) >= MEGABYTES * 1024
    assert while_it_runs["cput"] == "00:00:00"
    (usage,) = (x for x in engine.output(f"qstat -j {work.job}", tmp_path).splitlines() if "usage" in x)
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


class _NoDirectories:
    def make_elsewhere(self, path: str) -> bool:
        raise AssertionError(path)

    def remove(self, path: str) -> None:
        raise AssertionError(path)


def test_a_shepherd_that_is_asked_again_and_again_measures_for_a_part_of_its_time() -> None:
    meter, lanes = UsageMeter(), Lanes()
    launches = RemoteCommands(0, None, _NoDirectories(), lambda _: None, lambda _: None)
    answers = [meter.read(lanes, launches)]
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        answers.append(meter.read(lanes, launches))
    assert len({id(answer) for answer in answers}) <= 6


def test_what_a_node_says_of_attempts_that_it_does_not_have_is_not_shown(tmp_path: Path) -> None:
    lies = [
        [1, 1, 1, 4.0, 0.5, 50, 200, 2],
        [1, 1, 1, 5.0, 0.5, 100, 200, 2],  # of one attempt the last counts
        [1, 1, 9, 1.0, 1.0, 1, 1, 1],
        [7, 1, 1, 1.0, 1.0, 1, 1, 1],
    ]

    async def measured_by_a_liar(head: RealHead) -> Any:
        reader, writer = await asyncio.open_unix_connection(str(head.state / "nodes.sock"))
        hello = {"type": "Hello", "protocol": PROTOCOL, "facts": {"name": "liar", "processors": 1}}
        writer.write(frame(msgspec.msgpack.encode(hello)))
        job = await asyncio.to_thread(head.submit, "sleep 60")
        asked: asyncio.Task[Any] | None = None
        try:
            while asked is None or not asked.done():
                data = await read_frame(reader, MAX_MESSAGE)
                assert data is not None
                message = msgspec.msgpack.decode(data)
                if message["type"] == "Run":
                    asked = asyncio.create_task(asyncio.to_thread(head.ask, "job_usage", job=job))
                if message["type"] == "MeasureJob":
                    answer = {"type": "JobMeasured", "number": message["number"], "usage": lies}
                    writer.write(frame(msgspec.msgpack.encode(answer)))
                    assert asked is not None
                    return await asked
        finally:
            writer.close()

    with real_head(tmp_path, nodes=0) as head:
        answer = asyncio.run(asyncio.wait_for(measured_by_a_liar(head), TIMEOUT))
        (task,) = answer["tasks"]
        assert (task["node"], task["user_time"], task["memory"]) == ("liar", 5.0, 100)


@pytest.mark.parametrize("time_of_it", [-1.0, float("inf"), float("nan")])
def test_a_figure_that_cannot_be_is_no_message(time_of_it: float) -> None:
    usage = [[1, 1, 1, time_of_it, 0.0, 1, 1, 1]]
    data = msgspec.msgpack.encode({"type": "JobMeasured", "number": 1, "usage": usage})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=JobMeasured)
