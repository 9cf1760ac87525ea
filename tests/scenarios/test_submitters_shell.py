"""Jobs from the command line run where their submitter stands, with the variables that are passed to them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_scripted_head import ScriptedHead, hn

STANDS = {
    "submit_job": {"job": 7, "report": []},
    "submission_defaults": {"work_directory": "Current", "environment": ""},
}


def directories(head: ScriptedHead) -> list[str]:
    """Return the work directories of the tasks that the head was asked to run."""
    return [task["workdir"] for each in head.asked for task in each.get("tasks", ())]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a directory of a user with a program in it."""
    place = tmp_path / "my work"
    place.mkdir()
    program = place / "simulate"
    program.write_text('#!/bin/sh\necho "$PWD $FLAVOUR"\n')
    program.chmod(0o755)
    return place


def test_a_program_beside_the_submitter_is_found_and_the_answer_says_where_it_runs(
    state: Path, work: Path
) -> None:
    result = hn("job", "submit", "--wait", "./simulate", state=state, cwd=work)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(f"\n{work} \n")
    assert result.stderr == f"hn: it runs in {work}\n"


def test_scripts_get_their_sentence_and_nothing_beside_it(state: Path, work: Path) -> None:
    for words in (["--quiet"], ["--json"]):
        result = hn("job", "submit", *words, "true", state=state, cwd=work)
        assert (result.returncode, result.stderr) == (0, "")
    made = hn("job", "new", state=state, cwd=work, CCP_NO_JOB_ID="1").stdout
    number = made.split()[3]
    added = hn("job", "add", number, "./simulate", state=state, cwd=work)
    assert added.stdout == f"Task has been added. ID: {number}.1.\n"
    assert (
        hn("job", "submit", f"/id:{number}", state=state).stdout == f"Job has been submitted. ID: {number}.\n"
    )
    assert hn("job", "wait", number, state=state).returncode == 0
    assert hn("task", "output", f"{number}.1", state=state).stdout == f"{work} \n"


def test_scripts_of_hpc_pack_get_its_sentence_and_nothing_beside_it(tmp_path: Path, work: Path) -> None:
    job = work / "job"  # as a link to hn is called
    job.write_text("from headnode.apps.cli.__main__ import main; raise SystemExit(main())")
    with ScriptedHead(tmp_path, STANDS) as head:
        result = subprocess.run(
            [sys.executable, str(job), "submit", "true"],
            cwd=work,
            env=os.environ | {"HEADNODE_STATE": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert (result.stdout, result.stderr) == ("Job has been submitted. ID: 7.\n", "")
    (task,) = [task for each in head.asked for task in each.get("tasks", ())]
    assert "workdir" not in task  # the home directory, as there


def test_files_of_a_sweep_appear_where_the_submitter_stands(state: Path, work: Path) -> None:
    odd = work / "a*b^"
    odd.mkdir()
    result = hn(
        "job",
        "submit",
        "--wait",
        "/parametric:1-3",
        "/stdout:square.*.txt",
        "expr * '^*' *",
        state=state,
        cwd=odd,
    )
    assert result.returncode == 0, result.stderr
    assert {path.name: path.read_text() for path in odd.iterdir()} == {
        "square.1.txt": "1\n", "square.2.txt": "4\n", "square.3.txt": "9\n",
    }  # fmt: skip


def test_a_relative_work_directory_begins_where_the_submitter_stands(state: Path, work: Path) -> None:
    (work / "run1").mkdir()
    result = hn("job", "submit", "--wait", "--workdir", "run1", "pwd", state=state, cwd=work)
    assert result.stdout.endswith(f"\n{work}/run1\n")
    assert result.stderr == ""


def test_what_is_not_found_names_the_directory_that_was_searched_and_the_node(
    state: Path, work: Path
) -> None:
    result = hn("job", "submit", "--wait", "./simulat", state=state, cwd=work)
    assert f"there is no program './simulat' in '{work}' on node " in result.stderr
    result = hn("job", "submit", "--wait", "simulate", state=state, cwd=work)
    assert f"write ./simulate for the one in '{work}'" in result.stderr
    result = hn("job", "submit", "--wait", "--workdir", "lost", "true", state=state, cwd=work)
    assert f"the work directory '{work}/lost' cannot be entered on node " in result.stderr
    assert "name a directory that the node has: --workdir DIRECTORY" in result.stderr


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_batch_script_that_an_editor_marked_with_its_encoding_is_a_batch_script(
    state: Path, work: Path, encoding: str
) -> None:
    (work / "marked.sh").write_text("#!/bin/sh\n#SBATCH -J marked -o marked.out\necho it ran\n", encoding)
    result = hn("job", "submit", "--wait", "marked.sh", state=state, cwd=work)
    assert "'marked' finished" in result.stdout, result.stderr
    assert (work / "marked.out").read_text() == "it ran\n"


@pytest.mark.parametrize("program", ["no-such.sbatch", "bin/no-such", "./no-such"])
def test_the_name_of_a_script_that_is_not_here_is_noted(state: Path, work: Path, program: str) -> None:
    result = hn("job", "submit", program, state=state, cwd=work)
    assert result.returncode == 0
    assert (
        f"there is no file {program!r} here; the job runs a program of that name on its node" in result.stderr
    )


@pytest.mark.parametrize(
    "words", [("true",), ("echo a.b",), ("/no/such.sh",), ("./here.sh",), ("env", "no.sh")]
)
def test_a_program_is_submitted_without_a_note_where_it_is_here_or_cannot_be_told(
    state: Path, work: Path, words: tuple[str, ...]
) -> None:
    (work / "here.sh").write_text("#!/bin/sh\n")
    (work / "here.sh").chmod(0o755)
    assert "there is no file" not in hn("job", "submit", *words, state=state, cwd=work).stderr


def test_job_files_keep_the_home_directory(state: Path, work: Path) -> None:
    (work / "job.xml").write_text('<Job><Tasks><Task CommandLine="pwd"/></Tasks></Job>')
    result = hn("job", "submit", "--wait", "job.xml", state=state, cwd=work)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == str(Path.home())
    assert "it runs in" not in result.stderr


def test_the_cluster_may_want_the_home_directory_and_variables_of_everybody(state: Path, work: Path) -> None:
    wanted = ("DefaultWorkDirectory=Home", "SubmitterEnvironment=FLAVOUR,LOST")
    assert hn("cluster", "params", *wanted, state=state).returncode == 0
    try:
        result = hn("job", "submit", "--wait", 'echo "$PWD $FLAVOUR"', state=state, cwd=work, FLAVOUR="up")
        assert result.stdout.splitlines()[-1] == f"{Path.home()} up"
        assert result.stderr == "hn: it runs in your home directory\n"
        none = ("job", "submit", "--wait", "--env-all=false", 'echo "is $FLAVOUR"')
        assert hn(*none, state=state, cwd=work, FLAVOUR="up").stdout.splitlines()[-1] == "is "
    finally:
        hn("cluster", "params", "DefaultWorkDirectory=", "SubmitterEnvironment=", state=state)


def test_variables_are_passed_by_name_or_all_and_a_value_wins(state: Path, work: Path) -> None:
    for words, shown in (
        ((), "-"),
        (("--env", "FLAVOUR"), "up"),
        (("--env-all",), "up"),
        (("--env-all", "--env", "FLAVOUR=down"), "down"),
    ):
        result = hn(
            "job", "submit", "--wait", *words, "echo ${FLAVOUR:--} $HOME", state=state, cwd=work, FLAVOUR="up"
        )
        assert result.stdout.splitlines()[-1] == f"{shown} {Path.home()}"
    lost = hn("job", "submit", "--env", "NO_SUCH", "true", state=state)
    assert (lost.returncode, lost.stderr) == (
        2, "hn: variable 'NO_SUCH' is not set in your shell; export it, or write NO_SUCH=VALUE\n"
    )  # fmt: skip


def test_the_directory_has_the_name_that_the_shell_gives_it(tmp_path: Path, work: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(work)
    with ScriptedHead(tmp_path, STANDS) as head:
        for shell in (str(link), "/elsewhere", "link", f"{tmp_path}/x/../link"):
            assert hn("job", "submit", "true", state=tmp_path, cwd=link, PWD=shell).returncode == 0
    assert directories(head) == [str(link), *[str(work)] * 3]


def test_who_stands_in_a_directory_that_was_removed_is_told_so(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with ScriptedHead(tmp_path, STANDS) as head:
        result = subprocess.run(
            ["sh", "-c", 'rmdir "$PWD" && exec "$0" -m headnode.apps.cli job submit true', sys.executable],
            cwd=gone,
            env=os.environ | {"HEADNODE_STATE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == (
        "hn: your current directory was removed; change to another directory, or name one: "
        "--workdir DIRECTORY\n"
    )
    assert directories(head) == []


def test_a_program_that_a_signal_ended_has_the_name_of_the_signal_in_its_message(
    state: Path, work: Path
) -> None:
    result = hn("job", "submit", "--wait", "kill -SEGV $$", state=state, cwd=work)
    assert "the program was ended by signal 11 (SEGV)" in result.stderr


def test_a_job_that_wrote_to_a_file_of_its_own_names_the_file_when_it_was_waited_for(
    state: Path, work: Path
) -> None:
    (work / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 5\necho said\n")
    result = hn("job", "submit", "--wait", "job.sh", state=state, cwd=work)
    file = result.stderr.partition("hn: its output is in ")[2].strip()
    assert Path(file).parent == work, result.stderr
    assert Path(file).read_text() == "said\n"
    quiet = hn("job", "submit", "--wait", "--stdout", "/dev/null", "echo", "x", state=state, cwd=work)
    assert "its output" not in quiet.stderr


def test_a_tilde_before_the_name_of_a_file_is_the_home_directory(state: Path, work: Path) -> None:
    name = f"headnode-tilde-{os.getpid()}"
    file = Path.home() / name
    try:
        result = hn("job", "submit", "--wait", f"/stdout:~/{name}", "echo said", state=state, cwd=work)
        assert result.returncode == 0, result.stderr
        assert file.read_text() == "said\n"
        result = hn("job", "submit", "--wait", f"/stdin:~/{name}", "cat", state=state, cwd=work)
        assert result.stdout.endswith("\nsaid\n")
    finally:
        file.unlink(missing_ok=True)
