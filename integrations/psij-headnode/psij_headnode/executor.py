"""The executor of PSI/J for Headnode.

Source:  PSI/J, "Job Submission API Specification", layers 0 and 1.
"""

import shlex
import threading
from itertools import chain
from typing import Any

from psij import (
    InvalidJobException,
    Job,
    JobExecutor,
    JobExecutorConfig,
    JobSpec,
    JobState,
    JobStatus,
    Launcher,
    SubmitException,
)
from psij.resource_spec import ResourceSpecV1

from headnode.protocol.answers import DetailedJob
from headnode.sdk import BadRequest, HeadnodeClient, HeadnodeError, NotFound, Unavailable, WrongState
from headnode.sdk.following import JobFollower

STATES = {
    "Queued": JobState.QUEUED,
    "Running": JobState.ACTIVE,
    "Suspended": JobState.ACTIVE,
    "Finished": JobState.COMPLETED,
    "Failed": JobState.FAILED,
    "Canceled": JobState.CANCELED,
}
OWN = "headnode."
"""Custom attributes that begin so are options of the job by their names in the native form."""
NODE_FILE = """[ "$CCP_NODES_CORES" != Overflow ] || { echo "too many nodes for a node file" >&2; exit 1; }
PSIJ_NODEFILE=$(mktemp) || exit 1
trap 'rm -f "$PSIJ_NODEFILE"' EXIT
set -- $CCP_NODES_CORES; shift
while [ $# -gt 0 ]; do
  i=0; while [ $i -lt $2 ]; do echo "$1"; i=$((i+1)); done; shift 2
done > "$PSIJ_NODEFILE"
export PSIJ_NODEFILE
"""
"""Shell that writes a line for each process, for the launchers of PSI/J."""


class HeadnodeJobExecutor(JobExecutor):
    """Runs jobs of PSI/J as jobs of Headnode; states come by events."""

    def __init__(self, url: str | None = None, config: JobExecutorConfig | None = None) -> None:
        """`url`: the state directory of the head; None: the head that `hn` finds."""
        super().__init__(url=url, config=config or JobExecutorConfig())
        self._client = HeadnodeClient(url)
        self._jobs: dict[int, list[Job]] = {}  # several may be attached to one job of Headnode
        self._lock = threading.Lock()
        self._follower: JobFollower | None = None

    def submit(self, job: Job) -> None:
        """Submit a job.

        Raises:  InvalidJobException if the job is wrong; SubmitException, transient if the head is away.
        """
        spec = self._check_job(job)
        try:
            options = self._options(job, spec)
            follower = self._following()
            number = self._client.submit(**options).id
        except BadRequest as error:
            raise InvalidJobException(str(error)) from error
        except HeadnodeError as error:
            raise SubmitException(str(error), error, transient=isinstance(error, Unavailable)) from error
        self._take(job, number, follower)

    def attach(self, job: Job, native_id: str) -> None:
        """Follow a job that was submitted before.

        Raises:  InvalidJobException for a job that is not new; SubmitException if there is no such job.
        """
        if job.status.state != JobState.NEW:
            raise InvalidJobException("Job must be in the NEW state")
        job.executor = self
        try:
            self._take(job, int(native_id), self._following())
        except NotFound as error:
            raise SubmitException(str(error), error) from error

    def cancel(self, job: Job) -> None:
        """Cancel a job.

        Raises:  SubmitException if the head cannot be asked, or refuses.
        """
        if job.native_id is None:
            raise SubmitException("the job was not submitted")
        try:
            self._client.job(int(job.native_id)).cancel("canceled by PSI/J")
        except WrongState:
            return  # it has ended; its status says so
        except HeadnodeError as error:
            raise SubmitException(str(error), error, transient=isinstance(error, Unavailable)) from error

    def list(self) -> list[str]:
        """Return the ids of the user's jobs that have not ended."""
        return [str(job.id) for job in self._client.jobs(owner="", states=["Queued", "Running", "Suspended"])]

    def _following(self) -> JobFollower:
        with self._lock:
            if self._follower is None:
                self._follower = JobFollower(self._client, self._changed, self._lost)
            return self._follower

    def _take(self, job: Job, number: int, follower: JobFollower) -> None:
        job._native_id = str(number)
        with self._lock:
            self._jobs.setdefault(number, []).append(job)
        follower.add(number)

    def _changed(self, now: DetailedJob) -> None:
        state = STATES.get(now.state)
        with self._lock:
            jobs = list(self._jobs.get(now.id or 0, []))
            if not jobs or state is None:
                return
            if state.final:
                del self._jobs[now.id or 0]
        code = now.usage.exit_code if state.final and now.usage is not None else None
        at = now.ended if state.final else now.started if state is JobState.ACTIVE else now.submitted
        status = JobStatus(state, time=at, message=now.message or None, exit_code=code)
        for job in jobs:
            if job.status.state is not state:
                self._set_job_status(job, status)

    def _lost(self, error: HeadnodeError) -> None:
        """Fail the jobs that can no longer be followed."""
        with self._lock:
            jobs, self._follower = list(chain.from_iterable(self._jobs.values())), None
            self._jobs.clear()
        for job in jobs:
            self._set_job_status(job, JobStatus(JobState.FAILED, message=str(error)))

    def _options(self, job: Job, spec: JobSpec) -> dict[str, Any]:
        """Return the options of a job of Headnode.  The launcher redirects the streams.

        Raises:  InvalidJobException for what Headnode has no option for.
        """
        attributes, resources = spec.attributes, spec.resources or ResourceSpecV1()
        if not isinstance(resources, ResourceSpecV1):
            raise InvalidJobException(f"resources of version {resources.version} are not supported")
        processes, nodes = resources.computed_process_count, resources.node_count
        count = processes * (resources.cpu_cores_per_process or 1)
        options: dict[str, Any] = {
            "command": ["/bin/sh", "-c", self._script(job, spec, processes)],
            "name": spec.name,
            **_size(count, processes * (resources.gpu_cores_per_process or 0)),
            "exclusive": resources.exclusive_node_use or None,
            "work_directory": spec.directory,
            "environment": spec.environment or None,
        }
        if nodes is not None:
            options["processors_per_node"] = count // nodes
        if resources.memory:
            options["held"] = {"memory": f"{-(-resources.memory // (nodes or 1) // 1_000_000)} MB"}
        if attributes is not None:
            options |= {
                "run_time": attributes.duration,
                "node_groups": attributes.queue_name,
                "project": attributes.account,
                "reservation": attributes.reservation_id,
            }
            custom = attributes.custom_attributes or {}
            options |= {
                name.removeprefix(OWN): value for name, value in custom.items() if name.startswith(OWN)
            }
        return options

    def _script(self, job: Job, spec: JobSpec, processes: int) -> str:
        """Return the shell commands that start the launcher of the job."""
        launcher = Launcher.get_instance(spec.launcher or Launcher.DEFAULT_LAUNCHER_NAME, config=self.config)
        launch = shlex.join(launcher.get_launch_command(job))
        return f"{NODE_FILE if processes > 1 else ''}{launch}"


def _size(processors: int, gpus: int) -> dict[str, int]:
    """Return the size of a job: each of its GPUs comes with its share of the processors, rounded up.

    >>> _size(4, 0), _size(6, 4)
    ({'processors': 4}, {'gpus': 4, 'processors_per_gpu': 2})
    """
    return (
        {"gpus": gpus, "processors_per_gpu": -(-processors // gpus)} if gpus else {"processors": processors}
    )
