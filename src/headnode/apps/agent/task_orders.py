"""The head's orders for a job become messages to its shepherd."""

import posixpath
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.processes.attempts import Parent
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.limits import Bounds
from headnode.adapters.processes.remote_steps import MARKER as LAUNCHED
from headnode.adapters.processes.shepherd_protocol import run_message
from headnode.adapters.wire.agent_messages import Launch
from headnode.adapters.wire.messages import OpenJob, Run, TransferRules, Welcome
from headnode.apps.agent.gpu_assignments import BESIDE, GpuAssignments, GpuRequest
from headnode.apps.agent.launching import LaunchRouter
from headnode.apps.agent.task_tools import LaunchPlaces, TaskAccess
from headnode.apps.agent.temporary_names import attempt_directory_name
from headnode.core.launching.environment import (
    SHEPHERD_MARKER,
    TASK_MARKER,
    LaunchContext,
    is_parallel,
    is_schedulers,
    is_temporary_name,
    place_variables,
    process_order,
    process_places,
    ranks_of,
    reads_hosts,
)
from headnode.core.launching.gpus import processors_of_gpu
from headnode.core.launching.node_filters import NodeFilterInput, NodeFilterResult
from headnode.core.launching.recipe import Recipe, RecipeBuilder, captured_name
from headnode.core.model.bounds import NAME
from headnode.core.model.errors import BadRequest
from headnode.core.model.job_checks import is_allocation
from headnode.core.model.node import NodeFacts, bound_to
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import decode_spec


class TaskOrders:
    """Knows one job as the head opened it for one shepherd; remembers what the instances of a task share."""

    def __init__(
        self,
        opened: OpenJob,
        facts: NodeFacts,
        head: Welcome,
        marker: str,
        access: TaskAccess,
        gpus: GpuAssignments,
    ) -> None:
        self._tasks = decode_spec(opened.spec).tasks
        self._uid = opened.uid
        self._around = LaunchContext(
            job=opened.job,
            spec=decode_spec(opened.spec),
            node=facts.name,
            cluster=head.cluster,
            state_directory=head.state_directory,
            agent=access.socket(opened.uid),
            scripts=access.scripts(opened.uid) if any(task.script for task in self._tasks) else "",
            scheduler=head.host or socket.gethostname(),
            base=access.environment(opened.uid),
            marker=marker,
            previous_job=opened.previous_job,
            parts=opened.parts,
            processors_per_socket=max(1, facts.processors // facts.sockets),
            processors_per_gpu=_processors_of_gpu(opened, facts) if facts.gpus else 0,
            machine_processors=facts.machine_processors,
        )
        self._bound, self._memory_limited = opened.bound, opened.memory_limited
        self._allocation, self._gpus = opened.allocation, gpus
        self._transfer_rules = opened.transfers or TransferRules()
        self._temporary_parent = opened.temporary
        self._prepared: dict[tuple[int, NodeCores], RecipeBuilder] = {}
        self._shared: dict[tuple[Distribution, NodeCores], dict[str, str]] = {}
        self._kept: set[int] = set()  # tasks whose scripts are in files here
        self._unstarted: dict[tuple[int, int], int] = {}  # attempts that never started, by task and instance

    def has(self, task: int) -> bool:
        """Tell whether the job has such a task; 0 stands for what runs beside them."""
        return 0 <= task <= len(self._tasks)

    def note_unstarted(self, task: int, unstarted: Iterable[tuple[int, int]]) -> None:
        """Remember (instance, how many of its attempts never started): they are no retries."""
        self._unstarted.update({(task, instance): count for instance, count in unstarted})

    def recipes(
        self, task: int, place: NodeCores, attempts: list[tuple[int, int]], launching: LaunchRouter
    ) -> list[Recipe]:
        """Return how these (instance, attempt) run.

        Raises:  OSError, Unavailable when a script cannot be written, or a parallel task cannot be given
                 what its mpiexec needs.
        """
        spec = self._tasks[task - 1]
        preparation = self._preparation(task, spec, place)
        if spec.script and task not in self._kept:
            launching.places.keep_script(Path(preparation.script_path), spec.script, self._uid)
            self._kept.add(task)
        gpus = (
            self._gpu_variables([(task, *attempt) for attempt in attempts], place)
            if self._gpus.count
            else None
        )
        recipes = [
            preparation.recipe(
                instance,
                attempt,
                self._unstarted.get((task, instance), 0),
                gpus,
                self._temporary((task, instance, attempt), launching.places),
            )
            for instance, attempt in attempts
        ]
        if reads_hosts(self._around.spec, spec, place):
            recipes = [self._with_launcher(recipe, spec, place, launching) for recipe in recipes]
        return recipes

    def _temporary(self, key: Key, places: LaunchPlaces) -> str:
        """Return the path of the temporary directory of an attempt that starts here; empty: it has none.

        Raises:  OSError.
        """
        name = attempt_directory_name(self._around.spec, self._around.job, key, places)
        return posixpath.join(self._temporary_parent, name) if name and self._temporary_parent else ""

    def _gpu_variables(self, keys: list[Key], place: NodeCores) -> dict[str, str]:
        """Return the variables of the GPUs of attempts that run one after the other; none on a node without.

        Raises:  OSError, Unavailable when they cannot have them now.
        """
        if not self._gpus.count:
            return {}
        around = self._around
        here, lane = dict(place).get(around.node, ()), f"{around.marker}:{place}"
        wanted = len(here) // around.gpu_size
        return self._gpus.variables(GpuRequest(around.job, around.spec, keys, lane, wanted))

    def run(self, order: Run, attempts: list[tuple[int, int]], launching: LaunchRouter) -> bytes:
        """Return the message that runs these (instance, attempt) of an order one after the other.

        Raises:  OSError, Unavailable as `recipes` does, and where a terminal cannot be had.
        """
        recipes = self.recipes(order.task, order.placement, attempts, launching)
        codes = self._around.spec.valid_codes
        after = [(key, codes(self._tasks[key[0] - 1])) for key in order.after]
        return self._message(order.task, order.placement, attempts, recipes, launching, after=after)

    def questions(
        self, task: int, place: NodeCores, attempts: list[tuple[int, int]], launching: LaunchRouter
    ) -> list[tuple[Key, NodeFilterInput]]:
        """Return what the filters of the node are asked about these (instance, attempt).

        Raises:  OSError, Unavailable as `recipes` does.
        """
        held = dict(place).get(self._around.node, ())
        bounds = self.bounds(place)
        user = self._around.base["USER"]
        return [
            (
                (task, *attempt),
                NodeFilterInput(self._around.job, task, attempt[1], user, recipe, bounds.processors, held),
            )
            for attempt, recipe in zip(attempts, self.recipes(task, place, attempts, launching), strict=True)
        ]

    def run_filtered(
        self,
        task: int,
        place: NodeCores,
        attempt: tuple[int, int],
        filtered: NodeFilterResult,
        launching: LaunchRouter,
    ) -> bytes:
        """Return the message that runs one (instance, attempt) as its filter wants it."""
        recipe = filtered.recipe
        mine = {**recipe.environment, SHEPHERD_MARKER: self._around.marker}  # it may have another by now
        recipe = msgspec.structs.replace(recipe, environment=mine)
        return self._message(task, place, [attempt], [recipe], launching, filtered.processors)

    def _message(
        self,
        task: int,
        place: NodeCores,
        attempts: list[tuple[int, int]],
        recipes: list[Recipe],
        launching: LaunchRouter,
        processors: tuple[int, ...] | None = None,
        after: Sequence[Parent] = (),
    ) -> bytes:
        """Return the message that runs them as these recipes say; `processors`: instead of their own."""
        spec = self._tasks[task - 1]
        if self._around.spec.interactive and not is_allocation(self._around.spec):
            recipes = [self._in_terminal(recipe, spec, launching) for recipe in recipes]
        shared = recipes[0].environment
        items = [
            _item(task, attempt, recipe, shared) for attempt, recipe in zip(attempts, recipes, strict=True)
        ]
        limit = None if spec.run_time == FOREVER else spec.run_time
        limits = self._limits(spec)
        stages = spec.stages
        private = spec.private_directory or stages
        bounds = self.bounds(place, parallel=is_parallel(spec, place))
        if processors is not None:
            bounds = bounds._replace(processors=processors)
        plans = [self._plan(spec, recipe) for recipe in recipes] if stages else []
        return run_message(task, str(place), shared, limit, items, limits, private, bounds, plans, after)

    def _plan(self, spec: TaskSpec, recipe: Recipe) -> dict[str, Any]:
        """Return what is transferred for an attempt, and how."""
        from headnode.core.launching.staging import transfer_plan

        rules = self._transfer_rules
        return transfer_plan(
            self._around.spec,
            spec,
            recipe.transfers,
            directory=recipe.work_directory,
            token=recipe.work_directory.rpartition("/headnode-")[2],
            home=self._around.home,
            timeout=rules.timeout,
            networks=rules.networks,
            at_once=rules.per_host,
            most=rules.at_once,
            node_most=rules.per_node,
            host_most=rules.per_storage,
        )

    def bounds(self, place: NodeCores, *, parallel: bool = True) -> Bounds:
        """Return what an attempt at a place may have of this node."""
        here = dict(place).get(self._around.node, ())
        memory, processors = self._memory(max(1, len(here)))
        return Bounds(
            processors=bound_to(here, self._around.machine_processors) if self._bound else (),
            memory=memory,
            held=processors,
            parallel=parallel,
        )

    def _memory(self, processors: int) -> tuple[int, int]:
        """Return the limit of a task with so many processors here: MB for each, 0 for none, and how many.

        What the job holds on each node, whatever its processors there, counts as that of one.
        """
        if not self._memory_limited:
            return 0, processors
        each, held = self._around.spec.process_memory or 0, self._around.spec.held.memory
        return (each * processors + held, 1) if held else (each, processors)

    def _with_launcher(
        self, recipe: Recipe, spec: TaskSpec, place: NodeCores, launching: LaunchRouter
    ) -> Recipe:
        """Return the recipe with the variables of launchers, which a user may set otherwise."""
        task = recipe.environment[TASK_MARKER]
        job = self._around.spec
        ranks, order = process_places(job, spec, place), process_order(job, spec)
        variables = launching.variables(self._uid, task, ranks, order)
        if job.dialect == "lsf":  # a line for each slot, as the file of PBS has
            variables["LSB_DJOB_HOSTFILE"] = variables["PBS_NODEFILE"]
        chosen = {name: value for name, value in recipe.environment.items() if not is_schedulers(name)}
        return msgspec.structs.replace(recipe, environment={**recipe.environment, **variables, **chosen})

    def _in_terminal(self, recipe: Recipe, spec: TaskSpec, launching: LaunchRouter) -> Recipe:
        """Return the recipe of a program that waits for a terminal; without a command it is a login shell."""
        argv = recipe.argv if spec.command.strip() else ()
        return msgspec.structs.replace(recipe, argv=(launching.terminal(self._uid), *argv))

    def launched(self, launch: Launch, launching: LaunchRouter) -> tuple[dict[str, str], str]:
        """Return the variables and the directory of a command that an attempt of another node launches here.

        The task's own, then those of the launcher, then the scheduler's as they are on this node.
        A command that the head launches for a client can launch others, as the task can.
        Raises:  OSError; Unavailable ``launcher``.
        """
        route = launch.route
        if not route.task:
            return self._beside(launch)
        preparation = self._preparation(route.task, self._tasks[route.task - 1], launch.placement)
        temporary = self.temporary_of(launch, launching.places)
        recipe = preparation.recipe(route.instance, route.attempt, temporary=temporary)
        if not route.first:
            recipe = self._with_launcher(recipe, self._tasks[route.task - 1], launch.placement, launching)
        own = recipe.environment
        sent = {name: value for name, value in launch.environment.items() if not is_schedulers(name)}
        schedulers = {name: value for name, value in own.items() if is_schedulers(name)}
        gpus = self._gpu_variables([(route.task, route.instance, route.attempt)], launch.placement)
        return {**own, **sent, **schedulers, **gpus, LAUNCHED: route.number}, launch.directory

    def temporary_of(self, launch: Launch, places: LaunchPlaces) -> str:
        """Return the path of the temporary directory of the attempt that launches a command here, or "".

        The first node of the attempt has chosen its name.

        Raises:  OSError; BadRequest ``launch``.
        """
        route, name = launch.route, launch.temporary
        path = self._temporary((route.task, route.instance, route.attempt), places)
        if not path or not route.first:
            return path
        if not is_temporary_name(name, f"{route.job}.{route.task}.{route.instance}.{route.attempt}"):
            what = f"{name[: NAME.most]!r} is not the name of the temporary directory of the task"
            raise BadRequest(code="launch", what=what)
        return posixpath.join(self._temporary_parent, name)

    def bounds_for(self, launch: Launch) -> Bounds:
        """Return what all that an attempt launches here may have; beside the tasks: the job's processors."""
        if launch.route.task:
            return self.bounds(launch.placement)
        return self.bounds(self._allocation)._replace(memory=0)

    def limits_for(self, launch: Launch) -> tuple[ResourceLimit, ...]:
        """Return the limits of each process that is launched here; beside the tasks: those of the job."""
        return self._limits(self._tasks[launch.route.task - 1] if launch.route.task else None)

    def _limits(self, task: TaskSpec | None) -> tuple[ResourceLimit, ...]:
        return (task or TaskSpec()).process_limits(self._around.spec.resource_limits)

    def _beside(self, launch: Launch) -> tuple[dict[str, str], str]:
        """Return the variables and the directory of a command that runs beside the tasks.

        What runs outside the queue belongs to no job that could be named.
        """
        own = self._preparation(0, TaskSpec(work_directory=launch.directory), self._allocation).recipe(0, 0)
        gpus = self._gpu_variables([BESIDE], self._allocation)
        variables = {**own.environment, **launch.environment, **gpus, LAUNCHED: launch.route.number}
        if self._around.job < 0:
            kept = (
                "CCP_CLUSTER_NAME",
                "CCP_SCHEDULER",
                "HEADNODE_NODE",
                TASK_MARKER,
                SHEPHERD_MARKER,
                LAUNCHED,
            )
            variables = {
                name: variables[name] for name in variables if name in kept or not is_schedulers(name)
            }
            variables["CCP_JOBTYPE"] = "Admin"
        return variables, own.work_directory

    def _preparation(self, task: int, spec: TaskSpec, place: NodeCores) -> RecipeBuilder:
        """Return what makes recipes; that of a task with one instance is not kept: there may be many."""
        preparation = self._prepared.get((task, place))
        if preparation is not None:
            return preparation
        ranks = ranks_of(spec)
        shared = self._shared.get((ranks, place))
        if shared is None:
            shared = self._shared[ranks, place] = place_variables(self._around, ranks, place)
        preparation = RecipeBuilder(self._around, task, spec, place, shared)
        if spec.kind is not TaskType.BASIC:
            self._prepared[task, place] = preparation
        return preparation


def _processors_of_gpu(opened: OpenJob, facts: NodeFacts) -> int:
    held = dict(opened.allocation).get(facts.name, ())
    return processors_of_gpu(decode_spec(opened.spec), len(held), facts.gpus)


def _item(task: int, attempt: tuple[int, int], recipe: Recipe, shared: dict[str, str]) -> list[Any]:
    own: dict[str, str] = {}
    if recipe.environment is not shared:
        own = {name: value for name, value in recipe.environment.items() if shared[name] != value}
    appends = [recipe.append_stdout, recipe.append_stderr]
    return [
        *attempt,
        recipe.argv,
        own,
        recipe.work_directory,
        recipe.stdin,
        recipe.stdout,
        recipe.stderr,
        captured_name(task, attempt[0]),
        *(appends if any(appends) or recipe.temporary else ()),
        *((recipe.temporary,) if recipe.temporary else ()),
    ]
