"""The verbs about delegations: credentials for storage that the head keeps for jobs of their user."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headnode.adapters.identity.delegations import Delegation, DelegationStore, proxy_end
from headnode.apps.server.api.verbs import CREATES, READS, VerbAccess, VerbUsers, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Unavailable
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEnded
from headnode.protocol.requests import VerbRequest
from headnode.protocol.user_answers import (
    DelegatedCredential,
    DelegationNameRequest,
    DelegationObject,
    DelegationsAnswer,
    KeepDelegationRequest,
)

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 60.0  # seconds
MAX_TOKEN = 366 * 86400.0  # seconds


@verb(CREATES)
async def keep_delegation(
    context: ServerContext, by: User, request: KeepDelegationRequest
) -> DelegationObject:
    """Keep a proxy or a token for storage, in place of one of the same name."""
    from headnode.core.model.staging import CREDENTIAL

    now = context.now()
    if not CREDENTIAL.fullmatch(request.name):
        raise BadRequest(
            code="name",
            what="the name of the delegation is not valid",
            fix="write the name of a file, without a path",
            path=("name",),
        )
    if bool(request.proxy) == bool(request.bearer):
        what, fix = "a delegation is a proxy or a token", "send one of them"
        raise BadRequest(code="delegation", what=what, fix=fix)
    _check_token(request)
    if request.job is not None:
        _refuse_other_job(context, by, request.job)
    expires = proxy_end(request.proxy) if request.proxy else now + min(request.lifetime, MAX_TOKEN)
    if expires <= now:
        raise BadRequest(code="expired", what="the delegation has expired", fix="make a new proxy or token")
    kept = Delegation(
        owner=by.name,
        name=request.name,
        expires=expires,
        proxy=request.proxy,
        token=request.bearer,
        hosts=tuple(host.lower() for host in request.hosts),
        job=request.job,
    )
    with _written(context):
        _store(context).keep(kept)
    await _copied(context)
    return _object(kept)


def _check_token(request: KeepDelegationRequest) -> None:
    if request.bearer and not (request.bearer.isascii() and request.bearer.isprintable()):
        what, fix = (
            "the token contains characters other than printable ASCII",
            "copy the token without line ends",
        )
        raise BadRequest(code="delegation", what=what, fix=fix, path=("bearer",))
    if request.bearer and not request.hosts:
        what, fix = "the token has no hosts", "name the hosts to which it may be sent"
        raise BadRequest(code="delegation", what=what, fix=fix, path=("hosts",))


def _refuse_other_job(context: ServerContext, by: User, job: int) -> None:
    record = context.lookups.record(job)
    if record is None or job not in context.cluster.jobs:
        raise NotFound(
            code="no-such-job", what=f"there is no job {job} that may still run", fix="see `hn job list`"
        )
    if record.owner != by.name:
        raise NotAllowed(
            code="not-owner", what=f"job {job} is a job of another user", fix="name a job of your own"
        )


@verb(READS)
async def delegations(context: ServerContext, by: User, request: VerbRequest) -> DelegationsAnswer:  # noqa: ARG001
    """Show the delegations of the requesting user, without their secrets."""
    with _usable():
        return DelegationsAnswer([_object(one) for one in _store(context).all_of(by.name, context.now())])


@verb(CREATES)
async def forget_delegation(
    context: ServerContext, by: User, request: DelegationNameRequest
) -> DelegationObject:
    """Forget a delegation; jobs that need it fail from then on."""
    with _written(context):
        delegation = _store(context).get(by.name, request.name, context.now())
        _store(context).forget(by.name, request.name)
    await _copied(context)
    return _object(delegation)


@verb(VerbAccess(VerbUsers.EVERYBODY, changes=True, near=True, by_task=True))
async def delegated_credential(
    context: ServerContext, by: User, request: DelegationNameRequest
) -> DelegatedCredential:
    """Show a delegation with its secret to a task of its user, or on the head's machine to the user."""
    with _usable():
        return DelegatedCredential(_store(context).get(by.name, request.name, context.now()).values)


async def _copied(context: ServerContext) -> None:
    """Wait for standby heads, as an event does."""
    if context.standbys is not None:
        await context.standbys.rows_copied()


def _store(context: ServerContext) -> DelegationStore:
    return DelegationStore(context.state, context.row_changes)


def _object(one: Delegation) -> DelegationObject:
    kind = "proxy" if one.proxy else "token"
    return DelegationObject(one.name, kind, [*one.hosts], one.expires, one.job)


@contextmanager
def _written(context: ServerContext) -> Iterator[None]:
    """Raises:  Unavailable as `_usable`, or ``handed-over``, ``isolated``: another head would not have it."""
    if context.standbys is not None:
        context.standbys.refuse_changes()
    with _usable():
        yield


@contextmanager
def _usable() -> Iterator[None]:
    """Raises:  Unavailable ``delegations`` when their file cannot be used."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        what = f"the delegations cannot be read or written: {error}"
        raise Unavailable(code="delegations", what=what, fix="see the disk of the head") from None


class DelegationCleaner:
    """Forgets delegations that have expired, or whose jobs are over."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._ended = asyncio.Event()

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Look soon when a job has ended."""
        if any(isinstance(event, JobEnded) for event in events):
            self._ended.set()

    async def keep(self) -> None:
        """Look for ever: after the end of jobs, and now and then."""
        store = _store(self._context)
        while True:
            self._ended.clear()
            self.look(store)
            try:
                async with asyncio.timeout(BETWEEN_LOOKS):
                    await self._ended.wait()
                await asyncio.sleep(1.0)  # many jobs end together
            except TimeoutError:
                continue

    def look(self, store: DelegationStore) -> None:
        """Forget what is not needed any more; a full disk may delay that."""
        try:
            over = [job for job in store.jobs() if job not in self._context.cluster.jobs]
            store.forget_old(self._context.now(), over)
        except (sqlite3.Error, OSError) as error:
            log.error("delegations that have expired are still there: %s", error)
