"""Everything a job can say, the native form can say, in TOML and in JSON."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from depth import share_of
from documents.job_languages import native_reference
from headnode.core.formats.hpc_xml import DIALECTS, HPC
from headnode.core.formats.native import JSON, TOML, json_schema, read_job, write_job
from headnode.core.formats.native.keys import (
    ALTERNATIVE_ROWS,
    ALTERNATIVES,
    JOB_KEYS,
    SIZES,
    TASK_ALTERNATIVE_ROWS,
    TASK_KEYS,
    TASKS,
)
from headnode.core.formats.text.quantities import (
    format_at_least,
    format_bounds,
    format_memory,
    format_memory_bounds,
    format_nodes,
    format_span,
    parse_at_least,
    parse_bounds,
    parse_memory,
    parse_memory_bounds,
    parse_nodes,
    parse_span,
)
from headnode.core.formats.text.toml_text import toml
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, HeldAmounts, JobSpec, Licence, TaskAlternative
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import Distribution, StagedFile, TaskSpec

from .specs import whole_jobs

MANY = settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "native_form").glob("*.toml"))
sized = st.none() | st.integers(-(2**31), 2**31)
anything = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize("form", [TOML, JSON])
@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@MANY
def test_every_job_is_the_same_after_being_a_file(form: str, dialect: str, data: st.DataObject) -> None:
    spec = data.draw(whole_jobs(dialect))
    assert read_job(write_job(spec, form)[0]) == (spec, ())


@given(st.floats(0, allow_nan=False))
@example(0.1 + 0.2)
@example(5e-324)
@example(86399.99999999999)
@MANY
def test_every_span_of_time_is_the_same_after_being_text(span: float) -> None:
    assert parse_span(format_span(Seconds(span))) == span


@given(st.floats(0, 253402300799, allow_nan=False))
@MANY
def test_every_point_of_time_is_the_same_after_being_text(instant: float) -> None:
    spec = JobSpec(hold_until=Instant(instant))
    assert read_job(write_job(spec)[0])[0] == spec
    assert read_job(write_job(spec, JSON)[0])[0] == spec


@given(st.lists(anything | st.from_regex(r"\A[ab][0-9]{1,3}\Z"), max_size=6).map(tuple))
@example(("n1", "n2", "n03", "n04", "n9", "n10"))
@example(("n99", "n100"))
@example(("n08", "n09", "n10", "n100", "n101"))
@example(("a[1]", "b\\", "c,d", ""))
@MANY
def test_every_list_of_nodes_is_the_same_after_being_sets(names: tuple[str, ...]) -> None:
    assert parse_nodes(format_nodes(names)) == names


@given(sized, sized)
@MANY
def test_every_size_is_the_same_after_being_text(low: int | None, high: int | None) -> None:
    assert parse_bounds(format_bounds((low, high))) == (low, high)
    if (low, high) != (None, None):
        assert parse_at_least(format_at_least((low, high))) == (low, high)


@given(st.none() | st.integers(1, 2**40), st.none() | st.integers(1, 2**40))
@MANY
def test_every_amount_of_memory_is_the_same_after_being_text(low: int | None, high: int | None) -> None:
    if low is not None:
        assert parse_memory(format_memory(low)) == low
    if (low, high) != (None, None):
        assert parse_memory_bounds(format_memory_bounds((low, high))) == (low, high)


@given(st.dictionaries(anything, anything | st.lists(anything, max_size=3), max_size=3))
@MANY
def test_what_is_written_as_toml_is_what_another_reader_reads(table: dict[str, object]) -> None:
    assert tomllib.loads(toml(table)) == table
    assert tomllib.loads(toml({"a": table, "b": [table, table]})) == {"a": table, "b": [table, table]}


def test_two_licences_of_one_feature_are_not_lost() -> None:
    spec = JobSpec(licences=(Licence("a", 1), Licence("a", None)))
    assert read_job(write_job(spec)[0])[0] == spec


def test_every_field_of_a_job_and_of_a_task_has_a_key() -> None:
    for spec, rows, more in (
        (JobSpec(), JOB_KEYS, {TASKS, ALTERNATIVES, "unit"}),
        (TaskSpec(), TASK_KEYS, set()),
        (Alternative(needs=ANY_NODE), ALTERNATIVE_ROWS, {TASKS, "unit"}),
        (TaskAlternative(needs=ANY_NODE), TASK_ALTERNATIVE_ROWS, set()),
    ):
        of_needs = {f"needs.{field}" for field in NodeNeeds.__struct_fields__}
        filled = {field for row in rows.values() for field in row.filled} | more
        assert filled == {*spec.__struct_fields__} - {"needs"} | of_needs


def test_a_sweep_is_written_in_the_words_of_the_first_example() -> None:
    text = """name = "first sweep"
command = "./simulate --case *"
sweep = "1-100"
run_time = "20m"
stdout = "case.***.txt"
"""
    assert write_job(read_job(text)[0])[0].decode() == text


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_file_is_written_to_the_letter(path: Path) -> None:
    spec, _ = read_job(path.read_bytes())
    assert write_job(spec)[0].decode() == path.read_text()
    document = json.loads(path.with_suffix(".json").read_text())
    assert read_job(json.dumps(document))[0] == spec
    assert json.loads(write_job(spec, JSON)[0]) == document


def test_a_golden_file_uses_every_key() -> None:
    jobs = [tomllib.loads(path.read_text()) for path in GOLDEN]
    others = [one for job in jobs for one in job.get(ALTERNATIVES, [])]
    for what, known, tables in (
        ("job", JOB_KEYS.keys() | {ALTERNATIVES}, jobs),
        ("task", TASK_KEYS.keys(), _tasks_of(jobs)),
        ("alternative", ALTERNATIVE_ROWS.keys(), others),
        ("task of an alternative", TASK_ALTERNATIVE_ROWS.keys(), _tasks_of(others)),
    ):
        missing = known - SIZES.keys() - {key for table in tables for key in table}
        assert not missing, f"use these keys of a {what} in tests/golden/native_form/every_key: {missing}"


def _tasks_of(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [task for table in tables for task in table.get(TASKS, [])]


def test_the_schema_is_closed_and_knows_every_key() -> None:
    schema = json_schema()
    parts = schema["$defs"]
    known = {
        "job": {*JOB_KEYS, *TASK_KEYS, TASKS, ALTERNATIVES},
        "task": {*TASK_KEYS},
        "alternative": {*ALTERNATIVE_ROWS, TASKS, "distribution", "sweep_end"},
        "alternative_task": {*TASK_ALTERNATIVE_ROWS},
        "held": {*HeldAmounts.__struct_fields__},
        "distribution": {*Distribution.__struct_fields__},
        "named_job": {"name", "id", "condition"},
        "staged_file": {*StagedFile.__struct_fields__},
    }
    assert {name: {*part["properties"]} for name, part in parts.items()} == known
    assert not any(part["additionalProperties"] for part in (*parts.values(), schema["then"]))
    assert json.loads(json.dumps(schema)) == schema


def test_every_key_is_on_the_reference_page_and_every_example_can_be_read() -> None:
    page = native_reference()
    for rows in (JOB_KEYS, TASK_KEYS, ALTERNATIVE_ROWS, TASK_ALTERNATIVE_ROWS):
        for key, row in rows.items():
            assert f"| {key} | {row.help} |" in page
            if row.example is not None:
                row.value.read(row.example)


def test_half_of_a_surrogate_pair_cannot_be_written() -> None:
    for form in (TOML, JSON):
        with pytest.raises(BadRequest, match="not-unicode"):
            write_job(JobSpec(name="\ud800"), form)


def test_there_are_two_ways_to_write_it() -> None:
    with pytest.raises(BadRequest, match="native-json"):
        write_job(JobSpec(), "yaml")


def test_no_limit_is_written_as_a_word() -> None:
    assert format_span(FOREVER) == "infinite"
    assert (parse_span("Infinite "), parse_span("1 week 2 days 1h 3 min 5.5 sec")) == (FOREVER, 781385.5)
    assert HPC in DIALECTS
