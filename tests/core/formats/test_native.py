"""The native form says a job in the names of the model, and explains what is wrong."""

import json

import pytest
from hypothesis import HealthCheck, given, settings

from headnode.core.formats.native import read_job_json, write_job_json
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType

from .specs import whole_jobs


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
    assert read_job_json(json.loads(text)) == spec


@given(whole_jobs())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_job_is_the_same_after_being_json(spec: JobSpec) -> None:
    assert read_job_json(json.loads(json.dumps(write_job_json(spec), allow_nan=False))) == spec


@pytest.mark.parametrize("limit", [None, "infinite"])
def test_no_limit_has_two_spellings(limit: str | None) -> None:
    spec = read_job_json({"run_time": limit, "tasks": [{"run_time": limit}]})
    assert (spec.run_time, spec.tasks[0].run_time) == (FOREVER, FOREVER)


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        ({"nmae": "a"}, "unknown-field", "job has no field 'nmae'"),
        ({"tasks": [{}, {"comand": "a"}]}, "unknown-field", "job.tasks[1] has no field 'comand'"),
        ({"licences": [{"featur": "a"}]}, "unknown-field", "job.licences[0] has no field 'featur'"),
        ({"needs": {"nmaes": []}}, "unknown-field", "job.needs has no field 'nmaes'"),
        ({"alternatives": [{"tasks": [{"en": 3}]}]}, "unknown-field", "job.alternatives[0].tasks[0] has no"),
        ({"tasks": [{"distribution": {"pernode": 2}}]}, "unknown-field", "job.tasks[0].distribution has no"),
        ({"resource_limits": [{"nam": "cpu"}]}, "unknown-field", "job.resource_limits[0] has no field 'nam'"),
        ({"minimum": "2"}, "field", "$.minimum"),
        ({"tasks": [{"kind": "sweeping"}]}, "field", "$.tasks[0].kind"),
        ({"tasks": {}}, "field", "$.tasks"),
        ([], "field", "object"),
        (None, "field", "object"),
    ],
)
def test_what_is_wrong_is_named(found: object, code: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_job_json(found)
    assert (caught.value.code, said in caught.value.what) == (code, True), str(caught.value)
    assert caught.value.fix
