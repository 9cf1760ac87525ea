"""What people asked to be told: that their job has started, or is over.

Source: HPC Pack, NotifyOnStart, NotifyOnCompletion and EmailAddress of jobs; SSS 3.1.0, "NotificationList".
"""

import re
from collections.abc import Collection
from typing import Literal

import msgspec
from msgspec.structs import replace

from headnode.core.lifecycle.events import Event, JobEnded, JobStarted
from headnode.core.lifecycle.hook_addresses import is_allowed
from headnode.core.lifecycle.records import JobRecord, Run
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId

Kind = Literal["started", "ended"]
_MAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_MAY_ASK = b"notify_on_"  # how the names of both wishes begin, in an encoded description


class Notice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to be told.  `number` is that of the event; times are seconds since 1970."""

    number: int
    kind: Kind
    cluster: str
    job: JobId
    owner: str
    name: str
    project: str
    state: str  # running, finished, failed or canceled
    at: Instant
    submitted: Instant | None = None
    started: Instant | None = None
    nodes: tuple[str, ...] = ()
    processors: int = 0
    exit_code: int | None = None
    message: str = ""


def may_ask(spec: bytes) -> bool:
    """Return whether an encoded description may ask for a notice; looking closer costs more."""
    return _MAY_ASK in spec


def notice_of(number: int, event: Event, record: JobRecord, spec: JobSpec, cluster: str) -> Notice | None:
    """Return what is to be told of an event of this job; None when nobody asked for it."""
    about = Notice(
        number=number,
        kind="started",
        cluster=cluster,
        job=record.id,
        owner=record.owner,
        name=spec.name,
        project=spec.project,
        state="running",
        at=event.at,
        submitted=record.submitted,
        started=event.at,
    )
    match event:
        case JobStarted(allocation=place) if spec.notify_on_start:
            held = sum(len(numbers) for _, numbers in place)
            return replace(about, nodes=tuple(node for node, _ in place), processors=held)
        case JobEnded(outcome=outcome, message=message) if spec.notify_on_completion:
            return _with_usage(replace(about, kind="ended", state=outcome, message=message), record.run)
        case _:
            return None


def _with_usage(notice: Notice, run: Run | None) -> Notice:
    if run is None:
        return replace(notice, started=None)
    return replace(
        notice,
        started=run.started,
        nodes=run.usage.nodes,
        processors=run.usage.processors,
        exit_code=run.usage.exit_code,
    )


def addresses(email: str) -> tuple[str, ...]:
    """Return where a job's notices go: addresses of mail and of the web, between commas."""
    return tuple(filter(None, (piece.strip() for piece in re.split(r"[,;]", email))))


def is_mail(address: str) -> bool:
    """Return whether it is an address of mail."""
    return _MAIL.fullmatch(address) is not None


def is_hook(address: str, allowed: Collection[str]) -> bool:
    """Return whether it is an address of the web that is allowed, or below one."""
    return is_allowed(address, allowed)
