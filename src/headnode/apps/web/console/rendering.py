"""Templates, and a page as HTML or as the data that it shows."""

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from headnode.apps.readable_values import (
    duration,
    instant_short,
    memory,
    short_duration,
    size_of_bytes,
    time_limit,
)
from headnode.apps.web.console import wording
from headnode.apps.web.console.job_rows import USUAL, columns_named, symbol_of, task_actions
from headnode.apps.web.console.visit import Model, Visit
from headnode.apps.web.security_headers import policy_with_nonce

HERE = Path(__file__).parent
STATIC = HERE / "static"
STATIC_ADDRESS = "/static/console"

_FILTERS = {
    "as_json": lambda value: msgspec.json.encode(value).decode(),
    "count": wording.count,
    "duration": duration,
    "instant_exact": wording.instant_exact,
    "instant_short": instant_short,
    "iso": wording.iso,
    "memory": memory,
    "relative": wording.relative,
    "short_duration": short_duration,
    "shown": wording.shown,
    "shown_lines": wording.shown_lines,
    "size_of_bytes": size_of_bytes,
    "symbol": symbol_of,
    "time_limit": time_limit,
    "with_times": wording.with_times,
}


@cache
def templates() -> Environment:
    """Return the templates of the console.  Every value is escaped; an unknown one is an error."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(_FILTERS)
    environment.globals["asset"] = asset
    environment.globals["task_actions"] = task_actions
    environment.globals["usual_columns"] = columns_named(USUAL)
    return environment


@cache
def asset(name: str) -> str:
    """Return the address of a static file; it changes with the file, so that browsers keep it for ever."""
    digest = blake2b((STATIC / name).read_bytes(), digest_size=6).hexdigest()
    return f"{STATIC_ADDRESS}/{name}?v={digest}"


def render(visit: Visit, template: str, model: Model, status: int = 200) -> Response:
    """Return a page, or its data when the address asks for that."""
    if visit.wants_json:
        return Response(msgspec.json.encode(model), status, media_type="application/json")
    found = templates().get_template(template)
    title = str(model.get("title", "Headnode"))
    headers = {"content-security-policy": policy_with_nonce(visit.nonce)} if visit.nonce else None
    return HTMLResponse(found.render(visit=visit, page=model, title=title, now=visit.now), status, headers)


def plain_text(data: bytes, name: str, headers: Mapping[str, Any] | None = None) -> Response:
    """Return bytes of others as a download that no browser interprets."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
    protection = {
        "Content-Disposition": f'attachment; filename="{safe}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type="text/plain; charset=utf-8", headers={**protection, **(headers or {})})
