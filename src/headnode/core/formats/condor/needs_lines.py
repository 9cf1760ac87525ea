"""What a job requires of nodes, as the expressions requirements and rank of a submit file."""

import re
from collections.abc import Iterator, Sequence

from headnode.core.formats.condor.requirements import is_feature
from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model.job import JobSpec, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds

_ATTRIBUTES = {"memory": "Memory", "processors": "Cpus", "speed": "Mips"}
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def requirements_of(spec: JobSpec, needs: Sequence[NodeNeeds], losses: LossReport) -> str:
    """Return the expression that a node must meet; "" if any node will do.

    needs:  of the job, and of its tasks
    """
    found = list(
        dict.fromkeys((*_of_job(spec, losses), *(term for one in needs for term in _terms(one, losses))))
    )
    return " && ".join(found)


def rank_of(spec: JobSpec, losses: LossReport) -> str:
    """Return the expression of the order in which nodes are preferred; "" if there is none."""
    if not spec.order_by:
        return ""
    if len(spec.order_by) > 1:
        others = ", ".join(str(key.by) for key in spec.order_by[1:])
        losses.add(Fidelity.NOT_SUPPORTED, "job", f"order_by: rank has one key, and {others} are left out")
    first = spec.order_by[0]
    return f"{'-' if first.ascending else ''}{_ATTRIBUTES[first.by]}"


def _of_job(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    if spec.requested_nodes:
        losses.add(Fidelity.TRANSLATED, "job", "requested_nodes: they are Machine in requirements")
        yield _one_of("Machine", spec.requested_nodes)
    if spec.excluded_nodes:
        losses.add(Fidelity.TRANSLATED, "job", "excluded_nodes: they are Machine in requirements")
        yield from (f'Machine != "{_text(name)}"' for name in spec.excluded_nodes)
    if spec.node_group_op is not NodeGroupOp.INTERSECT and len(spec.node_groups) < 2:
        losses.add(
            Fidelity.TRANSLATED,
            "job",
            f"node_group_op: {spec.node_group_op.value}: there are not several groups",
        )
    if spec.node_groups:
        if spec.node_group_op is NodeGroupOp.UNIFORM and len(spec.node_groups) > 1:
            what = "node_groups: that all nodes are of one group cannot be said"
            losses.add(Fidelity.NOT_SUPPORTED, "job", what)
            return
        losses.add(Fidelity.TRANSLATED, "job", "node_groups: they are attributes of machines in requirements")
        if spec.node_group_op is NodeGroupOp.UNION:
            yield from _features((spec.node_groups,), losses)
        else:
            yield from _features(tuple((name,) for name in spec.node_groups), losses)


def _terms(needs: NodeNeeds, losses: LossReport) -> Iterator[str]:
    for names, attribute in (
        (needs.names, "Machine"),
        (needs.architectures, "Arch"),
        (needs.systems, "OpSys"),
    ):
        if names:
            yield _one_of(attribute, names)
    yield from (f'Machine != "{_text(name)}"' for name in needs.excluded)
    for patterns, sign in ((needs.patterns, ""), (needs.excluded_patterns, "!")):
        if patterns:
            losses.add(
                Fidelity.TRANSLATED, "job", f"needs: patterns of names are {sign}regexp() in requirements"
            )
            either = "|".join(f"(?:{pattern})" for pattern in patterns)
            yield f'{sign}regexp("^(?:{_text(either)})$", Machine, "i")'
    yield from _features(needs.features, losses)
    yield from (f"{name} =!= true" for name in needs.lacking if _is_name(name, losses))
    for attribute, amount in (
        ("Memory", needs.minimum_memory),
        ("Disk", needs.minimum_disk * 1024),
        ("Cpus", needs.minimum_processors),
    ):
        if amount:
            yield f"{attribute} >= {amount}"


def _one_of(attribute: str, names: Sequence[str]) -> str:
    terms = [f'{attribute} == "{_text(name)}"' for name in names]
    return terms[0] if len(terms) == 1 else f"({' || '.join(terms)})"


def _features(choices: Sequence[Sequence[str]], losses: LossReport) -> Iterator[str]:
    for choice in choices:
        if not choice:
            losses.add(Fidelity.NOT_SUPPORTED, "job", "features: a choice of none, which no node has")
            continue
        named = [_is_name(name, losses) for name in choice]
        if all(named):
            yield choice[0] if len(choice) == 1 else f"({' || '.join(choice)})"


def _is_name(name: str, losses: LossReport) -> bool:
    if _NAME.match(name) and is_feature(name.lower()):
        return True
    what = f"the feature {name!r} cannot be the name of an attribute of machines"
    losses.add(Fidelity.NOT_SUPPORTED, "job", what)
    return False


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
