"""What clients see of a job at the bank, and the refund of its charges."""

from collections.abc import Iterable

from headnode.apps.server.api.verbs import ADMINISTERS, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bank import MILLION, BankObject
from headnode.core.model.user import User
from headnode.core.state.bank import RefundRuns
from headnode.core.state.events import BankNoted
from headnode.protocol import requests as w
from headnode.protocol.cluster_answers import RefundAnswer

MAX_EVENTS = 1_000  # of a job, that are looked at: the newest


def bank_of(context: ServerContext, looked_up: FoundJob) -> BankObject | None:
    """Return what is known of a job at the bank; None if the bank was never asked about it."""
    job, noted = looked_up.record.id, _noted(context, looked_up)
    ledger, runs = context.cluster.bank, {event.run for event in noted}
    runs.add(looked_up.record.run.starts if looked_up.record.run is not None else 0)
    entries = [ledger.entries[job, run] for run in sorted(runs) if (job, run) in ledger.entries]
    if not noted and not entries:
        return None
    reserved = [event.amount for event in noted if event.step == "reserved"]
    charges = _charges(noted)
    problems = context.bank_problems
    due = [f"{each.due}: {problems.get((job, each.run), 'not told yet')}" for each in entries if each.due]
    return BankObject(
        account=looked_up.spec.project,
        reserved=reserved[-1] / MILLION if reserved else None,
        charged=sum(charges.values()) / MILLION if charges else None,
        due="; ".join(due),
    )


def _noted(context: ServerContext, job: FoundJob) -> list[BankNoted]:
    history = context.lookups.archive.history(job.record.id, MAX_EVENTS)
    return [event for event in history if isinstance(event, BankNoted)]


def _charges(noted: Iterable[BankNoted]) -> dict[int, int]:
    """Return what each run was charged, less what was refunded."""
    charges: dict[int, int] = {}
    for event in noted:
        if event.step == "charged":
            charges[event.run] = event.amount
        elif event.step == "refunded":
            charges[event.run] = 0
    return charges


@verb(ADMINISTERS)
async def refund_job(context: ServerContext, by: User, request: w.JobIdRequest) -> RefundAnswer:
    """Ask the bank to refund all that a job was charged."""
    job = context.lookups.job(request.job)
    charges = {run: amount for run, amount in _charges(_noted(context, job)).items() if amount}
    await context.ask(
        RefundRuns(by=by, job=job.record.id, owner=job.record.owner, runs=tuple(sorted(charges)))
    )
    return RefundAnswer(job.record.id, sum(charges.values()) / MILLION)


def bank_sentence(event: BankNoted) -> str:
    """Return what was done at the bank, in words.

    >>> bank_sentence(BankNoted(at=0.0, job=5, run=1, step="charged", amount=12_500_000))
    'Charged 12.5 by the bank'
    """
    amount = f"{event.amount / MILLION:.15g}"
    return {
        "asked": "The bank is asked for a reservation",
        "reserved": f"The bank reserved {amount}",
        "released": "The bank released the reservation",
        "charged": f"Charged {amount} by the bank",
        "refund": f"Refund requested by {event.by}",
        "refunded": f"Refunded {amount} by the bank",
    }[event.step]
