"""The machine of a head gets another address: its nodes learn that and stay, with what runs on them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.nodes.membership import read_address
from headnode.core.model.errors import BadRequest
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


@pytest.fixture
def node(head: RealHead, tmp_path: Path) -> Iterator[JoinedNode]:
    made = JoinedNode(tmp_path / "nodes", "far")
    assert made.join(invite(head, approve=True)).returncode == 0
    made.start()
    wait_for_state(head, "far", "Ready")
    yield made
    made.stop()


def _hn(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headnode.apps.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def _move(head: RealHead, address: str) -> None:
    head.kill()
    head.options[-1] = address
    head.start_again()


def test_a_node_follows_its_head_to_a_new_address_and_its_task_goes_on(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    job = head.submit(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done")
    head.wait_for(job, "Running")
    after = free_address()
    _move(head, after)
    done = _hn("agent", "--directory", str(node.state), "--head", after)
    assert f"looks for its head at {after} first" in done.stdout, done.stderr
    wait_for_state(head, "far", "Ready")
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"


def test_a_node_that_learns_the_address_before_the_move_keeps_its_head_until_then(
    head: RealHead, node: JoinedNode
) -> None:
    now, after = head.options[-1], free_address()
    assert _hn("agent", "--directory", str(node.state), "--head", after).returncode == 0
    _move(head, now)  # it is started again where it was
    wait_for_state(head, "far", "Ready")
    _move(head, after)
    wait_for_state(head, "far", "Ready")


def test_an_address_that_is_none_and_a_machine_without_a_cluster_are_refused(
    node: JoinedNode, tmp_path: Path
) -> None:
    before = (node.state / "identity" / "membership.json").read_bytes()
    wrong = _hn("agent", "--directory", str(node.state), "--head", "new head")
    assert (wrong.returncode, "is not an address" in wrong.stderr) == (2, True)
    assert (node.state / "identity" / "membership.json").read_bytes() == before
    stranger = _hn("agent", "--directory", str(tmp_path / "empty"), "--head", "head2")
    assert (stranger.returncode, "joined no cluster" in stranger.stderr) == (1, True)


@pytest.mark.parametrize("port", ["", "65536", "-1", "\u0663", "9" * 5000, "1:2"])
def test_a_port_that_is_none_is_refused_whoever_names_it(port: str) -> None:
    with pytest.raises(BadRequest, match="is not an address"):
        read_address(f"head:{port}", "listen")


@pytest.mark.parametrize(
    "host", ["", "-x", "a b", "a/b", "a\x1b[31m", "$(id)", "a\0", "::1", "2001:db8::1", "x" * 301, "[]"]
)
def test_a_host_that_is_none_takes_no_place_among_the_addresses_of_a_node(host: str) -> None:
    with pytest.raises(BadRequest, match="is not an address"):
        read_address(host, "head")


def test_hosts_are_names_and_addresses_of_both_kinds() -> None:
    assert read_address("head2.example.org", "head") == ("head2.example.org", 5817)
    assert read_address("[fe80::1%eth0]:7", "head") == ("fe80::1%eth0", 7)
    assert read_address("[::1]", "head") == ("::1", 5817)
    assert read_address("192.0.2.1:00080", "head") == ("192.0.2.1", 80)
