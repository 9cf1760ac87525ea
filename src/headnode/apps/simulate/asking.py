"""How past jobs ask for processors, beyond what their log says: with which priority, and what will do."""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import HIGHEST, LOWEST, Priority, parse_priority
from headnode.core.model.workload import Workload

NORMAL = Priority(2000)
_COLUMNS = {"queue": "queues", "group": "groups", "user": "users", "size": "processors"}
_DIGITS = 18  # of a number of a queue, group or user


class Selector(NamedTuple):
    """Jobs whose number in a column of the workload is in one of these ranges, both ends included."""

    text: str
    column: str
    ranges: tuple[tuple[int, int], ...]

    def picks(self, workload: Workload, row: int) -> bool:
        """Whether the job in this row is one of them."""
        number = self.number(workload, row)
        return any(first <= number <= last for first, last in self.ranges)

    def number(self, workload: Workload, row: int) -> int:
        """Return the number of a job in the column; -1 if it is unknown."""
        known = str(getattr(workload, self.column)[row])
        return int(known) if known.isdecimal() else -1


_THEIR_OWN = Selector("queue", "queues", ((LOWEST, HIGHEST),))  # in logs that `write_swf` wrote


class Asking(NamedTuple):
    """What is the same for all jobs of a simulation.

    Of `priorities` the first that picks a job counts, where None is the number by which it is picked; the
    others are Normal.  Jobs of `once` may not run
    twice.  Jobs are content with `least` percent of their processors: below 100, each is a sweep of tasks of
    one processor.
    """

    priorities: tuple[tuple[Selector, Priority | None], ...] = ()
    once: tuple[Selector, ...] = ()
    least: int = 100

    @property
    def keeps_sizes(self) -> bool:
        """Whether each job runs on all its processors as long as it runs."""
        return self.least == 100

    def priority(self, workload: Workload, row: int) -> Priority:
        """Return the priority of a job."""
        for selector, priority in self.priorities:
            if selector.picks(workload, row):
                return priority if priority is not None else Priority(selector.number(workload, row))
        return NORMAL

    def runs_once(self, workload: Workload, row: int) -> bool:
        """Return whether a job may not run twice."""
        return any(selector.picks(workload, row) for selector in self.once)

    def minimum(self, processors: int) -> int:
        """Return with how many processors a job is content."""
        return -(-processors * self.least // 100)

    def check(self, workload: Workload) -> None:
        """See whether the log says what jobs are picked by.

        Raises:  BadRequest ``which-jobs``.
        """
        for selector in [*(selector for selector, _ in self.priorities), *self.once]:
            if not getattr(workload, selector.column):
                raise _wrong(
                    selector.text, f"selects jobs by a field that this log does not have: {selector.column}"
                )


AS_LOGGED = Asking()
"""All of one priority, all may run twice, all have one size."""


def read_priorities(texts: Sequence[str]) -> tuple[tuple[Selector, Priority | None], ...]:
    """Read ``queue:1,2=Highest``: which jobs, and their priority; ``queue``: its number is the priority.

    Raises:  BadRequest ``which-jobs`` or ``priority``.
    """
    found: list[tuple[Selector, Priority | None]] = []
    for text in texts:
        if text.strip().lower() == _THEIR_OWN.text:
            found.append((_THEIR_OWN, None))
            continue
        which, equals, priority = text.partition("=")
        if not equals:
            raise _wrong(text, "names no priority")
        found.append((read_selector(which), parse_priority(priority.strip())))
    return tuple(found)


def read_selector(text: str) -> Selector:
    """Read ``user:7,12-15``: jobs by their user, group or queue in the log, or by their size in processors.

    Raises:  BadRequest ``which-jobs``.

    >>> read_selector("user:7,12-15").ranges
    ((7, 7), (12, 15))
    """
    kind, _, numbers = text.strip().partition(":")
    column = _COLUMNS.get(kind.strip().lower())
    if column is None:
        raise _wrong(text, "is not understood")
    return Selector(text.strip(), column, tuple(_range(text, part) for part in numbers.split(",")))


def _range(text: str, part: str) -> tuple[int, int]:
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    ends = (first, last if dash else first)
    if not all(end.isascii() and end.isdecimal() and len(end) <= _DIGITS for end in ends):
        raise _wrong(text, "is not understood")
    low, high = map(int, ends)
    if low > high:
        raise _wrong(text, f"has a range that ends before it begins: {part.strip()}")
    return low, high


def read_least(text: str) -> int:
    """Read a percentage from 1 to 100, with or without its sign.

    Raises:  BadRequest ``least``.

    >>> read_least("50%")
    50
    """
    number = text.strip().removesuffix("%").strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= 3 and 1 <= int(number) <= 100):
        raise BadRequest(
            code="least",
            what=f"{text!r} is not a part of a job's processors",
            fix="write 1% to 100%, for example --least 50%",
        )
    return int(number)


def _wrong(text: str, what: str) -> BadRequest:
    return BadRequest(
        code="which-jobs",
        what=f"{text!r} {what}",
        fix="name jobs by the numbers of their queue, group or user in the log, or by their processors: "
        "queue:1, group:3, user:7,12-15 or size:1-4; and a priority after =, such as user:7=Highest, or "
        "queue alone",
    )
