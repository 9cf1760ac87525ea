"""Signals reach the processes of jobs: before their run time limit, and when their owner sends them."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from batch_programs import Programs

import headnode
from headnode.apps.cli.batch_programs.programs import run_as
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from heads import RealHead, shared_head_fixture
from testbed.other_users import being, open_to_all

NOBODY = 65534
SOURCE = Path(headnode.__file__).parents[1]
CATCHES = "trap 'exit {code}' {signal}; : > {folder}/ready; while :; do sleep 0.05; done"

head = shared_head_fixture(nodes=2)


def catching(folder: Path, signal: str = "USR1", code: int = 7) -> str:
    return CATCHES.format(code=code, signal=signal, folder=folder)


def submit(head: RealHead, *tasks: dict[str, Any], **job: Any) -> int:
    described = json.dumps({"tasks": list(tasks)} | job)
    return int(head.ask("submit_job", jobfile=described, dialect="native")["job"])


def until_there(head: RealHead, *files: Path) -> None:
    head.until(lambda: all(file.exists() for file in files))


def test_a_job_gets_its_signal_before_its_run_time_limit_is_over(head: RealHead, tmp_path: Path) -> None:
    job = submit(head, {"command": catching(tmp_path)}, run_time="5s", signal="USR1@3")
    ended = head.wait(job)
    assert (ended["state"], head.task(job)["exit_code"]) == ("Failed", 7)
    assert ended["ended"] - ended["started"] >= 2, "it came too early"


def test_what_shows_a_job_shows_its_signal(
    head: RealHead, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    programs = Programs(head, tmp_path_factory.mktemp("slurm"), "--only", "slurm")
    job = programs.output("sbatch --parsable -H -t 10 --signal B:USR1@120 --wrap true", tmp_path)
    other = programs.output("sbatch --parsable -H -t 10 --wrap true", tmp_path)
    shown = ": USR1, 120 s before the limit, to the first process of each task\n"
    for command in ("hn job view", "hn job view --detailed"):
        output = programs.output(f"{command} {job}", tmp_path)
        assert output.count("Signal") == output.count(shown) == 1
    assert "Signal=B:USR1@120" in programs.output(f"scontrol show job {job}", tmp_path)
    for command in ("hn job view", "scontrol show job"):
        assert "Signal" not in programs.output(f"{command} {other}", tmp_path)
    programs.output(f"scancel {job} {other}", tmp_path)


def test_a_job_without_a_signal_is_ended_by_its_limit(head: RealHead, tmp_path: Path) -> None:
    job = submit(head, {"command": catching(tmp_path)}, run_time="2s")
    assert head.wait(job)["state"] == "Canceled"
    assert head.task(job)["exit_code"] != 7


def test_a_task_gets_the_signal_of_its_job_before_its_own_limit(head: RealHead, tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    limited = {"command": catching(tmp_path / "short"), "run_time": "4s"}
    job = submit(head, limited, {"command": catching(tmp_path, code=8)}, run_time="1h", signal="USR1@3")
    head.until(lambda: head.task(job, 1)["state"] == "Failed")
    assert head.task(job, 1)["exit_code"] == 7
    assert head.task(job, 2)["state"] == "Running"
    head.ask("cancel_job", job=job, force=True)


def test_a_limit_that_moves_moves_the_signal(head: RealHead, tmp_path: Path) -> None:
    job = submit(head, {"command": catching(tmp_path)}, run_time="1h", signal="USR1@3598")
    until_there(head, tmp_path / "ready")
    head.ask("modify_job", job=job, terms={"runtime": "2h"})
    head.ask("modify_job", job=job, terms={"runtime": "1h"})
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["exit_code"] == 7


def test_time_in_which_a_job_is_suspended_does_not_count_for_its_signal(
    head: RealHead, tmp_path: Path
) -> None:
    job = submit(head, {"command": catching(tmp_path)}, run_time="5s", signal="USR1@2", suspendable=True)
    until_there(head, tmp_path / "ready")
    head.ask("suspend_job", job=job)
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Suspended")
    other = head.submit("sleep 3.5")
    head.wait(other)
    head.ask("resume_job", job=job)
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["exit_code"] == 7


WORKER = "sh -c 'trap \"echo {1}\" USR1; : > {0}/{1}; until [ -e {0}/end ]; do sleep 0.05; done' & "
SCRIPT = "trap 'echo script' USR1; {}SLURM_STEP_ID=0 {}until [ -e {}/end ]; do sleep 0.05; done; wait"


@pytest.mark.parametrize(
    ("target", "texts"),
    [("all", {"script", "child", "step"}), ("program", {"script"}), ("steps", {"step"})],
)
def test_the_processes_that_are_meant_get_the_signal(
    head: RealHead, tmp_path: Path, target: str, texts: set[str]
) -> None:
    workers = [WORKER.format(tmp_path, word) for word in ("child", "step")]
    job = submit(head, {"command": SCRIPT.format(*workers, tmp_path)})
    until_there(head, tmp_path / "child", tmp_path / "step")
    answer = head.ask("signal_job", job=job, signal="SIGUSR1", target=target)
    assert answer["signal"] == "USR1"
    assert answer["processes"] >= len(texts)
    assert answer["silent"] == []
    words = {"script", "child", "step"}
    head.until(lambda: texts <= set(head.output(job).split()))
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] in ("Finished", "Failed")
    assert set(head.output(job).split()) & words == texts


def test_a_task_and_an_instance_alone_get_a_signal(head: RealHead, tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(1, 4)]
    for place in places:
        place.mkdir()
    sweep = {"command": catching(tmp_path / "*"), "sweep": "1-2"}
    job = submit(head, sweep, {"command": catching(places[2])})
    until_there(head, *(place / "ready" for place in places))
    head.until(lambda: head.task(job, 1, 1)["state"] == "Running")
    head.ask("signal_job", job=job, signal="10", task=1, instance=2)
    head.until(lambda: head.task(job, 1, 2)["state"] == "Failed")
    assert head.task(job, 1, 1)["state"] == "Running"
    head.ask("signal_job", job=job, signal="USR1", task=2)
    head.until(lambda: head.task(job, 2)["state"] == "Failed")
    assert head.task(job, 1, 1)["state"] == "Running"
    head.ask("cancel_job", job=job, force=True)


def test_a_signal_goes_to_all_nodes_of_a_job(head: RealHead, tmp_path: Path) -> None:
    command = catching(tmp_path).replace("ready", "ready-$HEADNODE_TASK")
    job = submit(head, *[{"command": command, "processors": 2}] * 2, together=True)
    head.until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
    answer = head.ask("signal_job", job=job, signal="USR1")
    assert len(answer["nodes"]) == 2
    assert head.wait(job)["state"] == "Failed"
    assert {head.task(job, task)["exit_code"] for task in (1, 2)} == {7}


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(HeadnodeError) as caught:
        ask()
    return caught.value.code


def test_what_cannot_get_a_signal_is_refused(head: RealHead, tmp_path: Path) -> None:
    job = submit(head, {"command": catching(tmp_path)})
    until_there(head, tmp_path / "ready")
    ask = head.ask
    assert refusal(lambda: ask("signal_job", job=job, signal="NOSUCH")) == "signal"
    assert refusal(lambda: ask("signal_job", job=job, signal="USR1", task=9)) == "no-such-task"
    assert refusal(lambda: ask("signal_job", job=job, signal="USR1", instance=1)) == "signal"
    assert refusal(lambda: ask("signal_job", job=10_000_000, signal="USR1")) == "no-such-job"
    ask("cancel_job", job=job, force=True)
    head.wait(job)
    assert refusal(lambda: ask("signal_job", job=job, signal="USR1")) == "not-running"
    terms = {"runtime": "1m", "signal": "USR1@60"}
    assert refusal(lambda: head.submit("sleep 1", terms=terms)) == "signal"
    assert refusal(lambda: head.submit("sleep 1", terms={"signal": "X:USR1"})) == "signal"


def test_steps_on_two_nodes_get_the_signal_and_srun_goes_on_with_them(head: RealHead, tmp_path: Path) -> None:
    step = f"trap 'echo $SLURM_PROCID >> {tmp_path}/got' USR2; : > {tmp_path}/step$SLURM_PROCID; "
    step += f"until [ -e {tmp_path}/end ]; do sleep 0.05; done"
    (tmp_path / "step.sh").write_text(step)
    srun = f"{sys.executable} -m headnode.apps.cli compat run srun sh {tmp_path}/step.sh"
    script = f"#!/bin/sh\n#SBATCH -N 2 -n 4\ntrap : USR2\nexport PYTHONPATH={SOURCE}\n{srun}\n"
    job = int(head.ask("submit_job", jobfile=script, dialect="slurm")["job"])
    until_there(head, *(tmp_path / f"step{rank}" for rank in range(4)))
    for target in ("steps", "all"):
        (tmp_path / "got").unlink(missing_ok=True)
        head.ask("signal_job", job=job, signal="USR2", target=target)
        got = tmp_path / "got"
        head.until(lambda got=got: got.exists() and set(got.read_text().split()) == {"0", "1", "2", "3"})
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"


@pytest.fixture(scope="module")
def pbs(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(head, tmp_path_factory.mktemp("pbs"), "--only", "qsub")


def test_qsig_signals_jobs_and_elements_of_arrays(head: RealHead, pbs: Programs, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one.sh").write_text(catching(tmp_path / "one"))
    name = pbs.output("qsub one.sh", tmp_path)
    job = int(name.partition(".")[0])
    until_there(head, tmp_path / "one" / "ready")
    assert pbs.output(f"qsig -s 0 {name}", tmp_path) == ""
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    assert pbs.output(f"qsig -s SIGUSR1 {name}", tmp_path) == ""
    assert head.wait(job)["state"] == "Failed"
    assert head.task(job)["exit_code"] == 7
    (tmp_path / "many.sh").write_text(catching(tmp_path, code=9).replace("ready", "ready$PBS_ARRAY_INDEX"))
    array = pbs.output("qsub -J 3-4 many.sh", tmp_path)
    number = int(array.partition("[")[0])
    until_there(head, tmp_path / "ready3", tmp_path / "ready4")
    pbs.output(f"qsig -sUSR1 {number}[4]", tmp_path)
    head.until(lambda: head.task(number, 1, 2)["state"] == "Failed")
    assert head.task(number, 1, 2)["exit_code"] == 9
    assert head.task(number, 1, 1)["state"] == "Running"
    pbs.output(f"qsig {array}", tmp_path)
    assert head.wait(number)["state"] == "Failed"
    assert head.task(number, 1, 1)["signal"] == 15


def test_qsig_suspends_and_resumes_for_operators_only(
    head: RealHead, pbs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = submit(head, {"command": catching(tmp_path)}, suspendable=True)
    until_there(head, tmp_path / "ready")
    pbs.output(f"qsig -s suspend {job}", tmp_path)
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Suspended")
    pbs.output(f"qsig -s resume {job}", tmp_path)
    head.until(lambda: head.ask("job", job=job)["job"]["state"] == "Running")
    open_to_all(head.state)
    for word in ("suspend", "USR1"):
        with being(NOBODY), closing(Client(str(head.state))) as client:
            assert run_as("qsig", ["-s", word, str(job)], client) == 159
        assert capsys.readouterr().err.startswith(f"qsig: Unauthorized Request  {job}\n")
    assert head.ask("job", job=job)["job"]["state"] == "Running"
    head.ask("cancel_job", job=job, force=True)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("", 2, "no job was named"),
        ("-x 1", 2, "invalid option -- 'x'"),
        ("-s NOSUCH {waits}", 165, "Unknown/illegal signal name {waits}"),
        ("999999.x", 153, "Unknown Job Id 999999.x"),
        ("-s 0 {waits}", 168, "Request invalid for state of job {waits}"),
        ("{waits}", 168, "Request invalid for state of job {waits}"),
        ("-s suspend {waits}", 168, "Request invalid for state of job {waits}"),
        ("-s suspend {waits}[3]", 168, "name the whole job"),
    ],
)
def test_qsig_says_why_a_signal_was_not_sent(
    pbs: Programs, tmp_path: Path, words: str, status: int, text: str
) -> None:
    waits = pbs.output("echo true | qsub -h", tmp_path).partition(".")[0]
    done = pbs.run("qsig " + words.format(waits=waits), tmp_path)
    assert (done.returncode, text.format(waits=waits) in done.stderr) == (status, True), done
    pbs.output(f"qdel {waits}", tmp_path)


def test_notify_of_grid_engine_sends_usr2_before_the_run_time_limit(
    head: RealHead, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    engine = Programs(head, tmp_path_factory.mktemp("sge"), "--only", "qsub", "--qsub", "gridengine")
    (tmp_path / "job.sh").write_text("#$ -notify -h -l h_rt=300\n" + catching(tmp_path, signal="USR2"))
    job = int(engine.output("qsub -terse job.sh", tmp_path))
    head.ask("modify_job", job=job, terms={"runtime": "62s"})
    engine.output(f"qrls {job}", tmp_path)
    ended = head.wait(job)
    assert (ended["state"], head.task(job)["exit_code"]) == ("Failed", 7)
    assert ended["ended"] - ended["started"] < 50
