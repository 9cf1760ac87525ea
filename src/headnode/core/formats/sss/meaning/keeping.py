"""What is kept of a job object in the extensions of a job or task, and how it is written back.

An element is kept as XML under ``<Name>``, the second of its name under ``<Name>#2``; what the job or task
was written with in Requested under ``<Requested>``.  Other names are Extensions of type Headnode in SSS.
Source: SSS 3.1.0, "Extension".
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headnode.core.formats.compute_cluster_xml.unknown import element_key, written_text
from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.conditions import Extension
from headnode.core.formats.sss.job_object import Job, JobGroup, Scope, TaskGroup
from headnode.core.formats.sss.job_xml.names import is_plain_name
from headnode.core.formats.sss.job_xml.reader import read_document
from headnode.core.formats.sss.job_xml.writer import written_parts
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.properties import Property
from headnode.core.model.errors import BadRequest

ATTRIBUTE = "attribute."
"""Before the names of attributes of a Job or TaskGroup that nobody understood."""

OURS, PROPERTY, FIELD = "Headnode", "Property", "Headnode.Job"
"""The types of Extensions that hold extensions, properties and fields of a job by their names."""

_ID = "<Id>"
DESCRIPTION = "Description"
"""The field of a job that SSS has for job groups only."""


class Named(NamedTuple):
    """What Extensions of our own types hold."""

    extensions: dict[str, str]
    properties: dict[str, str]
    description: str = ""


def named(properties: Iterable[Property]) -> Named:
    """Return the extensions and properties that Extensions of our types among `properties` hold."""
    found = Named({}, {})
    for one in properties:
        if not isinstance(one, Extension) or not is_ours(one):
            continue
        if one.type == FIELD:
            found = found._replace(description=str(one.value or ""))
        else:
            held = found.extensions if one.type == OURS else found.properties
            held[one.called] = str(one.value or "")
    return found


def is_ours(one: Extension) -> bool:
    """Whether it holds an extension, property or field of a job by its name."""
    if one.type == FIELD:
        return one.called == DESCRIPTION
    return one.type in (OURS, PROPERTY) and bool(one.called) and not one.called.startswith("<")


def extensions_of(part: Job | TaskGroup) -> dict[str, str]:
    """Return the extensions for the properties of `part`, its Requested, and its odd attributes."""
    odd = {f"{ATTRIBUTE}{name}": value for name, value in part.kept}
    if not part.properties and not part.requested:
        return odd
    indent = "  " if isinstance(part, Job) else "    "  # as deep as it stands in a document
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
    return kept_job({_ID: extensions[_ID]}, "job", Findings()).id if _ID in extensions else ""


def kept_job(extensions: Mapping[str, str], where: str, findings: Findings) -> Job:
    """Return what the extensions of a job hold for a Job; what cannot stand there is left out and told."""
    found = _kept(Job, extensions, where, findings)
    return Job(**found)


def kept_group(extensions: Mapping[str, str], where: str, findings: Findings) -> TaskGroup:
    """Return what the extensions of a task hold for a TaskGroup; what cannot stand there is told."""
    found = _kept(TaskGroup, extensions, where, findings)
    return TaskGroup(**found)


def _kept(
    shape: type[Job | TaskGroup], extensions: Mapping[str, str], where: str, findings: Findings
) -> dict[str, Any]:
    properties: list[Property] = []
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
            findings.add(Kind.TRANSLATED, where, f"extensions: {key[:80]!r} is an Extension of type {OURS}")
        else:
            what = f"extensions: {key[:80]!r} cannot stand in an SSS job object: it is left out"
            findings.add(Kind.NOT_SUPPORTED, where, what)
    return {"properties": tuple(properties), "requested": requested, "kept": tuple(odd)}


def _is_name(text: str) -> bool:
    """Whether an attribute can be called so without being one that SSS knows."""
    return is_plain_name(text) and text not in ("awarenessPolicy", "xmlns")


def _read(shape: type[Job | TaskGroup], text: str) -> Scope | None:
    """Return the scope that holds the element `text` alone; None when it may not stand there."""
    inside = text if shape is Job else f"<TaskGroup>{text}</TaskGroup>"
    whole = f"<JobGroup><Id>1</Id><JobDefaults>{inside}</JobDefaults><Job><Id>1</Id></Job></JobGroup>"
    try:
        document, _ = read_document(whole, awareness=Awareness.IGNORE)
    except BadRequest:
        return None
    (entry,) = document.entries
    if not isinstance(entry, JobGroup) or entry.job_defaults is None:
        return None
    scopes = [entry.job_defaults] if shape is Job else entry.job_defaults.task_groups
    found = scopes[0] if scopes else None
    return found if isinstance(found, Scope) and (found.properties or found.requested) else None
