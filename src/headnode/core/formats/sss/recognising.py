"""Telling an SSS job object from other files, by its content.

Source: SSS 3.1.0 and SSS 3.0.3; Compute Cluster job files have a Job element, too, with attributes.
"""

import re

from headnode.core.formats.compute_cluster_xml.dialects import BY_NAMESPACE
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import CHILDREN_OF, SPELLINGS

_LOOKED_AT = 65_536  # characters; the first elements tell
_ELEMENT = re.compile(r"<([A-Za-z_][\w.:-]{0,80}+)([^<>]{0,4000}+)>")


def is_job_object(text: bytes | str) -> bool:
    """Whether `text` is an SSS job object, however damaged.

    >>> is_job_object("<Job><Id>1</Id></Job>"), is_job_object('<Job Name="a"><Tasks/></Job>')
    (True, False)
    """
    start = text[:_LOOKED_AT]
    readable = start if isinstance(start, str) else _characters(start)
    elements = _ELEMENT.findall(_without_comments(readable))
    if not elements or any(f'"{namespace}"' in elements[0][1] for namespace in BY_NAMESPACE):
        return False
    root, inside = _local(elements[0][0]), [_local(name) for name, _ in elements[1:50]]
    if root == "Data":
        return any(name in ("Job", "JobGroup", "File") for name in inside)
    return root == "JobGroup" or (root == "Job" and any(_may_stand(name) for name in inside[:1]))


def _may_stand(name: str) -> bool:
    return name in SPELLINGS[Place.JOB] or name in CHILDREN_OF[Place.JOB] or name == "NodeProperties"


def _without_comments(text: str) -> str:
    before, *rest = text.split("<!--")
    return before + "".join(part.partition("-->")[2] for part in rest)


def _characters(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def _local(name: str) -> str:
    return name.rpartition(":")[2]
