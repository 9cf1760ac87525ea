"""The tasks of a job put together with what they require.

Source: grid, "Resource requirements".
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.keys import REQUIREMENT_ROWS
from headnode.core.formats.grid.needs import OF_JOB, Folded, Needs, fold
from headnode.core.formats.grid.source import Source, as_extension
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

KEY = "requirements"
FORK = "Fork"
LRMS = "lrms"
JOB_PREFIX, TASK_PREFIX = f"{KEY}.", f"definition.{KEY}."
"""Before the names of requirements, in the extensions of a job and of a task."""

Fields = dict[str, Any]


def with_tasks(
    spec: JobSpec, job: Source, definitions: Sequence[Source | None], tasks: Iterable[Fields]
) -> JobSpec:
    """Return the job with its `tasks`; what they require is in typed fields, or in extensions."""
    wanted = [_needs(source) if source else None for source in definitions]
    folded = fold(_needs(job), wanted, _Teller(job, definitions).tell)
    kept = _kept(job, JOB_PREFIX) | _extensions(folded.left.get(OF_JOB, {}), JOB_PREFIX)
    queue = _queue(job, definitions, wanted)
    kept |= _batch(job, JOB_PREFIX, queue)
    specs = tuple(
        _task(fields, source, folded, number, queue)
        for number, (fields, source) in enumerate(zip(tasks, definitions, strict=True))
    )
    return msgspec.structs.replace(
        spec, tasks=specs, template=queue, extensions=spec.extensions | kept, **folded.fields
    )


def _task(fields: Fields, source: Source | None, folded: Folded, number: int, queue: str) -> TaskSpec:
    if source and KEY in source.found:
        left = _extensions(folded.left.get(number, {}), TASK_PREFIX)
        fields["extensions"] |= _kept(source, TASK_PREFIX) | _batch(source, TASK_PREFIX, queue) | left
    return TaskSpec(**fields, needs=folded.needs[number])


def _queue(job: Source, definitions: Sequence[Source | None], wanted: Sequence[Needs | None]) -> str:
    """Return the queue that all tasks ask for; "" when there is none."""
    of_job = _needs(job)
    of_all: str = of_job.get("queue", "")
    asked: set[str] = {needs.get("queue") or of_all for needs in wanted if needs is not None} or {of_all}
    queue = asked.pop() if len(asked) == 1 else ""
    where = next((one for one in (job, *definitions) if one and _needs(one).get("queue")), None)
    if where:
        inside = where._replace(path=(*where.path, KEY))
        if queue:
            inside.tell(Kind.TRANSLATED, "queue", "it becomes the job template; there are no queues")
        else:
            inside.tell(Kind.NOT_SUPPORTED, "queue", "it is kept; all tasks of a job are in one queue")
    return queue


def _batch(source: Source, prefix: str, queue: str) -> dict[str, str]:
    """Return the extensions for the batch system and its queue, unless it is the `queue` of all tasks."""
    needs = _needs(source)
    found: dict[str, str] = {}
    if needs.get("queue") and not queue:
        found[f"{prefix}queue"] = needs["queue"]
    if needs.get("lrms"):
        found[f"{prefix}lrms"] = needs["lrms"]
        inside = Source(source.page, (*source.path, KEY), source.whose, needs, source.findings)
        if needs["lrms"] == FORK:
            inside.tell(Kind.KEPT, "lrms", "Headnode itself starts the tasks, as Fork does")
        else:
            inside.tell(Kind.NOT_SUPPORTED, "lrms", "the job is not run here: Headnode starts tasks itself")
    return found


def refuse_other_batch(spec: JobSpec) -> None:
    """Refuse a job for another batch system: Headnode does not pass jobs on, and must not run them itself.

    Raises:  BadRequest ``batch-system``.
    """
    asked = [spec.extensions.get(f"{JOB_PREFIX}{LRMS}", "")]
    asked += [task.extensions.get(f"{TASK_PREFIX}{LRMS}", "") for task in spec.tasks]
    other = next((name for name in asked if name not in ("", FORK)), None)
    if other is not None:
        raise BadRequest(
            code="batch-system",
            what=f"the job is for the batch system {other!r} (lrms), and Headnode does not pass jobs on",
            fix=f"submit it there, or write {FORK!r} so that Headnode itself runs it",
        )


def _extensions(left: Needs, prefix: str) -> dict[str, str]:
    return {prefix + key: as_extension(value) for key, value in left.items()}


def _needs(source: Source | None) -> Needs:
    needs: Needs = source.found.get(KEY, {}) if source else {}
    return needs


def _kept(source: Source, prefix: str) -> dict[str, str]:
    """Return the extensions for requirements that no field can say."""
    needs = _needs(source)
    if not needs:
        return {}
    inside = Source(source.page, (*source.path, KEY), source.whose, needs, source.findings)
    return inside.kept(REQUIREMENT_ROWS, prefix)


class _Teller:
    """Says what became of a requirement, at its own place or at the job's."""

    def __init__(self, job: Source, definitions: Sequence[Source | None]) -> None:
        self._job, self._definitions = job, definitions

    def tell(self, kind: Kind, number: int, key: str, what: str) -> None:
        """Add a finding about a requirement of task `number` (from 0), or of the job (-1)."""
        source = self._definitions[number] if number >= 0 else self._whose(key)
        source = source or self._job
        at = source if key in _needs(source) else self._job
        source.findings.add(at.page, kind, source.whose, f"{key}: {what}", (*at.path, KEY, key))

    def _whose(self, key: str) -> Source:
        """Return who says it: the job, or the first task that does."""
        if key in _needs(self._job):
            return self._job
        return next((task for task in self._definitions if task and key in _needs(task)), self._job)
