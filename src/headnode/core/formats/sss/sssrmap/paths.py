"""Names in Get and Where: paths into an object, a small part of XPath.

A name without a slash in front means children of the object, or, where it has none, elements at any depth.
A name with one begins with the object itself: ``/Job/Requested/Processors``.  Steps are names, ``*`` and
``@attribute``, with ``[2]``, ``[@name='x']`` and ``[Child='x']``.
Source:  SSS Node Object 3.1.0 and SSS 3.1.0, "modified XPATH"; what Maui asks.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from headnode.core.formats.sss.sssrmap.messages import elements
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement

MAX_STEPS: Final = 16
MAX_NAME: Final = 2000  # characters: thousands of paths are kept
_STEP: Final = re.compile(r"(\*|@?[A-Za-z_][\w.-]{0,127})((?:\[[^\]]{1,300}\])*)\Z")
_TEST: Final = re.compile(r"(@?)([A-Za-z_][\w.-]{0,127})\s*=\s*(?:'([^']*)'|\"([^\"]*)\")\Z")
_INDEX: Final = re.compile(r"[1-9][0-9]{0,5}\Z")

Respell = Callable[[tuple[str, ...]], tuple[str, ...]]
"""Returns the names of a path as objects spell them."""


def as_written(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names as they are."""
    return names


class PathTest(NamedTuple):
    """A predicate: `number` counts from 1; else an attribute or a child has the value."""

    number: int = 0
    name: str = ""
    is_attribute: bool = False
    value: str = ""


class PathStep(NamedTuple):
    """One step of a path."""

    name: str  # without @; `*` is any
    is_attribute: bool
    tests: tuple[PathTest, ...]


class ObjectPath(NamedTuple):
    """A path into an object."""

    steps: tuple[PathStep, ...]
    anchored: bool  # it began with the object

    @property
    def is_plain(self) -> bool:
        """Whether it is only the name of an element."""
        return len(self.steps) == 1 and self.steps[0] == PathStep(self.steps[0].name, False, ())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its steps."""
        return tuple(step.name for step in self.steps)


class PathMatch(NamedTuple):
    """Something that a path leads to: the places of elements in their parents, from the object on."""

    place: tuple[int, ...]
    element: XmlElement
    attribute: str = ""

    @property
    def text(self) -> str:
        """What is written there."""
        if self.attribute:
            return self.element.attributes[self.attribute]
        return self.element.text.strip()


@lru_cache(maxsize=4096)
def read_path(name: str) -> ObjectPath:
    """Return the path that a name is.

    Raises:  MessageFault 316.
    """
    if len(name) > MAX_NAME:
        raise _wrong(name)
    anchored = name.startswith("/")
    written = _split(name.lstrip("/") if anchored else name)
    if not 0 < len(written) <= MAX_STEPS:
        raise _wrong(name)
    steps = tuple(_step(name, part) for part in written)
    if any(step.is_attribute for step in steps[:-1]):
        raise _wrong(name)
    return ObjectPath(steps, anchored)


def _split(text: str) -> list[str]:
    """Return the steps of a path; a slash in brackets is none between steps."""
    steps = re.findall(r"(?:[^/\[]|\[[^\]]*\])+", text)
    return steps if "/".join(steps) == text else []


def _step(name: str, text: str) -> PathStep:
    match = _STEP.match(text)
    if match is None:
        raise _wrong(name)
    tests = tuple(_test(name, each) for each in re.findall(r"\[([^\]]*)\]", match[2]))
    return PathStep(match[1].removeprefix("@"), match[1].startswith("@"), tests)


def _test(name: str, text: str) -> PathTest:
    if _INDEX.match(text):
        return PathTest(int(text))
    match = _TEST.match(text.strip())
    if match is None:
        raise _wrong(name)
    return PathTest(0, match[2], bool(match[1]), match[3] if match[3] is not None else match[4])


def _wrong(name: str) -> MessageFault:
    return MessageFault(
        StatusCode.WRONG_ATTRIBUTE,
        f"{name[:80]!r} is not the name of a property",
        "write Name, A/B or /Object/A",
    )


def respelled(path: ObjectPath, respell: Respell) -> ObjectPath:
    """Return a path with its names as objects spell them."""
    names = respell(path.names)
    return path._replace(
        steps=tuple(step._replace(name=name) for step, name in zip(path.steps, names, strict=True))
    )


def find(element: XmlElement, path: ObjectPath) -> list[PathMatch]:
    """Return what a path leads to in an object, in the order of the document."""
    match = PathMatch((), element)
    if path.anchored:
        if path.steps[0].name not in (element.name, "*") or path.steps[0].is_attribute:
            return []
        return _follow([match], path.steps[1:])
    return _follow([match], path.steps) or _deep(match, path.steps)


def _follow(matches: list[PathMatch], steps: tuple[PathStep, ...]) -> list[PathMatch]:
    for step in steps:
        matches = [after for match in matches for after in _after(match, step)]
    return matches


def _after(match: PathMatch, step: PathStep) -> list[PathMatch]:
    if step.is_attribute:
        names = match.element.attributes if step.name == "*" else (step.name,)
        return [match._replace(attribute=name) for name in names if name in match.element.attributes]
    matches = [
        PathMatch((*match.place, number), child)
        for number, child in enumerate(match.element.children)
        if isinstance(child, XmlElement) and step.name in ("*", child.name)
    ]
    for test in step.tests:
        matches = (
            matches[test.number - 1 : test.number] if test.number else [x for x in matches if _holds(x, test)]
        )
    return matches


def _holds(match: PathMatch, test: PathTest) -> bool:
    if test.is_attribute:
        return match.element.attributes.get(test.name) == test.value
    return any(
        child.name == test.name and child.text.strip() == test.value for child in elements(match.element)
    )


def _deep(match: PathMatch, steps: tuple[PathStep, ...]) -> list[PathMatch]:
    """Return what the steps lead to from any element inside of an object."""
    matches: list[PathMatch] = []
    for inner in _descendants(match):
        matches += _follow([inner], steps)
    return matches


def _descendants(match: PathMatch) -> Iterator[PathMatch]:
    for number, child in enumerate(match.element.children):
        if isinstance(child, XmlElement):
            inner = PathMatch((*match.place, number), child)
            yield inner
            yield from _descendants(inner)


def picked(element: XmlElement, groups: list[tuple[list[PathMatch], str]]) -> XmlElement:
    """Return an object with only what paths lead to, and the elements around that.

    A property that the object does not have is an empty element, as at Gold, so that all rows have the same.
    groups:  what each path leads to, and the name that it gets in place of its own ("" keeps it)
    """
    root = XmlElement(element.name, {}, [])
    copies: dict[tuple[int, ...], XmlElement] = {(): root}
    for matches, name in groups:
        if name and not matches:
            root.children.append(XmlElement(name))
        for match in matches:
            parent = _around(element, match.place[:-1], copies)
            kept = match.element
            if match.attribute:
                value = {match.attribute: kept.attributes[match.attribute]}
                _around(element, match.place, copies).attributes.update(value)
            elif match.place not in copies:
                copies[match.place] = XmlElement(name or kept.name, kept.attributes, kept.children, kept.text)
                parent.children.append(copies[match.place])
    return root


def _around(
    element: XmlElement, place: tuple[int, ...], copies: dict[tuple[int, ...], XmlElement]
) -> XmlElement:
    """Return the copy of the element at a place, without what is in it."""
    if place not in copies:
        parent = _around(element, place[:-1], copies)
        kept = _at(element, place)
        copies[place] = XmlElement(kept.name, {}, [])
        parent.children.append(copies[place])
    return copies[place]


def _at(element: XmlElement, place: tuple[int, ...]) -> XmlElement:
    for number in place:
        inner = element.children[number]
        if isinstance(inner, XmlElement):
            element = inner
    return element
