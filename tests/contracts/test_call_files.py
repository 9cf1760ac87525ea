"""The files of calls: whole or not there, bounded, and only those of this user in a private directory."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.core.model.errors import BadRequest, NotAllowed
from headnode.sdk.executor.call_files import CALL, RESULT, RESULTS, CallDirectory, CallHeader, ResultHeader
from headnode.sdk.executor.worker import PYTHON, main


@pytest.fixture
def directory(tmp_path: Path) -> CallDirectory:
    tmp_path.chmod(0o700)
    return CallDirectory(str(tmp_path))


def call(directory: CallDirectory, body: bytes, *, python: str = PYTHON) -> ResultHeader:
    """Return what the worker says of a call."""
    directory.write(f"1{CALL}", CallHeader(python, "3", [], 1000), body)
    main([directory.path, "1"])
    return directory.read(f"1{RESULT}", RESULTS, 1000)[0]


def test_what_is_written_is_read(directory: CallDirectory) -> None:
    directory.write("1.result", ResultHeader("value"), b"\n\x00body")
    assert directory.read("1.result", RESULTS, 7) == (ResultHeader("value"), b"\n\x00body")
    assert list(directory.names()) == ["1.result"]


def test_more_than_the_bound_is_refused(directory: CallDirectory) -> None:
    directory.write("1.result", ResultHeader("value"), b"x" * 8)
    with pytest.raises(BadRequest, match="more than 7 bytes"):
        directory.read("1.result", RESULTS, 7)


@pytest.mark.parametrize("text", [b"", b"\n", b"[]\n", b'{"kind": 7}\n', b"x" * (2 << 20)])
def test_a_file_without_a_header_is_refused(directory: CallDirectory, text: bytes) -> None:
    Path(directory.path, "1.result").write_bytes(text)
    with pytest.raises(BadRequest, match="call-file"):
        directory.read("1.result", RESULTS, 100)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o701])
def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(NotAllowed, match="not-private"):
        CallDirectory(str(tmp_path))


def test_a_link_and_a_pipe_are_no_files_of_calls(directory: CallDirectory, tmp_path: Path) -> None:
    directory.write("2.result", ResultHeader("value"))
    (tmp_path / "1.result").symlink_to("2.result")
    os.mkfifo(tmp_path / "3.result")
    for name in ("1.result", "3.result"):
        with pytest.raises(OSError):
            directory.read(name, ResultHeader, 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_never_unpickled(directory: CallDirectory, tmp_path: Path) -> None:
    directory.write("1.result", ResultHeader("value"), pickle.dumps("planted"))
    os.chown(tmp_path / "1.result", 65534, 65534)
    with pytest.raises(NotAllowed, match="not-private"):
        directory.read("1.result", RESULTS, 100)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(NotAllowed, match="not-private"):
        CallDirectory(str(tmp_path))


def test_another_python_is_reported_and_nothing_is_unpickled(directory: CallDirectory) -> None:
    result = call(directory, b"no pickle", python="3.8")
    assert (result.kind, "3.8" in result.what) == ("python-mismatch", True)


def test_a_call_that_cannot_be_unpickled_is_an_exception_of_the_call(directory: CallDirectory) -> None:
    result = call(directory, b"no pickle")
    assert result.kind == "exception"
    assert "UnpicklingError" in result.what


class MessageFails(Exception):
    def __str__(self) -> str:
        raise KeyError("no message")


class PicklingEnds(Exception):
    def __reduce__(self) -> str:
        raise SystemExit(0)


EXCEPTIONS = {
    "name-of-a-file": (ValueError("caf\udce9"), r"caf\udce9"),
    "long-name": (ValueError("\udce9" * 200_000), r"\udce9\udce9"),
    "output-of-a-program": (ValueError("\x01" * 200_000), "\x01\x01"),
    "message-fails": (MessageFails(), "MessageFails"),
    "pickling-ends": (PicklingEnds("x"), "PicklingEnds: x"),
}


def fail(how: str) -> None:
    raise EXCEPTIONS[how][0]


@pytest.mark.parametrize("how", EXCEPTIONS)
def test_every_exception_of_a_function_is_its_result(directory: CallDirectory, how: str) -> None:
    """Without a result the caller only learns that the task has ended."""
    result = call(directory, pickle.dumps((fail, (how,), {})))
    assert (result.kind, EXCEPTIONS[how][1] in result.what) == ("exception", True)
    assert result.traceback


def test_a_value_whose_pickling_ends_the_process_says_so(directory: CallDirectory) -> None:
    result = call(directory, pickle.dumps((PicklingEnds, ("x",), {})))
    assert (result.kind, "SystemExit" in result.what) == ("result-not-picklable", True)


def test_a_full_disk_ends_the_task_with_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    directory = CallDirectory(str(tmp_path))
    directory.write(f"1{CALL}", CallHeader(PYTHON, "3", [], 1 << 30), pickle.dumps((bytes, (1 << 20,), {})))
    words = [sys.executable, "-P", "-m", "headnode.sdk.executor.worker", str(tmp_path), "1"]
    limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "sh", *words]  # files of 512 bytes
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the result of call 1 cannot be written" in done.stderr
    assert f"1{RESULT}" not in list(directory.names())
