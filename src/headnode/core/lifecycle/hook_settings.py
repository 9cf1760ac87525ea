"""What a site does on nodes around jobs: cluster parameters that the rules of jobs depend on."""

from collections.abc import Mapping

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.quantities import Seconds

PROLOG_TIMEOUT = 300
EPILOG_TIMEOUT = 300
NODE_FILTER_TIMEOUT = 60
"""How long each may take, in seconds, unless the parameters of these names say otherwise."""

MARGIN = 60.0
"""Seconds that a node has, beside the time its programs may take, to kill what a job left and to say so."""

_BEFORE = ("PrologProgram", "NodeFilterDirectory")
_AFTER = ("EpilogProgram", "NodeFilterDirectory")
HOOKS = frozenset((*_BEFORE, *_AFTER))
"""The parameters that name what nodes run."""


def readies_nodes(cluster: Cluster) -> bool:
    """Whether nodes do something before a job that comes to them may start anything there."""
    return any(cluster.parameters.get(name) for name in _BEFORE)


def has_hooks(parameters: Mapping[str, str | None]) -> bool:
    """Whether a site with these parameters does anything around jobs."""
    return any(parameters.get(name) for name in HOOKS)


def cleans_nodes(cluster: Cluster) -> bool:
    """Whether nodes do something after a job has gone."""
    return any(cluster.parameters.get(name) for name in _AFTER)


def cleaning_time(cluster: Cluster, *, unready: bool) -> Seconds:
    """Return how long a node may take until it must be clean; if it is `unready` a prolog must end first."""
    wanted = {"EpilogTimeout": EPILOG_TIMEOUT, "NodeFilterTimeout": NODE_FILTER_TIMEOUT}
    if unready:
        wanted["PrologTimeout"] = PROLOG_TIMEOUT
    return Seconds(
        MARGIN + sum(float(cluster.parameters.get(name, default)) for name, default in wanted.items())
    )
