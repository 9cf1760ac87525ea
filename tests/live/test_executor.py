"""Functions as tasks on a real head: values, exceptions, cancels, many calls, a head that is killed."""

import linecache
import os
import pickle
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, as_completed, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from depth import share_of
from headnode.adapters.wire.frame_codec import HEADER, frame
from headnode.protocol.answers import InstanceCounts
from headnode.sdk import BadRequest, HeadnodeClient, HeadnodeExecutor, Unavailable, WrongState
from headnode.sdk.executor.call_files import RESULT, CallDirectory, ResultHeader
from headnode.sdk.executor.calls import HeadnodeFuture, OpenCalls
from headnode.sdk.executor.jobs_of_calls import RESULT_TIMEOUT, JobsOfCalls
from headnode.sdk.synchronous.client import JobHandle
from heads import RealHead, real_head, shared_head_fixture
from testbed.request_relay import RequestRelay, request_relay

TIMEOUT = 60.0  # seconds

head = shared_head_fixture(processors=4)


@pytest.fixture
def client(head: RealHead) -> Iterator[HeadnodeClient]:
    with HeadnodeClient(head.state) as made:
        yield made


@pytest.fixture
def executor(client: HeadnodeClient, tmp_path: Path) -> Iterator[HeadnodeExecutor]:
    made = HeadnodeExecutor(client, directory=tmp_path)
    yield made
    made.shutdown(cancel_futures=True)  # a test that failed may have left calls that wait for ever


def test_values_come_back_in_order(executor: HeadnodeExecutor) -> None:
    factor = 3  # a closure, in a module that the nodes cannot import
    assert list(executor.map(lambda n: n * factor, range(10), timeout=TIMEOUT)) == [n * 3 for n in range(10)]
    future = executor.submit(divmod, 17, 5)
    assert future.result(TIMEOUT) == (3, 2)


def test_an_exception_comes_back_with_the_traceback_of_the_task(executor: HeadnodeExecutor) -> None:
    def divide(by: int) -> float:
        return 1 / by

    error = executor.submit(divide, 0).exception(TIMEOUT)
    assert isinstance(error, ZeroDivisionError)
    assert "return 1 / by" in str(error.__cause__)


def test_a_call_runs_as_a_task_of_its_own(executor: HeadnodeExecutor, client: HeadnodeClient) -> None:
    future: Any = executor.submit(lambda: (os.getpid(), os.environ["CCP_JOBID"], print("said")))
    process, job, _ = future.result(TIMEOUT)
    assert process != os.getpid()
    client.job(int(job)).wait(timeout=TIMEOUT)
    assert future.place == f"{job}.1.1"
    assert client.job(int(job)).output(1, 1) == "said\n"


def test_many_calls_are_a_few_jobs_and_nothing_is_polled(head: RealHead, tmp_path: Path) -> None:
    calls = share_of(1000)
    with request_relay(tmp_path / "relay", head.state) as relay, HeadnodeClient(relay.state) as client:
        with HeadnodeExecutor(client, directory=tmp_path, name="many") as executor:
            futures = [executor.submit(pow, n, 2) for n in range(calls)]
            assert [future.result(5 * TIMEOUT) for future in futures] == [n**2 for n in range(calls)]
        jobs = relay.asked["submit_job"]
        assert jobs + relay.asked["add_tasks"] <= max(20, calls // 20)  # more where this process gets no time
        assert jobs <= relay.asked["watch_jobs"] <= jobs + relay.asked["add_tasks"]
        assert set(relay.asked) <= {"submission_defaults", "submit_job", "add_tasks", "watch_jobs"}
        assert sum(job.tasks.finished for job in client.jobs(name="many")) == calls


def test_calls_go_on_when_the_head_was_killed(tmp_path: Path) -> None:
    with (
        real_head(tmp_path, processors=4) as head,
        HeadnodeClient(head.state) as client,
        HeadnodeExecutor(client, directory=tmp_path) as executor,
    ):
        futures = [executor.submit(slowly, n) for n in range(40)]
        next(as_completed(futures, TIMEOUT))
        head.kill()
        late = executor.submit(slowly, 40)
        again = threading.Thread(target=head.start_again)
        again.start()
        assert [future.result(2 * TIMEOUT) for future in [*futures, late]] == list(range(41))
        again.join()


def _slow_function() -> Callable[[int], int]:
    """Return a function that is sent whole: else each call imports this module, and pytest with it."""

    def slowly(number: int) -> int:
        threading.Event().wait(0.2)
        return number

    return slowly


slowly = _slow_function()


def test_a_call_that_waits_is_canceled_and_one_that_runs_is_killed(
    executor: HeadnodeExecutor, client: HeadnodeClient, tmp_path: Path
) -> None:
    def run_until_killed(number: int) -> None:
        (tmp_path / f"runs-{number}").write_text(str(os.getpid()))
        signal.pause()

    futures = [executor.submit(run_until_killed, number) for number in range(8)]
    # one job, or more where this process gets no time between two calls
    jobs = [client.job(job) for job in sorted({int(placed(one).split(".")[0]) for one in futures})]
    until_all(client, jobs, lambda tasks: tasks.running, 4)
    assert futures[7].cancel()
    assert futures[0].cancel()
    assert wait([futures[0], futures[7]], TIMEOUT).not_done == set()
    with pytest.raises(CancelledError):
        futures[7].result()
    until_all(client, jobs, lambda tasks: tasks.canceled + tasks.failed, 2)
    executor.shutdown(wait=False, cancel_futures=True)
    for future in futures:
        assert future.cancel()
    assert {job.wait(timeout=TIMEOUT).state for job in jobs} == {"Canceled"}
    assert not (tmp_path / "runs-7").exists()


def until_all(
    client: HeadnodeClient, jobs: list[JobHandle], count: Callable[[InstanceCounts], int], wanted: int
) -> None:
    """Wait until so many tasks of these jobs together are counted."""
    counts: dict[int, int] = {}
    for now in client.watch(*jobs, timeout=TIMEOUT):
        counts[now.id] = count(now.tasks)
        if sum(counts.values()) == wanted:
            return
    raise AssertionError(f"not {wanted}: {counts}")


def placed(future: Any) -> str:
    """Return the task of a call as soon as it has one."""
    while not future.place:
        threading.Event().wait(0.01)
    return str(future.place)


def test_shutdown_cancels_what_has_not_started(client: HeadnodeClient, tmp_path: Path) -> None:
    executor = HeadnodeExecutor(client, directory=tmp_path)
    futures = [executor.submit(slowly, n) for n in range(200)]
    assert futures[0].result(TIMEOUT) == 0
    executor.shutdown(cancel_futures=True)
    assert all(future.done() for future in futures)
    assert any(future.cancelled() for future in futures)
    assert not any(future.exception() for future in futures if not future.cancelled())
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(slowly, 1)


def test_shutdown_does_not_cancel_a_call_that_runs(client: HeadnodeClient, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def run(path: str) -> str:
        Path(path).touch()
        threading.Event().wait(1)
        return "ended"

    executor = HeadnodeExecutor(client, directory=tmp_path)
    future = executor.submit(run, str(begun))
    while not begun.exists():
        threading.Event().wait(0.01)
    assert future.running()
    executor.shutdown(cancel_futures=True)
    assert future.result(0) == "ended"


def test_an_option_that_no_call_has_is_refused_at_once(client: HeadnodeClient, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"'processor'.*'processors'"):
        HeadnodeExecutor(client, directory=tmp_path, processor=1)  # type: ignore[call-arg]


def test_the_directory_is_private_and_removed_at_the_end(client: HeadnodeClient, tmp_path: Path) -> None:
    with HeadnodeExecutor(client, directory=tmp_path) as executor:
        executor.submit(slowly, 1).result(TIMEOUT)
        (directory,) = tmp_path.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert list(directory.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_cannot_be_pickled_is_refused_at_once(executor: HeadnodeExecutor) -> None:
    with pytest.raises(BadRequest, match="not-picklable"):
        executor.submit(len, threading.Lock())


def test_calls_and_results_are_bounded(client: HeadnodeClient, tmp_path: Path) -> None:
    with HeadnodeExecutor(client, directory=tmp_path, largest_call=10_000, largest_result=1000) as executor:
        with pytest.raises(BadRequest, match="call-too-large"):
            executor.submit(len, b"x" * 10_001)
        with pytest.raises(BadRequest, match="result-too-large"):
            executor.submit(bytes, 1001).result(TIMEOUT)


def test_a_result_that_cannot_be_pickled_says_so(executor: HeadnodeExecutor) -> None:
    with pytest.raises(BadRequest, match="result-not-picklable"):
        executor.submit(threading.Lock).result(TIMEOUT)


def test_a_task_that_is_killed_is_named(executor: HeadnodeExecutor) -> None:
    with pytest.raises(WrongState, match=r"call-failed.*hn task output \d+\.1\.1") as failed:
        executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result(TIMEOUT)
    assert "signal 9" in failed.value.what


@pytest.mark.parametrize("status", [0, 3, 7])
def test_a_function_that_ends_its_process_is_shown_at_once(executor: HeadnodeExecutor, status: int) -> None:
    # less than the time for which results of other machines are waited for
    error: Any = executor.submit(os._exit, status).exception(RESULT_TIMEOUT / 2)
    assert error.code == "call-failed"
    assert f"os._exit({status})" in error.what


def _end_by_the_c_library() -> None:
    import ctypes

    ctypes.CDLL(None).exit(0)


@pytest.mark.parametrize("end", [_end_by_the_c_library, partial(os.execv, "/bin/true", ["true"])])
def test_a_function_that_ends_its_process_with_status_0_is_told_at_once(
    executor: HeadnodeExecutor, end: Callable[[], None]
) -> None:
    calls = [executor.submit(end), executor.submit(str, 1)]
    error: Any = calls[0].exception(RESULT_TIMEOUT / 2)  # type: ignore[attr-defined]
    assert error.code == "call-failed"
    assert "exit status 0" in error.what
    assert calls[1].result(RESULT_TIMEOUT / 2) == "1"  # type: ignore[attr-defined]


def test_a_function_may_have_child_processes_that_end_with_exit(executor: HeadnodeExecutor) -> None:
    def with_child() -> int:
        if (child := os.fork()) == 0:
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert executor.submit(with_child).result(TIMEOUT) == 5


def test_a_traceback_shows_lines_of_the_cell_of_a_notebook(executor: HeadnodeExecutor) -> None:
    cell, name = "def divide(by):\n    return 1 / by\n", "/tmp/ipykernel_1/cell.py"
    made: dict[str, Any] = {}
    exec(compile(cell, name, "exec"), made)
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)  # as IPython does
    error = executor.submit(made["divide"], 0).exception(TIMEOUT)
    assert "return 1 / by" in str(error.__cause__)


@pytest.mark.parametrize("begun", [False, True])
def test_a_job_that_somebody_cancels_ends_its_calls(
    executor: HeadnodeExecutor, client: HeadnodeClient, begun: bool
) -> None:
    future = executor.submit(signal.pause)
    job = client.job(int(placed(future).split(".")[0]))
    if begun:
        next(now for now in job.watch(timeout=TIMEOUT) if now.tasks.running)
    job.cancel("not now")
    with pytest.raises(WrongState, match="call-canceled"):
        future.result(TIMEOUT)


def test_an_option_that_the_head_refuses_is_the_result_of_the_calls(
    client: HeadnodeClient, tmp_path: Path
) -> None:
    with HeadnodeExecutor(client, directory=tmp_path, processors=4000) as executor:
        assert isinstance(executor.submit(abs, 1).exception(TIMEOUT), BadRequest)
    with HeadnodeExecutor(client, directory=tmp_path, run_time="9q") as executor:
        assert str(executor.submit(abs, 1).exception(TIMEOUT)).startswith("task 1: run_time: ")
    with pytest.raises(BadRequest, match="set by the executor"):
        HeadnodeExecutor(client, directory=tmp_path, sweep="1-2")


def test_a_python_without_headnode_is_reported_by_its_output(client: HeadnodeClient, tmp_path: Path) -> None:
    with HeadnodeExecutor(client, directory=tmp_path, python="/usr/bin/python3") as executor:
        assert "hn task output" in str(executor.submit(abs, 1).exception(TIMEOUT))


def test_a_job_that_no_thread_can_follow_is_canceled_and_its_calls_say_so(
    client: HeadnodeClient, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    calls = OpenCalls(CallDirectory(str(tmp_path)), 1000)
    jobs = JobsOfCalls(client, calls, {"command": "sleep 100"}, {})
    future = HeadnodeFuture(1, lambda _: None, CallDirectory(str(tmp_path)))
    calls.open(future)
    before = threading.stack_size(1 << 46)  # bytes: no thread can have so much
    try:
        jobs.submit([1])
    finally:
        threading.stack_size(before)
    assert isinstance(future.exception(0), Unavailable)
    assert client.job(int(future.place.split(".")[0])).wait(timeout=TIMEOUT).state == "Canceled"


class LateRelay(RequestRelay):
    """Answers that tasks were added when their job has ended, and is followed no more."""

    go: Path  # what the first task of the job waits for

    def _pass(self, message: bytes, head: socket.socket, client: socket.socket) -> None:
        if b'"add_tasks"' not in message:
            return super()._pass(message, head, client)
        self.asked["add_tasks"] += 1
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(self._head / "head.sock"))
            own.sendall(frame(message))
            size = int.from_bytes(own.recv(HEADER, socket.MSG_WAITALL), "big")
            answer = own.recv(size, socket.MSG_WAITALL)
        self.go.touch()
        for thread in threading.enumerate():
            if thread.name.startswith("headnode job"):
                thread.join(TIMEOUT)
        return client.sendall(frame(answer))


def test_a_call_that_was_added_to_a_job_that_has_ended_meanwhile_gets_a_result(
    head: RealHead, tmp_path: Path
) -> None:
    calls_of, relayed = tmp_path / "calls", tmp_path / "relay"
    calls_of.mkdir(0o700)
    relayed.mkdir()
    relay = LateRelay(relayed, head.state)
    relay.go = tmp_path / "go"
    waiting = f"while [ ! -e {relay.go} ]; do sleep 0.05; done"
    command = f"sh -c 'if [ * = 1 ]; then {waiting}; else exit 1; fi'"
    with HeadnodeClient(relay.state) as client:
        calls = OpenCalls(CallDirectory(str(calls_of)), 1000)
        jobs = JobsOfCalls(client, calls, {"command": command}, {"exclusive": True})
        first, second = (
            HeadnodeFuture(number, lambda _: None, CallDirectory(str(tmp_path))) for number in (1, 2)
        )
        calls.open(first)
        calls.directory.write(f"1{RESULT}", ResultHeader("value"), pickle.dumps("well"))
        jobs.submit([1])
        head.until(lambda: all(job.has_room(2) for job in jobs._jobs))
        calls.open(second)
        jobs.submit([2])
        assert relay.asked["add_tasks"] == 1
        assert first.result(TIMEOUT) == "well"
        assert isinstance(second.exception(TIMEOUT), WrongState)
    relay.close()
