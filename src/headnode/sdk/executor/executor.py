"""An executor of `concurrent.futures` whose calls are tasks of the cluster."""

import atexit
import contextlib
import io
import linecache
import os
import queue
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from enum import Enum, auto
from importlib.util import find_spec
from types import CodeType
from typing import Any, NamedTuple, ParamSpec, TypeVar, Unpack

from headnode.adapters.files.opening import make_own_directory
from headnode.apps.client.local_addresses import user_state_home
from headnode.apps.client.submitter import quoted_line
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.sdk.description import COMMAND, task_description
from headnode.sdk.executor.call_files import CALL, CallDirectory, CallHeader
from headnode.sdk.executor.calls import HeadnodeFuture, OpenCalls
from headnode.sdk.executor.jobs_of_calls import JobsOfCalls
from headnode.sdk.options import SingleTaskOptions, TaskOptions
from headnode.sdk.synchronous.client import HeadnodeClient

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MODULE = "headnode.sdk.executor.worker"
MIB = 1 << 20
ANY_FILE = "<dynamic-code>"  # what cloudpickle 3.1.3 and later write for the file of a function
QUIET, MAX_BATCH = 0.02, 0.25  # seconds without a new call that end a batch; seconds for which it grows
MAX_IN_BATCH = 100_000  # calls
MAX_SOURCE = 100_000  # characters of lines that go with a call; a header of a call is bounded


class ExecutorRequestKind(Enum):
    """What the sender of an executor is told."""

    CALL = auto()  # submit a call
    CANCEL = auto()  # cancel a call
    SHUT_DOWN = auto()  # no calls follow
    END = auto()  # all jobs have ended


class ExecutorRequest(NamedTuple):
    """A word to the sender, about a call or about all."""

    kind: ExecutorRequestKind
    number: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether a batch may have more wishes after this one."""
        return self.kind in (ExecutorRequestKind.CALL, ExecutorRequestKind.CANCEL)


class HeadnodeExecutor(Executor):
    """Runs functions as tasks of the cluster: each call is a task, results and exceptions come back.

    Calls that are submitted at about the same time are one sweep of one job.  Results are files in a private
    directory that the nodes must share.  The head reports ends: nothing is polled.  If the head is restarted
    meanwhile, calls go on.
    """

    def __init__(
        self,
        client: HeadnodeClient | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        python: str | None = None,
        largest_call: int = 64 * MIB,
        largest_result: int = 256 * MIB,
        **options: Unpack[SingleTaskOptions],
    ) -> None:
        """Make a private directory for the calls; the head is asked with the first call.

        client:         None: one that finds the head as `hn` does
        directory:      in which the private one is made; the nodes must have it by the same path.  None:
                        `~/.local/state/headnode-calls`
        python:         the Python of the tasks, with Headnode and cloudpickle; None: the path of this one
        largest_call:   bytes of a pickled function with its arguments
        largest_result: bytes of a pickled result
        options:        of each call (`processors`, `run_time`, `node_memory`, ...) and of the jobs (`name`,
                        `priority`, `project`, ...), by their names in the native form
        Raises:         BadRequest for an option that calls cannot have; NotAllowed ``not-private``; OSError.
        """
        job, task = _divided(options)
        self._bounds = (largest_call, largest_result)
        self._client, self._own_client = client or HeadnodeClient(), client is None
        directory_path = _new_directory(directory)
        opened = CallDirectory(directory_path)
        self._calls = OpenCalls(opened, largest_result)
        self._python, self._task, self._job = python or sys.executable, task, job
        self._requests: queue.SimpleQueue[ExecutorRequest] = queue.SimpleQueue()
        self._lock, self._next, self._closed = threading.Lock(), 1, False
        self._sender: threading.Thread | None = None
        atexit.register(_shut_down_at_exit, weakref.ref(self))

    def submit(
        self, fn: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Submit a call of a function; return its future.

        Raises:  BadRequest ``not-picklable`` or ``call-too-large``; RuntimeError after `shutdown`, or if the
                 system gives no thread; OSError if the call cannot be written.
        """
        body, sources = self._pickled(fn, args, kwargs)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._sender is None:  # first: if there is no thread for it, there is no call
                sender = threading.Thread(target=self._send, name="headnode executor", daemon=True)
                sender.start()
                self._sender = sender
            future = HeadnodeFuture(self._next, self._dropped, self._calls.directory)
            self._calls.directory.write(f"{future.number}{CALL}", self._header(sources), body)
            self._calls.open(future)
            self._next += 1
            self._requests.put(ExecutorRequest(ExecutorRequestKind.CALL, future.number))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `wait`, return when all have ended.

        With `cancel_futures`, calls that have not started are canceled.  The private directory is removed
        when all calls have ended.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            sender = self._sender
        if cancel_futures:
            for future in self._calls.all():
                if not future.running():
                    future.cancel()
        if first and sender is not None:
            self._requests.put(ExecutorRequest(ExecutorRequestKind.SHUT_DOWN))
        elif first:
            self._clean_up()
        if wait and sender is not None:
            sender.join()

    def _pickled(self, function: Any, arguments: Any, named: Any) -> tuple[bytes, dict[str, list[str]]]:
        """Return a call as bytes, and the lines of its functions that are in no file.

        Raises:  BadRequest ``not-picklable``, ``call-too-large`` or ``no-cloudpickle``.
        """
        if find_spec("cloudpickle") is None:
            what, fix = "cloudpickle is not installed", "pip install cloudpickle"
            raise BadRequest(code="no-cloudpickle", what=what, fix=fix)
        name = getattr(function, "__qualname__", repr(function))
        try:
            body, files = self._dumped((function, arguments, named))
        except Exception as error:
            raise BadRequest(
                code="not-picklable",
                what=f"the call of {name} cannot be pickled: {type(error).__name__}: {error}",
                fix="pass plain data; open files, locks and connections inside the function",
            ) from error
        if len(body) > self._bounds[0]:
            raise BadRequest(
                code="call-too-large",
                what=f"the call of {name} has {len(body)} bytes when pickled, more than {self._bounds[0]}",
                fix="pass the path of a file, or raise HeadnodeExecutor(largest_call=...)",
            )
        return body, _lines_in_no_file(files)

    @staticmethod
    def _dumped(call: tuple[Any, ...]) -> tuple[bytes, set[str]]:
        """Return a pickle in which functions keep the names of their files, and these names.

        So tracebacks show lines of them.
        """
        from cloudpickle import CloudPickler

        files: set[str] = set()

        class CallPickler(CloudPickler):  # type: ignore[misc]  # it has no types
            def reducer_override(self, thing: Any) -> Any:
                if not isinstance(thing, CodeType):
                    return super().reducer_override(thing)
                files.add(thing.co_filename)
                make, parts = self.dispatch_table[CodeType](thing)[:2]
                named = (
                    thing.co_filename if isinstance(part, str) and part == ANY_FILE else part
                    for part in parts
                )
                return make, tuple(named)

        with io.BytesIO() as body:
            CallPickler(body).dump(call)
            return body.getvalue(), files

    def _header(self, sources: dict[str, list[str]]) -> CallHeader:
        import cloudpickle

        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        directory = os.getcwd()  # noqa: PTH109  (a path of text)
        path = [os.path.abspath(folder) if folder else directory for folder in sys.path]  # noqa: PTH100
        return CallHeader(python, cloudpickle.__version__, path, self._bounds[1], sources)

    def _dropped(self, number: int) -> None:
        """Cancel a call at the head; its future is canceled already."""
        self._requests.put(ExecutorRequest(ExecutorRequestKind.CANCEL, number))

    def _send(self) -> None:
        """Submit and cancel calls in batches, until the executor is shut down and all jobs have ended."""
        jobs: JobsOfCalls | None = None
        while (requests := self._batch())[-1].kind is not ExecutorRequestKind.END:
            calls = {request.number for request in requests if request.kind is ExecutorRequestKind.CALL}
            drops = {request.number for request in requests if request.kind is ExecutorRequestKind.CANCEL}
            try:
                if jobs is None:
                    jobs = JobsOfCalls(self._client, self._calls, self._description(), self._job)
                if numbers := self._calls.waiting(sorted(calls - drops)):
                    jobs.submit(numbers)
                if drops:
                    jobs.cancel(sorted(drops))
            except HeadnodeError as error:
                self._calls.fail(calls, error)
            if requests[-1].kind is ExecutorRequestKind.SHUT_DOWN:
                threading.Thread(target=self._end_with, args=(jobs,), daemon=True).start()
        self._clean_up()

    def _end_with(self, jobs: JobsOfCalls | None) -> None:
        """End the sender when all jobs have ended; until then calls can be canceled."""
        if jobs is not None:
            jobs.join()
        self._requests.put(ExecutorRequest(ExecutorRequestKind.END))

    def _batch(self) -> list[ExecutorRequest]:
        """Return what is requested at about the same time.  Waits for the first request."""
        requests, deadline = [self._requests.get()], time.monotonic() + MAX_BATCH
        with contextlib.suppress(queue.Empty):
            while requests[-1].goes_on and len(requests) < MAX_IN_BATCH and time.monotonic() < deadline:
                requests.append(self._requests.get(timeout=QUIET))
        return requests

    def _description(self) -> dict[str, Any]:
        """Return what every task is: the command, in which * is the number of a call, and its options."""
        words = [self._python, "-P", "-m", MODULE, self._calls.directory.path]
        line = quoted_line(words).replace("^", "^^").replace("*", "^*")
        task = task_description(f"{line} *", self._task)
        return self._client.complete_task({**task, "sweep": "1"})

    def _clean_up(self) -> None:
        self._calls.directory.remove_all()
        if self._own_client:
            self._client.close()


def _lines_in_no_file(names: set[str]) -> dict[str, list[str]]:
    """Return the lines of cells of notebooks and the like: a task could not read them for a traceback."""
    found: dict[str, list[str]] = {}
    left = MAX_SOURCE
    for name in sorted(names):
        lines = [] if os.path.exists(name) else linecache.getlines(name)  # noqa: PTH110  (not a path at times)
        left -= sum(map(len, lines))
        if lines and left >= 0:
            found[name] = lines
    return found


def _divided(options: SingleTaskOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the jobs and those of the tasks.

    Raises:  BadRequest ``option`` for one that the executor sets itself.
    """
    for name in (COMMAND, "sweep", "type", "tasks", "depends_on", "stdin"):
        if name in options:
            raise BadRequest(
                code="option",
                what=f"the option {name!r} is set by the executor",
                fix="leave it out",
                path=(name,),
            )
    for name in options.keys() - SingleTaskOptions.__annotations__.keys():
        meant = nearest_name(name, SingleTaskOptions.__annotations__)
        raise BadRequest(
            code="option",
            what=f"there is no option {name!r}",
            fix=f"write {meant!r}" if meant else "options have the names of the native form",
            path=(name,),
        )
    of_tasks = TaskOptions.__annotations__.keys() - {"name"}
    job = {name: value for name, value in options.items() if name not in of_tasks}
    return {"name": "functions", **job}, {name: options[name] for name in options if name in of_tasks}  # type: ignore[literal-required]


def _new_directory(above: str | os.PathLike[str] | None) -> str:
    """Make a private directory for calls, and return its path."""
    if above is None:
        above = os.path.join(user_state_home(os.environ), "headnode-calls")  # noqa: PTH118
        os.close(make_own_directory(above))
    return tempfile.mkdtemp(prefix="calls-", dir=os.path.abspath(above))  # noqa: PTH100


def _shut_down_at_exit(executor: "weakref.ref[HeadnodeExecutor]") -> None:
    """Wait for the calls of an executor that was not shut down, as other executors do."""
    if (found := executor()) is not None:
        found.shutdown()
