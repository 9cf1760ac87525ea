"""Requests that are carried out once: the second of the same key makes nothing.

The receipt is an event in the batch of what the request makes, so that both are durable, or neither.
Source: IETF draft "The Idempotency-Key HTTP Header Field": same key, other request is a conflict.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.receipt import Once, Receipt
from headnode.core.model.user import User

LIFETIME: Final = 86_400  # seconds, unless the parameter says otherwise
PARAMETER: Final = "IdempotencyLifetime"
REPEATED: Final = "idempotency-repeated"

MAKING: Mapping[str, tuple[type[c.Command], ...]] = MappingProxyType(
    {
        "create_job": (c.CreateJobs,),
        "submit_job": (c.CreateJobs, c.SubmitJob),
        "clone_job": (c.CreateJob,),
        "add_tasks": (c.ModifyJob,),
        "submit_group": (c.SubmitJobs,),
        "make_reservation": (c.MakeReservation,),
        "invite_node": (c.InviteNode,),
        "new_token": (c.OfferLogin,),
    }
)
"""The verbs that make something, and the commands by which they do."""


def receipt_of(cluster: Cluster, user: User, once: Once, now: Instant) -> Receipt | None:
    """Return the receipt of a request that was carried out before; None: it was not.

    Raises:  BadRequest ``idempotency-conflict`` when the key was used for another request.
    """
    found = cluster.receipts.get(user.uid, {}).get(once.key)
    if found is None or found.expires <= now:
        return None
    if (found.verb, found.digest) != (once.verb, once.digest):
        raise BadRequest(
            code="idempotency-conflict",
            what=f"the idempotency key {once.key!r} was used for another request",
            fix="use a new key for a new request; repeat a request without any change",
        )
    return found


def once_of(command: c.Command) -> tuple[User, Once] | None:
    """Return who asks and the key, if the command makes what a request with a key asks for."""
    by = getattr(command, "by", None)
    if not isinstance(by, User) or by.once is None:
        return None
    return (by, by.once) if isinstance(command, MAKING[by.once.verb]) else None


def refuse_repeated(cluster: Cluster, user: User, once: Once, now: Instant) -> None:
    """Refuse what was carried out before.

    Raises:  WrongState ``idempotency-repeated``; BadRequest ``idempotency-conflict``.
    """
    if receipt_of(cluster, user, once, now) is not None:
        raise WrongState(
            code=REPEATED, what=f"the request with key {once.key!r} has already been carried out"
        )


def receipt_event(
    cluster: Cluster, command: c.Command, made: list[e.Event], user: User, once: Once, now: Instant
) -> e.RequestCarriedOut:
    """Return the event that keeps what a command makes; `made` are its events, not applied yet."""
    jobs = tuple(event.job for event in made if isinstance(event, e.JobCreated))
    first = last = 0
    match command:
        case c.ModifyJob(job=job, spec=spec):
            jobs, last = (job,), len(spec.tasks)
            first = len(cluster.written(cluster.job(job)).tasks) + 1
        case c.SubmitJob(job=job):
            jobs = (job,)
        case c.SubmitJobs(jobs=several):
            jobs = tuple(several)
    expires = Instant(now + float(cluster.parameters.get(PARAMETER, LIFETIME)))
    receipt = Receipt(user.uid, once.key, once.digest, once.verb, expires, jobs, first, last)
    return e.RequestCarriedOut(at=now, receipt=receipt)
