"""The right name that somebody probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return the name of `right` that looks most like `wrong`, in its own spelling; "" when none does.

    >>> nearest("priorty", ["Name", "Priority"])
    'Priority'
    """
    by_lower = {name.lower(): name for name in right}
    found = get_close_matches(wrong.lower()[:80], by_lower, n=1)
    return by_lower[found[0]] if found else ""
