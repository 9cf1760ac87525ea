"""SSS job objects are read strictly: what is wrong is refused with its place, its path and the way out."""

import pytest

from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport
from headnode.core.formats.sss import (
    SssDocument,
    SssJob,
    SssVersion,
    is_job_object,
    read_document,
    write_document,
)
from headnode.core.formats.sss.properties import (
    Aggregation,
    Consumable,
    Op,
    Resource,
    Selection,
    SssProperty,
    UnknownElement,
)
from headnode.core.formats.sss.property_rows import ADAPTER, NETWORK
from headnode.core.model.errors import BadRequest


def job(inside: str) -> str:
    """A job with an id, and more."""
    return f"<Job><Id>1</Id>{inside}</Job>"


def read_job(inside: str, *, lenient: bool = False) -> SssJob:
    """The only job of a document."""
    (found,) = read_document(job(inside), lenient=lenient)[0].entries
    assert isinstance(found, SssJob)
    return found


def refused(text: str, awareness: Awareness = Awareness.WARN) -> BadRequest:
    """Why `text` is not read."""
    with pytest.raises(BadRequest) as refusal:
        read_document(text, awareness=awareness)
    return refusal.value


def kinds(report: FidelityReport) -> list[tuple[Fidelity, str]]:
    return [(item.kind, item.what) for item in report]


WRONG = {
    "<Job><State>Idle</State></Job>": ("missing", "line 1, column 0: Job: it has no Id"),
    "<JobGroup><Job><Id>1</Id></Job></JobGroup>": ("missing", "JobGroup: it has no Id"),
    "<JobGroup><Id>g</Id></JobGroup>": ("missing", "JobGroup: it holds no Job"),
    "<Job/>": ("not-a-job", "Job: it describes nothing"),
    "<Data><!-- none --></Data>": ("not-a-job", "Data: it holds no job"),
    "<Jobs><Job/></Jobs>": ("not-a-job", "'Jobs' is not an SSS job object"),
    '<Job xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/"><Id>1</Id></Job>': (
        "not-a-job",
        "not an SSS job object",
    ),
    "<Envelope><Body/></Envelope>": ("not-a-job", "'Envelope' is not an SSS job object"),
    "<JobGroup><Id>g</Id><Job/></JobGroup>": ("empty", "JobGroup/Job 1: it holds nothing"),
    job("\n <Processors>many</Processors>"): (
        "number",
        "line 2, column 1: Job/Processors: 'many' is not a count",
    ),
    job("<Processors>-1</Processors>"): ("number", "'-1' is not a count"),
    job("<Processors>2.0</Processors>"): ("number", "'2.0' is not a count"),
    job("<Processors>9223372036854775808</Processors>"): ("number", "is not a count"),
    job("<Memory>-1</Memory>"): ("number", "'-1' is not an amount"),
    job("<Memory>NaN</Memory>"): ("number", "'NaN' is not a number"),
    job("<Memory>1e999</Memory>"): ("number", "'1e999' is not a number"),
    job('<Memory units="MiB">1</Memory>'): ("unit", "'MiB' is not a unit of bytes"),
    job('<Memory units="XB">1</Memory>'): ("unit", "'XB' is not a unit of bytes"),
    job("<Charge>cheap</Charge>"): ("number", "'cheap' is not a number"),
    job("<Priority>1.5</Priority>"): ("number", "'1.5' is not a whole number"),
    job("<Interactive>True</Interactive>"): ("flag", "'True' is not true or false"),
    job("<StartTime>yesterday</StartTime>"): ("date-time", "'yesterday' is not a DateTime"),
    job("<StartTime>4294967296</StartTime>"): ("date-time", "'4294967296' is not a DateTime"),
    job("<StartTime>2003-02-30</StartTime>"): ("date-time", "'2003-02-30' is not a date and time"),
    job("<Duration>1:00</Duration>"): ("duration", "'1:00' is not a Duration"),
    job("<Duration>4294967296</Duration>"): ("duration", "'4294967296' is not a Duration"),
    job("<Executable>a</Executable>\n<Executable>b</Executable>"): (
        "given-twice",
        "line 2, column 0: Job/Executable: element 'Executable' is given twice, first in line 1",
    ),
    job("<Requested><NodeCount>1</NodeCount></Requested><Requested><NodeCount>1</NodeCount></Requested>"): (
        "given-twice",
        "element 'Requested' is given twice",
    ),
    job("<Delivered><Memory>1</Memory><Memory>2</Memory></Delivered>"): (
        "given-twice",
        "'Memory' is given twice",
    ),
    job("<Requested></Requested>"): ("empty", "Job/Requested: it holds nothing"),
    job("<Environment></Environment>"): ("empty", "Job/Environment: it holds no Variable"),
    job("<Environment><Variable>x</Variable></Environment>"): ("missing", "attribute 'name' is missing"),
    job('<Environment><Variable name="a"/><Variable name="a"/></Environment>'): (
        "given-twice",
        "variable 'a'",
    ),
    job("<Environment><Odd/></Environment>"): ("misplaced", "element 'Odd' stands in Environment"),
    job('<Environment><Variable name="a"><b/></Variable></Environment>'): (
        "text-only",
        "element 'b' stands where",
    ),
    job('<Environment>+<Variable name="a"/></Environment>'): (
        "stray-text",
        "the text '+' stands between elements",
    ),
    job("<Resource>1</Resource>"): ("missing", "Job/Resource: attribute 'name' is missing"),
    job("<ResourceLimit>1</ResourceLimit>"): ("missing", "attribute 'name' is missing"),
    job("<TaskCount>2</TaskCount>"): ("misplaced", "element 'TaskCount' may not stand in Job"),
    job("<Requested><Executable>a</Executable></Requested>"): (
        "misplaced",
        "'Executable' may not stand in Requested",
    ),
    job('<Processors op="GE">2</Processors>'): (
        "misplaced",
        "attribute 'op' belongs to requested properties only",
    ),
    job("<Executable><b/></Executable>"): (
        "text-only",
        "Job/Executable/b: element 'b' stands where only the text",
    ),
    job("loose"): ("stray-text", "the text 'loose' stands between elements"),
    job("<Requested><Node op='Match'>a(</Node></Requested>"): ("pattern", "'a(' is not a pattern"),
    job("<Node aggregation='Pattern'>a[</Node>"): ("pattern", "'a[' is not a pattern"),
    job("<Requested><Processors op='Match'>1</Processors></Requested>"): (
        "comparison",
        "a number cannot be matched",
    ),
    job("<Requested><Feature op='Match' aggregation='List'>a,b</Feature></Requested>"): (
        "aggregation",
        "a List",
    ),
    job("<Requested><Memory group='x'>1</Memory></Requested>"): ("number", "attribute 'group': 'x' is not"),
    job("<Requested><Memory group='1'>1</Memory></Requested>"): (
        "groups",
        "the parentheses that group opens",
    ),
    job("<Requested><Memory group='999999'>1</Memory><Memory group='-999999'>1</Memory></Requested>"): (
        "groups",
        "too many",
    ),
    job("<TaskDistribution type='Geometry'>{1,2}{2}</TaskDistribution>"): (
        "geometry",
        "'{1,2}{2}' is not a geometry",
    ),
    job("<TaskDistribution type='Geometry'>{}</TaskDistribution>"): ("geometry", "'{}' is not a geometry"),
    job("<TaskDistribution type='TasksPerNode'>0</TaskDistribution>"): (
        "number",
        "'0' is not a number of tasks",
    ),
    job("<TaskDistribution type='Rule'></TaskDistribution>"): ("rule", "the rule has no name"),
    job("<Dependency></Dependency>"): ("empty", "no job is named"),
    job("<Executable>#Script</Executable>"): ("no-file", "the executable is the file 'Script'"),
    job("<TaskGroup><Id>a</Id></TaskGroup><TaskGroup><Id>a</Id></TaskGroup>"): (
        "given-twice",
        "Job/TaskGroup 2: two elements TaskGroup have the id 'a'",
    ),
    job("<TaskGroup><TaskCount>1</TaskCount><Task>1</Task><Task>2</Task></TaskGroup>"): (
        "task-count",
        "holds 2 tasks",
    ),
    job("<TaskGroup/>"): ("empty", "Job/TaskGroup 1: it holds nothing"),
    "<Data><Job><Id>1</Id></Job><File>x</File></Data>": ("missing", "Data/File: attribute 'id' is missing"),
    '<Data><Job><Id>1</Id></Job><File id="a"/><File id="a"/></Data>': (
        "given-twice",
        "two files have the id 'a'",
    ),
    '<Job awarenessPolicy="Maybe"><Id>1</Id></Job>': (
        "awareness",
        "line 1, column 5: Job: attribute 'awarenessPolicy'",
    ),
    "<Job><Id>1</Job>": ("not-xml", "line 1, column 12: not well-formed XML"),
    '<!DOCTYPE Job [<!ENTITY a "b">]><Job><Id>&a;</Id></Job>': ("doctype", "line 1, column 0"),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_the_specification_forbids_is_refused_with_its_place(text: str) -> None:
    code, words = WRONG[text]
    refusal = refused(text)
    assert (refusal.code, words in refusal.what) == (code, True), refusal
    assert refusal.what.startswith("line ")
    assert refusal.fix
    assert "<Unit" not in refusal.fix  # names are told, not objects of Python


def test_jobs_that_wait_for_each_other_are_refused_with_the_circle() -> None:
    text = (
        "<JobGroup><Id>g</Id><Job><Id>a</Id><Dependency>b</Dependency></Job>\n"
        '<Job><Id>b</Id><Name>x</Name><Dependency designator="JobName">y</Dependency></Job>'
        "<Job><Id>c</Id><Name>y</Name><Dependency>a</Dependency></Job></JobGroup>"
    )
    refusal = refused(text)
    assert (refusal.code, "a -> b -> c -> a" in refusal.what) == ("circle", True)


def test_a_dependency_on_a_job_elsewhere_is_no_circle() -> None:
    read_document("<JobGroup><Id>g</Id><Job><Id>a</Id><Dependency>z</Dependency></Job></JobGroup>")


def test_dependencies_of_the_defaults_count_for_jobs_that_have_none() -> None:
    text = (
        "<JobGroup><Id>g</Id><JobDefaults><Dependency>a</Dependency></JobDefaults>"
        "<Job><Id>a</Id>{}</Job><Job><Id>b</Id></Job></JobGroup>"
    )
    assert "a -> a" in refused(text.format("")).what
    read_document(text.format("<Dependency>z</Dependency>"))


STRANGE = '<Job><Id>1</Id>\n <Executible>a</Executible>\n <Memory unit="GB" metric="Max">1</Memory></Job>'
TOLD = [
    (
        2,
        1,
        "Job/Executible",
        "element 'Executible' is not known: kept, without effect; did you mean 'Executable'?",
    ),
    (3, 9, "Job/Memory", "attribute 'unit' is not known here: kept, without effect; did you mean 'units'?"),
]


def test_what_is_not_understood_is_listed_under_warn_with_the_nearest_right_name() -> None:
    _, report = read_document(STRANGE)
    assert [(item.line, item.column, item.where, item.what) for item in report] == TOLD
    assert {item.kind for item in report} == {Fidelity.NOT_SUPPORTED}


def test_what_is_not_understood_is_refused_under_reject_all_at_once() -> None:
    refusal = refused(STRANGE, Awareness.REJECT)
    assert refusal.code == "not-understood"
    assert all(what in refusal.what for _, _, _, what in TOLD)


def test_what_is_not_understood_is_silent_but_kept_under_ignore() -> None:
    ignored, report = read_document(STRANGE, awareness=Awareness.IGNORE)
    assert report == ()
    assert ignored == read_document(STRANGE)[0]


def test_the_awareness_policy_is_inherited_and_the_nearest_one_counts() -> None:
    text = (
        '<JobGroup awarenessPolicy="ignore"><Id>g</Id><Job><Id>1</Id><Odd1/>'
        '<TaskGroup awarenessPolicy="Warn"><Odd2/><Memory awarenessPolicy="Ignore" odd3="">1</Memory>'
        '<Odd4 awarenessPolicy="Ignore"/></TaskGroup></Job></JobGroup>'
    )
    document, report = read_document(text, awareness=Awareness.REJECT)
    assert [item.where for item in report] == ["JobGroup/Job 1/TaskGroup 1/Odd2"]
    assert document.entries[0].awareness is Awareness.IGNORE


def test_one_element_may_be_rejected_in_a_document_that_warns() -> None:
    refusal = refused(job('<Odd1/><Odd2 awarenessPolicy="Reject"/>'))
    assert refusal.code == "not-understood"
    assert ("Odd2" in refusal.what, "Odd1" in refusal.what) == (True, False)


def test_what_is_not_understood_many_times_is_reported_once_with_the_number() -> None:
    _, report = read_document(job("<Odd/>" * 3))
    assert [item.what for item in report] == [
        "element 'Odd' is not known: kept, without effect (3 times, here first)"
    ]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("<Requested><Processors op='Roughly'>4</Processors></Requested>", "op"),
        ("<OutputFile redirectList='Append,Shred'>x</OutputFile>", "redirectList"),
        ("<Dependency condition='OnRain'>x</Dependency>", "condition"),
    ],
)
def test_a_word_that_is_not_known_is_reported_and_has_no_effect(text: str, field: str) -> None:
    found, report = read_document(job(text))
    assert report[0].what.startswith(f"attribute {field!r}: ")
    assert report[0].what.count("kept, without effect; ") == 1
    assert refused(job(text), Awareness.REJECT).code == "not-understood"
    assert field in str(found)


def test_a_distribution_of_an_unknown_type_has_no_effect_at_all() -> None:
    found = read_job("<TaskDistribution type='Magic'>3</TaskDistribution>")
    assert (
        found.properties[1] == read_job("<TaskDistribution type='Magic'>3</TaskDistribution>").properties[1]
    )
    assert type(found.properties[1]).__name__ == "UnknownElement"


def test_an_attribute_of_other_elements_is_told_to_be_one() -> None:
    _, report = read_document(job("<Queue metric='Max'>q</Queue>"))
    assert [item.what for item in report] == [
        "attribute 'metric' is not known here: kept, without effect; it belongs to other elements"
    ]


def test_schema_attributes_are_kept_without_a_word() -> None:
    xsi = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="a.xsd"'
    _, report = read_document(f"<Job {xsi}><Id>1</Id></Job>")
    assert report == ()


def test_every_simple_type_is_read_as_what_it_is() -> None:
    found = read_job(
        "<Priority>-3</Priority><Charge>2.50</Charge><Restartable>1</Restartable><StartTime>1051557713</StartTime>"
        "<EndTime>2003-04-28T19:41:08Z</EndTime><Duration>3600</Duration><Name> Heavy  Water </Name>"
        "<Arguments></Arguments><NodeCount></NodeCount>"
    )
    names = ("Priority", "Charge", "Restartable", "StartTime", "EndTime", "Duration", "Name", "Arguments")
    values = [found.value(name) for name in names]
    assert values == [-3, 2.5, True, 1051557713.0, 1051558868.0, 3600.0, "Heavy  Water", ""]
    assert found.value("NodeCount") is None


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("<Network>Infiniband</Network>", False),
        ("<Network>100</Network>", True),
        ("<Network units='Mbps'></Network>", True),
    ],
)
def test_a_network_is_an_amount_when_it_looks_like_one(text: str, amount: bool) -> None:
    row = NETWORK if amount else ADAPTER
    assert type(read_job(text).properties[1]) is row.shape


def test_both_networks_may_stand_together() -> None:
    assert len(read_job("<Network>Infiniband</Network><Network>100</Network>").properties) == 3


def test_consumables_of_different_metrics_may_stand_together() -> None:
    text = '<Delivered><Memory metric="average">1</Memory><Memory metric="MAX">2</Memory></Delivered>'
    delivered = read_job(text).delivered
    assert delivered is not None
    assert [one.metric for one in delivered.properties if isinstance(one, Consumable)] == ["Average", "Max"]


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("<Memory>1</Memory>", 2**20),
        ("<Memory units='gb'>1.5</Memory>", 3 * 2**29),
        ("<Disk units='DB'>1</Disk>", 2**100),
        ("<Swap units='B'>7</Swap>", 7),
        ("<Processors>4</Processors>", 4),
        ("<Network units='Mbps'>3</Network>", 3),
    ],
)
def test_amounts_have_their_unit_megabytes_when_none_is_written(text: str, quantity: int) -> None:
    (_, found) = read_job(text).properties
    assert isinstance(found, Consumable)
    assert found.quantity == quantity


def test_a_resource_has_its_name_and_type() -> None:
    (_, found) = read_job('<Resource name="License" type="MATLAB">1</Resource>').properties
    assert found == Resource(name="Resource", value=1.0, called="License", type="MATLAB")


def test_a_comparison_by_match_is_a_pattern() -> None:
    text = "<Requested><Node op='Match'>n.*</Node><Queue op='match'>Lin.*</Queue></Requested>"
    requested = read_job(text).requested
    assert requested is not None
    assert requested.properties == (
        Selection(name="Node", value="n.*", aggregation=Aggregation.PATTERN),
        SssProperty(name="Queue", value="Lin.*", op=Op.MATCH),
    )


def test_the_old_wrapper_of_node_properties_may_match_names_anywhere_and_passes_its_policy_on() -> None:
    text = (
        '<NodeProperties awarenessPolicy="Ignore"><Name op="match">n.*</Name>'
        '<Feature odd="1">f</Feature><Speed>9</Speed></NodeProperties>'
    )
    document, report = read_document(f"<Job><JobId>1</JobId>{text}</Job>")
    assert (document.version, report) == (SssVersion.V3_0, ())
    _, node, feature, speed = document.entries[0].properties
    assert node == Selection(
        name="Node", value="n.*", aggregation=Aggregation.PATTERN, awareness=Awareness.IGNORE
    )
    assert feature.kept == (("odd", "1"),)
    assert speed.xml == "<NodeProperties><Speed>9</Speed></NodeProperties>"


def test_node_properties_where_no_node_may_stand_are_kept_as_they_are() -> None:
    text = "<Data><NodeProperties><Name>n1</Name></NodeProperties><Job><Id>1</Id></Job></Data>"
    found, report = read_document(text)
    assert [type(one) for one in found.unknown] == [UnknownElement]
    assert [item.kind for item in report] == [Fidelity.NOT_SUPPORTED]
    for version in SssVersion:
        assert read_document(write_document(found, version)[0])[0].unknown == found.unknown


def test_a_strange_attribute_of_the_old_wrapper_does_not_take_its_features_away() -> None:
    found, report = read_document(job('<NodeProperties odd="1"><Feature>f</Feature></NodeProperties>'))
    assert [item.where for item in report if item.kind is Fidelity.NOT_SUPPORTED] == ["Job/NodeProperties"]
    assert found.entries[0] == SssJob(
        properties=(
            SssProperty(name="Id", value="1"),
            UnknownElement(name="NodeProperties", xml='<NodeProperties odd="1"></NodeProperties>'),
            Selection(name="Feature", value="f"),
        )
    )


@pytest.mark.parametrize("pattern", ["node[01-12]", "node[0-12]", "a|node[10-25]b"])
def test_a_range_of_numbers_in_a_pattern_is_told_to_be_one_sign(pattern: str) -> None:
    _, report = read_document(job(f"<Node aggregation='Pattern'>{pattern}</Node>"))
    assert [item.kind for item in report] == [Fidelity.NOTE]
    assert "is one character in a pattern" in report[0].what


def test_ordinary_patterns_are_read_without_a_word() -> None:
    for pattern in ("node[1-5]", "node1[0-9]", "[a-z]+"):
        assert read_document(job(f"<Node aggregation='Pattern'>{pattern}</Node>"))[1] == ()


def version_of(text: str) -> SssVersion:
    return read_document(text)[0].version


def test_the_version_is_known_by_the_names() -> None:
    assert version_of("<Job><JobId>1</JobId><UserId>a</UserId></Job>") is SssVersion.V3_0
    assert version_of("<Job><Id>1</Id><User>a</User></Job>") is SssVersion.V3_1


def test_names_of_the_other_version_are_read_and_reported() -> None:
    document, report = read_document("<Job><JobId>1</JobId><UserId>a</UserId><State>Idle</State></Job>")
    assert document.version is SssVersion.V3_0
    assert kinds(report) == [
        (Fidelity.TRANSLATED, "element 'State' is a name of 3.1.0: it is read as 'JobState'")
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("<SubmitTIme>1</SubmitTIme>", "SubmitTime"),
        ("<InitialWorking-Directory>/a</InitialWorking-Directory>", "InitialWorkingDirectory"),
        ("<Requested><Account>a</Account></Requested>", "Project"),
        ("<OpSys>Linux</OpSys>", "OperatingSystem"),
        ("<NodeSwap>1</NodeSwap>", "Swap"),
    ],
)
def test_other_spellings_in_use_are_read_and_reported(written: str, meant: str) -> None:
    document, report = read_document(job(written))
    assert [item.what.endswith(f"is read as {meant!r}") for item in report] == [True]
    assert f"name={meant!r}" in str(document)


def test_a_namespace_is_kept_and_its_names_are_read() -> None:
    document, report = read_document('<s:Job xmlns:s="urn:sss"><s:Id>1</s:Id><s:Odd/></s:Job>')
    assert document.namespace == "urn:sss"
    assert [item.where for item in report] == ["Job/Odd"]


def test_references_and_files_stand_in_data() -> None:
    text = (
        "<Data><Job>j 9</Job><JobGroup>g</JobGroup><Job><Id>1</Id><Executable>#S</Executable></Job>"
        '<File id="S"> echo\n</File></Data>'
    )
    document, report = read_document(text)
    assert report == ()
    assert [type(entry).__name__ for entry in document.entries] == ["JobRef", "JobGroupRef", "SssJob"]
    assert document.files[0].body == " echo\n"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("<Job><Id>1</Id></Job>", True),
        ("<?xml version='1.0'?><!-- <Task/> --><Job><JobId>1</JobId></Job>", True),
        ("\ufeff<JobGroup><Id>1</Id>".encode("utf-16"), True),
        ("<Job> <Name>a</Name> <Variable name=\u201dx\u201d>".encode(), True),
        ("<s:Job xmlns:s='urn:sss'><s:Processors>1</s:Processors></s:Job>", True),
        ("<Data><File id='a'/></Data>", True),
        ('<Job Name="a"><Tasks/></Job>', False),
        ('<Job xmlns="http://www.microsoft.com/ComputeCluster/"><Id>1</Id></Job>', False),
        ("<Job/>", False),
        ("<Html><Job><Id>1</Id></Job></Html>", False),
        ('{"version": 2}', False),
        (b"\x00\xff<", False),
        ("", False),
    ],
)
def test_a_job_object_is_recognised_by_its_content(text: str | bytes, is_one: bool) -> None:
    assert is_job_object(text) is is_one


def test_documents_are_values() -> None:
    assert isinstance(read_document(job(""))[0], SssDocument)
    assert read_document(job(""))[0] == read_document(job(""))[0]
