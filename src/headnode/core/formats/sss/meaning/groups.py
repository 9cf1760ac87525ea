"""On which nodes a job and its tasks may run: names, features and partitions as node groups.

Source: SSS 3.1.0, "Node", "Feature", Table 25-2 (Partition).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.meaning.task_reading import Read
from headnode.core.formats.sss.meaning.wishes import Wishes

Tell = Callable[[Kind, str, str], None]


class Grouped(NamedTuple):
    """The fields of the job, and those of each task; `unasked` are the features that it cannot ask for."""

    job: dict[str, Any]
    tasks: tuple[dict[str, Any], ...]


def grouped(job: Wishes, tasks: Sequence[Read], tell: Tell) -> Grouped:
    """Return where the job and its tasks may run."""
    fields: dict[str, Any] = {}
    own: tuple[dict[str, Any], ...] = tuple({} for _ in tasks)
    _features(job, tasks, fields, own, tell)
    _names(job, tasks, fields, own, tell)
    excluded = dict.fromkeys(name for one in (job, *(task.own for task in tasks)) for name in one.excluded)
    fields["excluded_nodes"] = tuple(excluded)
    if len(tasks) > 1 and any(task.own.excluded for task in tasks):
        tell(Kind.APPROXIMATED, "job", "Node NE of a task group: no task of the job runs there")
    return Grouped(fields, own)


def _features(
    job: Wishes, tasks: Sequence[Read], fields: dict[str, Any], own: Sequence[dict[str, Any]], tell: Tell
) -> None:
    """A feature is a node group of its name: of the job, or of a task where its groups differ."""
    asked = [task.part.asked.features for task in tasks] or [job.features]
    of_job = (
        *((job.partition,) if job.partition else ()),
        *(asked[0] if len(set(asked)) == 1 else job.features),
    )
    if of_job or any(asked):
        tell(Kind.TRANSLATED, "job", "Feature and Partition: a node group of that name must exist")
    if len(set(asked)) == 1 or of_job:
        fields["node_groups"] = tuple(dict.fromkeys((*of_job, *(name for names in asked for name in names))))
        if len(set(asked)) > 1:
            tell(
                Kind.APPROXIMATED, "job", "Feature: every node of the job has the features of all task groups"
            )
        return
    for task, names, found in zip(tasks, asked, own, strict=True):
        if names:
            found["node_group"] = names[0]
            what = "Feature: the nodes of the job are not chosen for it; the task waits for one that has it"
            tell(Kind.APPROXIMATED, task.part.where, what)
        if len(names) > 1:
            found["unasked"] = names[1:]


def _names(
    job: Wishes, tasks: Sequence[Read], fields: dict[str, Any], own: Sequence[dict[str, Any]], tell: Tell
) -> None:
    """One node that a task group names is required; several are those of the job, if all name some."""
    mine = [task.own.names for task in tasks]
    for names, found in zip(mine, own, strict=True):
        if len(names) == 1:
            found["required_nodes"] = names
    lists = [task.part.asked.names for task in tasks]
    several = [names for names in mine if len(names) > 1]
    every = dict.fromkeys((*job.names, *(name for names in mine for name in names)))
    if not several:
        fields["requested_nodes"] = tuple(every) if job.names else ()
    elif all(lists):
        fields["requested_nodes"] = tuple(dict.fromkeys(name for names in lists for name in names))
        if len(set(lists)) > 1:
            tell(Kind.APPROXIMATED, "job", "Node: a task may run on the nodes that another task group names")
    else:
        tell(Kind.NOT_SUPPORTED, "job", "Node: a task group that names several nodes may run on any node")
