"""Read HPC job files, find the position of a job or task, and check a file against an XML Schema."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

import msgspec
from lxml import etree

from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport, ReportItem, apply_awareness
from headnode.core.formats.hpc_xml.attributes import (
    BY_NAMESPACE,
    CCS,
    DIALECTS,
    HPC,
    HPC_2008,
    JOB_ATTRIBUTES,
    JOB_SPELLINGS,
    TASK_ATTRIBUTES,
    TASK_SPELLINGS,
    HpcDialect,
)
from headnode.core.formats.hpc_xml.composite_fields import (
    Values,
    ccs_job_size_fields,
    critical_fields,
    gpus_if_marked,
    job_size_fields,
    job_unit,
    sweep_fields,
    task_size_fields,
)
from headnode.core.formats.hpc_xml.element_reading import (
    ElementValues,
    HpcAttributeReader,
    is_nil,
    local,
    read_edges,
    read_pairs,
    report_attributes,
    report_stray_text,
)
from headnode.core.formats.hpc_xml.extensions import (
    checked_element,
    element_key,
    element_text,
    split_extensions,
)
from headnode.core.formats.hpc_xml.finding_recorder import FindingRecorder
from headnode.core.formats.hpc_xml.writing import can_express
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.windows import (
    WindowsFinding,
    may_have_findings,
    paths_alone,
    task_findings,
)
from headnode.core.formats.text.xml_text import XmlDocument, local_name, namespace_of, parse_xml
from headnode.core.model.errors import BadRequest, Path, TextPosition
from headnode.core.model.job import GroupEdge, JobSpec, UnitType
from headnode.core.model.task import TaskSpec

_PAIRS = {
    "EnvironmentVariables": ("environment", "Variable"),
    "ExtendedTerms": ("properties", "Term"),
    "CustomProperties": ("properties", "Term"),
}
"""Elements that hold names and values: the field they fill, and what each pair is called."""

_ALL_ROWS = (*JOB_ATTRIBUTES, *TASK_ATTRIBUTES)
_HPC_NAMES = {name.lower() for row in _ALL_ROWS for name in (row.hpc, *row.also) if name}
_LATER_SIZES = {"size.unit", "size.auto_minimum", "size.auto_maximum"}  # CCS itself has no such attributes
_CCS_NAMES = {row.ccs.lower() for row in _ALL_ROWS if row.ccs}


def read_job(
    text: bytes | str, *, awareness: Awareness = Awareness.WARN, strict: bool = False
) -> tuple[JobSpec, FidelityReport]:
    """Read a job file of any of the three dialects; say what became of everything in it.

    `strict` also refuses what is wider than the table of CCS allows.
    Raises:  BadRequest with line and column: ``not-xml``, ``doctype``, ``not-a-job``, a wrong value, and
             ``not-understood`` under awareness policy Reject.
    """
    return _HpcReader(parse_xml(text), strict=strict).read(awareness)


def _attribute_of(element: etree._Element, field: str) -> str:
    """Return the attribute of a Task that fills a field; "" if no attribute does."""
    for attribute in map(str, element.attrib):
        row = TASK_SPELLINGS.get(local_name(attribute).lower())
        if row is not None and row.field == field:
            return attribute
    return ""


class _HpcReader:
    """Reads one document."""

    def __init__(self, document: XmlDocument, *, strict: bool) -> None:
        self._root = document.root
        self._recorder = FindingRecorder(document, strict=strict)
        self._attributes = HpcAttributeReader(self._recorder, namespace_of(str(document.root.tag)))
        self._edges: tuple[GroupEdge, ...] = ()
        self._tasks: list[ElementValues] = []

    def read(self, awareness: Awareness) -> tuple[JobSpec, FidelityReport]:
        """Read it as `read_job` promises."""
        job = self._outline()
        defaults, dialect = self._dialect(job)
        spec = self._job(job, defaults, dialect)
        self._recorder.refuse_violations()
        return self._settled(spec, job), apply_awareness(awareness, self._recorder.report())

    def _outline(self) -> ElementValues:
        """Read the attributes and children of everything."""
        name = local(self._root)
        if name == "Job":
            job = self._attributes.read(self._root, "Job", JOB_SPELLINGS)
            self._job_children(job)
            return job
        if name != "Task":
            self._refuse_root(name)
        self._recorder.add(
            Fidelity.TRANSLATED, "Task", "a task alone is read as a job of that one task", self._root
        )
        self._task(self._root)
        return ElementValues(self._root, "Job")

    def _refuse_root(self, name: str) -> NoReturn:
        self._recorder.refuse(
            "not-a-job",
            name,
            "the outermost element is not a Job",
            "write a Job (or a Task) element",
            self._root,
        )

    def _job_children(self, job: ElementValues) -> None:
        report_stray_text(job.element, "Job", self._recorder)
        for child in job.element:
            if local(child) == "Tasks":
                self._task_list(child)
            elif local(child) == "Dependencies":
                self._edges += read_edges(child, self._recorder)
            else:
                self._pairs_or_stranger(job, child)

    def _task_list(self, tasks: etree._Element) -> None:
        report_attributes(tasks, "Tasks", self._recorder)
        report_stray_text(tasks, "Tasks", self._recorder)
        tag = None  # of a Task before
        for child in tasks:
            if child.tag == tag or local(child) == "Task":
                tag = child.tag
                self._task(child)
            else:
                what = f"element {local(child)!r} is not known, and is not kept; only Task may be here"
                self._recorder.add_once(Fidelity.NOT_SUPPORTED, "Tasks", what, child)

    def _task(self, element: etree._Element) -> None:
        if is_nil(element):
            self._recorder.add(Fidelity.NOTE, "Tasks", "a Task that is nil is left out", element)
            return
        where = f"Task {len(self._tasks) + 1}"
        task = self._attributes.read(element, where, TASK_SPELLINGS)
        report_stray_text(element, where, self._recorder)
        for child in element:
            self._pairs_or_stranger(task, child)
        if "command" not in task.values:
            self._recorder.add(Fidelity.NOTE, where, "the task has no CommandLine", element)
        self._tasks.append(task)

    def _pairs_or_stranger(self, values: ElementValues, child: etree._Element) -> None:
        name = local(child)
        if name in _PAIRS:
            field, item = _PAIRS[name]
            pairs = read_pairs(child, item, values.where, self._recorder)
            if field == "properties":
                pairs = self._without_kept(values, child, pairs)
            values.values[field] = values.values[field] | pairs if field in values.values else pairs
            return
        meant = nearest_name(name, (*_PAIRS, "Tasks", "Dependencies"))
        hint = f"; did you mean {meant!r}?" if meant else ""
        own = namespace_of(str(self._root.tag))
        strangers = values.strangers = values.strangers or {}
        strangers[name] = strangers.get(name, 0) + 1
        key = element_key(name, strangers[name])
        values.keep(key, element_text(child, [own] if own else []))
        what = f"element {name!r} is not known: kept, without effect{hint}"
        self._recorder.add(Fidelity.NOT_SUPPORTED, values.where, what, child)

    def _without_kept(
        self, values: ElementValues, child: etree._Element, pairs: dict[str, str]
    ) -> dict[str, str]:
        """Put what was kept among the terms back into the extensions; return the user's own terms."""
        own, kept = split_extensions(pairs)
        for name, text in kept.items():
            value = checked_element(text) if name.startswith("<") else text
            if value is not None:
                values.keep(name, value)
                self._recorder.add(Fidelity.NOTE, values.where, f"{name!r} was kept, without effect", child)
        return own

    def _dialect(self, job: ElementValues) -> tuple[HpcDialect, str]:
        """Return the dialect whose defaults count, and the name of the one that is spoken."""
        namespace = namespace_of(str(self._root.tag))
        if namespace in BY_NAMESPACE:
            return BY_NAMESPACE[namespace], BY_NAMESPACE[namespace].name
        used = self._recorder.spellings
        ccs = bool(used & (_CCS_NAMES - _HPC_NAMES)) and not used & (_HPC_NAMES - _CCS_NAMES)
        if namespace is not None:
            what = f"namespace {namespace!r} is not known: the names are read as if there were none"
            self._recorder.add(Fidelity.NOTE, job.where, what, self._root)
        if ccs:
            what = "names of CCS without its namespace: the defaults are those of HPC Pack"
            self._recorder.add(Fidelity.NOTE, job.where, what, self._root)
        return DIALECTS[HPC], CCS if ccs else HPC

    def _job(self, job: ElementValues, defaults: HpcDialect, dialect: str) -> JobSpec:
        def report(kind: Fidelity, what: str) -> None:
            self._recorder.add_once(kind, "Job", what, job.element)

        unit = job_unit(job.pieces, [task.pieces for task in self._tasks], report)
        unit = gpus_if_marked(unit, job.values.get("properties", {}), report)
        fields: Values = {"exclusive": defaults.exclusive}
        if defaults.name == CCS and unit is UnitType.PROCESSOR and not _LATER_SIZES & set(job.pieces):
            fields |= ccs_job_size_fields(job.pieces, report)
        else:
            least = dialect == CCS and bool(job.values.get("run_until_canceled"))
            fields |= job_size_fields(job.pieces, unit, report, least=least)
        tasks = tuple(self._task_spec(task, unit, defaults) for task in self._tasks)
        environment = job.values.get("environment", {})
        for found, task in zip(self._tasks, tasks, strict=True):
            if may_have_findings(task):
                self._report_windows(found, task, environment)
        return JobSpec(**(fields | job.values), tasks=tasks, group_edges=self._edges, dialect=dialect)

    def _task_spec(self, task: ElementValues, unit: UnitType, defaults: HpcDialect) -> TaskSpec:
        def report(kind: Fidelity, what: str) -> None:
            self._recorder.add(kind, task.where, what, task.element)

        fields: Values = {"rerunnable": defaults.rerunnable}
        try:
            fields |= task_size_fields(task.pieces, unit, report)
            fields |= sweep_fields(task.pieces, report)
            fields |= critical_fields(task.pieces, report)
        except BadRequest as wrong:
            self._recorder.refuse(wrong.code, task.where, wrong.what, wrong.fix, task.element)
        return TaskSpec(**(fields | task.values))

    def _report_windows(self, values: ElementValues, task: TaskSpec, environment: Mapping[str, str]) -> None:
        """Report what the task means on Windows only, where it is written."""
        if self._recorder.is_full and (paths := paths_alone(task)):
            self._recorder.count(Fidelity.NOT_SUPPORTED, paths)
            return
        for finding in task_findings(task, environment, cmd=True):
            if self._recorder.is_full:
                self._recorder.count(finding.kind)
            else:
                self._recorder.add_made(finding.kind, partial(self._windows_item, values, finding))

    def _windows_item(self, values: ElementValues, finding: WindowsFinding) -> ReportItem:
        attribute = _attribute_of(values.element, finding.field)
        return self._recorder.item(finding.kind, values.where, finding.what, values.element, attribute)

    def _settled(self, spec: JobSpec, job: ElementValues) -> JobSpec:
        """Return `spec` in the first dialect, from the one it speaks upwards, that can say all of it."""
        upwards = (CCS, HPC_2008, HPC)
        able = upwards[upwards.index(spec.dialect) :]
        dialect = next((name for name in able if name == HPC or can_express(spec, name)), HPC)
        if dialect != spec.dialect:
            named, needed = DIALECTS[spec.dialect].title, DIALECTS[dialect].title
            what = f"{named} cannot express all of this: the job is kept as one of {needed}"
            self._recorder.add(Fidelity.TRANSLATED, "Job", what, job.element)
        return msgspec.structs.replace(spec, dialect=dialect)


def place_of(text: bytes | str, path: Path) -> TextPosition:
    """Return the position of a task that was read, ``("tasks", 0)``, or of the job for ``()``.

    Raises:  BadRequest as `read_job` when `text` cannot be read.
    """
    document = parse_xml(text)
    match path:
        case ("tasks", int(number)):
            return document.place(_tasks(document)[number])
    return document.place(document.root)


def _tasks(document: XmlDocument) -> list[etree._Element]:
    return [element for element in document.root.iter("{*}Task") if not is_nil(element)]


def validate(text: bytes | str, schema: bytes) -> FidelityReport:
    """Return what schema has against the file; empty when it is valid.

    The schemas of the three dialects are the files in ``schemas`` beside this module, read by the caller.
    Raises:  BadRequest as `parse_xml` of the document, when `text` is no XML that can be read.
    """
    rules = etree.XMLSchema(
        etree.fromstring(schema, etree.XMLParser(resolve_entities=False, no_network=True))
    )
    document = parse_xml(text)
    if rules.validate(document.root):
        return ()
    log: Iterable[Any] = rules.error_log  # type: ignore[assignment]  # it is one, the stubs do not say so
    return tuple(
        ReportItem(Fidelity.NOT_SUPPORTED, "schema", str(error.message), error.line, error.column)
        for error in log
    )
