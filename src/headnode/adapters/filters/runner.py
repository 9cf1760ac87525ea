"""A process that runs filter programs for the head, and leaves nothing of them behind."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import time
from typing import Any

from headnode.adapters.process_tree import children, has_marker
from headnode.adapters.wire.child_end import parent_channel
from headnode.adapters.wire.frame_codec import MAX_LENGTH, FrameDecoder, frame

MARKER = "HEADNODE_FILTER_RUN"  # in the environment of a filter, with the number of its run
TAIL = 64 * 1024  # bytes of what a filter says that are kept: the last ones
MAX_ANSWER = 16 * 1024 * 1024  # bytes of a job on standard output
READ = 1 << 18
LAST_SWEEPS = 2.0  # seconds for killing what is left when the head is gone
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class FilterRun:
    """One filter that runs, and what it has said.

    `ends`: where it writes.  They stay open here, so that nobody is woken because it closes them: its end is
    told by a signal.
    """

    def __init__(
        self,
        number: int,
        process: int,
        until: float,
        pipes: tuple[int, int],
        ends: tuple[int, int],
        whole: bool,
    ) -> None:
        self.number, self.process, self.until = number, process, until
        self.output, self.errors = pipes
        self.ends = ends
        self.whole = whole  # all of standard output is wanted
        self.captured: dict[int, bytearray] = {self.output: bytearray(), self.errors: bytearray()}
        self.too_much = False
        self.began = time.monotonic()

    def add(self, pipe: int, data: bytes) -> None:
        """Keep the output: its end, or all of it within bounds."""
        kept = self.captured[pipe]
        kept += data
        if self.whole and pipe == self.output:
            if len(kept) > MAX_ANSWER:
                self.too_much = True
                kept.clear()
        elif len(kept) > 2 * TAIL:
            del kept[:-TAIL]


class Runner:
    """Starts filters when it is told to, and tells how they ended."""

    def __init__(self, head: socket.socket) -> None:
        self._head = head
        self._runs: dict[int, FilterRun] = {}  # by process
        self._listening: dict[int, FilterRun] = {}  # by the pipe in which it writes
        self._environment: dict[str, str] = {}
        self._poll = select.epoll()
        self._arrived = FrameDecoder(MAX_LENGTH)
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll.register(head.fileno(), select.EPOLLIN)
        self._poll.register(self._wake, select.EPOLLIN)

    def serve(self) -> None:
        """Serve until the head is gone; then kill what is left."""
        while self._turn():
            pass
        for run in list(self._runs.values()):
            self._finish(run, "gone")
        until = time.monotonic() + LAST_SWEEPS
        while children() and time.monotonic() < until:
            self._reap()
            self._sweep()
            time.sleep(0.005)

    def _turn(self) -> bool:
        """Wait for something, and see to it; return whether the head is still there."""
        wait = min((run.until for run in self._runs.values()), default=None)
        timeout = None if wait is None else max(0.0, wait - time.monotonic())
        for ready, _ in self._poll.poll(timeout):
            if ready == self._head.fileno():
                data = self._head.recv(READ)
                if not data:
                    return False
                for message in self._arrived.feed(data):
                    self._obey(json.loads(message))
            elif ready == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            elif ready in self._listening:
                self._listen(self._listening[ready], ready)
        now = time.monotonic()
        for run in [run for run in self._runs.values() if run.until <= now]:
            self._finish(run, "timed-out")
        return True

    def _obey(self, request: dict[str, Any]) -> None:
        if "number" in request:
            self._start(request)
        else:
            self._environment = request["environment"]

    def _start(self, request: dict[str, Any]) -> None:
        """Start a filter in a session of its own; its paper is standard input, too, where that is wanted."""
        opened: list[int] = []
        environment = self._environment | request["environment"] | {MARKER: str(request["number"])}
        try:
            for _ in range(2):
                opened += os.pipe2(os.O_CLOEXEC)
            output, output_end, errors, errors_end = opened
            process = os.posix_spawn(
                request["program"][0],
                request["program"],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, request["input"] or os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output_end, 1),
                    (os.POSIX_SPAWN_DUP2, errors_end, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGCHLD, signal.SIGPIPE],
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._send(
                {"number": request["number"], "how": "missing", "errors": f"{request['program'][0]}: {why}"}
            )
            for end in opened:
                os.close(end)
            return
        until = time.monotonic() + request["seconds"]
        pipes, ends = (output, errors), (output_end, errors_end)
        run = self._runs[process] = FilterRun(
            request["number"], process, until, pipes, ends, request["whole"]
        )
        for pipe in pipes:
            os.set_blocking(pipe, False)
            self._poll.register(pipe, select.EPOLLIN)
            self._listening[pipe] = run

    def _listen(self, run: FilterRun, pipe: int) -> bool:
        """Take what a filter has said; return whether there may be more now."""
        try:
            data = os.read(pipe, READ)
        except BlockingIOError:
            return False
        run.add(pipe, data)
        return True

    def _reap(self) -> None:
        """See who has ended: filters, and what they have left behind."""
        swept = False
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not process:
                break
            run = self._runs.get(process)
            if run is not None:
                self._finish(run, "ended", os.waitstatus_to_exitcode(status))
                swept = True
        if not swept:
            self._sweep()

    def _finish(self, run: FilterRun, how: str, status: int | None = None) -> None:
        """Kill what is left of a filter, then tell how it ended."""
        del self._runs[run.process]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(run.process, signal.SIGKILL)
        for pipe in run.captured:
            read = 0
            while read < MAX_ANSWER and self._listen(run, pipe):
                read += READ
            del self._listening[pipe]
            os.close(pipe)  # which takes it out of the poll, too
        for end in run.ends:
            os.close(end)
        self._sweep()
        output = run.captured[run.output]
        self._send(
            {
                "number": run.number,
                "how": how,
                "status": status,
                "output": bytes(output if run.whole else output[-TAIL:]).decode(errors="replace"),
                "errors": bytes(run.captured[run.errors][-TAIL:]).decode(errors="replace"),
                "too_much": run.too_much,
                "seconds": time.monotonic() - run.began,
            }
        )

    def _sweep(self) -> None:
        """Kill what filters that are over have left: it has come to be a child of this process."""
        try:
            strangers = children() - self._runs.keys()
        except OSError:  # no descriptor now: the next sweep sees them
            return
        if not strangers:
            return
        alive = [f"{MARKER}={run.number}".encode() for run in self._runs.values()]
        for process in strangers:
            if not any(has_marker(process, marker) for marker in alive):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)

    def _send(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # the head is gone; the next turn sees that
            self._head.sendall(frame(data))


def main() -> None:
    """Serve the head at the other end of its channel."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with parent_channel() as head:
        Runner(head).serve()


if __name__ == "__main__":
    main()
