"""What jobs in SSS documents mean to Headnode."""

import shlex
from shlex import join
from xml.sax.saxutils import escape

import pytest
from msgspec.structs import replace

from headnode.core.formats.dialects import read, write
from headnode.core.formats.fidelity import Awareness, Fidelity
from headnode.core.formats.sss import read_document
from headnode.core.formats.sss.conversion import Asker, ConvertedJobs, DependencyLink, jobs_in
from headnode.core.formats.sss.conversion.resource_reading import MAX_OPTIONS
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import (
    Alternative,
    HeldAmounts,
    JobSpec,
    Licence,
    TaskAlternative,
    UnitType,
    all_dependencies,
)
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType, argv_of, substitute


def meant(inside: str, files: str = "", **options: object) -> ConvertedJobs:
    """What a document with one job means."""
    text = f"<Data><Job><Id>1</Id>{inside}</Job>{files}</Data>" if files else f"<Job><Id>1</Id>{inside}</Job>"
    return jobs_in(read_document(text)[0], **options)  # of the tests themselves


def job(inside: str) -> JobSpec:
    """The job that a document means."""
    (spec,) = meant(inside).jobs
    return spec


def task(inside: str, files: str = "") -> TaskSpec:
    """The only task of the job that a document means."""
    (spec,) = meant(inside, files).jobs
    (only,) = spec.tasks
    return only


def reported(inside: str, kind: Fidelity) -> list[str]:
    """What is told of a kind."""
    return [item.what for item in meant(inside).report if item.kind is kind]


X = "<Executable>/bin/x</Executable>"


def requested(inside: str) -> str:
    """A job that requests something."""
    return f"{X}<Requested>{inside}</Requested>"


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ("<Processors>16</Processors>", (16, 16)),
        ('<Processors op="GE">8</Processors><Processors op="LE">16</Processors>', (8, 16)),
        ('<Processors op="GT">8</Processors><Processors op="LT">16</Processors>', (9, 15)),
        ('<Processors op="LE">4</Processors>', (1, 4)),
        ('<Processors op="GE">12</Processors>', (12, 12)),
        ('<Processors group="1">12</Processors><Processors conj="Or" group="-1">16</Processors>', (12, 12)),
        ('<Processors preference="1">12</Processors><Processors preference="2">16</Processors>', (16, 16)),
    ],
)
def test_processors_are_minimum_and_maximum_of_the_job_and_of_its_task(
    asked: str, size: tuple[int, int]
) -> None:
    spec = job(requested(asked))
    assert (spec.unit, spec.minimum, spec.maximum) == (UnitType.PROCESSOR, *size)
    assert [(one.minimum, one.maximum) for one in spec.tasks] == [size]


def test_a_lower_bound_alone_is_met_with_that_many_and_reported() -> None:
    assert reported(requested('<Processors op="GE">12</Processors>'), Fidelity.APPROXIMATED) == [
        "Processors: no upper bound is given, so the lower one is taken"
    ]


RANGE = '<Duration op="GE">600</Duration><Duration op="LE">3600</Duration>'


@pytest.mark.parametrize(
    ("asked", "limit", "least"),
    [
        (RANGE, 3600, 600),
        ('<Duration op="LT">3600</Duration><Duration op="GT">600</Duration>', 3600, 600),
        ('<Duration op="GE">3600</Duration><Duration op="LE">3600</Duration>', 3600, None),
        ('<Duration op="GE">600</Duration>', 600, None),
        ('<Duration op="LE">600</Duration>', 600, None),
        ("<Duration>600</Duration>", 600, None),
    ],
)
def test_a_range_of_durations_is_the_limit_and_the_least_to_which_it_may_be_lowered(
    asked: str, limit: float, least: float | None
) -> None:
    """SSS 3.1.0, Requested Properties: two properties of one name with GE and LE are a range."""
    spec = job(requested(asked))
    assert (spec.run_time, spec.minimum_run_time) == (limit, least)
    assert not reported(requested(asked), Fidelity.APPROXIMATED)


def test_the_lower_bound_of_a_duration_is_reported_where_it_has_no_effect() -> None:
    two = '<Processors preference="2">8</Processors><Processors preference="1">4</Processors>'
    for text in (requested(RANGE + two), f"<TaskGroup>{requested(RANGE)}</TaskGroup>"):
        assert job(text).minimum_run_time is None
        lost = reported(text, Fidelity.APPROXIMATED)
        assert any("the lower bound has an effect only" in what for what in lost), text


def test_the_best_alternative_is_what_the_job_asks_for_and_the_others_follow_in_their_order() -> None:
    spec = job(
        requested(
            '<Memory preference="1">512</Memory><Memory preference="3">2048</Memory>'
            '<Memory preference="2">1024</Memory>'
        )
    )
    assert spec.minimum_memory == 2048
    assert spec.alternatives == tuple(
        Alternative(minimum_memory=amount, held=HeldAmounts(memory=amount)) for amount in (1024, 512)
    )
    assert spec.held == HeldAmounts(memory=2048)
    assert "<Requested>" not in spec.extensions


def test_conj_and_group_make_alternatives_in_the_order_in_which_they_are_written() -> None:
    spec = job(
        requested(
            '<Processors group="1">8</Processors><Memory group="-1">100</Memory>'
            '<Processors conj="Or" group="1">2</Processors><Feature group="-1">gpu</Feature>'
        )
    )
    assert (spec.minimum, spec.minimum_memory) == (8, 100)
    (other,) = spec.alternatives
    assert (other.minimum, other.maximum, other.needs) == (2, 2, NodeNeeds(features=(("gpu",),)))
    assert other.minimum_memory == 1  # it does not ask for memory: any node has so much
    assert other.tasks == (TaskAlternative(minimum=2, maximum=2),)


def test_a_mere_wish_is_tried_before_the_request_without_it() -> None:
    spec = job(requested('<Processors>4</Processors><Feature preference="-1">fast</Feature>'))
    assert spec.needs.features == (("fast",),)
    assert spec.alternatives == (Alternative(needs=NodeNeeds()),)


def test_ways_of_the_job_and_of_its_task_groups_are_taken_together_best_sum_first() -> None:
    ways = '<Requested><Memory preference="{}">{}</Memory><Memory preference="1">10</Memory></Requested>'
    spec = job(
        "<Requested><Duration preference='5'>60</Duration><Duration preference='1'>600</Duration></Requested>"
        f"<TaskGroup>{X}{ways.format(3, 90)}</TaskGroup>"
    )
    assert (spec.run_time, spec.tasks[0].needs.minimum_memory) == (60, 90)
    small = TaskAlternative(needs=NodeNeeds(minimum_memory=10))
    assert spec.alternatives == (
        Alternative(held=HeldAmounts(memory=10), tasks=(small,)),
        Alternative(run_time=Seconds(600.0)),
        Alternative(run_time=Seconds(600.0), held=HeldAmounts(memory=10), tasks=(small,)),
    )


def test_of_too_many_alternatives_the_best_are_taken_and_the_one_content_with_least() -> None:
    wishes = "".join(f'<Feature preference="-{2**n}">f{n}</Feature><Duration/>' for n in range(6))
    spec = job(requested(wishes))
    assert len(spec.alternatives) == MAX_OPTIONS - 1
    assert spec.needs.features == tuple((f"f{n}",) for n in range(6))
    assert spec.alternatives[-1].needs == NodeNeeds()
    assert any("48 alternatives are" in what for what in reported(requested(wishes), Fidelity.APPROXIMATED))


def test_one_alternative_is_reported_as_one() -> None:
    two = "<Memory preference='2'>20</Memory><Memory preference='1'>10</Memory>"
    assert any(
        "Requested: 1 alternative beside" in what for what in reported(requested(two), Fidelity.TRANSLATED)
    )
    three = two + "<Memory preference='-1'>5</Memory>"
    assert not any("1 alternatives" in what for what in reported(requested(three), Fidelity.TRANSLATED))


def test_alternatives_that_cannot_be_said_are_not_used_where_others_can() -> None:
    text = requested(
        '<Network group="1">1</Network>'
        '<Processors group="-1">8</Processors>'
        '<Processors conj="Or">2</Processors>'
    )
    assert (job(text).minimum, job(text).alternatives) == (2, ())
    assert reported(text, Fidelity.NOT_SUPPORTED) == []
    assert reported(text, Fidelity.APPROXIMATED) == ["alternative not used: Network == 1 and Processors == 8"]
    assert 'conj="Or"' in job(text).extensions["<Requested>"]


def test_alternatives_that_differ_in_who_asks_are_told() -> None:
    text = requested(
        '<User group="1">a</User><Project group="-1">p</Project>'
        '<User conj="Or" group="1">b</User><Project group="-1">q</Project>'
    )
    assert (job(text).run_as, job(text).project, job(text).alternatives) == ("a", "p", ())
    assert [what for what in reported(text, Fidelity.APPROXIMATED) if "User b and Project q" in what]


def test_more_processors_than_any_cluster_has_are_refused() -> None:
    with pytest.raises(BadRequest, match="more than any cluster has"):
        job(requested("<Processors>7469362007685183488</Processors>"))


def test_a_request_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(BadRequest) as refusal:
        job(requested('<Processors op="GE">9</Processors><Processors op="LE">3</Processors>'))
    assert refusal.value.code == "request"


def test_a_count_of_nodes_is_the_size_in_nodes_and_one_node_beside_processors_is_a_single_node() -> None:
    nodes = job(requested('<NodeCount op="GE">2</NodeCount><NodeCount op="LE">4</NodeCount>'))
    assert (nodes.unit, nodes.minimum, nodes.maximum) == (UnitType.NODE, 2, 4)
    single = job(requested("<NodeCount>1</NodeCount><Processors>6</Processors>"))
    assert (single.unit, single.single_node, single.minimum) == (UnitType.PROCESSOR, True, 6)


def test_task_groups_start_together_so_the_job_waits_for_room_for_all() -> None:
    spec = job(
        f"<TaskGroup><TaskCount>3</TaskCount><Processors>6</Processors>{X}</TaskGroup>"
        f"<TaskGroup><Name>m</Name>{X}</TaskGroup>"
    )
    assert (spec.minimum, spec.maximum) == (7, 7)
    assert [(one.name, one.kind, one.instances, one.minimum) for one in spec.tasks] == [
        ("", TaskType.SWEEP, 3, 2),
        ("m", TaskType.BASIC, 1, 1),
    ]


def test_tasks_that_differ_only_in_where_they_ran_are_instances_of_one_task() -> None:
    ran = "".join(f"<Task><Id>{number}</Id><Node>n{number}</Node></Task>" for number in (1, 2))
    assert task(f"{X}<TaskGroup>{ran}</TaskGroup>").instances == 2


def test_tasks_that_differ_are_tasks_of_their_own_and_the_rest_is_one_more() -> None:
    own = "<Task><Arguments>a</Arguments></Task><Task><Arguments>b</Arguments></Task>"
    spec = job(f"{X}<TaskGroup><TaskCount>4</TaskCount>{own}</TaskGroup>")
    assert [(one.command, one.instances) for one in spec.tasks] == [
        ("/bin/x a", 1),
        ("/bin/x b", 1),
        ("/bin/x", 2),
    ]


def test_tasks_that_differ_share_what_their_group_asks_for() -> None:
    asked = '<TaskCount>4</TaskCount><TaskDistribution type="TasksPerNode">2</TaskDistribution>'
    own = "<Task><Arguments>a</Arguments></Task><Task><Arguments>b</Arguments></Task>"
    text = f"{X}<TaskGroup>{asked}<Requested><Processors>8</Processors></Requested>{own}</TaskGroup>"
    spec = job(text)
    assert [(one.instances, one.minimum, one.distribution) for one in spec.tasks] == [
        (1, 2, None),
        (1, 2, None),
        (2, 2, None),
    ]
    assert spec.minimum == 8
    lost = "TaskDistribution, NodeCount: the placement of different tasks beside each other is not kept"
    assert f"{lost} (3 times, here first)" in reported(text, Fidelity.APPROXIMATED)


def test_processors_for_each_task_are_its_size() -> None:
    inside = '<TaskCount>2</TaskCount><TaskDistribution type="ProcessorsPerTask">4</TaskDistribution>'
    spec = job(f"<TaskGroup>{X}{inside}</TaskGroup>")
    assert (spec.minimum, spec.tasks[0].minimum) == (8, 4)


def test_asterisks_of_tasks_in_a_row_stay_what_they_are() -> None:
    text = f"<TaskGroup><TaskCount>2</TaskCount>{X}<Arguments>* a^b</Arguments></TaskGroup>"
    command = task(text).command
    assert argv_of(substitute(command, 2)) == argv_of(task(text.replace("2", "1", 1)).command)
    assert "*" in substitute(command, 2)


@pytest.mark.parametrize(
    ("program", "argv"),
    [
        ("<Executable>/bin/echo</Executable><Arguments>a 'b c' $HOME *</Arguments>",
         ("/bin/echo", "a", "b c", "$HOME", "*")),
        ("<Executable>run</Executable>", ("./run",)),
        ("<Executable>/opt/my prog</Executable>", ("/opt/my prog",)),
        ("<Executable>job.sh</Executable><Shell>/bin/bash</Shell><Arguments>1</Arguments>",
         ("/bin/bash", "./job.sh", "1")),
        ("<Executable>/bin/echo</Executable><Arguments>it's</Arguments>", ("/bin/echo", "it's")),
        ("<Executable>file:///opt/my%20prog</Executable><Arguments>1</Arguments>", ("/opt/my prog", "1")),
    ],
)  # fmt: skip
def test_the_program_gets_its_arguments_as_they_are_written(program: str, argv: tuple[str, ...]) -> None:
    command = task(program).command
    words = argv_of(command)
    if words[:2] == ("/bin/sh", "-c"):  # a sign in quotes: the shell takes the quotes away
        words = tuple(shlex.split(command))
    assert words == argv


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://example.org/solve", ""),
        ("gsiftp://h/x%20y?a=1&amp;b", ""),
        ("file://other/x", "staging-url"),
        ("srm://h/x", "staging-url"),
    ],
)
def test_a_program_that_is_a_url_is_transferred_if_that_can_be_and_is_kept(url: str, code: str) -> None:
    inside = f"<Executable>{url}</Executable><Arguments>-n 'a b'</Arguments>"
    spec = job(inside)
    assert "is transferred to the node" in reported(inside, Fidelity.TRANSLATED)[0]
    assert spec.tasks[0].stages
    if code:
        with pytest.raises(BadRequest) as refused:
            check_job(spec)
        assert (refused.value.code, refused.value.path) == (code, ("tasks", 0, "command"))
    else:
        check_job(spec)
    text = write(spec, "sss")[0].decode()
    assert f"<Executable>{url}</Executable>" in text
    assert read(text).jobs[0].tasks[0].command == spec.tasks[0].command


@pytest.mark.parametrize(
    ("body", "start"),
    [
        ("echo hello world", "/bin/sh -c 'echo hello world' Script"),
        ("#!/bin/bash\nls", "/bin/bash -c '#!/bin/bash\nls' Script"),
        ("#!/usr/bin/env python3\npass", "python3 -c '#!/usr/bin/env python3\npass'"),
        ("#!/usr/bin/perl\n1", "/usr/bin/perl -e '#!/usr/bin/perl\n1' --"),
    ],
)
def test_a_script_that_comes_along_stands_in_the_command(body: str, start: str) -> None:
    text = "<Executable>#Script</Executable><Arguments>a b</Arguments>"
    found = task(text, f'<File id="Script">{body}</File>')
    assert found.command == f"{start} a b"


def test_a_script_that_cannot_come_along_leaves_no_command_and_is_reported() -> None:
    text = "<Executable>#S</Executable>"
    (spec,) = meant(text, '<File id="S">#!/usr/bin/awk -f\nBEGIN {}</File>').jobs
    assert [one.command for one in spec.tasks] == [""]
    with pytest.raises(BadRequest, match="no command line"):
        check_runnable(spec)
    lost = [one.what for one in meant(text, '<File id="S">#!/usr/bin/awk -f</File>').report]
    assert any("there is no command" in what for what in lost)


@pytest.mark.parametrize(
    ("streams", "fields", "appended"),
    [
        ("<InputFile>i</InputFile><OutputFile>~/o</OutputFile><ErrorFile>e</ErrorFile>",
         ("i", "$HOME/o", "e"), (False, False)),
        ('<OutputFile>o</OutputFile><ErrorFile redirectList="Merge"></ErrorFile>',
         ("", "o", "o"), (False, False)),
        ('<OutputFile redirectList="Append">~/my o</OutputFile>', ("", "$HOME/my o", ""), (True, False)),
        ('<OutputFile redirectList="Append">o</OutputFile><ErrorFile redirectList="Merge"></ErrorFile>',
         ("", "o", "o"), (True, True)),
        ('<OutputFile>o</OutputFile><ErrorFile redirectList="Append">e</ErrorFile>',
         ("", "o", "e"), (False, True)),
        ('<OutputFile redirectList="Merge"/><ErrorFile redirectList="Append">e</ErrorFile>',
         ("", "e", "e"), (True, True)),
        ('<InputFile redirectList="Close"></InputFile><OutputFile redirectList="Close"></OutputFile>',
         ("", "/dev/null", ""), (False, False)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arguments", ["x; y # z", "echo 'a"])
def test_streams_are_properties_of_the_task_and_never_text_of_its_command(
    streams: str, fields: tuple[str, str, str], appended: tuple[bool, bool], arguments: str
) -> None:
    found = task(
        f"<Executable>/bin/sh</Executable><Arguments>-c {shlex.quote(arguments)}</Arguments>{streams}"
    )
    assert (found.standard_input, found.standard_output, found.standard_error) == fields
    assert (found.append_output, found.append_error) == appended
    assert found.command == arguments


@pytest.mark.parametrize(
    "where", ['<OutputFile redirectList="Append"/>', '<InputFile redirectList="Append">i</InputFile>']
)
def test_appending_to_nothing_is_reported(where: str) -> None:
    assert len(reported(X + where, Fidelity.NOT_SUPPORTED)) == 1


@pytest.mark.parametrize(
    ("executable", "arguments"),
    [
        ("/bin/sh", ["-c", "a | b"]),
        ("/bin/sh", ["-c", "echo -n x"]),  # a built-in, and a program that is another one
        ("/bin/sh", ["-c", "cd /tmp"]),
        ("/bin/sh", ["-c", "make all"]),
        ("/bin/sh", ["-c", "%X%"]),
        ("/bin/sh", ["-c", "x", "y"]),
        ("/bin/sh", ["-x", "-c", "y | z"]),
        ("/usr/bin/env", ["make", "all"]),
        ("/usr/bin/env", ["cd", "x"]),
        ("/usr/bin/env", ["-i", "x"]),
        ("/usr/bin/env", ["A=b", "x"]),
        ("/usr/bin/env", ["./x y"]),
    ],
)
def test_a_program_is_started_with_the_words_that_are_written(executable: str, arguments: list[str]) -> None:
    """What Headnode starts for the command is the executable, or what that would start itself."""
    command = task(
        f"<Executable>{executable}</Executable><Arguments>{escape(join(arguments))}</Arguments>"
    ).command
    words = argv_of(command)
    if words[:2] == ("/bin/sh", "-c") and words != (executable, *arguments):
        words = tuple(shlex.split(words[2]))  # quotes that only a shell takes away
    found_in_path = executable == "/usr/bin/env" and words == tuple(arguments)
    assert words == (executable, *arguments) or found_in_path


def test_simple_properties_have_their_fields() -> None:
    spec = job(
        f"{X}<Name>n</Name><Project>p</Project><User>u</User><Queue>q</Queue><Priority>2150</Priority>"
        "<EligibleTime>1500000000</EligibleTime><Restartable>true</Restartable><Duration>60</Duration>"
        '<NotificationList uri="ann@example.org">JobStart,JobEnd</NotificationList><Machine>m</Machine>'
        '<Resource name="License" type="MATLAB">2</Resource><Dependency>17</Dependency>'
        '<Environment><Variable name="A">1</Variable></Environment><Memory units="GB">2</Memory>'
    )
    assert (spec.name, spec.project, spec.run_as, spec.template) == ("n", "p", "u", "q")
    assert (spec.priority, spec.hold_until, spec.run_time, spec.minimum_memory) == (2150, 1.5e9, 60, 2048)
    assert (spec.notify_on_start, spec.notify_on_completion, spec.email) == (True, True, "ann@example.org")
    assert (spec.licences, spec.parents, spec.environment) == ((Licence("MATLAB", 2),), (17,), {"A": "1"})
    assert spec.tasks[0].rerunnable
    assert spec.extensions["<Machine>"] == "<Machine>m</Machine>"


def test_nodes_by_name_are_requested_or_excluded_and_features_are_node_groups() -> None:
    spec = job(
        requested(
            '<Node aggregation="List">a,b</Node><Node op="NE">c</Node><Feature>fast</Feature>'
            "<Partition>big</Partition>"
        )
    )
    assert (spec.requested_nodes, spec.excluded_nodes) == (("a", "b"), ("c",))
    assert (spec.node_groups, spec.needs) == (("big",), NodeNeeds(features=(("fast",),)))


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ("<Node aggregation='List'>a,b</Node>", NodeNeeds(names=("a", "b"))),
        ("<Node>a</Node><Node>b</Node>", NodeNeeds(names=("a", "b"))),
        ("<Node>a</Node><Node conj='Or'>b</Node>", NodeNeeds(names=("a", "b"))),
        ("<Node op='NE'>c</Node>", NodeNeeds(excluded=("c",))),
        ("<Node aggregation='Pattern'>n[1-5]</Node>", NodeNeeds(patterns=("n[1-5]",))),
        ("<Node op='Match'>n.*</Node>", NodeNeeds(patterns=("n.*",))),
        ("<Node aggregation='Pattern'>n.*</Node><Node>m.1</Node>", NodeNeeds(patterns=("m\\.1", "n.*"))),
        ("<Node aggregation='Pattern' op='NE'>n.*</Node>", NodeNeeds(excluded_patterns=("n.*",))),
        ("<Feature>a</Feature><Feature>b</Feature>", NodeNeeds(features=(("a",), ("b",)))),
        ("<Feature aggregation='List'>a,b</Feature>", NodeNeeds(features=(("a",), ("b",)))),
        ("<Feature>a</Feature><Feature conj='Or'>b</Feature>", NodeNeeds(features=(("a", "b"),))),
        ("<Feature op='NE'>a</Feature>", NodeNeeds(lacking=("a",))),
        ("<Feature aggregation='Pattern'>gpu.*</Feature>", NodeNeeds(feature_patterns=("gpu.*",))),
        ("<Architecture>x86</Architecture>", NodeNeeds(architectures=("x86",))),
        (
            "<Architecture>x86</Architecture><Architecture conj='Or'>arm</Architecture>",
            NodeNeeds(architectures=("x86", "arm")),
        ),
        ("<OperatingSystem>Linux</OperatingSystem>", NodeNeeds(systems=("Linux",))),
        ("<Disk units='GB'>2</Disk><Swap op='GE' units='KB'>1500</Swap>",
         NodeNeeds(minimum_disk=2048, minimum_swap=2)),
        ("<Memory op='GE' units='GB'>1</Memory>", NodeNeeds(minimum_memory=1024)),
    ],
)  # fmt: skip
def test_what_a_task_group_asks_of_nodes_its_task_needs_and_a_job_asks_of_all_its_nodes(
    asked: str, needs: NodeNeeds
) -> None:
    (of_task,) = job(f"<TaskGroup>{requested(asked)}</TaskGroup>").tasks
    assert of_task.needs == needs
    spec = job(requested(asked))
    assert spec.tasks[0].needs == NodeNeeds()
    found = replace(
        spec.needs,
        names=spec.requested_nodes,
        excluded=spec.excluded_nodes,
        minimum_memory=spec.minimum_memory or 0,
    )
    assert found == needs


def test_what_a_task_group_says_of_a_property_counts_in_place_of_its_job_for_it_alone() -> None:
    spec = job(
        f"<Requested><Memory>100</Memory><Feature>fast</Feature></Requested>"
        f"<TaskGroup>{X}<Memory>50</Memory></TaskGroup><TaskGroup>{X}</TaskGroup>"
    )
    assert spec.needs == NodeNeeds(features=(("fast",),))
    assert (spec.minimum_memory, [one.needs.minimum_memory for one in spec.tasks]) == (None, [50, 100])


def test_amounts_that_are_rounded_up_are_reported() -> None:
    text = requested('<Disk units="KB">1</Disk><Resource name="Telescope" type="Zoom2000">1.5</Resource>')
    assert job(text).needs.minimum_disk == 1
    assert job(text).licences == (Licence("Telescope:Zoom2000", 2),)
    assert reported(text, Fidelity.APPROXIMATED) == [
        "Disk: whole megabytes, rounded up",
        "Resource Telescope:Zoom2000: whole numbers, rounded up",
    ]


def test_a_priority_of_another_scale_is_kept_and_the_job_is_normal() -> None:
    spec = job("<Priority>1032847</Priority>")
    assert (spec.priority, spec.extensions["<Priority>"]) == (2000, "<Priority>1032847</Priority>")


def test_each_hold_has_its_name_beside_the_time_from_which_on_the_job_is_eligible() -> None:
    spec = job("<Hold>System</Hold><Hold>User</Hold><Hold>user</Hold><EligibleTime>1500000000</EligibleTime>")
    assert (spec.holds, spec.hold_until, spec.extensions.keys()) == (("system", "user"), 1.5e9, {"<Id>"})


def test_deadlines_suspension_and_limits_have_their_fields() -> None:
    spec = job(
        f"{X}<DeadlineTime>1500000000</DeadlineTime><Suspendable>true</Suspendable>"
        '<ResourceLimit name="CPUTime">1:00:01</ResourceLimit>'
        '<ResourceLimit name="OpenFiles" type="Soft">64</ResourceLimit>'
        '<ResourceLimit name="OpenFiles" type="Hard">128</ResourceLimit>'
        '<ResourceLimit name="StackSize" type="Hard">8 MB</ResourceLimit>'
    )
    assert (spec.end_by, spec.suspendable) == (1.5e9, True)
    assert spec.resource_limits == (
        ResourceLimit("cpu", 3601, 3601),
        ResourceLimit("nofile", 64, 128),
        ResourceLimit("stack", None, 8 * 2**20),
    )


def test_a_limit_of_memory_is_one_of_the_address_space_and_the_lower_of_two_counts() -> None:
    limit = "<ResourceLimit name='{}'>{} GB</ResourceLimit>"
    text = limit.format("MaxMemory", 2) + limit.format("MaxSwap", 1)
    assert job(text).resource_limits == (ResourceLimit("as", 2**30, 2**30),)
    assert reported(text, Fidelity.APPROXIMATED) == [
        "ResourceLimit MaxMemory: it limits the address space of each process"
    ]


@pytest.mark.parametrize("value", ["unlimited", "-1", "5 parsecs", "9" * 30, "1:2:3:4"])
def test_a_limit_that_is_no_number_leaves_that_of_the_node(value: str) -> None:
    text = f"<ResourceLimit name='CpuTime'>{value}</ResourceLimit>"
    assert job(text).resource_limits == ()
    assert [what for what in reported(text, Fidelity.NOT_SUPPORTED) if "limit of the node applies" in what]


def test_limits_of_a_task_group_are_its_own() -> None:
    limit = "<ResourceLimit name='FileSize'>{}</ResourceLimit>"
    spec = job(f"{limit.format(9)}<TaskGroup>{X}{limit.format(5)}</TaskGroup><TaskGroup>{X}</TaskGroup>")
    assert spec.resource_limits == (ResourceLimit("fsize", 9, 9),)
    assert [one.resource_limits for one in spec.tasks] == [(ResourceLimit("fsize", 5, 5),), ()]


@pytest.mark.parametrize("limit", ["MaxDisk", "MaxNetwork", "MaxFileIO", "MaxProcessors", "Odd"])
def test_limits_that_the_system_does_not_keep_are_reported_and_kept(limit: str) -> None:
    text = f"<ResourceLimit name='{limit}'>5</ResourceLimit>"
    assert job(text).resource_limits == ()
    assert limit in job(text).extensions["<ResourceLimit>"]
    assert reported(text, Fidelity.NOT_SUPPORTED) == [
        f"ResourceLimit {limit} 5: the system has no such limit for processes"
    ]


@pytest.mark.parametrize(
    ("inside", "size", "distribution"),
    [
        ("<Processors>4</Processors><NodeCount>3</NodeCount>", (4, 4), Distribution(nodes=3)),
        ("<Processors>4</Processors><TaskDistribution>2</TaskDistribution>",
         (4, 4), Distribution(per_node=2)),
        ("<TaskDistribution type='Rule'>RoundRobin</TaskDistribution><Processors>4</Processors>",
         (4, 4), Distribution(round_robin=True)),
        ("<TaskDistribution type='Geometry'>{1,4}{2}{3,5}</TaskDistribution>",
         (5, 5), Distribution(geometry=((1, 4), (2,), (3, 5)))),
        ("<NodeCount>3</NodeCount><TaskDistribution>2</TaskDistribution>", (6, 6), Distribution(per_node=2)),
        ("<NodeCount>3</NodeCount><TaskDistribution type='Rule'>RoundRobin</TaskDistribution>",
         (3, 3), Distribution(nodes=3, round_robin=True)),
    ],
)  # fmt: skip
def test_processors_of_a_job_lie_on_nodes_as_it_says(
    inside: str, size: tuple[int, int], distribution: Distribution
) -> None:
    found = task(f"{X}{inside}")
    assert (found.minimum, found.maximum, found.distribution) == (*size, distribution)


def test_three_nodes_and_four_tasks_are_two_on_one_node_and_one_on_each_of_two() -> None:
    found = task(f"<TaskGroup>{X}<TaskCount>4</TaskCount><NodeCount>3</NodeCount></TaskGroup>")
    assert (found.instances, found.minimum, found.distribution) == (4, 1, Distribution(nodes=3))


def test_a_geometry_says_how_many_tasks_there_are_when_nothing_else_does() -> None:
    text = "<TaskDistribution type='Geometry'>{1,3}{2}</TaskDistribution>"
    assert task(f"<TaskGroup>{X}{text}</TaskGroup>").instances == 3
    other = f"<TaskGroup>{X}<TaskCount>4</TaskCount>{text}</TaskGroup>"
    assert task(other).distribution is None
    assert "TaskDistribution Geometry: it does not number 4 tasks from 1: it is left out" in reported(
        other, Fidelity.APPROXIMATED
    )


def test_tasks_of_task_groups_start_together_and_a_single_process_does_not() -> None:
    assert job(f"<TaskGroup>{X}</TaskGroup><TaskGroup>{X}</TaskGroup>").together
    assert job(f"<TaskGroup>{X}<TaskCount>2</TaskCount></TaskGroup>").together
    assert not job(f"{X}<Processors>8</Processors>").together
    assert not job(f"<TaskGroup>{X}<Processors>8</Processors></TaskGroup>").together


def group(jobs: str) -> ConvertedJobs:
    """What a job group means."""
    return jobs_in(read_document(f"<JobGroup><Id>g</Id>{jobs}</JobGroup>")[0])


def test_dependencies_in_a_group_are_links_by_id_and_by_name() -> None:
    found = group(
        "<Job><Id>a</Id><Name>x</Name></Job>"
        "<Job><Id>b</Id><Dependency condition='OnSuccess' designator='JobId'>a</Dependency></Job>"
        "<Job><Id>c</Id><Dependency designator='JobName'>x</Dependency><Dependency>b</Dependency></Job>"
    )
    assert found.links == tuple(
        DependencyLink(*pair, Condition.ON_SUCCESS) for pair in ((1, 0), (2, 0), (2, 1))
    )
    assert [spec.job_group for spec in found.jobs] == ["g"] * 3


@pytest.mark.parametrize("condition", Condition)
def test_a_job_waits_on_each_condition_for_a_job_of_its_group_or_for_one_that_is_there(
    condition: Condition,
) -> None:
    found = group(
        f"<Job><Id>a</Id></Job><Job><Id>b</Id><Dependency condition='{condition}'>a</Dependency>"
        f"<Dependency condition='{condition}' designator='JobId'>17</Dependency></Job>"
    )
    assert found.links == (DependencyLink(1, 0, condition),)
    assert [*all_dependencies(found.jobs[1])] == [JobDependency(17, condition)]


def test_the_name_and_the_description_of_a_group_are_those_of_its_jobs() -> None:
    text = "<JobGroup><Id>g</Id><Name>flow</Name><Description>d</Description><Job><Id>a</Id></Job></JobGroup>"
    (spec,) = jobs_in(read_document(text)[0]).jobs
    assert (spec.job_group, spec.description, spec.extensions["group.Id"]) == ("flow", "d", "g")


@pytest.mark.parametrize("policy", Awareness)
def test_a_job_waits_for_a_job_of_the_same_data_element_and_for_one_of_another_group(
    policy: Awareness,
) -> None:
    text = (
        "<Data><Job><Id>mesh</Id><Name>m</Name></Job><JobGroup><Id>g</Id><Job><Id>mesh2</Id></Job></JobGroup>"
        "<Job><Id>solve</Id><Dependency>mesh</Dependency><Dependency>mesh2</Dependency>"
        "<Dependency condition='OnExit' designator='JobName'>m</Dependency></Job></Data>"
    )
    found = jobs_in(read_document(text)[0], awareness=policy)
    assert found.links == (
        DependencyLink(2, 0),
        DependencyLink(2, 1),
        DependencyLink(2, 0, Condition.ON_EXIT),
    )


@pytest.mark.parametrize("policy", Awareness)
def test_what_waits_for_a_job_that_is_not_in_the_document_names_it_to_the_head(policy: Awareness) -> None:
    text = (
        "<JobGroup><Id>g</Id><Job><Id>a</Id></Job><Job><Id>b</Id>"
        "<Dependency designator='JobName'>mesh</Dependency>"
        "<Dependency condition='OnFailure'>fr15n05.1234</Dependency></Job></JobGroup>"
    )
    found = jobs_in(read_document(text, awareness=policy)[0], awareness=policy)
    assert found.jobs[1].named_parents == (
        NamedParent("mesh"),
        NamedParent("fr15n05.1234", by_id=True, condition=Condition.ON_FAILURE),
    )


@pytest.mark.parametrize("policy", Awareness)
@pytest.mark.parametrize(
    "inside",
    [
        "<Dependency condition='AfterAny'>17</Dependency>",
        "<Dependency designator='JobRank'>17</Dependency>",
        f"<TaskGroup>{X}<Dependency>17</Dependency></TaskGroup>",
        f"<TaskGroup>{X}<EligibleTime>2000000000</EligibleTime></TaskGroup>",
        f"<TaskGroup>{X}<Hold>User</Hold></TaskGroup>",
        f"<TaskGroup>{X}<Reservation>r</Reservation></TaskGroup>",
        f"<TaskGroup>{X}<Requested><Reservation>r</Reservation></Requested></TaskGroup>",
    ],
)
def test_no_policy_lets_a_job_run_without_what_decides_when_it_may(inside: str, policy: Awareness) -> None:
    text = f"<Job><Id>b</Id>{inside}</Job>"
    with pytest.raises(BadRequest) as refusal:
        jobs_in(read_document(text, awareness=policy)[0], awareness=policy)
    assert refusal.value.code in ("dependency", "part", "not-understood")


def test_jobs_that_are_defined_elsewhere_are_reported() -> None:
    found = group("<Job>other</Job><Job><Id>a</Id></Job>")
    assert len(found.jobs) == 1
    assert any("'other' is defined elsewhere" in one.what for one in found.report)


@pytest.mark.parametrize(
    "unsupported",
    [
        "<Checkpointable{}>true</Checkpointable>",
        "<ResourceLimit name='MaxDisk'{}>9</ResourceLimit>",
        "<Requested><Feature aggregation='Pattern' op='NE'{}>n.*</Feature></Requested>",
        "<Network{}>myrinet</Network>",
        "<Group{}>users</Group>",
        "<TaskGroup><Priority{}>5</Priority></TaskGroup>",
        "<TaskGroup><TaskDistribution type='Rule'{}>Diagonal</TaskDistribution></TaskGroup>",
    ],
)
def test_what_is_not_supported_refuses_is_told_or_is_silent_by_its_policy(unsupported: str) -> None:
    def with_policy(policy: str) -> str:
        return unsupported.format(f" awarenessPolicy='{policy}'")

    with pytest.raises(BadRequest) as refusal:
        meant(X + with_policy("Reject"))
    assert refusal.value.code == "not-understood"
    warned = meant(X + with_policy("Warn"), awareness=Awareness.REJECT)
    assert Fidelity.NOT_SUPPORTED in {item.kind for item in warned.report}
    silent = meant(X + with_policy("Ignore"), awareness=Awareness.REJECT)
    assert Fidelity.NOT_SUPPORTED not in {item.kind for item in silent.report}
    kept = [text for part in (silent.jobs[0], *silent.jobs[0].tasks) for text in part.extensions.values()]  # type: ignore[attr-defined]
    assert any("Ignore" in text for text in kept)


def test_a_policy_counts_for_all_that_is_inside() -> None:
    text = "<Job awarenessPolicy='Reject'><Id>1</Id><Checkpointable>true</Checkpointable></Job>"
    with pytest.raises(BadRequest, match="Checkpointable True: Headnode writes no checkpoints"):
        jobs_in(read_document(text)[0])


def test_a_job_may_be_interactive_and_a_task_alone_may_not() -> None:
    assert job("<Interactive>true</Interactive>").interactive
    assert not job("<Interactive>false</Interactive>").interactive
    with pytest.raises(BadRequest, match="a task alone cannot be interactive"):
        job(f"<TaskGroup><Task><Interactive>true</Interactive>{X}</Task></TaskGroup>")


def test_a_job_for_another_machine_is_refused() -> None:
    with pytest.raises(BadRequest, match="Machine 'Colony': the job is for that cluster"):
        meant("<Machine>Colony</Machine>", asker=Asker("here"))
    assert meant("<Machine>Colony</Machine>", asker=Asker("colony")).jobs


def test_what_became_of_the_job_elsewhere_is_no_input_but_reported() -> None:
    text = "<State>Completed</State><ExitCode>3</ExitCode><Delivered><Processors>4</Processors></Delivered>"
    assert {what.partition(":")[0] for what in reported(text, Fidelity.NOTE)} == {
        "State",
        "ExitCode",
        "Delivered",
    }
    assert job(text).minimum is None


def test_a_task_group_of_no_tasks_is_told_to_run_nothing() -> None:
    text = f"<TaskGroup><TaskCount>0</TaskCount>{X}</TaskGroup>"
    assert job(text).tasks == ()
    assert reported(text, Fidelity.APPROXIMATED) == ["TaskCount 0: nothing of the task group is run"]


def test_a_million_tasks_are_one_task_and_more_are_refused() -> None:
    assert task(f"<TaskGroup><TaskCount>1000000</TaskCount>{X}</TaskGroup>").instances == 1_000_000
    with pytest.raises(BadRequest, match="TaskCount 1000001"):
        task(f"<TaskGroup><TaskCount>1000001</TaskCount>{X}</TaskGroup>")


def test_a_quality_of_service_beside_a_queue_is_told_or_refused() -> None:
    both = f"{X}<Queue>q</Queue><QualityOfService>high</QualityOfService>"
    assert any("QualityOfService high" in what for what in reported(both, Fidelity.NOT_SUPPORTED))
    with pytest.raises(BadRequest, match="QualityOfService high"):
        meant(both, awareness=Awareness.REJECT)


def test_the_strictest_policy_of_a_file_is_that_of_what_the_cluster_lacks() -> None:
    one = "<Job awarenessPolicy='{}'><Id>{}</Id></Job>"
    text = f"<Data>{one.format('Warn', 1)}{one.format('Reject', 2)}</Data>"
    assert read(text).awareness is Awareness.REJECT
    assert read("<Job><Id>1</Id></Job>").awareness is None


@pytest.mark.parametrize("asked", ["<Processors>0</Processors>", '<NodeCount op="LT">1</NodeCount>'])
def test_a_job_on_nothing_is_refused(asked: str) -> None:
    with pytest.raises(BadRequest, match="a job needs at least one"):
        job(requested(asked))
