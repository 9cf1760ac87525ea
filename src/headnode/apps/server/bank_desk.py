"""The head's side of the bank: asked before jobs enter the queue and start, told of runs that are over.

A process beside the head speaks to the bank.  What is due follows from the journal; it is told until the bank
has confirmed it.
"""

import asyncio
import logging
import math
import time
from collections.abc import Sequence

import msgspec

from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.apps.server.filtering.filter_documents import FilterCaller, read_document
from headnode.apps.server.server_context import ServerContext
from headnode.core.filtering import FilterAnswer, FilterRequest, FilterReturn
from headnode.core.model.bank import BankAction, BankedRun, BankOrder, BankReply, BankStep
from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.job import JobRequest, processors_for
from headnode.core.model.quantities import JobId
from headnode.core.state.bank import AskBank, NoteBank
from headnode.core.state.bank_ledger import BANK, BankKey, next_run
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import BankNoted, Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import own_request
from headnode.core.state.start import StartJob
from headnode.core.state.transitions import JobState

log = logging.getLogger("headnode.bank")

AT_ONCE = 2  # runs that are settled at a time, so that reservations find a free turn
BETWEEN_LOOKS = 5.0  # seconds at most
FIRST_REST, MAX_REST = 2.0, 3600.0  # seconds until the next try; each is three times the one before
MAX_ANSWER = 90.0  # seconds: the process is stuck then
_MAX_REPLY = 65_536  # bytes
_START, _HOLD, _WAIT = 0, 3, 2
_STEPS: dict[BankAction, BankStep] = {"charge": "charged", "release": "released", "refund": "refunded"}


class BankDesk:
    """Asks the bank for the head."""

    def __init__(self, context: ServerContext, asker: FilterCaller) -> None:
        """`asker` asks the bank as the last filter of every job."""
        self._context, asker.bank = context, self.call
        replies = msgspec.msgpack.Decoder(BankReply)

        def read(message: bytes) -> tuple[int, BankReply]:
            reply = replies.decode(message)
            return reply.number, reply

        self._service = ChildService(ChildProgram("headnode.apps.notify"), read, _MAX_REPLY)
        self._number = 0
        self._seen = set(context.cluster.bank.due)  # what is due, as far as it was looked at
        self._fresh: set[BankKey] = (
            set()
        )  # what has become due in the life of this head, and was not told yet
        self._tries: dict[BankKey, tuple[int, float]] = {}  # how often, and when the next may be
        self._pause = 0.0  # until when the bank is left alone
        self._busy: dict[BankKey, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    # As the last filter of every job.

    async def call(self, call: FilterRequest) -> FilterReturn:
        """Answer as a filter does: 0 the bank pays, 3 it does not, 2 it is to be asked again."""
        record = self._context.cluster.jobs.get(JobId(call.job))
        if record is None:
            return _filter_return(_START, "")
        match call.kind:
            case "submission":
                return await self._quoted(call, record)
            case "activation" if record.state is JobState.QUEUED:
                return await self._reserved(call, record)
            case "revert-activation":  # what fails here is released at the end of the job
                run = BankedRun(job=record.id, run=next_run(record), owner=record.owner)
                await self._ask_within(call.seconds, "release", run)
        return _filter_return(_START, "")

    async def _quoted(self, call: FilterRequest, record: JobRecord) -> FilterReturn:
        """Ask for the price of a job that is submitted or changed; a bank that is away refuses nothing."""
        spec = read_document(call.paper, call.filter.dialect)
        request = own_request(spec)
        run = self._run(record, request, self._processors(request), next_run(record))
        run = msgspec.structs.replace(run, project=spec.project, queue=spec.template)
        if not math.isfinite(request.run_time):
            return _filter_return(_HOLD, _ENDLESS)
        reply = await self._ask_within(call.seconds, "quote", run)
        if reply.outcome == "refused":
            return FilterReturn(FilterAnswer(exit_code=_HOLD, words=reply.words), call.paper)
        return FilterReturn(FilterAnswer(exit_code=_START, words=reply.words), call.paper)

    def _processors(self, request: JobRequest) -> int:
        """Return the processors that a job needs at least, on the largest node."""
        nodes = [node.facts for node in self._context.cluster.nodes.values()]
        largest = max(nodes, key=lambda facts: facts.processors, default=None)
        return request.minimum if largest is None else processors_for(request, request.minimum, largest)

    async def _reserved(self, call: FilterRequest, record: JobRecord) -> FilterReturn:
        """Have the price of a job reserved, for as many processors as it may grow to."""
        offer = self._context.engine.offers.of.get(record.id)
        if offer is None or not isinstance(offer.giving, StartJob):
            return _filter_return(_WAIT, "the offer is not there any more")
        request = offer.giving.taken(offer.request)
        if not math.isfinite(request.run_time):
            return _filter_return(_HOLD, _ENDLESS)
        offered = sum(count for _, count in offer.giving.shares)
        most = offered if request.together else math.ceil(offered * request.maximum / max(1, offer.units))
        there = sum(node.facts.processors for node in self._context.cluster.nodes.values())
        run = self._run(record, request, max(offered, min(most, there)), next_run(record))
        try:
            await self._context.ask(AskBank(job=record.id))
        except Unavailable as error:
            return _filter_return(_WAIT, str(error))
        reply = await self._ask_within(call.seconds, "reserve", run)
        match reply.outcome:
            case "done":
                await self._note(run, "reserved", reply.amount)
                if self._context.cluster.jobs.get(record.id) is None:  # its end was told before this
                    await self._ask("release", run)
                return _filter_return(_START, reply.words)
            case "refused":
                return _filter_return(_HOLD, reply.words)
        goes_on = self._context.engine.settings.text("BankAway") == "Continue"
        return _filter_return(_START if goes_on else _WAIT, reply.words)

    def _run(self, record: JobRecord, request: JobRequest, processors: int, number: int) -> BankedRun:
        spec = self._context.cluster.written(record)
        return BankedRun(
            job=record.id,
            run=number,
            owner=record.owner,
            project=spec.project,
            queue=spec.template,
            processors=processors,
            seconds=math.ceil(request.run_time) if math.isfinite(request.run_time) else 0,
        )

    # What is due.

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Notice that something is due; a run that is confirmed may be refunded at once, which is new."""
        for event in events:
            if isinstance(event, BankNoted) and event.step in _STEPS.values():
                self._seen.discard((event.job, event.run))
        for key in reversed(cluster.bank.due):  # the new ones are the last
            if key in self._seen:
                return
            self._seen.add(key)
            self._fresh.add(key)
            self._changed.set()

    async def keep(self) -> None:
        """Tell the bank what is due, for ever."""
        try:
            while True:
                self._changed.clear()
                self._begin()
                try:
                    async with asyncio.timeout(BETWEEN_LOOKS):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            await self._service.end()

    def _begin(self) -> None:
        """Begin to settle what may be told now, the oldest first."""
        if not self._context.engine.settings.text(BANK):
            return
        now = time.monotonic()
        if now < self._pause:
            return
        for key in self._context.cluster.bank.due:
            if len(self._busy) >= AT_ONCE:
                return
            if key not in self._busy and self._tries.get(key, (0, 0.0))[1] <= now:
                task = self._busy[key] = asyncio.get_running_loop().create_task(self._settle(key))
                task.add_done_callback(lambda done, key=key: self._over(key, done))  # type: ignore[misc]

    def _over(self, key: BankKey, task: "asyncio.Task[None]") -> None:
        self._busy.pop(key, None)
        self._changed.set()
        if not task.cancelled() and task.exception() is not None:
            log.critical("a run was not settled at the bank", exc_info=task.exception())
            self._later(key, "the head failed to settle it", 0.0)

    def is_first_notice(self, key: BankKey) -> bool:
        """Return whether the request that is due was never sent to the bank; it is sent now."""
        first = key in self._fresh
        self._fresh.discard(key)
        return first

    async def _settle(self, key: BankKey) -> None:
        """Tell the bank of one run, and record what it confirms."""
        entry = self._context.cluster.bank.entries.get(key)
        if entry is None or (action := entry.due) is None:
            return
        first, began, run = self.is_first_notice(key), time.monotonic(), entry.banked()
        reply = await self._ask(action, run, first=first)
        if reply.outcome == "done" and await self._note(run, _STEPS[action], reply.amount):
            self._tries.pop(key, None)
            self._context.bank_problems.pop(key, None)
            return
        self._later(key, reply.words, time.monotonic() - began)

    def _later(self, key: BankKey, reason: str, took: float) -> None:
        """Try again later; after a slow bank, late enough that the earlier request is carried out or lost."""
        tries = self._tries.get(key, (0, 0.0))[0] + 1
        rest = max(3 * took, min(FIRST_REST * 3 ** min(tries - 1, 10), MAX_REST))
        self._pause = time.monotonic() + FIRST_REST
        self._tries[key] = (tries, time.monotonic() + rest)
        self._context.bank_problems[key] = reason
        log.warning("run %d of job %d is settled at the bank in %.0f s: %s", key[1], key[0], rest, reason)

    async def _note(self, run: BankedRun, step: BankStep, amount: int) -> bool:
        """Record what the bank has confirmed; return whether the journal has it."""
        try:
            await self._context.ask(NoteBank(job=JobId(run.job), run=run.run, step=step, amount=amount))
        except (Refused, Unavailable) as error:
            log.error("the answer of the bank about run %s could not be recorded: %s", run.name, error)
            return False
        return True

    # How it is asked.

    async def _ask_within(self, seconds: float, action: BankAction, run: BankedRun) -> BankReply:
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(action, run)
        except TimeoutError:
            return BankReply(0, "away", words=f"the bank does not answer within {seconds:g} s")

    async def _ask(self, action: BankAction, run: BankedRun, *, first: bool = True) -> BankReply:
        settings = self._context.engine.settings
        self._number += 1
        order = BankOrder(
            number=self._number,
            server=settings.text(BANK),
            key_file=settings.text("BankKeyFile"),
            actor=settings.text("BankActor"),
            machine=self._context.name,
            action=action,
            run=run,
            first=first,
        )
        try:
            async with asyncio.timeout(MAX_ANSWER):
                return await (await self._service.ask(self._number, msgspec.msgpack.encode(order)))
        except TimeoutError:
            self._service.kill()
        except OSError as error:
            log.error("the process that asks the bank was lost: %s", error)
        return BankReply(order.number, "away", words="the process that asks the bank was lost")


_ENDLESS = "the bank charges the run time limit of a job, and this job has none; set one: /runtime"


def _filter_return(code: int, message: str) -> FilterReturn:
    return FilterReturn(FilterAnswer(exit_code=code, words=message))
