"""A backup is made while the head works; restored elsewhere, its nodes come back without joining again."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters import process_tree
from headnode.apps.client.client import Client
from heads import TIMEOUT, real_head
from testbed.processes import free_address

HN = str(Path(sys.executable).with_name("hn"))
KEYS = ("authority/authority.key", "authority/head.key")


def hn(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours about the head of a state directory."""
    environment = {**os.environ, "HEADNODE_STATE": str(state)}
    return subprocess.run(
        [HN, *words], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[JoinedNode]]:
    made = [JoinedNode(tmp_path / "nodes", name) for name in ("east", "west")]
    yield made
    for node in made:
        node.stop()


def test_nodes_come_back_to_a_head_that_was_restored_elsewhere(
    tmp_path: Path, nodes: list[JoinedNode]
) -> None:
    address, backup, elsewhere = free_address(), tmp_path / "backup.tar.gz", tmp_path / "elsewhere"
    with real_head(tmp_path / "first", nodes=0, listen=address) as head:
        for node in nodes:
            assert node.join(invite(head, approve=True)).returncode == 0
            node.start()
            wait_for_state(head, node.name, "Ready")
        done = head.submit("echo done")
        assert head.wait(done)["state"] == "Finished"
        head.ask("set_parameters", values={"HeartbeatInterval": "7"})
        queued = head.submit("echo later", terms={"hold": "later"})
        made = hn("backup", str(backup), state=head.state)
        assert made.returncode == 0, made.stderr
        assert "unpacked and replayed" in made.stdout
        assert backup.stat().st_mode & 0o777 == 0o600
        assert list(head.state.glob("backup-*")) == []
        lost = head.submit("echo made after the backup")
        refused = hn("restore", str(backup), state=head.state)
        assert refused.returncode == 1
        assert "is in use" in refused.stderr

    restored = hn("restore", str(backup), state=elsewhere / "state")
    assert restored.returncode == 0, restored.stderr
    assert address in restored.stdout
    modes = [(elsewhere / "state" / name).stat().st_mode & 0o777 for name in (*KEYS, "journal.db")]
    assert modes == [0o600] * 3
    with real_head(elsewhere, nodes=0) as again:
        for node in nodes:
            wait_for_state(again, node.name, "Ready")
        assert again.ask("job", job=done)["job"]["state"] == "Finished"
        values = {each["name"]: each["value"] for each in again.ask("parameters")["parameters"]}
        assert values["HeartbeatInterval"] == "7"
        again.ask("release_job", job=queued, name="later")
        assert again.wait(queued)["state"] == "Finished"
        fresh = again.submit("true")
        assert fresh > lost  # its number was never given before
        assert again.wait(fresh)["state"] == "Finished"


@pytest.mark.parametrize("moves_nodes", [False, True])
def test_a_task_of_the_heads_own_machine_runs_once_after_a_restore(tmp_path: Path, moves_nodes: bool) -> None:
    pids, go, backup = tmp_path / "pids", tmp_path / "go", tmp_path / "backup.tar.gz"
    command = f"echo $$ >> {pids}; while [ ! -e {go} ]; do sleep 0.05; done; echo over"
    with real_head(tmp_path / "first") as head:
        state, former = head.state, head.state.with_name(f"{head.state.name}.old")
        job = head.submit(command)
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 1)
        head.until(lambda: head.ask("job", job=job)["job"]["tasks"]["running"] == 1)
        assert hn("backup", str(backup), state=state).returncode == 0
        assert hn("down", state=state).returncode == 0
        head.process.wait(TIMEOUT)
        head.client.close()
        state.rename(former)
        restored = hn("restore", str(backup), state=state)
        assert f"mv {former}/nodes {state}/nodes" in restored.stdout
        if moves_nodes:
            (former / "nodes").rename(state / "nodes")
        head.start_again()
        begun = 1 if moves_nodes else 2
        wait_until(lambda: len(pids.read_text().split()) == begun)
        *ended, last = pids.read_text().split()
        assert int(last) in process_tree.picture()
        assert not process_tree.picture().keys() & set(map(int, ended))
        go.touch()
        assert head.wait(job)["state"] == "Finished"
        assert hn("task", "output", str(job), state=state).stdout == "over\n"
        assert len(pids.read_text().split()) == begun


def test_both_logs_say_that_the_certificates_of_a_head_are_others(
    tmp_path: Path, nodes: list[JoinedNode]
) -> None:
    node = nodes[0]
    with real_head(tmp_path / "first", nodes=0, listen=free_address()) as head:
        assert node.join(invite(head, approve=True)).returncode == 0
        node.start()
        wait_for_state(head, node.name, "Ready")
        head.kill()
        shutil.rmtree(head.state / "authority")  # as where only journal.db was restored
        head.start_again()
        head.until(lambda: "not trusted" in node.log() and "does not trust" in head.log())
        assert "node 'east' does not trust the certificate of this head" in head.log()
        assert head.log().count("does not trust") == 1
        assert "hn restore" in node.log().replace("\n", " ")
        assert node.log().count("not trusted") == 1  # though it dials again and again


def transcript() -> list[tuple[str, str]]:
    """Return the commands of the administrators' page about backups, each with what it prints."""
    page = (Path(__file__).parents[2] / "docs" / "administrators.md").read_text()
    block = page.partition("## Backups")[2].partition("```console\n")[2].partition("```")[0]
    steps = [step.partition("\n") for step in block.removeprefix("$ ").split("\n$ ")]
    return [(command, found.rstrip("\n")) for command, _, found in steps]


@pytest.mark.parametrize(
    ("kept", "text"), [("192.0.2.7", "192.0.2.7:5817"), ("[2001:db8::7]:99", "[2001:db8::7]:99")]
)
def test_the_address_that_nodes_connect_to_is_reported_with_its_port(
    tmp_path: Path, kept: str, text: str
) -> None:
    with real_head(tmp_path, nodes=0) as head:
        (head.state / "listen").write_text(kept)
        assert hn("backup", str(tmp_path / "backup"), state=head.state).returncode == 0
    restored = hn("restore", str(tmp_path / "backup"), state=tmp_path / "elsewhere")
    assert f"Nodes of other machines connect to {text}. If this machine has another" in restored.stdout


def test_a_restore_without_an_address_for_the_nodes_of_other_machines_says_so(
    tmp_path: Path, nodes: list[JoinedNode]
) -> None:
    with real_head(tmp_path / "first", nodes=0, listen=free_address()) as head:
        assert nodes[0].join(invite(head, approve=True)).returncode == 0
        (head.state / "listen").unlink()  # as in the directory of a standby
        assert hn("backup", str(tmp_path / "backup"), state=head.state).returncode == 0
    restored = hn("restore", str(tmp_path / "backup"), state=tmp_path / "elsewhere")
    assert "Start it with --listen HOST[:PORT]" in restored.stdout


def without_figures(text: str) -> str:
    """Return a text without times and without the number of events, which differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", "WHEN", text)
    return re.sub(r"\d+ events|\(\d+\.\d s\)", "N", text).strip()


def test_the_restore_of_the_administrators_page_brings_two_nodes_back(
    tmp_path: Path, nodes: list[JoinedNode]
) -> None:
    address, state, folder = free_address(), tmp_path / "headnode", tmp_path / "backup"
    places = {"/var/lib/headnode": state, "/backup": folder, "192.0.2.10:5817": address}
    assert hn("up", "--name", "lab", "--nodes", "0", "--listen", address, state=state).returncode == 0
    client = Client(str(state))
    try:
        for node in nodes:
            invitation = client.ask("invite_node", approve=True)["invitation"]
            assert node.join(invitation).returncode == 0
            node.start()
        assert hn("job", "submit", "--hold", "later", "--", "true", state=state).returncode == 0
        for command, found in transcript():
            typed = command
            for shown, place in places.items():
                typed, found = typed.replace(shown, str(place)), found.replace(shown, str(place))
            done = typed_in_a_shell(typed, state)
            assert done.returncode == 0, f"{typed}: {done.stderr}"
            if found:
                assert without_figures(done.stdout) == without_figures(found)
            client.close()
        wait_until(lambda: [node["state"] for node in client.ask("nodes")["nodes"]] == ["Ready", "Ready"])
    finally:
        client.close()
        assert hn("down", "--cancel-jobs", state=state).returncode == 0


def typed_in_a_shell(command: str, state: Path) -> "subprocess.CompletedProcess[str]":
    """Run a line as somebody types it."""
    path = f"{Path(HN).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "HEADNODE_STATE": str(state), "PATH": path},
    )  # fmt: skip


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
