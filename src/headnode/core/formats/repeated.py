"""Findings of a reader: what comes again is only counted, and of very many the first are listed."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from headnode.core.formats.fidelity import MOST_ITEMS, Item, Kind, unlisted


class Repeated:
    """Findings in the order in which they are made, beginning with `items`."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)
        self._first: dict[Hashable, int] = {}
        self._times: Counter[Hashable] = Counter()
        self._unlisted: Counter[Kind] = Counter()

    def add(self, kind: Kind, made: Callable[[], Item], key: Hashable = None) -> None:
        """Add the finding that `made` makes; one of a `key` that was there before is only counted.

        What is not listed is not made, since finding its place costs most.
        """
        if key in self._times:
            self._times[key] += 1
        elif len(self._items) >= MOST_ITEMS:
            self._unlisted[kind] += 1
        else:
            if key is not None:
                self._times[key] = 1
                self._first[key] = len(self._items)
            self._items.append(made())

    def report(self) -> tuple[Item, ...]:
        """Return all findings, each with the number of times that it came."""
        items = list(self._items)
        for key, at in self._first.items():
            if self._times[key] > 1:
                one = items[at]
                what = f"{one.what} ({self._times[key]} times, here first)"
                items[at] = Item(one.kind, one.where, what, one.line, one.column)
        return (*items, *(unlisted(kind, number) for kind, number in self._unlisted.items()))
