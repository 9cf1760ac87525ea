"""Where an agent keeps things below its state directory."""

import asyncio
import contextlib
import logging
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headnode.adapters.files.local_daemons import take_agent_lock
from headnode.adapters.files.owners import refuse_unsafe_state
from headnode.adapters.processes.agent_link import AGENT_SOCKET
from headnode.adapters.wire import messages as m
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

KEPT_AFTER = 0.1  # seconds until what the head said of a job is in a file


class Places:
    """The directories of one agent, and the lock that makes it the only one there."""

    def __init__(self, state: Path) -> None:
        """Make what is missing.

        Raises:  Unavailable ``agent-runs`` when another agent lives there, ``agent-state`` when the
                 directory cannot be used, ``unsafe-state`` when another user can change it.
        """
        self.state = state
        self.jobs, self.run, self.output = state / "jobs", state / "run", state / "output"
        self._journals, self._outputs = f"{self.jobs}{os.sep}", f"{self.output}{os.sep}"
        self.log = state / "shepherds.log"
        self.socket = self.run / AGENT_SOCKET
        try:
            refuse_unsafe_state(state)
            state.mkdir(parents=True, exist_ok=True)
            refuse_unsafe_state(state)
            lock = take_agent_lock(state)
            self.restore()
        except OSError as error:
            raise Unavailable(
                code="agent-state",
                what=f"the state directory {str(state)!r} cannot be used: {error}",
                fix="make it writable, or name another: hn agent --directory DIRECTORY",
            ) from None
        if lock is None:
            raise Unavailable(
                code="agent-runs",
                what=f"another agent uses the state directory {str(state)!r}",
                fix="end it first, or name another directory: hn agent --directory DIRECTORY",
            )
        self._lock = lock
        self._kept: set[JobId] = set()  # jobs with a file
        self._waiting: dict[JobId, tuple[float, m.OpenJob]] = {}  # to be kept, and when, on the loop's clock
        self._timer: asyncio.TimerHandle | None = None

    def restore(self) -> None:
        """Make the directories that are missing.

        Raises:  OSError.
        """
        for folder, mode in ((self.jobs, 0o700), (self.run, 0o711), (self.output, 0o711)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                permissions = folder.stat().st_mode
                if stat.S_ISDIR(permissions) and stat.S_IMODE(permissions) == mode:
                    continue
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)

    def journal(self, job: JobId, marker: str) -> str:
        """Return the journal of a shepherd: as text, since a Path costs more than to rename the file."""
        return f"{self._journals}{job}-{marker}.journal"

    def journals(self) -> Iterator[Path]:
        """Yield the journals that are there, in order of their names."""
        yield from sorted(self.jobs.glob("*.journal"))

    def vacant(self, marker: str) -> str:
        """Return the journal of a shepherd that has no job."""
        return f"{self._journals}{marker}.vacant"

    def forget_vacant(self) -> None:
        """Remove the journals of shepherds without a job of an earlier agent: they end by themselves."""
        for path in self.jobs.glob("*.vacant"):
            path.unlink(missing_ok=True)

    def captured(self, job: JobId) -> str:
        """Return the directory of captured output of a job."""
        return f"{self._outputs}{job}"

    def keep(self, opened: m.OpenJob) -> None:
        """Keep what the head said of a job, so that the next agent knows it.

        Raises:  OSError.
        """
        path = self._opened(opened.job)
        self._kept.add(opened.job)
        scratch = path.with_suffix(".new")
        data = msgspec.msgpack.encode(opened)
        try:
            scratch.write_bytes(data)
        except FileNotFoundError:  # the directory was removed
            self.restore()
            scratch.write_bytes(data)
        scratch.replace(path)

    def keep_soon(self, opened: m.OpenJob) -> None:
        """Keep it a little later, unless the job is over by then: most of such short jobs need no file.

        If the agent is killed before, the head says it again to the next one.
        """
        due = asyncio.get_running_loop().time() + KEPT_AFTER
        self._waiting.pop(opened.job, None)
        self._waiting[opened.job] = due, opened
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due, self._keep_due)

    def _keep_due(self) -> None:
        loop = asyncio.get_running_loop()
        self.keep_waiting(loop.time())
        self._timer = None
        if self._waiting:
            due, _ = next(iter(self._waiting.values()))
            self._timer = loop.call_at(due, self._keep_due)

    def keep_waiting(self, until: float = math.inf) -> None:
        """Keep now what was to be kept until then."""
        due = [job for job, (at, _) in self._waiting.items() if at <= until]
        for job in due:
            _, opened = self._waiting.pop(job)
            try:
                self.keep(opened)
            except OSError as error:
                log.error("job %d is not kept for the next agent of this node: %s", opened.job, error)

    def kept(self) -> Iterator[m.OpenJob]:
        """Yield what was kept; a file that does not read is passed over: the head says it again."""
        decoder = msgspec.msgpack.Decoder(m.OpenJob)
        for path in sorted(self.jobs.glob("*.job")):
            if path.stem.removeprefix("-").isdecimal():
                self._kept.add(JobId(int(path.stem)))
            with contextlib.suppress(msgspec.DecodeError):
                yield decoder.decode(path.read_bytes())

    def forget(self, job: JobId) -> None:
        """Forget a job."""
        self._waiting.pop(job, None)
        if job in self._kept:
            self._opened(job).unlink(missing_ok=True)
            self._kept.discard(job)

    def forget_output(self, job: JobId) -> None:
        """Remove the directory for output of what ran outside the queue, which captures none."""
        with contextlib.suppress(OSError):  # its user has put something there
            Path(self.captured(job)).rmdir()

    def _opened(self, job: JobId) -> Path:
        return self.jobs / f"{job}.job"
