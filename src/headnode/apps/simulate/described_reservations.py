"""Reservations of a machine that past jobs are replayed on: ``node[1-4]@1:18:00+2:00``."""

import re
from collections.abc import Sequence

from headnode.apps.simulate.machine import Machine
from headnode.core.formats.native_form.node_names import parse_nodes
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import FOREVER, Instant, parse_run_time
from headnode.core.model.reservation import NodeReservation

_FORM = re.compile(r"(?P<nodes>.+)@(?P<after>[0-9:]+)\+(?P<lasts>[0-9:]+)\Z")


def read_reservations(texts: Sequence[str], machine: Machine) -> tuple[NodeReservation, ...]:
    """Read reservations for maintenance, in seconds after the first job of a log comes.

    Unit:    ``NODES@AFTER+LASTS``, both times as ``[[days:]hours:]minutes``.
    Raises:  BadRequest ``reservation``, ``nodes`` or ``run-time``.
    """
    known = {node.name.lower(): node.name for node in machine.nodes}
    found: list[NodeReservation] = []
    for number, text in enumerate(texts, start=1):
        form = _FORM.match(text.strip())
        if form is None:
            raise _wrong(text, "is not understood")
        after, lasts = parse_run_time(form["after"]), parse_run_time(form["lasts"])
        if lasts in (0, FOREVER):
            raise _wrong(text, "takes no time")
        names = parse_nodes(form["nodes"])
        strange = [name for name in names if name.lower() not in known]
        if strange:
            raise _wrong(text, f"names {strange[0]!r}, which --nodes does not describe")
        nodes = tuple(known[name.lower()] for name in names)
        begins, ends = Instant(after), Instant(after + lasts)
        found.append(NodeReservation(name=f"reservation{number}", begins=begins, ends=ends, nodes=nodes))
    return tuple(found)


def _wrong(text: str, what: str) -> BadRequest:
    return BadRequest(
        code="reservation",
        what=f"reservation {text!r} {what}",
        fix="write nodes, its begin after the first job arrives, and its duration, for "
        "example node[1-4]@1:18:00+2:00 for two hours from 1 day and 18 hours on",
    )
