"""Telling an SSS job object from other files, by its content.

Source: SSS 3.1.0 and SSS 3.0.3; Compute Cluster job files have a Job element, too, with attributes.
"""

import re

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.sss.rows import NODE_PROPERTIES, Place
from headnode.core.formats.sss.tables import CHILDREN_OF, SPELLINGS

_LOOKED_AT = 65_536  # characters; the first elements tell
_ELEMENT = re.compile(r"<([A-Za-z_][\w.:-]{0,80}+)([^<>]{0,4000}+)>")


def is_job_object(text: bytes | str) -> bool:
    """Whether `text` is an SSS job object, however damaged.

    Names are told in any case, as Maui does.

    >>> is_job_object("<Job><id>1</id></Job>"), is_job_object('<Job Name="a"><Tasks/></Job>')
    (True, False)
    >>> is_job_object("<Job> job123</Job>"), is_job_object("<job><SubmitString>a</SubmitString></job>")
    (True, True)
    """
    start = text[:_LOOKED_AT]
    readable = start if isinstance(start, str) else _characters(start)
    elements = _ELEMENT.findall(_without_comments(readable))
    if not elements or any(f'"{namespace}"' in elements[0][1] for namespace in BY_NAMESPACE):
        return False
    root = _local(elements[0][0]).lower()
    inside = [_local(name).lower() for name, _ in elements[1:50]]
    if root == "data":
        return any(name in ("job", "jobgroup", "file") for name in inside)
    if root != "job":
        return root == "jobgroup"
    if not inside:
        return _REFERENCE.search(readable) is not None
    return inside[0] in _IN_JOB or _local(elements[0][0]) == "job"


_REFERENCE = re.compile(r"<(?:[\w.-]{1,40}:)?[Jj][Oo][Bb]\s*>\s*[^<\s]")
"""A job that is defined elsewhere: its id alone."""

_IN_JOB = {name.lower() for name in (*SPELLINGS[Place.JOB], *CHILDREN_OF[Place.JOB], NODE_PROPERTIES)}


def _without_comments(text: str) -> str:
    before, *rest = text.split("<!--")
    return before + "".join(part.partition("-->")[2] for part in rest)


def _characters(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def _local(name: str) -> str:
    return name.rpartition(":")[2]
