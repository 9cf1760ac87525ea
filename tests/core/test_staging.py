"""What a task may stage, where its files are, and how its program is named."""

from typing import Any

import pytest

from headnode.core.launching.environment import LaunchContext
from headnode.core.launching.recipe import Recipe, recipe
from headnode.core.launching.staging import transfer_plan
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.quantities import JobId
from headnode.core.model.staging import attempts_of
from headnode.core.model.task import StagedFile, TaskSpec, TaskType

URL = "https://h/x"


def job(**task: Any) -> JobSpec:
    return JobSpec(tasks=(TaskSpec(**({"command": "true"} | task)),))


def brought(path: str = "x", url: str = URL, **more: Any) -> JobSpec:
    return job(stage_in=(StagedFile(path, url, **more),))


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        (brought(url="x"), "storage-base", "is not a URL, and there is no storage base"),
        (brought(url="srm://h/x"), "staging-url", "the schemes are file, http, https"),
        (brought(url="https://ann:secret@h/x"), "staging-url", "has a password in it"),
        (brought(url="https:///x"), "staging-url", "has no host"),
        (brought(url="https://h/a b"), "staging-url", "write %20"),
        (brought(url="file://other/x"), "staging-url", "write file:///PATH"),
        (brought(path="../x"), "staged-path", "without '..'"),
        (brought(path="a/../../x"), "staged-path", "without '..'"),
        (brought(path="/"), "staged-path", "is not a path"),
        (brought(path=""), "staged-path", "is not a path"),
        (brought(mode=0o4755), "staging", "from 0 to 777"),
        (brought(size=-1), "staging", "write bytes"),
        (brought(checksum="sha256:12"), "staging", "KIND:DIGITS"),
        (brought(checksum="crc32:12345678"), "staging", "KIND:DIGITS"),
        (brought(credential="../x"), "staging", "without a path"),
        (job(credential="/etc/shadow"), "staging", "without a path"),
        (job(stage_in=(StagedFile("x", URL), StagedFile("x/", URL + "/"))), "staging", "twice"),
        (job(stage_out=(StagedFile("x", URL), StagedFile("y", URL))), "staging", "twice"),
        (job(stage_out=(StagedFile("x", URL, size=1),)), "staging", "leave them out"),
        (job(standard_output=URL, append_output=True), "staging", "nothing can be appended"),
        (job(standard_input=URL + "/"), "staging-url", "is a directory"),
        (job(command="srm://h/prog 1"), "staging-url", "cannot be staged by 'srm'"),
        (job(transfer_attempts=-1, stage_in=(StagedFile("x", URL),)), "transfer-attempts", "not between"),
    ],
)
def test_what_cannot_be_staged_is_refused_with_what_to_do(spec: JobSpec, code: str, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_job(spec)
    assert refused.value.code == code
    assert words in f"{refused.value.what}; {refused.value.fix}"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("spec", [brought(), brought("/data/x"), brought("d/", "sftp://h/~/d/")])
def test_what_can_be_staged_is_accepted(spec: JobSpec) -> None:
    check_job(spec)


@pytest.mark.parametrize(
    ("command", "stages"),
    [
        ("curl https://h/x", False),
        ("A=https://h/x prog", False),
        (f"{URL} 1", True),
        (f"'{URL}?a=1' 1", True),
    ],
)
def test_only_a_program_that_is_a_url_is_brought(command: str, stages: bool) -> None:
    assert TaskSpec(command=command).stages is stages


def recipe_of(spec: JobSpec, instance: int = 1) -> Recipe:
    around = LaunchContext(
        job=JobId(7),
        spec=spec,
        node="n",
        cluster="c",
        scheduler="c",
        base={"HOME": "/home/ann"},
        marker="abcdef",
    )
    return recipe(around, 1, spec.tasks[0], (("n", (0,)),), instance, 1)


def test_a_task_that_stages_runs_in_a_directory_of_its_own_with_its_program_and_streams() -> None:
    spec = job(
        command=f"{URL}/solve?v=1 -n 3",
        standard_input=f"{URL}/in",
        standard_output=f"{URL}/out",
        stage_in=(StagedFile("d/", "d/%CCP_JOBID%/"), StagedFile("/abs", URL)),
        storage_base="sftp://h/base/",
        credential="store",
    )
    made = recipe_of(spec)
    scratch = "/tmp/headnode-7.1.1.1-abcdef"
    assert (made.work_directory, made.private) == (scratch, True)
    assert made.argv == ("./solve", "-n", "3")
    assert (made.stdin, made.stdout, made.stderr) == (
        f"{scratch}/.headnode-stdin",
        f"{scratch}/.headnode-stdout",
        "",
    )
    plan = transfer_plan(spec, spec.tasks[0], made.transfers, token="t")
    assert [(file["path"], file["url"], file["mode"]) for file in plan["in"]] == [
        ("solve", f"{URL}/solve?v=1", 0o755),
        ("d/", "sftp://h/base/d/7/", None),
        ("/abs", URL, None),
        (".headnode-stdin", f"{URL}/in", None),
    ]
    assert [file["path"] for file in plan["out"]] == [".headnode-stdout"]
    assert {file["credential"] for file in (*plan["in"], *plan["out"])} == {"store"}
    assert (plan["attempts"], plan["token"]) == (5, "t")


@pytest.mark.parametrize("name", ["", "..", "%2e%2e", "a%2fb"])
def test_a_server_does_not_choose_where_a_program_is_put(name: str) -> None:
    spec = job(command=f"https://h/d/{name} 1")
    (one,) = recipe_of(spec).transfers
    assert one.path == "program"


def test_a_sweep_stages_files_of_its_own() -> None:
    spec = job(kind=TaskType.SWEEP, start=5, end=6, stage_in=(StagedFile("in.***", f"{URL}.*"),))
    assert [(one.path, one.url) for one in recipe_of(spec, 2).transfers] == [("in.006", f"{URL}.6")]


def test_the_attempts_of_the_task_win_and_there_is_always_one() -> None:
    task = TaskSpec(command="x", transfer_attempts=0)
    assert attempts_of(JobSpec(transfer_attempts=7), TaskSpec(command="x")) == 7
    assert attempts_of(JobSpec(transfer_attempts=7), task) == 1
