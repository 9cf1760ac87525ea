"""A job as JSON has the names of the model, and says all of the job."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings

from depth import share_of
from headnode.core.formats.job_views import write_job_json
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType

from .specs import whole_jobs


def job_in(found: Any) -> JobSpec:
    """The job that JSON says, in which no limit is null."""
    for part in (found, *found.get("tasks", ()), *found.get("alternatives", ())):
        for each in (part, *part.get("tasks", ())):
            for limit in ("run_time", "switches_wait"):
                if limit in each and each[limit] is None:
                    each[limit] = FOREVER
    return msgspec.convert(found, JobSpec)


def test_only_what_differs_from_the_defaults_is_written() -> None:
    spec = JobSpec(name="a", run_time=Seconds(60), tasks=(TaskSpec(command="x", kind=TaskType.SWEEP, end=3),))
    assert write_job_json(spec) == {
        "name": "a",
        "run_time": 60.0,
        "tasks": [{"command": "x", "kind": "sweep", "end": 3}],
    }


def test_a_job_is_written_as_strict_json() -> None:
    spec = JobSpec(
        licences=(Licence("f", None),), hold_until=Instant(1.5), tasks=(TaskSpec(run_time=FOREVER),)
    )
    text = json.dumps(write_job_json(spec), allow_nan=False)
    assert job_in(json.loads(text)) == spec


@given(whole_jobs())
@settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_every_job_is_the_same_after_being_json(spec: JobSpec) -> None:
    assert job_in(json.loads(json.dumps(write_job_json(spec), allow_nan=False))) == spec
