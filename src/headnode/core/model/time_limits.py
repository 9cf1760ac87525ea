"""Time limits as people type them, and as messages write them: ``1h30m``.

Source: CCS, "Standard job and task options", row *runtime*; Slurm, ``sbatch --time``.
"""

import math
import re
from types import MappingProxyType

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import FOREVER, Seconds, parse_run_time

_WITH_UNITS = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?:in)?)?(?:(\d{1,9})s)?\Z", re.ASCII)
_DAYS_AND_CLOCK = re.compile(r"(\d{1,9})-(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?\Z", re.ASCII)
_UNITS = MappingProxyType({"d": 86400, "h": 3600, "m": 60, "s": 1})


def parse_time_limit(text: str) -> Seconds:
    """Read a time limit of the command line.

    Unit:    seconds (returned).
    Read:    minutes (``90``), numbers with units (``1h30m``, ``45s``), ``days-hours[:minutes[:seconds]]``,
             ``[[days:]hours:]minutes``, ``infinite`` or ``unlimited``.
    Raises:  BadRequest ``run-time``.

    >>> parse_time_limit("1h30m"), parse_time_limit("1-12:30"), parse_time_limit("90")
    (5400.0, 131400.0, 5400.0)
    """
    plain = "".join(text.split()).lower()
    if plain == "unlimited":
        return FOREVER
    found = _WITH_UNITS.match(plain) or _DAYS_AND_CLOCK.match(plain)
    if found is None or not plain:
        return _compute_cluster(text)
    counts = (int(count or 0) for count in found.groups())
    return Seconds(float(sum(count * unit for count, unit in zip(counts, _UNITS.values(), strict=True))))


def _compute_cluster(text: str) -> Seconds:
    try:
        return parse_run_time(text)
    except BadRequest as wrong:
        fix = "write it with units, for example 1h30m, 90m or 2d, or infinite"
        raise BadRequest(code=wrong.code, what=wrong.what, fix=fix) from wrong


def format_time_limit(span: Seconds) -> str:
    """Write a time limit with its units; whole minutes, rounded up.

    >>> format_time_limit(Seconds(5400.0)), format_time_limit(Seconds(90000.0)), format_time_limit(FOREVER)
    ('1h30m', '1d1h', 'infinite')
    """
    if span == FOREVER:
        return "infinite"
    left, parts = math.ceil(span / 60) * 60, []
    for unit, seconds in _UNITS.items():
        count, left = divmod(left, seconds)
        parts.append(f"{count}{unit}" if count else "")
    return "".join(parts) or "0m"
