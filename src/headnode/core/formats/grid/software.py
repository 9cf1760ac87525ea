"""Packages that a task needs, as features of nodes.

Source: the Pilot service, requirements, "software": a list of packages, each with a version or without.
"""

import re

from headnode.core.model.node_needs import NodeNeeds

_PACKAGE = re.compile(r"\s*([^\s<>=!,]+)\s*(?:(<=|>=|==|!=|<|>)\s*([^\s<>=!,]+)\s*)?\Z")
Features = tuple[tuple[str, ...], ...]


def packages(software: str) -> tuple[Features, bool] | None:
    """Return packages as features, and whether versions are left out; None when it is no list of packages.

    >>> packages("gcc >= 4.1, python")
    ((('gcc',), ('python',)), True)
    """
    found = [_PACKAGE.match(piece) for piece in software.split(",")]
    names = dict.fromkeys((piece[1],) for piece in found if piece)
    if not all(found):
        return None
    return tuple(names), any(piece[2] for piece in found if piece)


def software_of(needs: NodeNeeds) -> str | None:
    """Return features as a list of packages; None when it cannot say them.

    >>> software_of(NodeNeeds(features=(("gcc",), ("python",))))
    'gcc, python'
    """
    text = ", ".join(choice[0] for choice in needs.features if len(choice) == 1)
    if not needs.features:
        return ""
    return text if packages(text) == (needs.features, False) else None
