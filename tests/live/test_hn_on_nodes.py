"""`hn` on joined nodes: tasks ask the head by way of their agent, as their user, while they run."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.nodes.membership import NodeIdentity
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.peers import TASKS
from headnode.adapters.wire.tls import dial, stranger_side
from headnode.apps.agent import client_door
from headnode.apps.agent.task_tools import LaunchPlaces
from headnode.apps.client.client import Client
from headnode.apps.client.local_addresses import AgentRoute
from headnode.apps.server.doors import tasks
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head
from testbed.faulty_storage import FaultyStorage
from testbed.processes import free_address

FAR = {"requestednodes": "far"}
_clients: list[Client] = []


@pytest.fixture(autouse=True)
def hung_up() -> Iterator[None]:
    """Close the connections of a test."""
    yield
    while _clients:
        _clients.pop().close()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    folder = tmp_path_factory.mktemp("head")
    for each in (folder, folder.parent):
        each.chmod(0o755)
    with real_head(folder, processors=2, listen=free_address()) as found:
        yield found


@pytest.fixture(scope="module")
def node(head: RealHead, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedNode]:
    made = JoinedNode(tmp_path_factory.mktemp("node"), "far", 4)
    assert made.join(invite(head, approve=True)).returncode == 0
    made.start()
    try:
        wait_for_state(head, "far", "Ready")
        yield made
    finally:
        made.stop()


def said_by(head: RealHead, job: int) -> str:
    """Return what the only task of a job has written, once it is over; it must have done well."""
    ended, found = head.wait(job), output(head, job)
    assert ended["state"] == "Finished", found
    return found


def output(head: RealHead, job: int) -> str:
    return base64.b64decode(head.ask("read_output", job=job, task=1)["data"]).decode()


@pytest.fixture
def sleeper(head: RealHead, node: JoinedNode) -> Iterator[int]:
    """Return a job whose task runs on the joined node."""
    assert node.process is not None
    job = head.submit("sleep 1000", terms=FAR)
    head.wait_for(job, "Running")
    yield job
    with contextlib.suppress(HeadnodeError):
        head.ask("cancel_job", job=job, force=True)
    head.wait(job)


def door(node: JoinedNode, task: str = "") -> Client:
    """Return a client that asks the head by way of the agent of a node."""
    client = Client(AgentRoute(str(node.state / "run" / client_door.SOCKET), task, "the head"))
    _clients.append(client)
    return client


def refused(client: Client, question: str, **fields: Any) -> str:
    with pytest.raises(HeadnodeError) as error:
        client.ask(question, **fields)
    return error.value.code


def test_in_a_task_of_a_joined_node_hn_is_found_and_asks_as_its_user(
    head: RealHead, node: JoinedNode
) -> None:
    assert node.process is not None
    script = (
        "PYTHONHOME=/none PYTHONPATH=/none hn whoami --json && hn job list /state:* --quiet && "
        "hn job modify $CCP_JOBID --progress 40 && "
        "hn job submit --quiet --wait --workdir / --requestednodes far pwd && "
        "hn job view $CCP_JOBID /scheduler:$CCP_SCHEDULER && "
        "hn job view $CCP_JOBID --scheduler $CCP_CLUSTER_NAME"
    )
    job = head.submit(script, terms=FAR)
    text = said_by(head, job)
    who, _ = json.JSONDecoder().raw_decode(text)
    assert (who["uid"], who["role"]) == (os.geteuid(), "user")
    assert f"\n{job}\n" in text
    assert text.count("40") >= 2
    shown = head.ask("job", job=job)["job"]
    assert (shown["progress"], shown["submit_host"]) == (40, socket.gethostname())
    assert head.ask("job", job=job + 1)["job"]["submit_host"] == "far"


def test_a_task_names_the_head_and_not_its_node(head: RealHead, node: JoinedNode) -> None:
    assert node.process is not None
    job = head.submit("echo $CCP_SCHEDULER is not ${HEADNODE_STATE:-there}", terms=FAR)
    assert said_by(head, job) == f"{socket.gethostname()} is not there\n"


def test_a_task_on_the_machine_of_the_head_finds_hn_too(head: RealHead) -> None:
    job = head.submit("hn job view $CCP_JOBID --json", terms={"excludednodes": "far"})
    assert json.loads(said_by(head, job))["id"] == job


@pytest.mark.parametrize("where", [FAR, {"excludednodes": "far"}])
def test_a_task_that_prints_its_own_output_comes_to_an_end(
    head: RealHead, node: JoinedNode, where: dict[str, str]
) -> None:
    assert node.process is not None
    job = head.submit("echo begin; hn task output $CCP_JOBID.1; echo end", terms=where)
    assert said_by(head, job) == "begin\nbegin\nend\n"


def test_a_task_cancels_its_own_job(head: RealHead, node: JoinedNode) -> None:
    assert node.process is not None
    job = head.submit('hn job cancel "$CCP_JOBID" && sleep 1000', terms=FAR)
    assert head.wait(job)["state"] == "Canceled"


def test_a_user_without_a_task_on_the_node_is_told_to_log_in(head: RealHead, node: JoinedNode) -> None:
    assert head.ask("jobs", owner=None, states=["Running"])["jobs"] == []
    with pytest.raises(HeadnodeError, match="no task of yours runs on node 'far'") as error:
        door(node).ask("jobs")
    assert "hn login" in error.value.fix


def test_a_user_with_a_task_on_the_node_is_known_outside_of_it_until_it_ends(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    client = door(node)
    assert client.ask("job", job=sleeper)["job"]["state"] == "Running"
    head.ask("cancel_job", job=sleeper, force=True)
    head.wait(sleeper)
    assert refused(client, "job", job=sleeper) in ("no-task", "head-gone")  # on the same connection
    assert refused(door(node, f"{sleeper}.1.1.1"), "job", job=sleeper) == "no-task"


def test_a_watch_ends_with_the_task_that_began_it(head: RealHead, node: JoinedNode, sleeper: int) -> None:
    other = head.submit("sleep 1000", terms={"excludednodes": "far"})
    watches = [door(node).follow("watch_jobs", job=jobs) for jobs in ([other, sleeper], [other])]
    for watch in watches:
        assert next(watch)["done"] is False
    head.ask("cancel_job", job=sleeper, force=True)
    head.wait(sleeper)
    for watch in watches:
        with pytest.raises(HeadnodeError) as error:
            list(watch)
        assert error.value.code in ("no-task", "head-gone")
    head.ask("cancel_job", job=other, force=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_node_cannot_use_a_task_that_is_not_his(node: JoinedNode, sleeper: int) -> None:
    ask = (
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
        "b=sys.argv[2].encode();s.sendall(len(b).to_bytes(4,'big')+b);print(s.recv(4096)[4:].decode())"
    )
    path = node.state / "run"
    for each in node.state.parents:
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
            each.chmod(0o711)
    greeting = json.dumps({"task": f"{sleeper}.1.1.1"})
    result = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", ask,
         str(path / client_door.SOCKET), greeting],
        capture_output=True, text=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    assert json.loads(result.stdout)["code"] == "no-task"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as others")
def test_the_task_of_another_user_asks_as_that_user_and_changes_only_that_users_jobs(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    assert node.process is not None
    python = f"env PYTHONPATH={os.pathsep.join(filter(None, sys.path))} /usr/bin/python3 -m headnode.apps.cli"
    words = ("whoami --json", "job modify $CCP_JOBID --progress 7", f"job cancel {sleeper} 2>&1", "--help")
    script = "; ".join(f"{python} {each}" for each in words)
    tasks = [{"command": script, "workdir": "/"}]
    job = int(head.ask("submit_job", terms={**FAR, "user": "nobody"}, tasks=tasks)["job"])
    found = said_by(head, job)
    assert json.JSONDecoder().raw_decode(found)[0]["user"] == "nobody"
    assert head.ask("job", job=job)["job"]["progress"] == 7
    assert f"job {sleeper} belongs to 'root', not to 'nobody'" in found
    folder = Path(LaunchPlaces(node.state, node.state / "run").reachable(65534))
    assert (folder / client_door.SOCKET).is_socket()
    if folder != node.state / "run":
        shutil.rmtree(folder)


def test_who_asks_by_a_node_has_no_role_whoever_he_is(node: JoinedNode, sleeper: int) -> None:
    client = door(node, f"{sleeper}.1.1.1")
    assert client.ask("whoami")["role"] == "user"
    assert refused(client, "set_parameters", values={"JobRetryCount": "1"}) == "not-administrator"
    with pytest.raises(HeadnodeError) as error:
        client.ask("remove_node", node="far")
    assert error.value.fix == "administrators do that on the head's machine, or after `hn login`"
    assert refused(client, "stop_head", cancel_jobs=True) == "not-administrator"
    assert refused(client, "create_token") == "not-here"
    assert refused(client, "submit_job", terms={"user": "nobody"}, tasks=[{"command": "id"}]) == "run-as"
    assert (
        refused(client, "submit_job", terms={"priority": "Highest"}, tasks=[{"command": "id"}])
        == "priority-privilege"
    )


async def _speak(node: JoinedNode, **expected: Any) -> dict[str, Any] | None:
    """Say something to the head as the node itself; return its answer."""
    reader, writer = await NodeIdentity(node.state).dial(protocol=TASKS)
    try:
        writer.write(frame(json.dumps(expected).encode()))
        answer = await read_frame(reader, 1 << 20)
        return None if answer is None else dict(json.loads(answer))
    finally:
        await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection, whatever the head has done with it."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def speak(node: JoinedNode, **expected: Any) -> dict[str, Any]:
    answer = asyncio.run(_speak(node, **expected))
    assert answer is not None
    return answer


def test_a_node_that_lies_speaks_for_nobody_whose_task_it_does_not_run(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    elsewhere = head.submit("sleep 1000", terms={"excludednodes": "far"})
    head.wait_for(elsewhere, "Running")
    queued = head.submit("true", terms={"holduntil": "1000"})
    for job, task, instance, attempt in (
        (elsewhere, 1, 1, 1), (queued, 1, 1, 1), (sleeper, 1, 1, 2), (sleeper, 1, 2, 1), (sleeper, 2, 1, 1),
        (sleeper, 0, 0, 0), (sleeper, -1, 1, 1), (10**9, 1, 1, 1), (-1, 1, 1, 1),
    ):  # fmt: skip
        answer = speak(node, verb="act_for_task", job=job, task=task, instance=instance, attempt=attempt)
        assert answer["code"] == "no-task", (job, task, instance, attempt)
    for job in (elsewhere, queued):
        head.ask("cancel_job", job=job, force=True)


@pytest.mark.parametrize(
    "texts",
    [
        {"verb": "jobs"},
        {"verb": "act_for_task", "job": 1},
        {"verb": "act_for_task", "job": 1, "task": 1, "instance": 1, "attempt": 1, "user": "root"},
        {"verb": "act_for_task", "job": 2**70, "task": 1, "instance": 1, "attempt": 1},
        {"verb": "log_in", "token": "x"},
    ],
)
def test_a_node_that_begins_otherwise_is_refused(node: JoinedNode, texts: dict[str, Any]) -> None:
    assert speak(node, **texts)["ok"] is False


def test_without_the_certificate_of_a_node_nobody_speaks_for_tasks(head: RealHead, sleeper: int) -> None:
    address = head.options[head.options.index("--listen") + 1]
    host, _, port = address.rpartition(":")

    async def ask() -> bytes | None:
        context = stranger_side()
        context.set_alpn_protocols([TASKS])
        reader, writer = await dial(host, int(port), context)
        wish = {"verb": "act_for_task", "job": sleeper, "task": 1, "instance": 1, "attempt": 1}
        writer.write(frame(json.dumps(wish).encode()))
        try:
            return await read_frame(reader, 1 << 20)
        finally:
            await hang_up(writer)

    assert asyncio.run(ask()) is None


@pytest.mark.parametrize(
    "first", [b"", b"x", b"[" * 4000, b'{"task": 7}', b'{"task": "", "uid": 0}', b"\xff" * 9]
)
def test_strange_first_words_cost_their_own_connection(node: JoinedNode, sleeper: int, first: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(node.state / "run" / client_door.SOCKET))
        one.sendall(struct.pack(">I", len(first)) + first)
        assert b'"ok":false' in one.recv(4096)
    assert door(node).ask("job", job=sleeper)["job"]["id"] == sleeper


def test_the_connections_of_one_user_are_bounded_and_come_back(node: JoinedNode, sleeper: int) -> None:
    assert client_door.MAX_OF_ONE < client_door.MAX_CONNECTIONS <= tasks.MAX_CONNECTIONS_OF_NODE
    clients = [door(node) for _ in range(client_door.MAX_OF_ONE)]
    for client in clients:
        client.ask("job", job=sleeper)
    assert refused(door(node), "job", job=sleeper) == "too-many-clients"
    task = door(node, f"{sleeper}.1.1.1")
    with ThreadPoolExecutor(1) as beside:
        patient = beside.submit(task.ask, "whoami")  # a task does not fail for that
        for client in clients:
            client.close()
        assert patient.result(TIMEOUT)["role"] == "user"
    deadline = time.monotonic() + TIMEOUT
    while asks(node) == "too-many-clients":  # the agent has not heard of all ends yet
        assert time.monotonic() < deadline
    assert asks(node) == ""


def asks(node: JoinedNode) -> str:
    """Ask something by way of the agent; return the code of the refusal, empty when there is none."""
    client = door(node)
    try:
        client.ask("whoami")
    except HeadnodeError as error:
        return error.code
    finally:
        client.close()
    return ""


def test_what_a_task_launches_on_its_other_node_asks_as_the_task_too(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    other = JoinedNode(tmp_path, "further", 4)
    assert other.join(invite(head, approve=True)).returncode == 0
    other.start()
    try:
        wait_for_state(head, "further", "Ready")
        terms = {"numnodes": "2", "requestednodes": "far,further"}
        script = 'for n in $HEADNODE_HOSTS; do $HEADNODE_LAUNCH -n $n "hn job view $CCP_JOBID --quiet"; done'
        task = {"command": script, "numnodes": "2"}
        job = int(head.ask("submit_job", terms=terms, tasks=[task])["job"])
        assert said_by(head, job) == f"{job}\n{job}\n"
    finally:
        head.ask("drain_node", node="further", reason="over")
        other.stop()


def test_a_task_that_asks_while_its_agent_is_started_anew_gets_its_answer(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    node.stop()
    task = door(node, f"{sleeper}.1.1.1")
    with ThreadPoolExecutor(1) as beside:
        patient = beside.submit(task.ask, "whoami")
        node.start()
        assert patient.result(TIMEOUT)["role"] == "user"
    wait_for_state(head, "far", "Ready")


def test_a_shell_beside_the_task_asks_as_the_owner_of_the_job(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    assert node.process is not None
    words = ["job", "shell", "--job", str(sleeper), "--", "hn", "job", "view", str(sleeper), "--quiet"]
    result = subprocess.run(
        [sys.executable, "-m", "headnode.apps.cli", *words],
        env=os.environ | {"HEADNODE_STATE": str(head.state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert result.stdout == f"{sleeper}\n"


def test_what_a_task_did_is_in_the_audit_log_with_its_node(
    head: RealHead, node: JoinedNode, sleeper: int
) -> None:
    door(node, f"{sleeper}.1.1.1").ask("modify_job", job=sleeper, terms={"jobname": "renamed"})
    (entry,) = [
        each for each in head.ask("audit_log", job=sleeper)["entries"] if each["verb"] == "modify_job"
    ]
    assert entry["from"] == f"node far, task {sleeper}.1.1.1"


def test_large_answers_pass_while_the_node_goes_on(head: RealHead, node: JoinedNode, sleeper: int) -> None:
    client = door(node)
    tasks = [{"command": f"true {number} {'x' * 100_000}"} for number in range(40)]
    job = client.ask("create_job", terms={"jobname": "large"}, tasks=tasks)["job"]
    written = client.ask("export_job", job=job)["text"]
    assert all(task["command"] in written for task in tasks)
    assert head.ask("node", node="far")["node"]["state"] == "Ready"


def test_transfers_of_a_node_ask_the_head_for_what_their_user_has_delegated(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    assert node.process is not None
    head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
    head.ask("keep_delegation", name="storage", bearer="secret-token", hosts=["127.0.0.1"])
    with FaultyStorage(tmp_path) as storage:
        storage.put("data", b"private\n")
        for name, state in (("storage", "Finished"), ("another", "Failed")):
            files = {"stagein": f"{storage.url}/private/data=data", "credential": name}
            job = head.submit("cat data", terms=FAR, **files)
            assert head.wait(job)["state"] == state
    assert "has no delegation 'another'" in head.task(job)["message"]
    with pytest.raises(HeadnodeError, match="no delegation 'another'"):
        head.ask("delegated_credential", name="another")
    head.ask("forget_delegation", name="storage")
