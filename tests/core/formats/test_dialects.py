"""Every job language is known by its content; what is lost from one to another is what the report lists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from depth import share_of
from headnode.core.formats import grid, hpc_xml, native
from headnode.core.formats.dialects import (
    DIALECTS,
    WRITTEN,
    JobLanguage,
    ReadOptions,
    convert,
    dialect_named,
    language_of,
    locate,
    read,
    write,
)
from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport, lossy_items
from headnode.core.formats.grid import keys as grid_keys
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.formats.native import keys as native_keys
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant
from headnode.core.model.task import ResourceLimit, TaskSpec, TaskType, argv_of
from headnode.core.state.transitions import JobState

from .shared import SHARED
from .specs import whole_jobs

GOLDEN = Path(__file__).parents[2] / "golden"
FOLDERS = {
    "job_xml": JobLanguage.COMPUTE_CLUSTER,
    "sss": JobLanguage.SSS,
    "grid": JobLanguage.GRID,
    "native_form": JobLanguage.NATIVE,
    "condor": JobLanguage.CONDOR,
}
FILES = [(path, language) for folder, language in FOLDERS.items() for path in (GOLDEN / folder).iterdir()]
OWN = Path(__file__).parents[2] / "samples"
SAMPLES = {  # of our own, and of others where they are beside the repository
    "ccs": sorted([*(OWN / "ccs").iterdir(), *(SHARED / "samples" / "ccs").glob("*.xml")]),
    "grid": sorted([*(OWN / "grid").iterdir(), *(SHARED / "samples" / "grid" / "jobs").glob("*.js*")]),
    "sss": sorted([*(OWN / "sss").iterdir(), *(SHARED / "samples" / "sss" / "seed").glob("*.xml")]),
}
OF_SAMPLES = {"ccs": JobLanguage.COMPUTE_CLUSTER, "grid": JobLanguage.GRID, "sss": JobLanguage.SSS}
REFUSED = {
    "broken_attribute": "line 4, column 38: not well-formed XML",
    "cycle": "line 7, column 8: the tasks wait for each other in a circle",
    "misspelt_key": "line 9, column 8: task 'a': 'ouput_files'",
    "missing_comma": "line 11, column 4: not JSON",
    "typographic_quotes": "line 6, column 19: not well-formed XML",
    # what the samples are refused for, by the beginning of their names; all others are read
    "012": "line 8, column 14: not well-formed XML",
    "03_": "line 9, column 29: the tasks wait for each other in a circle",
    "04_": "line 7, column 15: task 'a': file 'task_simple.js'",
    "07_": "line 14, column 10: task 'a': 'ouput_files'",
    "20_rest_GET_job_response_RAW": "line 18, column 2: not JSON",
    "001_ex25-2_moderate.RAW": "line 1, column 534: not well-formed XML",
    "001_ex25-3_elaborate.RAW": "line 1, column 346: not well-formed XML",
    "002_ex2_moderate.RAW": "line 18, column 15: not well-formed XML",
    "002_ex3_elaborate.RAW": "line 13, column 15: not well-formed XML",
}
MANY = settings(
    max_examples=share_of(60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # explaining takes minutes
)
SAME_WORDS = ("is set to an empty value, not removed",)  # the same words mean something else there
FEW = settings(MANY, max_examples=share_of(15))  # each is sixty jobs
TOGETHER = (
    ("kind", "start", "end", "increment"),
    ("fail_job_on_failure", "fail_job_count"),
)
"""Fields of a task that mean something only together."""


JOB_FILES = [name for name in WRITTEN if DIALECTS[name].language is not JobLanguage.BATCH]
"""A batch script is the program itself: what is written into one is tried in test_batch_scripts."""


def alone(name: str) -> tuple[str, ...]:
    """Return a field of a task with those it belongs together with."""
    return next((fields for fields in TOGETHER if name in fields), (name,))


JOB_FIELDS = [name for name in JobSpec.__struct_fields__ if name not in ("tasks", "dialect")]
TASK_FIELDS = sorted({alone(name) for name in TaskSpec.__struct_fields__})


def is_reported(report: FidelityReport) -> bool:
    return any(item.kind is Fidelity.TRANSLATED for item in report) or bool(lossy_items(report))


@pytest.mark.parametrize(("path", "language"), FILES, ids=lambda value: getattr(value, "name", None))
def test_every_golden_file_is_known_by_its_content(path: Path, language: JobLanguage) -> None:
    data = path.read_bytes()
    assert language_of(data) is language
    assert language_of(data.decode()) is language
    assert language_of(b"\xef\xbb\xbf" + data) is language
    assert language_of(data.decode().encode("utf-16")) is language


def test_the_names_of_the_dialects_are_those_that_their_readers_and_writers_use() -> None:
    assert [name for name, one in DIALECTS.items() if one.language is JobLanguage.COMPUTE_CLUSTER] == [
        *hpc_xml.DIALECTS
    ]
    assert [name for name, one in DIALECTS.items() if one.language is JobLanguage.GRID] == [*grid.DIALECTS]
    assert [name for name, one in DIALECTS.items() if one.language is JobLanguage.NATIVE] == [
        native.TOML,
        native.JSON,
    ]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.name) for paths in SAMPLES.values() for path in paths],
)
def test_every_sample_is_read_or_refused_for_the_reason_it_gives(path: Path) -> None:
    folder = next(name for name, paths in SAMPLES.items() if path in paths)
    assert language_of(path.read_bytes()) is OF_SAMPLES[folder]
    wrong = next((what for name, what in REFUSED.items() if path.name.startswith(name)), None)
    if wrong is None:
        reading = read(path.read_bytes())
        assert DIALECTS[reading.dialect].language is OF_SAMPLES[folder]
        return
    with pytest.raises(BadRequest) as refusal:
        read(path.read_bytes())
    assert refusal.value.what.startswith(wrong)
    assert refusal.value.fix


def test_the_damaged_samples_are_read_leniently_with_every_repair_reported() -> None:
    damaged = [
        path for name in ("sss", "grid") for path in SAMPLES[name] if path.name.startswith((*REFUSED,))
    ]
    mended = [path for path in damaged if not path.name.startswith(("03_", "04_", "20_", "cycle", "missing"))]
    assert mended
    for path in mended:
        assert lossy_items(read(path.read_bytes(), ReadOptions(lenient=True)).report) or "sss" in str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n\t", "the file is empty"),
        ("#!/usr/bin/env python\n", "this is a script, not"),
        ("\x7fELF\x02", "this is a program"),
    ],
)
def test_what_is_no_job_file_is_reported_with_the_way_out(text: str, message: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(BadRequest) as refusal:
            read(data)
        assert message in refusal.value.what
        assert "hn " in refusal.value.fix


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("<Task CommandLine='x'/>", JobLanguage.COMPUTE_CLUSTER),
        ("<Job", JobLanguage.COMPUTE_CLUSTER),
        ("<Job><Id>1</Id><Executable>/bin/x</Executable></Jo", JobLanguage.SSS),
        ("<JobGroup><Job/></JobGroup>", JobLanguage.SSS),
        ("<Envelope><Body/></Envelope>", JobLanguage.SSS),
        ('{"version": 2, "tasks": [', JobLanguage.GRID),
        ('{"tasks": [{"id": "a"}]}', JobLanguage.GRID),
        ('{"command": "x", "properties": {"version": "2"}', JobLanguage.NATIVE),
        ('{"tasks": [{"command": "x"}]}', JobLanguage.NATIVE),
        ('[{"id": 1}]', JobLanguage.GRID),
        ('[[tasks]]\ncommand = "x"', JobLanguage.NATIVE),
        ('name = "a"', JobLanguage.NATIVE),
        ("{", JobLanguage.NATIVE),
    ],
)
def test_a_damaged_file_is_known_too(text: str, language: JobLanguage) -> None:
    assert language_of(text) is language


def test_a_language_that_is_named_is_believed() -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        read('command = "x"', ReadOptions(language=JobLanguage.GRID))


def test_an_unknown_language_is_refused_with_the_nearest() -> None:
    assert dialect_named(" CCS ").name == "ccs"
    with pytest.raises(BadRequest) as refusal:
        dialect_named("hpcpak")
    assert refusal.value.fix.startswith("did you mean 'hpcpack'? choose from: ccs, ")


@pytest.mark.parametrize(
    "text",
    [
        '<Job><Tasks>\n<Task CommandLine="a" DependsOn="zz"/></Tasks></Job>',
        '{"version": 2, "tasks": [\n{"id": "a", "definition": {"version": 2, "executable": "/a", '
        '"environment": {"A=B": "x"}}}]}',
        'name = "x"\n[[tasks]]\ncommand = "a"\ndepends_on = "zz"',
    ],
)
def test_a_refusal_after_reading_gets_its_place(text: str) -> None:
    reading = read(text)
    with pytest.raises(BadRequest) as refusal:
        check_job(reading.only_job())
    placed = locate(text, DIALECTS[reading.dialect].language, refusal.value)
    assert placed.what.startswith("line 2, column ")
    assert placed.what.endswith(refusal.value.what)


OF_TWO_TASKS = {
    JobLanguage.COMPUTE_CLUSTER: (
        '<Job>\n<Tasks><Task CommandLine="x"/>\n <Task CommandLine="x"/></Tasks></Job>',
        {"job": (1, 0), "task": (3, 1)},
    ),
    JobLanguage.NATIVE: (
        '\n[[tasks]]\ncommand = "x"\n[[tasks]]\ncommand = "x"\n',
        {"job": (1, 0), "task": (4, 0)},
    ),
    JobLanguage.GRID: (
        '{"version": 2, "tasks": [\n{"id": "a", "definition": {"version": 2, "executable": "/a"}},\n'
        ' {"id": "b", "definition": {"version": 2, "executable": "/a"}}]}',
        {"job": (1, 0), "task": (3, 1)},
    ),
    JobLanguage.SSS: (
        "<Data>\n<Job><Id>1</Id><TaskGroup><Executable>/a</Executable></TaskGroup>\n"
        " <TaskGroup><Executable>/a</Executable></TaskGroup></Job></Data>",
        {"job": (2, 0), "task": (3, 1)},
    ),
}
WRONG_FIELDS: dict[str, list[dict[str, Any]]] = {
    "job": [
        {"minimum": 0},
        {"priority": 9999},
        {"environment": {"": "x"}},
        {"requested_nodes": ("n",), "excluded_nodes": ("n",)},
        {"description": "task 2\0"},
    ],
    "task": [
        {"minimum": 0},
        {"run_time": -1.0},
        {"name": "a,b"},
        {"command": "a\0"},
        {"environment": {"": "x"}},
        {"depends_on": ("nobody",)},
        {"needs": NodeNeeds(patterns=("(",))},
        {"resource_limits": (ResourceLimit("cpus", 1),)},
    ],
}


@pytest.mark.parametrize("language", OF_TWO_TASKS)
@pytest.mark.parametrize(
    ("part", "wrong"), [(part, wrong) for part, each in WRONG_FIELDS.items() for wrong in each]
)
def test_the_place_of_a_refusal_follows_its_path_and_not_its_words(
    language: JobLanguage, part: str, wrong: dict[str, Any]
) -> None:
    text, places = OF_TWO_TASKS[language]
    spec = read(text).only_job()
    if part == "job":
        spec = replace(spec, **wrong)
    else:
        spec = replace(spec, tasks=(spec.tasks[0], replace(spec.tasks[1], **wrong)))
    with pytest.raises(BadRequest) as refused:
        check_job(spec)
    path = refused.value.path
    assert path[:2] == ("tasks", 1) if part == "task" else path[0] in wrong
    for words in (refused.value.what, "task 1 is fine, line 7, column 7: and task 9 of job '1' is not"):
        reworded = BadRequest(code=refused.value.code, what=words, fix="x", path=path)
        found = locate(text, language, reworded)
        assert (found.place, found.sentence) == (places[part], words)


@pytest.mark.parametrize("dialect", WRITTEN)
@pytest.mark.parametrize(("path", "language"), FILES, ids=lambda value: getattr(value, "name", None))
def test_round_trips_within_a_language_are_identities(
    path: Path, language: JobLanguage, dialect: str
) -> None:
    if DIALECTS[dialect].language is not language or dialect == "grid-task":
        return
    data = path.read_bytes()
    was, _, (text, report) = convert(data, ReadOptions(), dialect)
    now, _, (again, _) = convert(text, ReadOptions(), was)
    assert now == dialect
    if not is_reported(report):
        assert convert(again, ReadOptions(), dialect)[2][0] == text
    if not is_reported(report) and language is not JobLanguage.SSS:  # whose samples need not make sense
        assert [replace(job, dialect="") for job in read(text).jobs] == [
            replace(job, dialect="") for job in read(data).jobs
        ]


def test_sss_is_respelled_with_all_its_jobs() -> None:
    data = (GOLDEN / "sss" / "group_3_1_0.xml").read_bytes()
    _, _, (old, report) = convert(data, ReadOptions(), "sss-3.0")
    assert not lossy_items(report)
    assert old == (GOLDEN / "sss" / "group_3_0_3.xml").read_bytes()
    assert len(read(old).jobs) == len(read(data).jobs) > 1


def test_several_jobs_do_not_become_one() -> None:
    data = (GOLDEN / "sss" / "group_3_1_0.xml").read_bytes()
    with pytest.raises(BadRequest, match="several-jobs"):
        convert(data, ReadOptions(), "hpcpack")


def test_under_reject_a_job_that_loses_something_is_not_converted() -> None:
    reject = ReadOptions(awareness=Awareness.REJECT)
    with pytest.raises(BadRequest, match="project: a grid job has no such property") as refusal:
        convert('project = "p"\ncommand = "/bin/a"', reject, "grid")
    assert refusal.value.code == "not-understood"
    assert convert('command = "/bin/a"', reject, "hpcpack")[0] == "native"


def meaning(spec: JobSpec) -> Any:
    """Return what a job does, without the words in which it says so.

    A job's environment and exit codes count for each of its tasks, groups only order tasks, a name that
    nothing has is waited for by nobody, a node or parent that is named twice is one.  A job of one task fails
    with it, requests the one node it requires, and with one processor is on one node.  A hold until 1970 is
    over.  An alternative that counts what the job counts needs no unit.  The Id that a job of SSS must have
    says nothing.
    """
    tasks = [meaning_of_task(spec, number) for number in range(len(spec.tasks))]
    moot = {"environment": {}, "valid_exit_codes": (), "group_edges": (), "dialect": "", "tasks": ()}
    nodes = tuple(dict.fromkeys(spec.requested_nodes))
    together = spec.single_node
    alone = [task.instances for task in spec.tasks] == [1]
    if alone:
        (only,) = spec.tasks
        nodes = nodes or (only.required_nodes if len(only.required_nodes) == 1 else ())
        together = together and only.minimum > 1
    first = spec.fail_on_task_failure or alone
    same = {
        "extensions": anonymous(spec).extensions,
        "requested_nodes": nodes,
        "single_node": together,
        "fail_on_task_failure": first,
        "fail_dependent_tasks": spec.fail_dependent_tasks and not first,
        "hold_until": spec.hold_until or None,
        "parents": tuple(dict.fromkeys(spec.parents)),
        "named_parents": tuple(dict.fromkeys(spec.named_parents)),
        "alternatives": tuple(
            replace(one, unit=None) if one.unit is spec.unit else one for one in spec.alternatives
        ),
    }
    return replace(spec, **(moot | same)), tasks


def meaning_of_task(spec: JobSpec, number: int) -> Any:
    task = spec.tasks[number]
    before = {edge.parent for edge in spec.group_edges if edge.child == task.group}
    waits = [
        other
        for other, one in enumerate(spec.tasks)
        if (one.name in task.depends_on or one.group in before) and other != number
    ]
    required = () if len(spec.tasks) == len(task.required_nodes) == 1 else task.required_nodes
    swept = {} if task.kind is TaskType.SWEEP else {"start": 0, "end": 0, "increment": 1}
    codes = spec.valid_exit_codes if task.valid_exit_codes is None else task.valid_exit_codes
    argv = argv_of(task.command) if task.command else ()
    found = {"environment": {}, "depends_on": (), "group": None, "command": "", "valid_exit_codes": None}
    plain = replace(task, **(swept | found), required_nodes=required)
    return plain, waits, codes, argv, {**spec.environment, **task.environment}


def anonymous(spec: JobSpec) -> JobSpec:
    """Return a job without its language, and without the Id that SSS gives it."""
    extensions = {name: text for name, text in spec.extensions.items() if name != "<Id>"}
    return replace(spec, dialect="", extensions=extensions)


def is_possible(spec: JobSpec) -> bool:
    """Whether the job can be read at all.

    No maximum is below its minimum, no task waits for itself, no sweep is without values, alternatives know
    each task or none, no hold is named twice.
    """
    bounds = [
        (spec.minimum, spec.maximum),
        (spec.minimum_memory, spec.maximum_memory),
        (spec.minimum_processors_per_node, spec.maximum_processors_per_node),
        *((task.minimum, task.maximum) for task in spec.tasks),
    ]
    in_bounds = all(least is None or most is None or least <= most for least, most in bounds)
    known = all(len(other.tasks) in (0, len(spec.tasks)) for other in spec.alternatives)
    once = len(set(spec.holds)) == len(spec.holds)
    tasks = all(task.instances > 0 and task.name not in task.depends_on for task in spec.tasks)
    return in_bounds and known and once and tasks


def plain_job(dialect: str) -> JobSpec:
    """Return a job of which nothing is lost in `dialect`."""
    tasks = (TaskSpec(name="a", command="/bin/a x"), TaskSpec(name="b", command="/bin/b"))
    if dialect == "grid-task":
        return JobSpec(tasks=(TaskSpec(command="/bin/a x", private_directory=True),))
    if dialect == "htcondor":
        return JobSpec(name="a", single_node=True, tasks=(TaskSpec(command="/bin/a x", rerunnable=True),))
    if dialect == "grid":
        alone = tuple(replace(task, private_directory=True) for task in tasks)
        return JobSpec(tasks=alone, fail_on_task_failure=True)
    if dialect.startswith("sss"):
        return JobSpec(minimum=1, maximum=1, tasks=tasks[:1])
    return JobSpec(minimum=1, maximum=2, tasks=tasks) if dialect == "ccs" else JobSpec(tasks=tasks)


def each_wish(other: JobSpec, base: JobSpec) -> Iterator[JobSpec]:
    """Yield jobs that differ from `base` in one thing, which is as in `other` or its first task."""
    for name in JOB_FIELDS:
        yield replace(base, **{name: getattr(other, name)})
    for names in TASK_FIELDS:
        task = replace(base.tasks[0], **{name: getattr(other.tasks[0], name) for name in names})
        yield replace(base, tasks=(task, *base.tasks[1:]))


def written(spec: JobSpec, dialect: str) -> tuple[bytes, FidelityReport]:
    """Write a job; return nothing if the dialect has no room for one of such a shape."""
    try:
        return write(spec, dialect)
    except BadRequest as no:
        if no.code not in ("too-large", "one-task", "no-command", "no-tasks"):
            raise
        return b"", ()


@pytest.mark.parametrize("dialect", JOB_FILES)
@given(other=whole_jobs().filter(lambda job: bool(job.tasks)))
@FEW
def test_a_single_wish_is_lost_exactly_if_the_report_says_so(dialect: str, other: JobSpec) -> None:
    base = plain_job(dialect)
    assert not is_reported(write(base, dialect)[1])
    for spec in filter(is_possible, each_wish(other, base)):
        text, report = written(spec, dialect)
        if not text:
            continue
        back = read(text).only_job()
        if any(not item.what.endswith(SAME_WORDS) for item in lossy_items(report)):
            assert anonymous(back) != anonymous(spec)
        if meaning(back) != meaning(spec):
            assert is_reported(report)


FREE_TEXTS = ("name", "description", "job_group", "project", "template", "reservation", "email", "run_as")
ODD_TEXTS = (" ", "\t", "\u00a0", " x ", "x\ny", "x\x85y")


@pytest.mark.parametrize("text", ODD_TEXTS, ids=repr)
@pytest.mark.parametrize("dialect", JOB_FILES)
def test_a_text_of_blanks_or_with_a_line_end_comes_back_or_is_reported(dialect: str, text: str) -> None:
    base = plain_job(dialect)
    for spec in filter(is_possible, (replace(base, **{field: text}) for field in FREE_TEXTS)):
        data, report = written(spec, dialect)
        if data and meaning(read(data).only_job()) != meaning(spec):
            assert is_reported(report), spec


@pytest.mark.parametrize("dialect", JOB_FILES)
def test_what_a_task_needs_of_nodes_is_not_taken_for_the_needs_of_its_job_in_silence(dialect: str) -> None:
    base = plain_job(dialect)
    for needs in (NodeNeeds(excluded=("n1",)), NodeNeeds(names=("n1",)), NodeNeeds(minimum_processors=2)):
        spec = replace(base, tasks=(replace(base.tasks[0], needs=needs),))
        text, report = written(spec, dialect)
        if text and meaning(read(text).only_job()) != meaning(spec):
            assert is_reported(report), needs


def test_a_hold_until_the_beginning_of_1970_is_not_lost_silently() -> None:
    """Its moment is the number 0, which is false."""
    spec = replace(plain_job("hpcpack-2008"), hold_until=Instant(0.0))
    assert [item.what.partition(":")[0] for item in lossy_items(write(spec, "hpcpack-2008")[1])] == [
        "HoldUntil"
    ]


NEEDS = {
    "names": {"names": ("n1", "n2")},
    "excluded": {"excluded": ("n1",)},
    "minimum_memory": {"minimum_memory": 500},
    "minimum_processors": {"minimum_processors": 8},
}


@pytest.mark.parametrize("wish", NEEDS)
def test_what_nodes_must_have_is_said_in_the_older_words_of_hpc_pack_where_they_mean_the_same(
    wish: str,
) -> None:
    spec = replace(plain_job("hpcpack"), needs=NodeNeeds(**NEEDS[wish]))
    text, report = write(spec, "hpcpack")
    assert [item.kind for item in report] == [Fidelity.TRANSLATED]
    back = read(text).only_job()
    assert back.needs == NodeNeeds()
    older = (back.requested_nodes, back.excluded_nodes, back.minimum_memory, back.minimum_processors_per_node)
    assert [value for value in older if value] == [*NEEDS[wish].values()]  # type: ignore[attr-defined]


def test_features_become_groups_of_nodes_in_hpc_pack_and_choices_between_them_are_lost() -> None:
    spec = replace(plain_job("hpcpack"), needs=NodeNeeds(features=(("gpu",), ("big",))), node_groups=("a",))
    text, report = write(spec, "hpcpack")
    assert read(text).only_job().node_groups == ("a", "gpu", "big")
    assert [item.kind for item in report] == [Fidelity.APPROXIMATED]
    choice = replace(spec, needs=NodeNeeds(features=(("gpu", "big"),)))
    assert [item.what.partition(":")[0] for item in lossy_items(write(choice, "hpcpack")[1])] == [
        "needs.features"
    ]


def test_a_feature_of_a_sweep_is_reported_once_though_ccs_has_a_task_for_each_of_its_instances() -> None:
    task = TaskSpec(command="a *", kind=TaskType.SWEEP, start=1, end=50, needs=NodeNeeds(lacking=("old",)))
    report = write(JobSpec(tasks=(task,)), "ccs")[1]
    assert [item.what for item in report if "lacking" in item.what] == [
        "needs.lacking: Compute Cluster Server 2003 has no such requirement on nodes"
    ]


@pytest.mark.parametrize("dialect", JOB_FILES)
@given(data=st.data())
@MANY
def test_a_job_of_which_nothing_is_told_is_the_same_in_the_other_language(
    dialect: str, data: st.DataObject
) -> None:
    spec = data.draw(whole_jobs(data.draw(st.sampled_from([*hpc_xml.DIALECTS]))))
    text, report = written(spec, dialect)
    if not text:
        return
    if not is_reported(report) and is_possible(spec):
        assert meaning(read(text).only_job()) == meaning(spec)


@given(st.binary(max_size=300) | st.text(max_size=300))
@MANY
def test_whatever_a_file_holds_it_is_read_or_refused_with_a_way_out(data: bytes | str) -> None:
    try:
        reading = read(data)
    except BadRequest as refusal:
        found = refusal.fix
    else:
        found = reading.dialect
    assert found


@pytest.mark.parametrize("start", ["<", "{", "[[", "#!", '<Job a="', '{"tasks": [', 'a = "'])
@pytest.mark.parametrize("end", ["\0", "\u202e", "\ud800", "9" * 5000, "[" * 5000, "<a>" * 5000, "&a;"])
def test_hostile_files_are_refused_with_a_way_out(start: str, end: str) -> None:
    for data in (start + end, (start + end).encode("utf-8", "surrogatepass")):
        with pytest.raises(BadRequest) as refusal:
            read(data)
        assert refusal.value.what


def test_a_job_of_the_cluster_is_shown_in_sss_with_what_was_delivered() -> None:
    spec = JobSpec(name="j", tasks=(TaskSpec(command="/bin/a"),))
    live = ExportedJob(
        id=7,
        state=JobState.FAILED,
        owner="ada",
        submitted=Instant(100.0),
        started=Instant(110.4),
        ended=Instant(140.0),
        nodes=("n1", "n2"),
        tasks={1: ExportedTask(exit_code=3)},
    )
    text = write(spec, "sss", live)[0].decode()
    for found in (
        *("<Id>7</Id>", "<State>Completed</State>", "<SubmitTime>100</SubmitTime>", "<ExitCode>3</ExitCode>"),
        *("<StartTime>110</StartTime>", "<EndTime>140</EndTime>", "<Duration>30</Duration>"),
        *("<User>ada</User>", "<NodeCount>2</NodeCount>", "<Node>n1</Node>", "<Node>n2</Node>"),
    ):
        assert found in text
    reading = read(text)
    assert not lossy_items(reading.report)
    assert meaning(reading.only_job()) == meaning(spec)
    queued = write(spec, "sss-3.0", ExportedJob(id=8, state=JobState.QUEUED, submitted=Instant(1.0)))[
        0
    ].decode()
    assert "<JobState>Idle</JobState>" in queued
    assert "Delivered" not in queued


CIRCLES = {
    "hpcpack": (
        '<Job><Tasks>\n<Task Name="z" CommandLine="x"/>\n  <Task Name="a" DependsOn="b" CommandLine="x"/>\n'
        '<Task Name="b" DependsOn="a" CommandLine="x"/></Tasks></Job>',
        "line 3, column 2: task 2 ('a') waits for itself: 'a' -> 'b' -> 'a'",
    ),
    "native": (
        '[[tasks]]\nname = "z"\n[[tasks]]\nname = "a"\ndepends_on = "b"\n[[tasks]]\nname = "b"\n'
        'depends_on = "a"\n',
        "line 3, column 0: task 2 ('a') waits for itself: 'a' -> 'b' -> 'a'",
    ),
}


@pytest.mark.parametrize("dialect", CIRCLES)
def test_tasks_that_wait_in_a_circle_are_refused_at_the_first_of_them(dialect: str) -> None:
    text, found = CIRCLES[dialect]
    reading = read(text.encode())
    with pytest.raises(BadRequest) as refusal:
        check_job(reading.only_job())
    assert locate(text, DIALECTS[reading.dialect].language, refusal.value).what == found


_GRIDS = {
    key for table in (grid_keys.JOB_ROWS, grid_keys.ITEM_ROWS, grid_keys.TASK_ROWS) for key in table.by_key
}
_NATIVES = {*native_keys.JOB_KEYS, *native_keys.TASK_KEYS}


@given(st.lists(st.sampled_from(sorted(_GRIDS | _NATIVES))))
def test_json_is_of_the_language_that_alone_has_more_of_its_keys(keys: list[str]) -> None:
    text = "{" + ", ".join(f'"{key}": 0' for key in keys) + "}"
    of_grid = sum(key in _GRIDS - _NATIVES for key in keys)
    of_native = sum(key in _NATIVES - _GRIDS for key in keys)
    assert language_of(text) is (JobLanguage.GRID if of_grid > of_native else JobLanguage.NATIVE)
