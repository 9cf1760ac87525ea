"""What the audit log says of a request: who asked, from where, for what, about what, and what came of it."""

from datetime import UTC, datetime
from typing import Any

from headnode.core.model.quantities import Instant
from headnode.core.model.user import User

_ABOUT = ("job", "task", "instance", "group", "node", "nodes", "name", "owner", "token", "template")
"""The fields of requests that say what they are about; no name of what is said of the one who asks.

What jobs run is not written down.
"""
DONE = "done"


def entry(
    now: Instant, user: User | None, origin: str, verb: str, fields: dict[str, Any], outcome: str
) -> dict[str, Any]:
    """Return the line of a request; `user` None: nobody who is known."""
    said: dict[str, Any] = {
        "when": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        "user": user.name if user is not None else "",
        "uid": user.uid if user is not None else None,
        "from": origin,
        "verb": verb,
    }
    said |= {name: fields[name] for name in _ABOUT if _is_plain(fields.get(name))}
    if isinstance(values := fields.get("values"), dict):
        some = list(values.items())[:_MOST]
        said["parameters"] = {
            str(name)[:_MOST]: value for name, value in some if value is None or _is_plain(value)
        }
    terms = fields.get("terms")
    for whom in (fields.get("user"), terms.get("user") if isinstance(terms, dict) else None):
        if _is_plain(whom):  # `user` is who asks, and nobody else
            said.setdefault("owner", whom)
    return said | {"outcome": outcome}


def about_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer tells of the thing that was made or changed."""
    return {name: answer[name] for name in ("job", "jobs", "owner", "token") if _is_plain(answer.get(name))}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return len(value) <= _MOST and all(isinstance(each, int) or _is_short(each) for each in value)
    return isinstance(value, int) or _is_short(value)


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST


_MOST = 1000  # characters, or things, that a line says of a field
