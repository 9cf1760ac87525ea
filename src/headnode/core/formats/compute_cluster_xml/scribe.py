"""Writes down what a reader finds, with its place, and refuses what is wrong."""

from collections import Counter
from typing import NoReturn

from lxml import etree

from headnode.core.formats.compute_cluster_xml.document import Document
from headnode.core.formats.compute_cluster_xml.names import local_name
from headnode.core.formats.fidelity import MOST_ITEMS, Item, Kind, unlisted
from headnode.core.model.errors import BadRequest


class Scribe:
    """The report in the making.  `strict` checks the widths of the CCS table too."""

    def __init__(self, document: Document, *, strict: bool) -> None:
        self.strict = strict
        self._document = document
        self._items: list[Item] = []
        self._first: dict[tuple[str, str], int] = {}
        self._times: Counter[tuple[str, str]] = Counter()
        self._unlisted: Counter[Kind] = Counter()
        self._lives: dict[tuple[str, str], tuple[str, str]] = {}
        self.spellings: set[str] = set()  # names of attributes met, in lower case

    def add(self, kind: Kind, where: str, what: str, element: etree._Element, attribute: str = "") -> None:
        """Add a finding at `element`, or at its `attribute`."""
        if len(self._items) >= MOST_ITEMS:
            self._unlisted[kind] += 1
            return
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        self._items.append(Item(kind, where, what, place.line, place.column))

    def add_once(
        self, kind: Kind, where: str, what: str, element: etree._Element, attribute: str = ""
    ) -> None:
        """Add a finding that may come many times: it is kept once, with the number of times."""
        key = (where, what)
        if key in self._times:
            self._times[key] += 1
        elif len(self._items) >= MOST_ITEMS:
            self._unlisted[kind] += 1
        else:
            self._times[key] = 1
            self._first[key] = len(self._items)
            self.add(kind, where, what, element, attribute)

    def live(self, element: etree._Element, attribute: str, name: str) -> None:
        """Add that an attribute is the scheduler's: exports have many of them in every task."""
        known = self._lives.get((element.tag, attribute))
        if known is not None:
            self._times[known] += 1
            return
        kind = local_name(str(element.tag))
        what = f"attribute {name!r} is the scheduler's to write: it is not read"
        self._lives[element.tag, attribute] = (kind, what)
        self.add_once(Kind.NOTE, kind, what, element, attribute)

    def report(self) -> list[Item]:
        """Return all findings, in the order in which they were made."""
        items = list(self._items)
        for key, at in self._first.items():
            if self._times[key] > 1:
                first = items[at]
                what = f"{first.what} ({self._times[key]} times, here first)"
                items[at] = Item(first.kind, first.where, what, first.line, first.column)
        return [*items, *(unlisted(kind, number) for kind, number in self._unlisted.items())]

    def refuse(
        self, code: str, where: str, what: str, fix: str, element: etree._Element, attribute: str = ""
    ) -> NoReturn:
        """Refuse the file for what stands at `element`, or at its `attribute`.

        Raises:  BadRequest, always.
        """
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        raise BadRequest(code=code, what=f"{place}: {where}: {what}", fix=fix)
