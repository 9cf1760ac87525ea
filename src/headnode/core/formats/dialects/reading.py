"""Reading a job file of any language."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from headnode.core.formats.dialects.recognising import language_of
from headnode.core.formats.dialects.table import Language
from headnode.core.formats.fidelity import Awareness, Report
from headnode.core.formats.links import Link
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

if TYPE_CHECKING:
    from headnode.core.formats.sss import Document


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How to read.

    `language` None recognises it.  `strict` also refuses what the tables of CCS have no room for, in XML of
    its family; `lenient` mends what is damaged beyond doubt, in SSS and grid; what one of them does not
    apply to is read the same with and without.  `files` holds the files that a grid job names, `values` what
    is put in for ``{name}`` there; given for another language, they are refused.  `machine`
    and `user` are the cluster where the jobs are submitted, and who does; empty when they are not.
    """

    awareness: Awareness = Awareness.WARN
    language: Language | None = None
    strict: bool = False
    lenient: bool = False
    files: Mapping[str, bytes] = {}
    values: Mapping[str, str] = {}
    machine: str = ""
    user: str = ""


class Reading(msgspec.Struct, frozen=True):
    """What a file says: its jobs, in order, and which of them wait for which."""

    dialect: str
    jobs: tuple[JobSpec, ...]
    report: Report
    links: tuple[Link, ...] = ()
    awareness: Awareness | None = None  # the strictest policy that the file names for whole jobs

    def only_job(self) -> JobSpec:
        """Return the one job of the file.

        Raises:  BadRequest ``several-jobs``.
        """
        if len(self.jobs) == 1:
            return self.jobs[0]
        raise BadRequest(
            code="several-jobs",
            what=f"the file holds {len(self.jobs)} jobs, but only one is possible here",
            fix="write each into a file of its own, or submit them together: hn job submit FILE",
        )


_AS_USUAL = How()


def read(data: bytes | str, how: How = _AS_USUAL) -> Reading:
    """Read a job file; say what became of everything in it.

    Raises:  BadRequest with line and column: ``not-a-job-file``, what the reader of the language refuses,
             ``no-names`` for values in a language without names, and ``not-understood`` under awareness
             policy Reject.
    """
    language = how.language or language_of(data)
    if how.values and language is not Language.GRID:
        raise BadRequest(
            code="no-names",
            what=f"values were given for {', '.join(how.values)}; only grid job files have such names",
            fix="leave --set out",
        )
    return _READERS[language](data, how)


def locate(data: bytes | str, language: Language, refusal: BadRequest, job: int | None = None) -> BadRequest:
    """Return a refusal that came after reading with the line and column of the task it names.

    `job` is the number, from 0, of the job that is refused where there are several.
    Raises:  BadRequest when `data` cannot be read.
    """
    if language is Language.COMPUTE_CLUSTER:
        from headnode.core.formats import compute_cluster_xml

        return compute_cluster_xml.locate(data, refusal)
    if language is Language.GRID:
        from headnode.core.formats import grid

        return grid.locate(data, refusal)
    if language is Language.NATIVE:
        from headnode.core.formats import native_form

        return native_form.locate(data, refusal, job)
    from headnode.core.formats import sss

    return sss.locate(data, refusal, job)


def _compute_cluster(data: bytes | str, how: How) -> Reading:
    from headnode.core.formats import compute_cluster_xml

    spec, report = compute_cluster_xml.read_job(data, awareness=how.awareness, strict=how.strict)
    return Reading(spec.dialect, (spec,), report)


def _sss(data: bytes | str, how: How) -> Reading:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import meaning

    document, found = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    try:
        asker = meaning.Asker(how.machine, how.user)
        meant = meaning.jobs_in(document, found, awareness=how.awareness, asker=asker)
    except BadRequest as wrong:
        raise sss.locate(data, wrong) from wrong
    return Reading(sss_dialect(document), meant.jobs, meant.report, meant.links, _strictest(document))


def _strictest(document: "Document") -> Awareness | None:
    """Return the strictest policy of the document, its groups and jobs; None when they name none."""
    entries = [document, *document.entries]
    entries += [job for entry in document.entries for job in getattr(entry, "jobs", ())]
    named = {entry.awareness for entry in entries}
    return next((policy for policy in Awareness if policy in named), None)


def sss_dialect(document: "Document") -> str:
    """Return the name of the version that a document is written in."""
    return "sss" if document.version == "3.1.0" else "sss-3.0"


def _grid(data: bytes | str, how: How) -> Reading:
    from headnode.core.formats import grid

    options = grid.Options(
        awareness=how.awareness, lenient=how.lenient, files=how.files, variables=how.values
    )
    spec, report = grid.read_job(data, options)
    return Reading(spec.dialect, (spec,), report)


def _native(data: bytes | str, how: How) -> Reading:  # noqa: ARG001  (all of it is understood)
    from headnode.core.formats import native_form

    found, report = native_form.read_jobs(data)
    start = data[:1000].lstrip() if isinstance(data, str) else data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json = start[:1] in ("{", b"{")
    return Reading("native-json" if is_json else "native", found.jobs, report, found.links)


_READERS = {
    Language.COMPUTE_CLUSTER: _compute_cluster,
    Language.SSS: _sss,
    Language.GRID: _grid,
    Language.NATIVE: _native,
}
