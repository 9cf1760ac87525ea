"""What a job file says becomes the job, in every spelling that is in use."""

import pytest

from headnode.core.formats.dialects.reading import JobLanguage, locate
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.hpc_xml import CCS, HPC, HPC_2008, read_job, write_job
from headnode.core.formats.text.xml_text import parse_xml
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import TaskSpec, TaskType

from .shared import SAMPLES, needs_samples

CCS_SPACE = 'xmlns="http://www.microsoft.com/ComputeCluster/"'
SPACE_2008 = 'xmlns="http://schemas.microsoft.com/HPCS2008/scheduler/"'
R2_SPACE = 'xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/"'


def job(attributes: str = "", inside: str = "") -> JobSpec:
    return read_job(f"<Job {attributes}>{inside}</Job>")[0]


def task(attributes: str, space: str = "") -> TaskSpec:
    return job(space, f"<Tasks><Task {attributes}/></Tasks>").tasks[0]


def refusal(text: bytes | str, **options: bool) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_job(text, **options)
    return caught.value


@needs_samples
def test_every_sample_loads_but_the_broken_one_which_names_line_and_column() -> None:
    for path in SAMPLES:
        if path.name.startswith("012"):
            assert refusal(path.read_bytes()).what.startswith("line 8, column 14: ")
        else:
            check_job(read_job(path.read_bytes())[0])


@needs_samples
def test_the_sample_with_all_attributes_of_ccs_is_understood_in_full() -> None:
    path = next(path for path in SAMPLES if "033" in path.name)
    spec, report = read_job(path.read_bytes())
    other = [item for item in report if item.kind is not Fidelity.NOTE]
    assert ["is a path of Windows" in item.what for item in other] == [True]
    assert (spec.dialect, spec.minimum, spec.maximum, spec.run_time, spec.exclusive) == (
        CCS,
        2,
        8,
        95_400,
        False,
    )
    assert (spec.requested_nodes, spec.licences) == (("NODE1", "NODE2"), (Licence("solver", 4),))
    assert (spec.run_as, spec.properties) == ("CONTOSO\\runas", {"cost-centre": "1234"})
    prep, solve, post = spec.tasks
    assert (prep.run_time, prep.rerunnable, prep.environment) == (600, True, {"STAGE": "prep"})
    assert (solve.required_nodes, solve.minimum, solve.maximum, solve.rerunnable) == (("NODE1",), 2, 8, False)
    assert (post.depends_on, post.run_time, post.minimum) == (("prep", "solve"), FOREVER, 1)


@pytest.mark.parametrize(
    ("space", "dialect", "exclusive", "rerunnable"),
    [
        (CCS_SPACE, CCS, True, False),
        (SPACE_2008, HPC_2008, False, True),
        (R2_SPACE, HPC, False, True),
        ("", HPC, False, True),
        ('Runtime="3"', HPC_2008, False, True),
        ('Runtime="3" MinimumNumberOfProcessors="1" MaximumNumberOfProcessors="1"', CCS, False, True),
        ('Runtime="3" MinCores="1"', HPC, False, True),
        ('xmlns="urn:other"', HPC, False, True),
    ],
)
def test_the_namespace_chooses_the_defaults(
    space: str, dialect: str, exclusive: bool, rerunnable: bool
) -> None:
    spec = job(space, "<Tasks><Task/></Tasks>")
    assert (spec.dialect, spec.exclusive, spec.tasks[0].rerunnable) == (dialect, exclusive, rerunnable)


@pytest.mark.parametrize(
    "text",
    [
        '<Job Name="a" RunUntilCanceled="True" MinCores="2" MaxCores="3"/>',
        '<Job name="a" RUNUNTILCANCELED="1" mincores = "2" maxCores="3"/>',
        '<n:Job xmlns:n="http://schemas.microsoft.com/HPCS2008R2/scheduler/" Name="a" '
        'RunUntilCanceled="true" MinCores="2" MaxCores="3"/>',
        '\ufeff<?xml version="1.0" encoding="utf-16"?>\r\n<Job Name="a"\r\n RuntillCancelled="TRUE"'
        ' MinCores=" 2 " MaxCores="+3"></Job>\r\n',
        "<!-- a --><?b?><Job Name='a' RunUntilCancelled='true' MinCores='2' MaxCores='3'/>",
    ],
)
def test_case_prefix_mark_line_ends_and_later_spellings_do_not_matter(text: str) -> None:
    spec, _ = read_job(text)
    assert (spec.name, spec.run_until_canceled, spec.minimum, spec.maximum) == ("a", True, 2, 3)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_bytes_are_read_in_the_encoding_they_declare(encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{declared}"?><Job Name="Jörg"/>'
    assert read_job(text.encode(encoding))[0].name == "Jörg"


@pytest.mark.parametrize(
    ("attributes", "minimum", "maximum"),
    [
        ("", None, None),
        ('MinCores="2"', 2, None),
        ('MaxCores="2"', None, 2),
        ('MinCores="9" MaxCores="1" AutoCalculateMax="true" AutoCalculateMin="false"', 9, None),
        ('MinCores="9" MaxCores="1" AutoCalculateMax="true"', 9, None),
        ('AutoCalculateMin="false" AutoCalculateMax="false"', 1, 1),
        ('MinCores="2" MaxCores="3" AutoCalculateMin="true" AutoCalculateMax="true"', None, None),
        (f'{CCS_SPACE} MinimumNumberOfProcessors="2" MaximumNumberOfProcessors="4"', 2, 4),
        (f'{CCS_SPACE} RuntillCancelled="true"', 1, 1),
    ],
)
def test_a_size_is_calculated_when_it_is_not_written_or_so_wished(
    attributes: str, minimum: int | None, maximum: int | None
) -> None:
    spec = job(attributes)
    assert (spec.minimum, spec.maximum) == (minimum, maximum)


def test_of_three_pairs_of_sizes_the_unit_chooses_one() -> None:
    sizes = 'MinCores="1" MaxCores="2" MinSockets="3" MaxSockets="4" MinNodes="5" MaxNodes="6"'
    spec = job(f'UnitType="Socket" {sizes}', f"<Tasks><Task {sizes}/></Tasks>")
    assert (spec.unit, spec.minimum, spec.maximum) == (UnitType.SOCKET, 3, 4)
    assert (spec.tasks[0].minimum, spec.tasks[0].maximum) == (3, 4)


def test_sizes_in_nodes_alone_say_that_the_job_counts_nodes() -> None:
    assert job("", '<Tasks><Task MinNodes="2" MaxNodes="2"/></Tasks>').unit is UnitType.NODE
    assert job('MinNodes="2"').unit is UnitType.NODE


def test_a_task_that_counts_something_else_than_its_job_is_refused() -> None:
    text = '<Job UnitType="Node">\n<Tasks>\n <Task MinCores="1"/></Tasks></Job>'
    assert refusal(text).what.startswith("line 3, column 1: Task 1: ")
    assert refusal(text).code == "unit-mismatch"


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ('IsParametric="true"', TaskType.SWEEP),
        ('IsParametric="false"', TaskType.BASIC),
        ('Type="NodePrep"', TaskType.NODE_PREP),
        ('Type="ParametricSweep" IsParametric="true"', TaskType.SWEEP),
    ],
)
def test_the_type_of_a_task_has_two_spellings(attributes: str, kind: TaskType) -> None:
    assert task(attributes).kind is kind


@pytest.mark.parametrize(
    "attributes", ['Type="Basic" IsParametric="1"', 'Type="ParametricSweep" IsParametric="0"']
)
def test_a_type_that_contradicts_is_parametric_is_refused(attributes: str) -> None:
    assert refusal(f"<Job><Tasks><Task {attributes}/></Tasks></Job>").code == "task-type"


@pytest.mark.parametrize(
    ("attributes", "flag", "count"),
    [
        ("", False, 1),
        ('FailJobOnFailure="true"', True, 1),
        ('FailJobOnFailureCount="3"', True, 3),
        ('FailJobOnFailure="true" FailJobOnFailureCount="3"', True, 3),
        ('FailJobOnFailure="false" FailJobOnFailureCount="3"', False, 1),
    ],
)
def test_a_count_of_failures_implies_the_flag(attributes: str, flag: bool, count: int) -> None:
    found = task(attributes)
    assert (found.fail_job_on_failure, found.fail_job_count) == (flag, count)


def test_hpc_pack_properties_reach_their_fields() -> None:
    spec = job(
        'NodeGroups="a, b c" NodeGroupOp="Uniform" OrderBy="-Memory,Cores" JobValidExitCodes="0,10..12" '
        'ParentJobIds="31,49" HoldUntil="7/16/2018 6:32:42 PM" EstimatedProcessMemory="0" '
        'Priority="Normal+150" SoftwareLicense="f:*" FailDependentTasks="true" RuntimeSeconds="90"',
        '<Dependencies><Parent GroupId="1"><Child GroupId="2"/><Child GroupId="3"/></Parent></Dependencies>'
        "<ExtendedTerms><Term><Name> n </Name><Value> v </Value></Term></ExtendedTerms>"
        "<CustomProperties><Term><Name>m</Name></Term></CustomProperties>",
    )
    assert (spec.node_groups, spec.node_group_op) == (("a", "b c"), NodeGroupOp.UNIFORM)
    assert spec.order_by == (OrderKey("memory", True), OrderKey("processors"))
    assert (spec.valid_exit_codes, spec.parents) == (((0, 0), (10, 12)), (31, 49))
    assert (spec.hold_until, spec.process_memory, spec.priority) == (1_531_765_962, None, 2150)
    assert (spec.licences, spec.fail_dependent_tasks, spec.run_time) == ((Licence("f", None),), True, 90)
    assert spec.group_edges == (GroupEdge(1, 2), GroupEdge(1, 3))
    assert spec.properties == {"n": "v", "m": ""}


def test_empty_lists_ask_for_nothing_and_empty_exit_codes_are_the_usual_one() -> None:
    lists = [
        "OrderBy",
        "ParentJobIds",
        "JobValidExitCodes",
        "NodeGroups",
        "RequestedNodes",
        "SoftwareLicense",
        "HoldUntil",
    ]
    assert job(" ".join(f'{name}=" "' for name in lists)) == job()
    assert job('JobValidExitCodes=""').valid_exit_codes == ((0, 0),)


def test_a_task_alone_is_a_job_of_that_one_task() -> None:
    spec, report = read_job(f'<Task {R2_SPACE} CommandLine="x" Name="n"/>')
    assert [(task.command, task.name) for task in spec.tasks] == [("x", "n")]
    assert any(item.kind is Fidelity.TRANSLATED for item in report)


def test_what_the_scheduler_writes_is_not_read_and_only_noted_once() -> None:
    tasks = '<Task Id="x" CommandLine="a"/>' * 50
    spec, report = read_job(
        f'<Job Id="1" State="?" SubmitTime="never" Owner="o"><Tasks>{tasks}</Tasks></Job>'
    )
    assert {item.kind for item in report} == {Fidelity.NOTE}
    assert [item.where for item in report] == ["Job", "Task"]
    assert "(50 times, here first)" in report[-1].what
    assert spec == JobSpec(tasks=(TaskSpec(command="a", rerunnable=True),) * 50, dialect=HPC)


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ('<Job\n  Priority="4001"/>', "line 2, column 2: Job: ", "priority"),
        (
            '<Job><!-- <Task a="1"> -->\n<Tasks><Task Runtime="1:2:3:4"/></Tasks></Job>',
            "line 2, column 13: ",
            "run-time",
        ),
        ('<Job IsExclusive="yes"/>', "line 1, column 5: ", "flag"),
        ('<Job UnitType="core"/>', "line 1, column 5: ", "unit-type"),
        ('<Job MinCores="99999999999"/>', "line 1, column 5: ", "number"),
        ('<Job HoldUntil="2018-02-30"/>', "line 1, column 5: ", "date-time"),
        ('<Job HoldUntil="13:00 PM"/>', "line 1, column 5: ", "date-time"),
        ('<Job SoftwareLicense="a:0"/>', "line 1, column 5: ", "licence"),
        ('<Job JobValidExitCodes="5..1"/>', "line 1, column 5: ", "exit-codes"),
        ('<Job Runtime="1" RuntimeSeconds="61"/>', "line 1, column 17: ", "given-twice"),
        ("<Job>\n <Dependencies>\n  <Parent/></Dependencies></Job>", "line 3, column 2: ", "no-group"),
        ("<job/>", "line 1, column 0: ", "not-a-job"),
        ("<Job><Tasks></Job>", "line 1, column 14: ", "not-xml"),
        ("", "line 1, column 0: ", "not-xml"),
        ("<Job Name='\ud800'/>", "line 1, column 11: ", "not-xml"),
        (b"<Job\n Name='\xff'/>", "line 2, column 7: ", "not-xml"),
        (b"<?xml version='1.0' encoding='hex'?><Job/>", "line 1, column 0: ", "encoding"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(text: bytes | str, place: str, code: str) -> None:
    wrong = refusal(text)
    assert (wrong.what[: len(place)], wrong.code) == (place, code)
    assert wrong.fix


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE Job [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>',
        '<!DOCTYPE Job [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE Job SYSTEM "http://127.0.0.1/job.dtd">',
        "<!-- first --><?then this?>\n<!DOCTYPE Job>",
    ],
)
def test_a_file_that_could_declare_entities_is_refused_unread(doctype: str) -> None:
    wrong = refusal(f'{doctype}<Job Name="&x;"/>')
    assert (wrong.code, wrong.what[:5]) == ("doctype", "line ")


def test_an_empty_legacy_spelling_yields_to_the_other() -> None:
    assert task('AskedNodes="" RequiredNodes="n1"').required_nodes == ("n1",)
    assert task('RequiredNodes="n1" AskedNodes=""').required_nodes == ("n1",)


def test_nil_lists_and_tasks_are_nothing() -> None:
    xsi = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
    spec = job(f"{CCS_SPACE} {xsi}", '<ExtendedTerms i:nil="true"/><Tasks><Task i:nil="true"/></Tasks>')
    assert (spec.properties, spec.tasks, spec.extensions) == ({}, (), {})


def test_a_rule_that_is_broken_after_reading_gets_the_place_of_its_task() -> None:
    tasks = '<Task/>\n  <Task MinCores="2" MaxCores="2"/>'
    text = f'<Job MinCores="1" MaxCores="9">\n <Tasks>\n  {tasks}</Tasks></Job>'
    with pytest.raises(BadRequest) as caught:
        check_job(read_job(text)[0])
    found = locate(text, JobLanguage.COMPUTE_CLUSTER, caught.value)
    assert found.what.startswith("line 4, column 2: the minimum 2 of task 2 ")
    assert locate(text, JobLanguage.COMPUTE_CLUSTER, found) is found
    late = BadRequest(code="x", what="the job is odd")
    assert locate(text, JobLanguage.COMPUTE_CLUSTER, late).what == "line 1, column 0: the job is odd"


def test_places_are_right_in_whatever_order_they_are_asked_for() -> None:
    document = parse_xml("<Job>\n  <Tasks>\n    <Task/>\n    <Task\n a='1'/>\n  </Tasks>\n</Job>")
    first, second = document.root[0]
    places = {document.root: (1, 0), document.root[0]: (2, 2), first: (3, 4), second: (4, 4)}
    for element in (second, first, document.root, second, document.root[0]):
        assert document.place(element) == places[element]
    assert document.place(second, "a") == (5, 1)


def test_text_between_names_and_values_is_reported() -> None:
    pair = "<Variable>{}<Name>A</Name>{}<Value>1</Value>{}</Variable>{}"
    for at in range(4):
        inside = pair.format(*("x" if at == one else "\n " for one in range(4)))
        variables = f"<EnvironmentVariables>{inside}</EnvironmentVariables>"
        spec, report = read_job(f"<Job><Tasks><Task CommandLine='a'>{variables}</Task></Tasks></Job>")
        assert spec.tasks[0].environment == {"A": "1"}
        assert any("'x'" in item.what for item in report)


@pytest.mark.parametrize(
    ("sizes", "least", "most"),
    [
        ("", 1, 1),
        ('MinimumNumberOfProcessors="3"', 3, 3),
        ('MaximumNumberOfProcessors="3"', 1, 3),
        ('MinimumNumberOfProcessors="2" MaximumNumberOfProcessors="4"', 2, 4),
    ],
)
def test_a_file_of_ccs_asks_for_one_processor_where_its_schema_says_so(
    sizes: str, least: int, most: int
) -> None:
    spec = job(f"{CCS_SPACE} {sizes}", "<Tasks><Task CommandLine='x'/><Task CommandLine='y'/></Tasks>")
    assert (spec.minimum, spec.maximum, spec.exclusive) == (least, most, True)


def test_an_exclusive_task_in_a_file_of_ccs_needs_no_size_of_its_job() -> None:
    spec = job(CCS_SPACE, "<Tasks><Task CommandLine='reboot' IsExclusive='true'/></Tasks>")
    check_job(spec)
    check_runnable(spec)
    assert spec.tasks[0].exclusive


def test_a_calculated_size_is_written_for_ccs_as_a_number() -> None:
    sweep = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=3)
    text, report = write_job(JobSpec(exclusive=True, tasks=(sweep,)), CCS)
    assert (read_job(text)[0].minimum, read_job(text)[0].maximum) == (1, 3)
    assert any("calculated" in item.what for item in report)
