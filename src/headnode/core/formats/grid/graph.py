"""The tasks of a job as a graph: their ids, children and groups must fit together.

Source: grid, "children" and "groups"; the Pilot service refuses circles and unknown children.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from headnode.core.formats.grid.page import Page
from headnode.core.formats.json_text import Path
from headnode.core.formats.nearest import nearest
from headnode.core.model.circles import find_circle

Items = Sequence[dict[str, Any]]
_SHOWN = 12


def check_graph(page: Page, job: dict[str, Any]) -> None:
    """Refuse ids that are there twice, unknown children and members of groups, and circles.

    Raises:  BadRequest ``id-twice``, ``unknown-task``, ``dependency-circle``, with line and column.
    Cost:    O(tasks + children).
    """
    items: Items = job["tasks"]
    numbers: dict[str, int] = {}
    for number, item in enumerate(items):
        first = numbers.setdefault(item["id"], number)
        if first != number:
            before = page.place(("tasks", first, "id"))
            what = f"a second task with the id {item['id']!r}, after the one at {before}"
            page.refuse(("tasks", number, "id"), "id-twice", what, "give each task an id of its own")
    for number, item in enumerate(items):
        whose = f"task {item['id']!r}"
        _check_known(page, item.get("children", ()), numbers, whose, ("tasks", number, "children"))
    for number, group in enumerate(job.get("groups", ())):
        _check_known(page, group, numbers, f"group {number + 1}", ("groups", number))
    _check_circle(page, items, numbers)


def _check_known(page: Page, ids: Sequence[str], numbers: dict[str, int], whose: str, path: Path) -> None:
    for at, name in enumerate(ids):
        if name not in numbers:
            meant = nearest(name, numbers)
            known = ", ".join(list(numbers)[:_SHOWN]) + (", ..." if len(numbers) > _SHOWN else "")
            fix = f"did you mean {meant!r}?" if meant else f"the ids are {known}"
            page.refuse((*path, at), "unknown-task", f"{whose} names {name[:60]!r}, which is not a task", fix)


def _check_circle(page: Page, items: Items, numbers: dict[str, int]) -> None:
    circle = find_circle({item["id"]: item.get("children", ()) for item in items})
    if not circle:
        return
    first = circle[0]
    at = list(items[numbers[first]]["children"]).index(circle[1])
    page.refuse(
        ("tasks", numbers[first], "children", at),
        "dependency-circle",
        f"the tasks wait for each other in a circle: {arrows(circle)}",
        "remove one of these children",
    )


def connects(groups: Sequence[Sequence[str]], every: Iterable[str]) -> bool:
    """Whether groups that share tasks bring all tasks together.

    >>> connects([["a", "b"], ["b", "c"]], "abc"), connects([["a", "b"], ["c", "d"]], "abcd")
    (True, False)
    """
    parents: dict[str, str] = {}

    def first(name: str) -> str:
        while parents.get(name, name) != name:
            parents[name] = name = parents[parents[name]]
        return name

    for group in groups:
        for name in group:
            parents[first(name)] = first(group[0])
    return len({first(name) for name in every}) == 1 and bool(groups)


def arrows(circle: Iterable[str]) -> str:
    """Write a circle; a long one with its middle left out.

    >>> arrows(["a", "b", "a"])
    'a -> b -> a'
    """
    shown = list(circle)
    if len(shown) > _SHOWN:
        shown[_SHOWN // 2 : 1 - _SHOWN // 2] = ["..."]
    return " -> ".join(shown)
