"""A real node of another machine follows its head to another address, and obeys none that was replaced."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state
from msgspec.structs import replace

from headnode.adapters.nodes.membership import Membership, NodeIdentity
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


@pytest.fixture
def node(head: RealHead, tmp_path: Path) -> Iterator[JoinedNode]:
    """A node that has joined, and does not run yet."""
    made = JoinedNode(tmp_path / "nodes", "far")
    assert made.join(invite(head, approve=True)).returncode == 0
    yield made
    made.stop()


def membership(node: JoinedNode) -> Membership:
    found = NodeIdentity(node.state).membership()
    assert found is not None
    return found


def moved(head: RealHead, address: str) -> None:
    """End the head at once, and let it come back at another address, as after a takeover."""
    head.kill()
    head.options[head.options.index("--listen") + 1] = address
    head.start_again()


def test_a_node_follows_its_head_to_another_address_and_back_while_its_task_goes_on(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    first, second, dead = membership(node), free_address(), free_address()
    NodeIdentity(node.state).keep(replace(first, heads=(dead, second)))
    moved(head, second)
    node.start()
    wait_for_state(head, "far", "Ready")
    former = f"{first.host}:{first.port}"
    there = replace(first, port=int(second.rpartition(":")[2]), former=former)
    head.until(
        lambda: membership(node) == there
    )  # the head may have seen the node before it has written that
    end = tmp_path / "end"
    # hn in the task asks the head that the agent has found
    job = head.submit(f"until [ -e {end} ]; do sleep 0.05; done; hn job view $HEADNODE_JOB --format json")
    head.wait_for(job, "Running")
    moved(head, former)  # which the head has not named: it was the one before
    wait_for_state(head, "far", "Ready")
    head.until(lambda: membership(node) == replace(first, former=second))
    end.touch()
    assert head.wait(job)["state"] == "Finished", head.log()
    assert head.task(job)["attempt"] == 1


def test_a_head_of_a_lower_term_runs_nothing_on_a_node_until_the_node_joins_it_anew(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    NodeIdentity(node.state).keep(replace(membership(node), term=2))
    ran = tmp_path / "ran"
    job = head.submit(f"touch {ran}")
    node.start()
    deadline = time.monotonic() + TIMEOUT
    while "its term is 0, and this node has seen the head of term 2" not in node.log():
        assert time.monotonic() < deadline, node.log()
    assert "connected to the head" not in node.log()
    refused = node.log().count("old head")
    head.until(lambda: head.log().count("node far is connected") >= 3)  # it tries, and hangs up
    assert node.log().count("old head") == refused
    assert not ran.exists()
    assert membership(node).term == 2
    node.stop()
    assert node.join(invite(head, approve=True, node="far")).returncode == 0
    node.start()
    assert head.wait(job)["state"] == "Finished"
    assert ran.exists()


def test_a_head_that_is_started_again_has_its_node_back_before_others_are_dialed(
    head: RealHead, node: JoinedNode
) -> None:
    silent = "192.0.2.1:5817"  # nobody has it: it answers nothing
    NodeIdentity(node.state).keep(replace(membership(node), former=silent))
    node.start()
    wait_for_state(head, "far", "Ready")
    head.kill()
    head.start_again()
    begun = time.monotonic()
    wait_for_state(head, "far", "Ready")
    assert time.monotonic() - begun < 2.5
    assert silent not in node.log()
    assert membership(node).former == silent
