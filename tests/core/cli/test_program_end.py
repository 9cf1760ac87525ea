"""The program `hn` ends without taking the interpreter apart: nothing that it says may be lost by that."""

import os
import subprocess
import sys
from pathlib import Path

from headnode.apps.cli.commands.help import help_on

PROGRAM = (sys.executable, str(Path(__file__).parents[3] / "scripts" / "hn"))


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )


def test_all_of_a_long_text_arrives_in_a_pipe() -> None:
    done = run("job", "submit", "--help")
    assert (done.stdout, done.stderr, done.returncode) == (help_on(["job", "submit"], None), "", 0)


def test_a_mistake_is_reported_and_has_its_exit_status() -> None:
    done = run("job", "submitt")
    assert done.returncode == 2
    assert "submitt" in done.stderr
    assert done.stdout == ""


def test_a_reader_who_has_seen_enough_gets_no_traceback() -> None:
    with subprocess.Popen(
        [*PROGRAM, "job", "submit", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == b""


def test_what_the_locale_cannot_show_is_written_with_escapes(tmp_path: Path) -> None:
    name = tmp_path / "n\u00e4me \u2603.toml"
    name.write_text('command = "true"\n', encoding="utf-8")
    done = run("check", str(name), PYTHONIOENCODING="ascii", HEADNODE_RESIDENT_CLIENT="0")
    assert done.returncode == 0, done.stderr
    assert "n\\xe4me \\u2603.toml: native: it can be submitted" in done.stdout


def test_words_that_people_try_lead_to_the_command() -> None:
    tried = {"submit": "did you mean: hn job submit", "status": "hn job list", "-q": "write options after"}
    for word, meant in tried.items():
        assert meant in run(word, "x").stderr
    assert "did you mean: hn compat run squeue" in run("squeue").stderr
    verbs = {"job delete": "hn job cancel", "job output": "hn task output", "node show": "hn node view"}
    for words, meant in verbs.items():
        assert meant in run(*words.split(), "1").stderr
