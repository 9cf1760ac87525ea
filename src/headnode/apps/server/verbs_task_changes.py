"""Change a task of a job that was not submitted."""

from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.verbs_jobs import alive
from headnode.core.formats.terms import with_changed_task
from headnode.core.lifecycle import commands as c
from headnode.core.model.user import User

Object = dict[str, object]


async def modify_task(desk: Desk, by: User, wish: w.ModifyTaskWish) -> Object:
    """Change options of a task."""
    found = alive(desk, wish.job)
    spec = with_changed_task(found.spec, wish.task, wish.terms)
    before, after = found.spec.tasks[wish.task - 1], spec.tasks[wish.task - 1]
    fields = [name for name in after.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    if fields:
        command = c.ModifyJob(
            by=by, job=found.record.id, spec=spec, fields=("tasks",), changed_task=wish.task
        )
        await desk.ask(command)
    return {"job": wish.job, "task": wish.task, "changed": fields}
