"""Job files of every language through the command line: converted, checked, submitted and shown again."""

import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_scripted_head import hn

from headnode.core.formats.native import read_job
from headnode.core.model.node_needs import NodeNeeds

Hn = Callable[..., "subprocess.CompletedProcess[str]"]
CCS = (
    '<Job Name="j" Priority="Normal" xmlns="http://www.microsoft.com/ComputeCluster/" IsExclusive="false">'
    '<Tasks><Task Name="t" CommandLine="/bin/echo hello"/></Tasks></Job>'
)
FILES = {
    "ccs": CCS,
    "hpcpack": '<Job Name="j"><Tasks><Task Name="t" CommandLine="/bin/echo hello"/></Tasks></Job>',
    "sss": (
        "<Job><Id>1</Id><Name>j</Name><Executable>/bin/echo</Executable><Arguments>hello</Arguments></Job>"
    ),
    "sss-3.0": (
        "<Job><JobId>1</JobId><JobName>j</JobName><Executable>/bin/echo</Executable>"
        "<Arguments>hello</Arguments></Job>"
    ),
    "grid": (
        '{"version": 2, "description": "j", "tasks": [{"id": "t", "definition": '
        '{"version": 2, "executable": "/bin/echo", "arguments": ["hello"]}}]}'
    ),
    "grid-task": '{"version": 2, "description": "j", "executable": "/bin/echo", "arguments": ["hello"]}',
    "native": 'name = "j"\ncommand = "/bin/echo hello"\n',
    "native-json": '{"name": "j", "command": "/bin/echo hello"}',
}
GROUP = """<JobGroup><Id>g</Id>
<Job><Id>last</Id><Name>last</Name><Executable>/bin/true</Executable>
 <Dependency condition="OnSuccess">first</Dependency></Job>
<Job><Id>first</Id><Name>first</Name><Executable>/bin/true</Executable></Job>
</JobGroup>"""
TRANSFER = """{"version": 2, "default_storage_base": "gsiftp://example.org/", "tasks": [
  {"id": "a", "definition": {"version": 2, "executable": "/bin/a", "input_files": {"x": "x"}}}]}"""


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / f"job.{'xml' if text[0] == '<' else 'json' if text[0] == '{' else 'toml'}"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("dialect", FILES)
def test_a_file_is_known_by_its_content_and_the_check_says_as_what(
    tmp_path: Path, job_file: Callable[[str], Path], dialect: str
) -> None:
    path = job_file(FILES[dialect])
    result = hn("check", str(path), state=tmp_path)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1].startswith(f"{path}: {dialect}: it can be submitted")
    document = json.loads(hn("check", str(path), "--json", state=tmp_path).stdout)
    assert (document["dialect"], document["valid"]) == (dialect, True)


@pytest.mark.parametrize("to", FILES)
@pytest.mark.parametrize("dialect", FILES)
def test_every_language_is_converted_into_every_other(
    tmp_path: Path, job_file: Callable[[str], Path], dialect: str, to: str
) -> None:
    result = hn("convert", str(job_file(FILES[dialect])), "--to", to, state=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("hn: ")
    assert f"from {dialect} to {to}: " in result.stderr.splitlines()[0]
    again = hn("check", "-", "--json", state=tmp_path, stdin=result.stdout)
    assert (json.loads(again.stdout)["dialect"], again.returncode) == (to, 0)


def test_a_conversion_shows_what_is_lost_first_and_writes_it_as_json(
    tmp_path: Path, job_file: Callable[[str], Path]
) -> None:
    path = job_file('name = "j"\nproject = "p"\npriority = "Highest"\ncommand = "sort x | uniq"\n')
    report = tmp_path / "report.json"
    result = hn("convert", str(path), "--to", "grid", "--report", str(report), state=tmp_path)
    head, group, *items = result.stderr.splitlines()
    assert head == f"hn: {path}, from native to grid: parts of it are changed or without effect there"
    assert group == "  not supported: without effect there"
    assert items[0] == "    job: project: a grid job has no such property"
    assert json.loads(result.stdout)["description"] == "j"
    written = json.loads(report.read_text())
    assert (written["from"], written["to"]) == ("native", "grid")
    kinds = [item["kind"] for item in written["items"] if item["what"].startswith(("project:", "priority:"))]
    assert kinds == ["not-supported", "not-supported"]


@pytest.mark.parametrize(
    ("text", "words", "status", "error"),
    [
        ('project = "p"\ncommand = "x"', ["--to", "grid", "--awareness", "reject"], 1, "project: a grid job"),
        ('<Job Oops="1"/>', ["--to", "native", "--awareness", "reject"], 1, ":1:5: Job: attribute 'Oops'"),
        ("<Job>\n<Tasks></Job>", ["--to", "native"], 2, ":2:9: not well-formed XML"),
        ('name = "x"\nnam = 3', ["--to", "ccs"], 2, ":2:0: job: there is no key 'nam'; did you mean 'name'?"),
        ('{"version": 2, "tasks": [}', ["--to", "ccs"], 2, ":1:25: not JSON"),
        ("#!/bin/sh\ntrue\n", ["--to", "ccs"], 2, ":1:0: this is a script"),
        (GROUP, ["--to", "hpcpack"], 2, "the file holds 2 jobs"),
        (CCS, ["--to", "condor"], 2, "there is no job language 'condor'"),
        (CCS, [], 2, "the target language is missing"),
        (CCS, ["--to", "native", "--from", "grid"], 2, ":1:0: not JSON"),
        (CCS, ["--to", "native", "--report", "/nowhere/report"], 2, "the report cannot be written"),
    ],
)
def test_a_conversion_that_is_refused_says_where_and_why(
    tmp_path: Path, text: str, words: list[str], status: int, error: str
) -> None:
    path = tmp_path / "job"
    path.write_text(text)
    result = hn("convert", str(path), *words, state=tmp_path)
    assert (result.stdout, result.returncode) == ("", status)
    assert error in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_damage_of_a_published_example_is_mended_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "job.xml"
    path.write_text(
        "<Job><Id>1</Id><Executable>/bin/x</Executable>"
        "<Requested><Processors op=”GE”>1</Processors></Requested></Job>"
    )
    strict = hn("check", str(path), state=tmp_path)
    assert strict.returncode == 2
    assert f"{path}: read as SSS job object" in strict.stdout
    assert hn("check", "--lenient", str(path), state=tmp_path).returncode == 0


def test_files_that_cannot_be_read_do_not_hide_the_others(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text('command = "x"')
    result = hn("check", str(tmp_path / "none.xml"), str(good), state=tmp_path)
    assert "cannot be read: No such file or directory" in result.stdout
    assert f"{good}: native: it can be submitted" in result.stdout
    assert result.returncode == 2


@pytest.mark.parametrize("dialect", FILES)
def test_a_job_of_every_language_runs_and_is_shown_in_every_other(
    state: Path, job_file: Callable[[str], Path], dialect: str
) -> None:
    result = hn("job", "submit", "--wait", str(job_file(FILES[dialect])), state=state)
    assert result.returncode == 0, result.stderr
    assert "hello" in result.stdout
    found = re.search(r"ID: (\d+)", result.stdout)
    assert found
    own = hn("job", "export", found[1], state=state)
    assert own.returncode == 0, own.stderr
    for to in FILES:
        shown = hn("job", "view", found[1], "--to", to, state=state)
        assert shown.returncode == 0, shown.stderr
        assert "echo" in shown.stdout


def test_every_instance_of_a_sweep_that_ran_is_shown_in_sss_with_its_node_and_exit_code(state: Path) -> None:
    submitted = hn("job", "submit", "--wait", "/parametric:1-3", "sh -c 'exit $(( * - 1 ))'", state=state)
    found = re.search(r"ID: (\d+)", submitted.stdout)
    assert found, submitted
    shown = hn("job", "view", found[1], "--to", "sss", state=state)
    assert not shown.returncode, shown
    tasks = re.findall(r"<Task>.*?</Task>", shown.stdout, re.DOTALL)
    reports = [re.findall(r"<(?:Id|ExitCode|Node)>([^<]+)<", task) for task in tasks]
    assert [one[:2] for one in reports] == [["1", "0"], ["2", "1"], ["3", "2"]]
    assert all("<StartTime>" in task and "<EndTime>" in task and "<Node>" in task for task in tasks)
    delivered = shown.stdout.partition("<Delivered>")[2].partition("</Delivered>")[0]
    assert all(f"<{name}>" in delivered for name in ("Machine", "Group", "User")), delivered


def test_a_job_of_one_task_is_shown_in_sss_with_where_it_ran_and_whence_it_was_submitted(
    state: Path,
) -> None:
    submitted = hn("job", "submit", "--wait", "sh -c 'exit 3'", state=state)
    found = re.search(r"ID: (\d+)", submitted.stdout)
    assert found, submitted
    host = socket.gethostname()
    assert f"Submit Host             : {host}\n" in hn("job", "view", found[1], state=state).stdout
    shown = hn("job", "view", found[1], "--to", "sss", state=state).stdout
    (task,) = re.findall(r"<Task>.*?</Task>", shown, re.DOTALL)
    assert re.findall(r"<(?:ExitCode|Node)>([^<]+)<", task)[0] == "3"
    assert all(f"<{name}>" in task for name in ("StartTime", "EndTime", "Node"))
    assert f"<SubmitHost>{host}</SubmitHost>" in shown


def test_the_jobs_of_a_group_run_in_the_order_of_their_dependencies(
    state: Path, job_file: Callable[[str], Path]
) -> None:
    result = hn("job", "submit", "--wait", str(job_file(GROUP)), state=state)
    assert result.returncode == 0, result.stderr
    last, first = re.findall(r"ID: (\d+)", result.stdout)
    jobs = [json.loads(hn("job", "view", number, "--json", state=state).stdout) for number in (first, last)]
    assert [job["name"] for job in jobs] == ["first", "last"]
    assert jobs[1]["spec"]["parents"] == [int(first)]
    assert jobs[0]["ended"] <= jobs[1]["started"]


def test_no_job_of_a_group_is_submitted_when_one_cannot_be(
    state: Path, job_file: Callable[[str], Path]
) -> None:
    before = json.loads(hn("job", "list", "--state", "*", "--json", state=state).stdout)
    too_large = GROUP.replace(
        "<Name>last</Name>", "<Name>last</Name><Requested><Processors>900</Processors></Requested>"
    )
    result = hn("job", "submit", str(job_file(too_large)), state=state)
    assert result.returncode == 2
    assert json.loads(hn("job", "list", "--state", "*", "--json", state=state).stdout) == before


def test_a_transfer_that_nothing_can_do_refuses_the_job_by_the_name_of_the_task(
    state: Path, job_file: Callable[[str], Path]
) -> None:
    path = job_file(TRANSFER.replace("gsiftp://", "srm://"))
    for command in (("job", "submit"), ("check",)):
        result = hn(*command, str(path), state=state)
        assert result.returncode == 2
        words = "files cannot be staged by 'srm' ('x' of task 1 ('a')); the schemes are file, http, https"
        assert words in result.stderr + result.stdout


def test_the_files_that_a_grid_job_names_are_read_beside_it(state: Path, tmp_path: Path) -> None:
    (tmp_path / "task.js").write_text(FILES["grid-task"])
    path = tmp_path / "job.js"
    path.write_text('{"version": 2, "tasks": [{"id": "a", "filename": "task.js"}]}')
    result = hn("job", "submit", "--wait", str(path), state=state)
    assert "hello" in result.stdout, result.stderr
    (tmp_path / "task.js").unlink()
    result = hn("job", "submit", str(path), state=state)
    assert "file 'task.js' with the definition does not exist" in result.stderr
    assert result.returncode == 2


def test_values_are_put_in_for_the_names_of_a_grid_file(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "hello.json"
    file.write_text('{"version": 2, "executable": "/bin/echo", "arguments": ["to", "{who}", "{where}"]}')
    sets = ("--set", "who=ada", "--set", "where=a place")
    ran = hn("job", "submit", "--wait", *sets, str(file), state=state)
    assert "to ada a place\n" in ran.stdout, ran
    for command in (("job", "submit"), ("job", "new"), ("check",), ("convert", "--to", "sss")):
        no = hn(*command, "--set", "who=ada", str(file), state=state)
        assert no.returncode, no
        assert "{where} has no value" in no.stderr + no.stdout, no
        wrong = hn(*command, "--set", "1=2", str(file), state=state)
        assert "--set '1=2' is not a name with a value" in wrong.stderr, wrong
    assert "ada" in hn("convert", "--to", "sss", *sets, str(file), state=state).stdout
    other = tmp_path / "job.toml"
    other.write_text('command = "true"\n')
    assert "only grid job files" in hn("job", "submit", *sets, str(other), state=state).stderr


def test_a_job_file_is_distinguished_from_a_program(state: Path, tmp_path: Path) -> None:
    program = tmp_path / "run.js"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    result = hn("job", "submit", "--wait", str(program), state=state)
    assert "ran" in result.stdout, result.stderr
    result = hn("job", "submit", "none.toml", state=state)
    assert "job file 'none.toml' cannot be read" in result.stderr
    result = hn("job", "submit", "job.toml", "--wait", state=state)
    assert "write options before it: hn job submit [options] job.toml" in result.stderr
    result = hn("job", "submit", "--lenient", "/bin/true", state=state)
    assert "option 'lenient' says how a job file is read, and none was given" in result.stderr
    assert result.returncode == 2


SEVERAL = """
[[jobs]]
name = "first"
command = "/bin/true"

[[jobs]]
name = "second"
command = "/bin/true"
parents = "first"
"""


def test_jobs_of_one_file_are_written_into_a_directory_and_no_file_there_is_touched(
    tmp_path: Path, job_file: Callable[[str], Path]
) -> None:
    path, directory = job_file(SEVERAL), tmp_path / "jobs"
    refused = hn("convert", str(path), "--to", "ccs", state=tmp_path)
    assert refused.returncode == 2
    assert "--directory" in refused.stderr
    result = hn("convert", str(path), "--to", "ccs", "--directory", str(directory), state=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [str(directory / "1-first.xml"), str(directory / "2-second.xml")]
    assert "has no equivalent across files" in result.stderr
    before = (directory / "1-first.xml").read_text()
    assert "/bin/true" in before
    again = hn("convert", str(path), "--to", "hpcpack", "--directory", str(directory), state=tmp_path)
    assert again.returncode == 2
    assert (directory / "1-first.xml").read_text() == before


def test_what_options_ask_of_nodes_and_processes_is_kept_changed_and_acted_on(state: Path) -> None:
    words = ("/holds:data", "/system:linux", "/lacking:old", "/resourcelimit:nofile=100", "/suspendable")
    result = hn("job", "submit", "--quiet", *words, "/jobgroup:night", "/bin/sh -c 'ulimit -n'", state=state)
    assert result.returncode == 0, result.stderr
    number = result.stdout.strip()
    changed = hn("job", "modify", number, "--resourcelimit", "nofile=77", "--lacking", "", state=state)
    assert changed.returncode == 0, changed.stderr
    spec = read_job(hn("job", "view", number, "--to", "native", state=state).stdout)[0]
    assert (spec.needs, spec.holds) == (NodeNeeds(systems=("linux",)), ("data",))
    assert (spec.suspendable, spec.job_group) == (True, "night")
    released = hn("job", "release", number, "--name", "data", state=state)
    assert released.returncode == 0, released.stderr
    assert hn("job", "wait", number, state=state).returncode == 0
    assert hn("task", "output", f"{number}.1", state=state).stdout.strip() == "77"


def test_an_error_in_one_of_several_jobs_is_said_with_its_line(
    tmp_path: Path, job_file: Callable[[str], Path]
) -> None:
    path = job_file(SEVERAL + "processors = 0\n")
    result = hn("check", str(path), state=tmp_path)
    assert result.returncode == 2
    assert f"{path}:6:0: error:" in result.stdout
