"""People: the role of the user, all roles, and the tokens; and the audit log of administrators."""

from datetime import datetime
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.cli.screens.cluster import limit_row
from headnode.apps.web.console.settings import page_of_limits, page_of_shares
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    Model,
    PageMessage,
    Visit,
    numbers,
    texts,
    with_notes,
)
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound

AUDIT_SHOWN: Final = 200


ROLES: Final = {"Administrators": "administrator", "Operators": "operator"}
"""The parameter -> the role of the users and groups (with @) in it."""


async def show_people(visit: Visit) -> Model:
    """Return the user's role and tokens; for administrators all tokens, and the users of each role."""
    tokens = (await visit.ask("tokens", user="*" if visit.administers else None))["tokens"]
    people, mapping, limits = [], None, await page_of_limits(visit)
    if visit.administers:
        params = {each["name"]: each for each in (await visit.ask("parameters"))["parameters"]}
        mapping = params.get("UserMapping")
        people = [
            {"name": name, "role": role, "is_group": name.startswith("@")}
            for parameter, role in ROLES.items()
            for name in names_in(params[parameter]["value"])
        ]
    return {
        "title": "People",
        "limits": [limit_row(use) for use in limits["limits"]],
        "more_limits": limits["more"],
        "shares": await page_of_shares(visit),
        "tokens": tokens,
        "people": people,
        "mapping": mapping,
        "roles": list(ROLES.values()),
        "token_roles": TOKEN_ROLES,
        "made": None,
    }


def names_in(value: str) -> list[str]:
    """Return the users and groups of a parameter of roles."""
    return [name.strip() for name in value.split(",") if name.strip()]


async def change_role(visit: Visit, form: FormData) -> GoTo:
    """Give a user or group a role, or take the roles away: then it is a user as all others.

    Raises:  BadRequest ``name``; the refusal of the head.
    """
    name, role = texts(form, "name"), texts(form, "role")
    if not name or "," in name:
        raise BadRequest(code="name", what=f"{name!r} is not a user", fix="write one name, or @ and a group")
    async with visit.roles_turn:  # another form may change the same lists
        params = {each["name"]: each["value"] for each in (await visit.ask("parameters"))["parameters"]}
        values = {}
        for parameter, of_role in ROLES.items():
            before = names_in(params[parameter])
            after = [each for each in before if each != name] + [name] * (of_role == role)
            if sorted(after) != sorted(before):
                values[parameter] = ",".join(after) or None
        if not values:
            return GoTo("/people", PageMessage("Nothing was changed."))
        answer = await visit.ask("set_parameters", values=values)
    message = f"{name} is {role} now." if role in ROLES.values() else f"{name} has no role any more."
    return GoTo("/people", with_notes(message, answer))


async def revoke_token(visit: Visit, form: FormData) -> GoTo:
    """Revoke a token."""
    chosen = numbers([texts(form, "token")])
    if not chosen:
        raise BadRequest(code="token", what="no token is named", fix="choose a token of the list")
    await visit.ask("revoke_token", token=chosen[0])
    return GoTo("/people", PageMessage(f"Token {chosen[0]} is revoked."))


TOKEN_ROLES: Final = {
    "all": "everything that you may",
    "operator": "as an operator",
    "user": "as a user without a role",
    "reader": "only read",
}
FRESH: Final = 3600.0  # seconds after a log-in in which tokens are made: a stolen session gives none later


async def make_token(visit: Visit, form: FormData) -> FormAgain:
    """Make a token, and show it once.

    Raises:  BadRequest ``name``, ``days``; NotAllowed ``log-in-again``; the refusal of the head.
    """
    if not 0 <= visit.now - visit.began < FRESH:
        raise NotAllowed(
            code="log-in-again",
            what="you logged in more than an hour ago",
            fix="log out and in again, then make the token",
        )
    name, role, days = texts(form, "name"), texts(form, "role"), texts(form, "days")
    if role not in TOKEN_ROLES or not name:
        raise BadRequest(code="name", what="the token has no name or role", fix="say what it is for")
    if not numbers([days]):
        raise BadRequest(code="days", what=f"{days!r} is no number of days", fix="write it as 30")
    login = await visit.ask(
        "create_token", web=True, name=name, role=role, lifetime=numbers([days])[0] * 86400
    )
    made = await visit.redeem(login["login"])
    return FormAgain("people.html", await show_people(visit) | {"made": made["token"]}, 200)


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
        raise BadRequest(code="time", what=f"{text!r} is not a date", fix="write it as 2026-12-31") from None


def _moment(text: str) -> float | None:
    """Return the instant of a line of the log; None if its text is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _entry(entry: dict[str, Any]) -> Model:
    """Return a line of the log: its main fields, and the rest as text."""
    known = ("when", "user", "uid", "from", "verb", "job", "outcome")
    rest = {
        key: value for key, value in entry.items() if key not in known and value not in (None, "", [], {})
    }
    return {
        "when": str(entry.get("when", "")),
        "at": _moment(str(entry.get("when", ""))),
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
PEOPLE_ACTIONS: Final = (
    ConsoleAction("/people", make_token),
    ConsoleAction("/people/tokens/revoke", revoke_token),
    ConsoleAction("/people/roles", change_role),
)
