"""Values of the command line that say what is asked of nodes, and how processes are laid on them and limited.

>>> read_features("gpu,big|huge"), read_distribution("{1,3}{2}").geometry
((('gpu',), ('big', 'huge')), ((1, 3), (2,)))
"""

import re
from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native_form.process_values import parse_limits
from headnode.core.formats.values import NAMES, NODES, parse_least, parse_names
from headnode.core.model.errors import BadRequest
from headnode.core.model.limits import ResourceLimit
from headnode.core.model.task import Distribution

_NUMBERED = re.compile(r"\s*(per-?node|nodes)\s*=\s*([0-9]{1,9})\s*\Z", re.IGNORECASE)
_GEOMETRY = re.compile(r"\s*(?:\{[0-9,\s]{1,100000}\}\s*)+\Z")
_BLOCK = re.compile(r"\{([^}]*)\}")


def read_features(text: str) -> tuple[tuple[str, ...], ...]:
    """Read features: a comma is between those wanted together, | between those to choose from."""
    return tuple(
        tuple(name.strip() for name in choice.split("|") if name.strip()) for choice in parse_names(text)
    )


def read_pattern(text: str) -> tuple[str, ...]:
    """Read a regular expression, in which a comma is a sign like any other."""
    return (text.strip(),) if text.strip() else ()


def read_distribution(text: str) -> Distribution | None:
    """Read ``per-node=2``, ``nodes=3``, ``round-robin`` or a geometry; nothing leaves it to the cluster.

    Raises:  BadRequest ``distribution``.
    Source:  SSS 3.1.0, "TaskDistribution", for the way in which a geometry is written.
    """
    if not text.strip():
        return None
    if re.fullmatch(r"round-?robin", text.strip(), re.IGNORECASE):
        return Distribution(round_robin=True)
    numbered = _NUMBERED.match(text)
    if numbered:
        number = int(numbered[2])
        if number == 0:
            raise BadRequest(code="distribution", what=f"{text!r} leaves no place", fix="write 1 or more")
        evenly = numbered[1].lower() == "nodes"
        return Distribution(nodes=number) if evenly else Distribution(per_node=number)
    blocks = [parse_names(block) for block in _BLOCK.findall(text)] if _GEOMETRY.match(text) else []
    if not blocks or not all(name.isdigit() and len(name) < 10 for block in blocks for name in block):
        raise BadRequest(
            code="distribution",
            what=f"{text!r} is not a distribution of processes over nodes",
            fix="write per-node=2, nodes=3, round-robin, or the processes of each node: {1,2}{3}",
        )
    return Distribution(geometry=tuple(tuple(map(int, block)) for block in blocks))


def read_limits(text: str) -> tuple[ResourceLimit, ...]:
    """Read ``name=limit`` or ``name=soft:hard``, separated by commas.

    Raises:  BadRequest ``resource-limit``.
    """
    return parse_limits([*parse_names(text)])


def _amount(text: str) -> int:
    return parse_least(text) or 0 if text.strip() else 0


NEEDS: Mapping[str, tuple[str, Any]] = {
    "feature": ("features", read_features),
    "lacking": ("lacking", NAMES.read),
    "featurepattern": ("feature_patterns", read_pattern),
    "architecture": ("architectures", NAMES.read),
    "system": ("systems", NAMES.read),
    "onlynodes": ("names", NODES.read),
    "avoidnodes": ("excluded", NODES.read),
    "nodepattern": ("patterns", read_pattern),
    "avoidpattern": ("excluded_patterns", read_pattern),
    "diskpernode": ("minimum_disk", _amount),
    "swappernode": ("minimum_swap", _amount),
    "virtualpernode": ("minimum_virtual", _amount),
    "speedpernode": ("minimum_speed", _amount),
}
"""Options of jobs and of tasks that say what is demanded of every node; the fields, and how they are read."""

NEEDS_OF_TASKS: Mapping[str, tuple[str, Any]] = {
    **NEEDS,
    "memorypernode": ("minimum_memory", _amount),
    "corespernode": ("minimum_processors", _amount),
}
"""The same for a task, for which these two are no fields of their own."""
