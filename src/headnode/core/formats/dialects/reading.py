"""The table of dialects; recognise and read a job file of any of them."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

import msgspec

from headnode.core.formats.fidelity import Awareness, FidelityReport
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest, Path, TextPosition, task_number
from headnode.core.model.job import DependencyLink, JobSpec

if TYPE_CHECKING:
    from headnode.core.formats.sss import SssDocument


class JobLanguage(StrEnum):
    """What one reader understands: dialects of one language are told apart by their reader."""

    COMPUTE_CLUSTER = "Compute Cluster XML"
    SSS = "SSS job object"
    GRID = "grid JSON"
    NATIVE = "native form"


class JobDialect(msgspec.Struct, frozen=True, gc=False):
    """A dialect: its name in commands, the language it belongs to, and what people call it."""

    name: str
    language: JobLanguage
    title: str


_XML, _GRID, _NATIVE = JobLanguage.COMPUTE_CLUSTER, JobLanguage.GRID, JobLanguage.NATIVE
DIALECTS = {
    dialect.name: dialect
    for dialect in (
        JobDialect("ccs", _XML, "Compute Cluster Server 2003, XML"),
        JobDialect("hpcpack-2008", _XML, "HPC Server 2008, XML"),
        JobDialect("hpcpack", _XML, "HPC Pack 2008 R2 and later, XML"),
        JobDialect("sss", JobLanguage.SSS, "SSS job object 3.1.0, XML"),
        JobDialect("sss-3.0", JobLanguage.SSS, "SSS job object 3.0.3, XML"),
        JobDialect("grid", _GRID, "grid job description version 2, JSON"),
        JobDialect("grid-task", _GRID, "grid task description version 2, JSON"),
        JobDialect("native", _NATIVE, "Headnode's own form, TOML"),
        JobDialect("native-json", _NATIVE, "Headnode's own form, JSON"),
    )
}


def dialect_named(name: str) -> JobDialect:
    """Return the dialect that a user names, in any case.

    Raises:  BadRequest ``dialect`` with the nearest right one.
    """
    found = DIALECTS.get(name.strip().lower())
    if found is None:
        meant = nearest_name(name, DIALECTS)
        hint = f"did you mean {meant!r}? " if meant else ""
        raise BadRequest(
            code="dialect",
            what=f"there is no job language {name[:60]!r}",
            fix=f"{hint}choose from: {', '.join(DIALECTS)}",
        )
    return found


_LOOKED_AT = 65_536  # bytes or characters; the beginning of a file tells
_KEY = re.compile(r'"([A-Za-z_]{1,40})"[ \t\r\n]*+:')
_LIST = re.compile(r"\[\s*+\{")
_MESSAGE = re.compile(r"<(?:\w{1,40}:)?(?:Envelope|Body|Request|Response)[\s>/]")
_SCRIPTS = (
    ("#SBATCH", "Slurm"),
    ("#PBS", "PBS"),
    ("#$ -", "Grid Engine"),
)


def language_of(data: bytes | str) -> JobLanguage:
    """Return the language of a job file.

    Raises:  BadRequest ``not-a-job-file`` for an empty file, and for a program that was meant to be run.
    """
    text = _beginning(data).lstrip("\ufeff \t\r\n")
    if not text:
        _refuse("the file is empty", "write a job into it; hn convert writes one in every job language")
    if text.startswith("#!"):
        _refuse_script(text)
    if text.startswith("\x7fELF"):
        _refuse("this is a program, not a job file", "write: hn job submit ./PROGRAM")
    if text.startswith("<"):
        return _xml(text)
    if _LIST.match(text):
        return JobLanguage.GRID  # whose reader says what a list of objects lacks
    return _json(text) if text.startswith("{") else JobLanguage.NATIVE


def _beginning(data: bytes | str) -> str:
    start = data[:_LOOKED_AT]
    if isinstance(start, str):
        return start
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return start.decode("utf-16", "replace")
    return start.decode("utf-8", "replace")


def _xml(text: str) -> JobLanguage:
    from headnode.core.formats import sss  # with lxml, which who reads no XML does without

    if sss.is_job_object(text) or _MESSAGE.search(text[:1000]):
        return JobLanguage.SSS
    return JobLanguage.COMPUTE_CLUSTER


def _json(text: str) -> JobLanguage:
    """Tell by the keys that only one of the two languages has; what has none of either is native."""
    from headnode.core.formats.grid import keys as grid
    from headnode.core.formats.native import keys as native

    grids = {key for table in (grid.JOB_ROWS, grid.ITEM_ROWS, grid.TASK_ROWS) for key in table.by_key}
    natives = {*native.JOB_KEYS, *native.TASK_KEYS}
    found = _KEY.findall(text)
    of_grid = sum(key in grids and key not in natives for key in found)
    of_native = sum(key in natives and key not in grids for key in found)
    return JobLanguage.GRID if of_grid > of_native else JobLanguage.NATIVE


def _refuse_script(text: str) -> NoReturn:
    meant = next((name for mark, name in _SCRIPTS if f"\n{mark}" in text), "")
    of = f" with options for {meant}" if meant else ""
    way = "write: hn job submit [options] ./SCRIPT"
    _refuse(f"this is a script{of}, not a job file", f"{way}, with its options on the command line")


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="not-a-job-file", what=what, fix=fix, place=TextPosition(1, 0))


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read.

    `language` None recognises it.  `strict` also refuses what the tables of CCS have no room for, in XML of
    its family; `lenient` mends what is damaged beyond doubt, in SSS and grid; what one of them does not
    apply to is read the same with and without.  `files` holds the files that a grid job names, `values` what
    is put in for ``{name}`` there; given for another language, they are refused.  `machine`
    and `user` are the cluster where the jobs are submitted, and who does; empty when they are not.
    """

    awareness: Awareness = Awareness.WARN
    language: JobLanguage | None = None
    strict: bool = False
    lenient: bool = False
    files: Mapping[str, bytes] = {}
    values: Mapping[str, str] = {}
    machine: str = ""
    user: str = ""


class ReadJobs(msgspec.Struct, frozen=True):
    """What a file says: its jobs, in order, and which of them wait for which."""

    dialect: str
    jobs: tuple[JobSpec, ...]
    report: FidelityReport
    links: tuple[DependencyLink, ...] = ()
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


_AS_USUAL = ReadOptions()


def read(data: bytes | str, how: ReadOptions = _AS_USUAL) -> ReadJobs:
    """Read a job file; say what became of everything in it.

    Raises:  BadRequest with line and column: ``not-a-job-file``, what the reader of the language refuses,
             ``no-names`` for values in a language without names, and ``not-understood`` under awareness
             policy Reject.
    """
    language = how.language or language_of(data)
    if how.values and language is not JobLanguage.GRID:
        raise BadRequest(
            code="no-names",
            what=f"values were given for {', '.join(how.values)}; only grid job files have such names",
            fix="leave --set out",
        )
    return _READERS[language](data, how)


def locate(
    data: bytes | str, language: JobLanguage, refusal: BadRequest, job: int | None = None
) -> BadRequest:
    """Return a refusal of a job that was read with the line and column of its task, or of the job.

    `job` is the number, from 0, of the job that is refused where there are several.
    Raises:  BadRequest when `data` cannot be read.
    """
    if refusal.place is not None:
        return refusal
    path: Path = () if job is None else ("jobs", job)
    task = task_number(refusal.path)
    place = place_of(data, language, path if task is None else (*path, "tasks", task))
    return BadRequest(code=refusal.code, what=refusal.what, fix=refusal.fix, path=refusal.path, place=place)


def place_of(data: bytes | str, language: JobLanguage, path: Path) -> TextPosition:
    """Return the position of a job or task that was read: ``("jobs", 1, "tasks", 0)``, or less of that.

    Raises:  BadRequest when `data` cannot be read.
    """
    if language is JobLanguage.COMPUTE_CLUSTER:
        from headnode.core.formats import hpc_xml

        return hpc_xml.place_of(data, path)
    if language is JobLanguage.GRID:
        from headnode.core.formats import grid

        return grid.place_of(data, path)
    if language is JobLanguage.NATIVE:
        from headnode.core.formats import native

        return native.place_of(data, path)
    from headnode.core.formats import sss

    return sss.place_of(data, path)


def _compute_cluster(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import hpc_xml

    spec, report = hpc_xml.read_job(data, awareness=how.awareness, strict=how.strict)
    return ReadJobs(spec.dialect, (spec,), report)


def _sss(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import conversion

    document, found = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    try:
        asker = conversion.Asker(how.machine, how.user)
        meant = conversion.jobs_in(document, found, awareness=how.awareness, asker=asker)
    except BadRequest as wrong:
        place = sss.place_of(data, wrong.path)
        raise BadRequest(code=wrong.code, what=wrong.what, fix=wrong.fix, place=place) from wrong
    return ReadJobs(sss_dialect(document), meant.jobs, meant.report, meant.links, _strictest(document))


def _strictest(document: "SssDocument") -> Awareness | None:
    """Return the strictest policy of the document, its groups and jobs; None when they name none."""
    entries = [document, *document.entries]
    entries += [job for entry in document.entries for job in getattr(entry, "jobs", ())]
    named = {entry.awareness for entry in entries}
    return next((policy for policy in Awareness if policy in named), None)


def sss_dialect(document: "SssDocument") -> str:
    """Return the name of the version that a document is written in."""
    return "sss" if document.version == "3.1.0" else "sss-3.0"


def _grid(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import grid

    options = grid.GridOptions(
        awareness=how.awareness, lenient=how.lenient, files=how.files, variables=how.values
    )
    spec, report = grid.read_job(data, options)
    return ReadJobs(spec.dialect, (spec,), report)


def _native(data: bytes | str, how: ReadOptions) -> ReadJobs:  # noqa: ARG001  (all of it is understood)
    from headnode.core.formats import native

    found, report = native.read_jobs(data)
    start = data[:1000].lstrip() if isinstance(data, str) else data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json = start[:1] in ("{", b"{")
    return ReadJobs("native-json" if is_json else "native", found.jobs, report, found.links)


_READERS = {
    JobLanguage.COMPUTE_CLUSTER: _compute_cluster,
    JobLanguage.SSS: _sss,
    JobLanguage.GRID: _grid,
    JobLanguage.NATIVE: _native,
}
