"""What a caller of the SDK says is the job file that the head reads."""

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.formats import dialects
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.protocol.cluster_answers import PingAnswer
from headnode.protocol.job_answers import HoldJobRequest
from headnode.protocol.requests import SubmitJobRequest
from headnode.sdk.description import job_description, job_text
from headnode.sdk.verbs.verb_methods import request_fields, typed_answer


def spec_of(command: Any = None, tasks: Any = (), **options: Any) -> Any:
    return dialects.read(job_text(job_description(command, tasks, options))).only_job()


def test_values_of_python_are_values_of_options() -> None:
    moment = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    spec = spec_of(
        "./run *", run_time=timedelta(hours=1), hold_until=moment, sweep=range(0, 100, 5), name="x"
    )
    assert spec.run_time == 3600
    assert spec.hold_until == datetime(2030, 1, 1, 10, tzinfo=UTC).timestamp()
    assert (spec.tasks[0].start, spec.tasks[0].end, spec.tasks[0].increment) == (0, 95, 5)
    assert spec_of("x", work_directory=Path("/tmp/a")).tasks[0].work_directory == "/tmp/a"


def test_a_span_is_so_long_from_now_where_a_point_of_time_is_meant() -> None:
    before = time.time()
    spec = spec_of("x", hold_until=timedelta(hours=1), end_by=timedelta(hours=2))
    assert before + 3600 <= spec.hold_until <= time.time() + 3600
    assert before + 7200 <= spec.end_by <= time.time() + 7200


def test_numbers_may_be_arguments_of_a_command() -> None:
    assert job_description(["./run", 1, 2.5, Path("/a b")], [], {})["command"] == "./run 1 2.5 '/a b'"


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 9), st.booleans())
def test_a_range_is_the_sweep_of_its_numbers(low: int, count: int, step: int, backwards: bool) -> None:
    values = range(low, low + count, step)
    task = spec_of("echo *", sweep=values[::-1] if backwards else values).tasks[0]
    assert list(range(task.start, task.end + 1, task.increment)) == list(values)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=2))
def test_arguments_reach_the_program_as_they_are(words: list[str]) -> None:
    import shlex

    assert shlex.split(job_description(words, [], {})["command"]) == words


@pytest.mark.parametrize(
    ("command", "tasks", "options", "code"),
    [
        (None, [], {}, "usage"),
        ("a", [{"command": "b"}], {}, "usage"),
        (None, [{"name": "x"}], {}, "usage"),
        ("", [], {}, "usage"),
        ("a", [], {"sweep": range(0)}, "value"),
        ("a", [], {"name": object()}, "value"),
        ("a", [], {"name": b"x"}, "value"),
        (["a", None], [], {}, "value"),
        (["a", b"x"], [], {}, "value"),
    ],
)
def test_what_no_job_can_have_is_refused(command: Any, tasks: Any, options: Any, code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        job_text(job_description(command, tasks, options))
    assert refused.value.code == code


def test_fields_with_their_defaults_are_not_sent() -> None:
    assert request_fields(SubmitJobRequest(jobfile="x", terms={})) == {"jobfile": "x"}
    assert request_fields(HoldJobRequest(job=7), "key") == {"job": 7, "idempotency": "key"}


def test_an_answer_of_a_newer_head_is_understood() -> None:
    found = {"version": "9", "cluster": "c", "pid": 1, "state_directory": "/s", "new": [1]}
    assert typed_answer(found, PingAnswer) == PingAnswer("9", "c", 1, "/s")
    with pytest.raises(Unavailable, match="other-version"):
        typed_answer(json.loads('{"version": 9}'), PingAnswer)
