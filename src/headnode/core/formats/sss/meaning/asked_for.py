"""What a job and its tasks ask for, in the words of both directions: from the fields of the model.

Source: SSS 3.1.0, "Requested"; what a task group says counts in place of what its job says.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.losses import Texts
from headnode.core.formats.sss.meaning.simple import span
from headnode.core.formats.sss.meaning.sizes_back import of_task, sized
from headnode.core.formats.sss.meaning.wishes import CONSUMED, NOTHING, OF_NODES, Wishes, says
from headnode.core.model.held import Held
from headnode.core.model.job import JobSpec, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.patterns import matching
from headnode.core.model.task import TaskSpec

Words = tuple[str, ...]


def scopes_of(
    spec: JobSpec, tasks: tuple[TaskSpec, ...], findings: Findings, *, alone: bool
) -> tuple[Wishes, ...]:
    """Return what the job asks for, and then what each task does that has a task group of its own."""
    job = _of_job(spec, sized(spec, tasks, findings, alone=alone), findings)
    own = [] if alone else [_of_task(spec, task, number, findings) for number, task in enumerate(tasks, 1)]
    job = _possible(_with_held(spec, job, own), "job", findings)
    if alone:
        _tell_held(spec, (job,), findings)
        return (job,)
    for name, fields in OF_NODES.items():
        if says(job, fields) and any(says(one, fields) for one in own):
            own = [_both(job, one, fields, findings) for one in own]
            job = replace(job, **{field: getattr(NOTHING, field) for field in fields})
            for field in _FIELDS_OF.get(name, ()):
                what = f"{field}: what job and tasks ask for of {name}, is said of each task"
                findings.add(Kind.TRANSLATED, "job", what)
    tasks_own = (_possible(one, f"task {number}", findings) for number, one in enumerate(own, 1))
    found = (job, *tasks_own)
    _tell_held(spec, found, findings)
    return found


def _with_held(spec: JobSpec, job: Wishes, tasks: Sequence[Wishes]) -> Wishes:
    """Return what the job asks for with what it holds of a node, unless its tasks say what they need."""
    more = {
        field: getattr(spec.held, name)
        for name, field in CONSUMED.items()
        if getattr(spec.held, name) > (getattr(job, field) or 0)
        and not any(says(one, (field,)) for one in tasks)
    }
    return replace(job, **more) if more else job


def _tell_held(spec: JobSpec, scopes: Sequence[Wishes], findings: Findings) -> None:
    """Tell what is held otherwise: in SSS all that is asked for of a node is held."""
    most = {name: max(getattr(one, field) or 0 for one in scopes) for name, field in CONSUMED.items()}
    back = Held(**most)
    if back != spec.held:
        what = "held: the job holds all memory, disk and swap that it asks for of a node"
        findings.add(Kind.APPROXIMATED, "job", what)
    moved = (
        ("minimum_memory", max(spec.minimum_memory or 0, spec.needs.minimum_memory) < spec.held.memory),
        ("needs", spec.needs.minimum_disk < spec.held.disk or spec.needs.minimum_swap < spec.held.swap),
    )
    for field, is_moved in moved:
        if is_moved:
            findings.add(Kind.TRANSLATED, "job", f"{field}: every node must have what the job holds of it")


def _possible(wishes: Wishes, where: str, findings: Findings) -> Wishes:
    """Return `wishes` without what no node can meet beside the rest: a document that says it is refused."""
    if wishes.most_memory is not None and wishes.most_memory < (wishes.least_memory or 0):
        what = "maximum_memory: it is below what is needed: it is left out"
        findings.add(Kind.NOT_SUPPORTED, where, what)
        wishes = replace(wishes, most_memory=None)
    excluded, patterns = wishes.excluded_patterns, wishes.patterns
    if not wishes.names or any(
        name not in wishes.excluded
        and (not patterns or any(matching(text, [name]) for text in patterns))
        and not any(matching(text, [name]) for text in excluded)
        for name in wishes.names
    ):
        return wishes
    what = "needs: no node that is asked for by name may be taken; the names alone are written"
    findings.add(Kind.NOT_SUPPORTED, where, what)
    return replace(wishes, excluded=(), patterns=(), excluded_patterns=())


_FIELDS_OF = {
    "Memory": ("needs", "minimum_memory", "maximum_memory"),
    "Node": ("needs", "requested_nodes", "excluded_nodes"),
    "Feature": ("needs", "node_groups"),
    **dict.fromkeys(("Disk", "Swap", "Architecture", "OperatingSystem"), ("needs",)),
}


def _of_job(spec: JobSpec, size: dict[str, Any], findings: Findings) -> Wishes:
    texts = Texts("job", findings)
    for field in ("requested_nodes", "excluded_nodes", "node_groups"):
        texts.names(field, getattr(spec, field))
    texts.tell("licences", [licence.feature for licence in spec.licences])
    if any(licence.amount is None for licence in spec.licences):
        what = "licences: one for each processor cannot be said: it is left out"
        findings.add(Kind.NOT_SUPPORTED, "job", what)
    needs = _of_needs(spec.needs, "job", findings)
    partition, features = _groups(spec, findings)
    moved = [field for field in ("names", "excluded", "minimum_memory") if getattr(spec.needs, field)]
    for field in ("needs", "requested_nodes", "excluded_nodes", "minimum_memory") if moved else ():
        what = f"{field}: {', '.join(moved)} of needs have fields of their own in a job"
        findings.add(Kind.TRANSLATED, "job", what)
    return replace(
        needs,
        **size,
        names=_narrowed(spec.requested_nodes, needs.names, "requested_nodes", "job", findings),
        excluded=_joined(spec.excluded_nodes, needs.excluded),
        features=_joined(features, needs.features),
        least_memory=_largest(spec.minimum_memory, needs.least_memory),
        most_memory=spec.maximum_memory,
        partition=partition,
        run_time=span("run_time", spec.run_time, "job", findings),
        licences=tuple(licence for licence in spec.licences if licence.amount is not None),
        project=spec.project,
        reservation=spec.reservation,
        user=spec.run_as,
        queue=spec.template,
    )


def _groups(spec: JobSpec, findings: Findings) -> tuple[str, tuple[Words, ...]]:
    """Return the one node group as a partition, or several as features."""
    names = tuple(dict.fromkeys(spec.node_groups))
    if spec.node_group_op is not NodeGroupOp.INTERSECT:
        _tell_group_op(spec, findings)
    if len(names) < 2:
        return "".join(names), ()
    for field in ("node_groups", "needs"):
        findings.add(Kind.TRANSLATED, "job", f"{field}: several node groups are written as features")
    either = spec.node_group_op is NodeGroupOp.UNION
    return "", (names,) if either else tuple((name,) for name in names)


def _tell_group_op(spec: JobSpec, findings: Findings) -> None:
    if spec.node_group_op is NodeGroupOp.UNION and spec.node_groups:
        what = "node_group_op: a node with one of several features is asked for"
        findings.add(Kind.TRANSLATED, "job", what)
    else:
        what = "node_group_op: SSS has no word for it; every node has all of the features"
        findings.add(Kind.NOT_SUPPORTED, "job", what)


def _of_needs(needs: NodeNeeds, where: str, findings: Findings) -> Wishes:
    """Return what is needed of nodes; tell what has no word."""
    texts = Texts(where, findings)
    choices = (words for words in needs.features)
    for words in (needs.names, needs.excluded, needs.lacking, needs.architectures, needs.systems, *choices):
        texts.names("needs", words)
    texts.names("needs", needs.patterns + needs.excluded_patterns + needs.feature_patterns)
    for field in ("minimum_speed", "minimum_processors", "minimum_virtual"):
        if getattr(needs, field):
            what = f"needs: SSS has no word for {field}: any node will do"
            findings.add(Kind.NOT_SUPPORTED, where, what)
    if () in needs.features:
        findings.add(Kind.NOT_SUPPORTED, where, "needs: one of no features cannot be said: any node will do")
    return Wishes(
        names=_once(needs.names),
        excluded=_once(needs.excluded),
        patterns=_once(needs.patterns),
        excluded_patterns=_once(needs.excluded_patterns),
        features=tuple(dict.fromkeys(_once(words) for words in needs.features if words)),
        feature_patterns=_once(needs.feature_patterns),
        lacking=_once(needs.lacking),
        architectures=_once(needs.architectures),
        systems=_once(needs.systems),
        least_memory=needs.minimum_memory or None,
        disk=needs.minimum_disk,
        swap=needs.minimum_swap,
    )


def _of_task(spec: JobSpec, task: TaskSpec, number: int, findings: Findings) -> Wishes:
    where = f"task {number}"
    texts = Texts(where, findings)
    texts.tell("required_nodes", task.required_nodes)
    texts.tell("node_group", [task.node_group])
    if len(task.required_nodes) > 1:
        what = "required_nodes: a task group asks for one of several nodes, not for all of them"
        findings.add(Kind.NOT_SUPPORTED, where, what)
    required = task.required_nodes if len(task.required_nodes) == 1 else ()
    for field, said in (("required_nodes", required), ("node_group", task.node_group)):
        for name in (field, "needs") if said else ():
            findings.add(Kind.TRANSLATED, where, f"{name}: {field} is needed of the nodes of its task group")
    needs = _of_needs(task.needs, where, findings)
    group = ((task.node_group,),) if task.node_group else ()
    return replace(
        needs,
        **of_task(spec, task),
        run_time=span("run_time", task.run_time, where, findings),
        names=_narrowed(required, needs.names, "required_nodes", where, findings),
        features=_joined(group, needs.features),
    )


def _both(job: Wishes, task: Wishes, fields: Sequence[str], findings: Findings) -> Wishes:
    """Return what a task asks for together with what its job does, of one property."""
    found: dict[str, Any] = {}
    for field in fields:
        one, other = getattr(job, field), getattr(task, field)
        if field in ("names", "architectures", "systems"):
            found[field] = _narrowed(one, other, "needs", "job", findings)
        elif field == "patterns" and one and other and one != other:
            what = "needs: patterns of the job are left out where a task has its own"
            findings.add(Kind.NOT_SUPPORTED, "job", what)
        elif field == "most_memory":
            found[field] = min((each for each in (one, other) if each is not None), default=None)
        elif isinstance(one, tuple):
            found[field] = _joined(one, other)
        else:
            found[field] = _largest(one, other) or getattr(NOTHING, field)
    return replace(task, **found)


def _once(words: Words) -> Words:
    return tuple(dict.fromkeys(words))


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _largest(one: int | None, other: int | None) -> int | None:
    return max(one or 0, other or 0) or None


def _narrowed(one: Words, other: Words, field: str, where: str, findings: Findings) -> Words:
    """Return the words that are in both lists; an empty one names none."""
    if not one or not other:
        return _once(one or other)
    found = tuple(word for word in _once(one) if word in other)
    if not found:
        what = f"{field}: no name is in both lists, so one of them is left out"
        findings.add(Kind.NOT_SUPPORTED, where, what)
    return found or _once(other)
