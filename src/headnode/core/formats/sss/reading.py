"""Read job objects in both versions, and find the position of a later refusal."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NoReturn

from lxml import etree
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport
from headnode.core.formats.hpc_xml.attributes import BY_NAMESPACE
from headnode.core.formats.sss.attributes import Fields
from headnode.core.formats.sss.checking import DocumentChecks
from headnode.core.formats.sss.element_reading import SssElementReader, key_of
from headnode.core.formats.sss.job_object import (
    Entry,
    File,
    JobGroup,
    JobGroupRef,
    JobRef,
    SssDocument,
    SssJob,
    SssReference,
    Task,
    TaskGroup,
    TaskGroupRef,
    TaskRef,
)
from headnode.core.formats.sss.moab import SCRIPT, is_moab_job, respell
from headnode.core.formats.sss.properties import SssCategory, SssProperty
from headnode.core.formats.sss.property_rows import (
    CHILDREN_OF,
    ROWS,
    SPELLINGS,
    ChildElement,
    ElementPlace,
    RequirementLevel,
)
from headnode.core.formats.sss.source_text import RepairedText, SssFindings, local, repair_text
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.formats.text.xml_text import XmlDocument as Tree
from headnode.core.formats.text.xml_text import namespace_of, parse_xml
from headnode.core.model.errors import BadRequest, Path, TextPosition

_STRUCTS: dict[ElementPlace, tuple[type[Any], type[SssReference]]] = {
    ElementPlace.JOB: (SssJob, JobRef),
    ElementPlace.TASK_GROUP: (TaskGroup, TaskGroupRef),
    ElementPlace.TASK: (Task, TaskRef),
    ElementPlace.JOB_GROUP: (JobGroup, JobGroupRef),
}
_ROOTS = {name.lower(): name for name in ("Job", "JobGroup", "Data")}
_MESSAGES = ("Envelope", "Body", "Request", "Response")
_MUST = {
    place: [row for row in ROWS if place in row.places and row.appearance is RequirementLevel.MUST]
    for place in ElementPlace
}


def read_document(
    text: bytes | str, *, awareness: Awareness = Awareness.WARN, lenient: bool = False
) -> tuple[SssDocument, FidelityReport]:
    """Read SSS job objects: a Job, a JobGroup, or a Data element with any number of them and Files.

    `awareness` is the policy of what names none itself.  `lenient` mends what the published examples
    suffer from (typographic quotes, wrong strokes in tags), reads names in any case, and numbers what
    lacks its Id; the report lists every repair.
    Raises:  BadRequest with line and column: ``not-xml``, ``doctype``, ``encoding``, ``not-a-job``,
             ``misplaced``, ``missing``, ``given-twice``, ``empty``, ``text-only``, ``groups``, ``circle``,
             ``no-file``, a wrong value, and ``not-understood`` under awareness policy Reject.
    """
    tree, mended = tree_of(text, lenient=lenient)
    return _DocumentReader(tree, mended, lenient=lenient).read(awareness)


def tree_of(text: bytes | str, *, lenient: bool) -> tuple[Tree, RepairedText | None]:
    """Return the tree of `text`, mended when it must be and may be, and what was mended.

    Raises:  BadRequest with line and column, ``not-xml`` and as `parse`.
    """
    try:
        return parse_xml(text), None
    except BadRequest as wrong:
        if wrong.code != "not-xml":
            raise
        refusal = wrong
    mended = repair_text(_decoded(text, refusal))
    try:
        tree = parse_xml(mended.text)
    except BadRequest as wrong:
        raise mended.moved_back(wrong) if lenient else refusal from wrong
    if not lenient:
        fix = f"{refusal.fix}; --lenient repairs it"
        raise BadRequest(code=refusal.code, what=refusal.sentence, fix=fix, place=refusal.place)
    return tree, mended


def _decoded(text: bytes | str, wrong: BadRequest) -> str:
    """Return `text` as characters; typographic quotes often come in the encoding of Windows."""
    if isinstance(text, str):
        return text
    for encoding in ("utf-8-sig", "windows-1252"):
        try:
            return text.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise wrong


class _DocumentReader:
    """Reads one tree."""

    def __init__(self, tree: Tree, mended: RepairedText | None, *, lenient: bool) -> None:
        self._root = tree.root
        self._namespace = namespace_of(str(tree.root.tag)) or ""
        self._findings = SssFindings(tree, mended)
        prefix = f"{{{self._namespace}}}" if self._namespace else ""
        self._elements = SssElementReader(self._findings, prefix, lenient=lenient)
        self._checks = DocumentChecks(self._findings, self._elements, tree.root, lenient=lenient)

    def read(self, awareness: Awareness) -> tuple[SssDocument, FidelityReport]:
        """Read it as `read_document` promises."""
        written = self._elements.name(self._root)
        name = _ROOTS.get(written.lower(), "")
        if not name or self._namespace in BY_NAMESPACE:
            self._refuse_root(written)
        script = respell(self._root, self._findings) if is_moab_job(self._root) else None
        fields = self._data(awareness) if name == "Data" else self._alone(name, awareness)
        if script is not None:
            fields["files"] = (File(id=SCRIPT, body=script),)
        self._checks.fragments({file.id for file in fields.get("files", ())})
        version = self._version()
        document = SssDocument(version=version, namespace=self._namespace, **fields)
        if name == "Data" and not document.needs_data:
            document = replace(document, in_data=True)
        return document, self._findings.report()

    def _refuse_root(self, name: str) -> NoReturn:
        fix = "write a Job, a JobGroup, or several of them in a Data element"
        if local(self._root) in _MESSAGES:
            fix = f"take the Data element out of {local(self._root)}: messages are not job files"
        self._findings.refuse("not-a-job", self._root, f"{name!r} is not an SSS job object", fix)

    def _alone(self, name: str, awareness: Awareness) -> Fields:
        if not len(self._root) and not (self._root.text or "").strip():
            self._findings.refuse(
                "not-a-job", self._root, "it describes nothing", "write its properties as elements in it"
            )
        return {"entries": (self._child(self._root, CHILDREN_OF[ElementPlace.DATA][name], awareness),)}

    def _data(self, awareness: Awareness) -> Fields:
        """Read a Data element."""
        fields, policy = self._elements.attributes.of_part(self._root, awareness)
        entries: list[tuple[etree._Element, Entry]] = []
        files: dict[str, File] = {}
        unknown: list[SssProperty] = []
        self._elements.refuse_stray_text(self._root)
        for element in self._root:
            child = self._elements.child(element, ElementPlace.DATA)
            if child:
                entries.append((element, self._child(element, child, policy)))
            elif self._elements.name(element) == "File":
                self._file(element, policy, files)
            else:
                unknown += [found for found, _ in self._elements.read(element, ElementPlace.DATA, policy)]
        if not entries and not files:
            self._findings.refuse("not-a-job", self._root, "it holds no job", "put a Job into it")
        self._checks.distinct(entries)
        found = {"entries": tuple(entry for _, entry in entries), "files": tuple(files.values())}
        return {**fields, **found, "unknown": tuple(unknown)}

    def _file(self, element: etree._Element, policy: Awareness, files: dict[str, File]) -> None:
        name, fields = self._elements.named(element, policy, "id")
        if name in files:
            self._findings.refuse("given-twice", element, f"two files have the id {name!r}", "rename one")
        files[name] = File(id=name, body=element.text or "", **fields)

    def _child(self, element: etree._Element, child: ChildElement, inherited: Awareness) -> Any:
        """Read an element that holds others, or only says which one is meant."""
        struct, reference = _STRUCTS.get(child.place, (SssCategory, SssReference))
        text = (element.text or "").strip() if child.reference and not len(element) else ""
        if text:
            fields, _ = self._elements.attributes.of_part(element, inherited)
            return reference(id=text, **fields)
        if not len(element):
            self._findings.refuse(
                "empty", element, "it holds nothing", f"write what the {child.name} has, or take it out"
            )
        return struct(**self._content(element, child, inherited))

    def _content(self, element: etree._Element, child: ChildElement, inherited: Awareness) -> Fields:
        """Read what is in an element: properties, and elements that hold others."""
        fields, policy = self._elements.attributes.of_part(element, inherited)
        elements, place = self._elements, child.place
        plain, parts = elements.plain_names(place), elements.children(place)
        properties: list[SssProperty] = []
        inside: dict[str, list[tuple[etree._Element, Any]]] = {}
        once: dict[Hashable, etree._Element] = {}
        elements.refuse_stray(element.text, element)
        for found in element:
            name = plain.get(found.tag)
            if name is not None and not found.keys() and not len(found):
                properties.append(elements.plain(found, name))
                if name.key is not None and once.setdefault(name.key, found) is not found:
                    self._once(found, name.key, once)
            elif part := parts.get(found.tag) or elements.child(found, place):
                self._once(found, None if part.many else part.name, once)
                inside.setdefault(part.field, []).append((found, self._child(found, part, policy)))
            else:
                for one, row in elements.read(found, place, policy):
                    self._once(found, row and key_of(one, place, row), once)
                    properties.append(one)
            tail = found.tail
            if tail and not tail.isspace():
                elements.refuse_stray(tail, found)
        fields["properties"] = self._checked(element, child, properties)
        if inside or place is ElementPlace.JOB_GROUP:
            self._gather(element, child, inside, fields)
        return fields

    def _checked(
        self, element: etree._Element, child: ChildElement, properties: list[SssProperty]
    ) -> tuple[SssProperty, ...]:
        """Return the properties of a part when nothing is missing and their groups are in order."""
        if child.place is ElementPlace.REQUESTED:
            return self._checks.groups(element, properties)
        if not child.defaults:
            for row in _MUST[child.place]:
                if not any(found.name == row.name and found.value for found in properties):
                    properties[:0] = [self._checks.missing(element, row)]
        return tuple(properties)

    def _gather(
        self,
        element: etree._Element,
        child: ChildElement,
        inside: Mapping[str, list[tuple[etree._Element, Any]]],
        fields: Fields,
    ) -> None:
        """Add the parts of a part by the field they fill."""
        for part in CHILDREN_OF[child.place].values():
            found = inside.get(part.field)
            if found and part.many:
                self._checks.distinct(found)
                fields[part.field] = tuple([one for _, one in found])
            elif found:
                fields[part.field] = found[0][1]
            elif part.least and not child.defaults:
                what, fix = f"it holds no {part.name}", f"write a {part.name} in it"
                self._findings.refuse("missing", element, what, fix)
        if child.place is ElementPlace.JOB_GROUP:
            self._checks.circle(inside["jobs"], fields.get("job_defaults"))

    def _once(self, element: etree._Element, key: Hashable, once: dict[Hashable, etree._Element]) -> None:
        """Refuse what stands a second time where it may stand only once."""
        if key is None:
            return
        if key in once:
            first = self._findings.place(once[key])
            what = f"element {local(element)!r} is given twice, first in line {first.line}"
            self._findings.refuse("given-twice", element, what, "write it once")
        once[key] = element

    def _version(self) -> SssVersion:
        """Return the version most names are of; tell those that are of the other."""
        times = self._elements.times
        version = SssVersion.V3_0 if times(SssVersion.V3_0) > times(SssVersion.V3_1) else SssVersion.V3_1
        for (other, name), (element, row) in self._elements.first.items():
            if other is not version:
                own = row.name_in(version)
                what = f"element {name!r} is a name of {other.value}: it is read as {own!r}"
                self._findings.add(Fidelity.TRANSLATED, element, what)
        return version


_NAMES = {
    name: spelling.row.name
    for place in (ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK, ElementPlace.REQUESTED)
    for name, spelling in SPELLINGS[place].items()
}


def place_of(text: bytes | str, path: Path) -> TextPosition:
    """Return the position of a job, task or property: ``("jobs", 1, "task_groups", 0, "Memory")``, or less.

    Without a job, the first one is meant; a task, ``("tasks", 0)``, is the task group it was read from.
    Raises:  BadRequest as `read_document` when `text` is no XML, even after mending.
    """
    tree, mended = tree_of(text, lenient=True)
    return SssFindings(tree, mended).place(_element_at(tree.root, path))


def _element_at(root: etree._Element, path: Path) -> etree._Element:
    number = 0
    match path:
        case ("jobs", int(number), *_):
            path = path[2:]
    jobs = list(_jobs(root))
    if number >= len(jobs):
        return root
    job = part = jobs[number]
    match path:
        case (("tasks" | "task_groups") as kind, int(task), *_):
            part, path = _task_group(job, task, kind == "task_groups"), path[2:]
    names = tuple(str(step) for step in path)
    names = tuple(name for name, own in _NAMES.items() if own in names) or names
    found = (_first(scope, names) for scope in (part, job, root) if names)
    return next((one for one in found if one is not None), part)


def _task_group(job: etree._Element, number: int, is_group: bool) -> etree._Element:
    """Return a task group of a job, by its number or by that of its task; or else the job."""
    groups = [one for one in job if local(one).lower() == "taskgroup"]
    if not is_group and any(sum(local(one).lower() == "task" for one in group) > 1 for group in groups):
        return job  # several tasks may be of one group
    return groups[number] if number < len(groups) else job


def _jobs(root: etree._Element) -> Iterator[etree._Element]:
    """Yield the jobs in their order; those defined elsewhere are none."""
    if local(root).lower() == "job":
        yield root
    for element in root:
        if local(element).lower() == "job" and len(element):
            yield element
        elif local(element).lower() == "jobgroup":
            yield from _jobs(element)


def _first(element: etree._Element, names: tuple[str, ...]) -> etree._Element | None:
    return next((one for one in element.iterdescendants("{*}*") if local(one) in names), None)
