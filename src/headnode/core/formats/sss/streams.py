"""Where a job reads and writes, and what it is told about: streams, notifications, environment.

Source: SSS 3.1.0, "OutputFile", "ErrorFile", "InputFile", "NotificationList", "Environment", "Variable".
"""

from enum import StrEnum

import msgspec

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.properties import Property


class Redirect(StrEnum):
    """What is done with a stream besides naming its file."""

    APPEND = "Append"
    CLOSE = "Close"
    FLUSH = "Flush"
    KEEP = "Keep"
    MERGE = "Merge"  # output and errors go to one place


class Stream(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """InputFile, OutputFile or ErrorFile.  Several of them take effect in their order."""

    redirects: tuple[Redirect, ...] = ()


class Notifications(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Events, with commas between them, that are told to `uri`."""

    uri: str = ""


class Variable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A variable; blanks in its value count."""

    name: str
    value: str = ""
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class Environment(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Variables of the job or task."""

    name: str = "Environment"
    variables: tuple[Variable, ...] = ()
