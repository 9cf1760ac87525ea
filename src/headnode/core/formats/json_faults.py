"""What is wrong with a text that is not good JSON, and where."""

import math
import re
from typing import NoReturn

import msgspec

from headnode.core.formats.text_places import Text
from headnode.core.model.errors import BadRequest

MOST_DEPTH = 64
MOST_VALUES = 2_000_000

_STRING = r'"(?:[^"\\]++|\\.)*+"?'  # one without its end too: trying again at every quote would take for ever
_MARK = re.compile(rf"{_STRING}|([{{\[])|([}}\]])", re.DOTALL)
_NAMING = re.compile(rf"({_STRING})\s*+:|{_STRING}|([{{]|\[)|([}}\]])", re.DOTALL)
_NUMBER = re.compile(rf"{_STRING}|(-?[0-9][0-9.eE+-]*+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F])|.)")
_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_WORD = re.compile(r'"[^"]*"?|[\w.+-]+')
_MOST_DIGITS = 300
_SHOWN = 40
_FIX = "correct the JSON there: names and texts in double quotes, a comma between two, none after the last"


def refuse_json(text: str, wrong: Exception | None) -> None:
    """Refuse the text for what made reading it fail; return when nothing is wrong with it.

    `wrong` is what the reader raised; without it the text is good but for keys that are there twice.
    Raises:  BadRequest with line and column: ``not-json``, ``too-deep``, ``number``, ``encoding`` or
             ``given-twice``.
    """
    found = Text(text)
    if wrong is None:
        _refuse_twice(found)
        return
    if not text.strip():
        found.refuse(0, "not-json", "the file is empty", "write a job")
    _refuse_depth(found)
    syntax = _BYTE.match(str(wrong))
    if syntax:
        _refuse_syntax(found, syntax[1], int(syntax[2]))
    _refuse_number(found)
    _refuse_surrogate(found)
    end = len(text.rstrip())
    found.refuse(end, "not-json", "the text ends too early", "complete it")


def refuse_size() -> NoReturn:
    """Refuse a text for its number of values."""
    raise BadRequest(
        code="too-large",
        what=f"the text contains more than {MOST_VALUES} values, more than a job may have",
        fix="divide it into several jobs, or write repetitions as a sweep",
    )


def count_values(text: str) -> int:
    """Return how many values a text may hold at most; texts in quotes count as one each.

    Cost:  quick for what is clearly small enough.
    """
    marks = sum(text.count(mark) for mark in ",[{")
    if marks <= MOST_VALUES:
        return marks
    bare = re.sub(_STRING, "", text, flags=re.DOTALL)
    return sum(bare.count(mark) for mark in ",[{")


def _refuse_depth(found: Text) -> None:
    depth = 0
    for mark in _MARK.finditer(found.text):
        depth += bool(mark[1]) - bool(mark[2])
        if depth > MOST_DEPTH:
            found.refuse(mark.start(), "too-deep", f"more than {MOST_DEPTH} levels of nesting", "use fewer")


def _refuse_syntax(found: Text, said: str, byte: int) -> NoReturn:
    past = said == "trailing characters"  # of these, the reader says where the second begins
    at = len(found.text.encode()[: byte - past].decode(errors="ignore"))
    rest = found.text[at : at + _SHOWN].partition("\n")[0]
    word = _WORD.match(rest)
    shown = word[0] if word else rest[:1]
    if said.startswith(("expected", "trailing")):
        said += f" before {shown!r}" if said.startswith("expected") else ""
    elif said == "invalid character":
        said = f"{shown!r} is not possible here" if shown else "a word that is not true, false or null"
    found.refuse(at, "not-json", f"not JSON: {said}", _FIX)


def _refuse_number(found: Text) -> None:
    for number in _NUMBER.finditer(found.text):
        digits = number[1] or "0"
        if len(digits) > _MOST_DIGITS or (digits.count("e") + digits.count("E") and _is_endless(digits)):
            found.refuse(
                number.start(),
                "number",
                f"number {digits[:_SHOWN]!r} is too large",
                "write a smaller one, or put it in quotes",
            )


def _is_endless(digits: str) -> bool:
    try:
        return math.isinf(float(digits))
    except ValueError:
        return False


def _refuse_surrogate(found: Text) -> None:
    for escape in _ESCAPE.finditer(found.text):
        if (escape[1] and not escape[2]) or escape[3]:
            found.refuse(
                escape.start(),
                "encoding",
                f"{found.text[escape.start() : escape.start() + 6]} is half of a surrogate pair",
                "write the character itself, in UTF-8",
            )


def _refuse_twice(found: Text) -> None:
    """Refuse the first key that an object has twice."""
    objects: list[dict[str, int]] = []
    for mark in _NAMING.finditer(found.text):
        if mark[1]:
            name = msgspec.json.decode(mark[1], type=str)
            first = objects[-1].setdefault(name, mark.start())
            if first != mark.start():
                found.refuse(
                    mark.start(),
                    "given-twice",
                    f"{name[:_SHOWN]!r} is given twice, after {found.place(first)}",
                    "write it once",
                )
        elif mark[2]:
            objects.append({})
        elif mark[3]:
            objects.pop()
