"""Each property of SSS that is called acted on: because of it a job runs or is listed otherwise."""

from typing import Any

import msgspec
import pytest
from worlds import ROOT, World

from documents.job_languages import coverage
from headnode.core.formats.dialects import ReadOptions, read
from headnode.core.launching.environment import LaunchContext
from headnode.core.launching.recipe import recipe
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import JobId
from headnode.core.state.groups import CreateJobs
from headnode.core.state.job_events import JobCreated
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.submit import CreateJob
from headnode.core.state.suspend import SuspendJob

RUN = "<Executable>/bin/x</Executable>"
NODES = (
    NodeFacts(name="n1", processors=8, memory=1000, disk=1000, swap=1000, architecture="x86_64",
              system="Linux", features=("gpu",), groups=("part",), speed=2000),
    NodeFacts(name="n2", processors=8, memory=500, disk=500, swap=500, architecture="arm64", system="BSD"),
)  # fmt: skip
LISTED = ("name", "project", "description", "job_group", "email", "notify_on_start", "notify_on_completion")
_TWO = f"<TaskGroup><TaskCount>2</TaskCount>{RUN}</TaskGroup>"

OF_JOB = {
    "Name": "<Name>solve</Name>",
    "InitialWorkingDirectory": "<InitialWorkingDirectory>/data</InitialWorkingDirectory>",
    "Arguments": "<Arguments>-v 'a b'</Arguments>",
    "Shell": "<Shell>/bin/bash</Shell>",
    "Interactive": "<Interactive>true</Interactive>",
    "DeadlineTime": "<DeadlineTime>1000050</DeadlineTime>",
    "EligibleTime": "<EligibleTime>1000500</EligibleTime>",
    "Hold": "<Hold>User</Hold>",
    "Priority": "<Priority>3999</Priority>",
    "Restartable": "<Restartable>true</Restartable>",
    "Suspendable": "<Suspendable>true</Suspendable>",
    "Architecture": "<Architecture>arm64</Architecture>",
    "Machine": "<Machine>elsewhere</Machine>",
    "NodeCount": "<NodeCount>2</NodeCount>",
    "OperatingSystem": "<OperatingSystem>BSD</OperatingSystem>",
    "Partition": "<Partition>nowhere</Partition>",
    "QualityOfService": "<QualityOfService>gold</QualityOfService>",
    "Queue": "<Queue>night</Queue>",
    "Reservation": "<Reservation>course</Reservation>",
    "ResourceManagerType": "<ResourceManagerType>Slurm</ResourceManagerType>",
    "Duration": "<Duration>60</Duration>",
    "Project": "<Project>physics</Project>",
    "User": "<User>bob</User>",
    "Processors": "<Processors>3</Processors>",
    "Resource": '<Resource name="License" type="MATLAB">2</Resource>',
    "Node": "<Node>n2</Node>",
    "Feature": "<Feature>none</Feature>",
    "InputFile": "<InputFile>/in</InputFile>",
    "OutputFile": '<OutputFile redirectList="Append">/out</OutputFile>',
    "ErrorFile": '<ErrorFile redirectList="Append">/err</ErrorFile>',
    "NotificationList": '<NotificationList uri="ann@example.org">JobEnd</NotificationList>',
    "ResourceLimit": '<ResourceLimit name="OpenFiles">9</ResourceLimit>',
    "Environment": '<Environment><Variable name="A">1</Variable></Environment>',
    "Dependency": "<Dependency designator='JobId'>1</Dependency>",
    "Requested": "<Requested><Processors>3</Processors></Requested>",
    "Variable": '<Environment><Variable name="B">2</Variable></Environment>',
    "NodeProperties": "<NodeProperties><Feature>none</Feature></NodeProperties>",
}
"""What is added to a job that runs one program; the job runs, waits or is listed otherwise."""


def two_jobs(inside: str) -> str:
    """Two jobs that ask for the same, which only one node has, and has once."""
    return f"<Data><Job><Id>1</Id>{RUN}{inside}</Job><Job><Id>2</Id>{RUN}{inside}</Job></Data>"


WHOLE = {
    **{name: (two_jobs(""), two_jobs(f"<{name}>900</{name}>")) for name in ("Memory", "Disk", "Swap")},
    "Executable": ("<Job><Id>1</Id></Job>", f"<Job><Id>1</Id>{RUN}</Job>"),
    "TaskCount": (f"<Job><Id>1</Id><TaskGroup>{RUN}</TaskGroup></Job>", f"<Job><Id>1</Id>{_TWO}</Job>"),
    "TaskDistribution": (
        f"<Job><Id>1</Id>{_TWO}</Job>",
        f"<Job><Id>1</Id><TaskDistribution type='TasksPerNode'>1</TaskDistribution>{_TWO}</Job>",
    ),
    "Id": (
        f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>",
        f"<JobGroup><Id>b</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>",
    ),
    "Description": (
        f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>",
        f"<JobGroup><Id>a</Id><Description>d</Description><Job><Id>1</Id>{RUN}</Job></JobGroup>",
    ),
    "JobGroup": (f"<Job><Id>1</Id>{RUN}</Job>", f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>"),
    "JobDefaults": (
        f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>",
        f"<JobGroup><Id>a</Id><JobDefaults><Hold>User</Hold></JobDefaults><Job><Id>1</Id>{RUN}</Job></JobGroup>",
    ),
    "Job": (
        f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job></JobGroup>",
        f"<JobGroup><Id>a</Id><Job><Id>1</Id>{RUN}</Job><Job><Id>2</Id>{RUN}</Job></JobGroup>",
    ),
    "TaskGroup": (f"<Job><Id>1</Id>{RUN}</Job>", f"<Job><Id>1</Id>{_TWO}{_TWO}</Job>"),
    "TaskGroupDefaults": (
        f"<Job><Id>1</Id>{_TWO}</Job>",
        f"<Job><Id>1</Id><TaskGroupDefaults><Arguments>-v</Arguments></TaskGroupDefaults>{_TWO}</Job>",
    ),
    "TaskDefaults": (
        f"<Job><Id>1</Id><TaskGroup>{RUN}</TaskGroup></Job>",
        f"<Job><Id>1</Id><TaskGroup>{RUN}<TaskDefaults><Arguments>-v</Arguments></TaskDefaults></TaskGroup></Job>",
    ),
    "Task": (
        f"<Job><Id>1</Id><TaskGroup>{RUN}</TaskGroup></Job>",
        f"<Job><Id>1</Id><TaskGroup>{RUN}<Task><Id>1</Id><Arguments>-v</Arguments></Task></TaskGroup></Job>",
    ),
    "File": (
        "<Data><Job><Id>1</Id><Executable>#S</Executable></Job><File id='S'>echo a</File></Data>",
        "<Data><Job><Id>1</Id><Executable>#S</Executable></Job><File id='S'>echo b</File></Data>",
    ),
}
"""Two documents; the jobs of the second run otherwise."""


def around(spec: JobSpec, job: JobId) -> LaunchContext:
    return LaunchContext(
        job=job, spec=spec, node="n1", cluster="c", scheduler="h", base={"HOME": "/home/ann"}, marker="m",
        processors_per_socket=1,
    )  # fmt: skip


def seen(text: str) -> Any:
    """What becomes of the jobs of a document, on a cluster with other jobs and a licence, now and later."""
    world = World()
    for facts in NODES:
        world.do(RegisterNode(facts=facts, approved=True))
    world.do(SetParameter(by=ROOT, name="Licences", value="MATLAB:1"))
    (spare,) = read(f"<Job><Id>9</Id><Hold>user</Hold>{RUN}</Job>").jobs
    world.do(CreateJob(by=ROOT, spec=spare, submit=True))
    try:
        reading = read(text, ReadOptions(machine="here"))
        made = world.do(CreateJobs(by=ROOT, specs=reading.jobs, links=reading.links, submit=True, users={}))
    except Refused as refused:
        return refused.code
    jobs = [event.job for event in made if isinstance(event, JobCreated)]
    now = [_state(world, job) for job in jobs]
    now += [_may_be_suspended(world, job) for job in jobs]
    world.wait(100)
    return now, [world.record(job).state for job in jobs]


def _state(world: World, job: JobId) -> Any:
    record = world.record(job)
    spec = world.cluster.written(record) if job in world.cluster.jobs else JobSpec()
    listed = [getattr(spec, name) for name in LISTED]
    more = [record.state, record.priority, record.owner, record.waits_for, spec.template]
    programs = []
    for held in sorted(world.nodes.running(), key=str):
        if held.job == job:
            task = spec.tasks[held.task - 1]
            place = tuple((node, tuple(processors)) for node, processors in _places(world, job))
            made = recipe(around(spec, job), held.task, task, place, held.instance, 1)
            limits = [
                msgspec.structs.astuple(limit) for limit in (*spec.resource_limits, *task.resource_limits)
            ]
            programs.append((held.task, held.instance, made, limits, task.rerunnable, place))
    return listed, more, programs, spec.interactive


def _may_be_suspended(world: World, job: JobId) -> str:
    try:
        world.do(SuspendJob(by=ROOT, job=job))
    except Refused as refused:
        return refused.code
    return "suspended"


def _places(world: World, job: JobId) -> Any:
    run = world.record(job).run
    return sorted(run.allocation.items()) if run is not None else []


def acted_on() -> set[str]:
    return {row.name for row in coverage() if row.coverage == "acted on"}


@pytest.mark.parametrize("name", sorted(OF_JOB))
def test_a_property_of_a_job_changes_how_it_runs_or_is_listed(name: str) -> None:
    text = "<Job><Id>1</Id>{}{}</Job>"
    assert seen(text.format(RUN, "")) != seen(text.format(RUN, OF_JOB[name]))


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_part_of_a_document_changes_how_its_jobs_run_or_are_listed(name: str) -> None:
    before, after = WHOLE[name]
    assert seen(before) != seen(after)


def test_every_property_that_is_called_acted_on_has_a_proof() -> None:
    assert acted_on() <= {*OF_JOB, *WHOLE}
