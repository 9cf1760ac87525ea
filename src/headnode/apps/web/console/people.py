"""People: who the user is to the head, the roles, and the tokens; and the audit log of administrators."""

from datetime import datetime
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.web.console.site import ConsoleAction, ConsolePage, GoTo, numbers, texts
from headnode.apps.web.console.visit import Model, PageMessage, Visit
from headnode.core.model.errors import BadRequest, NotFound

AUDIT_SHOWN: Final = 200


async def show_people(visit: Visit) -> Model:
    """Return the user's role and tokens; to administrators the tokens of all, and the parameters of roles."""
    tokens = (await visit.ask("tokens", user="*" if visit.administers else None))["tokens"]
    roles = []
    if visit.administers:
        params = (await visit.ask("parameters"))["parameters"]
        roles = [each for each in params if each["name"] in ("Administrators", "Operators", "UserMapping")]
    return {"title": "People", "tokens": tokens, "roles": roles}


async def revoke_token(visit: Visit, form: FormData) -> GoTo:
    """Revoke a token."""
    chosen = numbers([texts(form, "token")])
    if not chosen:
        raise BadRequest(code="token", what="no token is named", fix="choose a token of the list")
    await visit.ask("revoke_token", token=chosen[0])
    return GoTo("/people", PageMessage(f"Token {chosen[0]} is revoked."))


async def show_audit(visit: Visit) -> Model:
    """Return the newest lines of the audit log that fit the address, newest first."""
    asked = {"user": visit.query.get("user", "").strip(), "job": visit.number("job"), "since": _since(visit)}
    try:
        entries = (await visit.ask("audit_log", **asked, limit=AUDIT_SHOWN))["entries"]
    except NotFound:
        entries = []
    return {
        "title": "Audit",
        "entries": [_entry(each) for each in entries[::-1]],
        "query": {name: visit.query.get(name, "") for name in ("user", "job", "since")},
        "cut": len(entries) >= AUDIT_SHOWN,
    }


def _since(visit: Visit) -> float | None:
    text = visit.query.get("since", "").strip()
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        raise BadRequest(code="time", what=f"{text!r} is no date", fix="write it as 2026-12-31") from None


def _entry(entry: dict[str, Any]) -> Model:
    """Return a line of the log: its main fields, and the rest as text."""
    known = ("when", "user", "uid", "from", "verb", "job", "outcome")
    rest = {
        key: value for key, value in entry.items() if key not in known and value not in (None, "", [], {})
    }
    return {
        "when": str(entry.get("when", "")),
        "user": str(entry.get("user", "")),
        "place": str(entry.get("from", "")),
        "what": str(entry.get("verb", "")).replace("_", " "),
        "job": entry.get("job") if isinstance(entry.get("job"), int) else None,
        "result": "" if entry.get("outcome") == "done" else str(entry.get("outcome", "")),
        "more": "; ".join(f"{key} {value}" for key, value in rest.items())[:500],
    }


PEOPLE_PAGES: Final = (
    ConsolePage("/people", "people.html", show_people),
    ConsolePage("/audit", "audit.html", show_audit),
)
PEOPLE_ACTIONS: Final = (ConsoleAction("/people/tokens/revoke", revoke_token),)
