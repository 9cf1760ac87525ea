"""The tasks of a job put together with what they require.

Source: grid, "Resource requirements".
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.keys import REQUIREMENT_ROWS
from headnode.core.formats.grid.needs import Folded, Needs, fold
from headnode.core.formats.grid.source import Source, as_extension
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

KEY = "requirements"
JOB_PREFIX, TASK_PREFIX = f"{KEY}.", f"definition.{KEY}."
"""Before the names of requirements, in the extensions of a job and of a task."""

_DIRECTORY = "tasks run in the home directory of their user: none is made for each of them"
Fields = dict[str, Any]


def with_tasks(
    spec: JobSpec, job: Source, definitions: Sequence[Source | None], tasks: Sequence[Fields]
) -> JobSpec:
    """Return the job with its tasks; what they require is in typed fields, or in extensions."""
    if any(definitions):
        job.findings.add(job.page, Kind.APPROXIMATED, "job", _DIRECTORY, ())
    spec = msgspec.structs.replace(spec, extensions=spec.extensions | _kept(job, JOB_PREFIX))
    wanted = [_needs(source) if source else None for source in definitions]
    folded = fold(_needs(job), wanted, _Teller(job, definitions).tell)
    specs = tuple(
        _task(fields, source, folded, number)
        for number, (fields, source) in enumerate(zip(tasks, definitions, strict=True))
    )
    return msgspec.structs.replace(
        spec, tasks=specs, requested_nodes=folded.requested_nodes, **folded.amounts
    )


def _task(fields: Fields, source: Source | None, folded: Folded, number: int) -> TaskSpec:
    left = {TASK_PREFIX + key: as_extension(value) for key, value in folded.left[number].items() if source}
    kept = _kept(source, TASK_PREFIX) if source else {}
    extensions = fields["extensions"] | kept | left
    return TaskSpec(**fields | {"extensions": extensions}, required_nodes=folded.required_nodes[number])


def _needs(source: Source | None) -> Needs:
    needs: Needs = source.found.get(KEY, {}) if source else {}
    return needs


def _kept(source: Source, prefix: str) -> dict[str, str]:
    """Return the extensions for requirements that no field can say."""
    needs = _needs(source)
    if not needs:
        return {}
    return source._replace(path=(*source.path, KEY), found=needs).kept(REQUIREMENT_ROWS, prefix)


class _Teller:
    """Says what became of a requirement, at its own place or at the job's."""

    def __init__(self, job: Source, definitions: Sequence[Source | None]) -> None:
        self._job, self._definitions = job, definitions

    def tell(self, kind: Kind, number: int, key: str, what: str) -> None:
        """Add a finding about a requirement of task `number` (from 0), or of the job (-1)."""
        source = self._definitions[number] if number >= 0 else self._whose(key)
        source = source or self._job
        at = source if key in _needs(source) else self._job
        source._replace(page=at.page, path=(*at.path, KEY)).tell(kind, key, what)

    def _whose(self, key: str) -> Source:
        """Return who says it: the job, or the first task that does."""
        if key in _needs(self._job):
            return self._job
        return next((task for task in self._definitions if task and key in _needs(task)), self._job)
