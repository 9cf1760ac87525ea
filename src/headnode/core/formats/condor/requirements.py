"""What the expressions requirements and rank say of nodes.

A condition that is not understood is refused: it decides where the job runs.
Source:  HTCondor 24, "Machine ClassAd Attributes"; condor_submit(1): "requirements", "rank".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from headnode.core.formats.batch.option_place import MAX_NUMBER, OptionPlace
from headnode.core.formats.condor.expressions import Expression, NoExpression, parse
from headnode.core.model.job import OrderKey

Needs = dict[str, Any]
"""Fields of node needs."""

_ARCHITECTURES: Final = {"INTEL": "i386"}
_AMOUNTS: Final[Mapping[str, tuple[str, int]]] = {
    **dict.fromkeys(("memory", "totalmemory", "totalslotmemory", "detectedmemory"), ("minimum_memory", 1)),
    **dict.fromkeys(("disk", "totaldisk", "totalslotdisk"), ("minimum_disk", 1024)),
    **dict.fromkeys(
        ("cpus", "totalcpus", "totalslotcpus", "detectedcpus", "detectedcores"), ("minimum_processors", 1)
    ),
}
"""Attributes with an amount: the field of the needs, and how many of the attribute one of the field is."""
_NAMES: Final = {"machine": "names", "opsys": "systems", "arch": "architectures"}
_ALWAYS: Final = frozenset({"hasfiletransfer", "hasselfcheckpointtransfers", "hasjobdeferral"})
"""Features of the starter of HTCondor that every node of Headnode has."""
_NO_FEATURES: Final = frozenset(
    """activity kflops mips loadavg totalloadavg condorloadavg keyboardidle consoleidle state slotid gpus
    totalgpus cudacapability opsysandver opsysmajorver opsysname opsysver opsyslongname filesystemdomain
    uiddomain utsnamerelease glibc subnet name currenttime clockmin clockday rank start virtualmemory
    isvalidcheckpointplatform checkpointplatform""".split()  # noqa: SIM905
)
"""Attributes of machines that are no features: what they say is in no property of a node here."""


def read_requirements(place: OptionPlace, text: str) -> Needs:
    """Return what an expression requires of each node.

    Raises:  BadRequest ``not-supported``, with the part that has no equivalent.
    """
    needs: Needs = {}
    for part in _conjunction(_parsed(place, text)):
        if not _Term(needs).read(part):
            what = f"{spelled(part)[:120]} has no equivalent, and decides where the job runs"
            fix = "use Memory, Disk, Cpus, Machine, Arch, OpSys, or the name of a feature of nodes, with && "
            place.refuse(what, f"{fix}between them; or leave it out", "not-supported")
    return needs


def read_rank(place: OptionPlace, text: str) -> tuple[OrderKey, ...]:
    """Return the order in which nodes are preferred.

    Raises:  BadRequest ``not-supported``.
    """
    found = _parsed(place, text)
    if found.number is not None or found.truth is not None:
        return ()
    keys = {"memory": "memory", "totalmemory": "memory", "cpus": "processors", "totalcpus": "processors",
            "mips": "speed", "kflops": "speed"}  # fmt: skip
    name, ascending = found.name, False
    if found.operator == "-" and found.parts[0].number == 0:
        name, ascending = found.parts[1].name, True
    if name not in keys:
        what = f"{text[:120]} decides which nodes are preferred, and has no equivalent"
        place.refuse(what, "write Memory, Cpus, Mips or KFlops, or leave it out", "not-supported")
    return (OrderKey(keys[name], ascending),)  # type: ignore[arg-type]  # one of the words of `keys`


def _parsed(place: OptionPlace, text: str) -> Expression:
    try:
        return parse(text)
    except NoExpression:
        place.refuse(
            f"{text[:120]!r} is not understood", "write a simple ClassAd expression", "not-supported"
        )


def _conjunction(expression: Expression) -> Iterator[Expression]:
    if expression.operator == "&&":
        for part in expression.parts:
            yield from _conjunction(part)
    else:
        yield expression


class _Term:
    """One condition, read into needs; a reader returns False for what it does not understand."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs

    def read(self, expression: Expression) -> bool:
        if expression.truth is not None:
            return expression.truth
        readers: Mapping[str, Callable[[Expression], bool]] = {
            **dict.fromkeys((">", ">=", "<", "<="), self._amount),
            **dict.fromkeys(("==", "=?="), self._equal),
            **dict.fromkeys(("!=", "=!="), self._unequal),
            "name": lambda each: self._feature(each, wanted=True),
            "!": self._not,
            "||": self._choice,
            "call": self._called,
        }
        reader = readers.get(expression.operator)
        return reader is not None and reader(expression)

    def _amount(self, expression: Expression) -> bool:
        left, right = expression.parts
        operator = expression.operator
        if left.number is not None:
            left, right = right, left
            operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
        known, number = _AMOUNTS.get(left.name), right.number
        if known is None or number is None or operator not in (">", ">=") or not 0 <= number < MAX_NUMBER:
            return False
        field, scale = known
        least = int(number) + 1 if operator == ">" else -int(-number // 1)
        self._needs[field] = max(self._needs.get(field, 0), -(-least // scale))
        return True

    def _equal(self, expression: Expression) -> bool:
        left, right = _name_first(expression)
        if right.truth is not None and right.number is None:
            return self._feature(left, wanted=right.truth)
        return self._one_of(left.name, (right.text,))

    def _unequal(self, expression: Expression) -> bool:
        left, right = _name_first(expression)
        if right.truth is not None and right.number is None:
            return self._feature(left, wanted=not right.truth)
        if right.name == "undefined":
            return self._feature(left, wanted=True)
        if left.name != "machine" or not right.text:
            return False
        self._needs["excluded"] = (*self._needs.get("excluded", ()), right.text)
        return True

    def _one_of(self, name: str, texts: tuple[str | None, ...]) -> bool:
        field = _NAMES.get(name)
        if field is None or field in self._needs or not all(texts):
            return False
        self._needs[field] = tuple(_ARCHITECTURES.get(text or "", text or "") for text in texts)
        return True

    def _feature(self, expression: Expression, *, wanted: bool) -> bool:
        name = expression.name
        if name in _ALWAYS:
            return wanted
        if not is_feature(name):
            return False
        if wanted:
            self._needs["features"] = (*self._needs.get("features", ()), (expression.spelling,))
        else:
            self._needs["lacking"] = (*self._needs.get("lacking", ()), expression.spelling)
        return True

    def _not(self, expression: Expression) -> bool:
        inner = expression.parts[0]
        if inner.operator == "call":
            return self._matched(inner, "excluded_patterns")
        if inner.operator in ("==", "=?="):
            return self._unequal(inner)
        return self._feature(inner, wanted=False)

    def _choice(self, expression: Expression) -> bool:
        """Read ``Machine == "a" || Machine == "b"``, and features of which one is enough."""
        pairs = [_name_first(part) for part in expression.parts if part.operator in ("==", "=?=")]
        of_one = len(pairs) == len(expression.parts) and len({left.name for left, _ in pairs}) == 1
        if of_one and all(right.text for _, right in pairs):
            return self._one_of(pairs[0][0].name, tuple(right.text for _, right in pairs))
        features = [_wanted_feature(part) for part in expression.parts]
        if not all(features):
            return False
        self._needs["features"] = (*self._needs.get("features", ()), tuple(features))
        return True

    def _called(self, expression: Expression) -> bool:
        if str(expression.value).lower() == "stringlistmember" and len(expression.parts) in (2, 3):
            member, words = expression.parts[:2]
            names = tuple(name for name in (words.text or "").replace(",", " ").split())
            return bool(names) and len(expression.parts) == 2 and self._one_of(member.name, names)
        return self._matched(expression, "patterns")

    def _matched(self, expression: Expression, field: str) -> bool:
        """Read ``regexp("^gpu", Machine)``: a pattern of names of nodes, which need not match all of them."""
        if str(expression.value) != "regexp" or len(expression.parts) not in (2, 3) or field in self._needs:
            return False
        pattern, of, *_ = expression.parts
        whole = _whole_pattern(pattern.text or "")
        if of.name != "machine" or not whole:
            return False
        self._needs[field] = (whole,)
        return True


def _whole_pattern(text: str) -> str:
    """Return a pattern that matches all of a name, for one that matches a part; "" if there is none.

    >>> _whole_pattern("^gpu"), _whole_pattern("^(a|b)$"), _whole_pattern("^a|b")
    ('(?:gpu).*', '(?:(a|b))', '')
    """
    begins, ends = text.startswith("^"), text.endswith("$") and not text.endswith("\\$")
    body = text[begins : len(text) - ends]
    if not body or ((begins or ends) and _has_bar(body)):
        return ""
    return f"{'' if begins else '.*'}(?:{body}){'' if ends else '.*'}"


def _has_bar(text: str) -> bool:
    """Return whether a choice is outside all parentheses of a pattern."""
    depth = 0
    for mark in re.findall(r"\\.|[()|]", text):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "|" and depth == 0:
            return True
    return False


def _name_first(expression: Expression) -> tuple[Expression, Expression]:
    left, right = expression.parts
    return (left, right) if (left.name and not right.name) or right.name == "undefined" else (right, left)


def _wanted_feature(expression: Expression) -> str:
    """Return the feature that a part of a choice asks for; "" if it asks for something else."""
    if expression.operator in ("==", "=?="):
        left, right = _name_first(expression)
        expression = left if right.truth and right.number is None else Expression("truth")
    return expression.spelling if is_feature(expression.name) else ""


def is_feature(name: str) -> bool:
    """Return whether a name, in lower case, is that of a feature: none that expressions use otherwise."""
    words = ("", "undefined", "error", "true", "false", "is", "isnt", "parent")
    return not (name in words or name in _NO_FEATURES | _ALWAYS or name in _AMOUNTS or name in _NAMES)


def spelled(expression: Expression) -> str:
    """Return an expression as it is written, with the parentheses that it needs."""
    if expression.operator == "text":
        return '"' + re.sub(r'(["\\])', r"\\\1", str(expression.value)) + '"'
    if expression.operator == "name":
        return expression.spelling
    if expression.operator == "number":
        return f"{expression.value:g}"
    if expression.operator == "truth":
        return "true" if expression.value else "false"
    if expression.operator == "call":
        return f"{expression.value}({', '.join(map(spelled, expression.parts))})"
    if expression.operator == "!":
        return f"!({spelled(expression.parts[0])})"
    inner = [
        f"({spelled(part)})" if part.operator in ("||", "&&") else spelled(part) for part in expression.parts
    ]
    return f" {expression.operator} ".join(inner)
