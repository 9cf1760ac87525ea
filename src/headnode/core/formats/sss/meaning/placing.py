"""TaskDistribution: how the tasks of a group, or the processors of a job, lie on nodes.

Source: SSS 3.1.0, "TaskDistribution".
"""

from collections.abc import Iterable, Iterator

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.conditions import Distribution, DistributionKind
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.wishes import Bounds
from headnode.core.formats.sss.properties import Property
from headnode.core.model.task import Distribution as Placed

ROUND_ROBIN = "RoundRobin"
_MOST = 1_000_000


def is_understood(one: Distribution) -> bool:
    """Whether Headnode can lay tasks so: any distribution but a rule that it does not know."""
    return one.kind is not DistributionKind.RULE or str(one.value).lower() == ROUND_ROBIN.lower()


def _found(properties: Iterable[Property]) -> Distribution | None:
    return next((one for one in properties if isinstance(one, Distribution)), None)


def each_of(properties: Iterable[Property]) -> Bounds | None:
    """Return the processors of each task, when a TaskDistribution says so."""
    one = _found(properties)
    return (one.number, one.number) if one and one.kind is DistributionKind.PROCESSORS_PER_TASK else None


def numbered(properties: Iterable[Property]) -> int:
    """Return how many tasks a geometry numbers; 0 without one."""
    one = _found(properties)
    return sum(map(len, one.geometry)) if one else 0


def distribution_of(properties: Iterable[Property]) -> Placed | None:
    """Return how tasks are laid on nodes; None: anyhow."""
    one = _found(properties)
    if one is None or not is_understood(one) or one.kind is DistributionKind.PROCESSORS_PER_TASK:
        return None
    if one.kind is DistributionKind.RULE:
        return Placed(round_robin=True)
    return Placed(per_node=min(one.number, _MOST), geometry=one.geometry)


def distribution_back(placed: Placed | None, where: str, findings: Findings) -> Iterator[Property]:
    """Yield the TaskDistribution that says the same; a number of nodes is said by NodeCount."""
    if placed is None:
        return
    if placed.round_robin and (placed.per_node or placed.geometry):
        what = "distribution: one TaskDistribution is written, so its round robin is left out"
        findings.add(Kind.NOT_SUPPORTED, where, what)
    if placed.per_node:
        yield _written(DistributionKind.TASKS_PER_NODE, str(placed.per_node))
    elif placed.geometry:
        blocks = ("{" + ",".join(map(str, group)) + "}" for group in placed.geometry)
        yield _written(DistributionKind.GEOMETRY, "".join(blocks))
    elif placed.round_robin:
        yield _written(DistributionKind.RULE, ROUND_ROBIN)


def _written(kind: DistributionKind, value: str) -> Distribution:
    return Distribution(name="TaskDistribution", kind=kind, value=value)
