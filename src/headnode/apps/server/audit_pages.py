"""Reads the audit log from its end: what was written last comes first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from headnode.core.model.errors import NotFound, Unavailable

PIECE = 1 << 16  # bytes
LONGEST_PAGE = 10_000  # lines


def lines_from_end(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, the last one first.

    Raises:  OSError.
    """
    with path.open("rb") as file:
        at, rest = file.seek(0, 2), b""
        while at:
            step = min(PIECE, at)
            at -= step
            file.seek(at)
            parts = (file.read(step) + rest).split(b"\n")
            rest = parts[0]
            yield from (line for line in reversed(parts[1:]) if line)
        if rest:
            yield rest


def page(
    path: Path, *, job: int | None = None, user: str = "", since: str = "", limit: int = 1000
) -> list[dict[str, Any]]:
    """Return the newest entries about a job, of a user, from an instant (ISO, UTC) on; the oldest first.

    Raises:  NotFound ``no-audit``; Unavailable ``audit``.
    """
    found: list[dict[str, Any]] = []
    try:
        for line in lines_from_end(path):
            entry = _read(line)
            if entry is None:
                continue
            if since and str(entry.get("when", "")) < since:
                break
            if _is_wanted(entry, job, user):
                found.append(entry)
                if len(found) >= min(max(1, limit), LONGEST_PAGE):
                    break
    except FileNotFoundError:
        raise NotFound(
            code="no-audit", what=f"the audit log {str(path)!r} is empty or does not exist"
        ) from None
    except OSError as error:
        raise Unavailable(
            code="audit", what=f"the audit log {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    return found[::-1]


def _read(line: bytes) -> dict[str, Any] | None:
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
