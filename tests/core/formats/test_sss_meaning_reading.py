"""What jobs in SSS documents mean to Headnode."""

import shlex

import pytest

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss import read_document
from headnode.core.formats.sss.conditions import Condition
from headnode.core.formats.sss.meaning import Link, Meant, jobs_in
from headnode.core.formats.sss.meaning.telling import HELD
from headnode.core.launching.recipe import argv_of
from headnode.core.model.checks import check_runnable
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, Licence, UnitType
from headnode.core.model.sweep import substitute
from headnode.core.model.task import TaskSpec, TaskType


def meant(inside: str, files: str = "", **options: object) -> Meant:
    """What a document with one job means."""
    text = f"<Data><Job><Id>1</Id>{inside}</Job>{files}</Data>" if files else f"<Job><Id>1</Id>{inside}</Job>"
    return jobs_in(read_document(text)[0], **options)  # type: ignore[arg-type]  # of the tests themselves


def job(inside: str) -> JobSpec:
    """The job that a document means."""
    (spec,) = meant(inside).jobs
    return spec


def task(inside: str, files: str = "") -> TaskSpec:
    """The only task of the job that a document means."""
    (spec,) = meant(inside, files).jobs
    (only,) = spec.tasks
    return only


def told(inside: str, kind: Kind) -> list[str]:
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


def test_a_lower_bound_alone_is_met_with_that_many_and_told() -> None:
    assert told(requested('<Processors op="GE">12</Processors>'), Kind.APPROXIMATED) == [
        "Processors: no upper bound is given, so the lower one is taken"
    ]


def test_alternatives_that_are_not_used_are_told_and_kept_as_they_were_written() -> None:
    text = requested('<Memory preference="2">1024</Memory><Memory preference="1">512</Memory>')
    assert job(text).minimum_memory == 1024
    assert told(text, Kind.APPROXIMATED) == ["alternative not used: Memory == 536870912"]
    assert 'preference="1"' in job(text).extensions["<Requested>"]


def test_the_best_alternative_that_can_be_said_is_taken_before_a_better_one_that_cannot() -> None:
    better = '<Architecture preference="2">x86</Architecture><Architecture preference="1">arm</Architecture>'
    text = requested(
        '<OperatingSystem group="1">linux</OperatingSystem><Processors group="-1">8</Processors>'
        '<Processors conj="Or">2</Processors>'
    )
    assert job(text).minimum == 2
    assert told(text, Kind.NOT_SUPPORTED) == []
    assert told(requested(better), Kind.NOT_SUPPORTED) == [
        "Architecture == x86: nodes of any architecture may be taken"
    ]


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
    several = job(requested("<NodeCount>4</NodeCount><Processors>10</Processors>"))
    assert (several.unit, several.minimum, several.minimum_processors_per_node) == (UnitType.NODE, 4, 3)


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
    ],
)  # fmt: skip
def test_the_program_gets_its_arguments_as_they_are_written(program: str, argv: tuple[str, ...]) -> None:
    command = task(program).command
    words = argv_of(command)
    if words[:2] == ("/bin/sh", "-c"):  # a sign in quotes: the shell takes the quotes away
        words = tuple(shlex.split(command))
    assert words == argv


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


def test_a_script_that_cannot_come_along_leaves_no_command_and_is_told() -> None:
    text = "<Executable>#S</Executable>"
    (spec,) = meant(text, '<File id="S">#!/usr/bin/awk -f\nBEGIN {}</File>').jobs
    assert [one.command for one in spec.tasks] == [""]
    with pytest.raises(BadRequest, match="no command line"):
        check_runnable(spec)
    lost = [one.what for one in meant(text, '<File id="S">#!/usr/bin/awk -f</File>').report]
    assert any("there is no command" in what for what in lost)


@pytest.mark.parametrize(
    ("streams", "fields", "command"),
    [
        ("<InputFile>i</InputFile><OutputFile>~/o</OutputFile><ErrorFile>e</ErrorFile>",
         ("i", "$HOME/o", "e"), "/bin/x"),
        ('<OutputFile>o</OutputFile><ErrorFile redirectList="Merge"></ErrorFile>', ("", "o", "o"), "/bin/x"),
        ('<OutputFile redirectList="Append">~/my o</OutputFile>', ("", "", ""), "/bin/x >>~/'my o'"),
        ('<OutputFile redirectList="Append">o</OutputFile><ErrorFile redirectList="Merge"></ErrorFile>',
         ("", "", ""), "/bin/x >>o 2>&1"),
        ('<OutputFile>o</OutputFile><ErrorFile redirectList="Append">e</ErrorFile>',
         ("", "o", ""), "/bin/x 2>>e"),
        ('<InputFile redirectList="Close"></InputFile><OutputFile redirectList="Close"></OutputFile>',
         ("", "/dev/null", ""), "/bin/x"),
    ],
)  # fmt: skip
def test_streams_become_files_and_redirections(
    streams: str, fields: tuple[str, str, str], command: str
) -> None:
    found = task(X + streams)
    assert (found.standard_input, found.standard_output, found.standard_error) == fields
    assert found.command == command


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
    assert spec.node_groups == ("big", "fast")


def test_a_node_that_a_task_group_names_is_required_of_its_task() -> None:
    groups = "".join(f"<TaskGroup>{X}<Node>{name}</Node></TaskGroup>" for name in ("a", "b"))
    assert [one.required_nodes for one in job(groups).tasks] == [("a",), ("b",)]


def test_a_priority_of_another_scale_is_kept_and_the_job_is_normal() -> None:
    spec = job("<Priority>1032847</Priority>")
    assert (spec.priority, spec.extensions["<Priority>"]) == (2000, "<Priority>1032847</Priority>")


def test_a_held_job_is_held_until_a_person_releases_it() -> None:
    spec = job("<Hold>System</Hold><Hold>User</Hold>")
    assert spec.hold_until == HELD
    assert {"<Hold>", "<Hold>#2"} <= spec.extensions.keys()


def group(jobs: str) -> Meant:
    """What a job group means."""
    return jobs_in(read_document(f"<JobGroup><Id>g</Id>{jobs}</JobGroup>")[0])


def test_dependencies_in_a_group_are_links_by_id_and_by_name() -> None:
    found = group(
        "<Job><Id>a</Id><Name>x</Name></Job>"
        "<Job><Id>b</Id><Dependency condition='OnSuccess' designator='JobId'>a</Dependency></Job>"
        "<Job><Id>c</Id><Dependency designator='JobName'>x</Dependency><Dependency>b</Dependency></Job>"
    )
    assert found.links == tuple(Link(*pair, Condition.ON_SUCCESS) for pair in ((1, 0), (2, 0), (2, 1)))
    assert [spec.extensions["group.Id"] for spec in found.jobs] == ["g"] * 3


def test_a_dependency_that_headnode_cannot_wait_for_is_told_and_kept() -> None:
    found = group(
        "<Job><Id>a</Id></Job><Job><Id>b</Id><Dependency condition='OnFailure'>a</Dependency></Job>"
    )
    assert found.links == ()
    assert "OnFailure" in found.jobs[1].extensions["<Dependency>"]
    assert [one.kind for one in found.report if "Dependency" in one.what] == [Kind.NOT_SUPPORTED]


def test_jobs_that_are_defined_elsewhere_are_told() -> None:
    found = group("<Job>other</Job><Job><Id>a</Id></Job>")
    assert len(found.jobs) == 1
    assert any("'other' is defined elsewhere" in one.what for one in found.report)


@pytest.mark.parametrize(
    "unsupported",
    [
        "<DeadlineTime{}>1500000000</DeadlineTime>",
        "<ResourceLimit name='CpuTime'{}>9</ResourceLimit>",
        "<Requested><Node aggregation='Pattern'{}>n.*</Node></Requested>",
        "<Architecture{}>x86</Architecture>",
        "<Dependency condition='OnExit'{}>5</Dependency>",
        "<TaskGroup><Priority{}>5</Priority></TaskGroup>",
        "<TaskGroup><TaskDistribution type='Rule'{}>RoundRobin</TaskDistribution></TaskGroup>",
    ],
)
def test_what_is_not_supported_refuses_is_told_or_is_silent_by_its_policy(unsupported: str) -> None:
    def with_policy(policy: str) -> str:
        return unsupported.format(f" awarenessPolicy='{policy}'")

    with pytest.raises(BadRequest) as refusal:
        meant(X + with_policy("Reject"))
    assert refusal.value.code == "not-understood"
    warned = meant(X + with_policy("Warn"), awareness=Awareness.REJECT)
    assert Kind.NOT_SUPPORTED in {item.kind for item in warned.report}
    silent = meant(X + with_policy("Ignore"), awareness=Awareness.REJECT)
    assert Kind.NOT_SUPPORTED not in {item.kind for item in silent.report}
    kept = [text for part in (silent.jobs[0], *silent.jobs[0].tasks) for text in part.extensions.values()]
    assert any("Ignore" in text for text in kept)


def test_a_policy_counts_for_all_that_is_inside() -> None:
    text = "<Job awarenessPolicy='Reject'><Id>1</Id><Suspendable>true</Suspendable></Job>"
    with pytest.raises(BadRequest, match="Suspendable True: jobs are not suspended"):
        jobs_in(read_document(text)[0])


def test_an_interactive_job_and_a_job_for_another_machine_are_refused() -> None:
    with pytest.raises(BadRequest, match="no interactive jobs"):
        job("<Interactive>true</Interactive>")
    with pytest.raises(BadRequest, match="for the machine 'Colony'"):
        meant("<Machine>Colony</Machine>", machine="here")
    assert meant("<Machine>Colony</Machine>", machine="colony").jobs


def test_what_became_of_the_job_elsewhere_is_no_input_but_told() -> None:
    text = "<State>Completed</State><ExitCode>3</ExitCode><Delivered><Processors>4</Processors></Delivered>"
    assert {what.partition(":")[0] for what in told(text, Kind.NOTE)} == {"State", "ExitCode", "Delivered"}
    assert job(text).minimum is None


def test_a_million_tasks_are_one_task_and_more_are_refused() -> None:
    assert task(f"<TaskGroup><TaskCount>1000000</TaskCount>{X}</TaskGroup>").instances == 1_000_000
    with pytest.raises(BadRequest, match="TaskCount 1000001"):
        task(f"<TaskGroup><TaskCount>1000001</TaskCount>{X}</TaskGroup>")
