"""Where in an SSS document the element is that a refusal is about, which came after reading.

Source: SSS 3.1.0, the syntax of each element.
"""

import re
from collections.abc import Iterator

from lxml import etree

from headnode.core.formats.sss.job_xml.findings import Findings, local
from headnode.core.formats.sss.job_xml.reader import tree_of
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

_PLACE = re.compile(r"line [0-9]+, column [0-9]+: ")
_JOB = re.compile(r"job '(?P<id>[^']*)'")
_GROUP = re.compile(r"task group (?P<number>[0-9]{1,7})")
_TASK = re.compile(r"\btask (?P<number>[0-9]{1,7})\b")
_WORD = re.compile(r"[A-Z][A-Za-z]+")
_OF_REQUESTS = ("request", "too-many-alternatives", "groups")
_NAMES = {
    name: spelling.row.name
    for place in (Place.JOB, Place.TASK_GROUP, Place.TASK, Place.REQUESTED)
    for name, spelling in SPELLINGS[place].items()
}


def locate(text: bytes | str, refusal: BadRequest, job: int | None = None) -> BadRequest:
    """Return `refusal` with the line and column of what it names: a property, a task group, or the job.

    `job` is the number of the job, from 0, where that is known; else it is the one whose id is named.
    A refusal that has its place already stays as it is.
    Raises:  BadRequest as `read_document` when `text` is no XML, even after mending.
    """
    if _PLACE.match(refusal.what):
        return refusal
    tree, mended = tree_of(text, lenient=True)
    found = Findings(tree, mended)
    element = _meant(tree.root, refusal, job)
    return BadRequest(code=refusal.code, what=f"{found.place(element)}: {refusal.what}", fix=refusal.fix)


def _meant(root: etree._Element, refusal: BadRequest, number: int | None) -> etree._Element:
    jobs = list(_jobs(root))
    job = _job(jobs, refusal.what, number)
    if job is None:
        return root
    part = _part(job, refusal.what)
    names = ("Requested",) if refusal.code in _OF_REQUESTS else _named(refusal.what)
    found = (_first(scope, names) for scope in (part, job, root) if names)
    return next((one for one in found if one is not None), part)


def _jobs(root: etree._Element) -> Iterator[etree._Element]:
    """Yield the jobs in their order; those defined elsewhere are none."""
    if local(root).lower() == "job":
        yield root
    for element in root:
        if local(element).lower() == "job" and len(element):
            yield element
        elif local(element).lower() == "jobgroup":
            yield from _jobs(element)


def _job(jobs: list[etree._Element], what: str, number: int | None) -> etree._Element | None:
    if number is not None and number < len(jobs):
        return jobs[number]
    named = _JOB.search(what)
    for job in jobs:
        if named and any(
            local(one) in ("Id", "JobId") and (one.text or "").strip() == named["id"] for one in job
        ):
            return job
    return jobs[0] if jobs else None


def _part(job: etree._Element, what: str) -> etree._Element:
    """Return the task group that is named, or else the job."""
    groups = [one for one in job if local(one).lower() == "taskgroup"]
    named = _GROUP.search(what)
    if named is None and not any(sum(local(one).lower() == "task" for one in group) > 1 for group in groups):
        named = _TASK.search(what)
    number = int(named["number"]) if named else 0
    return groups[number - 1] if 1 <= number <= len(groups) else job


def _named(what: str) -> tuple[str, ...]:
    """Return the names in both versions of the first property that is named."""
    for word in _WORD.findall(what):
        if word in _NAMES:
            return tuple(name for name, row in _NAMES.items() if row == _NAMES[word])
    return ()


def _first(element: etree._Element, names: tuple[str, ...]) -> etree._Element | None:
    return next((one for one in element.iterdescendants("{*}*") if local(one) in names), None)
