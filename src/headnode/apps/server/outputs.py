"""Where the output of a task lies, worked out as the node does it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headnode.adapters.identity.base_environment import base_environment
from headnode.adapters.nodes.link import node_away
from headnode.apps.server.desk import Desk
from headnode.apps.server.lookups import Found
from headnode.core.launching.environment import Surroundings
from headnode.core.launching.output import captured_path
from headnode.core.launching.recipe import recipe
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import NotFound
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

Object = dict[str, Any]


def output_paths(
    state: Path,
    cluster: str,
    found: Found,
    task: int,
    instance: int,
    place: Place,
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Return the files that hold what an instance wrote; `captured` when one is kept for the user.

    `variables` are those that the cluster gives to every task: names of files may hold them.
    """
    node = place[0][0]
    around = Surroundings(
        job=found.record.id,
        spec=found.taken,
        node=node,
        cluster=cluster,
        scheduler=cluster,
        base={**base_environment(found.record.uid), **variables},
    )
    recipe_of = recipe(around, task, found.taken.tasks[task - 1], place, instance, 1)
    kept = captured_path(str(state / "nodes" / node / "output"), found.record.id, task, instance)
    return {
        "standard_output": recipe_of.stdout or kept,
        "standard_error": recipe_of.stderr or kept,
        "captured": not recipe_of.stdout or not recipe_of.stderr,
        "kept": None if recipe_of.stdout and recipe_of.stderr else kept,
        "node": node,
    }


def output_is_kept(state: Path, node: str, job: JobId) -> bool:
    """Return whether a node of this machine still keeps a place for what was captured of a job."""
    return (state / "nodes" / node / "output" / str(job)).is_dir()


async def read_own_file(desk: Desk, record: JobRecord, node: str, path: str, span: tuple[int, int]) -> Object:
    """Read a file that a task has named, on its node and as its user; `span`: offset, and how many bytes.

    Raises:  Unavailable ``node-away``, ``old-agent``; NotFound ``no-output``.
    """
    link = desk.links.get(node)
    if link is None:
        raise node_away(node)
    same_numbers = desk.engine.settings.text("UserMapping") == "name-and-number"
    user = User(name=record.owner, uid=record.uid, gid=record.gid)
    read = await link.read_file(path, user, span, same_numbers=same_numbers)
    if read.problem:
        raise NotFound(
            code="no-output",
            what=f"{path!r} cannot be read on node {node!r} as {record.owner!r}: {read.problem}",
            fix="see: hn task view",
        )
    return {"data": read.data, "size": read.size, "missing": read.gone}


def not_kept(job: JobId) -> str:
    """Return what to say of captured output that is not there any more."""
    return (
        f"the captured output of job {job} no longer exists: it was removed, by TTLCompletedJobs or by hand"
    )
