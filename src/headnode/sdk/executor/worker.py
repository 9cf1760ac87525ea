"""A task of an executor: `python -P -m headnode.sdk.executor.worker DIRECTORY NUMBER` carries one call out.

Exit status: 0 the function has returned; 3 it has not, see the result; 2 files cannot be read or written.
"""

import contextlib
import linecache
import os
import posix
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from headnode.core.model.errors import HeadnodeError
from headnode.sdk.executor.call_files import (
    CALL,
    CALLS,
    ENDED,
    NO_VALUE,
    RESULT,
    STARTED,
    WRITTEN,
    CallDirectory,
    CallHeader,
    ResultHeader,
)

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MAX_CALL = 1 << 40
"""Bytes of a call: the submitting process has bounded it."""
MAX_TEXT = 80_000
"""Characters of a traceback and of an exception: both fit into a header, at up to 6 bytes each in JSON."""


def main(arguments: list[str]) -> int:
    """Carry out the call with the number, and write its result."""
    path, number = arguments
    try:
        directory = CallDirectory(path)
        header, call = directory.read(f"{number}{CALL}", CALLS, MAX_CALL)
    except (OSError, HeadnodeError) as error:
        sys.stderr.write(f"call {number} cannot be read: {error}\n")
        return 2
    os._exit = posix._exit = partial(_end_without_value, directory, number, os.getpid(), os._exit)
    try:
        directory.write(f"{number}{STARTED}", ResultHeader("started"))
        result, body = _refusal(header) or _carried_out(header, call)
        directory.write(f"{number}{RESULT}", result, body)
        _mark_written(directory, f"{number}{STARTED}")
    except OSError as error:
        sys.stderr.write(f"the result of call {number} cannot be written: {error}\n")
        return 2
    return 0 if result.kind == "value" else NO_VALUE


def _mark_written(directory: CallDirectory, started: str) -> None:
    """Say that there is a result: nobody waits for that of a task that has ended and has not said so."""
    try:
        directory.append(started, WRITTEN)
    except OSError:  # the disk is full: say nothing of the start either, and the result is waited for
        directory.remove(started)


def _end_without_value(
    directory: CallDirectory, number: str, worker: int, end: Callable[[int], NoReturn], status: int
) -> NoReturn:
    """Take the place of `os._exit`: write that there is no value, so that nobody waits for it, and end.

    Child processes of the function end without a word, as before.
    """
    if os.getpid() != worker:
        end(status)
    with contextlib.suppress(OSError, HeadnodeError):  # the submitting process waits longer then
        directory.write(f"{number}{RESULT}", ResultHeader(ENDED, f"os._exit({status})"))
    end(status or NO_VALUE)


def _refusal(header: CallHeader) -> tuple[ResultHeader, bytes] | None:
    """Return why this Python cannot carry a call out; None: it can."""
    if header.python != PYTHON:
        what = f"the task runs Python {PYTHON} ({sys.executable}), the call was pickled by {header.python}"
        fix = "name a Python of the same version on the nodes: HeadnodeExecutor(python=...)"
        return ResultHeader("python-mismatch", what, fix), b""
    try:
        import cloudpickle  # noqa: F401
    except ImportError as error:
        what = f"cloudpickle is missing in the Python of the task, {sys.executable}: {error}"
        return ResultHeader("no-cloudpickle", what, "install it there: pip install cloudpickle"), b""
    return None


def _carried_out(header: CallHeader, call: bytes) -> tuple[ResultHeader, bytes]:
    """Call the function; return what became of it."""
    import pickle

    sys.path += [folder for folder in header.path if folder not in sys.path]
    for name, lines in header.sources.items():  # None: it is not compared with a file
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        function, arguments, named = pickle.loads(call)  # noqa: S301  (the file is the user's own, and private)
        value = function(*arguments, **named)
    except BaseException as error:  # noqa: BLE001  (also SystemExit: it is the result of the call)
        return _exception(header, error)
    try:
        body = _pickled(value)
    except BaseException as error:  # noqa: BLE001  (whatever the class of the value raises)
        what = f"the result, a {type(value).__name__}, cannot be pickled: {_in_words(error)}"
        return ResultHeader("result-not-picklable", _encodable(what), "return plain data"), b""
    if len(body) > header.most:
        what = f"the pickled result has {len(body)} bytes, more than {header.most}"
        fix = "write it to a file and return the path, or raise HeadnodeExecutor(largest_result=...)"
        return ResultHeader("result-too-large", what, fix), b""
    return ResultHeader("value"), body


def _exception(header: CallHeader, error: BaseException) -> tuple[ResultHeader, bytes]:
    trace = "".join(traceback.format_exception(error))[-MAX_TEXT:]
    try:
        body = _pickled(error)
    except BaseException:  # noqa: BLE001  (whatever the class of the exception raises)
        body = b""
    result = ResultHeader("exception", _encodable(_in_words(error)), traceback=_encodable(trace))
    return result, body if len(body) <= header.most else b""


def _in_words(error: BaseException) -> str:
    """Return the class and the message of an exception, also of one whose message cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001  (whatever the class of the exception raises)
        return type(error).__name__


def _encodable(text: str) -> str:
    """Return the first characters of a text; bytes of file names that are no UTF-8 are shown as codes."""
    return text[:MAX_TEXT].encode(errors="backslashreplace").decode()[:MAX_TEXT]


def _pickled(value: Any) -> bytes:
    import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps(value)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
