"""The time zone of the user who types, by its name of IANA."""

import os
import re

from headnode.apps.cli.options import usage

_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_FILES = "/usr/share/zoneinfo"
_MARK = "/zoneinfo/"


def local_zone() -> str:
    """Return the name of the time zone that `TZ` or this machine says; UTC if neither does.

    Raises:  BadRequest ``usage`` if `TZ` is a rule and no name.
    """
    said = os.environ.get("TZ", "").removeprefix(":")
    if said:
        name = said.rpartition(_MARK)[2]
        if _NAME.fullmatch(name) and (name == "UTC" or os.path.isfile(f"{_FILES}/{name}")):  # noqa: PTH113 (pathlib costs 6 ms)
            return name
        raise usage(f"TZ is {said!r}, which is no name of a time zone", "name one: Europe/Berlin")
    linked = os.path.realpath("/etc/localtime")
    name = linked.partition(_MARK)[2].removeprefix("posix/").removeprefix("right/")
    return name or _said_by_debian() or "UTC"


def _said_by_debian() -> str:
    try:
        with open("/etc/timezone", encoding="utf-8") as file:  # noqa: PTH123
            name = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return name if _NAME.fullmatch(name) else ""
