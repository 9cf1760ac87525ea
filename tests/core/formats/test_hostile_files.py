"""Whatever comes, only a refusal comes out, and soon."""

import time
from contextlib import suppress
from json import dumps

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats import native
from headnode.core.formats.dialects import read
from headnode.core.formats.dialects.reading import JobLanguage, locate
from headnode.core.formats.hpc_xml import CCS, DIALECTS, HPC, read_job, write_job
from headnode.core.formats.slash_terms import JOB_TERMS, TASK_TERMS, read_job_terms, read_task_terms
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec

from .specs import jobs

MANY = settings(max_examples=share_of(300), deadline=None, suppress_health_check=list(HealthCheck))
NAMES = """
    Name Priority Runtime RuntimeSeconds MinCores MaxNodes UnitType IsExclusive OrderBy SoftwareLicense Type
    JobValidExitCodes HoldUntil GroupId Depend IsParametric FailJobOnFailureCount xmlns Strange JobType Id
"""
TAGS = """
    Job Tasks Task EnvironmentVariables Variable ExtendedTerms Term Name Value Dependencies Parent Child X
"""
names = st.sampled_from(NAMES.split())
values = st.text(max_size=8) | st.sampled_from(
    ["1", "true", "0", "-1", "2147483648", "Core", "a,b", "f:*", "1..2"]
)
tags = st.sampled_from(TAGS.split())


def quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


attributes = st.dictionaries(names, values, max_size=4).map(
    lambda found: "".join(f' {name}="{quoted(value)}"' for name, value in found.items())
)
trees = st.recursive(
    st.builds(lambda tag, written: f"<{tag}{written}/>", tags, attributes),
    lambda inner: st.builds(
        lambda tag, written, children: f"<{tag}{written}>{''.join(children)}</{tag}>",
        tags,
        attributes,
        st.lists(inner | st.text(max_size=3).map(quoted), max_size=4),
    ),
    max_leaves=12,
)


def read_or_refuse(text: bytes | str) -> JobSpec | None:
    """Read; what is read must also be checkable, writable and the same when it is read again."""
    try:
        spec, _ = read_job(text)
    except BadRequest:
        return None
    try:
        check_job(spec)
    except BadRequest as wrong:
        locate(text, JobLanguage.COMPUTE_CLUSTER, wrong)
    assert read_job(write_job(spec, spec.dialect)[0])[0] == spec
    return spec


@given(trees)
@MANY
def test_any_tree_is_read_or_refused_and_what_is_read_survives(tree: str) -> None:
    read_or_refuse(tree)


@given(
    st.builds(
        lambda expected, inside: f"<Job{expected}>{''.join(inside)}</Job>",
        attributes,
        st.lists(trees, max_size=4),
    )
)
@MANY
def test_any_job_is_read_or_refused_and_what_is_read_survives(text: str) -> None:
    read_or_refuse(text)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"<Job>{text}</Job>"))
@MANY
def test_any_bytes_are_read_or_refused(text: bytes | str) -> None:
    read_or_refuse(text)


@given(st.data())
@MANY
def test_a_job_file_with_one_part_changed_is_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(write_job(data.draw(jobs(data.draw(st.sampled_from(list(DIALECTS))))), HPC)[0])
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
    read_or_refuse(bytes(text))


@given(st.dictionaries(st.sampled_from(list(JOB_TERMS)) | st.text(max_size=5), values, max_size=4))
@MANY
def test_any_job_options_are_read_or_refused(terms: dict[str, str]) -> None:
    with suppress(BadRequest):
        assert isinstance(read_job_terms(terms, now=Instant(0)), JobSpec)


@given(st.dictionaries(st.sampled_from(list(TASK_TERMS)), values, max_size=4))
@MANY
def test_any_task_options_are_read_or_refused(terms: dict[str, str]) -> None:
    with suppress(BadRequest):
        assert isinstance(read_task_terms(terms), TaskSpec)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(JobSpec.__struct_fields__ + TaskSpec.__struct_fields__), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(json)
@MANY
def test_any_json_is_read_or_refused_and_can_be_checked(found: object) -> None:
    with suppress(BadRequest):
        for spec in native.read_jobs(dumps(found))[0].jobs:
            check_job(spec)


@pytest.mark.parametrize(
    "text",
    [
        '<Job xmlns="}"><Job Name="" xmlns="0"/></Job>',
        '<Job xmlns="{"><Tasks xmlns="0"><Task CommandLine="a" Odd="1"><X/></Task></Tasks></Job>',
        '<Job q:x="1"><X xmlns="0"/></Job>',
        '<JobGroup xmlns="}{"><Id xmlns="0">1</Id></JobGroup>',
    ],
)
def test_namespaces_that_are_none_are_refused_whatever_the_parser_warns_of_later(text: str) -> None:
    with pytest.raises(BadRequest, match=r"line 1, column \d+: not well-formed XML") as refusal:
        read(text)
    assert refusal.value.code == "not-xml"


@pytest.mark.parametrize(
    "text",
    [
        "<Job>" * 100_000,
        "<Job>" + "<a>" * 1000 + "</a>" * 1000 + "</Job>",
        "<Job " + " ".join(f'a{number}="1"' for number in range(5000)) + "/>",
        "<Job><!--" + "-" * 100_000,
        "<Job Name='" + "<!--" * 100_000,
        "<Job>" + "<![CDATA[<Task a='1'>]]>" * 20_000 + "</Job>",
        "<Job><Tasks>" + "<Task Depend='x' Odd='1'/>" * 5000 + "</Tasks></Job>",
        "<Job" + " " * 200_000 + "x/>",
        "<Job>" + "<X/>" * 20_000 + "</Job>",
        "<Job>" + "<Tasks x='1'>a</Tasks>" * 5_000 + "</Job>",
        "<?" * 50_000,
        "<!--" * 50_000,
        "<Job HoldUntil='" + "1/" * 50_000 + "'/>",
        "<Job JobValidExitCodes='" + "1..2," * 50_000 + "' RequestedNodes='" + " ," * 50_000 + "'/>",
        "<Job><Tasks><Task CommandLine='" + "x" * 14_000_000 + "'/>",
    ],
    ids=range(15),
)
def test_no_file_is_slow_to_refuse_or_read(text: str) -> None:
    begun = time.process_time()
    read_or_refuse(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "name", ["headnode.kept: x", "headnode.kept:", "headnode.kept:a b", "headnode.kept:<x"]
)
def test_a_term_that_only_begins_as_what_was_kept_comes_back(name: str) -> None:
    text = write_job(JobSpec(properties={"own": "1", "other": "2"}), CCS)[0].decode()
    spec = read_or_refuse(text.replace("<Name>own<", f"<Name>{name.replace('<', '&lt;')}<"))
    assert spec is not None
    assert spec.properties["other"] == "2"
