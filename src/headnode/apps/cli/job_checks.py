"""Reads a job file here, without a head, and checks it by every rule that needs no cluster."""

import os
import pwd
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headnode.adapters.garbage import without_collection
from headnode.apps.cli.job_files import files_beside, read_bytes
from headnode.apps.cli.queue_items import variables_named
from headnode.apps.client.submitter import current_directory
from headnode.core.formats.condor.recognition import is_submit_file
from headnode.core.formats.dialects import (
    DIALECTS,
    ReadJobs,
    ReadOptions,
    convert,
    convert_each,
    language_of,
    locate,
    read,
)
from headnode.core.formats.fidelity import FidelityReport, FileErrors, ReportItem
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.task import ScriptOrigin
from headnode.core.state.permissions import plain_name

ERROR = "error"
NOT_RUNNABLE = "not-runnable"
Finding = dict[str, Any]


class JobFileSource:
    """A job file: its name, its bytes, and the files it names."""

    def __init__(self, name: str) -> None:
        """Read it.

        Raises:  BadRequest ``job-file``.
        """
        self.data, self._path = read_bytes(name), name
        self.name = "standard input" if name == "-" else name
        self._files = {beside: text.encode() for beside, text in files_beside(name, self.data).items()}

    def read(self, how: ReadOptions) -> ReadJobs:
        """Return what it says.

        Raises:  BadRequest as the reader of its language does.
        """
        return without_collection(read, self.data, self._with_files(how))

    def converted(
        self, how: ReadOptions, to: str
    ) -> tuple[str, FidelityReport, tuple[bytes, FidelityReport]]:
        """Return what it was read as, the report of that, and its jobs in dialect `to` with their own.

        Raises:  BadRequest as `headnode.core.formats.dialects.convert`.
        """
        return without_collection(convert, self.data, self._with_files(how), to)

    def converted_each(
        self, how: ReadOptions, to: str
    ) -> tuple[str, FidelityReport, tuple[Sequence[tuple[str, bytes]], FidelityReport]]:
        """Return what it was read as, the report of that, and each job as a file, with their report.

        Raises:  BadRequest as `headnode.core.formats.dialects.convert_each`.
        """
        return convert_each(self.data, self._with_files(how), to)

    def _with_files(self, how: ReadOptions) -> ReadOptions:
        return replace(how, files=self._files, origin=self._origin())

    def _origin(self) -> ScriptOrigin:
        """Return where the file comes from: a submit file is about files of the current directory."""
        start = self.data[:65_536].decode("utf-8", "replace")
        if not is_submit_file(start):
            return ScriptOrigin(words=(self._path,))
        texts = (data.decode("utf-8", "replace") for data in (self.data, *self._files.values()))
        variables = variables_named(texts)
        return ScriptOrigin(words=(self._path,), directory=current_directory(), environment=variables)


def findings(source: JobFileSource, how: ReadOptions) -> tuple[str, list[Finding]]:
    """Return what a file was taken for, and all that is to be said of it.

    A finding of kind `ERROR` keeps it from being read, one of kind `NOT_RUNNABLE` from being submitted.
    """
    try:
        reading = source.read(how)
    except FileErrors as several:
        return _taken_for(source, how), [*map(error_finding, several.each), *_unlisted(several)]
    except BadRequest as wrong:
        return _taken_for(source, how), [error_finding(wrong)]
    items = [finding_of(item) for item in reading.report]
    language = DIALECTS[reading.dialect].language
    for number, spec in enumerate(reading.jobs):
        one_of_several = number if len(reading.jobs) > 1 else None
        try:
            check_job(spec)
        except BadRequest as wrong:
            items.append(error_finding(locate(source.data, language, wrong, one_of_several)))
        else:
            named = f"job {number + 1}" + (f" {spec.name!r}" if spec.name else "")
            whose = f"{named}: " if len(reading.jobs) > 1 else ""
            items += [*_not_runnable(spec, whose), *_known_to_the_cluster_only(spec, whose)]
    return reading.dialect, items


def _unlisted(several: FileErrors) -> list[Finding]:
    """Return what stands for the faults that are not listed."""
    if not several.unlisted:
        return []
    what = f"{several.unlisted} more such faults are not listed"
    return [{"kind": ERROR, "where": "", "what": what, "code": several.code, **_place(0, 0)}]


def _taken_for(source: JobFileSource, how: ReadOptions) -> str:
    """Return the language of a file that cannot be read; "" when it is in none."""
    try:
        return (how.language or language_of(source.data)).value
    except BadRequest:
        return ""


def _known_to_the_cluster_only(spec: JobSpec, whose: str) -> list[Finding]:
    """Return what no file tells: whether the cluster counts its licences, and has its user."""
    notes: list[tuple[str, str]] = []
    if spec.licences:
        names = ", ".join(sorted({licence.feature for licence in spec.licences}))
        what = "no job waits for a licence that the cluster does not count; see: hn cluster params Licences"
        notes.append(("licences", f"{whose}it requests {names}; {what}"))
    user = plain_name(spec.run_as)
    own = pwd.getpwuid(os.geteuid()).pw_name
    if user and user.casefold() != own.casefold():
        what = f"{whose}it runs as {user!r}, so {user} or an administrator must submit it"
        notes.append(("user", f"{what}; to run it as yourself: hn job submit --user {own} FILE"))
    return [{"kind": "note", "where": where, "what": what, **_place(0, 0)} for where, what in notes]


def _not_runnable(spec: JobSpec, whose: str) -> list[Finding]:
    """A task without a program is a legal document, and a job that can be kept: not an error of the file."""
    try:
        check_runnable(spec)
        if spec.dialect.startswith("grid"):
            from headnode.core.formats.grid import refuse_other_batch

            refuse_other_batch(spec)
    except BadRequest as wrong:
        return [_not_runnable_finding(wrong, whose)]
    return []


def _not_runnable_finding(wrong: BadRequest, whose: str) -> Finding:
    what = f"{whose}it can be created but not submitted: {wrong.what}; {wrong.fix}"
    return {"kind": NOT_RUNNABLE, "where": "", "what": what, "code": wrong.code, **_place(0, 0)}


def finding_of(item: ReportItem) -> Finding:
    """Return an item of a fidelity report as `hn` prints it."""
    return {"kind": str(item.kind), "where": item.where, "what": item.what, **_place(item.line, item.column)}


def _place(line: int, column: int) -> dict[str, int | None]:
    return {"line": line or None, "column": column if line else None}


def error_finding(wrong: BadRequest) -> Finding:
    """Return an error as a finding."""
    line, column, what = _split(wrong)
    fix = f"; {wrong.fix}" if wrong.fix else ""
    return {"kind": ERROR, "where": "", "what": what + fix, "code": wrong.code, **_place(line, column)}


def _split(wrong: BadRequest) -> tuple[int, int, str]:
    """Return the line and column of an error in the file itself, 0 and 0 for none, and its sentence."""
    if wrong.place is None or wrong.file:
        return 0, 0, wrong.what
    return (*wrong.place, wrong.sentence)


def in_file(wrong: BadRequest, name: str) -> BadRequest:
    """Return an error of a file with the file's name before its line and column."""
    line, column, what = _split(wrong)
    place = f"{name}:{line}:{column}" if line else name
    return BadRequest(code=wrong.code, what=f"{place}: {what}", fix=wrong.fix)
