"""Commands on many nodes at once: what comes back, who may, and that nothing of them is left."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headnode.core.model.errors import HeadnodeError
from testbed.clusters import Cluster, cluster_on_loopback
from testbed.processes import alive, free_address, until, until_ended

NODES = ("n1", "n2", "n10")
running = partial(alive, without="run")  # commands, not those of hn that began them
nothing_runs = partial(until_ended, without="run")
TIMEOUT = 40.0  # seconds for anything that must happen


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that joined over TLS; each test leaves them as they were."""
    with cluster_on_loopback(tmp_path_factory.mktemp("everywhere"), NODES, free_address()) as made:
        made.ask("modify_node", node="n2", groups=["gpu", "big"])
        yield made
        until(lambda: not kept(made), "no trace of any command is there")


def hn(cluster: Cluster, *words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{cluster.state}/", *words]
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False, **more)


def begun(cluster: Cluster, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "headnode.apps.cli", "--state", f"{cluster.state}/", "run", *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kept(cluster: Cluster) -> list[Path]:
    """Return what the nodes keep of commands outside the queue."""
    states = [node.state for node in cluster.nodes.values()]
    return [path for state in states for folder in ("jobs", "output") for path in (state / folder).glob("-*")]


def sleeper(seconds: int) -> str:
    """Return a command whose process can be told from all others by its argument."""
    return f"sleep {seconds}"


def test_each_node_has_a_block_and_the_summary_is_as_scripts_look_for_it(cluster: Cluster) -> None:
    done = hn(cluster, "run", "/sorted", "echo $HEADNODE_NODE; echo wrong >&2; test $HEADNODE_NODE != n2")
    text = done.stdout.decode()
    rule = "-" * 26
    assert text == (
        f"{rule} n1 returns 0 {rule}\nn1\nwrong\n"
        f"{rule} n2 returns 1 {rule}\nn2\nwrong\n"
        f"{rule} n10 returns 0 {rule}\nn10\nwrong\n"
        f"\r\n{rule} Summary {rule}\n2 Nodes succeeded\n1 Nodes failed\n"
    )
    assert done.returncode == 1
    # The expressions of a program that reads clusrun.
    assert re.search(r"\r\n?-+\s+Summary\s+-+", text)
    assert re.search(r"([0-9]+)\s+Nodes\s+succeeded\n([0-9]+)\s+Nodes\s+failed", text)
    assert re.findall(r"-+\s+(.+)\s+returns\s+([0-9]+)\s+-+", text) == [
        ("n1", "0"),
        ("n2", "1"),
        ("n10", "0"),
    ]


def test_exit_status_is_zero_only_if_it_succeeded_everywhere(cluster: Cluster) -> None:
    assert hn(cluster, "run", "/all", "true").returncode == 0
    assert hn(cluster, "run", "test $HEADNODE_NODE = n1").returncode == 1


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        (["/nodes:n[1-2]"], ["n1", "n2"]),
        (["/nodes:n[1-2,10]!n2"], ["n1", "n10"]),
        (["--nodes", "@gpu,n10"], ["n2", "n10"]),
        (["/nodegroup:big,nothing"], ["n2"]),
        (["/nodestate:ready", "/exclude:@gpu"], ["n1", "n10"]),
        (["/all", "/exclude:n[1-9]"], ["n10"]),
        (["/nodegroup:gpu", "/nodes:n1,n2"], ["n2"]),
    ],
)
def test_nodes_are_chosen_by_set_group_and_state(
    cluster: Cluster, options: list[str], meant: list[str]
) -> None:
    done = json.loads(hn(cluster, "run", *options, "/json", "true").stdout)
    assert sorted(each["node"] for each in done["nodes"]) == sorted(meant)


def test_nodes_of_a_running_job_and_of_its_task_are_meant(cluster: Cluster) -> None:
    job = cluster.submit("sleep 4711", terms={"requestednodes": "n2"})
    cluster.until(lambda: cluster.job(job)["state"] == "Running", "the job runs")
    try:
        for option in (f"/job:{job}", f"/task:{job}.1"):
            done = json.loads(hn(cluster, "run", option, "/json", "true").stdout)
            assert [each["node"] for each in done["nodes"]] == ["n2"]
    finally:
        cluster.ask("cancel_job", job=job, force=True)
    cluster.wait(job)
    assert b"does not run" in hn(cluster, "run", f"/job:{job}", "true").stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["/nodes:n7"], b"there is no node 'n7'"),
        (["/nodes:n[1-"], b"is not a set of nodes"),
        (["/nodes:n[1-99999999999]"], b"more than 100000 numbers"),
        (["/nodestate:asleep"], b"'asleep' is not a state of a node"),
        (["/nodestate:paused"], b"these options together select no node"),
        (["/template:Compute"], b"nodes have no templates here"),
        (["/user:nobody-of-that-name"], b"knows no user 'nobody-of-that-name'"),
        (["/timeout:soon"], b"takes seconds"),
        (["/all", "/nodes:n1"], b"all nodes were chosen"),
        (["/stdin:/nowhere"], b"'/nowhere' cannot be read"),
    ],
)
def test_what_means_nothing_is_refused_and_nothing_runs(
    cluster: Cluster, options: list[str], says: bytes, tmp_path: Path
) -> None:
    done = hn(cluster, "run", *options, f"touch {tmp_path}/ran")
    assert says in done.stderr
    assert done.returncode in (1, 2)
    assert not (tmp_path / "ran").exists()


def test_directory_and_variables_are_as_asked(cluster: Cluster, tmp_path: Path) -> None:
    options = (f"/workdir:{tmp_path}", "/env:ONE=1;TWO=two words", "/env:THREE=3", "/nodes:n1")
    done = json.loads(hn(cluster, "run", *options, "/json", 'pwd; echo "$ONE $TWO $THREE"').stdout)
    assert done["nodes"][0]["output"] == f"{tmp_path}\n1 two words 3\n"


def test_words_behind_the_command_stay_words(cluster: Cluster) -> None:
    done = json.loads(hn(cluster, "run", "/nodes:n1", "/json", "printf", "<%s>", "a b", "$HOME").stdout)
    assert done["nodes"][0]["output"] == "<a b><$HOME>"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs as others")
def test_another_user_runs_it_and_nobody_but_administrators_may_ask(cluster: Cluster) -> None:
    done = json.loads(hn(cluster, "run", "/user:nobody", "/workdir:/", "/nodes:n1", "/json", "id -un").stdout)
    assert done["nodes"][0]["output"] == "nobody\n"
    refused = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", _ASK],
        user="nobody",
        cwd=cluster.state,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert json.loads(refused.stdout)["code"] == "not-administrator"


_ASK = """
import json, socket
ask = json.dumps({"verb": "run_on_nodes", "command": "id"}).encode()
with socket.socket(socket.AF_UNIX) as head:
    head.connect("head.sock")
    head.sendall(len(ask).to_bytes(4, "big") + ask)
    print(head.recv(65536)[4:].decode())
"""


def test_what_it_reads_goes_to_every_node_whole(cluster: Cluster, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(3_000_000))
    expected = subprocess.run(["sha256sum"], input=sent.read_bytes(), capture_output=True, check=True).stdout
    from_file = json.loads(hn(cluster, "run", f"/stdin:{sent}", "/json", "/fanout:2", "sha256sum").stdout)
    assert {each["output"] for each in from_file["nodes"]} == {expected.decode()}
    piped = json.loads(hn(cluster, "run", "/stdin:-", "/json", "sha256sum", input=sent.read_bytes()).stdout)
    assert {each["output"] for each in piped["nodes"]} == {expected.decode()}
    assert piped["succeeded"] == len(NODES)
    of_pipe = hn(cluster, "run", "/stdin:/dev/stdin", "/json", "sha256sum", input=sent.read_bytes())
    assert {each["output"] for each in json.loads(of_pipe.stdout)["nodes"]} == {expected.decode()}


def test_a_command_that_does_not_read_its_input_holds_up_nobody(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "much").write_bytes(bytes(5_000_000))
    done = hn(cluster, "run", f"/stdin:{tmp_path}/much", "true")
    assert done.returncode == 0, done.stderr


def test_much_output_comes_whole_and_a_slow_reader_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    command = "head -c 8000000 /dev/zero | tr '\\0' x; echo"
    assert hn(cluster, "run", f"/outputdir:{tmp_path}/out", command).returncode == 0
    for node in NODES:
        assert (tmp_path / "out" / f"{node}.txt").read_bytes() == b"x" * 8_000_000 + b"\n"


def test_interleaved_lines_carry_the_name_of_their_node(cluster: Cluster) -> None:
    done = hn(cluster, "run", "/interleaved", "echo out; printf half; echo err >&2; exit 3")
    for node in NODES:
        assert f"{node}: out\n".encode() in done.stdout
        assert f"{node}: half\n".encode() in done.stdout
        assert f"{node}: err\n".encode() in done.stderr
        assert f"hn: {node} returns 3\n".encode() in done.stderr
    assert done.stdout.endswith(b"0 Nodes succeeded\n3 Nodes failed\n")


def test_no_more_than_asked_for_run_at_a_time(cluster: Cluster, tmp_path: Path) -> None:
    command = f"mkdir {tmp_path}/alone && sleep 0.1 && rmdir {tmp_path}/alone"
    assert hn(cluster, "run", "/fanout:1", command).returncode == 0


def test_verbs_about_nodes_take_sets_of_them(cluster: Cluster) -> None:
    assert hn(cluster, "node", "pause", "n[1-2]").stdout.count(b"paused") == 2
    assert hn(cluster, "node", "resume", "n[1-10]!n[3-9]").stdout.count(b"Node n") == 3
    assert set(cluster.node_states().values()) == {"Ready"}
    assert b"is not a set of nodes" in hn(cluster, "node", "pause", "n[1-").stderr


def test_paused_and_draining_nodes_run_it_like_others(cluster: Cluster) -> None:
    cluster.ask("pause_node", node="n1")
    cluster.ask("drain_node", node="n2")
    try:
        done = hn(cluster, "run", "true")
        assert done.stdout.endswith(b"3 Nodes succeeded\n0 Nodes failed\n")
    finally:
        for node in ("n1", "n2"):
            cluster.ask("resume_node", node=node)


def test_what_takes_too_long_is_killed_with_all_it_started(cluster: Cluster) -> None:
    done = hn(cluster, "run", "/timeout:1", "/nodes:n1", f"{sleeper(98101)} & setsid {sleeper(98102)}; wait")
    assert b"n1 returns 255" in done.stdout
    assert b"did not end within 1 s" in done.stdout
    nothing_runs("98101", "98102")


def test_what_it_leaves_behind_is_ended_with_it(cluster: Cluster) -> None:
    assert hn(cluster, "run", f"setsid {sleeper(98103)} > /dev/null 2>&1 & exit 0").returncode == 0
    nothing_runs("98103")


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_the_end_of_hn_ends_it_everywhere(cluster: Cluster, how: signal.Signals, status: int) -> None:
    mark = str(98110 + how)
    with begun(cluster, sleeper(int(mark))) as client:
        until(lambda: len(running(mark)) >= len(NODES), "it runs everywhere")
        client.send_signal(how)
        assert client.wait(TIMEOUT) == status
        client.communicate()
    nothing_runs(mark)


def test_a_command_that_minds_no_signal_is_ended_all_the_same(cluster: Cluster) -> None:
    with begun(cluster, f"trap '' TERM HUP INT; {sleeper(98120)}; {sleeper(98121)}") as client:
        until(lambda: len(running("98120")) >= len(NODES), "it runs everywhere")
        client.kill()
        client.communicate()
    nothing_runs("98120", "98121")


def test_nothing_of_it_is_kept_on_a_node(cluster: Cluster) -> None:
    hn(cluster, "run", "echo kept")

    until(lambda: not kept(cluster), "no trace of it is there")


def test_a_node_that_cannot_be_reached_counts_as_failed_with_its_reason(cluster: Cluster) -> None:
    cluster.nodes["n2"].kill_agent()
    cluster.wait_for_nodes("Unreachable", "n2")
    try:
        done = hn(cluster, "run", "/sorted", "echo here")
        assert b"n2 returns 255 --------------------------\nhn: node n2 is unreachable\n" in done.stdout
        assert done.stdout.endswith(b"2 Nodes succeeded\n1 Nodes failed\n")
        assert done.returncode == 1
    finally:
        cluster.nodes["n2"].start_agent()
        cluster.wait_for_nodes("Ready")


def test_a_node_that_goes_away_fails_and_the_others_go_on(cluster: Cluster, tmp_path: Path) -> None:
    command = f"{sleeper(98130)} & while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; kill $!"
    with begun(cluster, "/json", command) as client:
        until(lambda: len(running("98130")) >= len(NODES), "it runs everywhere")
        cluster.nodes["n10"].kill_agent()
        cluster.wait_for_nodes("Unreachable", "n10")
        until(lambda: len(running("98130")) < len(NODES), "it has ended where the agent has")
        (tmp_path / "go").touch()
        done = json.loads(client.communicate(timeout=TIMEOUT)[0])
    cluster.nodes["n10"].start_agent()
    cluster.wait_for_nodes("Ready")
    ended = {each["node"]: (each["exit_code"], each["problem"]) for each in done["nodes"]}
    assert ended == {"n1": (0, ""), "n2": (0, ""), "n10": (255, "node n10 went away")}
    nothing_runs("98130")


def test_a_head_that_is_killed_takes_it_along(cluster: Cluster) -> None:
    with begun(cluster, sleeper(98140)) as client:
        until(lambda: len(running("98140")) >= len(NODES), "it runs everywhere")
        cluster.kill_head()
        assert b"the connection to the head was lost" in client.communicate(timeout=TIMEOUT)[1]
        assert client.returncode == 1
    cluster.start_head()
    cluster.wait_for_nodes("Ready")
    nothing_runs("98140")


def test_whoever_did_not_begin_a_run_cannot_take_part_in_it(cluster: Cluster) -> None:
    conversation = cluster.client.begin("run_on_node", run=-1, node="n1")
    with pytest.raises(HeadnodeError, match="there is no run"):
        conversation.receive()
    conversation.close()


def test_nonsense_in_a_conversation_costs_that_one_only(cluster: Cluster) -> None:
    held = cluster.client.begin("run_on_nodes", command=sleeper(98150))
    run = held.receive()["run"]
    part = cluster.client.begin("run_on_node", run=run, node="n1")
    part.send(nonsense=True)
    with pytest.raises(HeadnodeError, match="not possible here"):
        part.receive()
    part.close()
    nothing_runs("98150")
    held.close()
    assert hn(cluster, "run", "true").returncode == 0


def test_a_command_has_only_the_standard_streams(cluster: Cluster) -> None:
    done = hn(cluster, "run", "/nodes:n1", "/bin/sh -c 'ls /proc/$$/fd; :'", input=b"")
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == [b"0", b"1", b"2"]
