"""Names of nodes, and sets of them: ``node[1-5]``.

A pair of brackets holds numbers and ranges, with the zeros that fill them up; several pairs in one name are
all combined.  A backslash takes the meaning from a bracket, a comma, a blank or a backslash.
Source: the node sets that ClusterShell, pdsh and Slurm understand.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from headnode.core.formats.native_form.quantities import refuse, shown
from headnode.core.model.node_runs import is_plain, runs_of

MOST_NODES = 100_000
_TOKEN = re.compile(r"\\(.)|\[([^\[\]]*)\]|([\s,]+)|([^\\\[\],\s]+)|(.)", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?\Z")
_FIX = 'write names and sets of them, for example "node1, node[3-5,8]" or ["node1", "node[3-5,8]"]'


def parse_nodes(value: Any) -> tuple[str, ...]:
    """Read a text of names and sets, separated by commas or blanks, or a list of names and sets.

    Raises:  BadRequest ``nodes``.

    >>> parse_nodes("a, n[08-10]"), parse_nodes(["r[1-2]n[1,3]"])
    (('a', 'n08', 'n09', 'n10'), ('r1n1', 'r1n3', 'r2n1', 'r2n3'))
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        refuse("nodes", f"{shown(value)} names no nodes", _FIX)
    names: list[str] = []
    for text in texts:
        for pieces in _sets(text, split=isinstance(value, str)):
            if _combinations(pieces) > MOST_NODES - len(names):
                refuse("nodes", f"{shown(value)} names more than {MOST_NODES} nodes", "name fewer")
            names += ("".join(choice) for choice in product(*pieces))
    return tuple(names)


def _combinations(pieces: Iterable[Sequence[str]]) -> int:
    """Return how many names a set stands for, or any number above the limit."""
    count = 1
    for choices in pieces:
        count *= len(choices)
        if count > MOST_NODES:
            break
    return count


def _sets(text: str, *, split: bool) -> Iterator[list[Sequence[str]]]:
    """Yield each name or set as the choices for each of its pieces; `split` ends one at a comma or blank."""
    pieces: list[Sequence[str]] = []
    for token in _TOKEN.finditer(text):
        escaped, numbers, between, plain, stray = token.groups()
        if between is not None and split:
            if pieces:
                yield pieces
            pieces = []
        elif numbers is not None:
            pieces.append(_numbers(numbers, text))
        elif stray is not None:
            refuse("nodes", f"{shown(text)} has a stray {stray!r}", _FIX)
        else:
            pieces.append((escaped or between or plain,))
    if pieces or not split:
        yield pieces


def _numbers(text: str, whole: str) -> Sequence[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.match(part.strip())
        if found is None:
            refuse("nodes", f"{shown(part)} in {shown(whole)} is no number or range", _FIX)
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first) or int(last) - int(first) >= MOST_NODES:
            refuse("nodes", f"range {part.strip()!r} in {shown(whole)} is empty or too long", _FIX)
        width = len(first) if first.startswith("0") else 0
        numbers += (str(number).zfill(width) for number in range(int(first), int(last) + 1))
    return numbers


def format_nodes(names: tuple[str, ...]) -> str | list[str]:
    """Write names as `parse_nodes` reads them, in their order; runs of numbered names as sets.

    >>> format_nodes(("n1", "n2", "n3", "b")), format_nodes(("n1", "n2"))
    (['n[1-3]', 'b'], 'n[1-2]')
    """
    folded = list(runs_of(names))
    return folded[0] if len(folded) == 1 and is_plain(names[0]) else folded
