"""Rows of the journal that do not read: lists leave them out, and everybody is told."""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from headnode.core.model.errors import Unavailable

MOST_NOTED: Final = 100  # rows; the log has them all

Row = TypeVar("Row")

log = logging.getLogger("headnode.adapters.journal")


class Damage:
    """What was found damaged since the journal was opened, each row once."""

    def __init__(self) -> None:
        self._noted: dict[str, None] = {}

    @property
    def noted(self) -> tuple[str, ...]:
        """The first rows that were found, in sentences."""
        return tuple(self._noted)

    def note(self, what: str) -> None:
        """Take down a row; the log hears of it the first time."""
        if what not in self._noted and len(self._noted) < MOST_NOTED:
            self._noted[what] = None
            log.error("the journal is damaged: %s", what)

    def readable(self, read: Callable[..., Row], rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
        """Yield what `read` makes of each row; a damaged one is noted and left out."""
        for row in rows:
            try:
                found = read(*row)
            except Unavailable as error:
                self.note(error.what)
                continue
            yield found
