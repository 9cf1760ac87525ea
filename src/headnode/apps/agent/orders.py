"""The head's orders for a job become messages to its shepherd."""

import socket
from typing import Any

from headnode.adapters.identity.base_environment import base_environment
from headnode.adapters.nodes import messages as m
from headnode.adapters.processes.told import run_message
from headnode.core.launching.environment import Surroundings
from headnode.core.launching.output import captured_name
from headnode.core.launching.recipe import Preparation, Recipe
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import TaskSpec


class Orders:
    """Knows one job as the head opened it for one shepherd; remembers what the instances of a task share."""

    def __init__(self, opened: m.OpenJob, facts: NodeFacts, head: m.Welcome, marker: str) -> None:
        self._tasks = decode_spec(opened.spec).tasks
        self._around = Surroundings(
            job=opened.job,
            spec=decode_spec(opened.spec),
            node=facts.name,
            cluster=head.cluster,
            state_directory=head.state_directory,
            scheduler=socket.gethostname(),
            base=base_environment(opened.uid),
            marker=marker,
            previous_job=opened.previous_job,
            processors_per_socket=max(1, facts.processors // facts.sockets),
        )
        self._prepared: dict[tuple[int, Place], Preparation] = {}

    def has(self, task: int) -> bool:
        """Tell whether the job has such a task."""
        return 1 <= task <= len(self._tasks)

    def run(self, task: int, place: Place, attempts: list[tuple[int, int]]) -> bytes:
        """Return the message that runs these (instance, attempt) one after the other."""
        spec = self._tasks[task - 1]
        preparation = self._preparation(task, spec, place)
        recipes = [preparation.recipe(instance, attempt) for instance, attempt in attempts]
        shared = recipes[0].environment
        items = [_item(task, who, recipe, shared) for who, recipe in zip(attempts, recipes, strict=True)]
        limit = None if spec.run_time == FOREVER else spec.run_time
        return run_message(task, f"{task}@{place}", shared, limit, items)

    def _preparation(self, task: int, spec: TaskSpec, place: Place) -> Preparation:
        found = self._prepared.get((task, place))
        if found is None:
            found = self._prepared[task, place] = Preparation(self._around, task, spec, place)
        return found


def _item(task: int, attempt: tuple[int, int], recipe: Recipe, shared: dict[str, str]) -> list[Any]:
    own = {name: value for name, value in recipe.environment.items() if shared[name] != value}
    return [
        *attempt,
        recipe.argv,
        own,
        recipe.work_directory,
        recipe.stdin,
        recipe.stdout,
        recipe.stderr,
        captured_name(task, attempt[0]),
    ]
