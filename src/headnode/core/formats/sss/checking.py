"""What must hold between the elements of a document: ids, groups, dependencies, files."""

from collections.abc import Collection, Sequence
from typing import Any

from lxml import etree
from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.sss.element_reading import SssElementReader
from headnode.core.formats.sss.job_object import SssJob, SssPart, TaskGroup
from headnode.core.formats.sss.properties import Dependency, SssProperty
from headnode.core.formats.sss.property_rows import SssRow
from headnode.core.formats.sss.source_text import SssFindings, local
from headnode.core.model.value_checks import find_cycle

MAX_PARENTHESES = 100  # open at a time
Found = Sequence[tuple[etree._Element, Any]]


class DocumentChecks:
    """Checks one document."""

    def __init__(
        self, findings: SssFindings, elements: SssElementReader, root: etree._Element, *, lenient: bool
    ) -> None:
        self._findings, self._elements, self._root = findings, elements, root
        self._lenient = lenient
        self._given: set[str] = set()  # ids in the document, once they are needed
        self._last = 0

    def distinct(self, found: Found) -> None:
        """Refuse two parts with the same id, and a task group with more tasks than it counts."""
        ids: set[tuple[type[SssPart], str]] = set()
        for element, part in found:
            if not isinstance(part, SssPart):
                continue
            name = part.id
            if name and (type(part), name) in ids:
                what = f"two elements {local(element)} have the id {name!r}"
                self._findings.refuse("given-twice", element, what, "give each an id of its own")
            ids.add((type(part), name))
            if isinstance(part, TaskGroup) and part.tasks:
                self._task_count(element, part)

    def _task_count(self, element: etree._Element, part: TaskGroup) -> None:
        count = part.value("TaskCount")
        if isinstance(count, int) and len(part.tasks) > count:
            what = f"it holds {len(part.tasks)} tasks, and its TaskCount is {count}"
            self._findings.refuse("task-count", element, what, "correct one of them")

    def missing(self, element: etree._Element, row: SssRow) -> SssProperty:
        """Refuse a part without what it must have; leniently, number it."""
        if not self._lenient:
            self._findings.refuse("missing", element, f"it has no {row.name}", f"write {row.name} in it")
        if not self._given:
            texts = ((one.text or "").strip() for one in self._root.iter(etree.Element))
            self._given = {"", *texts}
        name = ""
        while name in self._given:
            self._last += 1
            name = f"{local(element).lower()}{self._last}"
        self._given.add(name)
        what = f"repaired: it has no {row.name}, and is called {name!r}"
        self._findings.add(Fidelity.APPROXIMATED, element, what)
        return SssProperty(name=row.name, value=name)

    def groups(self, element: etree._Element, found: Sequence[SssProperty]) -> tuple[SssProperty, ...]:
        """Return requested properties whose parentheses are in order.

        The published example opens with -1 and closes with 1: when that alone is wrong, the signs are
        turned.
        """
        signs = [one.group for one in found if one.group]
        if not signs or _in_order(signs):
            return tuple(found)
        if not _in_order([-sign for sign in signs]):
            what = "the parentheses that group opens and closes do not match, or are too many"
            fix = 'open with group="1" on the first property and close with group="-1" on the last'
            self._findings.refuse("groups", element, what, fix)
        what = "the signs of group are reversed: a positive number opens, a negative one closes"
        self._findings.add(Fidelity.TRANSLATED, element, what)
        return tuple(replace(one, group=-one.group) for one in found)

    def circle(self, found: Found, defaults: SssJob | None) -> None:
        """Refuse jobs that wait for each other, by their own dependencies or those of their defaults."""
        jobs = [(element, job) for element, job in found if isinstance(job, SssJob)]
        by_name: dict[str, list[str]] = {}
        for _, job in jobs:
            by_name.setdefault(job.name, []).append(job.id)
        inherited = _dependencies(defaults)
        graph = {
            job.id: [other for link in _dependencies(job) or inherited for other in _meant(link, by_name)]
            for _, job in jobs
        }
        circle = find_cycle(graph)
        if circle:
            what = f"jobs wait for each other in a circle: {' -> '.join(circle)}"
            first = next(element for element, job in jobs if job.id == circle[0])
            self._findings.refuse("circle", first, what, "take one of the dependencies out")

    def fragments(self, files: Collection[str]) -> None:
        """Refuse an Executable that means a File which is not there; leniently, tell it."""
        for name, element in self._elements.fragments:
            if name in files:
                continue
            what = f"the executable is the file {name!r}, which is not in the document"
            if not self._lenient:
                fix = f"put the job into a Data element with <File id={name!r}> beside it"
                self._findings.refuse("no-file", element, what, fix)
            self._findings.add(Fidelity.APPROXIMATED, element, what)


def _in_order(signs: Sequence[int]) -> bool:
    """Whether parentheses open before they close, all are closed, and not too many are open."""
    depth = 0
    for sign in signs:
        depth += sign
        if not 0 <= depth <= MAX_PARENTHESES:
            return False
    return depth == 0


def _dependencies(job: SssJob | None) -> list[Dependency]:
    return [one for one in job.properties if isinstance(one, Dependency)] if job else []


def _meant(link: Dependency, by_name: dict[str, list[str]]) -> list[str]:
    """Return the ids of the jobs that a dependency means."""
    other = str(link.value)
    return by_name.get(other, []) if link.by_name else [other]
