"""Errors as HTTP answers: problem details with the code, the sentence and the way out of the error.

Source:  RFC 9457; docs/contracts/05-rest-api.md, "Errors".
"""

import http
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headnode.core.model.errors import (
    BadRequest,
    ErrorClass,
    HeadnodeError,
    NotAllowed,
    Path,
    Unavailable,
)

MEDIA_TYPE: Final = "application/problem+json"
PROBLEM_PAGE: Final = "/api/v1/docs#"
RETRY_AFTER: Final = 2  # seconds


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename={"error_class": "class"}):
    """An error, as the body of an answer.  RFC 9457, with the fields of the local protocol."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    error_class: str
    path: list[str | int]
    what: str
    fix: str


_STATUS: Final = {
    ErrorClass.BAD_INPUT: 400,
    ErrorClass.NOT_ALLOWED: 403,
    ErrorClass.NOT_FOUND: 404,
    ErrorClass.CONFLICT: 409,
    ErrorClass.BUSY: 503,
    ErrorClass.FAULT: 500,
}
_STATUS_OF_CODE: Final = {
    "idempotency-conflict": 409,
    "not-logged-in": 401,
    "token": 401,
    "no-path": 404,
    "no-method": 405,
    "no-media-type": 415,
    "too-large": 413,
    "too-slow": 408,
    "long-header": 431,
    "long-address": 414,
    "changed": 412,
    "events-gone": 410,
    "bad-range": 416,
    "wrong-host": 421,
    "too-many-log-ins": 429,
}
"""The codes whose HTTP status is another than that of their class."""


def status_of(error: HeadnodeError) -> int:
    """Return the HTTP status of an error."""
    return _STATUS_OF_CODE.get(error.code, _STATUS[error.error_class])


def problem_of(error: HeadnodeError) -> Problem:
    """Return an error as problem details."""
    status = status_of(error)
    kind = error.error_class.value
    return Problem(
        type=f"{PROBLEM_PAGE}{kind}",
        title=http.HTTPStatus(status).phrase,
        status=status,
        detail=f"{error.what}; {error.fix}" if error.fix else error.what,
        code=error.code,
        error_class=kind,
        path=list(error.path),
        what=error.what,
        fix=error.fix,
    )


def problem_response(error: HeadnodeError) -> Response:
    """Return the answer that an error is."""
    status = status_of(error)
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["retry-after"] = str(RETRY_AFTER)
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="headnode"'
    body = msgspec.json.encode(problem_of(error))
    return Response(body, status, headers, media_type=MEDIA_TYPE)


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def answering(handler: Handler) -> Handler:
    """Return a handler whose errors are answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except HeadnodeError as error:
            return problem_response(error)

    return handle


def not_logged_in() -> NotAllowed:
    """Return the refusal of a request without a user."""
    return NotAllowed(
        code="not-logged-in",
        what="the request names no user",
        fix="log in, or send a token: Authorization: Bearer TOKEN",
    )


def cross_site() -> NotAllowed:
    """Return the refusal of a change that another site has asked for."""
    return NotAllowed(
        code="cross-site",
        what="the request does not come from a page of this console",
        fix="send the header X-CSRF-Token, or use a token: Authorization: Bearer TOKEN",
    )


def wrong(code: str, what: str, fix: str = "", path: Path = ()) -> BadRequest:
    """Return the refusal of a wrong request."""
    return BadRequest(code=code, what=what, fix=fix, path=path)


def too_slow(seconds: float) -> Unavailable:
    """Return the refusal of a request whose body does not come."""
    return Unavailable(
        code="too-slow", what=f"the body did not arrive within {seconds:.0f} seconds", fix="send it again"
    )
