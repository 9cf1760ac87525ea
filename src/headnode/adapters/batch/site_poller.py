"""Asks another scheduler for its queue and nodes, gently, and tells what they are."""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from headnode.adapters.batch.commands import own_account, run_command
from headnode.core.batch import gridengine_site, slurm_site
from headnode.core.batch.dialect import CommandResult
from headnode.core.batch.site import SiteFacts, SiteJob, SiteNode, SiteSnapshot
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem

MAX_COMMAND = 60.0  # seconds
SLOW = 5  # nothing is asked for so many times as long as the last answers took
USUAL, SELDOM, RARE = 2, 20, 120  # times the poll interval: queue and nodes; if nobody asks; configuration
"""If somebody has asked since the last look, the next one comes after one poll interval."""
WANTED = 600.0  # seconds for which a site is polled more often after somebody has asked
FIRST_HISTORY = "now-1day"
OVERLAP = 300.0  # seconds that are asked for again: rows of accounting come late
SITE_READERS: dict[ResourceSystem, "SiteReader"] = {
    ResourceSystem.SLURM: slurm_site,
    ResourceSystem.GRID_ENGINE: gridengine_site,
}
"""The schedulers whose queue and nodes can be shown."""
MAX_SNAPSHOT = 8 * 1024 * 1024  # bytes


class SiteReader(Protocol):
    """The commands that show a scheduler as a whole, and what their answers mean; a module has these.

    `IN_UTC`: whether times are said to it in UTC.
    """

    @property
    def IN_UTC(self) -> bool: ...
    @property
    def FACTS_WORDS(self) -> Sequence[str]: ...
    def read_facts(self, result: CommandResult) -> SiteFacts | None: ...
    def queue_words(self, word: str) -> Sequence[str]: ...
    def read_queue(self, result: CommandResult, word: str) -> tuple[tuple[SiteJob, ...], int] | None: ...
    def nodes_words(self, word: str) -> Sequence[str]: ...
    def read_nodes(self, result: CommandResult, word: str) -> tuple[SiteNode, ...] | None: ...
    def history_words(self, since: str) -> Sequence[str]: ...
    def read_history(self, result: CommandResult) -> tuple[SiteJob, ...] | None: ...


class SitePoller:
    """A thread that asks one site: all its jobs in one command, all its nodes in another.

    A site that is under no overlay is asked as long as somebody wants to know.
    """

    def __init__(self, resource: BatchResource, report: Callable[[SiteSnapshot], None]) -> None:
        self._resource, self._report = resource, report
        self._reader = SITE_READERS[resource.system]
        self.system = resource.system
        self._wakes = threading.Event()
        self._wanted_until = time.monotonic() + WANTED
        self._was_asked = True
        self._facts, self._facts_due = SiteFacts(), 0.0
        self._history_since, self._history_due, self._has_history = FIRST_HISTORY, 0.0, False
        self._failures = 0
        self._last = SiteSnapshot(resource.key, Instant(0.0), self._facts)
        self._asked = 0.0  # monotonic
        self._is_over = False
        threading.Thread(target=self._work, name=f"{resource.name}-site", daemon=True).start()

    def change(self, resource: BatchResource) -> None:
        """The site is to be asked as this says."""
        self._resource, self._facts_due = resource, 0.0
        self._wakes.set()

    def end(self) -> None:
        """Ask no more: the thread ends."""
        self._is_over = True
        self._wakes.set()

    def want(self) -> None:
        """Somebody asks for the site, or jobs of ours are there."""
        self._was_asked, self._wanted_until = True, time.monotonic() + WANTED
        self._wakes.set()

    def _work(self) -> None:
        while not self._is_over:
            if not self._is_wanted():
                self._wakes.wait()
                self._wakes.clear()
                continue
            self._report(self._look())
            if ended := self._history():
                self._report(replace(self._last, ended=ended))
            while not self._is_over and (left := self._asked + self._rest() - time.monotonic()) > 0:
                self._wakes.wait(left)
                self._wakes.clear()

    def _is_wanted(self) -> bool:
        return self._resource.overlay or time.monotonic() < self._wanted_until

    def _rest(self) -> float:
        """Return the seconds from one look to the next."""
        often = time.monotonic() < self._wanted_until
        times = 1 if self._was_asked else USUAL if often else SELDOM
        rest = self._resource.poll * min(times << min(self._failures, 8), SELDOM)
        return max(float(rest), SLOW * self._last.poll_time)

    def _look(self) -> SiteSnapshot:
        """Ask for what is due."""
        self._asked = began = time.monotonic()
        self._was_asked = False
        now = Instant(time.time())
        if began >= self._facts_due:
            facts = self._reader.read_facts(self._run(self._reader.FACTS_WORDS))
            self._facts, self._facts_due = facts or self._facts, began + self._resource.poll * RARE
        word = secrets.token_hex(8)  # nobody who names a job can know it
        argv = self._reader.queue_words(word)
        result = self._run(argv)
        queue = self._reader.read_queue(result, word)
        if queue is None:
            return self._failed(f"{_program(argv)}: {result.complaint}")
        argv = self._reader.nodes_words(word)
        result = self._run(argv)
        nodes = self._reader.read_nodes(result, word)
        if nodes is None:
            return self._failed(f"{_program(argv)}: {result.complaint}")
        self._failures = 0
        snapshot = SiteSnapshot(
            resource=self._resource.key,
            at=now,
            facts=self._facts,
            jobs=queue[0],
            nodes=nodes,
            left_out=queue[1],
            poll_time=Seconds(time.monotonic() - began),
            has_accounting=self._has_history,
        )
        self._last = bounded(snapshot)
        return self._last

    def _failed(self, problem: str) -> SiteSnapshot:
        self._failures += 1
        took = Seconds(time.monotonic() - self._asked)
        self._last = replace(self._last, facts=self._facts, ended=(), poll_time=took, problem=problem)
        return self._last

    def _history(self) -> tuple[SiteJob, ...]:
        """Return the jobs that have ended since the last time, if that is due."""
        if self._last.problem or time.monotonic() < self._history_due:
            return ()
        self._history_due = time.monotonic() + self._resource.poll * SELDOM
        since = (time.gmtime if self._reader.IN_UTC else time.localtime)(time.time() - OVERLAP)
        jobs = self._reader.read_history(self._run(self._reader.history_words(self._history_since)))
        self._has_history = jobs is not None
        if jobs is None:
            self._history_due = time.monotonic() + self._resource.poll * RARE
            return ()
        self._history_since = time.strftime("%Y-%m-%dT%H:%M:%S", since)
        return jobs

    def _run(self, argv: Sequence[str]) -> CommandResult:
        variable = self._resource.system.settings_variable
        return run_command(self._resource, variable, own_account(), argv, seconds=MAX_COMMAND)


def _program(argv: Sequence[str]) -> str:
    """Return the program that a command runs, without the variables before it."""
    return next(word for word in argv if word != "env" and "=" not in word)


def bounded(snapshot: SiteSnapshot) -> SiteSnapshot:
    """Return the snapshot with as many jobs and nodes as one message holds."""
    while len(msgspec.msgpack.encode(snapshot)) > MAX_SNAPSHOT:
        jobs: tuple[SiteJob, ...] = snapshot.jobs[: len(snapshot.jobs) // 2]
        nodes: tuple[SiteNode, ...] = snapshot.nodes
        if len(jobs) < len(nodes):
            nodes = nodes[: len(nodes) // 2]
        left = snapshot.left_out + len(snapshot.jobs) - len(jobs)
        ended = snapshot.ended[len(snapshot.ended) // 2 :]
        snapshot = replace(snapshot, jobs=jobs, nodes=nodes, ended=ended, left_out=left)
    return snapshot
