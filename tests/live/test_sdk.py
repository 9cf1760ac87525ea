"""The client of the SDK on a real head: both faces, errors, waiting without polling, heads that come back."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import pytest

from headnode.sdk import (
    AsyncHeadnodeClient,
    BadRequest,
    HeadnodeClient,
    NotFound,
    Unavailable,
    WrongState,
)
from headnode.sdk.following import JobFollower
from heads import RealHead, real_head, shared_head_fixture
from testbed.request_relay import request_relay

head = shared_head_fixture()


@pytest.fixture
def client(head: RealHead) -> Iterator[HeadnodeClient]:
    with HeadnodeClient(head.state) as made:
        yield made


def test_a_command_is_submitted_waited_for_and_read(client: HeadnodeClient) -> None:
    job = client.submit(["printf", "%s\n", "a b", "$HOME"], name="first", run_time=timedelta(minutes=5))
    ended = job.wait(timeout=30, check=True)
    assert (ended.id, ended.name, ended.state, ended.run_time) == (job.id, "first", "Finished", 300.0)
    assert job.output() == "a b\n$HOME\n"


def test_a_job_runs_where_it_was_submitted(
    client: HeadnodeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = client.submit("pwd")
    job.wait(timeout=30, check=True)
    assert job.output() == f"{tmp_path}\n"


def test_the_home_directory_may_be_the_work_directory(client: HeadnodeClient) -> None:
    for home in ("~", "~/"):
        job = client.submit("pwd", work_directory=home)
        job.wait(timeout=30, check=True)
        assert job.output() == f"{Path.home()}\n"


def test_a_job_is_named_by_a_number(client: HeadnodeClient) -> None:
    with pytest.raises(TypeError):
        client.job("5")


def test_a_refusal_names_the_argument_and_no_position_in_a_text(client: HeadnodeClient) -> None:
    with pytest.raises(BadRequest, match=r"\Ajob: processors: 'x' is not a number") as refused:
        client.submit("true", processors="x")
    assert refused.value.path == ("processors",)
    with pytest.raises(BadRequest, match=r"\Atask 2: run_time: "):
        client.check(tasks=[{"command": "true"}, {"command": "true", "run_time": "9q"}])
    _, bad = client.submit_many([{"command": "true"}, {"command": "true", "processors": "x"}])
    assert str(bad).startswith("job: processors: ")
    with pytest.raises(BadRequest, match=r"\Asubmission 2 of 2: job: processors: "):
        client.submit_many([{"command": "true"}, {"command": "true", "processors": "x"}], all_or_none=True)


def test_tasks_of_a_job_have_options_of_their_own(client: HeadnodeClient) -> None:
    job = client.submit(
        tasks=[
            {"name": "make", "command": "echo made", "environment": {"A": "1"}},
            {
                "name": "use",
                "command": ["sh", "-c", "echo $A"],
                "depends_on": "make",
                "environment": {"A": "2"},
            },
        ],
        processors="1-2",
    )
    job.wait(timeout=30, check=True)
    assert [task.state for task in job.tasks()] == ["Finished", "Finished"]
    assert (job.output(1), job.output(2)) == ("made\n", "2\n")


def test_a_sweep_is_a_range(client: HeadnodeClient) -> None:
    job = client.submit("echo *", sweep=range(10, 31, 10))
    job.wait(timeout=30, check=True)
    assert [task.instance for task in job.tasks(expand=1)] == [1, 2, 3]
    assert job.output(1, 2) == "20\n"


def test_more_output_than_an_answer_has_is_read_whole(client: HeadnodeClient) -> None:
    job = client.submit("seq 100000")
    job.wait(timeout=30, check=True)
    assert job.output() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert job.output(limit=14) == "\n99999\n100000\n"


def test_jobs_are_found_page_by_page(client: HeadnodeClient) -> None:
    made = [client.submit("true", name="paged", holds="data") for _ in range(3)]
    found = [job.id for job in client.jobs(name="paged", states=["Queued"])]
    assert found == [job.id for job in reversed(made)]
    for job in made:
        job.release()
    assert {job.state for job in client.wait(*made, timeout=30)} == {"Finished"}


def test_a_job_file_of_any_language_is_submitted(client: HeadnodeClient, tmp_path: Path) -> None:
    (tmp_path / "job.xml").write_text('<Job Name="xml"><Tasks><Task CommandLine="echo xml" /></Tasks></Job>')
    (job,) = client.submit_file(tmp_path / "job.xml", terms={"priority": "AboveNormal"})
    ended = job.wait(timeout=30, check=True)
    assert (ended.name, ended.priority_name) == ("xml", "AboveNormal")
    assert job.output() == "xml\n"


def test_a_job_that_waits_for_jobs_names_them(client: HeadnodeClient) -> None:
    first = client.submit("sleep 100")
    second = client.submit("true", parents=[first])
    assert [each.job for each in second.show().dependencies] == [first.id]
    assert [reason.kind for reason in client.explain(second).reasons] == ["dependency"]
    first.cancel()
    assert [job.state for job in client.wait(first, second, timeout=30)] == ["Canceled", "Canceled"]


def test_a_failed_job_is_an_error_if_it_is_checked(client: HeadnodeClient) -> None:
    job = client.submit("exit 3")
    assert job.wait(timeout=30).state == "Failed"
    with pytest.raises(WrongState, match="job-not-finished"):
        job.wait(timeout=30, check=True)


def test_refusals_are_errors_of_their_class_with_a_path(client: HeadnodeClient) -> None:
    with pytest.raises(BadRequest) as wrong:
        client.submit(tasks=[{"command": "true"}, {"command": "true", "run_time": "soon"}])
    assert wrong.value.code
    assert wrong.value.fix
    assert wrong.value.path == ("tasks", 1, "run_time")
    with pytest.raises(NotFound, match="no-such-job"):
        client.job(999_999).show()
    with pytest.raises(BadRequest, match="usage"):
        client.submit()
    with pytest.raises(BadRequest, match="sweep"):
        client.submit("echo *", sweep=range(0))


def test_a_head_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with HeadnodeClient(tmp_path, patience=0.0) as nobody, pytest.raises(Unavailable, match="no-head"):
        nobody.job(1).wait()


def test_waiting_asks_the_head_once_and_polls_nothing(head: RealHead, tmp_path: Path) -> None:
    with request_relay(tmp_path / "relay", head.state) as relay, HeadnodeClient(relay.state) as client:
        jobs = [client.submit("sleep 1.5") for _ in range(4)]
        assert {job.state for job in client.wait(*jobs, timeout=30)} == {"Finished"}
        assert relay.asked == {"submission_defaults": 1, "submit_job": 4, "watch_jobs": 1}


def test_waiting_goes_on_after_the_head_was_killed(tmp_path: Path) -> None:
    with real_head(tmp_path) as head, HeadnodeClient(head.state) as client:
        job = client.submit("sleep 2; echo survived")
        changes = client.watch(job)
        next(changes)
        head.kill()
        again = threading.Thread(target=head.start_again)
        again.start()
        states = [change.state for change in changes]
        again.join()
        assert states[-1] == "Finished"
        assert job.output() == "survived\n"


def test_a_wait_ends_when_its_time_is_over(client: HeadnodeClient) -> None:
    job = client.submit("sleep 100")
    with pytest.raises(TimeoutError):
        job.wait(timeout=0.3)
    job.cancel()
    assert job.wait(timeout=30).state == "Canceled"


def test_threads_share_a_client(client: HeadnodeClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda n: client.submit(f"echo {n}"), range(20)))
        list(threads.map(lambda job: job.wait(timeout=60, check=True), jobs))
        assert list(threads.map(lambda job: job.output(), jobs)) == [f"{n}\n" for n in range(20)]


def test_coroutines_ask_at_the_same_time(head: RealHead) -> None:
    async def ask() -> list[str]:
        async with AsyncHeadnodeClient(head.state) as client:
            jobs = await asyncio.gather(*(client.submit(f"echo {n}") for n in range(10)))
            seen = [job.id async for job in client.as_completed(*jobs, timeout=60)]
            assert sorted(seen) == sorted(job.id for job in jobs)
            return list(await asyncio.gather(*(job.output() for job in jobs)))

    assert asyncio.run(ask()) == [f"{n}\n" for n in range(10)]


def test_a_coroutine_that_is_canceled_takes_no_answer_of_another(head: RealHead) -> None:
    async def ask() -> None:
        async with AsyncHeadnodeClient(head.state) as client:
            job = await client.submit("true")
            for _ in range(20):
                dropped = asyncio.create_task(client.verbs.nodes())
                await asyncio.sleep(0)
                dropped.cancel()
                assert (await client.verbs.job(job.id)).job.id == job.id
            with pytest.raises(TimeoutError):
                await (await client.submit("sleep 100")).wait(timeout=0.2)
            async for each in client.jobs(states=["Running", "Queued"]):
                await client.job(each.id or 0).cancel()

    asyncio.run(ask())


def test_a_submission_whose_answer_is_lost_is_carried_out_once(head: RealHead, tmp_path: Path) -> None:
    async def ask(state: Path) -> None:
        async with AsyncHeadnodeClient(state) as client:
            await (await client.submit("true", name="once")).wait(timeout=30)

    with request_relay(tmp_path / "relay", head.state) as relay:
        relay.lost["submit_job"] = 1
        asyncio.run(ask(relay.state))
        assert relay.asked["submit_job"] == 2
        with HeadnodeClient(relay.state) as client:
            relay.lost["submit_job"] = 1
            client.submit("true", name="once").wait(timeout=30)
            assert len(list(client.jobs(name="once"))) == 2


def test_a_follower_goes_on_when_the_answer_about_a_job_is_lost(head: RealHead, tmp_path: Path) -> None:
    found: SimpleQueue[str] = SimpleQueue()
    with request_relay(tmp_path / "relay", head.state) as relay, HeadnodeClient(relay.state) as client:
        follower = JobFollower(client, lambda job: found.put(job.state), lambda error: found.put(error.code))
        job = client.submit(f"until test -e {tmp_path}/go; do sleep 0.1; done")
        follower.add(job.id)
        relay.lost["job"] = 1  # as if the head was started anew now
        (tmp_path / "go").touch()
        states = []
        while states[-1:] not in (["Finished"], ["head-gone"]):
            states.append(found.get(timeout=30))
        assert states[-1] == "Finished"
        assert relay.lost["job"] == 0
        follower.close()
