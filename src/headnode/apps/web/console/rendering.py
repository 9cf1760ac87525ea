"""Templates, a page as HTML or as the data that it shows, and how values are written on pages."""

import re
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from headnode.apps.cli.table import printable
from headnode.apps.readable_values import (
    duration,
    instant,
    instant_short,
    memory,
    short_duration,
    size_of_bytes,
    time_limit,
)
from headnode.apps.web.console.job_rows import USUAL, columns_named, symbol_of, task_actions
from headnode.apps.web.console.visit import Model, Visit
from headnode.apps.web.security_headers import policy_with_nonce

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")


def shown(text: object) -> str:
    """Return a text of others with control and direction characters spelt out; the template escapes it."""
    return printable(str(text))


def sentence(text: object) -> str:
    """Return an error or its fix as a sentence, with a capital letter and a full stop.

    >>> sentence("there is no node 'n9'"), sentence("`hn node list` lists them?")
    ("There is no node 'n9'.", '`hn node list` lists them?')
    """
    said = printable(str(text)).rstrip()
    return said[:1].upper() + said[1:] + ("." if said and said[-1] not in ".?!" else "")


def shown_lines(text: object) -> Markup:
    """Return a text of several lines, each as `shown` has it."""
    return Markup("\n").join(escape(printable(line)) for line in str(text).split("\n"))


def relative(at: float, now: float) -> str:
    """Return how far an instant is from now, such as ``in 4 min`` or ``3 h 10 min ago``."""
    if abs(at - now) < 1:
        return "now"
    span = duration(abs(float(int(at - now))))
    return f"in {span}" if at > now else f"{span} ago"


def instant_exact(at: float, now: float) -> str:
    """Return a point of time (seconds since 1970) as `instant_short` has it, with its seconds."""
    return f"{instant_short(at, now)}:{int(at) % 60:02}"


def with_times(text: object, now: float) -> Markup:
    """Return a text of lines as `shown_lines`, each instant in it as a time in the zone of the reader."""
    pieces, end = [], 0
    for match in _INSTANT.finditer(str(text)):
        try:
            at = datetime.fromisoformat(match[0]).astimezone(UTC).timestamp()
            times = instant(at), instant_short(at, now)
        except (ValueError, OverflowError):
            continue  # of a name that only looks like one
        pieces += [
            shown_lines(str(text)[end : match.start()]),
            Markup('<time datetime="{0}" title="{0}" data-clock>{1}</time>').format(*times),
        ]
        end = match.end()
    return Markup().join([*pieces, shown_lines(str(text)[end:])])


def count(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"


HERE = Path(__file__).parent
STATIC = HERE / "static"
STATIC_ADDRESS = "/static/console"

_FILTERS = {
    "as_json": lambda value: msgspec.json.encode(value).decode(),
    "count": count,
    "duration": duration,
    "instant_exact": instant_exact,
    "instant_short": instant_short,
    "iso": instant,
    "memory": memory,
    "relative": relative,
    "short_duration": short_duration,
    "shown": shown,
    "sentence": sentence,
    "shown_lines": shown_lines,
    "size_of_bytes": size_of_bytes,
    "symbol": symbol_of,
    "time_limit": time_limit,
    "with_times": with_times,
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
    page = templates().get_template(template)
    title = str(model.get("title", "Headnode"))
    headers = {"content-security-policy": policy_with_nonce(visit.nonce)} if visit.nonce else None
    return HTMLResponse(page.render(visit=visit, page=model, title=title, now=visit.now), status, headers)


def plain_text(data: bytes, name: str) -> Response:
    """Return bytes of others as a download that no browser interprets."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
    headers = {
        "Content-Disposition": f'attachment; filename="{safe}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type="text/plain; charset=utf-8", headers=headers)
