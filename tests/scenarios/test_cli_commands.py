"""The commands as a shell runs them, against a head that answers from a script."""

import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_scripted_head import REFUSED, Script, ScriptedHead, frame, hn, job, node, task

import headnode
from headnode.apps.cli.commands import job_wait
from headnode.apps.cli.output import TableOutput
from headnode.apps.client.client import Client

SWEEP = {"total": 3, "queued": 0, "running": 0, "finished": 3, "failed": 0, "canceled": 0}
JOB_FILE = "<Job Name='x'><Tasks><Task CommandLine='true'/></Tasks></Job>"
BANNED = {
    "argparse", "asyncio", "ctypes", "dataclasses", "datetime", "difflib", "email", "enum", "json", "logging",
    "lxml", "msgspec", "pathlib", "re", "rich", "shlex", "socket", "subprocess", "tempfile", "threading",
    "typing", "urllib",
}  # fmt: skip


def submitted(number: int = 123) -> dict[str, Any]:
    return {"job": number, "report": []}


def test_a_program_is_submitted_with_its_options_as_text(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"submit_job": submitted()}) as head:
        result = hn(
            "job", "submit", "/NumCores:2-4", "--name", "a b", "/env:A=1", "/bin/echo", "x y", state=tmp_path
        )
    assert (result.stdout, result.returncode) == ("Job has been submitted. ID: 123.\n", 0)
    assert result.stderr == "hn: it runs in your home directory\n"
    assert head.asked == [
        {
            "verb": "submit_job",
            "terms": {"numprocessors": "2-4", "jobname": "a b"},
            "tasks": [{"numprocessors": "2-4", "command": "/bin/echo 'x y'", "env": {"A": "1"}}],
        }
    ]


def imported_by(state: Path, *words: str, program: str = "hn") -> set[str]:
    """Return the modules that a command imports; `program` is the name by which `hn` is started."""
    start = f"import sys; sys.argv[0] = {program!r}; from headnode.apps.cli.__main__ import main; main()"
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", start, *words],
        env={**os.environ, "HEADNODE_STATE": str(state), "XDG_RUNTIME_DIR": str(state)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if "|" in line}


def test_a_submission_imports_next_to_nothing(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"submit_job": submitted()}):
        imported = imported_by(tmp_path, "job", "submit", "/bin/true")
    assert "headnode.apps.cli.terms" in imported
    assert sorted(imported & BANNED) == []
    assert (
        len({name for name in imported if name.startswith("headnode")}) <= 28
    )  # with catalogue and codec, and what programs submit by


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (("squeue", "-h", "-o", "%i %T"), {"jobs": {"jobs": [], "more": None, "total": 0, "damage": []}}),
        (("sbatch", "--wrap", "true"), {"submit_job": submitted()}),
    ],
)
def test_programs_that_poll_loops_start_import_next_to_nothing(
    tmp_path: Path, words: tuple[str, ...], answers: dict[str, Any]
) -> None:
    with ScriptedHead(tmp_path, answers):
        imported = imported_by(tmp_path, *words[1:], program=words[0])
    assert f"headnode.apps.cli.batch_programs.{words[0]}" in imported
    assert sorted(imported & BANNED) == []


def test_a_job_file_is_sent_as_text_and_its_losses_are_told(tmp_path: Path) -> None:
    file = tmp_path / "job.xml"
    file.write_text(JOB_FILE)
    lost = {"kind": "not-supported", "where": "Job", "what": "Pool is not kept", "line": 1, "column": 5}
    kept = {"kind": "note", "where": "Job", "what": "harmless", "line": 1, "column": 9}
    with ScriptedHead(tmp_path, {"submit_job": {"job": 5, "report": [kept, lost]}}) as head:
        result = hn("job", "submit", f"/jobfile:{file}", "/priority:Lowest", "--strict", state=tmp_path)
    assert result.stdout == "Job has been submitted. ID: 5.\n"
    assert result.stderr == f"hn: {file}:1:5: not-supported: Pool is not kept (Job)\n"
    asked = head.asked[0]
    assert (asked["jobfile"], asked["terms"], asked["strict"]) == (JOB_FILE, {"priority": "Lowest"}, True)


def test_a_node_of_the_head_s_machine_is_said_to_return_when_it_is_removed(tmp_path: Path) -> None:
    nodes = [{"name": "here", "remote": False}, {"name": "far", "remote": True}]
    with ScriptedHead(tmp_path, {"nodes": {"nodes": nodes}, "remove_node": {}}):
        far, here = (hn("node", "remove", name, state=tmp_path) for name in ("far", "here"))
    assert (far.stdout, far.stderr) == ("Node far has been removed.\n", "")
    assert "the head starts a node of its own machine again" in here.stderr


def test_a_job_is_made_filled_and_submitted_in_steps(tmp_path: Path) -> None:
    script = {
        "create_job": submitted(8),
        "add_tasks": {"job": 8, "tasks": [1]},
        "submit_job": lambda request: submitted(request.get("job", 9)),
        "requeue_job": submitted(9) | {"reopened": []},
        "cancel_task": {"job": 9, "task": 2},
    }
    with ScriptedHead(tmp_path, script) as head:
        # One shell makes all of them, so that !! stands for its job.
        steps = (
            'hn() { "$PY" -m headnode.apps.cli "$@"; }',
            "hn job new /jobname:a",
            "hn job add '!!' echo '!!'",
            "hn job submit '/id:!!'",
            "hn job submit --parentjobids '5,!!' true",
            "hn job requeue '!!'",
            "hn task cancel '!!.2'",
        )
        environment = {
            **os.environ,
            "PY": sys.executable,
            "HEADNODE_STATE": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
        }
        result = subprocess.run(
            ["sh", "-c", "\n".join(steps)], env=environment, capture_output=True, text=True, check=False
        )
    assert result.stdout == (
        "Job queued, ID: 8\nTask has been added. ID: 8.1.\nJob has been submitted. ID: 8.\n"
        "Job has been submitted. ID: 9.\nJob 9 has been requeued.\nTask 9.2 has been canceled.\n"
    )
    assert head.asked[1] == {"verb": "add_tasks", "job": 8, "tasks": [{"command": "echo '!!'"}]}
    assert head.asked[2] == {"verb": "submit_job", "job": 8}
    assert head.asked[3]["terms"] == {"parentjobids": "5,8"}
    assert head.asked[4] == {"verb": "requeue_job", "job": 9}


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["job", "submit"], 2, "hn: there is nothing to submit; give one of: "),
        (["job", "submit", "/id:1", "prog"], 2, "hn: a program, a job file and /id exclude each other; "),
        (["job", "submit", "/id:1", "/stdout:x"], 2, "hn: option 'stdout' describes a task; "),
        (["job", "submit", "/jobfile:/nowhere"], 2, "hn: job file '/nowhere' cannot be read: No such file"),
        (["job", "submit", "/runtme:1", "x"], 2, "hn: option '/runtme' is unknown; did you mean /runtime?"),
        (["job", "sumbit"], 2, "hn: there is no command 'job sumbit'; did you mean: hn job submit"),
        (["jbo"], 2, "hn: there is no command 'jbo'; did you mean: hn job"),
        (["job", "view", "x"], 2, "hn: 'x' is not an id; "),
        (
            ["job", "view", "3", "/x"],
            2,
            "hn: '/x' is neither an id nor an option of this command; see the options",
        ),
        (
            ["filter", "test", "f", "/nowhere"],
            2,
            "hn: job file '/nowhere' cannot be read: No such file or directory; ",
        ),
        (["job", "add", "7"], 2, "hn: the task has no program; "),
        (["job", "new", "prog"], 2, "hn: a new job takes no program, such as 'prog'; "),
        (["job", "modify", "7"], 2, "hn: nothing is to be changed; "),
        (["job", "list", "/state:idle"], 2, "hn: state 'idle' is unknown; choose from: Configuring, "),
        (["job", "list", "/format:xml"], 2, "hn: format 'xml' is unknown; "),
        (["job", "view", "!!"], 2, "hn: '!!' is the last job of this shell, and this shell has made none; "),
        (["job", "list", "/scheduler:FAR"], 1, "hn: you have not logged in to the head 'FAR'; "),
        (["job", "export", "7", "--to", "hpcpak"], 2, "hn: there is no job language 'hpcpak'; did you mean"),
        (["node", "view"], 2, "hn: 0 nodes were given; "),
        (["completion", "tcsh"], 2, "hn: no supported shell is named; "),
        (["job", "submit", "\udcff"], 2, "hn: argument '\\xff' is not UTF-8; "),
    ],
)
def test_wrong_usage_is_reported_with_the_way_out(
    tmp_path: Path, words: list[str], status: int, error: str
) -> None:
    result = hn(*words, state=tmp_path)
    assert (result.stdout, result.returncode) == ("", status)
    assert result.stderr.startswith(error)
    assert result.stderr.count("\n") == 1


def test_without_a_head_every_question_says_how_to_start_one(tmp_path: Path) -> None:
    for words in (["job", "list"], ["job", "submit", "/bin/true"], ["node", "list"], ["down"]):
        result = hn(*words, state=tmp_path)
        assert result.stderr == f"hn: no head is running in '{tmp_path}'; start one with: hn up\n"
        assert (result.stdout, result.returncode) == ("", 1)


def test_a_dead_socket_is_no_head(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {}):
        os.link(tmp_path / "head.sock", tmp_path / "left.sock")
    (tmp_path / "left.sock").rename(tmp_path / "head.sock")
    assert "start one with: hn up" in hn("job", "list", state=tmp_path).stderr


def test_a_state_directory_too_deep_for_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with ScriptedHead(deep, {"submit_job": submitted(9)}):
        result = hn("job", "submit", "--state", str(deep), "/bin/true", state=tmp_path)
    assert result.stdout == "Job has been submitted. ID: 9.\n"


def test_the_head_can_be_named_in_every_way(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    with ScriptedHead(own, {"jobs": {"jobs": [], "more": None, "total": 0}}):
        for words in (
            ["job", "list", f"/scheduler:{own}"],
            ["job", "list", "--state", str(own)],
            ["job", "list", f"/state:{own}", "/state:running"],
            ["--state", str(own), "job", "list"],
            [f"--state={own}", "job", "list"],
        ):
            assert hn(*words, state=tmp_path).returncode == 0, words


def test_a_refusal_is_reported_and_each_of_many_is_tried(tmp_path: Path) -> None:
    def cancel(request: dict[str, Any]) -> dict[str, Any] | bytes:
        return REFUSED if request["job"] == 12 else {"job": request["job"], "state": "canceled"}

    with ScriptedHead(tmp_path, {"cancel_job": cancel}) as head:
        result = hn("job", "cancel", "11-13", "/message:why not", "/force", state=tmp_path)
    assert result.stdout == "Job 11 has been canceled.\nJob 13 has been canceled.\n"
    assert result.stderr == "hn: job 12 belongs to 'bob'; ask bob\n"
    assert result.returncode == 1
    assert head.asked[0] == {"verb": "cancel_job", "job": 11, "message": "why not", "force": True}


def test_bad_input_found_by_the_head_is_status_two(tmp_path: Path) -> None:
    refused = json.dumps(
        {"ok": False, "code": "x", "what": "no", "fix": "", "exit_status": 2, "class": "bad-input"}
    ).encode()
    with ScriptedHead(tmp_path, {"submit_job": refused}):
        result = hn("job", "submit", "/priority:4001", "true", state=tmp_path)
    assert (result.stderr, result.returncode) == ("hn: no\n", 2)


@pytest.mark.parametrize("answer", [b"not json", b"[]", b'"\xff"', None])
def test_a_head_that_breaks_off_or_talks_nonsense_is_reported_as_lost(
    tmp_path: Path, answer: bytes | None
) -> None:
    with ScriptedHead(tmp_path, {"jobs": answer}):
        result = hn("job", "list", state=tmp_path)
    assert result.stderr.startswith("hn: the connection to the head was lost (")
    assert result.returncode == 1


def test_a_list_asks_for_the_own_live_jobs_unless_told_otherwise(tmp_path: Path) -> None:
    page = {"jobs": [job(12, "Running", name="first")], "more": 12, "total": 40}
    with ScriptedHead(tmp_path, {"jobs": page}) as head:
        table = hn("job", "list", state=tmp_path)
        hn("job", "list", "/all", state=tmp_path)
        hn(
            "job",
            "list",
            "/user:bob",
            "/state:finished,cancelled",
            "--limit=5",
            "--before",
            "99",
            state=tmp_path,
        )
        document = hn("job", "list", "--json", state=tmp_path)
        ids = hn("job", "list", "--quiet", state=tmp_path)
    assert head.asked[:3] == [
        {"verb": "jobs", "owner": "", "states": ["Queued", "Running", "Suspended"], "limit": 100},
        {"verb": "jobs", "limit": 100},
        {"verb": "jobs", "owner": "bob", "states": ["Finished", "Canceled"], "before": 99, "limit": 5},
    ]
    lines = table.stdout.splitlines()
    assert lines[0].split()[:5] == ["Id", "Name", "Owner", "State", "Priority"]
    assert lines[2].split()[:5] == ["12", "first", "alice", "Running", "Normal"]
    assert lines[-1] == "1 matching job on this page, more with --before 12"
    assert json.loads(document.stdout) == page["jobs"]
    assert ids.stdout == "12\n"


def test_a_list_goes_back_by_a_span_of_time(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"jobs": {"jobs": [], "more": None, "total": 0}}) as head:
        began = time.time()
        assert hn("job", "list", "--since", "1h", state=tmp_path).returncode == 0
        ended = time.time()
    assert began <= head.asked[0]["since"] + 3600 <= ended


def test_the_version_is_reported_by_the_option_as_by_the_command(tmp_path: Path) -> None:
    output = [hn(word, state=tmp_path).stdout for word in ("--version", "version")]
    assert output[0] == output[1] == f"headnode {headnode.__version__}\n"


def test_one_json_document_holds_the_outcome_of_many_deeds(tmp_path: Path) -> None:
    def cancel(request: dict[str, Any]) -> dict[str, Any]:
        return {"job": request["job"], "state": "canceled"}

    with ScriptedHead(tmp_path, {"cancel_job": cancel}):
        result = hn("job", "cancel", "1", "2", "--json", state=tmp_path)
    assert json.loads(result.stdout) == [{"job": 1, "state": "canceled"}, {"job": 2, "state": "canceled"}]


def test_waiting_tells_only_the_end_in_a_pipe_and_its_status_is_that_of_the_jobs(tmp_path: Path) -> None:
    over = job(12, "Finished", tasks=SWEEP, started=0.5, ended=1_700_000_090.5)
    failed = job(13, "Failed", ended=1_700_000_061.0, message="task 13.1 failed")
    news = [{"jobs": [job(12), job(13)]}, {"jobs": [over]}, {"jobs": [failed], "done": True}]
    with ScriptedHead(tmp_path, {"watch_jobs": news}) as head:
        result = hn("job", "wait", "12", "13", "12", state=tmp_path)
    assert head.asked == [{"verb": "watch_jobs", "job": [12, 13]}]
    assert result.stdout.splitlines()[1] == "Job 13 failed, in 1 s; task 13.1 failed"
    assert result.stdout.startswith("Job 12 finished: 3 tasks finished, in ")
    assert (result.stdout.count("\n"), result.stderr, result.returncode) == (2, "", 1)


@contextmanager
def waiting_on_terminal(
    tmp_path: Path, watch: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
) -> Iterator[int]:
    """Let `hn job wait` write on a terminal, which is read from the descriptor; it succeeds in the end."""
    ours, theirs = pty.openpty()
    with ScriptedHead(tmp_path, {"watch_jobs": watch}):
        process = subprocess.Popen(
            [sys.executable, "-m", "headnode.apps.cli", "job", "wait", "12"],
            env={**os.environ, "HEADNODE_STATE": str(tmp_path), "TERM": "xterm", "COLUMNS": "120"},
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        yield ours
        os.close(ours)
        assert process.wait() == 0


def test_waiting_shows_bars_on_a_terminal_and_takes_them_away_at_the_end(tmp_path: Path) -> None:
    half = {**SWEEP, "total": 4, "running": 2, "finished": 1, "failed": 1}
    release = threading.Event()

    def watch(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"jobs": [job(12, "Running", name="lattice", tasks=half)]}
        release.wait(timeout=60)
        yield {"jobs": [job(12, "Finished", name="lattice", tasks=SWEEP)], "done": True}

    screen = b""
    with waiting_on_terminal(tmp_path, watch) as ours:
        while piece := read_terminal(ours):
            screen += piece
            if b"1/4 tasks finished, 2 running, 1 failed" in screen:
                release.set()
    assert b'Job 12 "lattice" running' in screen
    assert screen.rstrip().endswith(b"Job 12 'lattice' finished: 3 tasks finished")


def on_terminal(tmp_path: Path, news: Iterator[dict[str, Any]], last: bytes) -> bytes:
    """Return what a terminal shows while a job is waited for, until `last` is on it."""
    release = threading.Event()

    def watch(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from news
        release.wait(timeout=60)
        yield {"jobs": [job(12, "Finished")], "done": True}

    screen = b""
    with waiting_on_terminal(tmp_path, watch) as ours:
        while last not in screen and (piece := read_terminal(ours)):
            screen += piece
        release.set()
        while read_terminal(ours):
            pass
    return screen


def test_a_terminal_shows_why_and_until_when_a_job_waits(tmp_path: Path) -> None:
    soon = {"p50": time.time() + 5000}
    waits = job(12, name="lattice", pending_reason="needs 8 processors", expected=soon)
    screen = on_terminal(tmp_path, iter([{"jobs": [waits]}]), b"start in")
    assert b'Job 12 "lattice" queued: needs 8 processors; it should start in' in screen


def test_the_bar_of_a_job_with_a_failed_task_is_red(tmp_path: Path) -> None:
    red, green = b"\x1b[31m", b"\x1b[32m"
    well = {**SWEEP, "total": 3, "running": 1, "finished": 2}
    ill = {**SWEEP, "total": 3, "running": 0, "finished": 2, "failed": 1}
    screen = on_terminal(tmp_path, iter([{"jobs": [job(12, "Running", tasks=well)]}]), b"1 running")
    assert green in screen
    screen = on_terminal(tmp_path, iter([{"jobs": [job(12, "Running", tasks=ill)]}]), b"1 failed")
    assert red in screen
    assert green not in screen


def test_a_pipe_is_told_why_a_job_waits_once_it_has_waited_for_seconds(capsys: Any, monkeypatch: Any) -> None:
    clock = iter([0.0, 0.1, 5.0, 6.0])
    monkeypatch.setattr(job_wait, "time", SimpleNamespace(monotonic=lambda: next(clock), time=time.time))
    reasons = job_wait._ReasonLines(TableOutput(print, lambda text: print(text, end=""), print))
    queued = job(12, pending_reason="needs 8 processors", expected={"p50": time.time() + 5000})
    reasons.show([queued])
    assert capsys.readouterr().out == ""
    reasons.show([queued])
    assert capsys.readouterr().out.startswith("hn: job 12 waits: needs 8 processors; it should start in 1h")
    reasons.show([queued])
    assert capsys.readouterr().out == ""


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end of a terminal is closed
        return b""


def test_waiting_survives_a_restart_of_the_head(tmp_path: Path) -> None:
    answers = iter(
        [[{"jobs": [job(12)]}, b"broken off"], None, {"jobs": [job(12, "Finished")], "done": True}]
    )
    with ScriptedHead(tmp_path, {"watch_jobs": lambda _: next(answers)}) as head:
        result = hn("job", "wait", "12", state=tmp_path)
    assert (result.returncode, len(head.asked)) == (0, 3)


def reading(path: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return how a head reads a file of a task, as it does for root and for other machines."""

    def read(request: dict[str, Any]) -> dict[str, Any]:
        text = path.read_bytes() if path.exists() else b""
        data = base64.b64encode(text[request["offset"] :]).decode()
        return {"data": data, "size": len(text), "missing": not path.exists()}

    return read


def test_submit_and_wait_shows_what_the_only_task_printed(tmp_path: Path) -> None:
    printed = tmp_path / "out"
    printed.write_bytes(b"hello\xff\n")
    one = {**SWEEP, "total": 1, "finished": 1}
    script = {
        "submit_job": submitted(12),
        "watch_jobs": {"jobs": [job(12, "Finished", tasks=one)], "done": True},
        "task_output": {
            "standard_output": str(printed),
            "standard_error": None,
            "captured": True,
            "captured_path": str(printed),
            "state": "finished",
        },
        "read_output": reading(printed),
    }
    with ScriptedHead(tmp_path, script):
        result = subprocess.run(
            [sys.executable, "-m", "headnode.apps.cli", "job", "submit", "--wait", "/bin/hello"],
            env={**os.environ, "HEADNODE_STATE": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            check=False,
        )
    assert result.stdout == (
        b"Job has been submitted. ID: 12.\nJob 12 finished: 1 task finished\nhello\xff\n"
    )
    assert result.returncode == 0


def test_output_is_followed_until_the_task_is_over(tmp_path: Path) -> None:
    growing = tmp_path / "out"
    seen: list[str] = []

    def output(_: dict[str, Any]) -> dict[str, Any]:
        seen.append("")
        if len(seen) < 4:
            return {"standard_output": None, "standard_error": None, "captured": False, "state": "queued"}
        if len(seen) > 6:
            with growing.open("ab") as file:
                file.write(b"last\n")
        state = "finished" if len(seen) > 6 else "running"
        growing.touch()
        if len(seen) == 4:
            growing.write_bytes(b"first\n")
        kept = {
            "standard_output": str(growing),
            "standard_error": None,
            "captured": True,
            "captured_path": str(growing),
        }
        return {**kept, "state": state}

    with ScriptedHead(tmp_path, {"task_output": output, "read_output": reading(growing)}):
        result = hn("task", "output", "12.1", "--follow", state=tmp_path)
    assert (result.stdout, result.returncode) == ("first\nlast\n", 0)


def test_output_of_a_task_that_has_none_says_why(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"standard_output": None, "standard_error": None, "captured": False}
    nothing |= {"captured_path": None, "state": "queued"}
    gone = {**nothing, "standard_output": "/nowhere/out", "state": "finished", "node": "n1"}
    script: Script = {
        "task_output": lambda request: gone if request["task"] == 2 else nothing,
        "read_output": reading(Path("/nowhere/out")),
    }
    with ScriptedHead(tmp_path, script):
        waits, missing = (
            hn("task", "output", "12.1", state=tmp_path),
            hn("task", "output", "12.2", state=tmp_path),
        )
    assert waits.stderr == "hn: task 12.1 is queued and has no standard output; wait for it with --follow\n"
    assert re.match("hn: output file '(n1:)?/nowhere/out' cannot be read: No such file", missing.stderr)
    assert (waits.returncode, missing.returncode) == (1, 1)


def test_tasks_are_listed_with_the_instances_of_sweeps_if_asked(tmp_path: Path) -> None:
    def tasks(request: dict[str, Any]) -> dict[str, Any]:
        if request.get("expand") == 2:
            after = request.get("after", 0)
            return {"tasks": [task(2, instance=after + 1)], "more": 1 if after == 0 else None}
        return {"tasks": [task(1, exit_code=0), task(2, instances=SWEEP)], "more": None}

    with ScriptedHead(tmp_path, {"tasks": tasks}):
        plain = hn("job", "listtasks", "12", "--quiet", state=tmp_path)
        expanded = hn("job", "listtasks", "12", "/expandparametric", "--quiet", state=tmp_path)
    assert plain.stdout.split() == ["12.1", "12.2"]
    assert expanded.stdout.split() == ["12.1", "12.2", "12.2.1", "12.2.2"]


def test_clusrun_is_known_by_its_name_too(tmp_path: Path) -> None:
    result = hn("clusrun", "--help", state=tmp_path)
    assert (result.returncode, result.stdout) == (0, hn("run", "--help", state=tmp_path).stdout)


def test_nodes_and_processors_are_listed(tmp_path: Path) -> None:
    cores = [{"processor": 0, "job": 7, "task": 1, "command": "sim"}]
    script = {
        "nodes": {"nodes": [node("n1", groups=["fast"]), node("n2")]},
        "node": lambda request: {"node": node(request["node"], cores=cores)},
        "drain_node": {"node": node("n1", state="Drained")},
        "resume_node": {"node": node("n1")},
    }
    with ScriptedHead(tmp_path, script) as head:
        assert hn("node", "list", "/group:fast", "--quiet", state=tmp_path).stdout == "n1\n"
        assert "n2 - 0               TaskRunning      7" in hn("node", "listcores", state=tmp_path).stdout
        running = hn("node", "listcores", "/state:taskrunning", "--quiet", state=tmp_path).stdout
        assert running == "n1 - 0\nn2 - 0\n"
        assert hn("node", "listcores", "--state", "idle,offline", "--quiet", state=tmp_path).stdout == ""
        wrong = hn("node", "listcores", "/state:ilde", state=tmp_path).stderr
        assert wrong.startswith("hn: state 'ilde' is unknown; choose from: Offline, Idle, ")
        assert hn("node", "offline", "n1,n2", state=tmp_path).stdout.count("has been drained;") == 2
        assert hn("node", "online", "n1", state=tmp_path).stdout.count("has been resumed.") == 1
    assert [asked["verb"] for asked in head.asked][-3:] == ["drain_node", "drain_node", "resume_node"]


def test_parameters_are_set_and_shown_by_name(tmp_path: Path) -> None:
    parameter = {"name": "HeartbeatInterval", "value": "30", "default": "60", "unit": "s", "doc": "how often"}
    listed = {"parameters": [parameter]}
    with ScriptedHead(tmp_path, {"parameters": listed, "set_parameters": listed}) as head:
        result = hn("cluster", "params", "HeartbeatInterval=30", state=tmp_path)
        wrong = hn("cluster", "params", "HartbeatInterval", state=tmp_path)
        hn("cluster", "setparams", "HeartbeatInterval=", state=tmp_path)
    assert result.stdout.splitlines()[2].split() == ["HeartbeatInterval", "30s", "1m", "how", "often"]
    assert wrong.stderr.endswith("did you mean heartbeatinterval?\n")
    assert [asked.get("values") for asked in head.asked] == [
        {"HeartbeatInterval": "30"}, None, {"HeartbeatInterval": None},
    ]  # fmt: skip


def test_a_reader_that_has_seen_enough_is_no_disaster(tmp_path: Path) -> None:
    many = {"jobs": [job(number) for number in range(5000)], "more": None, "total": 5000}
    environment = {**os.environ, "PY": sys.executable, "HEADNODE_STATE": str(tmp_path)}
    environment.pop("PYTHONUNBUFFERED", None)  # Python then takes a write that was cut short for a whole one
    command = '("$PY" -m headnode.apps.cli job list /all; echo $? >&2) | head -n 1'
    with ScriptedHead(tmp_path, {"jobs": many}):
        result = subprocess.run(
            ["sh", "-c", command], env=environment, capture_output=True, text=True, check=False
        )
    assert (result.stderr, result.stdout.count("\n")) == ("1\n", 1)


def test_a_single_record_is_shown_as_keys_and_values(tmp_path: Path) -> None:
    shown = job(12, "Running", allocation=[{"node": "n1", "processors": [0, 1]}], spec={}, requeues=0)
    with ScriptedHead(
        tmp_path, {"job": {"job": shown}, "job_history": {"history": [{"at": 0, "text": "Created"}]}}
    ):
        result = hn("job", "view", "12", "/history", state=tmp_path)
    assert result.stdout.startswith("Id                      : 12\nName                    :\n")
    assert "Allocated Nodes         : n1 (2)\n" in result.stdout
    assert result.stdout.endswith("History                 : 1970-01-01T00:00:00+00:00  Created\n")


def test_a_strict_check_names_every_value_that_is_too_long_at_once(tmp_path: Path) -> None:
    file = tmp_path / "wide.xml"
    file.write_text(
        f'<Job xmlns="http://www.microsoft.com/ComputeCluster/" Name="{"n" * 90}"\n Project="{"p" * 90}">\n'
        f'<Tasks><Task CommandLine="{"c" * 500}"\n WorkDirectory="{"w" * 200}"/></Tasks></Job>'
    )
    result = hn("check", "--strict", str(file), state=tmp_path)
    assert result.returncode == 2
    found = re.findall(
        r"^\S+:(\d+):\d+: error: .*'(\w+)' is longer than (\d+) characters", result.stdout, re.M
    )
    limits = [("Name", "80"), ("Project", "80"), ("CommandLine", "480"), ("WorkDirectory", "160")]
    assert [(name, most) for _, name, most in found] == limits
    assert hn("check", str(file), state=tmp_path).returncode == 0


def test_a_job_file_is_checked_by_line_and_column(tmp_path: Path) -> None:
    good, wrong = tmp_path / "good.xml", tmp_path / "wrong.xml"
    good.write_text(JOB_FILE)
    wrong.write_text("<Job>\n <Tasks><Task/></Tasks\n</Job>")
    result = hn("check", str(wrong), str(good), state=tmp_path)
    error, guess, well = result.stdout.splitlines()
    assert error.startswith(f"{wrong}:3:0: error: not well-formed XML")
    assert guess == f"{wrong}: read as Compute Cluster XML; to read it as another language: --from LANGUAGE"
    assert well == f"{good}: hpcpack: it can be submitted"
    assert result.returncode == 2
    assert hn("check", str(good), state=tmp_path).returncode == 0


def test_help_is_there_at_every_level(tmp_path: Path) -> None:
    for words in (
        [],
        ["--help"],
        ["/?"],
        ["job"],
        ["job", "/?"],
        ["job", "submit", "-h"],
        ["help", "node", "list"],
    ):
        result = hn(*words, state=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert "hn " in result.stdout
        assert max(len(line) for line in result.stdout.splitlines()) <= 110


def test_news_that_nobody_wants_any_more_are_no_answer_to_the_next_question(tmp_path: Path) -> None:
    client = Client(str(tmp_path))
    news: list[dict[str, Any]] = [{"jobs": [job(12)]}, {"jobs": [job(12)]}, {"jobs": [], "done": True}]
    with ScriptedHead(tmp_path, {"watch_jobs": news, "ping": {"pid": 7}}):
        for first in client.follow("watch_jobs", job=12):
            assert first["jobs"][0]["id"] == 12
            break
        assert client.ask("ping") == {"pid": 7}
        assert len(list(client.follow("watch_jobs", job=12))) == 3
        assert client.ask("ping") == {"pid": 7}
        client.close()


def test_an_answer_may_come_in_pieces(tmp_path: Path) -> None:
    large = {"jobs": [job(number, name="n" * 1000) for number in range(3000)], "more": None, "total": 3000}
    assert len(frame(large)) > 3_000_000
    with ScriptedHead(tmp_path, {"jobs": large}):
        assert hn("job", "list", "/all", "--quiet", state=tmp_path).stdout.count("\n") == 3000


def test_an_interrupted_wait_says_that_the_job_goes_on(tmp_path: Path) -> None:
    asked = threading.Event()
    release = threading.Event()

    def watch(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"jobs": [job(12)]}
        asked.set()
        release.wait(timeout=60)

    with ScriptedHead(tmp_path, {"watch_jobs": watch}):
        process = subprocess.Popen(
            [sys.executable, "-m", "headnode.apps.cli", "job", "wait", "12"],
            env={**os.environ, "HEADNODE_STATE": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asked.wait(timeout=60)  # then it waits for our news
        process.send_signal(signal.SIGINT)
        found, error = process.communicate(timeout=60)
        release.set()
    assert (found, error, process.returncode) == (
        "",
        "hn: no longer waiting, job 12 continues; wait again: hn job wait 12; or cancel: hn job cancel 12\n",
        130,
    )


def test_jobs_are_suspended_resumed_held_and_released(tmp_path: Path) -> None:
    script = {
        "suspend_job": {"job": 9, "state": "suspending"},
        "resume_job": {"job": 9, "state": "resuming"},
        "hold_job": {"job": 9, "holds": [{"name": "data"}]},
        "release_job": lambda request: {
            "job": 9, "holds": [] if request.get("all") else [{"name": "night"}, {"name": "user"}],
        },
    }  # fmt: skip
    with ScriptedHead(tmp_path, script) as head:
        output = [
            hn("job", *words, state=tmp_path).stdout
            for words in (
                ("suspend", "9"),
                ("resume", "9"),
                ("hold", "9", "/name:data", "/message:no input"),
                ("release", "9", "--name", "data"),
                ("release", "9", "--all"),
            )
        ]
    assert output == [
        "Job 9 has been suspended. Its processes are being stopped.\n",
        "Job 9 has been resumed. It continues when its processors are free.\n",
        "Job 9 has been held.\n",
        "Job 9 has been released. It still has: night, user.\n",
        "Job 9 has been released.\n",
    ]
    assert head.asked == [
        {"verb": "suspend_job", "job": 9},
        {"verb": "resume_job", "job": 9},
        {"verb": "hold_job", "job": 9, "name": "data", "message": "no input"},
        {"verb": "release_job", "job": 9, "name": "data"},
        {"verb": "release_job", "job": 9, "all": True},
    ]


def test_a_job_that_starts_while_it_is_explained_is_explained_as_it_is(tmp_path: Path) -> None:
    words = {
        "policy": "easy",
        "ahead": 0,
        "planned_start": None,
        "blocked_by": None,
        "expected": None,
        "deadline": None,
    }
    words |= {"reservation": None, "refused": None, "searched": False, "incomplete": False, "would_start": []}
    lists: dict[str, Any] = {key: [] for key in ("reasons", "jobs_ahead", "changes", "tasks", "dependencies")}
    waits = {"kind": "processors", "text": "needs 8 processors", "subject": ""}
    queued = {"job": 7, "name": "", "state": "Queued", **words, **lists, "reasons": [waits]}
    found = iter([queued, {**queued, "state": "Running", "reasons": []}])
    script: dict[str, Any] = {
        "explain_job": lambda _: next(found),
        "job": {"job": job(7, "Running", allocation=[])},
    }
    with ScriptedHead(tmp_path, script):
        done = hn("job", "explain", "7", state=tmp_path)
    assert "has been running" in done.stdout, done.stderr
    assert "needs 8 processors" not in done.stdout


def test_the_id_of_a_job_that_is_waited_for_is_printed_once_for_scripts(tmp_path: Path) -> None:
    script = {"submit_job": submitted(7), "watch_jobs": {"jobs": [job(7, "Finished")], "done": True}}
    with ScriptedHead(tmp_path, script):
        done = hn("job", "submit", "--wait", "--quiet", "true", state=tmp_path)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


def test_who_names_a_job_where_a_task_is_wanted_is_shown_how_its_first_is_written(tmp_path: Path) -> None:
    assert "for example 39.1" in hn("task", "view", "39", state=tmp_path).stderr


def test_a_filter_that_answers_changed_and_changed_nothing_is_reported(tmp_path: Path) -> None:
    job_file = tmp_path / "job.xml"
    job_file.write_text(JOB_FILE)
    found = {
        "filter": "f",
        "kind": "submission",
        "text": "exit code 1: Error",
        "seconds": 0.1,
        "exit_code": 1,
    }
    found |= {"outcome": "the job continues as the filter changed it", "changes": [], "reverted": True}
    with ScriptedHead(tmp_path, {"test_filter": found}):
        done = hn("filter", "test", "/opt/f", str(job_file), state=tmp_path)
    assert "did it fail?" in done.stdout, done.stderr


def test_the_ids_of_jobs_are_in_the_document_though_a_later_request_fails(tmp_path: Path) -> None:
    """Who reads none submits all of them again."""

    def submit(request: dict[str, Any]) -> dict[str, Any]:
        if len(head.asked) > 1:
            return {"ok": False, "class": "busy", "code": "disk", "what": "the disk is full", "fix": ""}
        jobs = list(range(1, 1 + len(request["submissions"])))
        return {"ok": True, "jobs": jobs, "submissions": [{"job": job} for job in jobs]}

    (tmp_path / "lines").write_text("/bin/true\n" * 1001)
    with ScriptedHead(tmp_path, {"submit_jobs": submit}) as head:
        done = hn("job", "submit", "--json", "--each-line", "lines", state=tmp_path, cwd=tmp_path)
    assert "the disk is full" in done.stderr
    assert done.returncode != 0
    assert json.loads(done.stdout)["jobs"] == list(range(1, 1001))
