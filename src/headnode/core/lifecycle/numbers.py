"""Numbers of processors, ascending.  Mostly a job takes a run of them, and gives the same run back."""

from bisect import bisect_left
from collections.abc import Sequence


def without(numbers: list[int], gone: Sequence[int]) -> list[int]:
    """Return the numbers that are not in `gone`; both ascend.

    >>> without([1, 2, 5, 7], (2, 3, 5)), without([1, 2, 5, 7], (2, 5))
    ([1, 7], [1, 7])
    """
    at = bisect_left(numbers, gone[0]) if gone else 0
    end = at + len(gone)
    if numbers[at:end] == list(gone):
        return numbers[:at] + numbers[end:]
    taken = set(gone)
    return [number for number in numbers if number not in taken]


def together(numbers: list[int], back: Sequence[int]) -> list[int]:
    """Return the numbers of both, each once; both ascend, and so does the result.

    >>> together([1, 7], (2, 5)), together([1, 4], (2, 5)), together([1, 4], (4, 5))
    ([1, 2, 5, 7], [1, 2, 4, 5], [1, 4, 5])
    """
    if not back:
        return numbers
    at = bisect_left(numbers, back[0])
    if at == len(numbers) or back[-1] < numbers[at]:
        return [*numbers[:at], *back, *numbers[at:]]
    return sorted({*numbers, *back})
