"""Our schemas give the verdicts of the published ones, and what we write is valid."""

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from depth import share_of
from headnode.core.formats.hpc_xml import CCS, DIALECTS, HPC, HPC_2008, validate, write_job
from headnode.core.formats.hpc_xml.attributes import JOB_ATTRIBUTES, TASK_ATTRIBUTES
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.transitions import JobState, TaskState

from .shared import SAMPLES, SEED, needs_samples, needs_seed
from .specs import jobs

SPACE = "http://www.microsoft.com/ComputeCluster/"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
XS = "{http://www.w3.org/2001/XMLSchema}"
MANY = settings(max_examples=share_of(150), deadline=None, suppress_health_check=list(HealthCheck))


def ours(name: str) -> bytes:
    return (files("headnode.core.formats.hpc_xml") / "schemas" / f"{name}.xsd").read_bytes()


SCHEMAS = {CCS: ours("ccs-job"), HPC_2008: ours(HPC_2008), HPC: ours(HPC)}
RULES = {name: etree.XMLSchema(etree.fromstring(ours(name))) for name in ("ccs-job", "ccs-task")}


def published() -> dict[str, etree.XMLSchema]:
    """Return the two schemas in the text of the document; the one of tasks gets the element it lacks."""
    assert SEED is not None
    texts = re.findall(r"<xs:schema.*?</xs:schema>", SEED.read_text(), re.DOTALL)
    task = texts[1].replace(
        "<xs:complexType", '<xs:element name="Task" nillable="true" type="tns:Task"/><xs:complexType', 1
    )
    return {
        name: etree.XMLSchema(etree.fromstring(text))
        for name, text in (("ccs-job", texts[0]), ("ccs-task", task))
    }


PAIRS = "<{0}><{1}><Name>n</Name><Value>v</Value></{1}><{1}/></{0}>"
ENVIRONMENT, TERMS = PAIRS.format("EnvironmentVariables", "Variable"), PAIRS.format("ExtendedTerms", "Term")
BASE = {
    "ccs-job": f'<Job xmlns="{SPACE}" Name="a" MinimumNumberOfProcessors="1">{TERMS}<Tasks>'
    f'<Task CommandLine="x">{ENVIRONMENT}{TERMS}</Task><Task><EnvironmentVariables/><ExtendedTerms/></Task>'
    "</Tasks></Job>",
    "ccs-task": f'<Task xmlns="{SPACE}" CommandLine="x" Name="a">{ENVIRONMENT}{TERMS}</Task>',
}
VALUES = [
    "",
    "1",
    "-1",
    "+1",
    " 7 ",
    "2147483647",
    "2147483648",
    "1.0",
    "true",
    "True",
    "0",
    "Normal",
    "normal",
]
VALUES += [
    "Highest",
    "Normal+1",
    "Completed",
    "Finished",
    "Cancelled",
    "Canceled",
    "NotSubmitted",
    "Infinite",
    "a b",
]
CCS_NAMES = sorted(
    {name for row in (*JOB_ATTRIBUTES, *TASK_ATTRIBUTES) for name in (row.ccs, row.hpc) if name}
)


def changed_attributes(text: str) -> Iterator[bytes]:
    """Yield the document with every attribute on every element, with every value."""
    root = etree.fromstring(text)
    for element in root.iter():
        for name in (*CCS_NAMES, "Strange", f"{{{XSI}}}nil", f"{{{XSI}}}type", "{urn:x}a"):
            before = element.get(name)
            for value in VALUES:
                element.set(name, value)
                yield etree.tostring(root)
            if before is None:
                del element.attrib[name]
            else:
                element.set(name, before)


def changed_elements(text: str) -> Iterator[bytes]:
    """Yield the document with every element taken out, doubled, renamed, emptied, moved first or made nil."""
    for number, _ in enumerate(etree.fromstring(text).iter()):
        for change in (_out, _double, _rename, _empty, _first, _nil, _text, _stray):
            root = etree.fromstring(text)
            change(list(root.iter())[number])
            yield etree.tostring(root)


def _out(element: etree._Element) -> None:
    if (parent := element.getparent()) is not None:
        parent.remove(element)


def _double(element: etree._Element) -> None:
    if element.getparent() is not None:
        element.addnext(etree.fromstring(etree.tostring(element)))


def _rename(element: etree._Element) -> None:
    element.tag = f"{{{SPACE}}}Strange"


def _empty(element: etree._Element) -> None:
    element[:] = []
    element.text = None


def _first(element: etree._Element) -> None:
    if (parent := element.getparent()) is not None:
        parent.insert(0, element)


def _nil(element: etree._Element) -> None:
    element.set(f"{{{XSI}}}nil", "true")
    _empty(element)


def _text(element: etree._Element) -> None:
    element.text = "text"


def _stray(element: etree._Element) -> None:
    element.tag = etree.QName(element).localname


@needs_seed
@pytest.mark.parametrize("name", ["ccs-job", "ccs-task"])
def test_verdicts_are_those_of_the_published_schema_on_every_changed_document(name: str) -> None:
    theirs, mine = published()[name], RULES[name]
    verdicts = {True: 0, False: 0}
    for document in (BASE[name].encode(), *changed_attributes(BASE[name]), *changed_elements(BASE[name])):
        tree = etree.fromstring(document)
        assert mine.validate(tree) == theirs.validate(tree), document
        verdicts[mine.validate(tree)] += 1
    assert min(verdicts.values()) > 100


@needs_seed
@pytest.mark.parametrize("name", ["ccs-job", "ccs-task"])
def test_names_types_and_defaults_are_those_of_the_published_schema(name: str) -> None:
    assert SEED is not None
    texts = re.findall(r"<xs:schema.*?</xs:schema>", SEED.read_text(), re.DOTALL)
    theirs = _attributes(texts[name == "ccs-task"].encode())
    assert _attributes(ours(name)) == theirs


def _attributes(schema: bytes) -> list[tuple[str, ...]]:
    found = []
    for attribute in etree.fromstring(schema).iter(f"{XS}attribute"):
        kind = (attribute.get("type") or "").rpartition(":")[2]
        found.append((attribute.get("name") or "", kind, attribute.get("default", "-")))
    return sorted({*found})


@needs_samples
def test_the_samples_of_hpc_pack_are_valid_and_those_of_ccs_as_the_published_schema_says() -> None:
    namespaces = {dialect.namespace: dialect.name for dialect in DIALECTS.values()}
    for path in SAMPLES:
        found = next((namespaces[space] for space in namespaces if space in path.read_text()), None)
        if found in (HPC, HPC_2008) and not path.name.startswith("012"):
            assert validate(path.read_bytes(), SCHEMAS[found]) == (), path.name


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
@MANY
def test_what_we_write_is_valid(dialect: str, data: st.DataObject) -> None:
    """Every job of every dialect, written in this one, with the strange things that the job brings along."""
    spec = with_small_sweeps(data.draw(jobs(data.draw(st.sampled_from(list(DIALECTS))))))
    live = data.draw(
        st.none() | st.builds(_live, st.sampled_from(list(JobState)), st.sampled_from(list(TaskState)))
    )
    try:
        text, _ = write_job(spec, dialect, live=live)
    except BadRequest as wrong:
        assert wrong.code == "too-large"  # noqa: PT017
        return
    assert validate(text, SCHEMAS[dialect]) == ()


def _live(job: JobState, task: TaskState) -> ExportedJob:
    tasks = {1: ExportedTask(state=task, exit_code=-1, message="m", nodes=("n",), ended=Instant(1.0))}
    return ExportedJob(
        id=1, state=job, owner="a", created=Instant(0.0), message="m", nodes=("n",), tasks=tasks, progress=3
    )


def with_small_sweeps(spec: JobSpec) -> JobSpec:
    fields = {field: getattr(spec, field) for field in spec.__struct_fields__}
    tasks = []
    for task in spec.tasks:
        parts = {field: getattr(task, field) for field in task.__struct_fields__}
        small = {"end": min(task.end, task.start + 3)} if task.kind is TaskType.SWEEP else {}
        tasks.append(TaskSpec(**(parts | small)))
    return JobSpec(**(fields | {"tasks": tuple(tasks)}))


@pytest.mark.parametrize("dialect", [HPC_2008, HPC])
def test_the_schemas_of_hpc_pack_have_every_row_and_no_other(dialect: str) -> None:
    schema = etree.fromstring(SCHEMAS[dialect])
    for kind, rows in (("Job", JOB_ATTRIBUTES), ("Task", TASK_ATTRIBUTES)):
        found = schema.findall(f"{XS}complexType[@name='{kind}']/{XS}attribute")
        names = {row.name_in(dialect) for row in rows} - {""}
        assert {attribute.get("name") for attribute in found} == names


def test_what_is_not_valid_is_reported_with_its_line() -> None:
    found = validate(f'<Job xmlns="{SPACE}">\n<ExtendedTerms/><Tasks Odd="1"/></Job>', SCHEMAS[CCS])
    assert [(item.line, "'Odd' is not allowed" in item.what) for item in found] == [(2, True)]
