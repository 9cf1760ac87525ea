"""ResourceLimits as limits of processes, and back.

Source: SSS 3.1.0, "ResourceLimit"; Table 25-4, where swap is virtual memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.conditions import Limit, LimitKind
from headnode.core.formats.sss.consumables import Unit
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.properties import Property
from headnode.core.model.limits import ResourceLimit

KNOWN: Mapping[str, str] = {
    "CoreFileSize": "core",
    "CpuTime": "cpu",
    "DataSegSize": "data",
    "FileSize": "fsize",
    "MaxMemorySize": "rss",
    "MaxProcesses": "nproc",
    "MaxSwap": "as",
    "MaxMemLock": "memlock",
    "OpenFiles": "nofile",
    "Stacksize": "stack",
}
"""How setrlimit calls the limits of the document; the others are of no process."""

_NEAREST = {"MaxMemory": "as"}
_WORDS = {name: word for word, name in KNOWN.items()}
_COUNTED = ("MaxProcesses", "OpenFiles")
_AMOUNT = re.compile(r"([0-9]{1,18})\s*([A-Za-z]{0,2})\Z")
_CLOCK = re.compile(r"(?:([0-9]{1,6}):)?([0-9]{1,2}):([0-9]{1,2})\Z")
_MOST = 2**62
Unsaid = Callable[[Limit, str], None]


def limits_of(
    properties: Iterable[Property], where: str, unsaid: Unsaid, findings: Findings
) -> tuple[ResourceLimit, ...]:
    """Return the limits among `properties`; of two for the same thing the lower one counts."""
    found: dict[str, ResourceLimit] = {}
    for one in properties:
        if not isinstance(one, Limit) or not one.value:
            continue
        name = KNOWN.get(one.called) or _NEAREST.get(one.called)
        amount = _amount(one.called, str(one.value))
        if name is None:
            unsaid(one, "the system keeps no such limit of a process")
        elif amount is None:
            unsaid(one, "it is no number: the limit of the node counts")
        else:
            if one.called in _NEAREST:
                what = f"ResourceLimit {one.called}: it limits the address space of each process"
                findings.add(Kind.APPROXIMATED, where, what)
            found[name] = _lower(found.get(name, ResourceLimit(name)), one.kind, amount)
    return tuple(found.values())


def _amount(called: str, text: str) -> int | None:
    """Return bytes, seconds or a number; None when it is none of them."""
    clock = _CLOCK.match(text) if called == "CpuTime" else None
    if clock:
        hours, minutes, seconds = (int(each or 0) for each in clock.groups())
        return hours * 3600 + minutes * 60 + seconds
    match = _AMOUNT.match(text)
    unit = match[2].upper() if match else ""
    if match is None or (unit and (unit not in Unit.__members__ or called in (*_COUNTED, "CpuTime"))):
        return None
    amount = int(match[1]) * (Unit(unit).size if unit else 1)
    return amount if amount <= _MOST else None


def _lower(one: ResourceLimit, kind: LimitKind | None, amount: int) -> ResourceLimit:
    soft = one.soft if kind is LimitKind.HARD else _least(one.soft, amount)
    hard = one.hard if kind is LimitKind.SOFT else _least(one.hard, amount)
    return ResourceLimit(one.name, soft, hard)


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def limits_back(limits: Iterable[ResourceLimit], where: str, findings: Findings) -> Iterator[Limit]:
    """Yield the limits as they are written; without a type, it is both the soft and the hard one."""
    for one in limits:
        word = _WORDS.get(one.name)
        if word is None:
            what = f"resource_limits: SSS has no word for {one.name!r}: it is left out"
            findings.add(Kind.NOT_SUPPORTED, where, what)
        elif one.soft == one.hard:
            if one.hard is not None:
                yield _limit(word, None, one.hard)
        else:
            for kind, amount in ((LimitKind.SOFT, one.soft), (LimitKind.HARD, one.hard)):
                if amount is not None:
                    yield _limit(word, kind, amount)


def _limit(word: str, kind: LimitKind | None, amount: int) -> Limit:
    return Limit(name="ResourceLimit", called=word, kind=kind, value=str(amount))
