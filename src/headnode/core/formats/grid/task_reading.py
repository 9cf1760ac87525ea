"""The definition of a grid task as fields of a task."""

import re
from collections.abc import Iterable, Mapping
from itertools import starmap
from typing import Any

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.grid.command_lines import join, mpi, with_directory
from headnode.core.formats.grid.keys import MAX_CODE, MAX_COUNT, TASK_ROWS
from headnode.core.formats.grid.source import ATTEMPTS, BASE, Behaviour, GridObject, as_extension
from headnode.core.model.staging import SCHEMES, STREAMS, StorageBase, is_url, local_path, scheme_of
from headnode.core.model.task import Distribution, StagedFile

Fields = dict[str, Any]
PREFIX = "definition."
_EXPANDED = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%|\$\{?[A-Za-z_]")
ONE_PROCESS = ("single", "openmp")
"""Values of jobtype with which a task is one process, whatever its count."""

_SIZES = frozenset(("count", "jobtype", "nodes", "ppn"))
_STAGED = {"input_files": "stage_in", "output_files": "stage_out"}


class GridTaskReader:
    """Translates definitions of one job.  `base` is the storage base of the job, or ""."""

    def __init__(self, base: str, behaviour: Behaviour) -> None:
        self._base, self._behaviour = StorageBase(base), behaviour

    def fields(self, source: GridObject) -> Fields:
        """Return the fields of a task that its definition fills; requirements are not among them."""
        extensions = source.kept(TASK_ROWS, PREFIX)
        base = self._base
        if BASE in source.values:
            base = StorageBase(source.values[BASE])
            check_base(source, base.url)
        fields = _program(source, extensions) | _exit_codes(source.values)
        fields |= self._streams(source, base, extensions)
        fields |= self._files(source, base, extensions)
        fields["private_directory"] = True
        if BASE in source.values:
            fields["storage_base"] = source.values[BASE]
        if ATTEMPTS in source.values:
            fields["transfer_attempts"] = source.values[ATTEMPTS]
        return fields | {"environment": self._environment(source, extensions), "extensions": extensions}

    def _environment(self, source: GridObject, extensions: dict[str, str]) -> dict[str, str]:
        written: Mapping[str, str | int] = source.values.get("environment", {})
        if not written:
            return {}
        upper = self._behaviour is Behaviour.PUBLISHED
        environment = {name.upper() if upper else name: str(value) for name, value in written.items()}
        if len(environment) < len(written):
            self._refuse_same(source, written)
        spelled = {own: name for own, name in zip(environment, written, strict=True) if own != name}
        if spelled:
            extensions[f"{PREFIX}environment"] = as_extension(spelled)
        self._report_environment(source, bool(spelled), environment)
        return environment

    def _refuse_same(self, source: GridObject, names: Iterable[str]) -> None:
        """Refuse the first name that is another one in upper case."""
        before: set[str] = set()
        for name in names:
            own = name.upper()
            if own in before:
                what = f"environment: {name!r} is {own!r}, which already exists"
                source.refuse("environment", "given-twice", what, "write it once, in upper case")
            before.add(own)

    def _report_environment(self, source: GridObject, upper: bool, read: Mapping[str, str]) -> None:
        what = "names are in upper case" if upper else "it is the environment of the task"
        source.report(Fidelity.TRANSLATED if upper else Fidelity.KEPT, "environment", what)
        if not all(read.values()):
            source.report(Fidelity.APPROXIMATED, "environment", "a variable without a value is not set")

    def _streams(self, source: GridObject, base: StorageBase, extensions: dict[str, str]) -> Fields:
        fields: Fields = {}
        for key, field in STREAMS.items():
            reference = source.values.get(key, "")
            if not reference:
                continue
            url = base.far_url(reference)
            if url:
                fields[field] = url
                extensions[PREFIX + key] = reference
                self._report_transfer(source, key, scheme_of(url))
                continue
            url = base.resolve(reference)
            path = local_path(url)
            if path:
                fields[field] = path
                self._report_path(source, key, path)
                continue
            if is_url(url):
                fields[field] = url
                self._report_transfer(source, key, scheme_of(url))
            else:
                self._ignore(source, key, reference)
            if url != reference or not is_url(url):
                extensions[PREFIX + key] = reference
        return fields

    def _report_transfer(self, source: GridObject, key: str, scheme: str) -> None:
        if scheme in SCHEMES:
            source.report(Fidelity.KEPT, key, "files are transferred")
        else:
            source.report(Fidelity.NOT_SUPPORTED, key, f"files cannot be transferred by {scheme[:20]!r}")

    def _report_path(self, source: GridObject, key: str, path: str) -> None:
        if _EXPANDED.search(path):
            source.report(Fidelity.APPROXIMATED, key, "variables in the path are replaced by their values")
        else:
            source.report(Fidelity.TRANSLATED, key, "a file:// URL is a path on the node")

    def _ignore(self, source: GridObject, key: str, reference: str) -> None:
        """Say that a path means nothing without a storage base; the Pilot service refused it."""
        if self._behaviour is Behaviour.PILOT:
            what = f"{key}: path {reference!r} is not below any {BASE}"
            source.refuse(key, "no-storage-base", what, f"write a URL, or add {BASE!r}")
        what = f"a path without {BASE} is ignored, as the specification says"
        source.report(Fidelity.NOT_SUPPORTED, key, what)

    def _files(self, source: GridObject, base: StorageBase, extensions: dict[str, str]) -> Fields:
        """Return what is staged; paths that no base makes URLs of are kept, and ignored."""
        fields: Fields = {}
        for key, field in _STAGED.items():
            files: Mapping[str, str] | None = source.values.get(key)
            if not files:
                continue
            moved = files
            if not base.is_set:
                moved = {path: url for path, url in files.items() if is_url(url)}
            if moved:
                fields[field] = tuple(starmap(StagedFile, moved.items()))
                first = next(iter(moved.values()))
                self._report_transfer(source, key, scheme_of(first if is_url(first) else base.url))
            if len(moved) < len(files):
                ignored = {path: url for path, url in files.items() if path not in moved}
                extensions[PREFIX + key] = as_extension(ignored)
                self._ignore(source, key, next(iter(ignored.values())))
        return fields


def check_base(source: GridObject, base: str) -> None:
    """Refuse a storage base that is no URL; say what becomes of one without a slash at its end.

    Raises:  BadRequest ``storage-base``.
    """
    if BASE not in source.values:
        return
    if not is_url(base):
        what = f"{BASE} {base[:80]!r} is not a URL"
        source.refuse(BASE, "storage-base", what, "write its scheme, for example gsiftp://host/directory/")
    if not base.endswith("/"):
        source.report(
            Fidelity.NOTE, BASE, "it has no slash at its end: its last part is replaced, not followed"
        )


def _program(source: GridObject, extensions: dict[str, str]) -> Fields:
    """Return command line, size and distribution."""
    found = source.values
    executable = with_directory(found["executable"])
    if executable != found["executable"]:
        source.report(
            Fidelity.TRANSLATED, "executable", "a path without a slash is one in the work directory"
        )
    words = [executable, *found.get("arguments", ())]
    if _SIZES.isdisjoint(found):
        return {"command": join(words), "minimum": 1, "maximum": 1, "distribution": None}
    count, parallel = _count(source, extensions)
    if parallel:
        words = mpi(count, words)
        source.report(Fidelity.TRANSLATED, "count", "more than 1: an MPI program, started with mpiexec")
    elif count > 1:
        source.report(Fidelity.KEPT, "count", "processors for one process, as jobtype says")
    distribution = _distribution(source, count, parallel, extensions)
    return {"command": join(words), "minimum": count, "maximum": count, "distribution": distribution}


def _count(source: GridObject, extensions: dict[str, str]) -> tuple[int, bool]:
    """Return the number of processors, and whether that many processes are started."""
    found = source.values
    kind = found.get("jobtype", "")
    count = max(found.get("count", 1), 1)
    if "count" not in found and kind in ("mpi", "hybrid"):
        count = max(found.get("nodes", 1), 1) * max(found.get("ppn", 1), 1)
        if count > MAX_COUNT:
            source.refuse("nodes", "value", f"{count} processes", f"ask for at most {MAX_COUNT}")
    if kind:
        extensions[PREFIX + "jobtype"] = kind
        _report_kind(source, kind, count)
    return count, count > 1 and kind not in ONE_PROCESS


def _distribution(
    source: GridObject, count: int, parallel: bool, extensions: dict[str, str]
) -> Distribution | None:
    """Return how the processes are laid on nodes.  What it does not say of nodes and ppn is kept."""
    nodes, per_node = (max(source.values.get(key, 0), 0) for key in ("nodes", "ppn"))
    if not parallel:
        what = "it is kept: there is one process"
        _keep(source, ("nodes", "ppn"), Fidelity.NOT_SUPPORTED, what, extensions)
        is_threads = source.values.get("jobtype") == "openmp" and count > 1
        return Distribution(nodes=1) if is_threads else None
    if per_node:
        source.report(Fidelity.TRANSLATED, "ppn", "this is the number of processes on each node")
        fits = nodes * per_node == count
        kind = Fidelity.KEPT if fits else Fidelity.APPROXIMATED
        _keep(source, ("nodes",), kind, "the number of nodes follows from count and ppn", extensions)
        return Distribution(per_node=per_node)
    if not nodes:
        return None
    if nodes > count:
        what = f"it is kept: {count} processes are on fewer nodes"
        _keep(source, ("nodes",), Fidelity.APPROXIMATED, what, extensions)
        return None
    source.report(Fidelity.TRANSLATED, "nodes", "the processes are spread evenly over this number of nodes")
    return Distribution(nodes=nodes)


def _keep(
    source: GridObject, keys: Iterable[str], kind: Fidelity, what: str, extensions: dict[str, str]
) -> None:
    for key in keys:
        if source.values.get(key):
            extensions[PREFIX + key] = as_extension(source.values[key])
            source.report(kind, key, what)


def _report_kind(source: GridObject, kind: str, count: int) -> None:
    if kind == "hybrid":
        what = "every processor runs one process: threads are not counted"
        source.report(Fidelity.APPROXIMATED, "jobtype", what)
    elif kind == "mpi" and count == 1:
        source.report(Fidelity.NOTE, "jobtype", "without a count above 1 the task is not an MPI program")
    else:
        source.report(Fidelity.KEPT, "jobtype", "it defines the meaning of count")


def _exit_codes(codes: Mapping[str, Any]) -> Fields:
    """Return the exit codes that mean success; as numbers with sign, the upper half is below zero."""
    most = codes.get("max_success_code", 0)
    if not most:
        return {}
    if most <= MAX_COUNT:
        return {"valid_exit_codes": ((0, most),)}
    return {"valid_exit_codes": ((-MAX_COUNT - 1, most - MAX_CODE - 1), (0, MAX_COUNT))}


def max_success_code(codes: tuple[tuple[int, int], ...]) -> int | None:
    """Return the largest exit code without sign that means success; None when it is not said that way.

    >>> max_success_code(((0, 3),)), max_success_code(((-2147483648, -9), (0, 2147483647)))
    (3, 4294967287)
    """
    match codes:
        case ((0, most),):
            return most
        case ((least, most), (0, all_of_them)) if (least, all_of_them) == (-MAX_COUNT - 1, MAX_COUNT):
            return most + MAX_CODE + 1 if most < 0 else None
    return None
