"""The two versions of the job object, and the types of its values: how each is read from text and written."""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn

import msgspec

from headnode.core.formats.text.quantities import parse_date_time
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds


class SssVersion(StrEnum):
    """Which spelling a document uses.

    The job object is the same; 3.0.3 puts the name of the object before its properties (``JobId``), ends
    names of other things in ``Id`` (``UserId``), and wraps what a node is in ``NodeProperties``.
    Source:  SSS 3.1.0 and SSS 3.0.3, their examples; deployed peers speak 3.0.3.
    """

    V3_1 = "3.1.0"
    V3_0 = "3.0.3"


MAX_SECONDS = 2**32 - 1  # DateTime and Duration are unsigned 32-bit numbers
MAX_INTEGER = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?\Z")
_DIGITS = re.compile(r"[0-9]{1,10}\Z")
_ISO = re.compile(r"[0-9]{4}-")


class ValueType(msgspec.Struct, frozen=True):
    """A type.  `read` raises BadRequest; it never sees empty text."""

    name: str  # as the tables of the documents call it
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    words: tuple[str, ...] = ()  # all of them, when it is an enumeration


def parse_integer(text: str) -> int:
    """Read a whole number of at most 64 bits.

    Raises:  BadRequest ``number``.
    """
    if not _INTEGER.match(text) or abs(int(text)) > MAX_INTEGER:
        _refuse("number", text, "a whole number", "write digits, with a sign if need be")
    return int(text)


def parse_count(text: str) -> int:
    """Read a whole number that is not negative.

    Raises:  BadRequest ``number``.
    """
    if not _INTEGER.match(text) or not 0 <= int(text) <= MAX_INTEGER:
        _refuse("number", text, "a count", "write a whole number that is not negative")
    return int(text)


def parse_float(text: str) -> float:
    """Read a decimal number; infinite ones and NaN are no amounts of anything.

    Raises:  BadRequest ``number``.
    """
    if not _FLOAT.match(text) or math.isinf(float(text)):
        _refuse("number", text, "a number", "write a decimal number such as 2 or 1.89")
    return float(text)


def parse_amount(text: str) -> float:
    """Read a number that is not negative.

    Raises:  BadRequest ``number``.
    """
    amount = parse_float(text)
    if amount < 0:
        _refuse("number", text, "an amount", "write a number that is not negative")
    return amount


def format_float(number: float) -> str:
    """Write a number as people do.

    >>> format_float(2.0), format_float(1.89)
    ('2', '1.89')
    """
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def parse_boolean(text: str) -> bool:
    """Read true or false; 1 and 0 are other spellings of them.

    Raises:  BadRequest ``flag``.
    """
    if text not in ("true", "false", "1", "0"):
        _refuse("flag", text, "true or false", "write true or false")
    return text in ("true", "1")


def parse_moment(text: str) -> Instant:
    """Read a DateTime: seconds since 1970-01-01 00:00 UTC, or ISO 8601, whose fractions are cut off.

    Raises:  BadRequest ``date-time``.

    >>> parse_moment("1051557713") == parse_moment("2003-04-28T19:21:53Z")
    True
    """
    moment = math.nan
    if _DIGITS.match(text):
        moment = float(text)
    elif _ISO.match(text):
        moment = float(math.floor(parse_date_time(text)))
    if not 0 <= moment <= MAX_SECONDS:
        fix = "write the seconds since 1970 in UTC, or 2030-01-31T18:00:00Z; the latest date is 2106-02-07"
        _refuse("date-time", text, "a DateTime", fix)
    return Instant(moment)


def parse_span(text: str) -> Seconds:
    """Read a Duration: whole seconds.

    Raises:  BadRequest ``duration``.
    """
    if not _DIGITS.match(text) or int(text) > MAX_SECONDS:
        _refuse("duration", text, "a Duration", f"write whole seconds, at most {MAX_SECONDS}")
    return Seconds(float(text))


def choice(what: str, words: type[StrEnum], *, lower: bool = False) -> ValueType:
    """Return the type of an enumeration, read in any case; `lower` writes it in small letters.

    Raises (when it reads):  BadRequest with `what` as the code.
    """
    known = {word.lower(): word for word in words}

    def read(text: str) -> StrEnum:
        if text.lower() not in known:
            meant = nearest_name(text, words)
            hint = f"did you mean {meant!r}? " if meant else ""
            _refuse(what.replace(" ", "-"), text, f"a known {what}", f"{hint}write {', '.join(words)}")
        return known[text.lower()]

    def write(word: Any) -> str:
        return str(word).lower() if lower else str(word)

    return ValueType("String", read, write, tuple(words))


def _refuse(code: str, text: str, wanted: str, fix: str) -> NoReturn:
    raise BadRequest(code=code, what=f"{text[:80]!r} is not {wanted}", fix=fix)


def _whole(seconds: Any) -> str:
    return str(int(seconds))


STRING = ValueType("String", str, str)
INTEGER = ValueType("Integer", parse_integer, str)
COUNT = ValueType("Integer", parse_count, str)
FLOAT = ValueType("Float", parse_float, format_float)
AMOUNT = ValueType("Float", parse_amount, format_float)
BOOLEAN = ValueType("Boolean", parse_boolean, lambda flag: "true" if flag else "false")
MOMENT = ValueType("DateTime", parse_moment, _whole)
SPAN = ValueType("Duration", parse_span, _whole)
