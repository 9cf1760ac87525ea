"""What one attempt is in another scheduler: what it asks for, and the script that runs there."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.batch.dialect import AttemptPlace, Submission
from headnode.core.batch.job_script import OUTPUT, Program, attempt_script
from headnode.core.batch.staged_files import SCRATCH
from headnode.core.launching.environment import LaunchContext, is_schedulers
from headnode.core.launching.recipe import Recipe, recipe
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import FOREVER, Instant, JobId
from headnode.core.model.resource import BatchResource
from headnode.core.model.signals import LimitSignal, read_limit_signal
from headnode.core.model.task import asked_processes

MIN_LIMIT = 60.0  # seconds that are left for a job with a deadline
_OF_NODES = frozenset(
    {"CCP_NODES", "CCP_NODES_CORES", "CCP_COREIDS", "HEADNODE_HOSTS", "HEADNODE_NODE", "HEADNODE_SHEPHERD"}
)
"""Variables of our own nodes: what is true of them there, the other scheduler says."""


def unit_size(spec: JobSpec) -> int:
    """Return how many processors each unit of a job has that is handed over: a processor, or a GPU."""
    return spec.processors_per_gpu if spec.unit is UnitType.GPU else 1


class ForeignAttempt(NamedTuple):
    """An attempt at a resource; `scheduler` is the head's machine, `home` that of the owner.

    `base` is the directory of all attempts of the owner there.
    """

    key: AttemptPlace
    marker: str
    spec: JobSpec
    owner: str
    home: str
    base: str
    resource: BatchResource
    cluster: str
    scheduler: str

    def submission(self, now: Instant) -> Submission:
        """Return what the resource is asked for."""
        spec, task, known = self.spec, self.spec.tasks[self.key.task - 1], self.resource
        limits = [float(each) for each in (spec.run_time, task.run_time) if each != FOREVER]
        if spec.end_by is not None:
            limits.append(max(MIN_LIMIT, spec.end_by - now))
        layout, size = task.distribution, unit_size(spec)
        gpus = task.minimum if spec.unit is UnitType.GPU else 0
        return Submission(
            marker=self.marker,
            queue=known.queue,
            parallel=known.parallel,
            processors=task.minimum * size,
            nodes=layout.nodes if layout is not None else 0,
            per_node=layout.per_node * size if layout is not None else 0,
            one_node=spec.single_node or (layout is None and task.minimum == 1),
            exclusive=spec.exclusive,
            limit=round(min(limits)) if limits else None,
            memory=spec.held.memory or 0,
            memory_each=spec.process_memory or 0,
            project=spec.project,
            features=spec.needs.features,
            gpus=gpus,
            processes=(asked_processes(task, spec.dialect) or gpus) if gpus else 0,
            shape=(
                spec.needs.minimum_sockets,
                spec.needs.minimum_cores_per_socket,
                spec.needs.minimum_threads_per_core,
            ),
            signal=self._signal(min(limits, default=FOREVER)),
        )

    def _signal(self, limit: float) -> LimitSignal | None:
        """Return the signal before its limit; as on own nodes none before a limit that is shorter."""
        asked = read_limit_signal(self.spec.signal) if self.spec.signal else None
        return asked if asked is not None and asked.before < limit else None

    def recipe(self) -> Recipe:
        """Return what is run; the other scheduler sets the variables of its own dialect."""
        around = LaunchContext(
            job=JobId(self.key.job),
            spec=replace(self.spec, dialect=""),
            node=self.resource.place,
            cluster=self.cluster,
            scheduler=self.scheduler,
            base={"HOME": self.home, "USER": self.owner, "LOGNAME": self.owner},
            scripts="",
            scratch=self.scratch,
        )
        task, place = self.spec.tasks[self.key.task - 1], ((self.resource.place, ()),)
        return recipe(around, self.key.task, task, place, self.key.instance, self.key.attempt)

    def script(self) -> str:
        """Return the script that the resource runs."""
        task, made = self.spec.tasks[self.key.task - 1], self.recipe()
        variables = {
            name: value
            for name, value in made.environment.items()
            if name not in _OF_NODES and (value or is_schedulers(name))
        }
        variables |= {
            "HEADNODE_RESOURCE": self.resource.name,
            "CCP_NUMCPUS": str(task.minimum * unit_size(self.spec)),
        }
        named = f"/{self.key.job}.{self.key.task}."  # how the recipe calls the file of a script
        path = next((word for word in made.argv if task.script and word.startswith(named)), "")
        program = Program(
            made.argv,
            variables,
            made.work_directory,
            made.stdin,
            made.stdout,
            made.stderr,
            made.append_stdout,
            made.append_stderr,
            task.script if path else "",
            path,
        )
        asked = read_limit_signal(self.spec.signal) if self.spec.signal else None
        to_group = asked.number if asked is not None and asked.target == "all" else None
        return attempt_script(self.marker, self.resource.system, program, to_group)

    @property
    def scratch(self) -> str:
        """The directory of its staged files."""
        return f"{self.base}/{self.marker}/{SCRATCH}"

    @property
    def stages(self) -> bool:
        """Whether files are staged for it."""
        return self.spec.tasks[self.key.task - 1].stages

    def transfers(self, **how: Any) -> dict[str, Any]:
        """Return what is transferred for it; `how` is told to the process."""
        from headnode.core.launching.staging import transfer_plan

        task = self.spec.tasks[self.key.task - 1]
        return transfer_plan(self.spec, task, self.recipe().transfers, **how)

    def outputs(self) -> tuple[str, str, str]:
        """Return the files of standard output and error, and the one that has what is not redirected."""
        made, rest = self.recipe(), f"{self.base}/{self.marker}/{OUTPUT}"
        return made.stdout or rest, made.stderr or made.stdout or rest, rest
