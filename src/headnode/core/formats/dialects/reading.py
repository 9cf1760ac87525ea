"""The table of dialects; recognise and read a job file of any of them."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, Protocol

import msgspec

from headnode.core.formats.fidelity import Awareness, FidelityReport
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest, Path, TextPosition, task_number
from headnode.core.model.job import JobSpec
from headnode.core.model.resource import BatchResource
from headnode.core.model.task import ScriptOrigin

if TYPE_CHECKING:
    from headnode.core.formats.sss import SssDocument


class JobLanguage(StrEnum):
    """What one reader understands: the reader of a language finds the dialect."""

    COMPUTE_CLUSTER = "Compute Cluster XML"
    SSS = "SSS job object"
    GRID = "grid JSON"
    NATIVE = "native form"
    BATCH = "batch script"
    CONDOR = "HTCondor submit file or flow"


class JobDialect(msgspec.Struct, frozen=True, gc=False):
    """A dialect: its name in commands, its language, what people call it, and how names of its files end."""

    name: str
    language: JobLanguage
    title: str
    suffix: str


_XML, _GRID, _NATIVE = JobLanguage.COMPUTE_CLUSTER, JobLanguage.GRID, JobLanguage.NATIVE
DIALECTS = {
    dialect.name: dialect
    for dialect in (
        JobDialect("ccs", _XML, "Compute Cluster Server 2003, XML", ".xml"),
        JobDialect("hpcpack-2008", _XML, "HPC Server 2008, XML", ".xml"),
        JobDialect("hpcpack", _XML, "HPC Pack 2008 R2 and later, XML", ".xml"),
        JobDialect("sss", JobLanguage.SSS, "SSS job object 3.1.0, XML", ".xml"),
        JobDialect("sss-3.0", JobLanguage.SSS, "SSS job object 3.0.3, XML", ".xml"),
        JobDialect("grid", _GRID, "grid job description version 2, JSON", ".json"),
        JobDialect("grid-task", _GRID, "grid task description version 2, JSON", ".json"),
        JobDialect("native", _NATIVE, "Headnode's own form, TOML", ".toml"),
        JobDialect("native-json", _NATIVE, "Headnode's own form, JSON", ".json"),
        JobDialect("slurm", JobLanguage.BATCH, "Slurm batch script, #SBATCH", ".sh"),
        JobDialect("pbs", JobLanguage.BATCH, "PBS job script, #PBS", ".sh"),
        JobDialect("gridengine", JobLanguage.BATCH, "Grid Engine job script, #$", ".sh"),
        JobDialect("lsf", JobLanguage.BATCH, "LSF job script, #BSUB", ".sh"),
        JobDialect("htcondor", JobLanguage.CONDOR, "HTCondor submit description", ".sub"),
    )
}


SUBMITTED = "submitted"
"""What an export takes in place of a dialect: the file that the job was read from."""


def dialect_named(name: str) -> JobDialect:
    """Return the dialect that a user names, in any case.

    Raises:  BadRequest ``dialect`` with the nearest right one.
    """
    dialect = DIALECTS.get(name.strip().lower())
    if dialect is None:
        meant = nearest_name(name, DIALECTS)
        hint = f"did you mean {meant!r}? " if meant else ""
        raise BadRequest(
            code="dialect",
            what=f"there is no job language {name[:60]!r}",
            fix=f"{hint}choose from: {', '.join(DIALECTS)}",
        )
    return dialect


_LOOKED_AT = 65_536  # bytes or characters; the beginning of a file tells
_KEY = re.compile(r'"([A-Za-z_]{1,40})"[ \t\r\n]*+:')
_ONLY_NATIVE = "command"
"""A key of the native form, which every task with a program has, and grid JSON has not."""
_LIST = re.compile(r"\[\s*+\{")
_MESSAGE = re.compile(r"<(?:\w{1,40}:)?(?:Envelope|Body|Request|Response)[\s>/]")


def language_of(data: bytes | str) -> JobLanguage:
    """Return the language of a job file.

    Raises:  BadRequest ``not-a-job-file`` for an empty file, and for a program that was meant to be run.
    """
    text = _beginning(data).lstrip("\ufeff \t\r\n")
    if not text:
        _refuse("the file is empty", "write a job into it; hn convert writes one in every job language")
    if text.startswith("#"):
        from headnode.core.formats import batch

        if batch.is_batch_script(text):
            return JobLanguage.BATCH
    if text.startswith("#!"):
        _refuse("this is a script, not a job file", "write: hn job submit [options] ./SCRIPT")
    if text.startswith("\x7fELF"):
        _refuse("this is a program, not a job file", "write: hn job submit ./PROGRAM")
    if text.startswith("<"):
        return _xml(text)
    if _LIST.match(text):
        return JobLanguage.GRID  # whose reader says what a list of objects lacks
    if text.startswith("{"):
        return _json(text)
    from headnode.core.formats.condor.recognition import is_submit_file

    return JobLanguage.CONDOR if is_submit_file(text) else JobLanguage.NATIVE


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
    from headnode.core.formats.native import keys as native

    keys = _KEY.findall(text)
    natives = {*native.JOB_KEYS, *native.TASK_KEYS}
    if sum(key not in natives for key in keys) <= keys.count(_ONLY_NATIVE):
        return JobLanguage.NATIVE  # whatever keys the other language has: it need not be imported
    from headnode.core.formats.grid import keys as grid

    grids = {key for table in (grid.JOB_ROWS, grid.ITEM_ROWS, grid.TASK_ROWS) for key in table.by_key}
    of_grid = sum(key in grids and key not in natives for key in keys)
    of_native = sum(key in natives and key not in grids for key in keys)
    return JobLanguage.GRID if of_grid > of_native else JobLanguage.NATIVE


def _refuse(what: str, fix: str) -> NoReturn:
    raise BadRequest(code="not-a-job-file", what=what, fix=fix, place=TextPosition(1, 0))


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to read.

    `language` None recognises it.  `strict` also refuses what the tables of CCS have no room for, in XML of
    its family; `lenient` mends what is damaged beyond doubt, in SSS and grid; what one of them does not
    apply to is read the same with and without.  `files` holds the files that a grid job names, or the items
    of queue commands of a submit file.  `values` is what is put in for ``{name}`` in a grid job; given for
    another language, they are refused.  `machine` and `user` are the cluster where the jobs are submitted,
    and who does; empty when they are not.  `origin` is that of a batch script or a submit file.
    """

    awareness: Awareness = Awareness.WARN
    language: JobLanguage | None = None
    strict: bool = False
    lenient: bool = False
    files: Mapping[str, bytes] = {}
    values: Mapping[str, str] = {}
    machine: str = ""
    resources: tuple[BatchResource, ...] = ()
    user: str = ""
    origin: ScriptOrigin = ScriptOrigin()


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
    return _LANGUAGES[language][1](data, how)


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
    return _LANGUAGES[language][0]().place_of(data, path)


class _LanguagePackage(Protocol):
    """What every package of a language has."""

    def place_of(self, data: bytes | str, path: Path) -> TextPosition:
        """Return the position of a job or task; raises BadRequest when `data` cannot be read."""


def _hpc_xml_package() -> _LanguagePackage:
    from headnode.core.formats import hpc_xml

    return hpc_xml


def _sss_package() -> _LanguagePackage:
    from headnode.core.formats import sss

    return sss


def _grid_package() -> _LanguagePackage:
    from headnode.core.formats import grid

    return grid


def _native_package() -> _LanguagePackage:
    from headnode.core.formats import native

    return native


def _batch_package() -> _LanguagePackage:
    from headnode.core.formats import batch

    return batch


def _condor_package() -> _LanguagePackage:
    from headnode.core.formats.condor import reading  # the package itself has nothing: `recognition` is cheap

    return reading


def _compute_cluster(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import hpc_xml

    spec, report = hpc_xml.read_job(data, awareness=how.awareness, strict=how.strict)
    return ReadJobs(spec.dialect, (spec,), report)


def _sss(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import sss
    from headnode.core.formats.sss import conversion

    document, job = sss.read_document(data, awareness=how.awareness, lenient=how.lenient)
    try:
        there = tuple((each.name, each.system.value) for each in how.resources)
        asker = conversion.Asker(how.machine, how.user, there)
        meant = conversion.jobs_in(document, job, awareness=how.awareness, asker=asker)
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
    return ReadJobs(spec.dialect, (grid.placed_by_batch(spec, how.resources),), report)


def _native(data: bytes | str, how: ReadOptions) -> ReadJobs:  # noqa: ARG001  (all of it is understood)
    from headnode.core.formats import native

    jobs, report = native.read_jobs(data)
    start = data[:1000].lstrip() if isinstance(data, str) else data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json = start[:1] in ("{", b"{")
    return ReadJobs("native-json" if is_json else "native", jobs.jobs, report, jobs.links)


def _batch(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats import batch

    spec, report = batch.read_script(data, how.origin, awareness=how.awareness)
    return ReadJobs(spec.dialect, (spec,), report)


def _condor(data: bytes | str, how: ReadOptions) -> ReadJobs:
    from headnode.core.formats.condor.flows import read_flow
    from headnode.core.formats.condor.reading import read_submit
    from headnode.core.formats.condor.recognition import is_flow

    if is_flow(_beginning(data)):
        jobs, links, report = read_flow(data, how.origin, how.files, awareness=how.awareness)
        return ReadJobs("htcondor", jobs, report, links)
    jobs, report = read_submit(data, how.origin, how.files, awareness=how.awareness)
    return ReadJobs("htcondor", jobs, report)


_Row = tuple[Callable[[], _LanguagePackage], Callable[[bytes | str, ReadOptions], ReadJobs]]
_LANGUAGES: Mapping[JobLanguage, _Row] = {
    JobLanguage.COMPUTE_CLUSTER: (_hpc_xml_package, _compute_cluster),
    JobLanguage.SSS: (_sss_package, _sss),
    JobLanguage.GRID: (_grid_package, _grid),
    JobLanguage.NATIVE: (_native_package, _native),
    JobLanguage.BATCH: (_batch_package, _batch),
    JobLanguage.CONDOR: (_condor_package, _condor),
}
"""Of each language: its package, which is imported only when it is needed, and how a file in it is read."""
