"""Shells complete commands, options, and the ids, nodes, states and values that a cluster has."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_scripted_head import Script, ScriptedHead, hn, job, node, task

from headnode.protocol.state_names import JOB_STATES

JOBS = [job(31, "Running", name="solve\nheat"), job(4, "Failed", command="test 1")]
SCRIPT: Script = {
    "jobs": {"jobs": JOBS, "more": None, "total": 2},
    "nodes": {"nodes": [node("n1", groups=["big"]), node("n2")]},
    "tasks": {"tasks": [task(1), task(2, name="merge")], "more": None},
    "parameters": {
        "parameters": [{"name": "HeartbeatInterval", "value": 30}, {"name": "MailFrom", "value": None}]
    },
    "templates": {"templates": [{"name": "Solver"}]},
    "reservations": {"reservations": [{"name": "course"}]},
}


def offered(line: str, state: Path) -> list[str]:
    result = hn("completion", "candidates", line, state=state)
    assert (result.returncode, result.stderr) == (0, "")
    return [one.partition("\t")[0] for one in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hn job view ", ["31", "4"]),
        ("hn job cancel 3", ["31"]),
        ("hn job wait 4,3", ["4,31"]),
        ("hn task output 31.", ["31.1", "31.2"]),
        ("hn node drain n", ["n1", "n2"]),
        ("hn job submit --requestednodes n1,", ["n1,n1", "n1,n2"]),
        ("hn job submit -w n2", ["n2"]),
        ("hn job submit --nodegroup ", ["big"]),
        ("hn job submit --jobtemplate=S", ["--jobtemplate=Solver"]),
        ("hn job submit /reservation:", ["/reservation:course"]),
        ("hn job submit --parentjobids ", ["31", "4"]),
        ("hn job list --state ru", ["Running"]),
        ("hn job list -t ", list(JOB_STATES)),
        ("hn node list /state:D", ["/state:Draining", "/state:Drained"]),
        ("hn job submit /priority:a", ["/priority:AboveNormal"]),
        ("hn job submit --exclu", ["--exclusive", "--excludednodes"]),
        ("hn cluster params H", ["HeartbeatInterval="]),
        ("hn job exp", ["explain", "export"]),
        ("hn --state /elsewhere no", ["node"]),
        ("hn node offline n1", ["n1"]),
        ("hn job nonsense ", []),
        ("hn job submit ./prog", []),
    ],
)  # fmt: skip
def test_what_may_stand_at_the_cursor_is_offered(tmp_path: Path, line: str, words: list[str]) -> None:
    with ScriptedHead(tmp_path, SCRIPT):
        assert offered(line, tmp_path) == words


def test_a_name_with_control_characters_does_not_reach_the_shell(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, SCRIPT):
        assert (
            "31\tRunning solve\\nheat\n"
            in hn("completion", "candidates", "hn job view ", state=tmp_path).stdout
        )


def test_without_a_head_commands_and_options_are_completed_all_the_same(tmp_path: Path) -> None:
    assert offered("hn job view ", tmp_path) == []
    assert "--detailed" in offered("hn job view --d", tmp_path)


def shell(tmp_path: Path, *command: str) -> list[str]:
    """Run a shell with `hn` in its path; return the lines it prints."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "hn").write_text(f'#!/bin/sh\nexec {sys.executable} -m headnode.apps.cli "$@"\n')
    (programs / "hn").chmod(0o755)
    environment = {**os.environ, "HEADNODE_STATE": str(tmp_path), "HOME": str(tmp_path)}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def needs(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hn job view ", "31 4"),
        ("hn job list --state=ru", "Running"),
        ("hn job submit /priority:a", "AboveNormal"),
    ],
)  # fmt: skip
def test_bash_completes_also_behind_its_own_word_breaks(tmp_path: Path, line: str, words: str) -> None:
    ask = 'source <(hn completion bash); COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(hn); _hn'
    with ScriptedHead(tmp_path, SCRIPT):
        result = shell(tmp_path, "bash", "-c", f'{ask}; echo "${{COMPREPLY[@]}}"', "bash", line)
    assert result == [words]


def test_zsh_completes_with_descriptions(tmp_path: Path) -> None:
    needs("zsh")
    stubs = "compdef() { : }; _describe() { print -rl -- $found }; _files() { print files }"
    ask = f"{stubs}; source <(hn completion zsh); words=(hn node drain ''); CURRENT=4; _hn"
    with ScriptedHead(tmp_path, SCRIPT):
        assert shell(tmp_path, "zsh", "-fc", ask) == [
            "n1:Ready, 2 of 2 processors free",
            "n2:Ready, 2 of 2 processors free",
        ]


def test_fish_completes_with_descriptions(tmp_path: Path) -> None:
    needs("fish")
    ask = 'hn completion fish | source; complete -C "hn node drain n2"'
    with ScriptedHead(tmp_path, SCRIPT):
        assert shell(tmp_path, "fish", "-c", ask) == ["n2\tReady, 2 of 2 processors free"]
