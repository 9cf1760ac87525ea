"""The program `hn` ends without taking the interpreter apart: nothing that it says may be lost by that."""

import subprocess
import sys
from pathlib import Path

from headnode.apps.cli.commands.help import help_on

PROGRAM = (sys.executable, str(Path(__file__).parents[3] / "scripts" / "hn"))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60)


def test_all_of_a_long_text_arrives_in_a_pipe() -> None:
    done = run("job", "submit", "--help")
    assert (done.stdout, done.stderr, done.returncode) == (help_on(["job", "submit"], None), "", 0)


def test_a_mistake_is_told_and_has_its_exit_status() -> None:
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
