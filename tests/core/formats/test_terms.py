"""Options of the command line become the job and task they mean."""

import subprocess
import sys

import pytest

from headnode.core.formats.slash_options import JOB_TERMS, TASK_TERMS, split_terms
from headnode.core.formats.slash_terms import read_job_terms, read_task_terms, read_terms
from headnode.core.model.dependency import Condition, JobDependency
from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.job import JobSpec, Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, StagedFile, TaskSpec, TaskType

NEEDS_EXAMPLES = [
    ("feature", "gpu,big| huge", "needs", NodeNeeds(features=(("gpu",), ("big", "huge")))),
    ("features", "gpu", "needs", NodeNeeds(features=(("gpu",),))),
    ("lacking", "old,slow", "needs", NodeNeeds(lacking=("old", "slow"))),
    ("featurepattern", "gpu-.{1,2}", "needs", NodeNeeds(feature_patterns=("gpu-.{1,2}",))),
    ("architecture", "x86_64,aarch64", "needs", NodeNeeds(architectures=("x86_64", "aarch64"))),
    ("arch", "x86_64", "needs", NodeNeeds(architectures=("x86_64",))),
    ("system", "Linux", "needs", NodeNeeds(systems=("Linux",))),
    ("os", "Linux", "needs", NodeNeeds(systems=("Linux",))),
    ("onlynodes", "n1 n2", "needs", NodeNeeds(names=("n1", "n2"))),
    ("avoidnodes", "n1,n2", "needs", NodeNeeds(excluded=("n1", "n2"))),
    ("nodepattern", "n[1,2]", "needs", NodeNeeds(patterns=("n[1,2]",))),
    ("avoidpattern", "n.*", "needs", NodeNeeds(excluded_patterns=("n.*",))),
    ("diskpernode", "1000", "needs", NodeNeeds(minimum_disk=1000)),
    ("swappernode", "10", "needs", NodeNeeds(minimum_swap=10)),
    ("virtualpernode", "10", "needs", NodeNeeds(minimum_virtual=10)),
    ("speedpernode", "2400", "needs", NodeNeeds(minimum_speed=2400)),
    ("socketspernode", "2", "needs", NodeNeeds(minimum_sockets=2)),
    ("corespersocket", "16", "needs", NodeNeeds(minimum_cores_per_socket=16)),
    ("threadspercore", "2", "needs", NodeNeeds(minimum_threads_per_core=2)),
    (
        "resourcelimit",
        "nofile=1024,as=1 GB:2 GB,cpu=:9",
        "resource_limits",
        (
            ResourceLimit("nofile", 1024, 1024),
            ResourceLimit("as", 2**30, 2**31),
            ResourceLimit("cpu", None, 9),
        ),
    ),
]
JOB_EXAMPLES = [
    *NEEDS_EXAMPLES,
    ("aftersuccess", "1,2", "parents", (1, 2)),
    ("afterfailure", "1", "after_failure", (1,)),
    ("afterexit", "1,2", "after_exit", (1, 2)),
    ("afterstart", "3", "after_start", (3,)),
    ("aftercorresponding", "3,4", "after_corresponding", (3, 4)),
    ("aftercorr", "3", "after_corresponding", (3,)),
    (
        "dependencies",
        "OnSuccess:12_3,onstart:4+5",
        "dependencies",
        (JobDependency(12, element=3), JobDependency(4, Condition.ON_START, delay=Seconds(300.0))),
    ),
    ("anydependency", "true", "any_dependency", True),
    ("singleton", "true", "singleton", True),
    ("contiguous", "true", "contiguous", True),
    ("endby", "2030-01-02T03:04:05Z", "end_by", 1893553445),
    ("deadline", "2030-01-02T03:04:05Z", "end_by", 1893553445),
    ("holds", "data,review", "holds", ("data", "review")),
    ("hold", "data", "holds", ("data",)),
    ("minimumruntime", "10m", "minimum_run_time", 600.0),
    ("timemin", "10m", "minimum_run_time", 600.0),
    ("switches", "2", "switches", 2),
    ("switcheswait", "10m", "switches_wait", 600.0),
    ("reservation", "Course", "reservation", "Course"),
    ("resource", "physics", "resource", "physics"),
    ("signal", "B:USR1@120", "signal", "B:USR1@120"),
    ("suspendable", "true", "suspendable", True),
    ("preemptable", "false", "preemptable", False),
    ("interactive", "true", "interactive", True),
    ("storagebase", "https://h/d/", "storage_base", "https://h/d/"),
    ("transferattempts", "3", "transfer_attempts", 3),
    ("credential", "store", "credential", "store"),
    ("together", "true", "together", True),
    ("description", "what, for; whom", "description", "what, for; whom"),
    ("jobgroup", "night", "job_group", "night"),
    ("jobname", "j", "name", "j"),
    ("name", "j", "name", "j"),
    ("priority", "abovenormal-10", "priority", 2990),
    ("jobtemplate", "t", "template", "t"),
    ("projectname", "p", "project", "p"),
    ("project", "p", "project", "p"),
    ("runtime", "1:30", "run_time", 5400),
    ("rununtilcanceled", "true", "run_until_canceled", True),
    ("rununtilcancelled", "1", "run_until_canceled", True),
    ("runtillcancelled", "false", "run_until_canceled", False),
    ("exclusive", "True", "exclusive", True),
    ("singlenode", "true", "single_node", True),
    ("numprocessors", "4-8", "maximum", 8),
    ("numcores", "4", "minimum", 4),
    ("numsockets", "1-2", "unit", UnitType.SOCKET),
    ("numnodes", "1-2", "unit", UnitType.NODE),
    ("numgpus", "1-2", "unit", UnitType.GPU),
    ("corespergpu", "8", "processors_per_gpu", 8),
    ("requestednodes", "a,b", "requested_nodes", ("a", "b")),
    ("askednodes", "a b", "requested_nodes", ("a", "b")),
    ("excludednodes", "a", "excluded_nodes", ("a",)),
    ("nodegroup", "g 1,g2", "node_groups", ("g 1", "g2")),
    ("nodegroupop", "union", "node_group_op", NodeGroupOp.UNION),
    ("memorypernode", "100-200", "maximum_memory", 200),
    ("corespernode", "2", "minimum_processors_per_node", 2),
    ("orderby", "memory,-cores", "order_by", (OrderKey("memory"), OrderKey("processors", True))),
    ("license", "f:2,g:*", "licences", (Licence("f", 2), Licence("g", None))),
    ("failontaskfailure", "true", "fail_on_task_failure", True),
    ("faildependenttasks", "true", "fail_dependent_tasks", True),
    (
        "validexitcodes",
        "-1..10,min..-100,7..max",
        "valid_exit_codes",
        ((-1, 10), (-(2**31), -100), (7, 2**31 - 1)),
    ),
    ("parentjobids", "1,2", "parents", (1, 2)),
    ("holduntil", "2030-01-02T03:04:05Z", "hold_until", 1893553445),
    ("emailaddress", "a@b", "email", "a@b"),
    ("notifyonstart", "true", "notify_on_start", True),
    ("notifyoncompletion", "true", "notify_on_completion", True),
    ("customproperties", "a=1;b=", "properties", {"a": "1", "b": ""}),
    ("jobenv", "A=1;B=x y", "environment", {"A": "1", "B": "x y"}),
    ("estimatedprocessmemory", "64", "process_memory", 64),
    ("taskexecutionfailureretrylimit", "3", "task_retry_limit", 3),
    ("user", "anna", "run_as", "anna"),
]
TASK_EXAMPLES = [
    *NEEDS_EXAMPLES,
    ("memorypernode", "500", "needs", NodeNeeds(minimum_memory=500)),
    ("corespernode", "8", "needs", NodeNeeds(minimum_processors=8)),
    ("distribution", "per-node=2", "distribution", Distribution(per_node=2)),
    ("storagebase", "https://h/d/", "storage_base", "https://h/d/"),
    ("transferattempts", "3", "transfer_attempts", 3),
    ("credential", "store", "credential", "store"),
    (
        "stagein",
        "https://h/a?v=1=b\nsftp://h/c/",
        "stage_in",
        (StagedFile("b", "https://h/a?v=1"), StagedFile("c/", "sftp://h/c/")),
    ),
    ("stageout", "r=https://h/r?v=1", "stage_out", (StagedFile("r", "https://h/r?v=1"),)),
    ("name", "t", "name", "t"),
    ("taskname", "t", "name", "t"),
    ("command", "a b", "command", "a b"),
    ("type", "nodeprep", "kind", TaskType.NODE_PREP),
    ("parametric", "1-100:2", "increment", 2),
    ("numprocessors", "2-4", "maximum", 4),
    ("numcores", "2", "maximum", 2),
    ("numsockets", "2", "minimum", 2),
    ("numnodes", "2-3", "minimum", 2),
    ("numgpus", "2-3", "maximum", 3),
    ("exclusive", "true", "exclusive", True),
    ("rerunnable", "false", "rerunnable", False),
    ("runtime", "infinite", "run_time", FOREVER),
    ("workdir", "/w", "work_directory", "/w"),
    ("tmpdir", "true", "temporary_directory", True),
    ("tmpdir", "false", "temporary_directory", False),
    ("stdin", "i", "standard_input", "i"),
    ("stdout", "o", "standard_output", "o"),
    ("stderr", "e", "standard_error", "e"),
    ("env", "PATH=/a;/b;B=2", "environment", {"PATH": "/a;/b", "B": "2"}),
    ("customproperties", "a=1;b=", "properties", {"a": "1", "b": ""}),
    ("depend", "a,b b", "depends_on", ("a", "b b")),
    ("requirednodes", "n1,n2", "required_nodes", ("n1", "n2")),
    ("askednodes", "n1", "required_nodes", ("n1",)),
    ("requestednodes", "n1", "required_nodes", ("n1",)),
    ("requestednodegroup", "g", "node_group", "g"),
    ("failjobonfailure", "true", "fail_job_on_failure", True),
    ("failjobonfailurecount", "5", "fail_job_count", 5),
    ("validexitcodes", "3", "valid_exit_codes", ((3, 3),)),
]


def refusal(job: dict[str, str], *tasks: dict[str, str]) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_terms(job, tasks, now=Instant(0))
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("name", "text", "field", "value"), JOB_EXAMPLES, ids=[row[0] for row in JOB_EXAMPLES]
)
def test_every_job_option_reaches_its_field(name: str, text: str, field: str, value: object) -> None:
    assert getattr(read_job_terms({name.upper(): text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "field", "value"), TASK_EXAMPLES, ids=[row[0] for row in TASK_EXAMPLES]
)
def test_every_task_option_reaches_its_field(name: str, text: str, field: str, value: object) -> None:
    assert getattr(read_task_terms({name: text}), field) == value


def test_no_option_is_without_an_example() -> None:
    for name, rows, terms in (
        ("JOB_EXAMPLES", JOB_EXAMPLES, JOB_TERMS),
        ("TASK_EXAMPLES", TASK_EXAMPLES, TASK_TERMS),
    ):
        differ = {row[0] for row in rows} ^ set(terms)
        assert not differ, f"{name} of this file needs a row of each option; these differ: {differ}"


def test_an_option_of_nodes_leaves_what_others_said_of_them_and_nothing_takes_it_away() -> None:
    base = read_job_terms({"feature": "gpu", "lacking": "old"})
    changed = read_job_terms({"arch": "x86_64", "lacking": "", "diskpernode": "5"}, base)
    assert changed.needs == NodeNeeds(features=(("gpu",),), architectures=("x86_64",), minimum_disk=5)
    gone = read_job_terms({"feature": "", "arch": "", "diskpernode": "", "resourcelimit": ""}, changed)
    assert gone.needs == NodeNeeds()


def test_a_deadline_may_be_in_minutes_and_nothing_takes_it_away() -> None:
    spec = read_job_terms({"endby": "90"}, now=Instant(100.0))
    assert spec.end_by == 5500
    assert read_job_terms({"endby": ""}, spec).end_by is None


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("pernode=2", Distribution(per_node=2)),
        ("nodes = 3", Distribution(nodes=3)),
        ("Round-Robin", Distribution(round_robin=True)),
        ("{1,3} {2}", Distribution(geometry=((1, 3), (2,)))),
        (" ", None),
    ],
)
def test_a_distribution_has_four_ways(text: str, layout: Distribution | None) -> None:
    assert read_task_terms({"distribution": text}).distribution == layout


@pytest.mark.parametrize("text", ["2", "per_node=x", "{1,2", "{a}", "{}{", "nodes=1,per-node=2", "nodes=0"])
def test_no_other_distribution_is_understood(text: str) -> None:
    assert refusal({}, {"distribution": text}).code == "distribution"


@pytest.mark.parametrize(
    ("text", "minimum", "maximum"),
    [("3", 3, 3), ("3-5", 3, 5), ("*", None, None), ("*-5", None, 5), ("3-*", 3, None), ("*-*", None, None)],
)
def test_an_asterisk_leaves_a_size_to_be_calculated(
    text: str, minimum: int | None, maximum: int | None
) -> None:
    spec = read_job_terms({"numcores": text}, JobSpec(minimum=9, maximum=9))
    assert (spec.minimum, spec.maximum) == (minimum, maximum)


@pytest.mark.parametrize(
    ("text", "sweep"),
    [
        ("10", (1, 10, 1)),
        ("2-10", (2, 10, 1)),
        ("2-10:3", (2, 10, 3)),
        ("-5--1", (-5, -1, 1)),
        ("5:2", (1, 5, 2)),
    ],
)
def test_a_sweep_has_a_start_an_end_and_an_increment(text: str, sweep: tuple[int, int, int]) -> None:
    task = read_task_terms({"parametric": text})
    assert (task.kind, (task.start, task.end, task.increment)) == (TaskType.SWEEP, sweep)


def test_options_replace_those_of_a_job_and_leave_the_others() -> None:
    base = JobSpec(
        name="a", project="p", environment={"A": "1", "B": "1"}, hold_until=Instant(5), dialect="ccs"
    )
    spec = read_job_terms({"jobname": "b", "jobenv": "B=2", "holduntil": ""}, base)
    assert spec == JobSpec(name="b", project="p", environment={"A": "1", "B": "2"}, dialect="ccs")


def test_minutes_of_hold_count_from_now_and_need_it() -> None:
    assert read_job_terms({"holduntil": "10"}, now=Instant(100.0)).hold_until == 700
    with pytest.raises(Broken):
        read_job_terms({"holduntil": "10"})


def test_a_task_of_the_command_line_is_rerunnable_unless_it_cannot_be() -> None:
    assert read_task_terms({"command": "a"}) == TaskSpec(command="a", rerunnable=True)
    assert not read_task_terms({"type": "noderelease"}).rerunnable


def test_variables_may_come_by_name() -> None:
    assert read_task_terms({"env": {"A": "x;B=y"}}).environment == {"A": "x;B=y"}


@pytest.mark.parametrize(
    ("flag", "count", "found"),
    [
        ("true", None, (True, 1)),
        ("false", None, (False, 1)),
        (None, "3", (True, 3)),
        ("true", "3", (True, 3)),
        ("false", "3", (False, 1)),
    ],
)
def test_a_count_of_failures_implies_the_flag(
    flag: str | None, count: str | None, found: tuple[bool, int]
) -> None:
    given = {"failjobonfailure": flag, "failjobonfailurecount": count}
    task = read_task_terms({name: text for name, text in given.items() if text is not None})
    assert (task.fail_job_on_failure, task.fail_job_count) == found


def test_a_job_counts_what_its_first_sized_task_counts() -> None:
    spec = read_terms({}, [{"command": "a"}, {"numnodes": "2"}])
    assert (spec.unit, [task.minimum for task in spec.tasks]) == (UnitType.NODE, [1, 2])


def test_an_empty_job_that_was_made_before_takes_the_unit_of_its_first_task() -> None:
    assert read_terms({}, [{"numnodes": "2"}], JobSpec(name="made before")).unit is UnitType.NODE
    with pytest.raises(BadRequest, match="the job counts processors and a task nodes"):
        read_terms({}, [{"numnodes": "2"}], JobSpec(tasks=(TaskSpec(),)))


@pytest.mark.parametrize(
    ("job", "tasks", "code", "text"),
    [
        ({"priorty": "1"}, [], "unknown-option", "did you mean 'priority'?"),
        ({}, [{"stdot": "x"}], "unknown-option", "did you mean 'stdout'?"),
        ({"zzz": "1"}, [], "unknown-option", "choose one of aftercorresponding, afterexit"),
        ({"password": "x"}, [], "no-passwords", "known from the login"),
        ({"numcores": "2", "NumProcessors": "3"}, [], "given-twice", "'numprocessors' once"),
        ({"numcores": "2", "numnodes": "2"}, [], "unit-mismatch", "give one"),
        ({"numcores": "2"}, [{"numnodes": "2"}], "unit-mismatch", "same option"),
        ({}, [{"numcores": "*"}], "size", "numbers"),
        ({"numcores": "0x2"}, [], "size", "2-8"),
        ({"runtime": "an hour"}, [], "run-time", "infinite"),
        ({"priority": "4001"}, [], "priority", "0 to 4000"),
        ({"license": "f"}, [], "licence", "feature:amount"),
        ({"orderby": "#3"}, [], "order-by", "Memory"),
        ({"nodegroupop": "unoin"}, [], "node-group-operator", "'Union'?"),
        ({"customproperties": "a b=1"}, [], "pairs", "underscores"),
        ({"jobenv": "A"}, [], "pairs", "name=value"),
        ({"holduntil": "tomorrow"}, [], "date-time", "2030-01-31"),
        ({"exclusive": "maybe"}, [], "flag", "true or false"),
        ({}, [{"parametric": "a-b"}], "parametric", "1-100:2"),
        ({}, [{"parametric": "1-3", "type": "basic"}], "parametric", "no other type"),
        ({}, [{"type": "parametric"}], "parametric", "1-100:2"),
        ({}, [{"env": 3}], "option-value", "text"),
        ({}, [{"env": {"A": 3}}], "option-value", "text"),
        ({"jobname": None}, [], "option-value", "text"),
    ],
)
def test_what_is_wrong_is_refused_with_the_way_out(
    job: dict[str, str], tasks: list[dict[str, str]], code: str, text: str
) -> None:
    wrong = refusal(job, *tasks)
    assert (wrong.code, text in wrong.fix) == (code, True), str(wrong)


def test_a_wrong_value_names_its_option() -> None:
    assert "option 'runtime'" in refusal({"runtime": "x"}).what


def test_the_options_of_a_job_of_one_task_are_divided() -> None:
    job, task = split_terms(
        {"numcores": "2-4", "stdout": "o", "exclusive": "true", "name": "n", "runtime": "3", "zzz": "1"}
    )
    assert job == {"numcores": "2-4", "exclusive": "true", "name": "n", "runtime": "3", "zzz": "1"}
    assert task == {"numcores": "2-4", "stdout": "o"}
    assert split_terms({"numcores": "2-*"}) == ({"numcores": "2-*"}, {})


def test_every_other_spelling_leads_to_an_option() -> None:
    for table in (JOB_TERMS, TASK_TERMS):
        for name, term in table.items():
            assert not term.same_as or not table[term.same_as].same_as, name


def test_options_are_read_without_lxml() -> None:
    program = "import sys, headnode.core.formats.slash_terms; sys.exit('lxml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [
        ("4G", 4096, None),
        ("4 GB", 4096, None),
        ("1.5G-3G", 1536, 3072),
        ("4-16 GB", 4096, 16384),
        ("*-2G", None, 2048),
        ("500M", 500, None),
        ("0", None, None),
        ("", None, None),
    ],
)
def test_memory_of_a_node_may_have_its_unit_and_is_mb_without(
    written: str, least: int | None, most: int | None
) -> None:
    spec = read_terms({"memorypernode": written})
    assert (spec.minimum_memory, spec.maximum_memory) == (least, most)


@pytest.mark.parametrize(("written", "megabytes"), [("2G", 2048), ("1.5 GB", 1536), ("300m", 300), ("7", 7)])
def test_memory_of_a_process_and_of_the_nodes_of_a_task_may_have_its_unit(
    written: str, megabytes: int
) -> None:
    assert read_terms({"estimatedprocessmemory": written}).process_memory == megabytes
    assert read_task_terms({"command": "true", "memorypernode": written}).needs.minimum_memory == megabytes
    assert read_task_terms({"command": "true", "diskpernode": written}).needs.minimum_disk == megabytes


@pytest.mark.parametrize(
    ("name", "written", "fix"),
    [
        ("memorypernode", "much", "a number with its unit"),
        ("estimatedprocessmemory", "4X", "a number with its unit"),
        ("estimatedprocessmemory", "-1", "0 to 2147483647"),
        ("estimatedprocessmemory", "1.5", "0 to 2147483647"),
        ("parentjobids", "first", "with commas between them"),
    ],
)
def test_a_wrong_amount_or_id_says_what_may_be_written(name: str, written: str, fix: str) -> None:
    with pytest.raises(BadRequest, match=name) as refused:
        read_terms({name: written})
    assert fix in refused.value.fix
