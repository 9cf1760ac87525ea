"""Reading SSS job objects, both versions.

Source: SSS 3.1.0 and SSS 3.0.3.
"""

from collections.abc import Hashable, Mapping
from typing import Any, NoReturn

from lxml import etree
from msgspec.structs import replace

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.compute_cluster_xml.document import Document as Tree
from headnode.core.formats.compute_cluster_xml.document import parse
from headnode.core.formats.compute_cluster_xml.names import namespace_of
from headnode.core.formats.fidelity import Awareness, Kind, Report
from headnode.core.formats.sss.job_object import (
    Document,
    Entry,
    File,
    Job,
    JobGroup,
    JobGroupRef,
    JobRef,
    Reference,
    Task,
    TaskGroup,
    TaskGroupRef,
    TaskRef,
)
from headnode.core.formats.sss.job_xml.attributes_reader import Fields
from headnode.core.formats.sss.job_xml.checking import Checks
from headnode.core.formats.sss.job_xml.elements import Elements
from headnode.core.formats.sss.job_xml.findings import Findings, local
from headnode.core.formats.sss.job_xml.moab import SCRIPT, is_moabs, respell
from headnode.core.formats.sss.job_xml.plain_names import key_of
from headnode.core.formats.sss.job_xml.repairs import Mended, mend
from headnode.core.formats.sss.properties import Envelope, Property
from headnode.core.formats.sss.rows import Need, Place
from headnode.core.formats.sss.tables import CHILDREN_OF, ROWS, Child
from headnode.core.formats.sss.versions import Version
from headnode.core.model.errors import BadRequest

_STRUCTS: dict[Place, tuple[type[Any], type[Reference]]] = {
    Place.JOB: (Job, JobRef),
    Place.TASK_GROUP: (TaskGroup, TaskGroupRef),
    Place.TASK: (Task, TaskRef),
    Place.JOB_GROUP: (JobGroup, JobGroupRef),
}
_ROOTS = {name.lower(): name for name in ("Job", "JobGroup", "Data")}
_MESSAGES = ("Envelope", "Body", "Request", "Response")
_MUST = {
    place: [row for row in ROWS if place in row.places and row.appearance is Need.MUST] for place in Place
}


def read_document(
    text: bytes | str, *, awareness: Awareness = Awareness.WARN, lenient: bool = False
) -> tuple[Document, Report]:
    """Read SSS job objects: a Job, a JobGroup, or a Data element with any number of them and Files.

    `awareness` is the policy of what names none itself.  `lenient` mends what the published examples
    suffer from (typographic quotes, wrong strokes in tags), reads names in any case, and numbers what
    lacks its Id; the report lists every repair.
    Raises:  BadRequest with line and column: ``not-xml``, ``doctype``, ``encoding``, ``not-a-job``,
             ``misplaced``, ``missing``, ``given-twice``, ``empty``, ``text-only``, ``groups``, ``circle``,
             ``no-file``, a wrong value, and ``not-understood`` under awareness policy Reject.
    """
    tree, mended = tree_of(text, lenient=lenient)
    return _Reader(tree, mended, lenient=lenient).read(awareness)


def tree_of(text: bytes | str, *, lenient: bool) -> tuple[Tree, Mended | None]:
    """Return the tree of `text`, mended when it must be and may be, and what was mended.

    Raises:  BadRequest with line and column, ``not-xml`` and as `parse`.
    """
    try:
        return parse(text), None
    except BadRequest as wrong:
        if wrong.code != "not-xml":
            raise
        refusal = wrong
    mended = mend(_decoded(text, refusal))
    try:
        tree = parse(mended.text)
    except BadRequest as wrong:
        raise mended.moved_back(wrong) if lenient else refusal from wrong
    if not lenient:
        fix = f"{refusal.fix}; --lenient would mend it"
        raise BadRequest(code=refusal.code, what=refusal.what, fix=fix)
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


class _Reader:
    """Reads one tree."""

    def __init__(self, tree: Tree, mended: Mended | None, *, lenient: bool) -> None:
        self._root = tree.root
        self._namespace = namespace_of(str(tree.root.tag)) or ""
        self._findings = Findings(tree, mended)
        prefix = f"{{{self._namespace}}}" if self._namespace else ""
        self._elements = Elements(self._findings, prefix, lenient=lenient)
        self._checks = Checks(self._findings, self._elements, tree.root, lenient=lenient)

    def read(self, awareness: Awareness) -> tuple[Document, Report]:
        """Read it as `read_document` promises."""
        written = self._elements.name(self._root)
        name = _ROOTS.get(written.lower(), "")
        if not name or self._namespace in BY_NAMESPACE:
            self._refuse_root(written)
        script = respell(self._root, self._findings) if is_moabs(self._root) else None
        fields = self._data(awareness) if name == "Data" else self._alone(name, awareness)
        if script is not None:
            fields["files"] = (File(id=SCRIPT, body=script),)
        self._checks.fragments({file.id for file in fields.get("files", ())})
        version = self._version()
        document = Document(version=version, namespace=self._namespace, **fields)
        if name == "Data" and not document.needs_data:
            document = replace(document, in_data=True)
        return document, self._findings.report()

    def _refuse_root(self, name: str) -> NoReturn:
        fix = "write a Job, a JobGroup, or several of them in a Data element"
        if local(self._root) in _MESSAGES:
            fix = f"take the Data element out of {local(self._root)}: messages are not job files"
        self._findings.refuse("not-a-job", self._root, f"{name!r} is no SSS job object", fix)

    def _alone(self, name: str, awareness: Awareness) -> Fields:
        if not len(self._root) and not (self._root.text or "").strip():
            self._findings.refuse(
                "not-a-job", self._root, "it describes nothing", "write its properties as elements in it"
            )
        return {"entries": (self._child(self._root, CHILDREN_OF[Place.DATA][name], awareness),)}

    def _data(self, awareness: Awareness) -> Fields:
        """Read a Data element."""
        fields, policy = self._elements.attributes.of_part(self._root, awareness)
        entries: list[tuple[etree._Element, Entry]] = []
        files: dict[str, File] = {}
        unknown: list[Property] = []
        self._elements.refuse_stray_text(self._root)
        for element in self._root:
            child = self._elements.child(element, Place.DATA)
            if child:
                entries.append((element, self._child(element, child, policy)))
            elif self._elements.name(element) == "File":
                self._file(element, policy, files)
            else:
                unknown += [found for found, _ in self._elements.read(element, Place.DATA, policy)]
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

    def _child(self, element: etree._Element, child: Child, inherited: Awareness) -> Any:
        """Read an element that holds others, or only says which one is meant."""
        struct, reference = _STRUCTS.get(child.place, (Envelope, Reference))
        text = (element.text or "").strip() if child.reference and not len(element) else ""
        if text:
            fields, _ = self._elements.attributes.of_part(element, inherited)
            return reference(id=text, **fields)
        if not len(element):
            self._findings.refuse(
                "empty", element, "it holds nothing", f"write what the {child.name} has, or take it out"
            )
        return struct(**self._content(element, child, inherited))

    def _content(self, element: etree._Element, child: Child, inherited: Awareness) -> Fields:
        """Read what is in an element: properties, and elements that hold others."""
        fields, policy = self._elements.attributes.of_part(element, inherited)
        elements, place = self._elements, child.place
        plain, parts = elements.plain_names(place), elements.children(place)
        properties: list[Property] = []
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
        if inside or place is Place.JOB_GROUP:
            self._gather(element, child, inside, fields)
        return fields

    def _checked(
        self, element: etree._Element, child: Child, properties: list[Property]
    ) -> tuple[Property, ...]:
        """Return the properties of a part when nothing is missing and their groups are in order."""
        if child.place is Place.REQUESTED:
            return self._checks.groups(element, properties)
        if not child.defaults:
            for row in _MUST[child.place]:
                if not any(found.name == row.name and found.value for found in properties):
                    properties[:0] = [self._checks.missing(element, row)]
        return tuple(properties)

    def _gather(
        self,
        element: etree._Element,
        child: Child,
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
        if child.place is Place.JOB_GROUP:
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

    def _version(self) -> Version:
        """Return the version most names are of; tell those that are of the other."""
        times = self._elements.times
        version = Version.V3_0 if times(Version.V3_0) > times(Version.V3_1) else Version.V3_1
        for (other, name), (element, row) in self._elements.first.items():
            if other is not version:
                own = row.name_in(version)
                what = f"element {name!r} is a name of {other.value}: it is read as {own!r}"
                self._findings.add(Kind.TRANSLATED, element, what)
        return version
