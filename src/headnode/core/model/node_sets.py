"""Names of nodes in few words: runs of numbered ones as sets, such as ``node[01-04]``.

Source: the node sets that ClusterShell, pdsh and Slurm understand."""

import re
from collections.abc import Iterable, Iterator, Sequence

_SPECIAL = re.compile(r"([\[\]\\,\s])")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,8})\Z", re.DOTALL)


def is_plain(name: str) -> bool:
    """Return whether a name stands for itself alone where sets of names are read."""
    return bool(name) and not _SPECIAL.search(name)


def natural_order(name: str) -> tuple[int, str]:
    """Return what to sort names by, so that node2 comes before node10.

    >>> list(folded_names(sorted(("n10", "n9", "n8"), key=natural_order)))
    ['n[8-10]']
    """
    return len(name), name


def folded_names(names: Iterable[str]) -> Iterator[str]:
    """Yield one text for each run of names that differ only in a number that grows by one.

    >>> list(folded_names(("n1", "n2", "n3", "b", "r09", "r10")))
    ['n[1-3]', 'b', 'r[09-10]']
    """
    run: list[str] = []
    for name in names:
        if run and not _continues(run, name):
            yield _written(run)
            run = []
        run.append(name)
    if run:
        yield _written(run)


def _continues(run: Sequence[str], name: str) -> bool:
    """Whether `name` is the next of a run, which its first name begins."""
    first = _NUMBERED.match(run[0])
    if first is None:
        return False
    width = len(first[2]) if first[2].startswith("0") else 0
    return name == first[1] + str(int(first[2]) + len(run)).zfill(width)


def _written(run: Sequence[str]) -> str:
    first, last = _NUMBERED.match(run[0]), _NUMBERED.match(run[-1])
    if len(run) == 1 or first is None or last is None:
        return _SPECIAL.sub(r"\\\1", run[0])
    stem = _SPECIAL.sub(r"\\\1", first[1])
    return f"{stem}[{first[2]}-{last[2]}]"
