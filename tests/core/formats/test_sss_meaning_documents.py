"""Any document has a meaning or is refused for a reason, as the published ones show; every row is covered."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from depth import share_of
from documents.job_languages import coverage
from headnode.core.formats.fidelity import Awareness, Fidelity, describe
from headnode.core.formats.sss import SssDocument, SssJob, SssVersion, read_document, write_document
from headnode.core.formats.sss.conversion import ConvertedJobs, document_of, jobs_in
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.conversion.request_reading import accept_request
from headnode.core.formats.sss.conversion.resource_table import Request
from headnode.core.formats.sss.conversion.simple_fields import SortedScope
from headnode.core.formats.sss.conversion.write_request import request_properties_for
from headnode.core.formats.sss.properties import SssCategory
from headnode.core.formats.sss.property_rows import (
    CHILDREN,
    ROWS,
    ElementPlace,
    PropertyRole,
    RequirementLevel,
    meaning_of,
)
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec, Licence, TaskAlternative, UnitType
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType

from .shared import SHARED
from .sss_documents import documents

MANY = settings(max_examples=share_of(100), deadline=None, suppress_health_check=list(HealthCheck))
FOLDER = SHARED / "samples" / "sss"
SAMPLES = sorted(FOLDER.glob("*/*.xml"))
FACTS = SHARED / "facts" / "job_properties.json"
GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "sss").glob("*.xml"))
needs_samples = pytest.mark.skipif(not SAMPLES, reason="the sample job objects are not beside the repository")
REFUSALS = {
    *(
        "request",
        "too-many-alternatives",
        "groups",
        "part",
        "dependency",
        "interactive",
        "too-many-instances",
        "not-understood",
        "size",
    ),
}


def meaning_or_none(document: SssDocument) -> ConvertedJobs | None:
    """What a document means; None when it is refused for one of the known reasons."""
    try:
        return jobs_in(document)
    except BadRequest as wrong:
        if wrong.code not in REFUSALS:
            raise
        return None


@given(document=documents)
@MANY
def test_every_document_has_a_meaning_or_is_refused_for_a_known_reason(document: SssDocument) -> None:
    found = meaning_or_none(document)
    if found is None:
        return
    for spec in found.jobs:
        written, _ = document_of(spec)
        text, _ = write_document(written)
        (again,) = jobs_in(read_document(text)[0]).jobs
        assert (len(again.tasks), again.name) == (len(spec.tasks), spec.name)
    assert all(0 <= one.child < len(found.jobs) > one.parent >= 0 for one in found.links)


def test_an_id_of_defaults_is_not_the_id_of_every_group() -> None:
    groups = "<TaskGroup><Executable>/bin/a</Executable></TaskGroup>" * 2
    text = f"<Job><Id>1</Id><TaskGroupDefaults><Id>t</Id></TaskGroupDefaults>{groups}</Job>"
    (spec,) = jobs_in(read_document(text)[0]).jobs
    (again,) = jobs_in(read_document(write_document(document_of(spec)[0])[0])[0]).jobs
    assert [task.command for task in again.tasks] == ["/bin/a", "/bin/a"]


@pytest.mark.parametrize(
    ("outer", "inner", "kept"),
    [
        ("<Network>myrinet</Network>", "<Network>infiniband</Network>", ["infiniband"]),
        ("<Network>myrinet</Network>", '<Network units="Gb/s">10</Network>', ["Gb/s"]),
        ('<Network units="Gb/s">1</Network>', "<Network>infiniband</Network>", ["infiniband"]),
        ('<Extension name="a">1</Extension>', '<Extension name="a">2</Extension>', [">2<"]),
        ('<Extension name="a">1</Extension>', '<Extension name="b">2</Extension>', [">1<", ">2<"]),
    ],
)
def test_what_a_task_says_replaces_what_its_group_says_and_reads_back(
    outer: str, inner: str, kept: list[str]
) -> None:
    program = "<Executable>/bin/a</Executable>"
    groups = f"<TaskGroup>{program}</TaskGroup><TaskGroup>{program}{outer}<Task>{inner}</Task></TaskGroup>"
    (spec,) = jobs_in(read_document(f"<Job><Id>1</Id>{groups}</Job>")[0]).jobs
    found = [*spec.tasks[1].extensions.values()]
    assert [word in text for word, text in zip(kept, found, strict=True)] == [True] * len(kept)
    (again,) = jobs_in(read_document(write_document(document_of(spec)[0])[0])[0]).jobs
    assert again.tasks[1].extensions.items() >= spec.tasks[1].extensions.items()


@needs_samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_jobs_that_the_cluster_takes(path: Path) -> None:
    document, report = read_document(path.read_bytes(), lenient=True)
    found = jobs_in(document, report)
    for spec in found.jobs:
        check_job(spec)
        check_runnable(spec)
    assert found.report[: len(report)] == report
    assert len(found.jobs) == (2 if "elaborate" in path.name else 1)


def published(name: str) -> tuple[JobSpec, ...]:
    """The jobs of a published example, which is damaged; the files of both versions are the same ones."""
    of_3_1, of_3_0 = (
        jobs_in(read_document(path.read_bytes(), lenient=True)[0]).jobs
        for path in (FOLDER / "seed" / f"001_ex25-{name}.RAW.xml", FOLDER / "seed" / f"002_ex{name}.RAW.xml")
    )
    assert [(spec.tasks, spec.alternatives, spec.holds) for spec in of_3_1] == [
        (spec.tasks, spec.alternatives, spec.holds) for spec in of_3_0
    ]
    return of_3_1


@needs_samples
def test_the_simple_example_is_one_process_on_sixteen_processors_for_an_hour() -> None:
    (spec,) = published("1_simple")
    assert (spec.minimum, spec.maximum, spec.run_time, spec.run_as) == (16, 16, 3600, "scottmo")
    assert (spec.together, spec.alternatives) == (False, ())
    assert spec.tasks == (TaskSpec(command="/bin/hostname", minimum=16, maximum=16),)


@needs_samples
def test_of_the_moderate_example_the_request_counts_and_what_was_delivered_does_not() -> None:
    (spec,) = published("2_moderate")
    assert (spec.name, spec.project, spec.template) == ("Heavy Water", "nwchemdev", "batch_normal")
    assert (spec.minimum, spec.minimum_memory, spec.run_time) == (12, 2048, 3600)
    assert spec.environment == {"PATH": "/usr/bin:/home/peterk"}
    assert spec.extensions["<Charge>"] == "<Charge>25410</Charge>"
    (task,) = spec.tasks
    assert (task.command, task.work_directory) == (
        "/usr/local/nwchem/bin/nwchem -input basis.in",
        "/home/peterk",
    )


@needs_samples
def test_the_elaborate_example_is_a_group_with_a_master_and_slaves_that_start_together() -> None:
    first, second = published("3_elaborate")
    assert {spec.job_group for spec in (first, second)} == {"ShuttleTakeoff"}
    assert (first.together, first.minimum, first.minimum_memory) == (True, 2, 1024)
    assert [(task.instances, task.distribution) for task in first.tasks] == [(2, Distribution(per_node=1))]
    assert (second.together, second.holds, second.licences) == (True, ("system",), (Licence("ESSL2", 1),))
    master, slave = second.tasks
    assert master.needs == NodeNeeds(features=(("Jumbo-Frame",),), minimum_memory=2048)
    assert slave.needs == NodeNeeds(patterns=("fr15n.*",), minimum_memory=512)
    assert (slave.minimum, slave.distribution) == (12, Distribution(nodes=4, round_robin=True))
    larger = TaskAlternative(minimum=16, maximum=16)
    assert second.alternatives == (Alternative(minimum=17, maximum=17, tasks=(TaskAlternative(), larger)),)


@needs_samples
def test_the_job_of_maui_is_two_task_groups_on_nodes_with_features_of_their_own() -> None:
    (path,) = FOLDER.glob("maui/*.xml")
    (spec,) = jobs_in(read_document(path.read_bytes(), lenient=True)[0]).jobs
    assert (spec.together, spec.minimum, spec.run_time, spec.run_as) == (True, 32, 300, "brett")
    assert [(task.minimum, task.needs) for task in spec.tasks] == [
        (16, NodeNeeds(features=(("green",), ("foo",)), minimum_memory=1024)),
        (16, NodeNeeds(features=(("blue",), ("foo",)))),
    ]


WAYS: list[Request] = [
    {"processors": (8, 8)},
    {"processors": (2, 4), "minimum_memory": 100, "run_time": Seconds(60.0)},
    {"features": (("a", "b"),), "names": ("n1", "n2"), "patterns": ("n.*", "m.*")},
    {"features": (("a",), ("b",)), "lacking": ("c",), "architectures": ("x86", "arm")},
    {"minimum_memory": 100},
    {},
]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_few_ways_in_any_order_are_written_so_that_they_come_back_in_it(count: int) -> None:
    for ways in permutations(WAYS, count):
        asked = request_properties_for(ways)
        found = accept_request(
            SortedScope(
                SssJob(requested=SssCategory(properties=asked)),
                ElementPlace.JOB,
                Awareness.WARN,
                ConversionFindings(),
            )
        )
        assert [option.request for option in found.options] == [*ways]


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
    assert all(meaning_of(row.name, place).becomes for row in ROWS for place in row.places)
    found = coverage()
    assert {row.name for row in found} == {row.name for row in ROWS} | {one.name for one in CHILDREN} | {
        *("Variable", "File", "NodeProperties")
    }
    assert all(row.becomes and row.source and row.coverage in set(PropertyRole) for row in found)


@pytest.mark.skipif(not FACTS.exists(), reason="the list of job properties is not beside the repository")
def test_every_known_property_is_covered() -> None:
    names = {row["name"] for row in json.loads(FACTS.read_text())}
    aliases = {"Account"}  # of Project
    assert names - aliases <= {row.name for row in coverage()}


LEFT_OUT = [PropertyRole.UNSUPPORTED, PropertyRole.ELSEWHERE]


def test_nothing_that_must_or_should_be_supported_is_without_meaning() -> None:
    missing = [row for row in coverage() if row.coverage in LEFT_OUT]
    assert [row.name for row in missing if row.compliance is not RequirementLevel.MAY] == []
    assert {row.name for row in missing} == {
        *("Checkpointable", "Group", "Network", "ReservationTime", "Process", "Session"),
    }


@pytest.mark.skipif(not FACTS.exists(), reason="the list of job properties is not beside the repository")
def test_every_published_row_is_covered_in_the_part_it_stands_in() -> None:
    found = {(row.name, part.strip()): row for row in coverage() for part in row.parent.split(",")}
    for fact in json.loads(FACTS.read_text()):
        if fact["table"] == "struct":
            continue
        row = found[fact["name"], fact["parent"].partition(" ")[0]]
        assert row.compliance is not None
        if fact["compliance"] in ("MUST", "SHOULD"):
            assert row.coverage not in LEFT_OUT, row


def listed(spec: JobSpec, kind: Fidelity) -> list[str]:
    """The fields of which something is told when a job is written."""
    return [item.what.partition(":")[0] for item in document_of(spec)[1] if item.kind is kind]


def test_what_sss_has_no_word_for_is_listed_by_field() -> None:
    flow = (TaskSpec(name="a", command="/bin/a"), TaskSpec(name="b", command="/bin/b", depends_on=("a",)))
    spec = JobSpec(exclusive=True, licences=(Licence("x", None),), tasks=flow, minimum=2, maximum=2)
    assert listed(spec, Fidelity.NOT_SUPPORTED) == ["exclusive", "depends_on", "licences"]


def test_a_preparing_task_is_left_out_and_reported() -> None:
    special = TaskSpec(command="/bin/p", kind=TaskType.NODE_PREP)
    spec = JobSpec(tasks=(special, TaskSpec(command="/bin/x")))
    assert listed(spec, Fidelity.NOT_SUPPORTED) == ["tasks"]
    (back,) = jobs_in(document_of(spec)[0]).jobs
    assert [task.command for task in back.tasks] == ["/bin/x"]


def test_a_sweep_is_written_out_where_its_texts_differ_and_counted_where_they_do_not() -> None:
    sweep = TaskSpec(command="/bin/x *", kind=TaskType.SWEEP, start=1, end=3, standard_output="***.out")
    (back,) = jobs_in(document_of(JobSpec(tasks=(sweep,)))[0]).jobs
    assert [task.command for task in back.tasks] == ["/bin/x 1", "/bin/x 2", "/bin/x 3"]
    assert [task.standard_output for task in back.tasks] == ["001.out", "002.out", "003.out"]
    alike = TaskSpec(command="/bin/x", kind=TaskType.SWEEP, start=1, end=1_000_000)
    all_at_once = JobSpec(minimum=1_000_000, maximum=1_000_000, together=True, tasks=(alike,))
    document, report = document_of(all_at_once)
    assert (report, jobs_in(document).jobs[0].tasks) == ((), (alike,))
    huge = TaskSpec(command="/bin/x *", kind=TaskType.SWEEP, start=1, end=1_000_000)
    assert listed(JobSpec(tasks=(huge,)), Fidelity.NOT_SUPPORTED) == ["kind"]


def test_an_alternative_of_size_and_run_time_comes_back_where_the_own_size_was_calculated() -> None:
    larger = TaskAlternative(minimum=4, maximum=4)
    asks = Alternative(minimum=4, maximum=4, run_time=Seconds(300.0), tasks=(larger,))
    task = TaskSpec(command="/bin/a", minimum=2, maximum=2)
    for alternative in (asks, Alternative(run_time=Seconds(300.0), tasks=(larger,))):
        spec = JobSpec(run_time=Seconds(600.0), tasks=(task,), alternatives=(alternative,))
        document, report = document_of(spec)
        (back,) = jobs_in(document).jobs
        assert (back.minimum, back.maximum, back.run_time, back.alternatives) == (2, 2, 600, (asks,))
        fields = ["minimum", "maximum", *(["alternatives"] if alternative is not asks else [])]
        assert [(item.kind, item.what.partition(":")[0]) for item in report] == [
            (Fidelity.TRANSLATED, field) for field in fields
        ]


def test_what_cannot_be_said_of_alternatives_is_reported_once() -> None:
    tasks = (TaskSpec(command="/bin/a"), TaskSpec(command="/bin/b"))
    both = Alternative(run_time=Seconds(300.0), tasks=(TaskAlternative(maximum=4), TaskAlternative()))
    spec = JobSpec(run_time=Seconds(600.0), tasks=tasks, together=True, alternatives=(both,))
    _, report = document_of(spec)
    assert [item.what.partition(":")[0] for item in report].count("alternatives") == 1


def test_a_plain_job_is_a_plain_document() -> None:
    spec = JobSpec(
        name="n", minimum=2, maximum=4, tasks=(TaskSpec(command="/bin/x a", minimum=2, maximum=4),)
    )
    document, report = document_of(spec, SssVersion.V3_0, identifier="7")
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
        "<Processors conj='Or' group='-1'>16</Processors><Network>myrinet</Network></Requested></Job>"
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
    assert [item.kind for item in report] == [Fidelity.APPROXIMATED]
