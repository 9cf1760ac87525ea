"""The future of a call, and how a result file becomes its result."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.sdk.executor.call_files import ResultHeader


class HeadnodeFuture(Future[Any]):
    """A call that runs, or will run, as a task.

    Unlike those of other executors, `cancel` also stops a call that runs.
    """

    def __init__(self, number: int, dropped: Callable[[int], None]) -> None:
        """`dropped` is told the number of a call that is canceled."""
        super().__init__()
        self.number, self.started = number, False
        self.place = ""  # as `hn task output` names it, JOB.TASK.INSTANCE, once it was submitted
        self._dropped, self._once = dropped, threading.RLock()

    def running(self) -> bool:
        """Return True if the call is being executed."""
        return self.started and not self.done()

    def cancel(self) -> bool:
        """Cancel the call, also while it runs; return False if it has ended."""
        with self._once:
            already = self.cancelled()
            if not super().cancel():
                return False
            if not already:
                self.set_running_or_notify_cancel()  # tells those that wait
                self._dropped(self.number)
        return True


class RemoteTraceback(Exception):
    """The traceback of an exception, as the task has seen it: the cause of the exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def settle(future: HeadnodeFuture, header: ResultHeader, body: bytes) -> None:
    """Give a future the result that a task has written."""
    if header.kind == "value":
        try:
            value = pickle.loads(body)  # noqa: S301  (from a private file of this user)
        except Exception as error:  # noqa: BLE001  (whatever its classes raise)
            future.set_exception(_unreadable(future, error))
        else:
            future.set_result(value)
    elif header.kind == "exception":
        future.set_exception(_exception(header, body))
    else:
        future.set_exception(BadRequest(code=header.kind, what=header.what, fix=header.fix))


def _exception(header: ResultHeader, body: bytes) -> BaseException:
    """Return the exception of the function with its traceback; if it was not pickled, what it said."""
    try:
        error = pickle.loads(body) if body else None  # noqa: S301  (from a private file of this user)
    except Exception:  # noqa: BLE001  (whatever its classes raise)
        error = None
    if not isinstance(error, BaseException):
        error = WrongState(
            code="call-raised",
            what=f"the function has raised {header.what}",
            fix="see the cause of this error",
        )
    error.__cause__ = RemoteTraceback(header.traceback)
    return error


def _unreadable(future: HeadnodeFuture, error: Exception) -> HeadnodeError:
    return BadRequest(
        code="result-unreadable",
        what=f"the result of call {future.place} cannot be unpickled here: {type(error).__name__}: {error}",
        fix="import here the modules of its classes",
    )
