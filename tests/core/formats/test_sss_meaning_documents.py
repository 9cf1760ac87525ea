"""Any document has a meaning or is refused for a reason, as the published ones show; every row is covered."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from headnode.core.formats.fidelity import Kind, describe
from headnode.core.formats.sss import Document, Version, read_document, write_document
from headnode.core.formats.sss.meaning import Meant, coverage, document_of, jobs_in
from headnode.core.formats.sss.meaning.rows import MEANINGS, PLACED, Role
from headnode.core.formats.sss.rows import Need
from headnode.core.formats.sss.tables import CHILDREN, ROWS
from headnode.core.model.checks import check, check_runnable
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, Licence, UnitType
from headnode.core.model.task import TaskSpec, TaskType

from .shared import SHARED
from .sss_documents import documents

MANY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
FOLDER = SHARED / "samples" / "sss"
SAMPLES = sorted(FOLDER.glob("*/*.xml"))
FACTS = SHARED / "facts" / "job_properties.json"
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "sss").glob("*.xml"))
REFUSALS = {
    *(
        "request",
        "too-many-alternatives",
        "groups",
        "interactive",
        "too-many-instances",
        "not-understood",
        "size",
    ),
}


def meaning_or_none(document: Document) -> Meant | None:
    """What a document means; None when it is refused for one of the known reasons."""
    try:
        return jobs_in(document)
    except BadRequest as wrong:
        if wrong.code not in REFUSALS:
            raise
        return None


@given(document=documents)
@MANY
def test_every_document_has_a_meaning_or_is_refused_for_a_known_reason(document: Document) -> None:
    found = meaning_or_none(document)
    if found is None:
        return
    for spec in found.jobs:
        written, _ = document_of(spec)
        text, _ = write_document(written)
        (again,) = jobs_in(read_document(text)[0]).jobs
        assert (len(again.tasks), again.name) == (len(spec.tasks), spec.name)
    assert all(0 <= one.child < len(found.jobs) > one.parent >= 0 for one in found.links)


@pytest.mark.skipif(not SAMPLES, reason="the sample job objects are not beside the repository")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_jobs_that_the_cluster_takes(path: Path) -> None:
    document, report = read_document(path.read_bytes(), lenient=True)
    found = jobs_in(document, report)
    for spec in found.jobs:
        check(spec)
        check_runnable(spec)
    assert found.report[: len(report)] == report
    assert len(found.jobs) == (2 if "elaborate" in path.name else 1)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_document_has_a_meaning(path: Path) -> None:
    found = jobs_in(read_document(path.read_bytes())[0])
    assert found.jobs
    assert all(describe(item).strip() for item in found.report)


def test_both_versions_of_a_document_mean_the_same() -> None:
    for one, other in zip(GOLDEN[::2], GOLDEN[1::2], strict=True):
        old, new = (jobs_in(read_document(path.read_bytes())[0]) for path in (one, other))
        assert [spec.dialect for spec in (*old.jobs, *new.jobs)].count("sss") == len(old.jobs)
        assert [(spec.tasks, spec.environment) for spec in old.jobs] == [
            (spec.tasks, spec.environment) for spec in new.jobs
        ]
        assert (old.links, old.report) == (new.links, new.report)


def test_every_row_of_the_tables_has_a_meaning_and_every_meaning_a_row() -> None:
    assert MEANINGS.keys() == {row.name for row in ROWS}
    assert all(any(row.name == name and place in row.places for row in ROWS) for place, name in PLACED)
    found = coverage()
    assert {row.name for row in found} == {row.name for row in ROWS} | {one.name for one in CHILDREN} | {
        *("Variable", "File", "NodeProperties")
    }
    assert all(row.becomes and row.source and row.coverage in set(Role) for row in found)


@pytest.mark.skipif(not FACTS.exists(), reason="the list of job properties is not beside the repository")
def test_every_known_property_is_covered() -> None:
    names = {row["name"] for row in json.loads(FACTS.read_text())}
    aliases = {"Account"}  # of Project
    assert names - aliases <= {row.name for row in coverage()}


def test_nothing_that_must_be_supported_is_without_meaning() -> None:
    missing = [row for row in coverage() if row.coverage == Role.UNSUPPORTED]
    assert [row.name for row in missing if row.compliance is Need.MUST] == []
    assert [row.name for row in missing if row.compliance is Need.SHOULD] == ["Disk"]


def listed(spec: JobSpec, kind: Kind) -> list[str]:
    """The fields of which something is told when a job is written."""
    return [item.what.partition(":")[0] for item in document_of(spec)[1] if item.kind is kind]


def test_what_sss_has_no_word_for_is_listed_by_field() -> None:
    flow = (TaskSpec(name="a", command="/bin/a"), TaskSpec(name="b", command="/bin/b", depends_on=("a",)))
    spec = JobSpec(exclusive=True, licences=(Licence("x", None),), tasks=flow, minimum=2, maximum=2)
    assert listed(spec, Kind.NOT_SUPPORTED) == ["exclusive", "depends_on", "licences"]


def test_a_preparing_task_is_left_out_and_told() -> None:
    special = TaskSpec(command="/bin/p", kind=TaskType.NODE_PREP)
    spec = JobSpec(tasks=(special, TaskSpec(command="/bin/x")))
    assert listed(spec, Kind.NOT_SUPPORTED) == ["tasks"]
    (back,) = jobs_in(document_of(spec)[0]).jobs
    assert [task.command for task in back.tasks] == ["/bin/x"]


def test_a_sweep_is_written_out_where_its_texts_differ_and_counted_where_they_do_not() -> None:
    sweep = TaskSpec(command="/bin/x *", kind=TaskType.SWEEP, start=1, end=3, standard_output="***.out")
    (back,) = jobs_in(document_of(JobSpec(tasks=(sweep,)))[0]).jobs
    assert [task.command for task in back.tasks] == ["/bin/x 1", "/bin/x 2", "/bin/x 3"]
    assert [task.standard_output for task in back.tasks] == ["001.out", "002.out", "003.out"]
    alike = TaskSpec(command="/bin/x", kind=TaskType.SWEEP, start=1, end=1_000_000)
    document, report = document_of(JobSpec(minimum=1_000_000, maximum=1_000_000, tasks=(alike,)))
    assert (report, jobs_in(document).jobs[0].tasks) == ((), (alike,))
    huge = TaskSpec(command="/bin/x *", kind=TaskType.SWEEP, start=1, end=1_000_000)
    assert listed(JobSpec(tasks=(huge,)), Kind.NOT_SUPPORTED) == ["kind"]


def test_a_plain_job_is_a_plain_document() -> None:
    spec = JobSpec(
        name="n", minimum=2, maximum=4, tasks=(TaskSpec(command="/bin/x a", minimum=2, maximum=4),)
    )
    document, report = document_of(spec, Version.V3_0, identifier="7")
    assert report == ()
    assert write_document(document)[0].decode() == (
        '<?xml version="1.0" encoding="utf-8"?>\n<Job>\n  <JobId>7</JobId>\n  <JobName>n</JobName>\n'
        "  <Executable>/bin/x</Executable>\n  <Arguments>a</Arguments>\n  <Requested>\n"
        '    <Processors op="ge">2</Processors>\n    <Processors op="le">4</Processors>\n'
        "  </Requested>\n</Job>\n"
    )


def test_what_was_requested_is_written_back_unless_the_job_asks_for_something_else_now() -> None:
    text = (
        "<Job><Id>1</Id><Executable>/bin/x</Executable><Requested><Processors group='1'>12</Processors>"
        "<Processors conj='Or' group='-1'>16</Processors><Architecture>x86</Architecture></Requested></Job>"
    )
    (spec,) = jobs_in(read_document(text)[0]).jobs
    kept, report = document_of(spec)
    assert ('conj="Or"' in write_document(kept)[0].decode(), report) == (True, ())
    task = TaskSpec(command="/bin/x", minimum=4, maximum=4)
    changed = JobSpec(
        minimum=4, maximum=4, unit=UnitType.PROCESSOR, tasks=(task,), extensions=spec.extensions
    )
    other, report = document_of(changed)
    assert 'conj="Or"' not in write_document(other)[0].decode()
    assert [item.kind for item in report] == [Kind.APPROXIMATED]
