"""Write HPC job files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import Any

import msgspec

from headnode.core.formats.fidelity import (
    Fidelity,
    FidelityReport,
    ReportItem,
    WrittenParts,
    lossy_items,
    lost_fields,
)
from headnode.core.formats.hpc_xml.attributes import (
    CCS,
    DIALECTS,
    HPC,
    JOB_ATTRIBUTES,
    JOB_SPELLINGS,
    TASK_ATTRIBUTES,
    TASK_SPELLINGS,
    HpcDialect,
    HpcRow,
)
from headnode.core.formats.hpc_xml.composite_fields import (
    JOB_FIELDS,
    TASK_FIELDS,
    Values,
    current_size,
    filter_job_values,
    filter_task_values,
    is_filter_file,
    job_attribute_values,
    root_group,
    scheduler_job_values,
    scheduler_task_values,
    task_attribute_values,
)
from headnode.core.formats.hpc_xml.extensions import write_extensions
from headnode.core.formats.job_views import (
    ExportedJob,
    job_with_needs_as_fields,
    task_with_needs_as_fields,
    unwritten_needs,
)
from headnode.core.formats.text.windows import shell_quoting
from headnode.core.formats.text.xml_text import XmlElement, possible, write_xml
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import TaskSpec, TaskType, substitute

MAX_EXPANDED = 10_000  # tasks written into a CCS file for one sweep
_FOLDED = ("minimum", "maximum", "unit", "kind", "fail_job_on_failure", "fail_job_count")
_CHILDREN = ("tasks", "group_edges", "environment", "properties", "extensions", "dialect", "needs")
_SWEPT = ("command", "standard_input", "standard_output", "standard_error", "work_directory", "name")
_JOB_DEFAULTS, _TASK_DEFAULTS = JobSpec(), TaskSpec()
_EDGE_FIELDS: WrittenParts = {GroupEdge: frozenset({"parent", "child"})}


def write_job(
    spec: JobSpec, dialect: str, *, live: ExportedJob | None = None
) -> tuple[bytes, FidelityReport]:
    """Write a job in `dialect` (ccs, hpcpack-2008 or hpcpack); say what the dialect cannot.

    live adds what only the scheduler knows.
    Raises:  BadRequest ``dialect`` when there is no such dialect, ``too-large`` when a sweep has more
             instances than a CCS file could list.
    """
    if dialect not in DIALECTS:
        raise BadRequest(
            code="dialect",
            what=f"there is no job file dialect {dialect!r}",
            fix=f"write {', '.join(DIALECTS)}",
        )
    return _HpcWriter(DIALECTS[dialect], live).write(spec)


def can_express(spec: JobSpec, dialect: str) -> bool:
    """Whether `dialect` can say all of the job, so that reading it back gives the same."""
    try:
        return not lossy_items(_HpcWriter(DIALECTS[dialect], None).write(spec)[1])
    except BadRequest:
        return False


class _HpcWriter:
    """Writes one job in one dialect."""

    def __init__(self, dialect: HpcDialect, live: ExportedJob | None) -> None:
        self._dialect, self._live = dialect, live
        self._for_filter = live if is_filter_file(live, dialect.name) else None
        self._items: list[ReportItem] = []

    def write(self, spec: JobSpec) -> tuple[bytes, FidelityReport]:
        """Return the document and what it does not say."""
        spec = job_with_needs_as_fields(spec, lambda kind, what: self._report(kind, "Job", what))
        if spec.unit is UnitType.GPU:
            spec = self._with_gpus(spec)
        self._report_needs(spec.needs, "Job")
        root = XmlElement("Job", self._job_attributes(spec), self._job_children(spec))
        self._extend(root, spec.extensions, JOB_SPELLINGS, "Job")
        root.attributes["xmlns"] = self._dialect.namespace
        return write_xml(root), tuple(self._items)

    def _with_gpus(self, spec: JobSpec) -> JobSpec:
        """Return a job that counts GPUs as the dialect can count it."""
        if self._dialect.name == HPC:
            self._report(Fidelity.NOTE, "Job", "UnitType: Gpu is known to HPC Pack 2016 and later")
            return spec
        unit = UnitType.PROCESSOR if self._dialect.name == CCS else UnitType.SOCKET
        what = f"unit: {self._dialect.title} has no GPUs: the numbers are kept, and count {unit.word}s"
        self._report(Fidelity.NOT_SUPPORTED, "Job", what)
        return msgspec.structs.replace(spec, unit=unit)

    def _report(self, kind: Fidelity, where: str, what: str) -> None:
        self._items.append(ReportItem(kind, where, what))

    def _report_needs(self, needs: NodeNeeds, where: str) -> None:
        for field in unwritten_needs(needs):
            what = f"needs.{field}: {self._dialect.title} has no such requirement on nodes"
            self._report(Fidelity.NOT_SUPPORTED, where, what)

    def _extend(
        self, element: XmlElement, extensions: Mapping[str, str], spellings: Mapping[str, HpcRow], where: str
    ) -> None:
        name = self._dialect.name
        write_extensions(
            element, extensions, spellings, name, lambda kind, what: self._report(kind, where, what)
        )

    def _job_attributes(self, spec: JobSpec) -> dict[str, str]:
        name = self._dialect.name
        values = (
            _fields(spec)
            | job_attribute_values(spec)
            | scheduler_job_values(self._live, name, self._dialect.version)
        )
        if name == CCS:
            self._report_ccs_size(spec)
            minimum, maximum = current_size(spec)
            values[f"size.minimum.{UnitType.PROCESSOR}"] = minimum
            values[f"size.maximum.{UnitType.PROCESSOR}"] = maximum
        if self._for_filter is not None:
            values |= filter_job_values(spec, self._for_filter)
        return self._attributes(values, JOB_ATTRIBUTES, "Job", _JOB_DEFAULTS, JOB_FIELDS)

    def _report_ccs_size(self, spec: JobSpec) -> None:
        if spec.unit is not UnitType.PROCESSOR:
            what = f"sizes count {spec.unit.word}s; CCS counts processors: the numbers are kept"
            self._report(Fidelity.APPROXIMATED, "Job", what)
        if spec.minimum is None or spec.maximum is None:
            what = "CCS cannot say that the size is calculated from the tasks: the calculated size is written"
            self._report(Fidelity.APPROXIMATED, "Job", what)

    def _attributes(
        self, values: Values, rows: Sequence[HpcRow], where: str, defaults: Any, for_filters: Set[str]
    ) -> dict[str, str]:
        """Walk the rows; report the values that no row of the dialect can say.

        Files for filters have the fields `for_filters` even if these have their defaults.
        """
        always = for_filters if self._for_filter is not None else frozenset()
        attributes: dict[str, str] = {}
        fields = {"size.unit", "size.auto_minimum", "size.auto_maximum", "fixed.job_type", "sweep.type"}
        for row in rows:
            name, value = row.name_in(self._dialect.name), values.get(row.field)
            if not name or value is None:
                continue
            fields.add(row.field)
            if row.always or row.field in always or value != getattr(defaults, row.field, _NOTHING):
                attributes[name] = self._text(row, name, value, where)
        for row in rows:
            value = values.get(row.field)
            if value is None or value is False or row.field in fields:
                continue
            if row.field.startswith(("live.", "size.")):
                continue
            fields.add(row.field)
            if value != getattr(defaults, row.field, _NOTHING):
                self._report_unwritten(row.hpc or row.ccs, where)
        for field, value in values.items():
            unsaid = "." not in field and field not in fields
            if unsaid and value != getattr(defaults, field, None):
                self._report_unwritten(field, where)
        return attributes

    def _report_unwritten(self, name: str, where: str) -> None:
        self._report(Fidelity.NOT_SUPPORTED, where, f"{name}: {self._dialect.title} has no such property")

    def _text(self, row: HpcRow, name: str, value: Any, where: str) -> str:
        """Write one value; say so when it will not be read back the same."""
        words = row.words_in(self._dialect.name)
        text = possible(words.write(value))
        if not row.field.startswith("live.") and not _reads_back(words.read, text, value):
            self._report(Fidelity.APPROXIMATED, where, f"{name}: {text!r} is the nearest that can be written")
        return text

    def _job_children(self, spec: JobSpec) -> list[XmlElement | str]:
        ccs = self._dialect.name == CCS
        inherited = spec.environment if self._dialect.name != HPC else {}
        if inherited:
            what = f"{self._dialect.title} has no environment of jobs: it is written into every task"
            self._report(Fidelity.APPROXIMATED, "Job", what)
        children: list[XmlElement | str] = []
        if spec.environment and not inherited:
            children.append(self._pairs("EnvironmentVariables", "Variable", spec.environment, "Job"))
        if spec.properties or ccs:
            children.append(self._pairs("ExtendedTerms", "Term", spec.properties, "Job"))
        if not ccs:
            children.append(XmlElement("Dependencies", {}, list(_edges(spec.group_edges))))
            for field in lost_fields(spec, _JOB_DEFAULTS, {*spec.__struct_fields__}, _EDGE_FIELDS):
                self._report_unwritten(field, "Job")
        elif spec.group_edges:
            self._report(Fidelity.NOT_SUPPORTED, "Job", "Dependencies: CCS has no groups of tasks")
        tasks: list[XmlElement | str] = []
        for number, task in enumerate(spec.tasks, 1):
            tasks += self._task(spec, number, self._with_plain_fields(task, f"Task {number}"), inherited)
        children.append(XmlElement("Tasks", {}, tasks))
        return children

    def _with_plain_fields(self, task: TaskSpec, where: str) -> TaskSpec:
        plain = task_with_needs_as_fields(task, lambda kind, what: self._report(kind, where, what))
        self._report_needs(plain.needs, where)
        return plain

    def _task(
        self, spec: JobSpec, number: int, task: TaskSpec, inherited: Mapping[str, str]
    ) -> Iterator[XmlElement]:
        where = f"Task {number}"
        if task.kind not in (TaskType.BASIC, TaskType.SWEEP) and self._dialect.name != HPC:
            what = f"{self._dialect.title} has no {task.kind.value} tasks: it is left out"
            self._report(Fidelity.NOT_SUPPORTED, where, what)
            return
        if task.kind is TaskType.SWEEP and self._dialect.name == CCS:
            yield from self._expanded(spec, number, task, inherited)
            return
        name = self._dialect.name
        unit = UnitType.PROCESSOR if name == CCS else spec.unit
        values = _fields(task) | task_attribute_values(task, unit)
        values |= scheduler_task_values(self._live, number, name, self._dialect.version)
        if self._for_filter is not None:
            group = root_group(spec, self._for_filter)
            values |= filter_task_values(task, self._for_filter, number, group, unit)
        attributes = self._attributes(values, TASK_ATTRIBUTES, where, _TASK_DEFAULTS, TASK_FIELDS)
        if sign := shell_quoting(task.command):
            what = f"CommandLine: {sign} is for /bin/sh, which Headnode uses; cmd.exe reads it literally"
            self._report(Fidelity.NOTE, where, what)
        element = XmlElement("Task", attributes, self._task_children(task, inherited, where))
        self._extend(element, task.extensions, TASK_SPELLINGS, where)
        yield element

    def _expanded(
        self, spec: JobSpec, number: int, sweep: TaskSpec, inherited: Mapping[str, str]
    ) -> Iterator[XmlElement]:
        """Write a sweep as tasks of one name, as the job manager of CCS did."""
        if sweep.instances > MAX_EXPANDED:
            raise BadRequest(
                code="too-large",
                what=f"task {number} has {sweep.instances} instances, and CCS has no sweeps",
                fix="export it as hpcpack",
            )
        what = f"CCS has no sweeps: it is written as {sweep.instances} tasks of one name"
        self._report(Fidelity.APPROXIMATED, f"Task {number}", what)
        for instance in range(1, sweep.instances + 1):
            value = sweep.value(instance)
            swept = {field: substitute(getattr(sweep, field), value) for field in _SWEPT if field != "name"}
            one = msgspec.structs.replace(sweep, **swept, kind=TaskType.BASIC, start=0, end=0, increment=1)
            yield from self._task(spec, number, one, inherited)

    def _task_children(
        self, task: TaskSpec, inherited: Mapping[str, str], where: str
    ) -> list[XmlElement | str]:
        environment = {**inherited, **task.environment}
        children: list[XmlElement | str] = []
        if environment or self._dialect.name == CCS:
            children.append(self._pairs("EnvironmentVariables", "Variable", environment, where))
        if task.properties or self._dialect.name == CCS:
            children.append(self._pairs("ExtendedTerms", "Term", task.properties, where))
        return children

    def _pairs(self, parent: str, item: str, pairs: Mapping[str, str], where: str) -> XmlElement:
        children: list[XmlElement | str] = []
        for name, value in pairs.items():
            if possible(name).strip() != name or possible(value).strip() != value or not name:
                what = f"{item} {name!r}: blanks at the ends and control characters are lost"
                self._report(Fidelity.APPROXIMATED, where, what)
            if name.strip():
                children.append(
                    XmlElement(item, {}, [XmlElement("Name", text=name), XmlElement("Value", text=value)])
                )
        return XmlElement(parent, {}, children)


_NOTHING = object()
"""Not the value of any field."""


def _fields(spec: JobSpec | TaskSpec) -> Values:
    """Return the plain fields of `spec`."""
    left_out = (*_FOLDED, *_CHILDREN)
    return {field: getattr(spec, field) for field in spec.__struct_fields__ if field not in left_out}


def _reads_back(read: Any, text: str, value: Any) -> bool:
    try:
        return bool(read(text) == value)
    except BadRequest:
        return False


def _edges(edges: Iterable[GroupEdge]) -> Iterator[XmlElement]:
    """Write dependencies in their order, neighbours of one parent together."""
    for parent, group in groupby(edges, key=lambda edge: edge.parent):
        children: list[XmlElement | str] = [
            XmlElement("Child", {"GroupId": str(edge.child)}) for edge in group
        ]
        yield XmlElement("Parent", {"GroupId": str(parent)}, children)
