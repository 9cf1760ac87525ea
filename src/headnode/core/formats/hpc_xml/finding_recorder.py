"""Record what a reader finds, with its position, and refuse what is wrong."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NoReturn

from lxml import etree

from headnode.core.formats.fidelity import MAX_ERRORS, CountedItems, Fidelity, FileErrors, ReportItem
from headnode.core.formats.text.xml_text import XmlDocument, local_name
from headnode.core.model.errors import BadRequest


class FindingRecorder:
    """The report in the making.  `strict` checks the widths of the CCS table too."""

    def __init__(self, document: XmlDocument, *, strict: bool) -> None:
        self.strict = strict
        self._document = document
        self._found = CountedItems()
        self._lives: dict[str, Counter[str]] = {}  # attributes by the elements that have them
        self.spellings: set[str] = set()  # names of attributes met, in lower case
        self._violations: list[BadRequest] = []
        self._more_violations = 0

    def add(
        self, kind: Fidelity, where: str, what: str, element: etree._Element, attribute: str = ""
    ) -> None:
        """Add a finding at `element`, or at its `attribute`."""
        self._found.add(kind, lambda: self.item(kind, where, what, element, attribute))

    def add_made(self, kind: Fidelity, made: Callable[[], ReportItem]) -> None:
        """Add the finding that `made` makes with `item`; it is called only if the finding is listed."""
        self._found.add(kind, made)

    @property
    def is_full(self) -> bool:
        """Whether findings are only counted."""
        return self._found.is_full

    def count(self, kind: Fidelity, times: int = 1) -> None:
        """Count findings that are not listed, because there are too many: `is_full`."""
        self._found.count(kind, times)

    def add_once(
        self, kind: Fidelity, where: str, what: str, element: etree._Element, attribute: str = ""
    ) -> None:
        """Add a finding that may come many times: it is kept once, with the number of times."""
        self._found.add(kind, lambda: self.item(kind, where, what, element, attribute), (where, what))

    def live(self, element: etree._Element, attribute: str, name: str) -> None:
        """Add that an attribute is the scheduler's: exports have a dozen of them in every task."""
        kind = local_name(str(element.tag))
        names = self._lives.get(kind)
        if names is None:
            names = self._lives[kind] = Counter()
            made = partial(self.item, Fidelity.NOTE, kind, "", element, attribute)
            self._found.add(Fidelity.NOTE, made, _key_of_live(kind))
        names[name] += 1

    def item(
        self, kind: Fidelity, where: str, what: str, element: etree._Element, attribute: str
    ) -> ReportItem:
        """Return a finding with its place."""
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        return ReportItem(kind, where, what, place.line, place.column)

    def report(self) -> Sequence[ReportItem]:
        """Return all findings, in the order in which they were made."""
        for kind, names in self._lives.items():
            self._found.reword(_key_of_live(kind), _live_in_words(names))
        return self._found.report()

    def refuse(
        self, code: str, where: str, what: str, fix: str, element: etree._Element, attribute: str = ""
    ) -> NoReturn:
        """Refuse the file for what stands at `element`, or at its `attribute`.

        Raises:  BadRequest, always.
        """
        raise self._wrong(code, where, what, fix, element, attribute)

    def violate(
        self, code: str, where: str, what: str, fix: str, element: etree._Element, attribute: str = ""
    ) -> None:
        """Keep what `strict` forbids and reading does not need: all of it is told together."""
        if len(self._violations) < MAX_ERRORS:
            self._violations.append(self._wrong(code, where, what, fix, element, attribute))
        else:
            self._more_violations += 1

    def refuse_violations(self) -> None:
        """Refuse the file for everything that `strict` forbids.

        Raises:  BadRequest, `FileErrors` for more than one.
        """
        if len(self._violations) > 1:
            raise FileErrors(self._violations, self._more_violations)
        if self._violations:
            raise self._violations[0]

    def _wrong(
        self, code: str, where: str, what: str, fix: str, element: etree._Element, attribute: str
    ) -> BadRequest:
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        return BadRequest(code=code, what=f"{where}: {what}", fix=fix, place=place)


def _key_of_live(kind: str) -> Hashable:
    return ("attributes of the scheduler", kind, "")


def _live_in_words(names: Counter[str]) -> str:
    """Return the names of attributes that the scheduler writes, and how often they came."""
    what = f"attributes {', '.join(map(repr, names))} are written by the scheduler only: they are not read"
    if len(names) == 1:
        what = f"attribute {next(iter(names))!r} is written by the scheduler only: it is not read"
    times = max(names.values())
    return what + (f" ({times} times, here first)" if times > 1 else "")
