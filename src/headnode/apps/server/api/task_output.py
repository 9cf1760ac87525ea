"""Where the output of a task is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headnode.adapters.nodes.link import node_away
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import NotFound
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord
from headnode.protocol.job_answers import OutputAnswer, OutputBytesAnswer
from headnode.protocol.requests import TaskIdRequest


def output_paths(
    state: Path,
    cluster: str,
    job: FoundJob,
    task: int,
    instance: int,
    place: NodeCores,
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Return the files that hold what an instance wrote; `captured` when one is kept for the user.

    `variables` are those that the cluster gives to every task: names of files may hold them.
    """
    from headnode.adapters.processes.site_programs import base_environment
    from headnode.core.launching.environment import LaunchContext
    from headnode.core.launching.recipe import recipe

    node = place[0][0]
    around = LaunchContext(
        job=job.record.id,
        spec=job.taken,
        node=node,
        cluster=cluster,
        scheduler=cluster,
        base={**base_environment(job.record.uid), **variables},
    )
    recipe_of = recipe(around, task, job.taken.tasks[task - 1], place, instance, 1)
    kept = _kept_file(state / "nodes" / node / "output" / str(job.record.id), task, instance)
    return {
        "standard_output": recipe_of.stdout or kept,
        "standard_error": recipe_of.stderr or kept,
        "captured": not recipe_of.stdout or not recipe_of.stderr,
        "captured_path": None if recipe_of.stdout and recipe_of.stderr else kept,
        "node": node,
    }


def _kept_file(folder: Path, task: int, instance: int) -> str:
    """Return where a node keeps what an instance wrote, in the directory of its job."""
    from headnode.core.launching.recipe import captured_name, former_captured_name

    before = folder / former_captured_name(task, instance)
    return str(before if before.exists() else folder / captured_name(task, instance))


def output_is_kept(state: Path, node: str, job: JobId) -> bool:
    """Return whether a node of this machine still keeps a place for what was captured of a job."""
    return (state / "nodes" / node / "output" / str(job)).is_dir()


async def read_own_file(
    context: ServerContext, record: JobRecord, node: str, path: str, span: tuple[int, int]
) -> OutputBytesAnswer:
    """Read a file that a task has named, on its node and as its user; `span`: offset, and how many bytes.

    Raises:  Unavailable ``node-away``; NotFound ``no-output``.
    """
    link = context.links.get(node)
    if link is None:
        raise node_away(node)
    same_numbers = context.engine.settings.text("UserMapping") == "name-and-number"
    user = User(name=record.owner, uid=record.uid, gid=record.gid)
    read = await link.read_file(path, user, span, same_numbers=same_numbers)
    if read.problem:
        raise NotFound(
            code="no-output",
            what=f"{path!r} cannot be read on node {node!r} as {record.owner!r}: {read.problem}",
            fix="see: hn task view",
        )
    return OutputBytesAnswer(read.data, read.size, missing=read.missing)


def output_at_resource(
    context: ServerContext,
    by: User,
    job: FoundJob,
    request: TaskIdRequest,
    instance: int,
    attempt: int,
    node: str,
    state: str,
) -> OutputAnswer:
    """Say where a task at a resource writes; the head reads it there, as its user."""
    from headnode.core.batch.dialect import AttemptPlace

    hand_off = context.hand_off
    key = AttemptPlace(job.record.id, request.task, instance, attempt)
    files = ("", "", "") if hand_off is None else hand_off.output_files(job.record, job.spec, key)
    out, err, rest = files
    return OutputAnswer(
        out or None,
        err or None,
        captured=rest in (out, err),
        captured_path=rest or None,
        state=state,
        node=node,
        requesting_user=by.name,
        remote=True,
        removed="",
    )


def output_removed(job: JobId) -> str:
    """Return what to say of captured output that is not there any more."""
    return (
        f"the captured output of job {job} no longer exists: it was removed, by TTLCompletedJobs or by hand"
    )
