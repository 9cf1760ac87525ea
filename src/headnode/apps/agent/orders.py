"""The head's orders for a job become messages to its shepherd."""

import socket
from typing import Any

import msgspec

from headnode.adapters.identity.base_environment import base_environment
from headnode.adapters.nodes import messages as m
from headnode.adapters.processes.launched import MARKER as LAUNCHED
from headnode.adapters.processes.told import run_message
from headnode.apps.agent.launching import Launching
from headnode.core.launching.environment import TASK_MARKER, Surroundings
from headnode.core.launching.mpi import is_parallel, is_schedulers
from headnode.core.launching.output import captured_name
from headnode.core.launching.recipe import Preparation, Recipe
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.limits import limits_in_force
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import TaskSpec


class Orders:
    """Knows one job as the head opened it for one shepherd; remembers what the instances of a task share."""

    def __init__(self, opened: m.OpenJob, facts: NodeFacts, head: m.Welcome, marker: str) -> None:
        self._tasks = decode_spec(opened.spec).tasks
        self._uid = opened.uid
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

    def run(self, task: int, place: Place, attempts: list[tuple[int, int]], launching: Launching) -> bytes:
        """Return the message that runs these (instance, attempt) one after the other.

        Raises:  OSError, Unavailable when a parallel task cannot be given what its mpiexec needs.
        """
        spec = self._tasks[task - 1]
        preparation = self._preparation(task, spec, place)
        recipes = [preparation.recipe(instance, attempt) for instance, attempt in attempts]
        if is_parallel(spec, place):
            recipes = [self._with_launcher(recipe, spec, place, launching) for recipe in recipes]
        shared = recipes[0].environment
        items = [_item(task, who, recipe, shared) for who, recipe in zip(attempts, recipes, strict=True)]
        limit = None if spec.run_time == FOREVER else spec.run_time
        limits = limits_in_force(self._around.spec.resource_limits, spec.resource_limits)
        private = spec.private_directory
        return run_message(task, f"{task}@{place}", shared, limit, items, limits, private)

    def _with_launcher(self, recipe: Recipe, spec: TaskSpec, place: Place, launching: Launching) -> Recipe:
        """Return the recipe with the variables of launchers, which a user may set otherwise."""
        task = recipe.environment[TASK_MARKER]
        variables = launching.variables(self._uid, task, place, spec.distribution)
        chosen = {name: value for name, value in recipe.environment.items() if not is_schedulers(name)}
        return msgspec.structs.replace(recipe, environment={**recipe.environment, **variables, **chosen})

    def launched(self, launch: m.Launch) -> tuple[dict[str, str], str]:
        """Return the variables and the directory of a command that an attempt of another node launches here.

        The task's own, then those of the launcher, then the scheduler's as they are on this node.
        """
        route = launch.route
        preparation = self._preparation(route.task, self._tasks[route.task - 1], launch.place)
        own = preparation.recipe(route.instance, route.attempt).environment
        sent = {name: value for name, value in launch.environment.items() if not is_schedulers(name)}
        schedulers = {name: value for name, value in own.items() if is_schedulers(name)}
        return {**own, **sent, **schedulers, LAUNCHED: route.number}, launch.directory

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
