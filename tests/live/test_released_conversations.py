"""What releases said and left in files is read today, and said again with the same bytes."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from documents.released_conversations import CONVERSATIONS, FINDS_TESTS, LOGIN
from documents.released_format import assert_kept
from documents.released_journals import rebuild
from headnode import __version__
from headnode.adapters.notify.outbox import HookCursors, Outbox
from headnode.adapters.processes import job_journal, launcher, shepherd_protocol
from headnode.adapters.processes.attempts import attempts_of
from headnode.adapters.processes.limits import Bounds
from headnode.adapters.processes.remote_command import LaunchOrder
from headnode.adapters.processes.site_programs import HookProgram, run_once
from headnode.adapters.wire.messages import FromAgent, FromHead
from headnode.apps.agent.launch_client import Request
from headnode.apps.agent.output import read_captured_of
from headnode.apps.agent.places import Places
from headnode.apps.agent.prolog_epilog import NodeVisit
from headnode.apps.client.logins import logins
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind, encode_answer
from headnode.core.model.quantities import JobId
from headnode.protocol.stream_frames import ClientFrame, HeadFrame
from heads import RealHead

RELEASES = sorted(path for path in CONVERSATIONS.iterdir() if path.is_dir())
each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)


def frames(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield what was said: connection, speaker, bytes."""
    for line in path.read_text().splitlines():
        number, who, output = line.split(" ", 2)
        yield number, who, output.encode() if output.startswith(("{", "[")) else bytes.fromhex(output)


def check_same(before: bytes, now: bytes, read: Callable[[bytes], Any]) -> None:
    """Check that this version says it with the same bytes; only what was added since may come to them."""
    assert_kept(read(before), read(now))
    assert now == before or len(now) > len(before)


@each_release
def test_head_and_agent_say_today_what_they_said(release: Path) -> None:
    decoders = {"agent": msgspec.msgpack.Decoder(FromAgent), "head": msgspec.msgpack.Decoder(FromHead)}
    seen = set()
    for _, who, data in frames(release / "wire.txt"):
        message = decoders[who].decode(data)  # type: ignore[attr-defined]
        seen.add(type(message).__name__)
        check_same(data, msgspec.msgpack.encode(message), msgspec.msgpack.decode)
    assert seen >= {"Hello", "Welcome", "OpenJob", "Run", "Started", "Results", "ResultsAck", "CloseJob"}


ORDERS: Mapping[str, Callable[..., bytes]] = {
    "stop": shepherd_protocol.stop_message,
    "deadline": shepherd_protocol.deadline_message,
    "suspend": shepherd_protocol.suspend_message,
    "continue": shepherd_protocol.continue_message,
    "lease": shepherd_protocol.lease_message,
    "end-launches": shepherd_protocol.end_launches_message,
    "end-task-launches": shepherd_protocol.end_task_launches_message,
    "acknowledged": shepherd_protocol.acknowledge_message,
    "close": shepherd_protocol.close_message,
    "vacate": shepherd_protocol.vacate_message,
}


def ordered_again(word: str, fields: list[Any]) -> bytes:
    """Read an order as a shepherd does, and give it as an agent does."""
    if word == "run":
        task, lane, shared, limit, items, *_ = fields
        first = attempts_of(fields)[0]
        return shepherd_protocol.run_message(
            task, lane, shared, limit, items, (), first.program.private, first.bounds
        )
    if word == "launch":
        order = LaunchOrder(*fields)
        bounds = Bounds(tuple(order.processors), order.memory, order.held)
        return shepherd_protocol.launch_message(*order[:5], bounds, order.outpost)
    return ORDERS[word](*fields)


@each_release
def test_agent_and_shepherd_say_today_what_they_said(release: Path) -> None:
    seen = set()
    for _, who, data in frames(release / "shepherds.txt"):
        word, *fields = json.loads(data)
        seen.add((who, word))
        if who == "agent":
            check_same(data, ordered_again(word, fields), json.loads)
        else:
            message = shepherd_protocol.read_shepherd_message(data)
            check_same(data, msgspec.json.encode(message), json.loads)
    assert seen >= {("shepherd", word) for word in ("hello", "started", "ended", "launches-ended")}
    assert seen >= {("agent", word) for word in ("run", "launch", "acknowledged", "close", "lease")}


def read_again(verb: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Read a request as a head does; return its fields, with what is the default."""
    fields.pop("idempotency", None)
    request = msgspec.convert(fields, VERBS[verb].request)
    return {name: getattr(request, name) for name in fields}


def said_again(data: bytes, kinds: tuple[Any, ...]) -> bytes:
    """Read an answer as one of these kinds that has all its fields, and give it as a head does."""
    fields = json.loads(data)
    assert fields.pop("ok")
    for kind in kinds:
        with suppress(msgspec.ValidationError):
            answer = encode_answer(msgspec.json.decode(msgspec.json.encode(fields), type=kind, strict=False))
            if json.loads(answer).keys() >= {"ok", *fields}:
                return answer
    raise AssertionError(f"no answer has these fields: {sorted(fields)}")


@each_release
def test_clients_and_head_say_today_what_they_said(release: Path) -> None:
    asked: dict[str, str] = {}  # by connection
    seen = set()
    for number, who, data in frames(release / "clients.txt"):
        fields = json.loads(data)
        if who == "client" and "verb" in fields:
            asked[number] = verb = fields.pop("verb")
            assert read_again(verb, fields).keys() == fields.keys()
            seen.add(verb)
        elif who == "client":
            frame = msgspec.json.decode(data, type=ClientFrame)
            check_same(data, msgspec.json.encode(frame), json.loads)
        elif release.name != __version__:
            continue  # no client reads answers of an older head; the lock has their fields
        elif not fields["ok"]:
            assert set(fields) >= {"code", "what", "fix", "exit_status", "class", "path"}
        else:
            kind = VERBS[asked[number]].kind
            answers = VERBS[asked[number]].answer
            kinds = get_args(HeadFrame) if kind is VerbKind.STREAM else get_args(answers) or (answers,)
            check_same(data, said_again(data, kinds[: 1 if kind is VerbKind.UPDATES else None]), json.loads)
    assert seen >= {"submit_job", "watch_jobs", "shell", "run_on_nodes", "job", "nodes", "audit_log"}


@each_release
def test_a_launcher_and_its_agent_say_today_what_they_said(release: Path) -> None:
    seen = set()
    for _, _, data in frames(release / "launchers.txt"):
        kind, rest = data[:1], data[1:]
        seen.add(kind)
        if kind == launcher.ASK:
            request = msgspec.json.decode(rest, type=Request)
            assert msgspec.to_builtins(request) == json.loads(rest)
        elif kind == launcher.EXIT:
            assert json.loads(rest).keys() == {"code", "problem"}
    known = {launcher.ASK, launcher.ANSWER_FOR, launcher.INPUT, launcher.INPUT_END, launcher.WINDOW}
    assert seen == known | {launcher.OUTPUT, launcher.EXIT}


@each_release
def test_an_agent_finds_what_an_agent_of_a_release_left(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release / "agent", tmp_path / "agent")
    places = Places(tmp_path / "agent")
    [opened] = places.kept()
    [path] = places.journals()
    left = job_journal.read(path)
    assert left is not None
    assert (left.header.job, left.started.keys()) == (opened.job, {(1, 1, 1)})
    visit = msgspec.msgpack.decode((places.jobs / f"{opened.job}.visit").read_bytes(), type=NodeVisit)
    assert (visit.job, visit.stage, visit.prolog) == (opened.job, "ready", "ended")
    prolog = HookProgram("/bin/false", "the prolog", {}, 1.0)
    result = asyncio.run(run_once(prolog, places.jobs / f"{opened.job}.prolog"))
    assert (result.trouble, result.status) == ("", 0)  # as it was, and not run again
    assert read_captured_of(places.captured(JobId(1)), (1, 1), 0, 100) == (b"out\n", 4)


@each_release
def test_a_head_goes_on_with_the_files_of_a_release(release: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(release / "head", state)
    for path in state.glob("*.sql"):
        rebuild(path, path.with_suffix(".db"))
        path.unlink()
    outbox = Outbox(state / "notices.db")
    waiting, _ = outbox.waiting((0, ""), 5)
    assert [(each.address, each.notice.kind) for each in waiting] == [("ada@example.org", "ended")]
    outbox.close()
    assert HookCursors(state / "webhooks.db").number("http://127.0.0.1:1/") == 8
    head = RealHead(state, nodes=0)
    try:
        head.wait_until_ready()
        states = {job["id"]: job["state"] for job in head.ask("jobs", states=["all"])["jobs"]}
        assert states.pop(3) in ("Canceled", "Failed")  # requeued, then canceled if that came in time
        assert states == {1: "Finished", 2: "Finished", 4: "Failed", 5: "Running"}
        lines = head.ask("audit_log", limit=1000)["entries"]
        assert {line["verb"] for line in lines} >= {"set_parameters", "submit_job", "run_on_nodes"}
        assert head.ask("task", job=1, task=1)["task"]["exit_code"] == 0
    finally:
        head.kill()  # it would wait for a node that is not here to cancel job 5


@each_release
def test_a_login_of_a_release_is_read(release: Path, tmp_path: Path) -> None:
    (tmp_path / "headnode").mkdir()
    path = tmp_path / "headnode" / "logins.json"
    shutil.copyfile(release / "logins.json", path)
    path.chmod(0o600)
    [login] = logins({"XDG_CONFIG_HOME": str(tmp_path)})
    assert login.file == str(path)
    names = [name for name in LOGIN.__slots__ if name != "file"]
    assert [getattr(login, name) for name in names] == [getattr(LOGIN, name) for name in names]


def test_a_release_can_still_be_written_down(tmp_path: Path) -> None:
    """The recorder takes the place of functions of the agent, which may move between releases."""
    command = [sys.executable, "-m", "documents.released_conversations", "next", str(tmp_path)]
    subprocess.run(command, env=os.environ | FINDS_TESTS, check=True)
    newest = RELEASES[-1]
    written = {path.relative_to(tmp_path / "next") for path in (tmp_path / "next").iterdir()}
    assert written == {path.relative_to(newest) for path in newest.iterdir()}
    for name in ("wire.txt", "clients.txt", "launchers.txt", "shepherds.txt"):
        assert {who for _, who, _ in frames(tmp_path / "next" / name)} == {
            who for _, who, _ in frames(newest / name)
        }
