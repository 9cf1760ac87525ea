"""The place in a job file of a refusal that came after reading."""

import re

from lxml import etree

from headnode.core.formats.compute_cluster_xml.document import Document, parse
from headnode.core.formats.compute_cluster_xml.lists import is_nil
from headnode.core.model.errors import BadRequest

_TASK = re.compile(r"\btask (\d+)\b")
_PLACE = re.compile(r"line \d+, column \d+: ")


def locate(text: bytes | str, refusal: BadRequest) -> BadRequest:
    """Return `refusal` with the line and column of the task it names, or of the job.

    A refusal that has its place already stays as it is.
    Raises:  BadRequest as `read_job` when `text` cannot be read.
    """
    if _PLACE.match(refusal.what):
        return refusal
    document = parse(text)
    elements = [document.root, *_tasks(document)]
    named = _TASK.search(refusal.what)
    number = int(named[1]) if named and int(named[1]) < len(elements) else 0
    place = document.place(elements[number])
    return BadRequest(code=refusal.code, what=f"{place}: {refusal.what}", fix=refusal.fix)


def _tasks(document: Document) -> list[etree._Element]:
    return [element for element in document.root.iter("{*}Task") if not is_nil(element)]
