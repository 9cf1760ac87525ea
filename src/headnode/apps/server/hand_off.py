"""The head's side of hand-off: tells the process beside it what to hand over, takes in what became of it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from headnode.adapters.batch.attempt_files import base_directory
from headnode.adapters.batch.orders import (
    MAX_ANSWER,
    AttemptFileAnswer,
    AttemptFileQuestion,
    AttemptSignal,
    AttemptSignalAnswer,
    HandOffAnswer,
    HandOffChange,
    HandOffOrder,
    HandOffRound,
    ResourceStatus,
)
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.apps.server.attempts_elsewhere import (
    TransfersThere,
    commands_of,
    files_to_stage,
    home_of_owner,
    live_keys,
    live_of,
    stopped_keys,
)
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.place_desk import PlaceDesk, SeenPlaces
from headnode.apps.server.predicted_starts import PredictedStarts
from headnode.apps.server.site_overlay import SiteOverlay
from headnode.apps.server.waiting_reasons import staging_reason, waits_for_files
from headnode.core.batch.attempt import ForeignAttempt
from headnode.core.batch.dialect import AttemptPlace, marker_of
from headnode.core.batch.slurm_reasons import reason_in_words
from headnode.core.batch.tracked import HandOffReport
from headnode.core.model.errors import NotFound, Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import PLACE_MARK, BatchResource
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.signals import SignalTarget
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, ResourceRemoved, ResourceSet
from headnode.core.state.job_record import JobRecord
from headnode.core.state.transitions import JobState, TaskState
from headnode.engine.engine import Engine
from headnode.engine.ports import Past
from headnode.protocol.job_answers import OutputBytesAnswer

log = logging.getLogger("headnode.handoff")

AFTER_TROUBLE = 2.0  # seconds until the process is started again, or the journal tried again
ORDERS_AT_ONCE, MAX_ROUND = 50, 16 << 20  # bytes; each may have a large script and many files
_Answer = HandOffAnswer | AttemptFileAnswer | AttemptSignalAnswer
_Question = HandOffRound | AttemptFileQuestion | AttemptSignal


class HandOff:
    """Attempts at resources: told, stopped and forgotten, in the order of the events."""

    def __init__(
        self,
        engine: Engine,
        batcher: CommandBatcher,
        name: str,
        secret_of: Callable[[JobRecord], str],
        starts: Callable[[], PredictedStarts],
        past: Past,
        state: Path,
    ) -> None:
        """`state`: the directory of the head."""
        self._engine, self._batcher, self._name, self._secret_of = engine, batcher, name, secret_of
        self._state = state
        self.transfers: dict[str, TransfersThere] = {}  # by place
        self.reasons: dict[AttemptPlace, str] = {}  # why each waits at its resource
        self.statuses: dict[str, ResourceStatus] = {}
        self._orders: dict[AttemptPlace, None] = {}  # to tell, in this order
        self._fresh: set[AttemptPlace] = set()  # no process was ever told of these
        self._changed: set[JobId] = set()
        self._stops: list[AttemptPlace] = []
        self._drops: list[AttemptPlace] = []
        self._resources_changed = True
        self._looks: set[str] = set()  # sites for which somebody asks
        self.site = SiteOverlay()
        self.places = PlaceDesk(
            engine, batcher, starts, SeenPlaces(self.statuses, self.site.of, self.want_site), past
        )
        self._wakes = asyncio.Event()
        self._number = 0
        answers: msgspec.msgpack.Decoder[_Answer] = msgspec.msgpack.Decoder(_Answer)

        def read(message: bytes) -> tuple[Hashable, _Answer]:
            answer = answers.decode(message)
            return answer.number, answer

        program = ChildProgram("headnode.apps.handoff")
        self._service = ChildService(program, read, MAX_ANSWER)

    # What is to be told.

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Note what follows from durable events for attempts at resources."""
        self.places.perform(events, cluster)
        for event in events:
            match event:
                case e.InstancesDispatched() if event.placement[0][0].startswith(PLACE_MARK):
                    keys = [AttemptPlace(event.job, event.task, *each) for each in event.attempts]
                    self._orders.update(dict.fromkeys(keys))
                    self._fresh.update(keys)
                case e.InstancesStopping() if event.job in cluster.resource_index.elsewhere:
                    self._stops += stopped_keys(cluster, event)
                case e.JobHeld() | e.JobReleased() | e.JobModified() if (
                    event.job in cluster.resource_index.elsewhere
                ):
                    self._changed.add(event.job)
                case e.InstancesEnded() if event.ended[0].node.startswith(PLACE_MARK):
                    for how in event.ended:
                        key = AttemptPlace(event.job, how.task, how.instance, how.attempt)
                        self.reasons.pop(key, None)
                        self._orders.pop(key, None)
                        self._fresh.discard(key)
                        self._drops.append(key)
                        self._transfers_at(how.node).forget(key)
                case ResourceSet() | ResourceRemoved():
                    self._resources_changed = True
                case _:
                    continue
            self._wakes.set()

    def _transfers_at(self, place: str) -> TransfersThere:
        return self.transfers.setdefault(place, TransfersThere())

    def reasons_to_wait(self, record: JobRecord) -> list[Reason]:
        """Return why a job waits at its resource."""
        reason = self._reason_in_words(record)
        if not waits_for_files(record):
            return [Reason(Why.RESOURCE, reason)] if reason else []
        spec, now = self._engine.cluster.spec(record), self._engine.clock.now()
        files = staging_reason(self.transfers, record, spec, now)
        return [Reason(files.why, f"{files.text}; {reason}")]

    def _reason_in_words(self, record: JobRecord) -> str:
        if record.run is None:
            return ""
        known = self._engine.cluster.resource_index.named.get(record.run.resource)
        name = known.name if known is not None else record.run.resource
        for index, progress in enumerate(record.run.tasks):
            for instance, live in progress.live.items():
                reason = self.reasons.get(AttemptPlace(record.id, index + 1, instance, live.attempt), "")
                if known is not None and known.system is not ResourceSystem.PBS:
                    reason = reason_in_words(reason)
                if not live.foreign:
                    return f"it is being handed over to {name}" + (f": {reason}" if reason else "")
                return f"it waits at {name} as job {live.foreign}" + (f": {reason}" if reason else "")
        return f"it goes to {name}"

    def want_site(self, resource: str) -> None:
        """Somebody asks for the queue of a site, which is polled more often then."""
        self._looks.add(resource)
        self._wakes.set()

    # How it is told.

    async def keep(self) -> None:
        """Tell the process and hear from it for ever; start it again when it is lost."""
        try:
            while True:
                try:
                    await self._serve()
                except OSError as error:
                    log.error("the hand-off process was lost: %s", error)
                    await asyncio.sleep(AFTER_TROUBLE)
        finally:
            await self._service.end()

    async def _serve(self) -> None:
        """Use a new process until it is lost: another one knows nothing of what this one was told.

        Raises:  OSError.
        """
        await self._service.end()
        await self._ask(HandOffRound(0), starts=True)
        cluster = self._engine.cluster
        self._orders = dict.fromkeys(
            [*live_keys(cluster, sorted(cluster.resource_index.elsewhere)), *self._orders]
        )
        self._resources_changed = True
        self._stops, self._drops = [], []
        self._changed.clear()
        await self._send_all()
        hearing = asyncio.ensure_future(self._receive())
        try:
            while True:
                self._wakes.clear()
                await self._send_all()
                waking = asyncio.ensure_future(self._wakes.wait())
                await asyncio.wait((waking, hearing), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                if hearing.done():
                    hearing.result()
                    return
        finally:
            hearing.cancel()

    def _has_work(self) -> bool:
        some = self._orders or self._changed or self._stops or self._drops or self._looks
        return bool(some) or self._resources_changed

    async def _send_all(self) -> None:
        while self._has_work():
            cluster = self._engine.cluster
            keys, orders = self._next_orders(cluster)
            resources = tuple(cluster.resource_index.named.values()) if self._resources_changed else None
            all_orders = len(keys) == len(self._orders)  # a change comes after the order that it is for
            changes = tuple(self._changes(cluster)) if all_orders else ()
            stops, self._stops = tuple(self._stops), []
            drops, self._drops = tuple(self._drops), []
            self._resources_changed = False
            looks, self._looks = tuple(self._looks), set()
            for key in keys:
                self._orders.pop(key, None)
                self._fresh.discard(key)
            await self._ask(HandOffRound(0, resources, orders, changes, stops, drops, looks))

    def _next_orders(self, cluster: ClusterState) -> tuple[list[AttemptPlace], tuple[HandOffOrder, ...]]:
        """Return the attempts to tell in one round, and their orders: not too much at a time."""
        keys, orders, size = [], list[HandOffOrder](), 0
        for key in list(self._orders)[:ORDERS_AT_ONCE]:
            keys.append(key)
            order = self._order(cluster, key)
            if order is not None:
                orders.append(order)
                size += order.size
            if size > MAX_ROUND:
                break
        return keys, tuple(orders)

    def _changes(self, cluster: ClusterState) -> Iterator[HandOffChange]:
        """Yield what is to change of the attempts of changed jobs, and forget that they changed."""
        changed, self._changed = self._changed, set()
        now = self._engine.clock.now()
        for key in live_keys(cluster, sorted(changed & cluster.resource_index.elsewhere)):
            record = cluster.jobs[JobId(key.job)]
            known = cluster.resource_index.named.get(record.run.resource if record.run is not None else "")
            if known is not None:
                attempt = self._attempt(record, cluster.spec(record), key, known, "/")
                yield HandOffChange(key, _is_held(record), attempt.submission(now))

    async def _ask(self, question: _Question, *, starts: bool = False) -> _Answer:
        """Ask the process, and only if `starts` a new one.  Raises:  OSError when it is lost."""
        if not starts and not self._service.is_up:
            raise ConnectionError("it has ended between two questions")
        self._number += 1
        question = replace(question, number=self._number)
        return await (await self._service.ask(self._number, msgspec.msgpack.encode(question)))

    async def read(self, record: JobRecord, path: str, span: tuple[int, int]) -> OutputBytesAnswer:
        """Read a file that a task has written at its resource, as its user; `span`: offset and length.

        Raises:  Unavailable ``resource-away``; NotFound ``no-output``.
        """
        resource = record.run.resource if record.run is not None else ""
        question = AttemptFileQuestion(0, resource, record.owner, record.uid, record.gid, path, *span)
        answer: _Answer | None = None
        with suppress(OSError):
            answer = await self._ask(question)
        if not isinstance(answer, AttemptFileAnswer):
            raise Unavailable(
                code="resource-away",
                what=f"the files at the resource {resource!r} cannot be read now",
                fix="try again; see `hn resource list`",
            )
        if answer.problem:
            raise NotFound(
                code="no-output", what=f"{path!r} cannot be read: {answer.problem}", fix="see: hn task view"
            )
        return OutputBytesAnswer(answer.data, answer.size)

    async def signal(
        self, record: JobRecord, ids: Sequence[str], number: int, target: SignalTarget
    ) -> AttemptSignalAnswer:
        """Send a signal to attempts of a job, as its user; `ids` are theirs at the resource."""
        resource = record.run.resource if record.run is not None else ""
        about = (resource, record.owner, record.uid, record.gid, tuple(ids), number, target)
        answer: _Answer | None = None
        with suppress(OSError):
            answer = await self._ask(AttemptSignal(0, *about))
        if isinstance(answer, AttemptSignalAnswer):
            return answer
        return AttemptSignalAnswer(0, "the process that talks to it has just ended")

    def output_files(self, record: JobRecord, spec: JobSpec, key: AttemptPlace) -> tuple[str, str, str]:
        """Return the files of standard output and error of an attempt, and the one where the rest goes."""
        known = self._engine.cluster.resource_index.named.get(record.run.resource if record.run else "")
        home = home_of_owner(record.owner)
        if known is None or not home:
            return "", "", ""
        return self._attempt(record, spec, key, known, home).outputs()

    async def _receive(self) -> None:
        while True:
            answer = await self._ask(HandOffRound(0, waits=True))
            if not isinstance(answer, HandOffAnswer):
                continue
            for status in answer.statuses:
                self._note(status)
            if answer.site is not None:
                self.site.notice(answer.site, self._engine.cluster.resource_index.named)
            of_attempts: dict[AttemptPlace, list[HandOffReport]] = {}
            for one in answer.reports:
                key = AttemptPlace(one.job, one.task, one.instance, one.attempt)
                of_attempts.setdefault(key, []).append(one)
            await asyncio.gather(*(self._take(key, reports) for key, reports in of_attempts.items()))

    def _note(self, status: ResourceStatus) -> None:
        before = self.statuses.get(status.resource)
        self.statuses[status.resource] = status
        if status.problem and (before is None or before.problem != status.problem):
            log.warning("resource %s does not answer: %s", status.resource, status.problem)
        elif not status.problem and before is not None and before.problem:
            log.info("resource %s answers again", status.resource)

    async def _take(self, key: AttemptPlace, reports: Sequence[HandOffReport]) -> None:
        """Record what has become known of an attempt, in this order."""
        record = self._engine.cluster.jobs.get(JobId(key.job))
        if record is None or record.run is None or not record.run.resource:
            return
        for one in reports:
            if one.kind == "waits":
                self.reasons[key] = one.reason
            if one.progress is not None:
                there = self._transfers_at(PLACE_MARK + record.run.resource)
                if not there.note(key, one.progress):
                    continue
            for command in commands_of(one, record.run.resource):
                await self._record(command)

    async def _record(self, command: Command) -> None:
        """Carry out a command; what cannot be written is tried until it can be."""
        while True:
            try:
                await self._batcher.ask(command)
            except Unavailable:
                await asyncio.sleep(AFTER_TROUBLE)
            except Refused as refusal:
                log.error("what became of an attempt was refused: %s: %s", command, refusal)
                return
            else:
                return

    def _order(self, cluster: ClusterState, key: AttemptPlace) -> HandOffOrder | None:
        """Return the order for an attempt; None if it is over."""
        record, live = live_of(cluster, key)
        if record is None or live is None or record.run is None:
            return None
        known = cluster.resource_index.named.get(record.run.resource)
        if known is None:
            return None
        home = home_of_owner(record.owner)
        attempt = self._attempt(record, cluster.spec(record), key, known, home or "/")
        return HandOffOrder(
            resource=known.key,
            key=key,
            owner=record.owner,
            uid=record.uid,
            gid=record.gid,
            submission=attempt.submission(self._engine.clock.now()),
            script=attempt.script(),
            foreign=live.foreign,
            may_be_there=key not in self._fresh,
            stop=live.state is TaskState.ENDING,
            held=_is_held(record),
            problem="" if home else f"there is no user {record.owner!r} on the head's machine",
            secret=self._secret_of(record),
            staged=files_to_stage(attempt, cluster, self._state),
        )

    def _attempt(
        self, record: JobRecord, spec: JobSpec, key: AttemptPlace, resource: BatchResource, home: str
    ) -> ForeignAttempt:
        marker = marker_of(resource.mark, key)
        base = base_directory(resource, record.owner).replace("~", home, 1)
        machine = socket.gethostname()
        return ForeignAttempt(key, marker, spec, record.owner, home, base, resource, self._name, machine)


def _is_held(record: JobRecord) -> bool:
    return bool(record.holds) and record.state is JobState.HANDED
