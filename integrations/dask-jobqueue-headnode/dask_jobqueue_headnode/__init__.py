"""Workers of Dask as jobs of Headnode: `HeadnodeCluster`, a cluster of dask-jobqueue.

Source:  dask-jobqueue, "How to debug / extend": classes derived from `Job` and `JobQueueCluster`.
"""

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import dask
from dask_jobqueue.core import Job, JobQueueCluster, cluster_parameters, job_parameters
from distributed.deploy.spec import ProcessInterface

from headnode.sdk import AsyncHeadnodeClient, NotFound, WrongState

NAME = "headnode"
MB = 1_000_000
DEFAULTS: Mapping[str, Any] = {
    "name": "dask-worker",
    "cores": None,
    "memory": None,
    "processes": None,
    "python": None,
    "interface": None,
    "death-timeout": 60,
    "local-directory": None,
    "shared-temp-directory": None,
    "extra": None,
    "worker-command": "distributed.cli.dask_worker",
    "worker-extra-args": [],
    "job-extra": None,
    "job-extra-directives": {},
    "env-extra": None,
    "job-script-prologue": [],
    "header-skip": None,
    "job-directives-skip": [],
    "log-directory": None,
    "shebang": "#!/bin/sh",
    "scheduler-options": {},
    "state": None,
    "project": None,
    "walltime": "1h",
}
dask.config.update_defaults({"jobqueue": {NAME: dict(DEFAULTS)}})


class HeadnodeJob(Job):
    """A job of Headnode that runs workers of Dask."""

    submit_command = cancel_command = ""  # the SDK submits and cancels
    config_name = NAME

    def __init__(
        self,
        scheduler: Any = None,
        name: Any = None,
        state: str | None = None,
        project: str | None = None,
        walltime: str | None = None,
        config_name: str | None = None,
        **base: Any,
    ) -> None:
        super().__init__(scheduler=scheduler, name=name, config_name=config_name, **base)
        self.job_header = ""

        def of_config(value: str | None, key: str) -> str | None:
            return dask.config.get(f"jobqueue.{self.config_name}.{key}") if value is None else value

        self._client = AsyncHeadnodeClient(of_config(state, "state"))
        cores = int(self.worker_cores)
        self.options: dict[str, Any] = {
            "name": self.job_name,
            "processors": cores,
            "single_node": True,
            "held": {"memory": f"{math.ceil(self.worker_memory / MB)} MB"},
            "run_time": of_config(walltime, "walltime"),
            "project": of_config(project, "project"),
            **({"stdout": f"{self.log_directory}/{name}.log"} if self.log_directory else {}),
            **dict(self.job_extra_directives),
        }

    async def start(self) -> None:
        """Submit the job; its workers connect to the scheduler when it runs.

        Raises:  HeadnodeError, what refuses the job.
        """
        job = await self._client.submit(["/bin/sh", "-c", self.job_script()], **self.options)
        self.job_id = str(job.id)
        await ProcessInterface.start(self)

    async def close(self) -> None:
        """Cancel the job, if it has not ended."""
        if self.job_id:
            with contextlib.suppress(WrongState, NotFound):  # it has ended
                await self._client.job(int(self.job_id)).cancel("the Dask cluster is scaled down or closed")
        await self._client.close()


class HeadnodeCluster(JobQueueCluster):
    __doc__ = f"""Dask workers as jobs of a Headnode cluster.

    Parameters
    ----------
    state : str
        State directory of the head, if it is not the one that `hn` finds
    project : str
        Project of the jobs
    walltime : str
        Run time limit of each job, such as 1h30m
    job_extra_directives : dict
        More options of the jobs by their names in the native form, such as {{"priority": "BelowNormal"}}
    {job_parameters}
    {cluster_parameters}

    Examples
    --------
    >>> from dask_jobqueue_headnode import HeadnodeCluster
    >>> cluster = HeadnodeCluster(cores=4, memory="8 GB")  # doctest: +SKIP
    >>> cluster.scale(jobs=10)  # doctest: +SKIP
    """
    job_cls = HeadnodeJob
