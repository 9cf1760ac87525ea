"""How much a job uses at a time: its processors, memory and GPUs, each with its weight, added up.

Source:  Slurm, "Trackable RESources (TRES)", TRESBillingWeights: without PriorityFlags=MAX_TRES it is a sum.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from headnode.core.model.bounds import NAME, USAGE_WEIGHT, WEIGHTED_GPU_KINDS
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobRequest, UnitType, gpus_with
from headnode.core.model.node import NodeFacts

WEIGHTS_PARAMETER = "UsageWeights"
UNIT = 1_000_000
"""Weights are counted in millionths: sums of whole numbers are the same in each order."""

_GB = 1024  # MB
_KIND = "gpus:"
_WORDS = ("processors", "memory-gb", "gpus")
_NUMBER = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")
_MAX_SHOWN = 80  # characters of a wrong entry that the error repeats


class UsageWeights(NamedTuple):
    """What a processor, a GB of memory and a GPU count as, in millionths.

    kinds:  of GPUs of nodes with a feature, by the feature in lower case
    """

    processors: int = UNIT
    memory: int = 0
    gpus: int = 0
    kinds: Mapping[str, int] = {}

    def rate(self, request: JobRequest, processors: int, node: NodeFacts | None) -> int:
        """Return what a job uses that holds so many processors of a node.

        A job that owns its nodes uses all their memory and GPUs: nobody else can.
        node:  None if it is not known any more
        """
        if node is not None and (request.exclusive or request.unit is UnitType.NODE):
            memory, gpus = node.memory, node.gpus
        else:
            memory = request.memory * processors + request.held.memory
            gpus = gpus_with(processors, request.processors_per_gpu)
        return self._sum(processors, memory, gpus, () if node is None else node.features)

    def rate_of_node(self, node: NodeFacts) -> int:
        """Return what a job uses that owns a node."""
        return self._sum(node.processors, node.memory, node.gpus, node.features)

    def _sum(self, processors: int, memory: int, gpus: int, features: Collection[str]) -> int:
        total = self.processors * processors + self.memory * memory // _GB
        return total + gpus * self.of_gpu(features) if gpus else total

    def expected(self, request: JobRequest, processors: float) -> float:
        """Return what a job will use that holds so many processors, of nodes that are not known.

        Its GPUs are of a kind if it asks for nodes with the feature of that kind.
        """
        total = self.processors * processors + self.memory / _GB * (
            request.memory * processors + request.held.memory
        )
        if not request.processors_per_gpu:
            return total
        asked = [feature for choice in request.needs.features for feature in choice]
        return total + processors / request.processors_per_gpu * self.of_gpu(asked)

    def of_gpu(self, features: Collection[str]) -> int:
        """Return what a GPU counts as on a node with these features: the most if several have a weight."""
        known = [self.kinds[low] for low in map(str.casefold, features) if low in self.kinds]
        return max(known, default=self.gpus)


@lru_cache(maxsize=4)
def read_usage_weights(text: str) -> UsageWeights:
    """Read ``processors=1,memory-gb=0.25,gpus=2,gpus:a100=4``.

    Raises:  BadRequest ``parameter-value``, which names the entry.
    """
    found: dict[str, int] = {}
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (part.strip() for part in piece.partition("="))
        word = name.casefold()
        feature = word.removeprefix(_KIND) if word.startswith(_KIND) else None
        if word not in _WORDS and not feature:
            raise _wrong(f"{_shown(name)} is not one of {', '.join(_WORDS)}, gpus:FEATURE")
        if feature and (len(feature) > NAME.most or not feature.isprintable()):
            raise _wrong(f"{_shown(feature)} cannot be a feature of a node")
        if word in found:
            raise _wrong(f"{_shown(name)} has two weights")
        found[word] = _weight(name, number)
    kinds = {word.removeprefix(_KIND): weight for word, weight in found.items() if word not in _WORDS}
    if len(kinds) > WEIGHTED_GPU_KINDS.most:
        raise _wrong(f"there are {len(kinds)} kinds of GPUs, and at most {WEIGHTED_GPU_KINDS.most}")
    weights = UsageWeights(
        found.get("processors", UNIT), found.get("memory-gb", 0), found.get("gpus", 0), kinds
    )
    if not any((*weights[:3], *kinds.values())):
        raise _wrong("nothing has a weight above 0")
    return weights


def _weight(name: str, text: str) -> int:
    most = USAGE_WEIGHT.most
    if _NUMBER.fullmatch(text) is None or (found := round(float(text) * UNIT)) > most * UNIT:
        problem = f"is {_shown(text)}" if text else "has no number"
        raise _wrong(f"{_shown(name)} {problem}, and not 0 to {most:,} with at most 6 digits after the point")
    return found


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "...")


def _wrong(what: str) -> BadRequest:
    return BadRequest(
        code="parameter-value",
        what=f"{WEIGHTS_PARAMETER} is not understood: {what}",
        fix="write processors=1,memory-gb=0.25,gpus=2,gpus:a100=4",
    )
