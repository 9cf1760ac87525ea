"""Payment of jobs at a bank: a run is reserved before it starts, and charged once when it is over.

Source:  Gold User's Guide, "Making Job Reservations", "Charging Jobs", "Refunding Jobs".
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from headnode.core.model.bank import BankStep
from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.user import User
from headnode.core.state import events as n
from headnode.core.state import job_events as e
from headnode.core.state.bank_ledger import BANK, BankEntry, next_run
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.permissions import must_administer


class AskBank(Command, frozen=True):
    """Head: the bank is about to be asked for a reservation for the next run of a queued job."""

    job: JobId


class NoteBank(Command, frozen=True):
    """Head: the bank has confirmed something about a run; `amount` in millionths of its unit."""

    job: JobId
    run: int
    step: BankStep
    amount: int = 0


class RefundRuns(Command, frozen=True):
    """An administrator wants what the runs of a job were charged to be paid back; `runs` were charged."""

    by: User
    job: JobId
    owner: str
    runs: tuple[int, ...]


def ask(cluster: ClusterState, command: AskBank, now: Instant) -> list[Event]:
    """Note the intention to reserve, once for each run; nothing happens if the job is not queued any more."""
    record = cluster.jobs.get(command.job)
    if record is None or not record.state.is_queued or (record.id, next_run(record)) in cluster.bank.entries:
        return []
    return [n.BankNoted(at=now, job=record.id, run=next_run(record), step="asked")]


_CONFIRMS: Mapping[BankStep, str] = MappingProxyType(
    {"charged": "charge", "released": "release", "refunded": "refund"}
)


def note(cluster: ClusterState, command: NoteBank, now: Instant) -> list[Event]:
    """Note what the bank has confirmed; what is not due, or was confirmed before, causes nothing."""
    entry = cluster.bank.entries.get((command.job, command.run))
    if entry is None:
        return []
    awaited = entry.stage == _CONFIRMS.get(command.step) or (
        command.step == "reserved" and entry.stage == "asked" and entry.reserved != command.amount
    )
    if not awaited:
        return []
    return [n.BankNoted(at=now, job=command.job, run=command.run, step=command.step, amount=command.amount)]


def refund(cluster: ClusterState, command: RefundRuns, now: Instant) -> list[Event]:
    """Let charged runs be refunded.

    Raises:  NotAllowed; WrongState ``not-charged``.
    """
    must_administer(command.by, "refund jobs")
    if not command.runs or any((command.job, run) in cluster.bank.entries for run in command.runs):
        raise WrongState(
            code="not-charged",
            what=f"job {command.job} has no charge that could be refunded",
            fix=f"see: hn job view {command.job}",
        )
    return [
        n.BankNoted(at=now, job=command.job, run=run, step="refund", owner=command.owner, by=command.by.name)
        for run in command.runs
    ]


def bank_noted(cluster: ClusterState, event: n.BankNoted) -> None:
    """Keep an intention, or what the bank has confirmed."""
    key, ledger = (event.job, event.run), cluster.bank
    match event.step:
        case "asked":
            ledger.open(cluster.job(event.job), event.run)
        case "reserved":
            ledger.entries[key].reserved = event.amount
        case "refund":
            ledger.entries[key] = BankEntry(event.job, event.run, event.owner)
            ledger.settle(key, "refund")
        case _:
            ledger.close(key)


Applied = TypeVar("Applied", bound=e.JobEvent)


def counted(apply: Callable[[ClusterState, Applied], None]) -> Callable[[ClusterState, Applied], None]:
    """Return what applies an event by which a job gets or gives back processors, and counts these."""

    def applied(cluster: ClusterState, event: Applied) -> None:
        if not cluster.bank.entries and BANK not in cluster.parameters:
            apply(cluster, event)
            return
        record = cluster.jobs.get(event.job)
        apply(cluster, event)
        if record is not None:
            _count(cluster, record, event)

    return applied


def _count(cluster: ClusterState, record: JobRecord, event: e.JobEvent) -> None:
    ledger, run = cluster.bank, record.run
    if isinstance(event, e.JobStarted) and not event.resource and cluster.parameters.get(BANK):
        begun = ledger.open(record, run.starts if run is not None else 1)
        begun.stage, begun.started, begun.at = "running", event.at, event.at
    entry = ledger.entries.get((record.id, run.starts if run is not None else 0))
    ended = isinstance(event, e.JobEnded | e.JobRequeued | e.JobAutoRequeued)
    if entry is not None and entry.stage == "running":
        entry.used += entry.held * max(0.0, event.at - entry.at)
        entry.at = event.at
        entry.held = sum(map(len, run.allocation.values())) if run is not None else 0
        entry.processors = max(entry.processors, entry.held)
        if ended:  # what nodes and other jobs have ended is charged to nobody
            free = isinstance(event, e.JobAutoRequeued)
            ledger.settle((record.id, entry.run), "release" if free else "charge")
    if isinstance(event, e.JobEnded) and (record.id, next_run(record)) in ledger.entries:
        ledger.settle((record.id, next_run(record)), "release")  # it was reserved, and never started
