"""The SDK over HTTPS: a real gateway with a certificate of its own, in both faces."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gateways import RealGateway, real_gateway, write_certificate

from depth import share_of
from headnode.sdk import (
    AsyncHeadnodeClient,
    BadRequest,
    HeadnodeClient,
    HeadnodeExecutor,
    NotAllowed,
    NotFound,
    Unavailable,
    WrongState,
)
from headnode.sdk.following import JobFollower
from heads import TIMEOUT, RealHead, real_head, shared_head_fixture
from testbed.processes import free_address


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("certificate"))


head = shared_head_fixture(processors=4)


@pytest.fixture(scope="module")
def gateway(head: RealHead, certificate: tuple[Path, Path]) -> Iterator[RealGateway]:
    file, key = map(str, certificate)
    with real_gateway(head, "--certificate", file, "--key", key) as started:
        assert started.address.startswith("https://")
        yield started


@pytest.fixture(scope="module")
def token(gateway: RealGateway) -> str:
    return gateway.token()


@pytest.fixture
def client(gateway: RealGateway, token: str, certificate: tuple[Path, Path]) -> Iterator[HeadnodeClient]:
    with HeadnodeClient(url=gateway.address, token=token, ca_file=certificate[0]) as made:
        yield made


def test_a_job_is_submitted_watched_and_read(client: HeadnodeClient) -> None:
    job = client.submit("echo out; echo err >&2; exit 0", name="größe & a=b", processors=1)
    assert [each.state for each in job.watch(timeout=TIMEOUT)][-1] == "Finished"
    assert job.wait(timeout=TIMEOUT, check=True).state == "Finished"
    assert sorted(job.output().split()) == ["err", "out"]
    assert job.output(limit=2) == job.output()[-2:]
    assert job.show().name == "größe & a=b"
    assert [task.state for task in job.tasks()] == ["Finished"]
    assert [each.id for each in client.jobs(name="größe & a=b", states=["Finished", "Failed"])] == [job.id]
    assert client.nodes()[0].name
    assert client.cluster().policy
    assert job.history()
    assert client.check("true", processors=1).explanation is not None


def test_output_of_several_pieces_is_read_whole(client: HeadnodeClient) -> None:
    job = client.submit("head -c 700000 /dev/zero | tr '\\0' x")
    job.wait(timeout=TIMEOUT, check=True)
    assert job.output_bytes() == b"x" * 700_000
    empty = client.submit("true")
    empty.wait(timeout=TIMEOUT)
    assert empty.output_bytes() == b""


def test_a_refusal_is_the_error_that_it_is(client: HeadnodeClient) -> None:
    with pytest.raises(NotFound, match="no-such-job"):
        client.job(99_999).show()
    with pytest.raises(BadRequest) as wrong:
        client.submit("true", run_time="soon")
    assert "run_time" in str(wrong.value.path)
    with pytest.raises(NotFound, match="no-such-job"):
        list(client.watch(99_999))
    job = client.submit("exit 3")
    with pytest.raises(WrongState, match="job-not-finished"):
        job.wait(timeout=TIMEOUT, check=True)
    with pytest.raises(NotAllowed, match="not-by-rest"):
        client.verbs.backup()
    assert client.verbs.ping().cluster  # the connection goes on


def test_a_time_limit_of_a_wait_holds(client: HeadnodeClient) -> None:
    job = client.submit("sleep 600")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.5)
    job.cancel()
    assert job.wait(timeout=TIMEOUT).state == "Canceled"


def test_many_threads_wait_at_the_same_time(client: HeadnodeClient, tmp_path: Path) -> None:
    go = tmp_path / "go"
    jobs = [client.submit(f"until test -e {go}; do sleep 0.1; done") for _ in range(40)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        waits = [pool.submit(job.wait, timeout=2 * TIMEOUT) for job in jobs]
        assert client.verbs.ping().cluster  # others are answered meanwhile
        go.touch()
        assert {wait.result().state for wait in waits} == {"Finished"}


def test_a_submission_with_a_key_is_carried_out_once(client: HeadnodeClient) -> None:
    first = client.submit("true", idempotency="by-web-1")
    assert client.submit("true", idempotency="by-web-1").id == first.id


def test_events_come_as_they_happen(client: HeadnodeClient) -> None:
    before = client.verbs.events().after
    job = client.submit("true")
    types = []
    for event in client.events(after=before, jobs=[job], timeout=TIMEOUT):
        types.append(event.type)
        if event.type == "job.ended":
            break
    assert types[:2] == ["job.created", "job.submitted"]


def test_a_follower_is_told_of_every_end(client: HeadnodeClient) -> None:
    ended: list[int] = []
    follower = JobFollower(
        client, lambda job: ended.append(job.id) if job.state == "Finished" else None, pytest.fail
    )
    jobs = [client.submit("true").id for _ in range(3)]
    for job in jobs:
        follower.add(job)
    client.wait(*jobs, timeout=TIMEOUT)
    follower_has_all(ended, jobs, client)
    follower.close()


def follower_has_all(ended: list[int], jobs: list[int], client: HeadnodeClient) -> None:
    """Let other events pass until the follower was told of all ends."""
    for _ in client.events(after=0, types=["job.ended"], timeout=TIMEOUT):
        if sorted(ended) == jobs:
            return
        client.submit("true").wait(timeout=TIMEOUT)


def test_coroutines_do_the_same(
    gateway: RealGateway, token: str, certificate: tuple[Path, Path], client: HeadnodeClient
) -> None:
    async def run() -> None:
        async with AsyncHeadnodeClient(
            gateway.address, token=token, ca_file=certificate[0], patience=5.0
        ) as other:
            jobs = [await other.submit(f"echo {number}") for number in range(3)]
            output = {
                ended.id: await other.job(ended.id or 0).output()
                async for ended in other.as_completed(*jobs, timeout=TIMEOUT)
            }
            assert output == {job.id: f"{number}\n" for number, job in enumerate(jobs)}
            with pytest.raises(NotFound, match="no-such-job"):
                await other.job(99_999).show()
            with pytest.raises(TimeoutError):
                await (await other.submit("sleep 600", name="long")).wait(timeout=0.5)
            async for each in other.jobs(name="long"):
                await other.job(each.id).cancel()

    asyncio.run(run())


def test_functions_run_as_tasks(client: HeadnodeClient, tmp_path: Path) -> None:
    with HeadnodeExecutor(client, directory=tmp_path, name="by-web") as executor:
        numbers = range(share_of(100))
        futures = [executor.submit(pow, n, 2) for n in numbers]
        assert [future.result(TIMEOUT) for future in futures] == [n**2 for n in numbers]
        assert isinstance(executor.submit(divmod, 1, 0).exception(TIMEOUT), ZeroDivisionError)


def test_the_environment_names_the_gateway(
    gateway: RealGateway, token: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADNODE_URL", f"{gateway.address}/")
    monkeypatch.setenv("HEADNODE_TOKEN", token)
    monkeypatch.setenv("HEADNODE_CA_FILE", os.fspath(certificate[0]))
    with HeadnodeClient() as client:
        assert client.verbs.whoami().user
    with pytest.raises(BadRequest, match="several-heads"):
        HeadnodeClient("/somewhere", url=gateway.address)


@pytest.mark.parametrize("face", ["blocking", "asynchronous"])
def test_who_cannot_be_trusted_gets_no_token(
    gateway: RealGateway, certificate: tuple[Path, Path], tmp_path: Path, face: str
) -> None:
    def ask(ca_file: Path | None, token: str = "t" * 20, url: str = gateway.address) -> None:
        if face == "blocking":
            with HeadnodeClient(url=url, token=token, ca_file=ca_file, patience=0.0) as client:
                client.verbs.ping()
            return

        async def run() -> None:
            async with AsyncHeadnodeClient(url=url, token=token, ca_file=ca_file, patience=0.0) as client:
                await client.verbs.ping()

        asyncio.run(run())

    with pytest.raises(NotAllowed, match="wrong-gateway"):
        ask(None)  # the authorities of the system do not know it
    with pytest.raises(NotAllowed, match="wrong-gateway"):
        ask(write_certificate(tmp_path)[0])
    with pytest.raises(NotAllowed, match="wrong-gateway"):
        ask(certificate[0], url=gateway.address.replace("127.0.0.1", "localhost"))
    with pytest.raises(NotAllowed, match="token"):
        ask(certificate[0])
    with pytest.raises(BadRequest, match="certificate"):
        ask(tmp_path / "nothing.pem")
    with pytest.raises(Unavailable, match="head-away"):
        ask(certificate[0], url=f"https://{free_address()}")


@pytest.mark.parametrize(
    ("url", "token", "code"),
    [
        ("http://cluster.example.org:8170", "t", "gateway-address"),
        ("https://ada:secret@cluster.example.org", "t", "gateway-address"),
        ("https://", "t", "gateway-address"),
        ("https://host:port", "t", "gateway-address"),
        ("https://host/?q", "t", "gateway-address"),
        ("https://host", "", "token"),
        ("https://host", "two words\r\nX: y", "token"),
    ],
)
def test_an_address_or_a_token_that_is_none_is_refused(url: str, token: str, code: str) -> None:
    with pytest.raises((BadRequest, NotAllowed), match=code) as refused:
        HeadnodeClient(url=url, token=token)
    assert "secret" not in str(refused.value)


def test_a_wait_goes_on_when_the_head_and_the_gateway_were_away(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    file, key = map(str, certificate)
    with real_head(tmp_path) as head:
        with real_gateway(head, "--certificate", file, "--key", key) as gateway:
            token, address = gateway.token(), gateway.address
            client = HeadnodeClient(url=address, token=token, ca_file=file)
            job = client.submit(f"until test -e {tmp_path}/go; do sleep 0.1; done; echo done")
            states = job.watch(timeout=2 * TIMEOUT)
            assert next(states).id == job.id
            head.kill()
            head.start_again()
        port = address.rpartition(":")[2]
        with real_gateway(head, "--certificate", file, "--key", key, "--port", port):
            (tmp_path / "go").touch()
            assert [each.state for each in states][-1] == "Finished"
            assert job.output() == "done\n"
            client.close()
