"""Clients of other machines find the head that took over, and use none that was replaced."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.adapters.wire.messages import Goodbye
from headnode.adapters.wire.peers import CLIENT
from headnode.adapters.wire.tls import Authority, head_side
from headnode.apps.client import tls_connection
from headnode.apps.client.client import Client
from headnode.apps.client.logins import HeadLogin, keep, login_named, logins
from headnode.apps.client.tls_connection import MAX_HEADS, dial, others_of, redeem_login
from headnode.core.model.errors import IS_STANDBY, BadRequest, HeadnodeError, Unavailable
from headnode.sdk.asynchronous.connection import AsyncHeadTransport
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address, unanswering

WHAT = "this is a standby head"
REFUSAL = {"ok": False, "class": "busy", "what": WHAT, "code": IS_STANDBY, "fix": ""}


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


def offered(head: RealHead) -> str:
    line: str = head.ask("create_token")["login"]
    return line


@pytest.fixture
def login(head: RealHead) -> HeadLogin:
    return redeem_login(offered(head))


@contextlib.contextmanager
def spoken(head: RealHead, answer: dict[str, Any]) -> Iterator[str]:
    """Answer every first request at an address so, with the certificate of the head; give the address."""
    context = head_side(Authority(head.state / "authority"))
    goodbye = msgspec.msgpack.encode(Goodbye(reason=f"{IS_STANDBY}: {WHAT}"))
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            while True:
                try:
                    plain, _ = door.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as client:
                    read(client, size_of(read(client, HEADER), 10_000))
                    of_client = client.selected_alpn_protocol() == CLIENT
                    client.sendall(frame(json.dumps(answer).encode() if of_client else goodbye))

        def read(client: ssl.SSLSocket, size: int) -> bytes:
            data = b""
            while len(data) < size and (piece := client.recv(size - len(data))):
                data += piece
            return data

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"127.0.0.1:{door.getsockname()[1]}"
        door.shutdown(socket.SHUT_RDWR)
    serving.join(TIMEOUT)


def at(login: HeadLogin, address: str, *others: str, term: int = 0) -> HeadLogin:
    """Let the login begin at another address."""
    host, _, port = address.rpartition(":")
    login.host, login.port, login.others, login.term = host, int(port), others, term
    return login


def failed(login: HeadLogin) -> HeadnodeError:
    client = Client(login)
    with pytest.raises(HeadnodeError) as error:
        client.ask("whoami")
    return error.value


def test_a_head_says_its_term_and_its_standby_heads_when_somebody_logs_in(
    head: RealHead, login: HeadLogin
) -> None:
    connection = dial(login.host, login.port, login.authority)
    connection.send({"verb": "log_in", "token": login.token})
    answer = connection.receive(TIMEOUT)
    connection.close()
    assert (answer["standbys"], answer["term"]) == ([], 0)
    assert (login.others, login.term) == ((), 0)


def test_a_client_finds_the_head_elsewhere_and_begins_there_the_next_time(
    head: RealHead, login: HeadLogin, tmp_path: Path
) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    there, dead = login.address, free_address()
    with spoken(head, REFUSAL) as standby:
        keep(environ, at(login, dead, standby, there))
        fields = {"cluster": "c", "user": "u", "number": 1, "token": "t", "expires": 0.0, "authority": "a"}
        keep(environ, HeadLogin(host="newer", port=1, **fields))
        found = login_named(environ, dead)
        client = Client(found)
        assert client.ask("whoami")["user"]
        client.close()
        assert (found.address, found.others) == (there, (dead, standby))
        newer, kept = logins(environ)
        assert (newer.host, kept.address, kept.others) == ("newer", there, (dead, standby))
        assert login_named(environ, dead).address == there  # it is still called so
        done = hn(tmp_path, "whoami", "--scheduler", there)
        assert done.returncode == 0, done.stderr
        assert there in done.stdout


def test_the_sdk_finds_it_too(head: RealHead, login: HeadLogin) -> None:
    there = login.address

    async def ask() -> str:
        transport = AsyncHeadTransport(login)
        try:
            return str((await transport.ask("whoami", {}))["cluster"])
        finally:
            await transport.close()

    with spoken(head, REFUSAL) as standby:
        at(login, free_address(), standby, there)
        assert asyncio.run(ask()) == login.cluster
        assert login.address == there
        at(login, standby, free_address())
        with pytest.raises(Unavailable, match="is not reached") as error:
            asyncio.run(ask())
        assert "this is a standby head" in error.value.what


def test_who_finds_no_head_is_told_every_address_and_why_in_one_line(
    head: RealHead, login: HeadLogin
) -> None:
    dead, nonsense = free_address(), "h" * 100 + ":1"
    with spoken(head, REFUSAL) as standby:
        error = failed(at(login, dead, standby, nonsense))
    assert error.code == "head-away"
    assert f"at {dead}: Connection refused; at {standby}: this is a standby head; at hhh" in error.what
    assert "\n" not in str(error)
    assert login.address == dead


def test_a_single_address_fails_as_before_and_a_standby_says_that_it_is_one(
    head: RealHead, login: HeadLogin
) -> None:
    dead = free_address()
    assert failed(at(login, dead)).what == f"the head at {dead} cannot be reached: Connection refused"
    with spoken(head, REFUSAL) as standby:
        assert failed(at(login, standby)).code == IS_STANDBY


def test_a_head_of_a_lower_term_is_not_used(head: RealHead, login: HeadLogin) -> None:
    there = login.address
    error = failed(at(login, there, term=3))
    assert error.code == "old-head"
    assert "its term is 0, and you have used the head of term 3" in error.what
    found = [there, 7, "", "no address", "x:1"]
    greeting = {"ok": True, "user": "u", "cluster": "c", "term": 4, "standbys": found}
    with spoken(head, greeting) as new:
        client = Client(at(login, there, new, term=3))
        with contextlib.suppress(HeadnodeError):  # it answers nothing more
            client.ask("whoami")
        client.close()
        assert (login.address, login.term, login.others) == (new, 4, (there, "x:1"))


@pytest.mark.parametrize("term", [-1, 2**70, "x", None, True])
def test_a_silly_term_counts_as_none(head: RealHead, login: HeadLogin, term: object) -> None:
    with spoken(head, {"ok": True, "user": "u", "cluster": "c", "term": term, "standbys": "x:1"}) as silly:
        assert failed(at(login, silly, term=2)).code == "old-head"
    assert login.others == ()


def test_the_refusal_of_a_head_is_not_taken_for_its_absence(head: RealHead, login: HeadLogin) -> None:
    there, login.token = login.address, "another"
    with spoken(head, REFUSAL) as standby:
        assert failed(at(login, there, standby)).code == "token"


def test_of_many_addresses_a_few_are_remembered() -> None:
    found = [f"h{number}:1" for number in range(1000)]
    assert others_of(found, ("old:1",), "h0:1") == (*found[1:MAX_HEADS], "old:1")
    assert others_of(None, ("old:1", "x" * 400), "h:1") == ("old:1",)


def test_a_login_file_of_before_is_read_and_gets_only_what_is_not_the_default(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    fields = {"cluster": "c", "user": "u", "number": 1, "token": "t", "expires": 0.0, "authority": "a"}
    login = HeadLogin(host="one", port=1, **fields)
    path = Path(keep(environ, login))
    (before,) = json.loads(path.read_text())["logins"]
    assert not {"others", "term"} & before.keys()
    assert logins(environ)[0].others == ()
    for wrong in ({"others": 7}, {"others": [7]}, {"term": "x"}):
        path.write_text(json.dumps({"logins": [before | wrong]}))
        with pytest.raises(Unavailable, match="is damaged"):
            logins(environ)
    path.write_text(json.dumps({"logins": [before | {"others": ["b:1"], "term": 2, "of_later": 1}]}))
    again = logins(environ)[0]
    assert (again.addresses, again.term) == (("one:1", "b:1"), 2)
    keep(environ, HeadLogin(host="b", port=1, **fields))
    assert [each.address for each in logins(environ)] == ["b:1"]  # the same head, at its other address


def test_a_login_that_was_forgotten_meanwhile_stays_forgotten(
    head: RealHead, login: HeadLogin, tmp_path: Path
) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    there = login.address
    path = Path(keep(environ, at(login, free_address(), there)))
    path.write_text('{"logins":[]}')
    client = Client(login)
    assert client.ask("ping")
    client.close()
    assert logins(environ) == []


def hn(directory: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command as on another machine: with no head there."""
    environ = {
        "HOME": str(directory),
        "PATH": os.environ["PATH"],
        "HEADNODE_RESIDENT_CLIENT": "0",
        "XDG_STATE_HOME": str(directory / "elsewhere"),
        "XDG_CONFIG_HOME": str(directory / "config"),
        **{name: value for name, value in os.environ.items() if name == "HEADNODE_TESTS"},
    }
    return subprocess.run(
        [sys.executable, "-m", "headnode.apps.cli", *words],
        env=environ, input=given, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


def test_somebody_logs_in_at_the_first_of_several_addresses_that_is_the_head(
    head: RealHead, login: HeadLogin, tmp_path: Path
) -> None:
    dead = free_address()
    with spoken(head, REFUSAL) as standby:
        line = f"hn login {offered(head)}\n"
        done = hn(tmp_path, "login", f"{dead},{standby},{login.address}", given=line)
        assert done.returncode == 0, done.stderr
        (kept,) = logins({"XDG_CONFIG_HOME": str(tmp_path / "config")})
        assert kept.addresses == (login.address, dead, standby)
        assert hn(tmp_path, "logout", dead).returncode == 0
        assert logins({"XDG_CONFIG_HOME": str(tmp_path / "config")}) == []
        with pytest.raises(Unavailable, match="the head is not reached") as error:
            redeem_login(line, f"{dead},{standby}")
        assert f"{standby} is not the head now: standby: {WHAT}" in error.value.what
    with pytest.raises(BadRequest, match="too many"):
        redeem_login(line, ",".join(f"h{number}" for number in range(MAX_HEADS + 1)))


def test_a_machine_that_answers_nothing_holds_no_client_up(
    head: RealHead, login: HeadLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_connection, "CONNECT", 0.2)
    there = login.address
    with unanswering() as silent:
        client = Client(at(login, silent, there))
        assert client.ask("ping")
        client.close()
        assert login.addresses == (there, silent)
        assert "timed out" in failed(at(login, silent, free_address())).what
