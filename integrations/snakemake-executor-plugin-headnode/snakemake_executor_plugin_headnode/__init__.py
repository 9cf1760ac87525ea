"""The executor plugin of Snakemake for Headnode: `snakemake --executor headnode`.

Source:  snakemake-interface-executor-plugins, "Interfaces for executor plugins".
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from headnode.protocol.answers import DetailedJob
from headnode.sdk import HeadnodeClient, HeadnodeError
from headnode.sdk.following import JobFollower
from headnode.sdk.synchronous.session import FINAL

PREFIX = "headnode_"
LONGEST_SLEEP = 5.0  # seconds: the loop of Snakemake looks whether it is to end


def _option(help_text: str) -> Any:
    return field(default=None, metadata={"help": help_text, "env_var": False})


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of `snakemake --executor headnode`.  Snakemake reads `Optional`, and no `|`."""

    state: Optional[str] = _option("State directory of the head; default: the head that hn finds")  # noqa: UP045
    project: Optional[str] = _option("Project of the jobs")  # noqa: UP045
    template: Optional[str] = _option("Job template of the jobs")  # noqa: UP045


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):
    """Submits each job of a workflow, and reports its end when the head reports it."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._wake, self._ended = threading.Event(), dict[str, DetailedJob]()
        self._failure: HeadnodeError | None = None
        super().__init__(*args, **named)  # it starts the thread that calls `sleep`, before `__post_init__`

    def __post_init__(self) -> None:
        """Connect to the head.

        Raises:  WorkflowError if it is away.
        """
        settings = self.workflow.executor_settings
        try:
            self._client = HeadnodeClient(settings.state)
            self._follower = JobFollower(self._client, self._changed, self._lost)
        except HeadnodeError as error:
            raise WorkflowError(str(error)) from error

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job; its output is captured by Headnode."""
        options = {"work_directory": str(Path.cwd()), **self._site_options(), **job_options(job)}
        options.setdefault("environment", self.envvars())
        try:
            handle = self._client.submit(["/bin/sh", "-c", self.format_job_exec(job)], **options)
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=str(handle.id)))
            self._follower.add(handle.id)
        except HeadnodeError as error:
            raise WorkflowError(f"job {self.get_jobname(job)}: {error}") from error

    def _site_options(self) -> dict[str, Any]:
        settings = self.workflow.executor_settings
        return {"project": settings.project, "template": settings.template}

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs of which the head has reported the end; yield the others.  It is not asked."""
        for info in active_jobs:
            job = self._ended.pop(info.external_jobid or "", None)
            if job is not None and job.state == "Finished":
                self.report_job_success(info)
            elif job is not None or self._failure is not None:
                self.report_job_error(info, msg=self._told(job, info))
            else:
                yield info

    def _told(self, job: DetailedJob | None, info: SubmittedJobInfo) -> str:
        if job is None:
            return f"{self._failure} "
        number = info.external_jobid
        return f"Headnode job {number} is {job.state}: {job.message} See: hn task output {number}.1. "

    async def sleep(self) -> None:
        """Wait until a job has ended."""
        await asyncio.to_thread(self._wake.wait, LONGEST_SLEEP)
        self._wake.clear()

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel jobs when the workflow is ended."""
        for info in active_jobs:
            try:
                self._client.job(int(info.external_jobid or 0)).cancel("the Snakemake workflow was ended")
            except HeadnodeError as error:
                self.logger.info(f"job {info.external_jobid} was not canceled: {error}")

    def shutdown(self) -> None:
        """End what follows the jobs."""
        self._follower.close()
        self.wait = False
        self._wake.set()
        super().shutdown()
        self._client.close()

    def _changed(self, job: DetailedJob) -> None:
        if job.state in FINAL:
            self._ended[str(job.id)] = job
            self._wake.set()

    def _lost(self, error: HeadnodeError) -> None:
        self._failure = error
        self._wake.set()


def job_options(job: Any) -> dict[str, Any]:
    """Return the options of a job of Snakemake: its threads and resources; `headnode_X` is the option X."""
    resources: Mapping[str, Any] = job.resources
    options: dict[str, Any] = {
        "name": job.name if not job.is_group() else f"group {job.groupid}",
        "single_node": True,
    }
    threads, gpus = max(1, int(job.threads)), resources.get("gpu")
    if isinstance(gpus, int) and gpus > 0:
        options |= {"gpus": gpus, "processors_per_gpu": -(-threads // gpus)}
    else:
        options["processors"] = threads
    if model := resources.get("gpu_model"):
        options["features"] = [model]
    if (minutes := resources.get("runtime")) is not None:
        options["run_time"] = f"{minutes}m"
    held = {what: resources.get(f"{short}_mb") for what, short in (("memory", "mem"), ("disk", "disk"))}
    options["held"] = {what: f"{size} MB" for what, size in held.items() if isinstance(size, int)} or None
    named = {key.removeprefix(PREFIX): value for key, value in resources.items() if key.startswith(PREFIX)}
    return options | named
