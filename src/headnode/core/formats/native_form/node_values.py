"""What is asked of nodes, in the native form: features, speed.

>>> parse_features(["gpu", ["big", "huge"]]), format_features((("gpu",), ("big", "huge")))
((('gpu',), ('big', 'huge')), ['gpu', ['big', 'huge']])
>>> parse_speed("2.4 GHz"), format_speed(2400)
(2400, '2400 MHz')
"""

import re
from typing import Any

from headnode.core.formats.native_form.quantities import refuse, shown
from headnode.core.formats.native_form.rows import Value

_SPEED = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([mg])hz\s*\Z", re.IGNORECASE)
Features = tuple[tuple[str, ...], ...]


def parse_features(value: Any) -> Features:
    """Read a feature, or a list of features, all of which a node must have; a list inside it is a choice.

    Raises:  BadRequest ``features``.
    """
    wanted = [value] if isinstance(value, str) else value
    if not isinstance(wanted, list):
        _refuse_features(value)
    return tuple(_choice(one) for one in wanted)


def _choice(value: Any) -> tuple[str, ...]:
    choices = [value] if isinstance(value, str) else value
    if not isinstance(choices, list) or not all(isinstance(name, str) for name in choices):
        _refuse_features(value)
    return tuple(choices)


def _refuse_features(value: Any) -> None:
    fix = 'write ["gpu", "big"] for both of them, [["gpu", "big"]] for either'
    refuse("features", f"{shown(value)} is no list of features", fix)


def format_features(features: Features) -> str | list[str | list[str]]:
    """Write features as `parse_features` reads them."""
    written = [one[0] if len(one) == 1 else list(one) for one in features]
    return written[0] if len(written) == 1 and isinstance(written[0], str) else written


def parse_speed(value: Any) -> int:
    """Read the speed of a processor with its unit.

    Unit:    MHz (returned).
    Raises:  BadRequest ``speed``.
    """
    found = _SPEED.match(value) if isinstance(value, str) else None
    speed = float(found[1]) * (1000 if found[2] in "gG" else 1) if found else 0.5
    if found is None or abs(speed - round(speed)) > 1e-6:
        fix = 'write a number with its unit, for example "2400 MHz" or "2.4 GHz"'
        refuse("speed", f"{shown(value)} is not the speed of a processor in whole MHz", fix)
    return round(speed)


def format_speed(megahertz: int) -> str:
    """Write a speed as `parse_speed` reads it."""
    return f"{megahertz} MHz"


_TEXT = {"type": "string"}
_ITEM = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
FEATURES = Value(
    "a feature, or a list of them; a list inside is a choice",
    parse_features,
    format_features,
    {"anyOf": [_TEXT, {"type": "array", "items": _ITEM}]},
)
SPEED = Value("a speed: 2400 MHz, 2.4 GHz", parse_speed, format_speed, _TEXT)
