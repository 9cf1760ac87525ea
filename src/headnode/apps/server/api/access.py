"""The verbs about users: their role, tokens of clients on other machines; and the audit log.

Only the owner of a job and administrators see its environment and its scripts."""

import asyncio
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.identity.users import account
from headnode.adapters.nodes.entrance import digest_of
from headnode.apps.server.api.verbs import CREATES, READS, VerbAccess, VerbUsers, secret_again, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.model.bounds import AUDIT_PAGE
from headnode.core.model.errors import BadRequest, NotFound, Unavailable, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import User
from headnode.core.state import tokens as c
from headnode.core.state.node_record import TokenRecord
from headnode.core.state.permissions import (
    may_copy,
    may_see,
    must_administer,
    private_parts,
    without_private_parts,
)
from headnode.core.state.tokens import LOGIN_LIFETIME
from headnode.protocol import requests as w
from headnode.protocol.user_answers import (
    AuditAnswer,
    LoginAnswer,
    NewTokenRequest,
    RequestingUser,
    RevokedToken,
    TokenObject,
    TokensAnswer,
)

_AUDITED_FIELDS = (
    "job", "task", "instance", "group", "node", "nodes", "name", "owner", "token", "template", "recurring",
    "schedule",
)  # fmt: skip
"""The fields of requests that say what they are about; not what a request says about the requesting user.

What jobs run is not written down.
"""
DONE = "done"


def audit_entry(
    now: Instant, user: User | None, origin: str, verb: str, about: dict[str, Any], outcome: str
) -> dict[str, Any]:
    """Return the audit line of a request; `user` is None if the user is unknown.

    about:  `audited_fields` of the request, and `audited_answer` of its answer
    """
    entry: dict[str, Any] = {
        "when": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        "user": user.name if user is not None else "",
        "uid": user.uid if user is not None else None,
        "from": origin,
        "verb": verb,
    }
    return entry | about | {"outcome": outcome}


def audited_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the small part of a request that the audit log keeps: what the request is about."""
    audited = {name: fields[name] for name in _AUDITED_FIELDS if name in fields and _is_plain(fields[name])}
    if isinstance(values := fields.get("values"), dict):
        some = list(values.items())[:_MAX_VALUE]
        audited["parameters"] = {
            str(name)[:_MAX_VALUE]: value for name, value in some if value is None or _is_plain(value)
        }
    terms = fields.get("terms")
    for whom in (fields.get("user"), terms.get("user") if isinstance(terms, dict) else None):
        if whom is not None and _is_plain(whom):  # `user` is always the requesting user
            audited.setdefault("owner", whom)
    return audited


def audited_answer(answer: object) -> dict[str, Any]:
    """Return what an answer tells of the thing that was made or changed."""
    found = ((name, getattr(answer, name, None)) for name in ("job", "jobs", "owner", "token"))
    audited: dict[str, Any] = {name: value for name, value in found if _is_plain(value)}
    if hasattr(answer, "submissions"):
        audited |= _audited_refusals(answer)
    return audited


def _audited_refusals(answer: object) -> dict[str, Any]:
    """Return which of several submissions were refused."""
    from headnode.protocol.job_answers import SubmitJobsAnswer  # few clients submit several in one request

    submissions = answer.submissions if isinstance(answer, SubmitJobsAnswer) else ()
    refused = [f"{number}: {each.refused.code}" for number, each in enumerate(submissions) if each.refused]
    return {"refused": refused} if refused and _is_plain(refused) else {}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return len(value) <= _MAX_VALUE and all(isinstance(each, int) or _is_short(each) for each in value)
    return isinstance(value, int) or _is_short(value)


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_VALUE


_MAX_VALUE = 1000  # characters, or things, that a line says of a field


AUDIT_BLOCK = 1 << 16  # bytes


def lines_from_end(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, the last one first.

    Raises:  OSError.
    """
    with path.open("rb") as file:
        at, rest = file.seek(0, 2), b""
        while at:
            step = min(AUDIT_BLOCK, at)
            at -= step
            file.seek(at)
            parts = (file.read(step) + rest).split(b"\n")
            rest = parts[0]
            yield from (line for line in reversed(parts[1:]) if line)
        if rest:
            yield rest


def audit_page(
    path: Path, *, job: int | None = None, user: str = "", since: str = "", limit: int = 1000
) -> list[dict[str, Any]]:
    """Return the newest entries about a job, of a user, from an instant (ISO, UTC) on; the oldest first.

    Raises:  NotFound ``no-audit``; Unavailable ``audit``.
    """
    entries: list[dict[str, Any]] = []
    try:
        for line in lines_from_end(path):
            entry = _decoded_entry(line)
            if entry is None:
                continue
            if since and str(entry.get("when", "")) < since:
                break
            if _is_wanted(entry, job, user):
                entries.append(entry)
                if len(entries) >= min(max(1, limit), AUDIT_PAGE.most):
                    break
    except FileNotFoundError:
        raise NotFound(
            code="no-audit",
            what=f"the audit log {str(path)!r} is empty or does not exist",
            fix="if it was moved away, read the moved file; the next change begins a new one",
        ) from None
    except OSError as error:
        raise Unavailable(
            code="audit",
            what=f"the audit log {str(path)!r} cannot be read: {error.strerror}",
            fix="make it readable for the user of the head",
        ) from None
    return entries[::-1]


def _decoded_entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line says; None for half a line, which a lost disk may leave."""
    try:
        entry = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def _is_wanted(entry: dict[str, Any], job: int | None, user: str) -> bool:
    if user and user not in (entry.get("user"), entry.get("owner")):
        return False
    if job is None:
        return True
    jobs = entry.get("jobs") or ()
    return entry.get("job") == job or job in jobs


@verb(READS)
async def whoami(context: ServerContext, by: User, request: w.VerbRequest) -> RequestingUser:  # noqa: ARG001
    """Show the requesting user as the head knows it."""
    return RequestingUser(by.name, by.uid, by.role.value, context.name)


@verb(VerbAccess(VerbUsers.EVERYBODY, changes=True, near=True, by_session=True), again=secret_again)
async def create_token(context: ServerContext, by: User, request: NewTokenRequest) -> LoginAnswer:
    """Offer a login: a client of another machine exchanges it once for a token."""
    if context.network is None and not request.web:
        raise WrongState(
            code="not-listening",
            what="the head does not listen for other machines",
            fix="an administrator can start it again with: hn down; hn up --listen HOST",
        )
    user = by.name
    if request.user and request.user != by.name:
        must_administer(by, f"make a token for {request.user!r}")
        user = account(request.user).name
    secret = secrets.token_urlsafe(18)
    lifetime = Seconds(request.lifetime)
    if not request.name.isprintable():
        raise BadRequest(
            code="name",
            what="the name of the token is not printable text",
            fix="write letters, digits and punctuation",
            path=("name",),
        )
    offer = c.OfferLogin(
        by=by,
        digest=digest_of(secret),
        user=user,
        lifetime=lifetime,
        name=request.name,
        role=request.role,
    )
    await context.ask(offer)
    offered = secret if context.network is None or request.web else context.network.offer(secret)
    expires = Instant(context.now() + LOGIN_LIFETIME)
    return LoginAnswer(offered, user, expires, request.lifetime)


@verb(READS)
async def tokens(context: ServerContext, by: User, request: w.ListTokensRequest) -> TokensAnswer:
    """Show the requesting user's tokens; to administrators also those of other users."""
    user = by.name if request.user is None else request.user
    if user != by.name:
        must_administer(by, "see the tokens of others")
    listed = [
        token
        for token in context.cluster.tokens.values()
        if token.expires > context.now() and (user == "*" or token.user == user)
    ]
    return TokensAnswer([_token_object(token) for token in sorted(listed, key=lambda token: token.number)])


def _token_object(token: TokenRecord) -> TokenObject:
    return TokenObject(
        token.number,
        token.user,
        token.created,
        token.expires,
        token.last_used,
        token.address,
        token.name,
        token.role,
    )


@verb(CREATES)
async def revoke_token(context: ServerContext, by: User, request: w.RevokeTokenRequest) -> RevokedToken:
    """Revoke a token."""
    await context.ask(c.RevokeToken(by=by, token=request.token))
    return RevokedToken(request.token)


@verb(VerbAccess(VerbUsers.ADMINISTRATOR))
async def audit_log(context: ServerContext, by: User, request: w.AuditLogRequest) -> AuditAnswer:
    """Show the newest lines of the audit log."""
    must_administer(by, "read the audit log")
    since = (
        datetime.fromtimestamp(request.since, UTC).isoformat(timespec="milliseconds") if request.since else ""
    )
    path = context.state / "audit.log"
    page = await asyncio.to_thread(
        audit_page, path, job=request.job, user=request.user, since=since, limit=request.limit
    )
    return AuditAnswer(page)


def seen_by(context: ServerContext, by: User, job: FoundJob) -> tuple[JobSpec, FidelityReport]:
    """Return the part of a job that `by` may see, and what was left out."""
    return _parts_of(job, whole=may_see_private(context, by, job))


def copied_by(context: ServerContext, by: User, job: FoundJob) -> tuple[JobSpec, FidelityReport]:
    """Return the part of a job that `by` may copy, and what was left out."""
    return _parts_of(job, whole=may_copy(by, job.record, private=_are_private(context)))


def may_see_private(context: ServerContext, by: User, job: FoundJob) -> bool:
    """Whether `by` may see all of a job, and so the file that it was read from."""
    return may_see(by, job.record, private=_are_private(context))


def _parts_of(job: FoundJob, *, whole: bool) -> tuple[JobSpec, FidelityReport]:
    if whole or not (parts := private_parts(job.spec)):
        return job.spec, ()
    private = f"of job {job.record.id} is private to {job.record.owner!r}, and was left out"
    left_out = [ReportItem(Fidelity.NOT_SUPPORTED, part, f"the {part} {private}") for part in parts]
    return without_private_parts(job.spec), tuple(left_out)


def hides_environment(left_out: FidelityReport) -> bool:
    """Whether the environment is among what was left out."""
    return any(item.where == "environment" for item in left_out)


def _are_private(context: ServerContext) -> bool:
    return context.engine.settings.text("PrivateEnvironments") == "yes"
