"""The fields of a verb in an HTTP request: from its path, its query and its body, as the route says.

A larger `limit` than a page of the head is refused; the head itself answers it with a page of that length.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request

from headnode.apps.web.problems import wrong
from headnode.core.formats.text.encodings import text_of_job_file
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.bounds import (
    AUDIT_PAGE,
    EVENT_PAGE,
    HISTORY_PAGE,
    OWNER_PAGE,
    PAGE,
    PAST_PAGE,
    TASK_PAGE,
    UNREADABLE,
    Bound,
)
from headnode.core.model.errors import BadRequest
from headnode.protocol.requests import VerbRequest
from headnode.protocol.rest_route import RestBody, RestRoute

LIST_PAGES: Final[Mapping[str, Bound]] = {
    "jobs": PAGE,
    "job_efficiency": PAGE,
    "queue": PAGE,
    "site_jobs": PAGE,
    "ended_jobs": PAST_PAGE,
    "parameter_history": PAST_PAGE,
    "tasks": TASK_PAGE,
    "limits": OWNER_PAGE,
    "shares": OWNER_PAGE,
    "priorities": PAST_PAGE,
    "events": EVENT_PAGE,
    "watch_events": EVENT_PAGE,
    "job_states": EVENT_PAGE,
    "job_history": HISTORY_PAGE,
    "node_history": HISTORY_PAGE,
    "audit_log": AUDIT_PAGE,
}


JSON: Final = "application/json"
JOB_FILE_TYPES: Final = (
    "text/plain",
    "application/xml",
    "text/xml",
    "application/toml",
    "application/vnd.headnode.job+json",
)
"""The media types of job files; the job language is recognized by the content."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
Fields = dict[str, Any]

_FURTHER: Final = {
    "jobs": "for the next page, send `more` of the answer as `before`",
    "tasks": "for the next page, send `more` of the answer as `after`",
    "ended_jobs": "for the next page, send `more` of the answer as `after`",
    "events": "for those that follow, send `after` of the answer",
    "job_states": "for those that follow, send `after` of the answer",
}
"""How the rest of a list is read."""


def fields_of(route: RestRoute, request: Request, body: bytes) -> Fields:
    """Return the fields of the verb.  Values of a JSON body stay as they were sent.

    Raises:  BadRequest ``field``, ``request``, ``no-media-type``, ``job-file``.
    """
    fields: Fields = dict(route.fields)
    fields |= _typed(route.request, {name: [text] for name, text in request.path_params.items()})
    query: dict[str, list[str]] = {}
    for name, text in request.query_params.multi_items():
        query.setdefault(name, []).append(text)
    _refuse_limit(route, query)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_text = route.body in (RestBody.JOB_FILE, RestBody.TEXT) and media_type not in (JSON, "")
    if route.body is RestBody.QUERY or is_text:
        _add(fields, _typed(route.request, query), "the query")
    elif query:
        raise wrong("field", f"{route.method} {route.path} takes no query", "send the fields as JSON")
    if is_text:
        _add(fields, _text(route, media_type, body), "the body")
    elif route.body is not RestBody.QUERY:
        _add(fields, _object(media_type, body), "the body")
    return fields


def _refuse_limit(route: RestRoute, query: Mapping[str, list[str]]) -> None:
    """Refuse a number of entries that an answer with a list cannot have.

    Raises:  BadRequest ``field``.
    """
    most = LIST_PAGES.get(route.verb)
    if most is None or "limit" not in query:
        return
    text = ", ".join(query["limit"])
    if not (text.isascii() and text.isdigit() and len(text) < 16 and 1 <= int(text) <= most.most):
        raise wrong(
            "field",
            f"limit is {text[:64]!r}, and must be from 1 to {most}",
            f"write a whole number from 1 to {most.most}; {_FURTHER.get(route.verb, 'narrow the question')}",
            ("limit",),
        )


def _text(route: RestRoute, media_type: str, body: bytes) -> Fields:
    """Return a body that is a file."""
    if media_type not in JOB_FILE_TYPES:
        raise wrong(
            "no-media-type",
            f"bodies of type {media_type[:60]!r} are not read here",
            f"send one of: {', '.join((JSON, *JOB_FILE_TYPES))}",
        )
    name = "jobfile" if route.body is RestBody.JOB_FILE else "text"
    return {name: text_of_job_file(body, "the body")}


def _object(media_type: str, body: bytes) -> Fields:
    """Return a body that is a JSON object; an empty one has no fields."""
    if not body.strip():
        return {}
    if media_type != JSON:
        raise wrong(
            "no-media-type", f"the body is of type {media_type[:60]!r}", f"send JSON: Content-Type: {JSON}"
        )
    try:
        return dict(_OBJECT.decode(body))
    except UNREADABLE as error:
        raise wrong("request", f"the body is not a JSON object: {error}") from None


def _add(fields: Fields, more: Mapping[str, Any], where: str) -> None:
    """Add fields that are not there yet.

    Raises:  BadRequest ``field``.
    """
    for name, value in more.items():
        if name in fields or name in ("verb", "idempotency"):
            raise wrong(
                "field",
                f"{where} must not have {name[:64]!r}",
                "the path, or the header, has it already",
                (name,),
            )
        fields[name] = value


def _typed(request: type[VerbRequest], texts: Mapping[str, list[str]]) -> Fields:
    """Return fields that were given as texts in their types; `terms.runtime=1:00` is a part of one.

    Raises:  BadRequest ``field``.
    """
    types = {field.name: field.type for field in msgspec.structs.fields(request)}
    read: Fields = {}
    for key, values in texts.items():
        name, dot, part = key.partition(".")
        if name not in types:
            raise _unknown(key, types)
        if dot:
            read.setdefault(name, {})[part] = values[-1]
        else:
            read[name] = _value(name, types[name], values)
    return read


def _value(name: str, kind: Any, texts: list[str]) -> Any:
    """Return a value in its type: one, or a list that is written between commas or parameter by parameter.

    Raises:  BadRequest ``field``.
    """
    parts = [part for text in texts for part in text.split(",") if part]
    trouble: msgspec.ValidationError | None = None
    for candidate in (texts[0] if len(texts) == 1 else parts, parts):
        try:
            return msgspec.convert(candidate, kind, strict=False)
        except msgspec.ValidationError as error:
            trouble = trouble or error
    if trouble is not None and "Expected `int" in str(trouble) and not _WHOLE.fullmatch(texts[0]):
        raise wrong(
            "field",
            f"{name} is {texts[0][:64]!r}, which is not a whole number",
            "write only digits",
            path=(name,),
        )
    raise wrong("field", f"{name} is wrong: {trouble}", path=(name,))


def _unknown(name: str, known: Iterable[str]) -> BadRequest:
    names = list(known)
    meant = nearest_name(name, names)
    return wrong(
        "field",
        f"there is no parameter {name[:64]!r}",
        f"did you mean {meant!r}?" if meant else f"choose from: {', '.join(names) or 'none'}",
    )
