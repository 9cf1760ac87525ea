"""Calls of an executor get their results also if a call is canceled or a file cannot be read meanwhile."""

import os
import pickle
import resource
import threading
from pathlib import Path
from typing import Any

import pytest

from headnode.core.model.errors import BadRequest, Unavailable, WrongState
from headnode.sdk import HeadnodeClient, HeadnodeExecutor
from headnode.sdk.executor.call_files import RESULT, CallDirectory, ResultHeader
from headnode.sdk.executor.calls import HeadnodeFuture, OpenCalls


@pytest.fixture
def calls(tmp_path: Path) -> OpenCalls:
    tmp_path.chmod(0o700)
    return OpenCalls(CallDirectory(str(tmp_path)), 1000)


def opened(calls: OpenCalls, number: int) -> HeadnodeFuture:
    future = HeadnodeFuture(number, lambda _: None, calls.directory)
    calls.open(future)
    return future


CANCELED: list[HeadnodeFuture] = []


def cancel_now() -> bool:
    return CANCELED.pop().cancel()


class CanceledWhileRead:
    """A result that takes long to be unpickled: its call is canceled meanwhile."""

    def __reduce__(self) -> Any:
        return cancel_now, ()


def test_a_call_that_is_canceled_while_its_result_is_read_leaves_the_others_theirs(calls: OpenCalls) -> None:
    first, second = opened(calls, 1), opened(calls, 2)
    CANCELED.append(first)
    calls.directory.write(f"1{RESULT}", ResultHeader("value"), pickle.dumps(CanceledWhileRead()))
    calls.directory.write(f"2{RESULT}", ResultHeader("value"), pickle.dumps("well"))
    calls.collect()
    assert first.cancelled()
    assert second.result(0) == "well"


def test_a_result_is_read_later_if_no_file_can_be_opened_now(calls: OpenCalls) -> None:
    future = opened(calls, 1)
    calls.directory.write(f"1{RESULT}", ResultHeader("value"), pickle.dumps("well"))
    lowest, (soft, hard) = os.dup(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest)
    for free in (0, 1):  # the first is for the list of files
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, hard))
        try:
            calls.collect()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not future.done()
    calls.collect()
    assert future.result(0) == "well"


def leave() -> None:
    raise SystemExit(7)


class LeavesWhenRead:
    """A result that ends the program that unpickles it."""

    def __reduce__(self) -> Any:
        return leave, ()


def test_a_result_that_ends_the_reading_thread_is_an_error_of_its_call(calls: OpenCalls) -> None:
    first, second = opened(calls, 1), opened(calls, 2)
    calls.directory.write(f"1{RESULT}", ResultHeader("value"), pickle.dumps(LeavesWhenRead()))
    calls.directory.write(f"2{RESULT}", ResultHeader("exception"), pickle.dumps(LeavesWhenRead()))
    calls.collect()
    assert isinstance(first.exception(0), BadRequest)
    assert isinstance(second.exception(0), WrongState)


def test_a_call_is_refused_while_the_system_gives_no_thread_and_not_lost_for_ever(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    with HeadnodeClient(tmp_path / "no-head", patience=0.0) as client:
        executor = HeadnodeExecutor(client, directory=tmp_path)
        before = threading.stack_size(1 << 46)  # bytes: no thread can have so much
        try:
            with pytest.raises(RuntimeError, match="thread"):
                executor.submit(pow, 2, 2)
        finally:
            threading.stack_size(before)
        assert isinstance(executor.submit(pow, 2, 2).exception(30), Unavailable)
        executor.shutdown()
