"""What SSS has no word for is reported; what Headnode has no field for is kept in extensions.

Source: SSS 3.1.0, awarenessPolicy, Extension Element."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import msgspec

from headnode.core.formats.fidelity import (
    Awareness,
    Fidelity,
    FidelityReport,
    LossReport,
    ReportItem,
    WrittenParts,
    apply_awareness,
    lost_fields,
)
from headnode.core.formats.hpc_xml.extensions import element_key, written_text
from headnode.core.formats.sss.job_object import JobGroup, SssJob, SssScope, TaskGroup
from headnode.core.formats.sss.properties import Extension, SssProperty
from headnode.core.formats.sss.property_rows import FLAG_FIELDS, TEXT_FIELDS
from headnode.core.formats.sss.reading import read_document
from headnode.core.formats.sss.writing import written_parts
from headnode.core.formats.text.xml_text import is_plain_name
from headnode.core.model.dependency import NamedParent
from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.job import Alternative, HeldAmounts, JobSpec, Licence, TaskAlternative
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec


class _WholeReport:
    """What the findings of all places share."""

    def __init__(self) -> None:
        self.losses = LossReport()
        self.rejected: list[ReportItem] = []
        self.first_rejected: Path = ()
        self.path: Path = ()


class ConversionFindings:
    """The report in the making, for what stands `where`: what is the same in several places is said once."""

    def __init__(self, where: str = "job", whole: "_WholeReport | None" = None) -> None:
        self.where, self._whole = where, whole or _WholeReport()

    def at(self, where: str) -> "ConversionFindings":
        """Return what adds findings of another place to the same report."""
        return ConversionFindings(where, self._whole)

    @property
    def path(self) -> Path:
        """The part of the document that is read: ``("jobs", 1, "task_groups", 0)``, or less of that."""
        return self._whole.path

    @path.setter
    def path(self, path: Path) -> None:
        self._whole.path = path

    def add(self, kind: Fidelity, what: str) -> None:
        """Say what became of something that has an effect, or needs none."""
        self._whole.losses.add(kind, self.where, what)

    def kept(self, what: str) -> None:
        """Say that something stands as it was."""
        self.add(Fidelity.KEPT, what)

    def translated(self, what: str) -> None:
        """Say that something has another word for the same."""
        self.add(Fidelity.TRANSLATED, what)

    def approximated(self, what: str) -> None:
        """Say that something has become the nearest thing that can be said."""
        self.add(Fidelity.APPROXIMATED, what)

    def lost(self, what: str) -> None:
        """Say that something has no effect, whatever the policy."""
        self.add(Fidelity.NOT_SUPPORTED, what)

    def note(self, what: str) -> None:
        """Say what is good to know."""
        self.add(Fidelity.NOTE, what)

    def unsupported(self, policy: Awareness, what: str, *name: str) -> None:
        """Say that something has no effect; keep silent or refuse the job, as `policy` has it.

        `name` is that of the property.
        """
        if policy is Awareness.WARN:
            self.lost(what)
        elif policy is Awareness.REJECT:
            whole = self._whole
            whole.first_rejected = whole.first_rejected if whole.rejected else (*whole.path, *name)
            whole.rejected.append(ReportItem(Fidelity.NOT_SUPPORTED, self.where, what))

    def report(self) -> FidelityReport:
        """Return all findings in the order in which they were made.

        Raises:  BadRequest ``not-understood`` when something was to be rejected; it lists what.
        """
        apply_awareness(Awareness.REJECT, self._whole.rejected, self._whole.first_rejected)
        return self._whole.losses.report()


WRITTEN_OF_JOB = frozenset(
    """description job_group project template priority unit minimum maximum single_node run_time
    minimum_run_time licences node_groups node_group_op requested_nodes excluded_nodes minimum_memory
    maximum_memory minimum_processors_per_node held needs together alternatives parents after_failure
    after_exit after_start after_corresponding named_parents hold_until holds end_by reservation
    resource_limits notify_on_start notify_on_completion email run_as environment tasks properties extensions
    dialect""".split()  # noqa: SIM905
).union(TEXT_FIELDS.values(), FLAG_FIELDS.values())
"""Fields of a job that are written, or whose writers tell what is lost; every other one is lost."""

WRITTEN_OF_TASK = frozenset(
    """name command kind minimum maximum run_time rerunnable standard_input standard_output standard_error
    append_output append_error work_directory required_nodes node_group needs distribution start end increment
    resource_limits environment properties extensions""".split()  # noqa: SIM905
)
"""The same of a task."""

_PART_FIELDS: tuple[tuple[type[msgspec.Struct], str], ...] = (
    (
        NodeNeeds,
        """names excluded patterns excluded_patterns features feature_patterns lacking architectures systems
        minimum_memory minimum_disk minimum_swap minimum_virtual minimum_speed minimum_processors
        minimum_sockets minimum_cores_per_socket minimum_threads_per_core""",
    ),
    (HeldAmounts, "memory disk swap"),
    (Distribution, "per_node nodes round_robin geometry"),
    (Licence, "feature amount"),
    (NamedParent, "name by_id condition"),
    (ResourceLimit, "name soft hard"),
    (
        Alternative,
        """unit minimum maximum run_time exclusive single_node licences node_groups requested_nodes
        excluded_nodes minimum_memory maximum_memory process_memory held needs tasks""",
    ),
    (TaskAlternative, "minimum maximum run_time end needs distribution"),
)
_WRITTEN_PARTS: WrittenParts = {kind: frozenset(fields.split()) for kind, fields in _PART_FIELDS}
"""The same of the structs inside these fields."""

_INSTEAD: Mapping[str, str] = {
    "exclusive": "others may share the node",
    "run_until_canceled": "the job ends with its tasks",
    "preemptable": "jobs of higher priority may preempt it",
    "order_by": "nodes are selected in any order",
    "maximum_processors_per_node": "larger nodes may be selected",
    "process_memory": "no memory is reserved for each process",
    "fail_on_task_failure": "the effect of a failed task is not expressed",
    "fail_dependent_tasks": "tasks do not depend on each other",
    "task_retry_limit": "failed tasks are not retried",
    "valid_exit_codes": "only 0 is success",
    "group_edges": "all tasks start together; write jobs of a job group with dependencies",
    "depends_on": "all tasks start together; write jobs of a job group with dependencies",
    "group": "all tasks start together",
    "private_directory": "the task starts in its work directory",
    "fail_job_on_failure": "the effect of a failed task is not expressed",
    "fail_job_count": "the effect of failed tasks is not expressed",
}
"""What happens instead, of the fields whose loss is not plain."""

_JOB, _TASK = JobSpec(), TaskSpec()


def report_losses(spec: JobSpec, findings: ConversionFindings) -> None:
    """Tell of the fields of a job and of its tasks that are not written."""
    _report("job", spec, _JOB, WRITTEN_OF_JOB, findings)
    for number, task in enumerate(spec.tasks, 1):
        _report(f"task {number}", task, _TASK, WRITTEN_OF_TASK, findings)


def _report(
    where: str,
    spec: JobSpec | TaskSpec,
    defaults: JobSpec | TaskSpec,
    written: Set[str],
    findings: ConversionFindings,
) -> None:
    for field in lost_fields(spec, defaults, written, _WRITTEN_PARTS):
        instead = f"; {_INSTEAD[field]}" if field in _INSTEAD else ""
        findings.at(where).lost(f"{field}: not available in SSS{instead}")


class TextLosses:
    """Tells of texts that come back otherwise: an element has no blanks at the ends of its text."""

    def __init__(self, findings: ConversionFindings) -> None:
        self._findings = findings

    def report(self, field: str, texts: Iterable[str]) -> None:
        """Tell when one of `texts` has blanks at its ends."""
        if any(text != text.strip() for text in texts):
            self._findings.approximated(f"{field}: blanks at the ends of a text are lost")

    def names(self, field: str, names: tuple[str, ...]) -> None:
        """Tell when a list of names comes back otherwise."""
        self.report(field, names)
        if len(set(names)) < len(names):
            self._findings.translated(f"{field}: each name is written once")

    def path(self, field: str, path: str) -> None:
        """Tell when a path comes back otherwise."""
        self.report(field, [path])
        if path == "~" or path.startswith("~/"):
            self._findings.approximated(f"{field}: ~ is the home directory there, and a file called ~ here")


ATTRIBUTE = "attribute."
"""Before the names of attributes of a Job or TaskGroup that nobody understood."""

OURS, PROPERTY, FIELD = "Headnode", "Property", "Headnode.Job"
"""The types of Extensions that hold extensions, properties and fields of a job by their names."""

_ID = "<Id>"
DESCRIPTION = "Description"
"""The field of a job that SSS has for job groups only."""


class OwnExtensions(NamedTuple):
    """What Extensions of our own types hold."""

    extensions: dict[str, str]
    properties: dict[str, str]
    description: str = ""


def own_extensions(properties: Iterable[SssProperty]) -> OwnExtensions:
    """Return the extensions and properties that Extensions of our types among `properties` hold."""
    own = OwnExtensions({}, {})
    for one in properties:
        if not isinstance(one, Extension) or not is_own_extension(one):
            continue
        if one.type == FIELD:
            own = own._replace(description=str(one.value or ""))
        else:
            held = own.extensions if one.type == OURS else own.properties
            held[one.called] = str(one.value or "")
    return own


def is_own_extension(one: Extension) -> bool:
    """Whether it holds an extension, property or field of a job by its name."""
    if one.type == FIELD:
        return one.called == DESCRIPTION
    return one.type in (OURS, PROPERTY) and bool(one.called) and not one.called.startswith("<")


def extensions_of(part: SssJob | TaskGroup) -> dict[str, str]:
    """Return the extensions for the properties of `part`, its Requested, and its odd attributes."""
    odd = {f"{ATTRIBUTE}{name}": value for name, value in part.kept}
    if not part.properties and not part.requested:
        return odd
    indent = "  " if isinstance(part, SssJob) else "    "  # as deep as it stands in a document
    times: Counter[str] = Counter()
    found = dict(odd)
    for element in written_parts(part):
        if isinstance(element, str):
            name, text = _name_of(element), element
        else:
            name, text = element.name, written_text(element, indent)
        times[name] += 1
        found[element_key(name, times[name])] = text
    return found


def _name_of(text: str) -> str:
    """Return the name of the element that begins `text`, without a prefix."""
    tag = text[1:].partition(">")[0].partition(" ")[0]
    return tag.rpartition(":")[2]


def id_read_with(extensions: Mapping[str, str]) -> str:
    """Return the Id that a job had in the document it was read from; "" when it was read from none."""
    return kept_job({_ID: extensions[_ID]}, ConversionFindings()).id if _ID in extensions else ""


def kept_job(extensions: Mapping[str, str], findings: ConversionFindings) -> SssJob:
    """Return what the extensions of a job hold for a Job; what cannot stand there is left out and told."""
    found = _kept(SssJob, extensions, findings)
    return SssJob(**found)


def kept_group(extensions: Mapping[str, str], findings: ConversionFindings) -> TaskGroup:
    """Return what the extensions of a task hold for a TaskGroup; what cannot stand there is told."""
    found = _kept(TaskGroup, extensions, findings)
    return TaskGroup(**found)


def _kept(
    shape: type[SssJob | TaskGroup], extensions: Mapping[str, str], findings: ConversionFindings
) -> dict[str, Any]:
    properties: list[SssProperty] = []
    requested = None
    odd: list[tuple[str, str]] = []
    for key, text in extensions.items():
        scope = _read(shape, text) if key.startswith("<") else None
        if key.startswith(ATTRIBUTE) and _is_name(key.removeprefix(ATTRIBUTE)):
            odd.append((key.removeprefix(ATTRIBUTE), text))
        elif scope:
            properties += scope.properties
            requested = requested or scope.requested
        elif key.strip() and not key.startswith("<"):
            properties.append(Extension(name="Extension", type=OURS, called=key, value=text))
            findings.translated(f"extensions: {key[:80]!r} is an Extension of type {OURS}")
        else:
            findings.lost(f"extensions: {key[:80]!r} cannot be written in an SSS job object: left out")
    return {"properties": tuple(properties), "requested": requested, "kept": tuple(odd)}


def _is_name(text: str) -> bool:
    """Whether an attribute can be called so without being one that SSS knows."""
    return is_plain_name(text) and text not in ("awarenessPolicy", "xmlns")


def _read(shape: type[SssJob | TaskGroup], text: str) -> SssScope | None:
    """Return the scope that holds the element `text` alone; None when it may not stand there."""
    inside = text if shape is SssJob else f"<TaskGroup>{text}</TaskGroup>"
    whole = f"<JobGroup><Id>1</Id><JobDefaults>{inside}</JobDefaults><Job><Id>1</Id></Job></JobGroup>"
    try:
        document, _ = read_document(whole, awareness=Awareness.IGNORE)
    except BadRequest:
        return None
    (entry,) = document.entries
    if not isinstance(entry, JobGroup) or entry.job_defaults is None:
        return None
    scopes = [entry.job_defaults] if shape is SssJob else entry.job_defaults.task_groups
    found = scopes[0] if scopes else None
    return found if isinstance(found, SssScope) and (found.properties or found.requested) else None
