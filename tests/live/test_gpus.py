"""GPUs of nodes on real clusters: which ones a task gets, what it is told, and that none is given twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_programs import Programs

from testbed.clusters import Cluster, cluster_on_loopback
from testbed.faulty_storage import FaultyStorage
from testbed.processes import free_address

GPUS = 4
OPTIONS = ("--gpus", str(GPUS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with four GPUs; each test leaves it as it was."""
    directory = tmp_path_factory.mktemp("gpus")
    with cluster_on_loopback(directory, ("red",), free_address(), 8, OPTIONS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_job_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cancel what a test has left: a test that fails makes no other wait for its GPUs."""
    yield
    if "shared" in request.fixturenames:
        cluster: Cluster = request.getfixturevalue("shared")
        for job in cluster.ask("jobs", states=["Queued", "Running", "Suspended"])["jobs"]:
            cluster.ask("cancel_job", job=job["id"], force=True)


def submit(cluster: Cluster, directory: Path, command: str, **described: Any) -> int:
    """Submit a job of one task, which may be described by its own options."""
    task = {"command": command, "work_directory": str(directory), **described.pop("task", {})}
    text = json.dumps({**described, "tasks": [task]})
    return int(cluster.ask("submit_job", jobfile=text, dialect="native")["job"])


def waiting(cluster: Cluster, directory: Path, gpus: int, name: str, **described: Any) -> int:
    """Submit a job that says which GPUs it has, and waits for a file."""
    command = (
        f"/bin/sh -c 'echo $HEADNODE_GPUS $CUDA_VISIBLE_DEVICES > {name}.new; mv {name}.new {name}; "
        f"while [ ! -e {name}.end ]; do sleep 0.05; done'"
    )
    return submit(cluster, directory, command, gpus=gpus, task={"gpus": gpus}, **described)


def visible_gpus(cluster: Cluster, file: Path) -> set[str]:
    """Return the GPUs that a waiting job has."""
    cluster.until(file.exists, f"{file.name} is told")
    numbers, visible = file.read_text().split()
    assert numbers == visible
    return set(numbers.split(","))


def test_jobs_beside_each_other_have_different_gpus_and_another_waits(
    shared: Cluster, tmp_path: Path
) -> None:
    one, two = (waiting(shared, tmp_path, 2, name) for name in ("one", "two"))
    assert visible_gpus(shared, tmp_path / "one") | visible_gpus(shared, tmp_path / "two") == {
        "0",
        "1",
        "2",
        "3",
    }
    three = waiting(shared, tmp_path, 2, "three")
    assert shared.job(three)["state"] == "Queued"
    (tmp_path / "one.end").touch()
    assert shared.wait(one) == "Finished"
    assert visible_gpus(shared, tmp_path / "three") == visible_gpus(shared, tmp_path / "one")
    (tmp_path / "two.end").touch()
    (tmp_path / "three.end").touch()
    assert {shared.wait(two), shared.wait(three)} == {"Finished"}


def test_answers_and_programs_say_how_many_gpus_jobs_hold(shared: Cluster, tmp_path: Path) -> None:
    one = waiting(shared, tmp_path, 3, "one", suspendable=True)
    visible_gpus(shared, tmp_path / "one")
    node = shared.ask("node", node="red")["node"]
    assert (node["gpus"], node["gpus_held"]) == (4, 3)
    slurm = Programs(shared, tmp_path / "slurm", "--only", "slurm")
    pbs = Programs(shared, tmp_path / "pbs", "--only", "qsub")
    assert slurm.output("sinfo -h -O Gres,GresUsed", tmp_path).split() == ["gpu:4", "gpu:3"]
    shown = slurm.output("scontrol show node red", tmp_path)
    assert "Gres=gpu:4" in shown
    assert "billing=8,gres/gpu=4" in shown
    assert "AllocTRES=cpu=3,gres/gpu=3" in shown
    shown = pbs.output("pbsnodes red", tmp_path)
    assert "resources_available.ngpus = 4" in shown
    assert "resources_assigned.ngpus = 3" in shown
    shared.ask("suspend_job", job=one)
    shared.until(lambda: shared.job(one)["state"] == "Suspended", "it is suspended")
    assert shared.ask("node", node="red")["node"]["gpus_held"] == 3
    shared.ask("cancel_job", job=one, force=True)
    assert shared.wait(one) == "Canceled"
    whole = submit(shared, tmp_path, "sleep 600", exclusive=True)
    shared.until(lambda: shared.ask("node", node="red")["node"]["gpus_held"] == 4, "all are held")
    shared.ask("cancel_job", job=whole, force=True)
    assert shared.wait(whole) == "Canceled"
    assert shared.ask("node", node="red")["node"]["gpus_held"] == 0


def test_a_job_waits_for_gpu_minutes_of_its_user_and_runs_when_the_limit_is_raised(
    shared: Cluster, tmp_path: Path
) -> None:
    def limit(value: str) -> None:
        shared.ask("set_parameters", values={"UserLimits": value})

    limit("*:gpu-minutes=10")
    try:
        one = waiting(shared, tmp_path, 2, "one", run_time="4m")
        visible_gpus(shared, tmp_path / "one")
        two = waiting(shared, tmp_path, 2, "two", run_time="2m")
        slurm = Programs(shared, tmp_path / "slurm", "--only", "slurm")
        shared.until(
            lambda: slurm.output(f"squeue -h -j {two} -o '%t %r'", tmp_path) == "PD AssocGrpGRESMinutes",
            "it waits for its limit, and two GPUs are free",
        )
        limit("*:gpu-minutes=15")  # of which other tests have used some
        visible_gpus(shared, tmp_path / "two")
        (use,) = shared.ask("limits")["limits"]
        assert (use["amount"], use["limit"]) == ("gpu-minutes", 15)
        assert 12 <= use["used"] <= 15
        (tmp_path / "one.end").touch()
        (tmp_path / "two.end").touch()
        assert {shared.wait(one), shared.wait(two)} == {"Finished"}
        (use,) = shared.ask("limits")["limits"]
        assert 0 < use["used"] < 8
    finally:
        limit("")


def test_what_runs_beside_the_tasks_has_the_gpus_of_the_job(shared: Cluster, tmp_path: Path) -> None:
    other = waiting(shared, tmp_path, 1, "other")
    visible_gpus(shared, tmp_path / "other")
    job = submit(shared, tmp_path, "sleep 600", gpus=2, task={"gpus": 1})
    shared.until(lambda: shared.ask("tasks", job=job, states=["Running"])["tasks"], "it runs")
    words = ["job", "shell", "--job", str(job), "--", "echo $HEADNODE_GPUS"]
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{shared.state}/", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1,2\n", 0), done.stderr
    for each in (job, other):
        shared.ask("cancel_job", job=each, force=True)
        assert shared.wait(each) == "Canceled"


LOCKED = """
mkdir lock.$HEADNODE_GPUS || exit 3
echo $HEADNODE_GPUS $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER >> used
rmdir lock.$HEADNODE_GPUS
"""


@pytest.mark.parametrize(("instances", "pause"), [(12, "0.2"), (200, "0")])
def test_a_sweep_never_has_a_gpu_twice_at_the_same_time(
    shared: Cluster, tmp_path: Path, instances: int, pause: str
) -> None:
    (tmp_path / "script").write_text(LOCKED.replace("rmdir", f"sleep {pause}\nrmdir"))
    sweep = {"sweep": f"1-{instances}", "gpus": 1}
    job = submit(shared, tmp_path, "/bin/sh script", gpus=GPUS, task=sweep)
    assert shared.wait(job) == "Finished"
    used = (tmp_path / "used").read_text().splitlines()
    assert len(used) == instances
    assert set(used) == {f"{number} {number} PCI_BUS_ID" for number in range(GPUS)}
    assert "free GPUs" not in shared.nodes["red"].log.read_text()  # the head gives no more than there are


def test_a_job_alone_on_a_node_with_more_processors_has_each_gpu_once(
    shared: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "script").write_text(LOCKED.replace("rmdir", "sleep 0.1\nrmdir"))
    sweep = {"sweep": "1-24", "gpus": 1}
    job = submit(shared, tmp_path, "/bin/sh script", gpus=GPUS, exclusive=True, task=sweep)
    assert shared.wait(job) == "Finished"
    used = [line.split()[0] for line in (tmp_path / "used").read_text().splitlines()]
    assert (len(used), set(used)) == (24, {"0", "1", "2", "3"})
    assert "free GPUs" not in shared.nodes["red"].log.read_text()


def test_short_different_tasks_never_have_a_gpu_twice(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(LOCKED)
    task = {"command": "/bin/sh script", "work_directory": str(tmp_path), "gpus": 2}
    text = json.dumps({"gpus": GPUS, "processors_per_gpu": 2, "tasks": [task] * 60})
    job = int(shared.ask("submit_job", jobfile=text, dialect="native")["job"])
    assert shared.wait(job) == "Finished"
    used = [line.split()[0] for line in (tmp_path / "used").read_text().splitlines()]
    assert len(used) == 60
    assert set(used) == {"0,1", "2,3"}


def test_gpus_of_running_tasks_are_known_to_the_next_agent(shared: Cluster, tmp_path: Path) -> None:
    names = ("one", "two", "three")
    jobs = [waiting(shared, tmp_path, 1, name) for name in names]
    before = [visible_gpus(shared, tmp_path / name) for name in names]
    (tmp_path / "two.end").touch()
    assert shared.wait(jobs[1]) == "Finished"
    node = shared.nodes["red"]
    node.kill_agent()
    node.start_agent()
    shared.wait_for_nodes("Ready")
    four = waiting(shared, tmp_path, 2, "four")
    assert visible_gpus(shared, tmp_path / "four") == {"0", "1", "2", "3"} - before[0] - before[2]
    for name in ("one", "three", "four"):
        (tmp_path / f"{name}.end").touch()
    assert {shared.wait(job) for job in (jobs[0], jobs[2], four)} == {"Finished"}


def test_a_task_whose_files_are_taken_away_has_no_gpus_any_more(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    shared.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8", "TransferTimeout": "60"})
    with FaultyStorage(tmp_path / "storage") as storage:
        away = {"result": f"{storage.url}/held/result"}
        task = {"gpus": GPUS, "stage_out": away}
        first = submit(shared, tmp_path, "/bin/sh -c 'echo > result'", gpus=GPUS, task=task)
        shared.until(lambda: not shared.job(first)["allocated"], "the GPUs are given back")
        assert shared.job(first)["state"] not in ("Finished", "Failed")
        second = waiting(shared, tmp_path, GPUS, "second")
        assert visible_gpus(shared, tmp_path / "second") == {"0", "1", "2", "3"}
        assert shared.job(first)["state"] not in ("Finished", "Failed")
        (tmp_path / "second.end").touch()
        assert shared.wait(second) == "Finished"
        storage.hold.set()
        assert shared.wait(first) == "Finished"


def test_no_gpu_is_given_twice_while_agents_die(shared: Cluster, tmp_path: Path) -> None:
    script = LOCKED.replace("rmdir", "[ $((CCP_TASKINSTANCEID % 7)) != 0 ] || sleep 0.3\nrmdir")
    (tmp_path / "script").write_text(script)
    alone = {"sweep": "1-120", "gpus": 1, "rerunnable": False}
    jobs = [submit(shared, tmp_path, "/bin/sh script", gpus=2, task=alone) for _ in range(3)]
    node = shared.nodes["red"]
    for count in (20, 100, 180, 260):
        shared.until(lambda: lines(tmp_path / "used") >= count, f"{count} instances have run")  # noqa: B023
        node.kill_agent()
        node.start_agent()
    assert {shared.wait(job) for job in jobs} == {"Finished"}
    assert lines(tmp_path / "used") == 360
    assert "free GPUs" not in node.log.read_text()


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


SHOW = "/bin/sh -c 'echo \"[$HEADNODE_GPUS] [$CUDA_VISIBLE_DEVICES] [$CCP_GPUIDS]\" > shown'"


def test_a_task_without_gpus_sees_none_whatever_it_asks_for(shared: Cluster, tmp_path: Path) -> None:
    own = {"environment": {"CUDA_VISIBLE_DEVICES": "0", "HEADNODE_GPUS": "0"}}
    assert shared.wait(submit(shared, tmp_path, SHOW, task=own)) == "Finished"
    assert (tmp_path / "shown").read_text() == "[] [] []\n"


@pytest.mark.parametrize("whole", [{"exclusive": True}, {"nodes": 1, "task": {"nodes": 1}}])
def test_a_job_with_a_node_for_itself_sees_all_gpus(
    shared: Cluster, tmp_path: Path, whole: dict[str, Any]
) -> None:
    assert shared.wait(submit(shared, tmp_path, SHOW, **whole)) == "Finished"
    assert (tmp_path / "shown").read_text() == "[0,1,2,3] [0,1,2,3] [0 1 2 3]\n"


def test_batch_scripts_of_slurm_find_their_gpus(shared: Cluster, tmp_path: Path) -> None:
    own = {"gpus": 2, "task": {"gpus": 2}, "dialect": "slurm"}
    show = "/bin/sh -c 'echo $SLURM_JOB_GPUS $SLURM_GPUS_ON_NODE > shown'"
    assert shared.wait(submit(shared, tmp_path, show, **own)) == "Finished"
    assert (tmp_path / "shown").read_text() == "0,1 2\n"


LAUNCHING = """
for node in $(printf '%s\\n' $HEADNODE_HOSTS | uniq); do
  for turn in 1 2; do
    $HEADNODE_LAUNCH -n $node 'echo $HEADNODE_NODE $HEADNODE_GPUS $CUDA_VISIBLE_DEVICES >> shown'
  done
done
echo first $HEADNODE_GPUS >> shown
"""


def test_commands_on_the_nodes_of_a_task_have_its_gpus_of_that_node(tmp_path: Path) -> None:
    with cluster_on_loopback(tmp_path, ("red", "green"), free_address(), 4, ("--gpus", "2")) as cluster:
        (tmp_path / "script").write_text(LAUNCHING)
        beside = waiting(cluster, tmp_path, 1, "one", requested_nodes=["red"])
        assert visible_gpus(cluster, tmp_path / "one") == {"0"}
        job = submit(cluster, tmp_path, "/bin/sh script", gpus=3, task={"gpus": 3})
        assert cluster.wait(job) == "Finished"
        lines = sorted((tmp_path / "shown").read_text().splitlines())
        first = [line for line in lines if line.startswith("first")]
        assert first in (["first 1"], ["first 0,1"])
        assert lines == [*first, *["green 0,1 0,1"] * 2, *["red 1 1"] * 2]
        (tmp_path / "one.end").touch()
        assert cluster.wait(beside) == "Finished"
