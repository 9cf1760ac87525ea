"""Job objects in other letters, by reference, and in the variant of Moab."""

import shlex

import pytest

from headnode.core.formats.dialects import JobLanguage, ReadOptions, language_of, read
from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.model.dependency import NamedParent
from headnode.core.model.errors import BadRequest

MOAB = r"""<job>
  <Owner>ann</Owner>
  <UserId>ann</UserId>
  <JobName>sleep</JobName>
  <InitialWorkingDirectory>/home/ann</InitialWorkingDirectory>
  <UMask>18</UMask>
  <Executable>/home/ann/job.sh</Executable>
  <SubmitLanguage>PBS</SubmitLanguage>
  <SubmitString>\START\23!/bin/sh\0asleep\201000\0aecho\20\3cdone\3e</SubmitString>
  <Environment>A=1~rs;B=two words~rs;</Environment>
  <Extension>x=flags:restartable</Extension>
  <Requested>
    <Nodes><Node>2:ppn=4</Node></Nodes>
    <WallclockDuration>01:00:30</WallclockDuration>
  </Requested>
</job>
"""


def test_the_job_of_moab_is_read_with_its_script_size_limit_and_environment() -> None:
    reading = read(MOAB)
    (spec,) = reading.jobs
    (task,) = spec.tasks
    script = "#!/bin/sh\nsleep 1000\necho <done>"
    assert shlex.split(task.command)[:3] == ["/bin/sh", "-c", script]
    assert (spec.name, spec.run_as, spec.run_time, task.work_directory) == ("sleep", "ann", 3630, "/home/ann")
    assert (task.minimum, spec.environment) == (8, {"A": "1", "B": "two words"})
    lost = [item.what for item in reading.report if item.kind is Fidelity.NOT_SUPPORTED]
    assert len(lost) == 3
    assert all(
        any(word in what for what in lost) for word in ("UMask", "SubmitLanguage", "flags:restartable")
    )


@pytest.mark.parametrize("policy", Awareness)
@pytest.mark.parametrize(
    "inside",
    [
        "<Extension>x=flags:a;depend:afterok:17</Extension>",
        "<Extension>x=advres:system.1</Extension>",
        "<Requested><Nodes><Node>n1:ppn=2</Node></Nodes></Requested>",
        "<WallclockDuration>soon</WallclockDuration>",
    ],
)
def test_what_moab_says_of_when_and_where_is_never_left_out(inside: str, policy: Awareness) -> None:
    with pytest.raises(BadRequest, match=r"line 1, column"):
        read(f"<job><Owner>a</Owner>{inside}</job>", ReadOptions(awareness=policy))


def test_a_job_in_other_letters_is_the_same_job() -> None:
    (spec,) = read("<JOB><id>a</id><EXECUTABLE>/bin/x</EXECUTABLE><dependency>b</dependency></JOB>").jobs
    assert spec.tasks[0].command == "/bin/x"
    assert spec.named_parents == (NamedParent("b", by_id=True),)


@pytest.mark.parametrize("text", ["<Job> job123</Job>", "<job>job123</job>", "<JobGroup> flow1</JobGroup>"])
def test_a_reference_alone_is_no_job_and_is_reported(text: str) -> None:
    assert language_of(text) is JobLanguage.SSS
    reading = read(text)
    assert reading.jobs == ()
    assert "is defined elsewhere: it is not submitted" in reading.report[-1].what


@pytest.mark.parametrize(
    "text", ['<Job Name="a"/>', '<Job Name="a"><Tasks><Task CommandLine="x"/></Tasks></Job>', "<Job></Job>"]
)
def test_a_compute_cluster_job_is_not_taken_for_a_job_object(text: str) -> None:
    assert language_of(text) is JobLanguage.COMPUTE_CLUSTER
