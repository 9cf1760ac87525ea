"""The SDK on another machine than the head: by TLS with a token, in both faces."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.apps.client.logins import HeadLogin, keep
from headnode.apps.client.tls_connection import redeem_login
from headnode.sdk import AsyncHeadnodeClient, HeadnodeClient, NotAllowed, Unavailable
from heads import RealHead, real_head
from testbed.processes import free_address


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("far"), listen=free_address()) as started:
        yield started


@pytest.fixture
def login(head: RealHead) -> HeadLogin:
    return redeem_login(head.ask("create_token")["login"])


def log_in(login: HeadLogin, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Keep a login as a user without a head here; return the name of the head."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    keep({"XDG_CONFIG_HOME": str(home)}, login)
    return login.address


async def submitted(scheduler: str) -> tuple[str, str]:
    async with AsyncHeadnodeClient(scheduler=scheduler, patience=0.0) as client:
        job = await client.submit("pwd")
        ended = await job.wait(timeout=30)
        return ended.state, await job.output()


def test_jobs_of_another_machine_run_in_the_home_directory(
    login: HeadLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = log_in(login, tmp_path, monkeypatch)
    assert asyncio.run(submitted(name)) == ("Finished", f"{Path.home()}\n")
    with HeadnodeClient(scheduler=name) as client:
        job = client.submit("pwd")
        assert (job.wait(timeout=30).state, job.output()) == ("Finished", f"{Path.home()}\n")


def test_a_wrong_token_and_a_wrong_head_are_refused(
    login: HeadLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with real_head(tmp_path / "other", nodes=0, listen=free_address()) as other:
        stranger = redeem_login(other.ask("create_token")["login"])
    stranger.host, stranger.port = login.host, login.port
    with pytest.raises(NotAllowed, match="wrong-head"):
        asyncio.run(submitted(log_in(stranger, tmp_path, monkeypatch)))
    stranger.authority = login.authority
    with pytest.raises(NotAllowed, match="token"):
        asyncio.run(submitted(log_in(stranger, tmp_path, monkeypatch)))


def test_a_head_that_does_not_answer_is_named(
    login: HeadLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login.host, login.port = free_address().split(":")[0], int(free_address().split(":")[1])
    with pytest.raises(Unavailable, match="head-away"):
        asyncio.run(submitted(log_in(login, tmp_path, monkeypatch)))
