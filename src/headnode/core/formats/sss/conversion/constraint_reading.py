"""What the constraints on one property of a request ask for: amounts, names, bounds.

Source: SSS 3.1.0, "Requested", attribute op; Tables 25-2 to 25-4.
"""

import math
from collections.abc import Sequence

from headnode.core.formats.sss.constraints import Comparison, Constraint, Number, Subject, whole_range
from headnode.core.formats.sss.properties import Unit
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Seconds
from headnode.core.model.value_checks import MOST_CODE

Bounds = tuple[int, int]
Words = tuple[str, ...]
Found = Sequence[Constraint]
"""The constraints on one property, in their order."""

LICENSE = "License"
"""How a Resource that is a licence is called; another consumable is a licence called ``name:type``."""

MEGABYTE = Unit.MB.size
EXACT = frozenset({Comparison.EQ})
LOWER = frozenset({Comparison.EQ, Comparison.GE, Comparison.GT})
UPPER = frozenset({Comparison.LE, Comparison.LT})
AMONG = frozenset({Comparison.EQ, Comparison.IN})
NOT_AMONG = frozenset({Comparison.NE, Comparison.NOT_IN})
MATCH, NO_MATCH = frozenset({Comparison.MATCH}), frozenset({Comparison.NO_MATCH})


def number_of(one: Constraint) -> Number:
    """Return the number that something is compared with; no text is one."""
    return 0 if isinstance(one.value, str | tuple) else one.value


def _texts(one: Constraint) -> Words:
    return one.value if isinstance(one.value, tuple) else (str(one.value),)


def text_in(found: Found) -> str:
    """Return the text of the last constraint."""
    return str(found[-1].value)


def among(found: Found) -> Words:
    """Return the words of which one is wanted, each once; several lists narrow each other."""
    lists = [_texts(one) for one in found if one.comparison in AMONG]
    every = dict.fromkeys(word for words in lists for word in words)
    return tuple(word for word in every if all(word in words for words in lists))


def every_of(comparisons: frozenset[Comparison], found: Found) -> Words:
    """Return the words of all constraints that compare so, each once."""
    return tuple(
        dict.fromkeys(word for one in found if one.comparison in comparisons for word in _texts(one))
    )


def choices_in(found: Found) -> tuple[Words, ...]:
    """Return the lists of words, of each of which one is wanted."""
    return tuple(dict.fromkeys(_texts(one) for one in found if one.comparison in AMONG))


def bounds_in(found: Found) -> Bounds:
    """Return how many.  Where no upper bound is given, the lower one is it: nobody else is kept out.

    Raises:  BadRequest ``size`` when it is none, or more than any cluster has.
    """
    name = found[0].subject[0]
    least, most = whole_range(found, name)
    least = max(least, 1)
    if least > MOST_CODE:
        what = f"{name} {least} is more than any cluster has"
        raise BadRequest(code="size", what=what, fix=f"ask for {MOST_CODE} or less", path=(name,))
    high = least if math.isinf(most) else min(int(most), MOST_CODE)
    if high < 1:
        what = f"{name} {high}: a job cannot run on none"
        raise BadRequest(code="size", what=what, fix=f"ask for 1 or more, or leave {name} out", path=(name,))
    return (least, high)


def least_in(found: Found) -> int:
    """Return the megabytes that a node must have; a bare amount is one that is needed."""
    return max([_megabytes(one, up=True) for one in found if one.comparison in LOWER], default=0)


def most_in(found: Found) -> int | None:
    """Return the most megabytes that a node may have; None when that is not said."""
    upper = [_megabytes(one, up=False) for one in found if one.comparison in UPPER]
    return max(min(upper), 1) if upper else None


def _megabytes(one: Constraint, *, up: bool) -> int:
    """Return the bytes of a constraint as whole megabytes, none of which it excludes."""
    amount, rest = divmod(number_of(one), MEGABYTE)
    if rest:
        return int(amount) + (1 if up else 0)
    if one.comparison is Comparison.GT or one.comparison is Comparison.LT:
        return int(amount) + (1 if up else -1)
    return int(amount)


def run_time_in(found: Found) -> Seconds | None:
    """Return the limit: the longest time asked for, the shortest of several; None: there is none."""
    spans = [Seconds(float(number_of(one))) for one in found]
    return min([span for span in spans if span > 0], default=None)


def licences_in(found: Found) -> tuple[Licence, ...]:
    """Return the licences by name, each with the most that is asked for."""
    amounts: dict[str, int] = {}
    for one in found:
        least = (
            math.floor(number_of(one)) + 1 if one.comparison is Comparison.GT else math.ceil(number_of(one))
        )
        name = licence_name(one.subject)
        amounts[name] = max(amounts.get(name, 0), least)
    return tuple(Licence(feature, amount) for feature, amount in amounts.items() if amount)


def licence_name(subject: Subject) -> str:
    """Return how the licence is called that a Resource is; "" when it can be none."""
    _, called, kind = subject
    if called.lower() == LICENSE.lower():
        name = kind
    else:
        name = f"{called}:{kind}" if kind else called
    return "" if "," in name else name.strip()
