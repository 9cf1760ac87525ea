"""Several jobs of Headnode as one SSS document, with what waits for what.

Source: SSS 3.1.0, "JobGroup", "Dependency".
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.links import Link
from headnode.core.formats.sss.job_object import Document, Entry
from headnode.core.formats.sss.meaning.documents import around, document_of, written_job
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.keeping import id_read_with
from headnode.core.formats.sss.meaning.links import dependency
from headnode.core.formats.sss.meaning.simple import ordered
from headnode.core.formats.sss.versions import Version
from headnode.core.model.dependencies import parents
from headnode.core.model.job import JobSpec

GROUP_ID = "jobs"
"""The Id of a group whose jobs name none."""


def document_of_jobs(
    specs: Sequence[JobSpec], links: Iterable[Link] = (), version: Version = Version.V3_1
) -> tuple[Document, Report]:
    """Return jobs as one SSS document, and what SSS cannot say of them, job by job.

    Jobs that wait for each other stand in one JobGroup; other jobs in the groups that they belong to, or
    alone in a Data element.
    """
    known = list(dict.fromkeys(links))
    if len(specs) == 1 and not known:
        return document_of(specs[0], version)
    findings = Findings()
    groups = _groups(specs, known, findings)
    alike = {name: len({spec.description for spec in own}) == 1 for name, own in _by(groups, specs)}
    described = alike | {"": False}
    report = list(findings.report())
    jobs = []
    for spec, name, group in zip(specs, _ids(specs), groups, strict=True):
        found = Findings()
        jobs.append(written_job(spec, name, found, described=described[group]))
        report += (_of_job(item, name) for item in found.report())
    for link in known:
        waited = dependency(jobs[link.parent].id, link.condition)
        child = jobs[link.child]
        jobs[link.child] = replace(child, properties=ordered([*child.properties, waited]))
    entries: list[Entry] = []
    for (name, own), (_, written) in zip(_by(groups, specs), _by(groups, jobs), strict=True):
        entries += [around(own, written, name, described=described[name])] if name else written
    return Document(version=version, entries=tuple(entries)), tuple(report)


def _of_job(item: Item, name: str) -> Item:
    """Return a finding with the job that it is about."""
    where = f"job {name!r}" if item.where == "job" else f"job {name!r}, {item.where}"
    return Item(item.kind, where, item.what)


def _by(groups: Sequence[str], each: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return what belongs to each group, in the order of their first jobs; that of no group by itself."""
    return [
        (name, [one for group, one in zip(groups, each, strict=True) if group == name])
        for name in dict.fromkeys(groups)
    ]


def _ids(specs: Sequence[JobSpec]) -> Iterator[str]:
    """Yield an id for each job: the one it was read with, its name, or its place, whichever is free first."""
    taken = {str(other) for spec in specs for other in parents(spec)}  # ids that mean other jobs
    for number, spec in enumerate(specs, 1):
        was = id_read_with(spec.extensions)
        wishes = (was, spec.name.strip(), f"job{number}")
        name = next((one for one in wishes if one and one not in taken), f"job{number}")
        while name in taken:
            name = f"{name}-{number}"
        taken.add(name)
        yield name


def _groups(specs: Sequence[JobSpec], links: Sequence[Link], findings: Findings) -> list[str]:
    """Return the name of the group of each job: one for all, where jobs of several wait for each other."""
    names = [spec.job_group for spec in specs]
    if all(names[link.parent] == names[link.child] != "" for link in links):
        if len(set(names)) > 1:
            findings.add(Kind.NOTE, "job", "jobs: they stand group by group")
        return names
    called = next(filter(None, names), GROUP_ID)
    what = f"job_group: jobs that wait for each other are of one group, which is {called!r}"
    findings.add(Kind.APPROXIMATED, "job", what)
    return [called] * len(specs)
