"""The commands of a submit file for a job, with its requirements and rank; they say what the language cannot.

Source:  HTCondor 24, condor_submit(1).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from headnode.core.formats.condor.requirements import is_feature
from headnode.core.formats.fidelity import Fidelity, LossReport, WrittenParts
from headnode.core.model.job import HeldAmounts, JobSpec, Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, StagedFile, TaskSpec, TaskType

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


WRITTEN_PARTS: Final[WrittenParts] = {
    HeldAmounts: frozenset({"memory", "disk"}),
    NodeNeeds: frozenset((
        *("names", "excluded", "patterns", "excluded_patterns", "features", "lacking", "architectures"),
        *("systems", "minimum_memory", "minimum_disk", "minimum_processors"),
    )),
    Distribution: frozenset({"nodes"}),
    OrderKey: frozenset({"by", "ascending"}),
    Licence: frozenset({"feature", "amount"}),
    StagedFile: frozenset({"path", "url"}),
}  # fmt: skip
WRITTEN_OF_JOB: Final = frozenset((
    *("name", "description", "project", "priority", "unit", "processors_per_gpu", "minimum", "maximum"),
    *("single_node", "run_time", "licences", "node_groups", "node_group_op", "requested_nodes"),
    *("excluded_nodes", "order_by", "process_memory", "held", "needs", "together", "task_retry_limit"),
    *("valid_exit_codes", "hold_until", "holds", "resource_limits", "notify_on_completion", "email"),
    *("environment", "tasks", "properties", "dialect", "storage_base"),
))  # fmt: skip
WRITTEN_OF_TASK: Final = frozenset((
    *("name", "command", "script", "kind", "minimum", "maximum", "run_time", "rerunnable", "standard_input"),
    *("standard_output", "standard_error", "work_directory", "private_directory", "distribution", "start"),
    *("end", "increment", "environment", "stage_in", "stage_out", "storage_base", "needs", "depends_on"),
    "properties",
))  # fmt: skip

NO_CALL = re.compile(r"\$(?=\$*[A-Za-z_]*\()")
"""What would be a macro in a text, and is none."""
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*\Z")
_NORMAL = 2000
_MANY = "each process of several"


def count_of(spec: JobSpec) -> int:
    """Return how many processes a job has."""
    return sum(task.instances for task in spec.tasks)


def is_gang(spec: JobSpec) -> bool:
    """Return whether the job is one of the parallel universe: a sweep whose instances start together."""
    first = spec.tasks[0]
    plain = first.kind is TaskType.SWEEP and (first.start, first.increment) == (0, 1)
    return spec.together and len(spec.tasks) == 1 and plain


def commands_of_job(spec: JobSpec, losses: LossReport) -> dict[str, str]:
    """Return the commands that are the same for all processes."""
    lines = _JobLines(spec, losses)
    return {
        name: text
        for each in (lines.kind(), lines.request(), lines.policy(), lines.rest())
        for name, text in each
    }


class _JobLines:
    """The commands of a job, by topic."""

    def __init__(self, spec: JobSpec, losses: LossReport) -> None:
        self._spec, self._losses, self._count = spec, losses, count_of(spec)
        self._task = spec.tasks[0]
        gpus = spec.unit is UnitType.GPU
        self._processors = self._task.minimum * (spec.processors_per_gpu if gpus else 1)

    def _add(self, what: str, kind: Fidelity = Fidelity.NOT_SUPPORTED) -> None:
        self._losses.add(kind, "job", what)

    def kind(self) -> Iterator[tuple[str, str]]:
        spec = self._spec
        if is_gang(spec):
            yield "universe", "parallel"
            yield "machine_count", str(self._count)
            yield "+ParallelShutdownPolicy", '"WAIT_FOR_ALL"'
        elif spec.together:
            self._add("together: only one sweep from 0 can be a job of the parallel universe")
        if spec.name:
            yield "batch_name", one_line(spec.name, "name", self._losses)
        else:
            self._add("name: without one, the job is called as its program", Fidelity.TRANSLATED)
        if spec.description:
            yield "description", one_line(spec.description, "description", self._losses)
        if spec.project:
            yield "accounting_group", one_line(spec.project, "project", self._losses)

    def request(self) -> Iterator[tuple[str, str]]:
        spec, task = self._spec, self._task
        if spec.unit is UnitType.GPU:
            yield "request_gpus", str(task.minimum)
        elif spec.unit is not UnitType.PROCESSOR:
            self._add(f"unit: a process requests processors or GPUs, not {spec.unit.value}s")
        elif spec.processors_per_gpu != 1:
            self._add(f"processors_per_gpu: {spec.processors_per_gpu}: the job counts no GPUs")
        if self._processors > 1 or spec.unit is UnitType.GPU:
            yield "request_cpus", str(self._processors)
        self._sizes()
        yield from self._amounts()
        if task.needs not in (NodeNeeds(), spec.needs):
            what = "needs: they are requirements of the whole job"
            self._losses.add(Fidelity.TRANSLATED, "task", what)
        if requirements := requirements_of(spec, list(dict.fromkeys((spec.needs, task.needs))), self._losses):
            yield "requirements", requirements
        if rank := rank_of(spec, self._losses):
            yield "rank", rank
        yield from self._licences()
        yield from self._at_once()

    def _sizes(self) -> None:
        task, spec = self._task, self._spec
        if task.maximum != task.minimum:
            what = f"minimum, maximum: a process has {task.minimum}, and never {task.maximum}"
            self._losses.add(Fidelity.APPROXIMATED, "task", what)
        on_one = spec.single_node or (task.distribution is not None and task.distribution.nodes == 1)
        if spec.single_node and self._count > 1:
            self._add("single_node: each process is on one node, but the job is not")
        if task.distribution is not None and task.distribution.nodes > 1:
            self._add(f"distribution: a process is on one node, not on {task.distribution.nodes}")
        elif task.minimum > 1 and not on_one:
            self._add("the processors of a process are on one node", Fidelity.APPROXIMATED)
        if task.distribution is not None and (self._count == 1 or task.minimum == 1):
            self._add("distribution: a process is on one node", Fidelity.TRANSLATED)

    def _amounts(self) -> Iterator[tuple[str, str]]:
        held, each = self._spec.held, self._spec.process_memory
        if held and self._count != 1:
            self._add(f"held: {_MANY} has its own memory and disk, and a node none for all of them")
        elif held.memory or held.disk:
            if held.memory:
                yield "request_memory", f"{held.memory}MB"
            if held.disk:
                yield "request_disk", f"{held.disk}MB"
        if each is None:
            return
        if self._count == 1 and held.memory:
            self._add("process_memory: the job holds another amount of memory")
            return
        if self._count == 1:
            self._add("process_memory: it is the memory of the process", Fidelity.TRANSLATED)
        yield "request_memory", f"{each * self._processors}MB"

    def _licences(self) -> Iterator[tuple[str, str]]:
        words = []
        for licence in self._spec.licences:
            amount = licence.amount
            if (self._count > 1 and amount is not None) or not _ATTRIBUTE.match(licence.feature):
                self._add(f"licences: {_MANY} would hold {licence.feature!r} of its own")
                continue
            if amount is None and self._processors > 1 and self._count > 1:
                self._add(f"licences: {licence.feature!r} for each processor cannot be said")
                continue
            if amount is None and self._count == 1:
                self._add(f"licences: {licence.feature!r} for each of its processors", Fidelity.TRANSLATED)
                amount = self._processors
            words.append(licence.feature if amount in (None, 1) else f"{licence.feature}:{amount}")
            if licence.feature.lower() != licence.feature:
                self._add(f"licences: {licence.feature!r} is written in small letters", Fidelity.TRANSLATED)
        if words:
            yield "concurrency_limits", ",".join(words).lower()

    def _at_once(self) -> Iterator[tuple[str, str]]:
        spec, units = self._spec, self._task.minimum
        if spec.minimum is None and spec.maximum is None:
            return
        most = (spec.maximum or 0) // units
        exact = spec.maximum is not None and spec.maximum % units == 0 and spec.minimum == units
        if exact and 0 < most < self._count and not is_gang(spec):
            yield "max_materialize", str(most)
        elif spec.minimum != self._count * units or spec.maximum != self._count * units or self._count > 1:
            self._add(f"minimum, maximum: processes start one by one, not {spec.minimum} to {spec.maximum}")
        else:
            self._add(f"minimum, maximum: {spec.minimum}, as the process has", Fidelity.TRANSLATED)

    def policy(self) -> Iterator[tuple[str, str]]:
        spec, task = self._spec, self._task
        if not task.rerunnable:
            what = "rerunnable: a process whose machine is lost is started again on another"
            self._losses.add(Fidelity.APPROXIMATED, "task", what)
        if spec.priority != _NORMAL:
            yield "priority", str(spec.priority - _NORMAL)
        if spec.task_retry_limit:
            yield "max_retries", str(spec.task_retry_limit)
        yield from self._codes()
        if spec.holds:
            yield "hold", "true"
            if spec.holds != ("user",):
                self._add(f"holds: one hold stands for {', '.join(spec.holds)}", Fidelity.TRANSLATED)
        if spec.hold_until is not None:
            yield "deferral_time", str(round(spec.hold_until))
            if not float(spec.hold_until).is_integer():
                self._add("hold_until: a whole second", Fidelity.APPROXIMATED)
        if spec.run_time != FOREVER:
            kind = Fidelity.TRANSLATED if self._count == 1 else Fidelity.APPROXIMATED
            self._add("run_time: it is the limit of each process, which is held after it", kind)

    def _codes(self) -> Iterator[tuple[str, str]]:
        codes = self._spec.valid_exit_codes
        if codes == ((0, 0),):
            return
        if len(codes) == 1 and codes[0][0] == codes[0][1] and codes[0][0] >= 0:
            yield "success_exit_code", str(codes[0][0])
        else:
            self._add("valid_exit_codes: there is one exit code of success")

    def rest(self) -> Iterator[tuple[str, str]]:
        spec = self._spec
        if spec.notify_on_completion:
            yield "notification", "Complete"
        if spec.email:
            yield "notify_user", one_line(spec.email, "email", self._losses)
        for limit in spec.resource_limits:
            if limit.name == "core" and limit.soft == limit.hard and limit.soft is not None:
                yield "coresize", str(limit.soft)
            else:
                self._add(f"resource_limits: {limit.name}: {limit.soft}:{limit.hard} cannot be said")
        if spec.storage_base:
            self._add("storage_base: staged files have their whole URLs", Fidelity.TRANSLATED)
        if spec.environment:
            self._add("environment: each process has it", Fidelity.TRANSLATED)
        for name, value in spec.properties.items():
            if _ATTRIBUTE.match(name) and "\n" not in value:
                text = value.replace("\\", "\\\\").replace('"', '\\"')
                yield f"+{name}", f'"{NO_CALL.sub("$(DOLLAR)", text)}"'
            else:
                self._add(f"properties: {name!r} cannot be the name of an attribute")


def one_line(text: str, field: str, losses: LossReport) -> str:
    """Return a text as the value of a command: macros in it have no effect."""
    plain = " ".join(text.split("\n")).strip().rstrip("\\")
    if plain != text:
        losses.add(Fidelity.APPROXIMATED, "job", f"{field}: its line breaks and blanks are not kept")
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        plain = '"' + re.sub(r'(["\\])', r"\\\1", plain) + '"'
    return NO_CALL.sub("$(DOLLAR)", plain)


def queue_of(spec: JobSpec, task: TaskSpec) -> str:
    """Return the queue command for a task."""
    return "queue" if is_gang(spec) or task.kind is not TaskType.SWEEP else f"queue {task.instances}"
