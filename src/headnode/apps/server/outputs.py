"""Where the output of a task lies, worked out as the node does it."""

from pathlib import Path
from typing import Any

from headnode.adapters.identity.base_environment import base_environment
from headnode.apps.server.lookups import Found
from headnode.core.launching.environment import Surroundings
from headnode.core.launching.output import captured_path
from headnode.core.launching.recipe import recipe
from headnode.core.lifecycle.events import Place


def output_paths(
    state: Path, cluster: str, found: Found, task: int, instance: int, place: Place
) -> dict[str, Any]:
    """Return the files that hold what an instance wrote; `captured` when one is kept for the user."""
    node = place[0][0]
    around = Surroundings(
        job=found.record.id,
        spec=found.taken,
        node=node,
        cluster=cluster,
        scheduler=cluster,
        base=base_environment(found.record.uid),
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
