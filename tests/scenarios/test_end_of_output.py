"""The last lines of what a task has printed."""

import base64
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import ScriptedHead, hn

from headnode.apps.cli.output_reading import PIECE, LocalFile, last_lines


def tail(file: Path, lines: int) -> bytes:
    """Return what is behind the offset at which the last lines begin."""
    return file.read_bytes()[last_lines(LocalFile(str(file)), lines) :]


@pytest.mark.parametrize(
    "text", [b"", b"a", b"a\n", b"\n\n\n", b"a\nb\nc", b"a\nb\nc\n", b"\n" * 3 + b"x" * 5 * PIECE + b"\nend"]
)
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 99])
def test_the_last_lines_are_those_of_tail(text: bytes, lines: int, tmp_path: Path) -> None:
    (file := tmp_path / "out").write_bytes(text)
    every = text.splitlines(keepends=True)
    assert tail(file, lines) == b"".join(every[len(every) - min(lines, len(every)) :])


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    (file := tmp_path / "out").write_bytes(b"line\n" * PIECE)
    read = 0

    class Counted(LocalFile):
        def pieces(self, start: int):
            nonlocal read
            for piece, behind in super().pieces(start):
                read += len(piece)
                yield piece, behind

    assert len(file.read_bytes()) - last_lines(Counted(str(file)), 10) == 50
    assert read == PIECE


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(LocalFile(str(tmp_path / "out")), 5) == 0


def test_the_end_of_a_task_and_of_each_instance_is_printed(state: Path) -> None:
    result = hn(
        "job", "submit", "--wait", "--quiet", "/parametric:1-2", "sh -c 'seq 5; echo end *'", state=state
    )
    job = result.stdout.split()[0]
    assert hn("task", "output", f"{job}.1.1", "--tail", "2", state=state).stdout == "5\nend 1\n"
    assert hn("task", "output", job, "-n", "1", state=state).stdout == "end 1\nend 2\n"
    assert hn("task", "output", f"{job}.1.2", "-f", "-n", "1", state=state).stdout == "end 2\n"
    assert hn("task", "output", job, "-f", "-n", "1", state=state).stdout == "end 1\nend 2\n"
    refused = hn("task", "output", job, "--tail", "1000001", state=state)
    assert (refused.returncode, "at most 1000000" in refused.stderr) == (2, True)


def test_what_was_canceled_before_it_ran_says_so(state: Path) -> None:
    assert hn("node", "list", state=state).returncode == 0
    job = hn("job", "submit", "--quiet", "--holduntil", "60", "echo a", state=state).stdout.strip()
    assert hn("job", "cancel", job, "--message", "not needed", state=state).returncode == 0
    assert (
        "Message                 : it never ran: not needed\n" in hn("job", "view", job, state=state).stdout
    )
    assert (
        hn("task", "output", job, state=state).stderr
        == f"hn: job {job} has no output: it never ran: not needed\n"
    )
    assert "has no standard output: it never ran" in hn("task", "output", f"{job}.1", state=state).stderr


def test_all_that_is_printed_after_the_command_began_is_new(tmp_path: Path) -> None:
    (file := tmp_path / "out").write_text("1\n2\n3\n")
    files = {"standard_output": str(file), "captured_path": str(file)}
    states = iter(["queued", "running"])

    def read(request: dict[str, Any]) -> dict[str, Any]:
        data = file.read_bytes()
        start = request["offset"] if request["offset"] >= 0 else max(0, len(data) + request["offset"])
        return {"data": base64.b64encode(data[start:]).decode(), "size": len(data)}

    script = {
        "task_output": lambda _: files | {"state": next(states, "finished"), "remote": True},
        "read_output": read,
    }
    with ScriptedHead(tmp_path, script):
        waited = hn("task", "output", "12.1", "-f", "-n", "1", state=tmp_path)
        ended = hn("task", "output", "12.1", "-f", "-n", "1", state=tmp_path)
    assert (waited.stdout, ended.stdout) == ("1\n2\n3\n", "3\n"), waited.stderr
