"""A task of a job as the definition of a grid task, with its requirements."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity, LossReport, WrittenParts, lost_fields
from headnode.core.formats.grid.command_lines import SHELL, split
from headnode.core.formats.grid.keys import MAX_COUNT, REQUIREMENT_ROWS, TASK_ROWS, GridRole, GridTable
from headnode.core.formats.grid.requirement_reading import (
    AMOUNTS,
    HERTZ,
    JOB_PREFIX,
    TASK_PREFIX,
    Needs,
    packages,
    software_of,
)
from headnode.core.formats.grid.source import ATTEMPTS, BASE, from_extension
from headnode.core.formats.grid.task_reading import ONE_PROCESS, PREFIX, max_success_code
from headnode.core.formats.job_views import unwritten_needs
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.staging import STREAMS, StorageBase, file_url, joined_path, local_path
from headnode.core.model.task import Distribution, StagedFile, TaskSpec, is_far

_WORDS = {"platform": "architectures", "os_name": "systems"}
_CHOICES = ("names", *_WORDS.values())
_LOWER_BOUNDS = ("minimum_speed", *AMOUNTS.values())
_WRITTEN_NEEDS = {*_CHOICES, *_LOWER_BOUNDS, "features"}


def in_order(values: Mapping[str, Any], table: GridTable) -> Needs:
    """Return the values that are there, in the order in which documents are written."""
    return {key: values[key] for key in table.by_key if values.get(key) not in (None, "", {}, [])}


def extended(extensions: Mapping[str, str], prefix: str, table: GridTable) -> tuple[Needs, set[str]]:
    """Return the keys that extensions hold for `table`, and the names of the extensions that were read."""
    values: Needs = {}
    used: set[str] = set()
    for row in table.rows:
        text = extensions.get(prefix + row.key)
        value = None if text is None or row.role is GridRole.FORM else from_extension(row, text)
        if value is not None:
            values[row.key] = value
            used.add(prefix + row.key)
    return values, used


class RequirementWriter:
    """Writes the requirements of one job, which are `job`, and of its tasks."""

    def __init__(self, spec: JobSpec, losses: LossReport) -> None:
        self._losses = losses
        self._report_unwritten(spec.needs, "job")
        kept, self.used = extended(spec.extensions, JOB_PREFIX, REQUIREMENT_ROWS)
        self._lists = [kept["software"]] if "software" in kept else []
        fields = NodeNeeds(
            names=spec.requested_nodes,
            minimum_memory=spec.minimum_memory or 0,
            minimum_processors=spec.minimum_processors_per_node or 0,
        )
        self._demanded = self._joined(fields, spec.needs, "job")
        self.job = kept | self._requirements(self._demanded, self._lists, "job")
        self.job = in_order(self.job | {"queue": spec.template or kept.get("queue")}, REQUIREMENT_ROWS)
        self._leave_out(kept, self.job, self.used, JOB_PREFIX)

    def task(self, task: TaskSpec, where: str) -> tuple[Needs, set[str]]:
        """Return what a task requires beside its job, and the extensions that say it."""
        kept, used = extended(task.extensions, TASK_PREFIX, REQUIREMENT_ROWS)
        self._report_unwritten(task.needs, where)
        demanded = self._joined(self._demanded, task.needs, where)
        if len(task.required_nodes) == 1:
            self._losses.add(Fidelity.TRANSLATED, where, "required_nodes: the one node is a requirement")
            demanded = self._joined(demanded, NodeNeeds(names=task.required_nodes), where)
        elif task.required_nodes:
            what = "required_nodes: in a grid task they mean one of several hosts"
            self._losses.add(Fidelity.NOT_SUPPORTED, where, what)
        own = [kept["software"]] if "software" in kept else []
        found = (
            self._requirements(demanded, [*own, *self._lists], where) if demanded != self._demanded else {}
        )
        beside = {key: value for key, value in found.items() if self.job.get(key) != value}
        needs = in_order(kept | beside, REQUIREMENT_ROWS)
        self._leave_out(kept, needs, used, TASK_PREFIX)
        return needs, used

    def _leave_out(self, kept: Needs, written: Needs, used: set[str], prefix: str) -> None:
        """Take the extensions that something else stands for from those that are written."""
        used -= {prefix + key for key, value in kept.items() if written.get(key) != value}

    def _report_unwritten(self, needs: NodeNeeds, where: str) -> None:
        for field in unwritten_needs(needs):
            if field in _WRITTEN_NEEDS:
                self._losses.add(Fidelity.TRANSLATED, where, f"needs.{field}: it is a requirement")
            else:
                what = f"needs.{field}: a grid description has no such requirement on nodes"
                self._losses.add(Fidelity.NOT_SUPPORTED, where, what)

    def _joined(self, one: NodeNeeds, two: NodeNeeds, where: str) -> NodeNeeds:
        """Return what both demand, as far as requirements can say it."""
        if two == ANY_NODE:
            return one
        choices = {field: self._both(getattr(one, field), getattr(two, field), where) for field in _CHOICES}
        least = {field: max(getattr(one, field), getattr(two, field)) for field in _LOWER_BOUNDS}
        features = tuple(dict.fromkeys([*one.features, *two.features]))
        return replace(ANY_NODE, **choices, **least, features=features)

    def _both(self, one: Sequence[str], two: Sequence[str], where: str) -> tuple[str, ...]:
        if not one or not two:
            return tuple(one or two)
        common = {word.casefold() for word in one} & {word.casefold() for word in two}
        if not common:
            what = f"{two[0]!r} is asked for beside {one[0]!r}: one of them is left out"
            self._losses.add(Fidelity.NOT_SUPPORTED, where, what)
            return tuple(two)
        return tuple(word for word in two if word.casefold() in common)

    def _requirements(self, needs: NodeNeeds, lists: Iterable[str], where: str) -> Needs:
        """Return the requirements that say it; `lists` are texts that may stand for the features."""
        found: Needs = {"hostname": list(dict.fromkeys(needs.names))} if needs.names else {}
        for key, field in _WORDS.items():
            words = getattr(needs, field)
            if len(words) == 1:
                found[key] = words[0]
            elif words:
                what = f"needs.{field}: one of several cannot be written"
                self._losses.add(Fidelity.NOT_SUPPORTED, where, what)
        for key, field in AMOUNTS.items():
            found[key] = self._amount(getattr(needs, field), key, where)
        speed = needs.minimum_speed * HERTZ
        found["cpu_hz"] = speed if speed <= MAX_COUNT else self._amount(needs.minimum_speed, "cpu_hz", where)
        if needs.features:
            found["software"] = self._software(needs, lists, where)
        return {key: value for key, value in found.items() if value}

    def _amount(self, amount: int, key: str, where: str) -> int:
        most = MAX_COUNT if key != "cpu_hz" else HERTZ - 1
        if amount > most:
            self._losses.add(Fidelity.APPROXIMATED, where, f"{key}: {most} is the most that can be written")
        return min(amount, most)

    def _software(self, needs: NodeNeeds, lists: Iterable[str], where: str) -> str:
        for text in lists:
            understood = packages(text)
            if understood and understood[0] == needs.features:
                return text
        software = software_of(needs)
        if software is None:
            self._losses.add(Fidelity.NOT_SUPPORTED, where, "needs.features: they are not a list of packages")
        return software or ""


Found = dict[str, Any]
_WRITTEN_FIELDS = {
    *("name", "command", "kind", "minimum", "maximum", "standard_input", "standard_output", "standard_error"),
    *("required_nodes", "depends_on", "start", "end", "increment", "valid_exit_codes", "environment"),
    *("properties", "extensions", "group", "needs", "distribution", "private_directory"),
    *("stage_in", "stage_out", "storage_base", "transfer_attempts"),
}
_WRITTEN_INSIDE: WrittenParts = {StagedFile: frozenset({"path", "url"})}
_DEFAULTS = TaskSpec()
_ONE_NODE = Distribution(nodes=1)
_EXPANDED = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%|\$\{?[A-Za-z_]")


class DefinitionWriter:
    """Writes definitions of the tasks of one job."""

    def __init__(self, spec: JobSpec, needs: RequirementWriter, losses: LossReport) -> None:
        self._spec, self._needs, self._losses = spec, needs, losses

    def write(self, task: TaskSpec, where: str) -> tuple[Found, set[str]]:
        """Return the definition, and the extensions that are in it; empty for a task without a command."""
        self._report_unwritten(task, where)
        needs, needs_used = self._needs.task(task, where)
        values, used = extended(task.extensions, PREFIX, TASK_ROWS)
        if not task.command:
            if needs or values or task.private_directory:
                what = "it has no command, so it has no definition: its options are left out"
                self._report(Fidelity.NOT_SUPPORTED, where, what)
            return {}, set()
        if not task.private_directory:
            what = "private_directory: a grid task always runs in a directory of its own"
            self._report(Fidelity.APPROXIMATED, where, what)
        values |= self._program(task, values, where) | self._streams(task, values, where)
        values |= self._staging(task, values, where)
        values |= {
            "version": 2,
            "environment": self._environment(task, values.get("environment", {}), where),
            "max_success_code": self._exit_code(task, where) or None,
            "requirements": needs,
        }
        return in_order(values, TASK_ROWS), used | needs_used

    def _report(self, kind: Fidelity, where: str, what: str) -> None:
        self._losses.add(kind, where, what)

    def _report_unwritten(self, task: TaskSpec, where: str) -> None:
        for field in lost_fields(task, _DEFAULTS, _WRITTEN_FIELDS, _WRITTEN_INSIDE):
            self._report(Fidelity.NOT_SUPPORTED, where, f"{field}: a grid task has no such property")

    def _program(self, task: TaskSpec, kept: Found, where: str) -> Found:
        words, parallel, lost = split(task.command, task.minimum)
        if words[0] == SHELL and words[1:] == ["-c", task.command]:
            what = f"command: it is run with {SHELL}, because an executable must be a path"
            self._report(Fidelity.TRANSLATED, where, what)
        if lost:
            self._report(Fidelity.APPROXIMATED, where, f"command: {lost}")
        values: Found = {"executable": words[0], "arguments": words[1:]}
        kind = _job_type(task, parallel, kept.get("jobtype", ""))
        if parallel or kind in ("mpi", "hybrid") or (kind and task.minimum > 1):
            values["count"] = task.minimum
        self._report_size(task, "count" in values, where)
        return values | {"jobtype": kind} | self._layout(task, parallel, kept, where)

    def _layout(self, task: TaskSpec, parallel: bool, kept: Found, where: str) -> Found:
        """Return nodes and ppn; what was kept of them is left out where it would be understood."""
        layout = task.distribution
        if not parallel:
            if layout is not None and not (layout == _ONE_NODE and task.minimum > 1):
                self._report(Fidelity.NOT_SUPPORTED, where, "distribution: there is one process")
            return {}
        if layout in (None, Distribution()):
            nodes = kept.get("nodes")
            return {"ppn": None, "nodes": nodes if nodes and nodes > task.minimum else None}
        if layout == Distribution(per_node=layout.per_node):
            return {"ppn": layout.per_node}
        if layout == Distribution(nodes=layout.nodes) and layout.nodes <= task.minimum:
            return {"ppn": None, "nodes": layout.nodes}
        what = "distribution: only per node, or evenly over a number of nodes, can be written"
        self._report(Fidelity.NOT_SUPPORTED, where, what)
        return {"ppn": None, "nodes": None}

    def _report_size(self, task: TaskSpec, counted: bool, where: str) -> None:
        if self._spec.unit is UnitType.GPU:
            what = "minimum: a grid task has no GPUs: the number is kept, and counts processors"
            self._report(Fidelity.NOT_SUPPORTED, where, what)
            return
        if task.minimum > 1 and not counted:
            what = "minimum: a count above 1 means an MPI program: this program gets one processor"
            self._report(Fidelity.APPROXIMATED, where, what)
            return
        if task.maximum != task.minimum:
            self._report(
                Fidelity.APPROXIMATED, where, "maximum: a grid task has one size, which is its minimum"
            )
        if self._spec.unit is not UnitType.PROCESSOR:
            what = f"minimum: a grid task counts processors, not {self._spec.unit.word}s: the number is kept"
            self._report(Fidelity.APPROXIMATED, where, what)

    def _environment(self, task: TaskSpec, spelled: Found, where: str) -> Found:
        """Return the variables; one that was read in another spelling, by `spelled`, is written in that."""
        environment: Found = {}
        for name, value in {**self._spec.environment, **task.environment}.items():
            upper = name.upper()
            if upper in environment and name != upper:
                self._report(
                    Fidelity.NOT_SUPPORTED, where, f"environment: {name!r} beside {upper!r} is left out"
                )
                continue
            environment[upper] = value
            if upper != name and spelled.get(upper) != name:
                self._report(Fidelity.APPROXIMATED, where, f"environment: {name!r} becomes {upper!r}")
            if not value:
                self._report(
                    Fidelity.APPROXIMATED,
                    where,
                    f"environment: {name!r} is set to an empty value, not removed",
                )
        return {_as_spelled(name, spelled): value for name, value in environment.items()}

    def _streams(self, task: TaskSpec, kept: Found, where: str) -> Found:
        values: Found = {}
        base = StorageBase(task.storage_base or self._spec.storage_base)
        for key, field in STREAMS.items():
            url = getattr(task, field)
            if is_far(url):
                spelling = kept.get(key, "")
                values[key] = spelling if base.resolve(spelling) == url else url
                continue
            path = joined_path(task.work_directory, getattr(task, field)) if getattr(task, field) else ""
            if path.startswith("/") and local_path(file_url(path)) != path:
                self._report(
                    Fidelity.NOT_SUPPORTED, where, f"{field}: {path[:80]!r} cannot be the URL of a file"
                )
            elif path.startswith("/"):
                values[key] = file_url(path)
                if _EXPANDED.search(path):
                    self._report(
                        Fidelity.APPROXIMATED, where, f"{field}: variables in a path are not replaced there"
                    )
            elif path:
                what = f"{field}: it is below the home directory, so it has no URL"
                self._report(Fidelity.NOT_SUPPORTED, where, what)
        return values

    def _staging(self, task: TaskSpec, kept: Found, where: str) -> Found:
        """Return the staged files, and those that are ignored because no base makes URLs of them."""
        values: Found = {BASE: task.storage_base, ATTEMPTS: task.transfer_attempts}
        for key, files in (("input_files", task.stage_in), ("output_files", task.stage_out)):
            values[key] = kept.get(key, {}) | {one.path: one.url for one in files}
            if len({one.path for one in files}) < len(files):
                what = f"{key}: one file can go to one place only: the last is written"
                self._report(Fidelity.NOT_SUPPORTED, where, what)
        return values

    def _exit_code(self, task: TaskSpec, where: str) -> int:
        """Return the largest exit code that means success, or the largest below which all of them do."""
        codes = self._spec.valid_exit_codes if task.valid_exit_codes is None else task.valid_exit_codes
        most = max_success_code(codes)
        if most is not None:
            return most
        most = _contiguous(codes)
        what = f"valid_exit_codes: only those from 0 to {most} can be written"
        self._report(Fidelity.APPROXIMATED, where, what)
        return most


def _job_type(task: TaskSpec, parallel: bool, kept: str) -> str:
    """Return the jobtype: only a task that was read with one has one, because grid itself has no such key."""
    if parallel:
        return "" if kept in ONE_PROCESS else kept
    if task.minimum > 1 and kept:
        return "openmp" if task.distribution == _ONE_NODE else "single"
    return "" if task.minimum > 1 else kept


def _as_spelled(name: str, spelled: Found) -> str:
    """Return the spelling in which the variable `name` was read, if it is the same variable."""
    was = str(spelled.get(name, name))
    return was if was.upper() == name else name


def _contiguous(codes: tuple[tuple[int, int], ...]) -> int:
    """Return the largest number up to which all exit codes from 0 are among `codes`.

    >>> _contiguous(((0, 2), (3, 5), (9, 9)))
    5
    """
    most = 0
    for low, high in sorted(codes):
        if low <= most + 1:
            most = max(most, high)
    return most
