"""A task of a job as the definition of a grid task.

Source: grid, "Attributes of task descriptions".
"""

import re
from typing import Any

from headnode.core.formats.fidelity import Kind, lost_fields
from headnode.core.formats.grid.command_lines import SHELL, split
from headnode.core.formats.grid.keys import TASK_ROWS
from headnode.core.formats.grid.losses import Losses
from headnode.core.formats.grid.needs_writing import NeedsWriter, extended, in_order
from headnode.core.formats.grid.storage import file_url, joined_path, local_path
from headnode.core.formats.grid.task_reading import ONE_PROCESS, PREFIX, max_success_code
from headnode.core.formats.grid.transfers import STREAMS
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import Distribution, TaskSpec

Found = dict[str, Any]
_SAID = {
    *("name", "command", "kind", "minimum", "maximum", "standard_input", "standard_output", "standard_error"),
    *("required_nodes", "depends_on", "start", "end", "increment", "valid_exit_codes", "environment"),
    *("properties", "extensions", "group", "needs", "distribution", "private_directory"),
}
_DEFAULTS = TaskSpec()
_ONE_NODE = Distribution(nodes=1)
_EXPANDED = re.compile(r"%[A-Za-z_][A-Za-z0-9_.()]*%|\$\{?[A-Za-z_]")


class DefinitionWriter:
    """Writes definitions of the tasks of one job."""

    def __init__(self, spec: JobSpec, needs: NeedsWriter, losses: Losses) -> None:
        self._spec, self._needs, self._losses = spec, needs, losses

    def write(self, task: TaskSpec, where: str) -> tuple[Found, set[str]]:
        """Return the definition, and the extensions that are in it; empty for a task without a command."""
        self._tell_unsaid(task, where)
        needs, needs_used = self._needs.task(task, where)
        values, used = extended(task.extensions, PREFIX, TASK_ROWS)
        if not task.command:
            if needs or values or task.private_directory:
                what = "it has no command, so it has no definition: its options are left out"
                self._tell(Kind.NOT_SUPPORTED, where, what)
            return {}, set()
        if not task.private_directory:
            what = "private_directory: a grid task always runs in a directory of its own"
            self._tell(Kind.APPROXIMATED, where, what)
        values |= self._program(task, values, where) | self._streams(task, where)
        values |= {
            "version": 2,
            "environment": self._environment(task, values.get("environment", {}), where),
            "max_success_code": self._exit_code(task, where) or None,
            "requirements": needs,
        }
        return in_order(values, TASK_ROWS), used | needs_used

    def _tell(self, kind: Kind, where: str, what: str) -> None:
        self._losses.add(kind, where, what)

    def _tell_unsaid(self, task: TaskSpec, where: str) -> None:
        for field in lost_fields(task, _DEFAULTS, _SAID):
            self._tell(Kind.NOT_SUPPORTED, where, f"{field}: a grid task has no such property")

    def _program(self, task: TaskSpec, kept: Found, where: str) -> Found:
        words, parallel, lost = split(task.command, task.minimum)
        if words[0] == SHELL and words[1:] == ["-c", task.command]:
            what = f"command: it is run with {SHELL}, because an executable must be a path"
            self._tell(Kind.TRANSLATED, where, what)
        if lost:
            self._tell(Kind.APPROXIMATED, where, f"command: {lost}")
        values: Found = {"executable": words[0], "arguments": words[1:]}
        kind = _job_type(task, parallel, kept.get("jobtype", ""))
        if parallel or kind in ("mpi", "hybrid") or (kind and task.minimum > 1):
            values["count"] = task.minimum
        self._tell_size(task, "count" in values, where)
        return values | {"jobtype": kind} | self._layout(task, parallel, kept, where)

    def _layout(self, task: TaskSpec, parallel: bool, kept: Found, where: str) -> Found:
        """Return nodes and ppn; what was kept of them is left out where it would be understood."""
        layout = task.distribution
        if not parallel:
            if layout is not None and not (layout == _ONE_NODE and task.minimum > 1):
                self._tell(Kind.NOT_SUPPORTED, where, "distribution: there is one process")
            return {}
        if layout in (None, Distribution()):
            nodes = kept.get("nodes")
            return {"ppn": None, "nodes": nodes if nodes and nodes > task.minimum else None}
        if layout == Distribution(per_node=layout.per_node):
            return {"ppn": layout.per_node}
        if layout == Distribution(nodes=layout.nodes) and layout.nodes <= task.minimum:
            return {"ppn": None, "nodes": layout.nodes}
        what = "distribution: only per node, or evenly over a number of nodes, can be written"
        self._tell(Kind.NOT_SUPPORTED, where, what)
        return {"ppn": None, "nodes": None}

    def _tell_size(self, task: TaskSpec, counted: bool, where: str) -> None:
        if task.minimum > 1 and not counted:
            what = "minimum: a count above 1 means an MPI program: this program gets one processor"
            self._tell(Kind.APPROXIMATED, where, what)
            return
        if task.maximum != task.minimum:
            self._tell(Kind.APPROXIMATED, where, "maximum: a grid task has one size, which is its minimum")
        if self._spec.unit is not UnitType.PROCESSOR:
            what = f"minimum: a grid task counts processors, not {self._spec.unit.value}s: the number is kept"
            self._tell(Kind.APPROXIMATED, where, what)

    def _environment(self, task: TaskSpec, spelled: Found, where: str) -> Found:
        """Return the variables; one that was read in another spelling, by `spelled`, is written in that."""
        environment: Found = {}
        for name, value in {**self._spec.environment, **task.environment}.items():
            upper = name.upper()
            if upper in environment and name != upper:
                self._tell(Kind.NOT_SUPPORTED, where, f"environment: {name!r} beside {upper!r} is left out")
                continue
            environment[upper] = value
            if upper != name and spelled.get(upper) != name:
                self._tell(Kind.APPROXIMATED, where, f"environment: {name!r} becomes {upper!r}")
            if not value:
                self._tell(
                    Kind.APPROXIMATED, where, f"environment: {name!r} is set to an empty value, not removed"
                )
        return {_as_spelled(name, spelled): value for name, value in environment.items()}

    def _streams(self, task: TaskSpec, where: str) -> Found:
        values: Found = {}
        for key, field in STREAMS.items():
            path = joined_path(task.work_directory, getattr(task, field)) if getattr(task, field) else ""
            if path.startswith("/") and local_path(file_url(path)) != path:
                self._tell(Kind.NOT_SUPPORTED, where, f"{field}: {path[:80]!r} cannot be the URL of a file")
            elif path.startswith("/"):
                values[key] = file_url(path)
                if _EXPANDED.search(path):
                    self._tell(
                        Kind.APPROXIMATED, where, f"{field}: variables in a path are not replaced there"
                    )
            elif path:
                what = f"{field}: it is below the home directory, so it has no URL"
                self._tell(Kind.NOT_SUPPORTED, where, what)
        return values

    def _exit_code(self, task: TaskSpec, where: str) -> int:
        """Return the largest exit code that means success, or the largest below which all of them do."""
        codes = self._spec.valid_exit_codes if task.valid_exit_codes is None else task.valid_exit_codes
        most = max_success_code(codes)
        if most is not None:
            return most
        most = _contiguous(codes)
        what = f"valid_exit_codes: only those from 0 to {most} can be written"
        self._tell(Kind.APPROXIMATED, where, what)
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
