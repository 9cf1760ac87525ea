"""Hand jobs over to other schedulers for a head: gets orders on its channel, says what became of each.

It keeps nothing: what it forgets when it ends, the next process finds by the markers.  It ends when the head
has hung up, or is gone.
"""

import os
import queue
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from headnode.adapters.batch.orders import (
    MAX_NEWS,
    AttemptFileAnswer,
    AttemptFileQuestion,
    AttemptSignal,
    AttemptSignalAnswer,
    HandOffAnswer,
    HandOffRound,
    ResourceStatus,
)
from headnode.adapters.batch.resource_worker import ResourceWorker
from headnode.adapters.batch.site_poller import SITE_READERS, SitePoller
from headnode.adapters.batch.staging_processes import TransferQueue
from headnode.adapters.wire.child_end import end_on_fault, end_with, messages, parent_channel
from headnode.adapters.wire.frame_codec import frame
from headnode.core.batch.dialect import Dialect
from headnode.core.batch.gridengine import GridEngine
from headnode.core.batch.pbs import Pbs
from headnode.core.batch.site import SiteSnapshot
from headnode.core.batch.slurm import Slurm
from headnode.core.batch.tracked import HandOffReport
from headnode.core.model.resource import BatchResource
from headnode.core.model.resource_system import ResourceSystem

DIALECTS: dict[ResourceSystem, Dialect] = {each.system: each for each in (Slurm(), Pbs(), GridEngine())}
READERS = 16  # questions about attempts that are answered at a time
MAX_WAIT = 20.0  # seconds until an answer without news


class HandOffProcess:
    """The workers of the resources, and the news that the head has not heard yet."""

    def __init__(self) -> None:
        self._workers: dict[str, ResourceWorker] = {}
        self._resources: dict[str, BatchResource] = {}
        self._sites: dict[str, SitePoller] = {}
        self._transfers = TransferQueue()
        self._changed: queue.SimpleQueue[HandOffReport | ResourceStatus | SiteSnapshot] = queue.SimpleQueue()

    def carry_out(self, asked: HandOffRound) -> None:
        """Do what the head says."""
        for resource in asked.resources or ():
            self._know(resource)
        if asked.resources is not None:
            for gone in self._resources.keys() - {resource.key for resource in asked.resources}:
                del self._resources[gone]
                if gone in self._sites:
                    self._sites.pop(gone).end()
        for order in asked.orders:
            if order.resource in self._workers:
                self._workers[order.resource].order(order)
        for order in asked.orders:
            if order.resource in self._sites:
                self._sites[order.resource].want()
        for name in asked.look:
            self._want_site(name)
        for worker in self._workers.values():
            for change in asked.changes:
                worker.change_attempt(change)
            for key in asked.stops:
                worker.stop(key)
            for key in asked.drops:
                worker.drop(key)

    def _want_site(self, name: str) -> None:
        """Ask for the queue of a resource that can show it, for as long as the head wants to know."""
        known = self._resources.get(name)
        if known is not None and known.system in SITE_READERS and name not in self._sites:
            self._sites[name] = SitePoller(known, self._changed.put)
        if name in self._sites:
            self._sites[name].want()

    def _know(self, resource: BatchResource) -> None:
        self._resources[resource.key] = resource
        if resource.key in self._sites and self._sites[resource.key].system is not resource.system:
            self._sites.pop(resource.key).end()
        if resource.key in self._sites:
            self._sites[resource.key].change(resource)
        elif resource.overlay and resource.system in SITE_READERS:
            self._sites[resource.key] = SitePoller(resource, self._changed.put)
        known = self._workers.get(resource.key)
        if known is not None and known.system is resource.system:
            known.change(resource)
            return
        if known is not None:  # nothing of ours is there: the head changes the system only then
            known.end()
        dialect = DIALECTS[resource.system]
        self._workers[resource.key] = ResourceWorker(resource, dialect, self._report, self._transfers)

    def _report(self, reports: Sequence[HandOffReport], status: ResourceStatus | None) -> None:
        for one in reports:
            self._changed.put(one)
        if status is not None:
            self._changed.put(status)

    def answer_at_once(
        self, question: AttemptFileQuestion | AttemptSignal
    ) -> AttemptFileAnswer | AttemptSignalAnswer:
        """Read a file of an attempt, or send attempts a signal."""
        worker = self._workers.get(question.resource)
        if isinstance(question, AttemptSignal):
            if worker is None:
                return AttemptSignalAnswer(question.number, problem="its resource was removed")
            return worker.desk.signal(question)
        if worker is None:
            return AttemptFileAnswer(question.number, problem="its resource was removed")
        return worker.desk.read(question)

    def answer(self, number: int) -> HandOffAnswer:
        """Return what is new; wait for it if there is nothing."""
        answers: list[HandOffReport | ResourceStatus | SiteSnapshot] = []
        try:
            answers.append(self._changed.get(timeout=MAX_WAIT))
            while len(answers) < MAX_NEWS and not isinstance(answers[-1], SiteSnapshot):
                answers.append(self._changed.get_nowait())
        except queue.Empty:
            pass
        reports = tuple(each for each in answers if isinstance(each, HandOffReport))
        statuses = tuple(each for each in answers if isinstance(each, ResourceStatus))
        site = next((each for each in answers if isinstance(each, SiteSnapshot)), None)
        return HandOffAnswer(number, reports, statuses, site)


def main() -> None:
    """Carry out what the head says, until it says no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the head, which will hang up
    threading.excepthook = lambda failure: end_with(failure.exc_value or failure.exc_type())
    process, channel = HandOffProcess(), parent_channel()
    asked_for: msgspec.msgpack.Decoder[HandOffRound | AttemptFileQuestion | AttemptSignal]
    asked_for = msgspec.msgpack.Decoder(HandOffRound | AttemptFileQuestion | AttemptSignal)
    speaking = threading.Lock()

    def reply(answer: HandOffAnswer | AttemptFileAnswer | AttemptSignalAnswer) -> None:
        data = frame(msgspec.msgpack.encode(answer))
        with speaking:
            channel.sendall(data)

    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()

    def report() -> None:
        while True:
            reply(process.answer(waiting.get()))

    threading.Thread(target=report, daemon=True).start()
    readers = ThreadPoolExecutor(READERS)
    for message in messages(channel):
        asked = asked_for.decode(message)
        if not isinstance(asked, HandOffRound):
            answering = readers.submit(lambda asked=asked: reply(process.answer_at_once(asked)))  # type: ignore[misc]
            answering.add_done_callback(end_on_fault)
            continue
        process.carry_out(asked)
        if asked.waits:
            waiting.put(asked.number)
        else:
            reply(HandOffAnswer(asked.number))
    os._exit(0)  # commands that still run end by their own time limit


if __name__ == "__main__":
    main()
