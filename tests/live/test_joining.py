"""Machines join a cluster over the network: whom the head lets in, and what a node may do once it is in."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.nodes.membership import NodeIdentity
from headnode.adapters.process_tree import descendants, picture
from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.tls import dial, node_side, stranger_side
from headnode.core.model.node import NodeFacts
from heads import RealHead, real_head
from testbed.processes import free_address

HN = str(Path(sys.executable).with_name("hn"))
TIMEOUT = 20.0  # seconds

NewNode = Callable[..., JoinedNode]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


@pytest.fixture
def new_node(tmp_path: Path) -> Iterator[NewNode]:
    made: list[JoinedNode] = []

    def make(name: str, processors: int = 2) -> JoinedNode:
        made.append(JoinedNode(tmp_path / "nodes", name, processors))
        return made[-1]

    yield make
    for node in made:
        node.stop()


def joined(head: RealHead, node: JoinedNode) -> JoinedNode:
    """Let the node join with an invitation that approves it, start it, and wait until it is ready."""
    done = node.join(invite(head, approve=True))
    assert done.returncode == 0, done.stderr
    node.start()
    wait_for_state(head, node.name, "Ready")
    return node


def test_an_invited_machine_runs_jobs_and_its_output_comes_back(head: RealHead, new_node: NewNode) -> None:
    joined(head, new_node("far"))
    job = head.submit("echo from $HEADNODE_NODE; echo and more >&2")
    assert head.wait(job)["state"] == "Finished"
    question = {"job": job, "task": 1}
    assert head.ask("task_output", **question)["remote"]
    assert head.ask("read_output", **question)["size"] == len("from far\nand more\n")


def test_a_machine_whose_invitation_does_not_approve_waits_and_gets_nothing(
    head: RealHead, new_node: NewNode
) -> None:
    node = new_node("shy")
    done = node.join(invite(head))
    assert "hn node approve shy" in done.stdout
    node.start()
    wait_for_state(head, "shy", "Pending")
    job = head.submit("true")
    assert head.ask("job", job=job)["job"]["state"] == "Queued"
    head.ask("approve_node", node="shy")
    assert head.wait(job)["state"] == "Finished"


def test_an_invitation_works_once(head: RealHead, new_node: NewNode) -> None:
    invitation = invite(head, approve=True)
    assert new_node("first").join(invitation).returncode == 0
    second = new_node("second").join(invitation)
    assert second.returncode == 1
    assert "was used already" in second.stderr


def test_several_machines_join_by_one_line_each_with_its_name(head: RealHead, new_node: NewNode) -> None:
    invitation = invite(head, approve=True, nodes=["n1", "n2"])
    nodes = [new_node(name) for name in ("n1", "n2")]
    assert [node.join(invitation).returncode for node in nodes] == [0, 0]
    for node in nodes:
        node.start()
        wait_for_state(head, node.name, "Ready")
    late = new_node("n3").join(invitation)
    assert (late.returncode, "was used already" in late.stderr) == (1, True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("/", "/x", 1), "was never made by this cluster"),
        (
            lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
            "is not the head that made this invitation",
        ),
        (lambda text: text[:-5], "only a part of one"),
    ],
    ids=["another secret", "another head", "cut off"],
)
def test_a_wrong_invitation_is_refused_in_words(
    head: RealHead, new_node: NewNode, spoil: Callable[[str], str], message: str
) -> None:
    done = new_node("one").join(spoil(invite(head)))
    assert done.returncode in (1, 2)
    assert message in done.stderr


def test_an_invitation_for_one_name_lets_nobody_else_in(head: RealHead, new_node: NewNode) -> None:
    done = new_node("other").join(invite(head, node="wanted"))
    assert done.returncode == 1
    assert "is for node 'wanted'" in done.stderr


def test_nobody_takes_the_name_of_a_node_unless_an_administrator_invites_for_it(
    head: RealHead, new_node: NewNode, tmp_path: Path
) -> None:
    joined(head, new_node("mine"))
    impostor = JoinedNode(tmp_path / "elsewhere", "mine")
    done = impostor.join(invite(head, approve=True))
    assert done.returncode == 1
    assert "another key" in done.stderr
    assert impostor.join(invite(head, node="mine")).returncode == 0


def test_a_node_needs_no_invitation_after_restarts(head: RealHead, new_node: NewNode) -> None:
    node = joined(head, new_node("stays"))
    node.stop()
    wait_for_state(head, "stays", "Unreachable")
    node.start()
    wait_for_state(head, "stays", "Ready")
    head.kill()
    head.start_again()
    wait_for_state(head, "stays", "Ready")
    assert head.wait(head.submit("true"))["state"] == "Finished"


def test_a_removed_node_is_sent_away_and_does_not_come_back(head: RealHead, new_node: NewNode) -> None:
    node = joined(head, new_node("gone"))
    head.ask("remove_node", node="gone")
    assert node.ended() == 0
    node.start()
    assert node.ended() == 0
    assert head.ask("nodes")["nodes"] == []
    assert "join again" in node.log()


def test_what_an_administrator_sets_survives_what_the_machine_says(head: RealHead, new_node: NewNode) -> None:
    node = joined(head, new_node("set"))
    head.ask("modify_node", node="set", groups=["blue"], features=["gpu"], comment="by the window")
    node.stop()
    wait_for_state(head, "set", "Unreachable")
    head.kill()
    head.start_again()
    node.start()
    found = wait_for_state(head, "set", "Ready")
    assert (found["groups"], found["features"], found["comment"]) == (["blue"], ["gpu"], "by the window")


def test_a_node_cannot_speak_for_another(head: RealHead, new_node: NewNode) -> None:
    joined(head, new_node("victim"))
    liar = new_node("liar")
    assert liar.join(invite(head, approve=True)).returncode == 0

    async def lie() -> bytes | None:
        reader, writer = await NodeIdentity(liar.state).dial()
        hello = m.Hello(protocol=m.PROTOCOL, facts=NodeFacts(name="victim", processors=64))
        writer.write(frame(_packed(hello)))
        answer = await read_frame(reader, m.MAX_MESSAGE)
        await _hung_up(writer)
        return answer

    assert b"certificate is that of node" in (asyncio.run(lie()) or b"")
    assert wait_for_state(head, "victim", "Ready")["processors"] == 2


def test_bad_connections_cost_themselves_only(head: RealHead, new_node: NewNode) -> None:
    node = joined(head, new_node("good"))
    host, port = _address(head)
    too_large = (m.MAX_GREETING + 1).to_bytes(4, "big")

    async def send(what: bytes) -> bytes:
        reader, writer = await dial(host, port, stranger_side())
        writer.write(what)
        answer = await reader.read()
        await _hung_up(writer)
        return answer

    for nonsense in (too_large, frame(b"\xc1 no message"), frame(_packed(m.Heartbeat()))):
        assert asyncio.run(send(nonsense)) == b""
    assert node.process is not None
    assert node.process.poll() is None
    assert head.wait(head.submit("true"))["state"] == "Finished"


def test_an_agent_believes_only_the_authority_it_joined(
    head: RealHead, new_node: NewNode, tmp_path: Path
) -> None:
    node = joined(head, new_node("careful"))
    with real_head(tmp_path / "other", nodes=0, listen=free_address()) as another:

        async def dialed() -> None:
            _, writer = await dial(*_address(another), node_side(node.state / "identity" / "authority.pem"))
            await _hung_up(writer)

        with pytest.raises(ssl.SSLError):
            asyncio.run(dialed())


def test_captured_output_is_no_way_to_files_of_others(
    head: RealHead, new_node: NewNode, tmp_path: Path
) -> None:
    node = joined(head, new_node("sly"))
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    job = head.submit(f"rm -f {node.state}/output/*/1.1.out; ln -s {secret} {node.state}/output/1/1.1.out")
    assert head.wait(job)["state"] == "Finished"
    with pytest.raises(Exception, match="cannot be read"):
        head.ask("read_output", job=job, task=1)


async def _hung_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _packed(message: m.Message) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(message)


def _address(head: RealHead) -> tuple[str, int]:
    host, _, port = head.options[-1].rpartition(":")
    return host, int(port)


def test_a_node_that_says_nothing_is_given_up_and_comes_back_clean(
    head: RealHead, new_node: NewNode, tmp_path: Path
) -> None:
    head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "2"})
    silent, other = joined(head, new_node("silent")), new_node("other")
    found = tmp_path / "told"
    job = head.submit(
        f"echo $HEADNODE_NODE >> {found}; while [ ! -e {tmp_path}/end ]; do sleep 0.05; done",
        rerunnable="true",
    )
    head.wait_for(job, "Running")
    assert silent.process is not None
    silent.process.send_signal(signal.SIGSTOP)
    wait_for_state(head, "silent", "Unreachable")
    joined(head, other)
    head.wait_for(job, "Running")
    silent.process.send_signal(signal.SIGCONT)
    wait_for_state(head, "silent", "Ready")
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"
    assert found.read_text().split() == ["silent", "other"]


SECRET = "s2Mq81xPzY4"


@pytest.mark.parametrize("more", [(), ("--foreground",)], ids=["background", "foreground"])
def test_the_arguments_of_an_agent_that_joins_show_nobody_its_invitation(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        invitation = f"127.0.0.1:{silent.getsockname()[1]}/{SECRET}.{'0' * 64}"
        words = (HN, "agent", "--directory", str(tmp_path), *more, "--join", invitation)
        joining = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            silent.settimeout(TIMEOUT)
            connection, _ = silent.accept()  # by the agent, which has read its invitation
            with connection:
                agents = [words for words in commands_below(joining.pid) if "headnode.apps.agent" in words]
            assert agents
            assert not any(SECRET in word for words in agents for word in words)
        finally:
            os.killpg(joining.pid, signal.SIGKILL)
            joining.wait(TIMEOUT)


def commands_below(process: int) -> list[list[str]]:
    """Return the arguments of a process and of all that descend from it."""
    paths = [Path(f"/proc/{each}/cmdline") for each in descendants([process], picture())]
    return [path.read_bytes().decode().split("\0") for path in paths]
