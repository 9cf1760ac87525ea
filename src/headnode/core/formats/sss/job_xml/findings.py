"""What a reader finds in a document, with its place and path, under the awareness policy of each element."""

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

from lxml import etree

from headnode.core.formats.compute_cluster_xml.document import Document, Place
from headnode.core.formats.fidelity import MOST_ITEMS, Awareness, Item, Kind, honour
from headnode.core.formats.nearest import nearest
from headnode.core.formats.repeated import Repeated
from headnode.core.formats.sss.job_xml.repairs import Mended
from headnode.core.model.errors import BadRequest

_NUMBERED = ("Job", "TaskGroup", "Task")
_MOST_HINTS = 200  # looking for the nearest name is slow


class Findings:
    """The report in the making; `mended` is what was done to the text before it was read."""

    def __init__(self, document: Document, mended: Mended | None) -> None:
        self._document, self._mended = document, mended
        self._found = Repeated(mended.report() if mended else ())
        self._rejected: list[Item] = []
        self._hints: dict[str, str] = {}
        self._numbers: dict[etree._Element, int] = {}

    def add(self, kind: Kind, element: etree._Element, what: str, attribute: str = "") -> None:
        """Add a finding; one that comes again in elements of the same name is only counted."""
        parent = element.getparent()
        key = (kind, str(parent.tag) if parent is not None else "", what)
        self._found.add(kind, lambda: self._item(kind, element, what, attribute), key)

    def unknown(self, policy: Awareness, element: etree._Element, what: str, attribute: str = "") -> None:
        """Add something that is not understood, or refuse it, or say nothing, as `policy` has it."""
        if policy is Awareness.WARN:
            self.add(Kind.NOT_SUPPORTED, element, what, attribute)
        elif policy is Awareness.REJECT and len(self._rejected) < MOST_ITEMS:
            self._rejected.append(self._item(Kind.NOT_SUPPORTED, element, what, attribute))

    def report(self) -> tuple[Item, ...]:
        """Return all findings in the order in which they were made.

        Raises:  BadRequest ``not-understood`` when something was to be rejected; it lists what.
        """
        honour(Awareness.REJECT, self._rejected)
        return self._found.report()

    def refuse(
        self, code: str, element: etree._Element, what: str, fix: str, attribute: str = ""
    ) -> NoReturn:
        """Refuse the document for what stands at `element`, or at its `attribute`.

        Raises:  BadRequest, always.
        """
        place = self.place(element, attribute)
        raise BadRequest(code=code, what=f"{place}: {self.path(element)}: {what}", fix=fix)

    def place(self, element: etree._Element, attribute: str = "") -> Place:
        """Return where it stands in the text as it came."""
        written = self._document.written(element, attribute) if attribute else ""
        place = self._document.place(element, written)
        return self._mended.original(place) if self._mended else place

    def path(self, element: etree._Element) -> str:
        """Return the names from the outermost element down to `element`, numbered from 1 where many stand."""
        if not self._numbers:
            self._number()
        steps = [element, *element.iterancestors()]
        return "/".join(self._step(step) for step in reversed(steps))

    def hint(self, name: str, names: Iterable[str]) -> str:
        """Return the question for the name that was probably meant; "" when none looks like it."""
        if name not in self._hints and len(self._hints) < _MOST_HINTS:
            meant = nearest(name, names)
            self._hints[name] = f"; did you mean {meant!r}?" if meant and meant != name else ""
        return self._hints.get(name, "")

    def _item(self, kind: Kind, element: etree._Element, what: str, attribute: str) -> Item:
        place = self.place(element, attribute)
        return Item(kind, self.path(element), what, place.line, place.column)

    def _step(self, element: etree._Element) -> str:
        name = local(element)
        number = self._numbers.get(element)
        return f"{name} {number}" if number else name

    def _number(self) -> None:
        """Number the elements that many of may stand in one parent, once for the whole document."""
        counts: Counter[tuple[etree._Element | None, str]] = Counter()
        root = self._document.root
        self._numbers[root] = 0  # there is only one
        for element in root.iterdescendants(*(f"{{*}}{name}" for name in _NUMBERED)):
            key = (element.getparent(), local(element))
            counts[key] += 1
            self._numbers[element] = counts[key]


def local(element: etree._Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
