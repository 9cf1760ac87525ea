"""The script of HPC Pack commands that the page shows prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_scripted_head import hn

PAGE = Path(__file__).parents[2] / "docs" / "hpc-pack.md"
TIMEOUT = 120.0  # seconds
HN = Path(sys.executable).parent / "hn"


def blocks() -> tuple[str, str]:
    """Return the script of the page and what it prints."""
    _, _, section = PAGE.read_text().partition("## A script\n")
    script, printed = re.findall(r"^```(?:sh|text)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[:2]
    return script, printed


def plain(printed: str) -> list[str]:
    """Return the lines of a transcript; columns are as wide as the names of the machine and directory."""
    return [" ".join(line.split()) for line in printed.split("\n") if line.strip()]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """Return an environment with the commands installed, in which no other head is found."""
    programs = tmp_path / "bin"
    words = [HN, "compat", "install", "--only", "hpcpack", programs]
    result = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ))
    assert result.stdout.count(" is a link to ") == 5
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("HEADNODE", "CCP_"))}
    return plain | {"PATH": f"{programs}:{os.environ['PATH']}"} | more


def test_the_script_of_the_page_prints_what_the_page_says(state: Path, tmp_path: Path) -> None:
    script, printed = blocks()
    assert 30 <= len(script.splitlines()) <= 40
    folder = tmp_path / "work"
    folder.mkdir()
    around = environment(tmp_path, CCP_SCHEDULER=str(state))
    result = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=around,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    found = result.stdout.replace(str(folder), "/work/demo").replace(os.uname().nodename, "node01")
    assert plain(found) == plain(printed), found
    assert result.returncode == 0
    assert hn("cluster", "envs", "--json", state=state).stdout == "{}\n"


@pytest.mark.parametrize(("parameter", "sentence"), [("CCS", "Job queued"), ("", "Created job")])
def test_a_parameter_chooses_whose_sentence_reports_a_new_job(
    state: Path, tmp_path: Path, parameter: str, sentence: str
) -> None:
    assert hn("cluster", "params", f"CommandSentences={parameter}", state=state).returncode == 0
    around = environment(tmp_path)
    result = subprocess.run(
        ["job", "new", f"/scheduler:{state}"], env=around, capture_output=True, text=True, check=False
    )
    assert re.fullmatch(rf"{sentence}, ID: \d+\n", result.stdout), result.stderr
    assert hn("job", "new", state=state).stdout.startswith("Job queued, ID: ")


def test_a_refused_command_has_exit_status_1_and_an_installed_link_is_listed_and_removed(
    tmp_path: Path,
) -> None:
    around = environment(tmp_path)
    for words in (["job", "frobnicate"], ["job", "list", "/jobtemplate:x"], ["task", "view"]):
        assert subprocess.run(words, env=around, capture_output=True, check=False).returncode == 1
    listed = subprocess.run([HN, "compat", "list"], env=around, capture_output=True, text=True, check=True)
    assert f"{tmp_path}/bin/clusrun -> {HN}" in listed.stdout
    (tmp_path / "bin" / "task").unlink()
    (tmp_path / "bin" / "task").write_text("my own")
    again = subprocess.run(
        [HN, "compat", "install", tmp_path / "bin"], env=around, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "is not a link to hn" in again.stderr
    subprocess.run([HN, "compat", "remove", tmp_path / "bin"], env=around, capture_output=True, check=True)
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["task"]


TASK_FILE = '<Task Name="t" CommandLine="echo $LEVEL $SITE" StdOutFilePath="{}/%SITE%.txt" />'


def test_a_task_file_variables_of_the_cluster_and_the_past_of_a_node(state: Path, tmp_path: Path) -> None:
    around = environment(tmp_path, CCP_SCHEDULER=str(state))
    (tmp_path / "task.xml").write_text(TASK_FILE.format(tmp_path))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=around, capture_output=True, text=True, check=False)

    assert run("cluscfg", "setenvs", "SITE=north", "LEVEL=cluster").returncode == 0
    made = run("job", "new", "-jobenv:LEVEL=job").stdout.split()[3]
    assert run("job", "add", made, f"/taskfile:{tmp_path}/task.xml").stdout == (
        f"Task has been added. ID: {made}.1.\n"
    )
    refused = run("job", "add", made, f"/taskfile:{tmp_path}/task.xml", "echo")
    assert "a task file was given" in refused.stderr
    assert run("job", "submit", f"/id:{made}").returncode == 0
    assert hn("job", "wait", made, state=state).returncode == 0
    assert (tmp_path / "north.txt").read_text() == "job north\n"
    assert hn("task", "output", f"{made}.1", state=state).stdout == "job north\n"
    late = run("task", "modify", f"{made}.1", "/stdout:x")
    assert (late.returncode, "hn job clone" in late.stderr) == (1, True)
    past = run("node", "view", os.uname().nodename, "/jobhistory", "/lastrows:1", "/format:list")
    assert re.search(rf"^Id +: {made}$", past.stdout, re.MULTILINE), past.stdout + past.stderr
    assert run("cluscfg", "setenvs", "SITE=", "LEVEL=").returncode == 0


def test_a_path_of_windows_is_told_when_a_task_is_typed(state: Path, tmp_path: Path) -> None:
    around = environment(tmp_path, CCP_SCHEDULER=str(state))
    words = ["job", "submit", r"/stdout:\\srv\out\x.txt", "/holduntil:60", "true"]
    result = subprocess.run(words, env=around, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("Job has been submitted. ID: ")
    assert r"standard output '\\srv\out\x.txt' is a path of Windows" in result.stderr
    job = re.findall(r"\d+", result.stdout)[0]
    assert hn("job", "cancel", job, state=state).returncode == 0


def test_finishing_a_task_that_has_not_started_cancels_it(state: Path) -> None:
    job = hn("job", "submit", "--quiet", "--holduntil", "60", "true", state=state).stdout.strip()
    result = hn("task", "finish", f"{job}.1", state=state).stdout
    assert result == f"Task {job}.1 had not started, and has been canceled.\n"
    assert "Canceled" in hn("task", "view", f"{job}.1", state=state).stdout
    assert hn("job", "cancel", job, state=state).returncode in (0, 1)
