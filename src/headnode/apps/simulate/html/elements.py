"""Parts of a page.  Texts are escaped by lxml; what no page may contain is shown as a mark."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lxml.etree import _Element
from lxml.html.builder import E

Content = Any
"""A text, an element, or attributes."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    """Return a text without characters that a page may not contain."""
    return _FORBIDDEN.sub("\ufffd", text)


def section(name: str, title: str, *content: Content) -> _Element:
    """Return a part of the page that a link can name."""
    found: _Element = E.section(
        E.h2(title, id=f"{name}-title"), *content, {"id": name, "aria-labelledby": f"{name}-title"}
    )
    return found


def figure(name: str, label: str, height: int, caption: str) -> _Element:
    """Return the place of the chart of that name; `label` tells those who cannot see it what it shows."""
    found: _Element = E.figure(
        E.div(
            {
                "id": f"{name}-chart",
                "class": "chart",
                "role": "img",
                "aria-label": plain(label),
                "style": f"height:{height}px",
            }
        ),
        E.figcaption(plain(caption)),
    )
    return found


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> _Element:
    """Return a table whose first column names the rows; the others are numbers, set to the right."""
    head = E.tr(*(E.th(plain(text), scope="col") for text in heads))
    body = [E.tr(E.th(_cell(row[0]), scope="row"), *(E.td(_cell(cell)) for cell in row[1:])) for row in rows]
    found: _Element = E.div(
        E.table(E.caption(plain(title)), E.thead(head), E.tbody(*body)),
        {"class": "wide", "tabindex": "0", "role": "region", "aria-label": plain(title)},
    )
    return found


def _cell(content: Content) -> Content:
    return plain(content) if isinstance(content, str) else content


def folded(summary: str, *content: Content, opened: bool = False) -> _Element:
    """Return something that is shown on demand."""
    found: _Element = E.details(E.summary(plain(summary)), *content, {"open": ""} if opened else {})
    return found
