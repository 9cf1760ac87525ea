"""The command line with a real head: up, work, down."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import hn

from headnode.adapters.files.local_daemons import nodes_here
from headnode.apps.client.client import Client
from headnode.apps.client.connection import MAX_REQUEST
from headnode.core.model.bounds import REQUEST
from headnode.core.model.errors import BadRequest

TIMEOUT = 30.0  # seconds

Hn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(state: Path) -> Hn:
    return lambda *words: hn(*words, state=state)


def submitted(run: Hn, *words: str) -> int:
    result = run("job", "submit", *words)
    assert result.returncode == 0, result.stderr
    found = re.fullmatch(r"Job has been submitted\. ID: (\d+)\.\n", result.stdout)
    assert found, result.stdout
    return int(found[1])


def document(run: Hn, *words: str) -> Any:
    result = run(*words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_second_up_says_that_a_head_runs(run: Hn) -> None:
    result = run("up")
    assert result.returncode == 0
    assert result.stdout.startswith("A head is running already: cluster test, process ")
    assert result.stderr == ""
    assert run("up", "--name", "other").stderr == (
        "hn: --name has no effect, because the head runs already; stop it first: hn down\n"
    )


def test_of_two_ups_at_the_same_moment_one_starts_a_head_and_both_succeed(tmp_path: Path) -> None:
    place = tmp_path / "both"
    words = [sys.executable, "-m", "headnode.apps.cli", "up", "--state", str(place), "--processors", "1"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "ab"]
    try:
        found = sorted(each.communicate(timeout=120)[0] for each in both)
        assert [each.returncode for each in both] == [0, 0]
        assert found[0].startswith("A head is running already: cluster ")
        assert found[1].startswith("Cluster ")
    finally:
        hn("down", state=place)


def test_a_queue_of_pbs_is_not_taken_for_a_program(run: Hn) -> None:
    refused = run("job", "submit", "-q", "no-such-program", "echo", "a")
    assert refused.returncode == 2
    assert "--jobtemplate no-such-program" in refused.stderr
    assert run("job", "submit", "-q", "default", "echo a").returncode == 2  # the name of a template
    assert run("job", "submit", "-q", "echo", "a").stdout.strip().isdigit()


def test_an_agent_that_has_joined_no_cluster_is_not_said_to_run(tmp_path: Path) -> None:
    refused = hn("agent", "--directory", str(tmp_path / "node"), state=tmp_path)
    assert refused.returncode == 1
    assert "has joined no cluster" in refused.stderr


def test_the_whole_line_of_an_invitation_may_be_pasted(tmp_path: Path) -> None:
    line = "hn agent --join no-such-host.invalid:1/x.y"
    words = ("agent", "--directory", str(tmp_path / "node"))
    assert (
        hn(*words, "--join", line, state=tmp_path).stderr
        == hn(*words, "--join", line[16:], state=tmp_path).stderr
    )


def test_processors_of_a_node_that_is_not_ready_are_not_called_free(run: Hn) -> None:
    (node,) = (each["name"] for each in document(run, "node", "list"))
    assert "2 total, 0 in use, 2 free\n" in run("cluster", "view").stdout
    assert run("node", "pause", node).returncode == 0
    assert "2 total, 0 in use, 0 free, 2 on nodes that are not ready\n" in run("cluster", "view").stdout
    assert run("node", "resume", node).returncode == 0


def test_submit_and_wait_gives_the_output_and_the_success_of_a_program(run: Hn) -> None:
    good = run("job", "submit", "--wait", "echo hello from %CCP_JOBID%")
    assert good.returncode == 0, good.stderr
    number = re.search(r"ID: (\d+)\.", good.stdout)
    assert number
    assert good.stdout.endswith(f"hello from {number[1]}\n")
    bad = run("job", "submit", "--wait", "sh", "-c", "echo no >&2; exit 3")
    assert bad.returncode == 1
    assert "failed: 1 task failed" in bad.stdout
    assert bad.stderr.endswith(".1 failed: the program ended with exit code 3\n")
    assert "; task 1 failed\n" in bad.stdout  # the reason is in the line of the task only


def test_who_waits_is_told_how_the_first_task_failed_and_where_to_see_the_others(run: Hn) -> None:
    failed = run("job", "submit", "--wait", "/workdir:/tmp", "/parametric:1-3", "test * -lt 2")
    number = re.search(r"ID: (\d+)\.", failed.stdout)
    assert number
    assert failed.stderr == (
        f"hn: task {number[1]}.1.2 failed: the program ended with exit code 1\n"
        f"hn: all that failed: hn job listtasks {number[1]} /state:failed /expandparametric\n"
    )
    assert run("job", "submit", "--wait", "--quiet", "false").stderr == ""


def test_arguments_reach_a_program_as_they_were_typed(run: Hn) -> None:
    result = run("job", "submit", "--wait", "printf", "%s|", "a b", "c'd", "$HOME", "*", "")
    assert result.stdout.endswith("\na b|c'd|$HOME|*||"), result.stdout + result.stderr


def test_a_sweep_runs_once_for_each_number(run: Hn) -> None:
    number = submitted(run, "/parametric:1-9:2", "/env:GREETING=hi", "sh", "-c", "echo $GREETING *")
    assert run("job", "wait", str(number)).returncode == 0
    assert run("task", "output", f"{number}.1.3").stdout == "hi 5\n"
    tasks = document(run, "job", "listtasks", str(number), "/expandparametric")
    assert [task["instance"] for task in tasks] == [None, 1, 2, 3, 4, 5]
    assert run("task", "output", f"{number}.1").stdout == "hi 1\nhi 3\nhi 5\nhi 7\nhi 9\n"


def test_a_flow_is_built_step_by_step(run: Hn) -> None:
    number = run("job", "new", "/jobname:flow").stdout.split()[3]
    run("job", "add", number, "/name:first", "echo one")
    run("job", "add", number, "/name:second", "/depend:first", "echo two")
    assert run("job", "submit", f"/id:{number}").returncode == 0
    assert run("job", "wait", number).stdout.startswith(f"Job {number} 'flow' finished: 2 tasks finished")
    first, second = document(run, "job", "listtasks", number)
    assert second["started"] >= first["ended"]
    assert "State                   : Finished\n" in run("task", "view", f"{number}.2").stdout


def test_a_job_that_waits_is_explained_and_can_be_changed_and_canceled(run: Hn) -> None:
    blocker = submitted(run, "/numprocessors:2", "/runtime:10", "sleep 600")
    waiting = submitted(run, "/numprocessors:2", "/jobname:patient", "true")
    result = run("job", "explain", str(waiting)).stdout
    assert result.startswith(f'Job {waiting} "patient" of ')
    assert "Why it waits\n  - " in result
    assert "It would start now\n" not in result  # both processors are taken, whatever it asks for
    assert document(run, "job", "explain", str(waiting))["reasons"]
    assert "has been modified: priority." in run("job", "modify", str(waiting), "/priority:Highest").stdout
    assert document(run, "job", "view", str(waiting))["priority_name"] == "Highest"
    again = run("job", "modify", str(waiting), "/priority:Highest").stdout
    assert again == f"Job {waiting} is unchanged: it has these values already.\n"
    listed = [job["id"] for job in document(run, "job", "list")]
    assert {blocker, waiting} <= set(listed)
    wait_until(lambda: document(run, "job", "view", str(blocker))["tasks"]["running"] == 1)
    assert run("job", "cancel", str(blocker), "/force", "/message:enough").returncode == 0
    assert run("job", "wait", str(blocker)).returncode == 1
    assert run("job", "wait", str(waiting)).returncode == 0


def test_a_dry_run_shows_what_would_be_and_leaves_nothing(run: Hn, tmp_path: Path) -> None:
    journal = document(run, "cluster", "view")["journal"]["events"]
    jobs = run("job", "list", "/state:*", "/all", "--quiet").stdout
    good = run("job", "submit", "--dry-run", "/jobname:try", "/numprocessors:2", "true")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith('Nothing was submitted. The job "try" would start at once, on ')
    file = tmp_path / "job.xml"
    file.write_text('<Job><Tasks><Task CommandLine="true"/></Tasks></Job>')
    assert document(run, "job", "submit", "/dryrun", f"/jobfile:{file}")["explanation"]["would_start"]
    for words, status in (
        (["/numprocessors:64", "true"], 2),
        (["/runtime:soon", "true"], 2),
        (["/parentjobids:99999", "true"], 1),
        (["--wait", "true"], 2),
        (["/id:99999"], 1),
    ):
        result = run("job", "submit", "--dry-run", *words)
        assert (result.returncode, result.stdout) == (status, ""), words
        assert re.fullmatch(r"hn: .+\n", result.stderr)
    assert document(run, "cluster", "view")["journal"]["events"] == journal
    assert run("job", "list", "/state:*", "/all", "--quiet").stdout == jobs


def test_a_dry_run_without_a_head_says_what_can_be_done(tmp_path: Path) -> None:
    result = hn("job", "submit", "--dry-run", "true", state=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("hn: a dry run needs a head, and ")
    assert "start one with: hn up" in result.stderr
    file = hn("job", "submit", "--dry-run", f"/jobfile:{Path(__file__)}", state=tmp_path)
    assert f"hn check {Path(__file__)}" in file.stderr


def test_output_is_followed_while_a_task_runs(run: Hn) -> None:
    script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; echo three >&2"
    number = submitted(run, f"/workdir:{_folder(run)}", "sh", "-c", script)
    wait_until(lambda: run("task", "view", f"{number}.1", "/peekoutput").stdout.rstrip().endswith(": one"))
    (_folder(run) / "go").touch()
    assert run("task", "output", f"{number}.1", "--follow").stdout == "one\ntwo\nthree\n"


def test_a_job_goes_around_as_a_file(run: Hn, tmp_path: Path) -> None:
    number = submitted(run, "/jobname:around", "/priority:Lowest", "echo round")
    file = tmp_path / "job.xml"
    file.write_text(run("job", "export", str(number)).stdout)
    assert run("check", str(file)).returncode == 0
    again = submitted(run, f"/jobfile:{file}", "/jobname:again")
    assert run("job", "wait", str(again)).stdout.startswith(f"Job {again} 'again' finished")
    assert document(run, "job", "view", str(again))["priority_name"] == "Lowest"


def test_the_node_and_its_processors_are_shown(run: Hn) -> None:
    (node,) = document(run, "node", "list")
    assert (node["processors"], node["state"]) == (2, "Ready")
    assert run("node", "view", node["name"]).stdout.startswith(f"Node Name               : {node['name']}\n")
    number = submitted(run, "sleep 600")
    wait_until(lambda: f"TaskRunning      {number} " in run("node", "listcores").stdout)
    run("job", "cancel", str(number), "/force")
    assert run("node", "pause", node["name"]).stdout == f"Node {node['name']} has been paused.\n"
    assert document(run, "node", "list", "/state:ready") == []
    assert run("node", "resume", node["name"]).returncode == 0


def test_the_head_refuses_what_it_cannot_do(run: Hn) -> None:
    for words, status in (
        (["job", "view", "999999"], 1),
        (["job", "submit", "/priority:4001", "true"], 2),
        (["job", "submit", "/numprocessors:64", "true"], 2),
        (["job", "submit", "/runtime:soon", "true"], 2),
        (["node", "view", "nowhere"], 1),
        (["cluster", "params", "HeartbeatInterval=often"], 2),
    ):
        result = run(*words)
        assert (result.returncode, result.stdout) == (status, ""), words
        assert re.fullmatch(r"hn: .+\n", result.stderr)


def test_a_request_beyond_the_bound_is_refused_before_it_is_sent(state: Path) -> None:
    assert REQUEST.most == MAX_REQUEST
    with pytest.raises(BadRequest, match="the limit is 16,777,216"):
        Client(str(state)).ask(
            "submit_job", tasks=[{"command": "true"}], terms={"jobname": "x" * REQUEST.most}
        )


def test_a_head_without_nodes_comes_up_and_goes_down(tmp_path: Path) -> None:
    up = hn("up", "--nodes", "0", state=tmp_path)
    assert "  add a node   hn node invite --approve\n  first job " in up.stdout, up.stderr
    result = hn("job", "submit", "true", state=tmp_path)
    assert result.returncode == 0, result.stderr
    down = hn("down", state=tmp_path)
    assert (down.stdout, down.returncode) == ("The head has ended.\n", 0)
    assert "start one with: hn up" in hn("job", "list", state=tmp_path).stderr
    assert hn("up", "--nodes", "0", state=tmp_path).returncode == 0
    assert hn("job", "list", "--quiet", state=tmp_path).stdout == "1\n"
    assert hn("down", state=tmp_path).returncode == 0


def test_a_head_that_is_started_again_without_a_word_has_the_nodes_it_had(tmp_path: Path) -> None:
    assert hn("up", "--nodes", "2", "--processors", "3", state=tmp_path).returncode == 0
    assert hn("down", state=tmp_path).returncode == 0
    result = hn("up", state=tmp_path)
    assert ": 2 nodes, 6 processors." in result.stdout, result.stderr
    assert "add a node" not in result.stdout
    assert hn("down", state=tmp_path).returncode == 0


def test_who_says_how_many_nodes_run_here_gets_all_processors_in_each(tmp_path: Path) -> None:
    assert nodes_here(tmp_path, None, None) == (1, None)
    assert nodes_here(tmp_path, 2, 3) == nodes_here(tmp_path, None, None) == (2, 3)
    assert nodes_here(tmp_path, 2, None) == nodes_here(tmp_path, None, None) == (2, None)
    assert nodes_here(tmp_path, None, 4) == (1, 4)
    assert nodes_here(tmp_path, 0, None) == nodes_here(tmp_path, None, None) == (0, None)
    (tmp_path / "nodes-here").write_text("three")
    with pytest.raises(BadRequest, match="nodes-here"):
        nodes_here(tmp_path, None, None)


def test_a_head_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "journal.db").mkdir()
    result = hn("up", "--nodes", "0", state=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("hn: the head ended with status ")
    assert "\n  | " in result.stderr


def _folder(run: Hn) -> Path:
    folder = Path(document(run, "cluster", "view")["state_directory"]).parent / "work"
    folder.mkdir(exist_ok=True)
    return folder


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


HOLDS = """
import signal, sys
from pathlib import Path
from headnode.adapters.files import local_daemons
lock = local_daemons.take_agent_lock(Path(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("held", flush=True)
signal.pause()
"""


def test_an_agent_is_stopped_by_its_directory_and_by_nothing_else(tmp_path: Path) -> None:
    result = hn("agent", "--stop", "--directory", str(tmp_path), state=tmp_path)
    assert (result.returncode, result.stderr) == (0, f"hn: no agent runs in {tmp_path}\n")
    agent = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    assert agent.stdout.readline() == "held\n"
    result = hn("agent", "--stop", "--directory", str(tmp_path), "--quiet", state=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"{agent.pid}\n")
    assert agent.wait(timeout=TIMEOUT) == 7
    agent.stdout.close()
    result = hn("agent", "--stop", "--directory", str(tmp_path), state=tmp_path)
    assert result.stderr == f"hn: no agent runs in {tmp_path}\n"
