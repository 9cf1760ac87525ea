"""A grid description becomes a job; what is wrong with it is said with its place and what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headnode.core.formats.dialects.reading import JobLanguage, locate
from headnode.core.formats.fidelity import Awareness, Fidelity, lossy_items
from headnode.core.formats.grid import (
    Behaviour,
    GridOptions,
    files_named,
    read_job,
    refuse_other_batch,
    write_job,
)
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.staging import (
    FileTransfer,
    TransferDirection,
    attempts_of,
    file_url,
    local_path,
    resolve,
    transfers_of,
)
from headnode.core.model.task import Distribution

from .shared import SHARED

SAMPLES = sorted((SHARED / "samples" / "grid").glob("[js]*[sd]/*")) if SHARED.exists() else []
needs_samples = pytest.mark.skipif(not SAMPLES, reason="the samples are not beside the repository")


def job(*tasks: dict[str, Any], **keys: Any) -> str:
    return json.dumps({"version": 2, "tasks": list(tasks), **keys})


def task(name: str, *children: str, **keys: Any) -> dict[str, Any]:
    definition = {"version": 2, "executable": "/bin/true", **keys}
    return {"id": name, "definition": definition} | ({"children": list(children)} if children else {})


def read(text: str | bytes, **options: Any) -> JobSpec:
    return read_job(text, GridOptions(**options))[0]


def reported(text: str, **options: Any) -> list[str]:
    report = read_job(text, GridOptions(**options))[1]
    return [f"{item.kind.value} {item.where}: {item.what}" for item in report]


def refusal(text: str | bytes, **options: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read(text, **options)
    assert caught.value.fix, str(caught.value)
    return caught.value


REFUSED_SAMPLES = {
    "03_invalid_cycle_sabcd.js": "line 9, column 29: the tasks wait for each other in a circle: a -> b -> c",
    "04_diamond_filename.js": "line 7, column 15: task 'a': file 'task_simple.js' with the definition",
    "07_storage_base_override_ouput_typo.js": "line 14, column 10: task 'a': 'ouput_files' is not a key",
    "20_rest_GET_job_response_RAW_missing_comma.js": "line 18, column 2: not JSON: expected ',' or '}'",
    "004_block2.json": "line 14, column 0: task 'a': 'ouput_files' is not a key of a task definition",
    "004_block3.json": "line 4, column 0: task 'a': 'executable' is not a key of a task",
    "004_block4.json": "line 4, column 0: task 'a': 'executable' is not a key of a task",
    "004_block5.json": "line 1, column 0: the description has neither 'tasks', as a job has",
}


@needs_samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_read_or_refused_for_its_reason(path: Path) -> None:
    if path.name in REFUSED_SAMPLES:
        assert refusal(path.read_bytes()).what.startswith(REFUSED_SAMPLES[path.name])
        return
    spec = read(path.read_bytes())
    check_job(spec)
    check_runnable(spec)


@needs_samples
@pytest.mark.parametrize(
    "name", ["004_block2.json", "004_block3.json", "07_storage_base_override_ouput_typo.js"]
)
def test_a_lenient_read_takes_the_published_examples_and_says_what_it_repaired(name: str) -> None:
    path = next(path for path in SAMPLES if path.name == name)
    _, report = read_job(path.read_bytes(), GridOptions(lenient=True))
    assert any(
        "it is read as 'output_files'" in item.what or "its definition" in item.what for item in report
    )


@needs_samples
def test_two_ways_to_write_the_same_requirements_are_the_same() -> None:
    blocks = [path.read_bytes() for path in SAMPLES if path.name in ("004_block3.json", "004_block4.json")]
    from_job, of_task = (read(block, lenient=True) for block in blocks)
    assert (from_job.extensions, from_job.template) == ({"requirements.lrms": "Cleo"}, "long")
    assert of_task.tasks[0].extensions["definition.requirements.lrms"] == "Cleo"
    assert of_task.template == "long"


def test_a_diamond_becomes_dependencies_by_name() -> None:
    spec = read(job(task("a", "b", "c"), task("b", "d"), task("c", "d"), task("d"), description="Diamond"))
    assert [(one.name, one.depends_on) for one in spec.tasks] == [
        ("a", ()),
        ("b", ("a",)),
        ("c", ("a",)),
        ("d", ("b", "c")),
    ]
    assert (spec.name, spec.dialect, spec.fail_on_task_failure) == ("Diamond", "grid", True)
    check_job(spec)


def test_a_task_alone_is_a_job_of_one_task() -> None:
    spec, report = read_job('{"version": 2, "executable": "/usr/bin/env", "environment": {"qux": "XyZzy"}}')
    assert (spec.dialect, spec.tasks[0].name, spec.tasks[0].environment) == (
        "grid-task",
        "",
        {"QUX": "XyZzy"},
    )
    assert report[0].what == "a task alone is read as a job of that one task"


@pytest.mark.parametrize(
    ("keys", "command", "size"),
    [
        ({"arguments": ["a b", "$HOME", "%HOME%"]}, "/bin/true 'a b' '$HOME' %''HOME%", 1),
        ({"executable": "a.out"}, "./a.out", 1),
        ({"executable": "A=/b"}, "'A=/b'", 1),
        ({"count": 4, "arguments": ["x"]}, "mpiexec -n 4 /bin/true x", 4),
        ({"count": 1}, "/bin/true", 1),
        ({"count": 0}, "/bin/true", 1),
        ({"count": -3}, "/bin/true", 1),
        ({"count": 4, "jobtype": "openmp"}, "/bin/true", 4),
        ({"count": 4, "jobtype": "single"}, "/bin/true", 4),
        ({"count": 4, "jobtype": "hybrid"}, "mpiexec -n 4 /bin/true", 4),
        ({"jobtype": "mpi", "nodes": 2, "ppn": 3}, "mpiexec -n 6 /bin/true", 6),
        ({"jobtype": "mpi", "nodes": 2, "ppn": 3, "count": 4}, "mpiexec -n 4 /bin/true", 4),
        ({"nodes": 2, "ppn": 3}, "/bin/true", 1),
    ],
)
def test_a_program_has_its_command_line_and_processors(keys: dict[str, Any], command: str, size: int) -> None:
    found = read(job(task("a", **keys))).tasks[0]
    assert (found.command, found.minimum, found.maximum) == (command, size, size)


@pytest.mark.parametrize(
    ("most", "codes"),
    [
        (0, None),
        (3, ((0, 3),)),
        (2**31 - 1, ((0, 2**31 - 1),)),
        (2**32 - 15, ((-(2**31), -15), (0, 2**31 - 1))),
        (2**32 - 1, ((-(2**31), -1), (0, 2**31 - 1))),
    ],
)
def test_exit_codes_are_without_sign(most: int, codes: Any) -> None:
    spec = read(job(task("a", max_success_code=most)))
    assert spec.tasks[0].valid_exit_codes == codes
    check_job(spec)


@pytest.mark.parametrize("behaviour", list(Behaviour))
def test_names_of_variables_become_upper_case_as_published_and_stay_as_the_service_did_it(
    behaviour: Behaviour,
) -> None:
    found = read(job(task("a", environment={"FOO": "bar", "qux": "x", "N": 4})), behaviour=behaviour)
    qux = "QUX" if behaviour is Behaviour.PUBLISHED else "qux"
    assert found.tasks[0].environment == {"FOO": "bar", qux: "x", "N": "4"}


def test_two_names_that_become_one_are_refused() -> None:
    no = refusal(job(task("a", environment={"a": "1", "A": "2"})))
    assert (no.code, "'A' is 'A', which already exists" in no.what) == ("given-twice", True)


BASE = "gsiftp://example.org/my/files/"


def test_files_are_resolved_against_the_base_of_the_task_or_of_the_job() -> None:
    first = task(
        "a", input_files={"x": "hello.txt", "y": "/bar.txt", "z/": "gsiftp://other/d/"}, stdout="o/1"
    )
    second = task(
        "b", output_files={"r": "../r"}, default_storage_base="s3://b/one/", max_transfer_attempts=2
    )
    spec = read(job(first, second, default_storage_base=BASE))
    one, two = spec.tasks
    into: dict[str, Any] = {"direction": TransferDirection.IN}
    assert transfers_of(spec, one) == (
        FileTransfer(path="x", url=BASE + "hello.txt", **into),
        FileTransfer(path="y", url="gsiftp://example.org/bar.txt", **into),
        FileTransfer(path="z/", url="gsiftp://other/d/", directory=True, **into),
        FileTransfer(direction=TransferDirection.OUT, path="stdout", url=BASE + "o/1", stream=True),
    )
    assert transfers_of(spec, two) == (
        FileTransfer(direction=TransferDirection.OUT, path="r", url="s3://b/r"),
    )
    assert (attempts_of(spec, one), attempts_of(spec, two)) == (5, 2)


def test_a_file_of_a_shared_file_system_needs_no_transfer() -> None:
    spec = read(
        job(task("a", stdin="in%20put", stdout="file:///x/out"), default_storage_base="file:///data/")
    )
    assert (spec.tasks[0].standard_input, spec.tasks[0].standard_output) == ("/data/in put", "/x/out")
    assert transfers_of(spec, spec.tasks[0]) == ()


def test_a_path_without_a_base_is_ignored_as_published_and_refused_as_the_service_did_it() -> None:
    text = job(task("a", input_files={"x": "y"}, stdout="out"))
    spec, report = read_job(text)
    assert transfers_of(spec, spec.tasks[0]) == ()
    assert spec.tasks[0].standard_output == ""
    ignored = [item.what for item in report if "is ignored, as the specification says" in item.what]
    assert [what.split(":")[0] for what in ignored] == ["stdout", "input_files"]
    assert refusal(text, behaviour=Behaviour.PILOT).code == "no-storage-base"


@pytest.mark.parametrize(
    ("base", "reference", "url"),
    [
        (BASE, "a/../b", BASE + "b"),
        (BASE, "../../../../b", "gsiftp://example.org/b"),
        (BASE + "x", "b", BASE + "b"),
        (BASE, "//host/b", "gsiftp://host/b"),
        (BASE, "ftp://h/x/../y", "ftp://h/x/../y"),
        (BASE, "a/.", BASE + "a/"),
        ("", "a", "a"),
    ],
)
def test_paths_are_resolved_as_in_a_browser(base: str, reference: str, url: str) -> None:
    assert resolve(base, reference) == url


@pytest.mark.parametrize("path", ["/a b/c", "/ä/%41", "/x#y?z", "/a//b", "/'\"~"])
def test_a_path_is_the_same_after_being_a_url(path: str) -> None:
    assert local_path(file_url(path)) == path


@pytest.mark.parametrize(
    "url", ["file://other/x", "file:///x/", "file:///x?y", "file:///%ff", "file:///%00", "x"]
)
def test_what_is_no_file_of_the_node_has_no_path(url: str) -> None:
    assert local_path(url) == ""


def test_hosts_of_all_tasks_are_the_nodes_of_the_job() -> None:
    spec = read(
        job(task("a"), task("b", requirements={"hostname": ["n1"]}), requirements={"hostname": ["n1", "n2"]})
    )
    assert (spec.requested_nodes, spec.tasks[0].needs, spec.tasks[1].needs) == (
        ("n1", "n2"),
        ANY_NODE,
        NodeNeeds(names=("n1",)),
    )
    check_job(spec)


def test_a_task_runs_on_the_hosts_that_it_names_and_another_on_any() -> None:
    needs = {"hostname": ["n1", "n2"]}
    spec = read(job(task("a", requirements=needs), task("b", requirements={"hostname": ["n3"]})))
    assert spec.requested_nodes == ("n1", "n2", "n3")
    assert [one.needs.names for one in spec.tasks] == [("n1", "n2"), ("n3",)]
    other = read(job(task("a", requirements=needs), task("b")))
    assert (other.requested_nodes, [one.needs.names for one in other.tasks]) == ((), [("n1", "n2"), ()])


ASKED: dict[str, Any] = {
    **{"platform": "x86_64", "os_name": "Linux", "ram_size": 500, "virtual_size": 900, "smp_size": 8},
    **{"cpu_hz": 2000, "software": "gcc, python"},
}
DEMANDED = NodeNeeds(
    architectures=("x86_64",),
    systems=("Linux",),
    minimum_memory=500,
    minimum_virtual=900,
    minimum_processors=8,
    minimum_speed=2000,
    features=(("gcc",), ("python",)),
)


def test_what_one_task_requires_is_demanded_of_its_nodes_only() -> None:
    spec = read(job(task("a", requirements=ASKED), task("b")))
    assert [one.needs for one in spec.tasks] == [DEMANDED, ANY_NODE]
    assert (spec.needs, spec.minimum_memory, spec.minimum_processors_per_node) == (ANY_NODE, None, None)
    check_job(spec)


@pytest.mark.parametrize("place", ["job", "tasks"])
def test_what_all_tasks_require_is_demanded_of_every_node_of_the_job(place: str) -> None:
    own = {"requirements": ASKED} if place == "tasks" else {}
    spec = read(job(task("a", **own), task("b", **own), **({} if own else {"requirements": ASKED})))
    assert spec.needs == replace(DEMANDED, minimum_memory=0, minimum_processors=0)
    assert (spec.minimum_memory, spec.minimum_processors_per_node) == (500, 8)
    assert [one.needs for one in spec.tasks] == [ANY_NODE, ANY_NODE]


def test_requirements_of_a_task_replace_those_of_the_job_key_by_key() -> None:
    spec = read(
        job(task("a", requirements={"ram_size": 2000}), task("b"), requirements={**ASKED, "ram_size": 500})
    )
    assert [one.needs for one in spec.tasks] == [
        NodeNeeds(minimum_memory=2000),
        NodeNeeds(minimum_memory=500),
    ]
    assert spec.needs == replace(DEMANDED, minimum_memory=0, minimum_processors=0)
    assert (spec.minimum_memory, spec.minimum_processors_per_node) == (None, 8)


@pytest.mark.parametrize(("speed", "megahertz"), [(2400, 2400), (2_000_000_000, 2000), (1_000_001, 2)])
def test_a_speed_is_in_hertz_and_a_small_one_in_megahertz(speed: int, megahertz: int) -> None:
    spec = read(job(task("a"), requirements={"cpu_hz": speed}))
    assert spec.needs.minimum_speed == megahertz


@pytest.mark.parametrize(
    ("software", "features", "kind"),
    [
        ("gcc", (("gcc",),), "translated"),
        ("gcc >= 4.1, python", (("gcc",), ("python",)), "approximated"),
        ("gcc == 4, gcc!=5", (("gcc",),), "approximated"),
        ("a b, c", (), "not-supported"),
        ("gcc >=", (), "not-supported"),
    ],
)
def test_packages_are_features_and_that_versions_are_not_compared_is_said(
    software: str, features: Any, kind: str
) -> None:
    text = job(task("a"), requirements={"software": software})
    spec = read(text)
    assert spec.needs.features == features
    assert [line.split()[0] for line in reported(text) if ": software:" in line] == [kind]
    kept = {} if kind == "translated" else {"requirements.software": software}
    assert spec.extensions == kept


@pytest.mark.parametrize(
    ("needs", "architectures", "kinds"),
    [
        ({"cpu_instruction_set": "sparc"}, ("sparc",), ["translated"]),
        ({"cpu_instruction_set": "i686", "platform": "i686"}, ("i686",), ["translated"]),
        ({"cpu_instruction_set": "sse4", "platform": "i686"}, ("i686",), ["approximated"]),
    ],
)
def test_instructions_are_an_architecture_unless_there_is_another_platform(
    needs: dict[str, Any], architectures: Any, kinds: list[str]
) -> None:
    text = job(task("a"), requirements=needs)
    assert read(text).needs.architectures == architectures
    assert [line.split()[0] for line in reported(text) if ": cpu_instruction_set:" in line] == kinds


def test_the_queue_of_all_tasks_is_the_template_and_several_are_kept() -> None:
    long = {"requirements": {"queue": "long"}}
    assert read(job(task("a", **long), task("b"), requirements={"queue": "long"})).template == "long"
    text = job(task("a", **long), task("b"))
    spec = read(text)
    assert (spec.template, spec.tasks[0].extensions) == ("", {"definition.requirements.queue": "long"})
    assert [line for line in reported(text) if line.startswith("not-supported")] == [
        "not-supported task 'a': queue: it is kept; all tasks of a job are in one queue"
    ]


@pytest.mark.parametrize(
    ("lrms", "kind"), [("Fork", "kept"), ("PBS", "not-supported"), ("fork", "not-supported")]
)
def test_only_fork_is_what_headnode_does_itself(lrms: str, kind: str) -> None:
    text = job(task("a"), requirements={"lrms": lrms})
    assert [line.split()[0] for line in reported(text) if ": lrms:" in line] == [kind]


@pytest.mark.parametrize(
    ("keys", "layout", "kept"),
    [
        ({"count": 4, "ppn": 2}, Distribution(per_node=2), {}),
        ({"jobtype": "mpi", "nodes": 2, "ppn": 3}, Distribution(per_node=3), {"nodes": "2"}),
        ({"count": 4, "nodes": 3, "ppn": 3}, Distribution(per_node=3), {"nodes": "3"}),
        ({"count": 4, "nodes": 2}, Distribution(nodes=2), {}),
        ({"count": 2, "nodes": 4}, None, {"nodes": "4"}),
        ({"count": 4, "jobtype": "openmp"}, Distribution(nodes=1), {}),
        ({"count": 4, "jobtype": "single"}, None, {}),
        ({"count": 4, "jobtype": "openmp", "ppn": 2}, Distribution(nodes=1), {"ppn": "2"}),
        ({"nodes": 2, "ppn": 3}, None, {"nodes": "2", "ppn": "3"}),
        ({"count": 4, "nodes": 0, "ppn": 0}, None, {}),
    ],
)
def test_processes_are_laid_on_nodes_as_nodes_ppn_and_jobtype_say(
    keys: dict[str, Any], layout: Distribution | None, kept: dict[str, str]
) -> None:
    spec = read(job(task("a", **keys)))
    found = spec.tasks[0]
    assert found.distribution == layout
    extensions = {name.removeprefix("definition."): text for name, text in found.extensions.items()}
    extensions.pop("jobtype", None)
    assert extensions == kept
    check_job(spec)


def test_own_words_of_a_task_alone_are_its_properties() -> None:
    one = {"version": 2, "executable": "/x", "meta": {"a": "1"}}
    spec = read(json.dumps(one))
    assert (spec.tasks[0].properties, spec.tasks[0].extensions) == ({"a": "1"}, {})
    other = read(json.dumps(one | {"meta": {"a": 1}}))
    assert (other.tasks[0].properties, other.tasks[0].extensions) == ({}, {"definition.meta": '{"a":1}'})


@pytest.mark.parametrize("groups", [[["c", "b", "a"]], [["a", "b"], ["c", "b"]]])
def test_tasks_that_groups_connect_are_on_one_node(groups: list[list[str]]) -> None:
    spec = read(job(task("a"), task("b"), task("c"), groups=groups))
    assert spec.single_node
    assert json.loads(write_job(spec)[0])["groups"] == (groups if len(groups) > 1 else [["a", "b", "c"]])


@pytest.mark.parametrize("groups", [[["a", "b"]], [["a", "b"], ["c", "d"]]])
def test_groups_apart_are_on_the_cluster_which_is_one_resource_and_that_is_reported(
    groups: list[list[str]],
) -> None:
    text = job(task("a"), task("b"), task("c"), task("d"), groups=groups)
    spec = read(text)
    assert (spec.single_node, json.loads(spec.extensions["groups"])) == (False, groups)
    assert any(
        line.startswith("approximated job: groups: a cluster is one resource") for line in reported(text)
    )
    assert json.loads(write_job(spec)[0])["groups"] == groups
    together, report = write_job(replace(spec, single_node=True))
    assert json.loads(together)["groups"] == [["a", "b", "c", "d"]]
    assert any("extension 'groups'" in item.what for item in report)


def test_meta_is_kept_whatever_is_in_it() -> None:
    texts, other = {"a": "1"}, {"a": [1, None, {"b": 2.5}]}
    spec = read(job({**task("a"), "meta": texts}, {**task("b"), "meta": other}, meta=other))
    assert spec.tasks[0].properties == texts
    assert json.loads(spec.tasks[1].extensions["meta"]) == other
    assert json.loads(spec.extensions["meta"]) == other


def test_values_are_put_in_for_names() -> None:
    keys = {
        "executable": "/opt/{version}/run",
        "arguments": ["{case}", "{1} {print $1} {}"],
        "environment": {"{case}": "{case}"},
        "input_files": {"{case}.txt": "in/{case}"},
    }
    text = job(task("a", **keys), default_storage_base="{base}/")
    options = {"variables": {"case": "7", "base": "gsiftp://h/d", "version": "2"}}
    spec = read(text, **options)
    assert spec.tasks[0].command == "/opt/2/run 7 '{1} {print $1} {}'"
    assert spec.tasks[0].environment == {"{CASE}": "7"}
    assert [(one.path, one.url) for one in transfers_of(spec, spec.tasks[0])] == [
        ("7.txt", "gsiftp://h/d/in/7")
    ]


def test_a_name_without_a_value_is_refused_when_values_are_given_and_stays_when_none_are() -> None:
    text = job(task("a", arguments=["{who}", "{print}"]))
    no = refusal(text, variables={"who": "ada"})
    assert (no.code, "task 'a': {print} has no value" in no.what) == ("no-value", True)
    assert "--set print=VALUE" in no.fix
    kept = read(text, variables={"who": "ada", "print": "{print}"})
    assert kept.tasks[0].command.endswith(" ada '{print}'")
    assert read(text).tasks[0].command.endswith(" '{who}' '{print}'")
    assert "note task 'a': {who} stays as it is; to put in a value: --set who=VALUE" in reported(text)
    filed = job({"id": "a", "filename": "t.js"})
    files = {"t.js": b'{"version": 2, "executable": "/bin/{what}"}'}
    assert read(filed, files=files, variables={"what": "date"}).tasks[0].command == "/bin/date"
    assert refusal(filed, files=files, variables={"who": "x"}).what.startswith("file 't.js', line 1")


def test_a_definition_may_lie_in_a_file_of_its_own() -> None:
    text = job({"id": "a", "filename": "t.js"}, {"id": "b", "filename": "t.js"}, {"id": "c"})
    assert files_named(text) == ("t.js",)
    spec, report = read_job(text, GridOptions(files={"t.js": b'{"version": 2, "executable": "/bin/date"}'}))
    assert [one.command for one in spec.tasks] == ["/bin/date", "/bin/date", ""]
    assert any("has no definition" in item.what for item in report)
    no = refusal(text, files={"t.js": b'{"version": 2,\n "executible": "/bin/date"}'})
    assert (
        no.what == "file 't.js', line 2, column 1: task 'a': 'executible' is not a key of a task definition"
    )
    assert refusal(text, files={"t.js": b"{"}).what.startswith("file 't.js', line 1, column 1: the text ends")
    assert files_named("{") == ()


def test_what_a_service_says_around_a_description_is_left_alone() -> None:
    around = {"created": "2009", "definition": json.loads(job(task("a"))), "state": [], "tasks": {"a": "uri"}}
    spec, report = read_job(json.dumps(around))
    assert [one.name for one in spec.tasks] == ["a"]
    assert report[0].kind is Fidelity.NOTE
    wrong = {"owner": "x", "definition": {"version": 2, "tasks": [{"id": "a b"}]}}
    assert "task 'a b': id: 'a b' is not an id" in refusal(json.dumps(wrong)).what


@pytest.mark.parametrize(
    ("text", "code", "what", "fix"),
    [
        ("[]", "not-a-job", "line 1, column 0: the text is not a JSON object", ""),
        ("{}", "not-a-job", "the description has neither", ""),
        ('{"tasks": [{"id": "a"}]}', "missing-key", "job has no 'version'", "add 'version': write 2"),
        ('{"version": 1, "tasks": [{"id": "a"}]}', "value", "job: version: 1 is not the number 2", "write 2"),
        ('{"version": 2.0, "executable": "x"}', "value", "version: 2.0 is not the number 2", ""),
        ('{"version": true, "executable": "x"}', "value", "version: true is not", ""),
        (
            '{"version": 2, "tasks": []}',
            "value",
            "job: tasks: an empty list is not a list of",
            "at least one",
        ),
        ('{"version": 2, "tasks": {"id": "a"}}', "value", "tasks: an object is not a list of tasks", ""),
        (job({}), "missing-key", "a task without an id has no 'id'", ""),
        (job({"id": "a,b"}), "value", "'a,b' is not an id", "write letters"),
        (job(task("a"), task("a")), "id-twice", "a second task with the id 'a', after the one at line 1", ""),
        (job(task("aa", "ab"), task("abc")), "unknown-task", "task 'aa' names 'ab'", "did you mean 'abc'?"),
        (job(task("a", "a")), "dependency-circle", "in a circle: a -> a", "remove one"),
        (job(task("a"), groups=[["a", "x"]]), "unknown-task", "group 1 names 'x'", "the ids are a"),
        (job(task("a"), groups=[["a"]]), "value", "groups: a list is not a group of two", ""),
        (job(task("a"), groups=[]), "value", "job: groups: an empty list is not", ""),
        (job(task("a", executable="")), "value", "executable: '' is not text that is not empty", ""),
        (job(task("a", arguments=["x", 3])), "value", "arguments: 3 is not text", ""),
        (job(task("a", arguments="x")), "value", "arguments: 'x' is not a list of texts", ""),
        (
            job(task("a", environment={"A": True})),
            "value",
            "environment: the value of 'A', true, is not text",
            "",
        ),
        (job(task("a", count="4")), "value", "count: '4' is not a whole number", "without quotes"),
        (job(task("a", count=2**40)), "value", "count: 1099511627776 is not", ""),
        (job(task("a", max_success_code=-1)), "value", "max_success_code: -1 is not an exit code", ""),
        (job(task("a", jobtype="MPI")), "value", "jobtype: 'MPI' is not one of single, mpi", ""),
        (job(task("a", requirements={"hostnames": ["x"]})), "unknown-key", "'hostnames'", "'hostname'?"),
        (
            job(task("a", requirements={"hostname": []})),
            "value",
            "hostname: an empty list is not",
            "",
        ),
        (job(task("a", requirements={"hostname": ["a b"]})), "value", "'a b' is not a name", ""),
        (job(task("a", requirements={"hostname": "n1"})), "value", "'n1' is not a list of host names", ""),
        (job(task("a", ouput_files={})), "unknown-key", "'ouput_files' is not a key", "'output_files'?"),
        (job({"id": "a", "executable": "/x"}), "unknown-key", "not a key of a task", "in the 'definition'"),
        (job(task("a"), queue="long"), "unknown-key", "not a key of a job", "in the 'requirements'"),
        (
            job(task("a"), requirements={"colour": "red"}),
            "unknown-key",
            "not a key of requirements",
            "cpu_hz, software",
        ),
        (job(task("a"), xyzzy=1), "unknown-key", "not a key of a job", "'meta' may contain anything"),
        (job({**task("a"), "filename": "x"}), "given-twice", "a definition and a filename", "remove one"),
        (job({"id": "a", "filename": "x"}), "no-file", "file 'x' with the definition does not exist", ""),
        (
            job(task("a"), default_storage_base="/x/"),
            "storage-base",
            "'/x/' is not a URL",
            "write its scheme",
        ),
        (job(task("a", definition=1)), "unknown-key", "'definition' is not a key of a task definition", ""),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_way_out(
    text: str, code: str, what: str, fix: str
) -> None:
    no = refusal(text)
    assert (no.code, what in no.what, fix in no.fix) == (code, True, True), str(no)
    assert no.what.startswith("line 1, column ")


def test_a_refusal_that_came_later_gets_its_place() -> None:
    text = '{"version": 2,\n "tasks": [{"id": "a"},\n  {"id": "b"}]}'
    later = BadRequest(code="x", what="it has no command line", fix="f", path=("tasks", 1, "command"))
    assert locate(text, JobLanguage.GRID, later).what == "line 3, column 2: it has no command line"
    late = BadRequest(code="x", what="too much", fix="f")
    assert locate(text, JobLanguage.GRID, late).what == "line 1, column 0: too much"
    placed = refusal('{"version": 2}')
    assert locate(text, JobLanguage.GRID, placed) is placed


def test_awareness_reject_refuses_what_has_no_effect() -> None:
    text = job(task("a"), requirements={"lrms": "PBS"})
    assert refusal(text, awareness=Awareness.REJECT).code == "not-understood"
    assert not any("lrms" in line for line in reported(text, awareness=Awareness.IGNORE))


def test_a_key_that_many_tasks_have_is_reported_once_with_their_number() -> None:
    tasks = [task(f"t{number}", requirements={"os_release": "5"}) for number in range(50)]
    report = read_job(job(*tasks))[1]
    releases = [item.what for item in report if item.what.startswith("os_release")]
    assert releases == ["os_release: it is kept, but it does not select nodes (50 times, here first)"]
    assert lossy_items(report)


def test_a_task_whose_definition_is_still_to_come_has_no_say_about_the_nodes() -> None:
    spec = read(
        job({"id": "a"}, task("b", requirements={"hostname": ["n2"]}), requirements={"hostname": ["n1"]})
    )
    assert (spec.requested_nodes, spec.tasks[0].required_nodes) == (("n2",), ())
    alone = read(job({"id": "a"}, requirements={"hostname": ["n1"], "ram_size": 5}))
    assert (alone.requested_nodes, alone.minimum_memory) == (("n1",), 5)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"version": 3}, '"version": 3'),
        ({"arguments": ["-n", 4]}, "4]"),
        ({"environment": {"A": 1.5}}, '"A": 1.5'),
    ],
)
def test_a_task_with_the_keys_and_types_of_those_before_it_is_looked_at_like_them(
    wrong: dict[str, Any], where: str
) -> None:
    right = {"arguments": ["-n", "4"], "environment": {"A": "1"}}
    text = job(task("a", **right), task("b", **right), task("c", **(right | wrong)))
    assert refusal(text).what.startswith(f"line 1, column {text.rindex(where)}: task 'c': ")


@pytest.mark.parametrize("lrms", ["PBS", "Cleo", "Slurm", "fork"])
@pytest.mark.parametrize("of_job", [True, False])
def test_a_job_for_another_batch_system_is_refused_under_every_policy(lrms: str, of_job: bool) -> None:
    needs = {"requirements": {"lrms": lrms}}
    text = job(task("a"), **needs) if of_job else job(task("a", **needs))
    for policy in (Awareness.WARN, Awareness.IGNORE):
        spec, _ = read_job(text, GridOptions(awareness=policy))
        with pytest.raises(BadRequest, match=f"batch system '{lrms}'"):
            refuse_other_batch(spec)
    fork, _ = read_job(job(task("a"), requirements={"lrms": "Fork"}), GridOptions())
    refuse_other_batch(fork)
