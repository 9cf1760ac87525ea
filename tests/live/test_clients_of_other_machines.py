"""Clients of other machines: by token over TLS every verb works as on the head, and nobody else comes in."""

import json
import os
import resource
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.nodes.membership import read_address, read_invitation
from headnode.adapters.wire.peers import CLIENT, HEAD_NAME
from headnode.apps.client import tls_connection
from headnode.apps.client.client import Client
from headnode.apps.client.logins import HeadLogin, keep, logins
from headnode.apps.client.tls_connection import dial, redeem_login
from headnode.core.model import bounds as b
from headnode.core.model.errors import HeadnodeError, NotAllowed, Refused, Unavailable
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("head"), nodes=1, listen=free_address()) as found:
        yield found


def offered(head: RealHead, **wish: Any) -> str:
    """Return the line that lets somebody log in."""
    line: str = head.ask("create_token", **wish)["login"]
    return line


def logged_in(head: RealHead, **wish: Any) -> HeadLogin:
    return redeem_login(offered(head, **wish))


def works(login: HeadLogin) -> None:
    """See that the head still serves who may come in."""
    client = Client(login)
    assert client.ask("ping")
    client.close()


def refused(client: Client, question: str = "ping", **fields: Any) -> str:
    with pytest.raises(HeadnodeError) as error:
        client.ask(question, **fields)
    return error.value.code


def hn(home: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command as on another machine: with no head there."""
    environ = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "HEADNODE_RESIDENT_CLIENT": "0",
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        **{name: value for name, value in os.environ.items() if name == "HEADNODE_TESTS"},
    }
    command = [sys.executable, "-m", "headnode.apps.cli", *words]
    return subprocess.run(
        command, env=environ, input=given, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def test_a_login_is_kept_though_a_process_of_the_same_number_was_killed(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    fields = {"cluster": "c", "user": "u", "number": 1, "token": "t", "expires": 0.0, "authority": "a"}
    kept = Path(keep(home, HeadLogin(host="one", port=1, **fields)))
    kept.with_name(f"{kept.name}.{os.getpid()}.new").write_text("half")
    keep(home, HeadLogin(host="two", port=1, **fields))
    assert [each.host for each in logins(home)] == ["two", "one"]


def test_a_login_that_cannot_be_kept_leaves_no_file(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    fields = {"cluster": "c", "user": "u", "number": 1, "expires": 0.0, "authority": "a"}
    kept = Path(keep(home, HeadLogin(host="one", port=1, token="t", **fields)))
    before, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        with pytest.raises(Unavailable):
            keep(home, HeadLogin(host="two", port=1, token="t" * 2000, **fields))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, resource.RLIM_INFINITY))
    assert [*kept.parent.iterdir()] == [kept]
    assert [each.host for each in logins(home)] == ["one"]


def test_after_a_login_commands_work_as_on_the_head(head: RealHead, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    home.mkdir()
    result = hn(home, "login", given=f"hn login {offered(head)}\n")
    assert result.returncode == 0, result.stderr
    name = read_invitation(offered(head)).host
    there = ("--scheduler", name)
    job = head.ask("jobs")["total"] + 1
    done = hn(home, "job", "submit", *there, "--wait", "echo", "far", "away")
    assert done.returncode == 0, done.stderr
    assert "far away" in done.stdout
    assert head.ask("job", job=job)["job"]["submit_host"] == "127.0.0.1"
    assert done.stderr == "hn: it runs in your home directory\n"  # for the nodes have no directory of ours
    followed = hn(home, "task", "output", f"{job}.1", "--follow", *there)
    assert followed.stdout == "far away\n"
    own = tmp_path / "own.txt"
    assert hn(home, "job", "submit", *there, f"/stdout:{own}", "--wait", "echo", "own").returncode == 0
    assert hn(home, "task", "output", f"{job + 1}.1", *there).stdout == "own\n"
    own.unlink()
    gone = hn(home, "task", "output", f"{job + 1}.1", *there).stderr
    assert f":{own}' cannot be read: No such file or directory" in gone
    assert hn(home, "login", "--shared-files", given=f"hn login {offered(head)}\n").returncode == 0
    assert hn(home, "job", "submit", *there, "--wait", "pwd").stdout.endswith(f"\n{Path.cwd()}\n")
    assert hn(home, "logout", name).returncode == 0
    assert "have not logged in" in hn(home, "job", "list", *there).stderr


def test_a_login_tells_the_token_to_nobody_but_its_file(head: RealHead, tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    path = keep(environ, logged_in(head))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600  # noqa: PTH116
    token = logins(environ)[0].token
    kept = b"".join(file.read_bytes() for file in head.state.iterdir() if file.is_file())
    assert token.encode() not in kept
    assert token not in head.log()


def test_a_login_file_that_others_can_read_is_refused(head: RealHead, tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    path = Path(keep(environ, logged_in(head)))
    path.chmod(0o640)
    with pytest.raises(NotAllowed) as error:
        logins(environ)
    assert error.value.code == "login-file"


def test_a_login_is_taken_once(head: RealHead) -> None:
    line = offered(head)
    redeem_login(line)
    with pytest.raises(Refused) as error:
        redeem_login(line)
    assert error.value.code == "login"


def test_wrong_and_revoked_tokens_are_refused_at_once(head: RealHead) -> None:
    login = logged_in(head)
    client, other = Client(login), Client(login)
    assert client.ask("whoami")["user"] == head.ask("whoami")["user"]
    other.ask("revoke_token", token=login.number)
    assert refused(client) == "token"  # on the connection that is open
    client.close()
    assert refused(client) == "token"
    other.close()
    login.token = "x" * len(login.token)
    assert refused(Client(login)) == "token"


def test_an_expired_token_is_refused_where_it_is_in_use(head: RealHead) -> None:
    client = Client(logged_in(head, lifetime=2.0))  # to be shown once before it is over
    assert client.ask("ping")
    deadline = time.monotonic() + TIMEOUT
    code = ""
    while not code and time.monotonic() < deadline:
        try:
            client.ask("ping")
        except HeadnodeError as error:
            code = error.code
    assert code == "token"
    client.close()


def test_a_token_of_another_cluster_is_refused(head: RealHead, tmp_path: Path) -> None:
    login = logged_in(head)
    with real_head(tmp_path / "other", nodes=0, listen=free_address()) as other:
        stranger = logged_in(other)
        assert (
            refused(Client(_at(stranger, login))) == "wrong-head"
        )  # its authority does not vouch for this head
        stranger.authority = login.authority
        assert refused(Client(_at(stranger, login))) == "token"


def _at(login: HeadLogin, place: HeadLogin) -> HeadLogin:
    login.host, login.port = place.host, place.port
    return login


def test_a_token_makes_no_tokens(head: RealHead) -> None:
    client = Client(logged_in(head))
    assert refused(client, "create_token") == "not-here"
    client.close()


def test_following_a_job_ends_when_the_token_is_revoked(head: RealHead) -> None:
    login = logged_in(head)
    client = Client(login)
    job = head.submit("sleep 60")
    head.wait_for(job, "Running")
    updates = client.follow("watch_jobs", job=job)
    next(updates)
    head.ask("revoke_token", token=login.number)
    head.ask("set_progress", job=job, percent=50)
    with pytest.raises(Refused) as error:
        for _ in updates:
            pass
    assert error.value.code == "token"
    head.ask("cancel_job", job=job, force=True)


def test_large_jobs_and_answers_go_both_ways(head: RealHead) -> None:
    client = Client(logged_in(head))
    node = head.ask("nodes")["nodes"][0]["name"]
    head.ask("pause_node", node=node)
    tasks = [{"command": f"true {number} " + "x" * 1000} for number in range(2000)]
    job = client.ask("submit_job", tasks=tasks)["job"]
    assert len(client.ask("tasks", job=job, limit=10_000)["tasks"]) == len(tasks)
    client.ask("cancel_job", job=job)
    head.ask("resume_node", node=node)
    client.close()


def test_a_certificate_of_a_node_opens_nothing_for_clients_and_a_token_nothing_for_nodes(
    head: RealHead, tmp_path: Path
) -> None:
    login = logged_in(head)
    node = JoinedNode(tmp_path / "nodes", "curious")
    assert node.join(invite(head, approve=True)).returncode == 0
    identity = node.state / "identity"
    with _tls(login, alpn=CLIENT, certificate=identity) as stream:
        _send(stream, json.dumps({"verb": "log_in", "token": login.token}).encode())
        assert stream.recv(1) == b""
    with _tls(login) as stream:  # without the word of clients: the door of nodes
        _send(stream, json.dumps({"verb": "log_in", "token": login.token}).encode())
        assert stream.recv(1) == b""
    works(login)


def _tls(login: HeadLogin, alpn: str = "", certificate: Path | None = None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=login.authority)
    if alpn:
        context.set_alpn_protocols([alpn])
    if certificate is not None:
        context.load_cert_chain(certificate / "node.pem", certificate / "node.key")
    plain = socket.create_connection((login.host, login.port), TIMEOUT)
    return context.wrap_socket(plain, server_hostname=HEAD_NAME)


def _send(stream: "ssl.SSLSocket | socket.socket", body: bytes) -> None:
    stream.sendall(len(body).to_bytes(4, "big") + body)


GARBAGE = {
    "too large": (5000).to_bytes(4, "big"),
    "no JSON": (4).to_bytes(4, "big") + b"\xff\x00{{",
    "no object": (2).to_bytes(4, "big") + b"[]",
    "another verb": (16).to_bytes(4, "big") + b'{"verb": "nodes" }',
    "no token": (16).to_bytes(4, "big") + b'{"verb": "log_in"}',
    "a token of another kind": (28).to_bytes(4, "big") + b'{"verb": "log_in", "token": 1 }',
}


@pytest.mark.parametrize("words", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_greeting_ends_its_own_connection(head: RealHead, words: bytes) -> None:
    login = logged_in(head)
    with _tls(login, alpn=CLIENT) as stream:
        stream.sendall(words)
        size = int.from_bytes(stream.recv(4), "big")
        answer = json.loads(_exactly(stream, size))
        assert answer["ok"] is False
        assert stream.recv(1) == b""
    works(login)


def test_a_frame_too_large_ends_its_own_connection(head: RealHead) -> None:
    login = logged_in(head)
    connection = dial(login.host, login.port, login.authority)
    connection.send({"verb": "log_in", "token": login.token})
    assert connection.receive()["ok"]
    stream = connection._socket
    stream.sendall((1 << 30).to_bytes(4, "big"))
    assert connection.receive()["code"] == "frame"
    with pytest.raises(EOFError):
        connection.receive()
    connection.close()
    works(login)


def test_who_says_nothing_keeps_nobody_out(head: RealHead) -> None:
    login = logged_in(head)
    silent = [_tls(login, alpn=CLIENT) for _ in range(b.STRANGERS_OF_ADDRESS.most)]
    works(login)
    assert silent[0].recv(1) == b""  # the oldest had to go
    for stream in silent:
        stream.close()


def test_one_user_takes_no_more_than_his_share(head: RealHead) -> None:
    hers, mine = logged_in(head, user="nobody"), logged_in(head)
    taken = [tls_connection.connect(hers) for _ in range(b.CONNECTIONS.most)]
    assert refused(Client(hers)) == "too-many-connections"
    works(mine)
    taken.pop().close()
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            works(hers)
            break
        except Refused:
            assert time.monotonic() < deadline
    for connection in taken:
        connection.close()


def test_clients_that_stall_in_a_large_request_hold_no_memory_and_nobody_up(head: RealHead) -> None:
    login = logged_in(head)
    before = _memory(head)
    stalled = []
    for _ in range(20):
        connection = dial(login.host, login.port, login.authority)
        connection.send({"verb": "log_in", "token": login.token})
        assert connection.receive()["ok"]
        connection._socket.sendall(b.REQUEST.most.to_bytes(4, "big") + b"x" * 1000)
        stalled.append(connection)
    works(login)
    assert _memory(head) - before < 64 << 20
    for connection in stalled:
        connection.close()


def _memory(head: RealHead) -> int:
    pages = Path(f"/proc/{head.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _exactly(stream: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        assert piece, "the head hung up"
        data += piece
    return data


def test_output_on_another_machine_is_read_by_token_too(head: RealHead, tmp_path: Path) -> None:
    node = JoinedNode(tmp_path / "nodes", "far")
    assert node.join(invite(head, approve=True)).returncode == 0
    node.start()
    try:
        wait_for_state(head, "far", "Ready")
        client = Client(logged_in(head))
        job = client.ask("submit_job", terms={"requestednodes": "far"}, tasks=[{"command": "echo x"}])["job"]
        assert head.wait(job)["state"] == "Finished"
        assert client.ask("read_output", job=job, task=1)["size"] == 2
        client.close()
    finally:
        node.stop()


def test_the_rule_which_head_is_asked(tmp_path: Path) -> None:
    from headnode.apps.client.head_location import head_to_ask

    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    old, new = (
        HeadLogin(
            host=host, port=5817, cluster=cluster, user="u", number=1, token="t", expires=0.0, authority="a"
        )
        for host, cluster in (("head.example.org", "blue"), ("192.0.2.1", "red"))
    )
    keep(environ, old)
    keep(environ, new)
    assert head_to_ask(environ, 4242).address == new.address
    for name in ("blue", "HEAD", "head.example.org", "head.example.org:5817"):
        assert head_to_ask(environ, 4242, scheduler=name).address == old.address
    assert head_to_ask({**environ, "CCP_SCHEDULER": "red"}, 4242).address == new.address
    (tmp_path / "state" / "headnode").mkdir(parents=True)
    (tmp_path / "state" / "headnode" / "head.sock").touch()
    assert head_to_ask(environ, 4242) == str(tmp_path / "state" / "headnode")


def test_addresses_with_colons_are_written_in_brackets() -> None:
    login = HeadLogin(
        host="2001:db8::1", port=7, cluster="c", user="u", number=1, token="t", expires=0.0, authority="a"
    )
    assert read_address(login.address, "x") == ("2001:db8::1", 7)
