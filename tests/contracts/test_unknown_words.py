"""A reader that meets an event, record or message of a newer version stops before it writes anything."""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from journal_inputs import encoded_record
from test_known_heads import Speaker

from headnode import __version__
from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.checking import check_file
from headnode.adapters.journal.event_table import checksum
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.processes.job_journal import Header, UnknownRecordError, Writer, read
from headnode.adapters.wire.agent_messages import PROTOCOL, Hello, ReportedAttempt
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.message_checks import Nonsense, read_message
from headnode.adapters.wire.messages import Welcome
from headnode.apps.agent.head_link import HeadLink, LocalTransport
from headnode.core.model.errors import Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.template import JobTemplate
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import EVENTS, ParameterSet, encode
from headnode.core.state.job_events import InstanceEnd, InstancesEnded
from headnode.core.state.job_record import JobRecord, encode_record
from headnode.core.state.snapshot import Snapshot
from headnode.core.state.transitions import JobState
from headnode.engine.engine import Engine
from headnode.engine.ports import EndedJob, Prediction
from headnode.engine.recovery import save
from testbed.in_process import InProcessNodes

NEWER = "99.1"
KNOWN = ParameterSet(at=Instant(1.0), name="JobRetryCount", value="4")
EVENT = msgspec.msgpack.decode(encode(KNOWN))
SNAPSHOT = msgspec.msgpack.decode(save(ClusterState()))


def unknown_event() -> bytes:
    return msgspec.msgpack.encode({**EVENT, "type": "JobTeleported"})


def unknown_field_of_an_event() -> bytes:
    return msgspec.msgpack.encode({**EVENT, "teleported": True})


def journal_of_a_newer_head(path: Path, event: bytes | None, snapshot: bytes | None) -> bytes:
    """Write what a newer version has written; return the file as it is then."""
    journal = SqliteJournal(path)
    journal.append([KNOWN])
    if snapshot is not None:
        journal.keep_snapshot(1, snapshot)
    if event is not None:
        row = (2, None, 0, event, checksum(event, 2))
        journal._database.execute("insert into events values (?, ?, ?, ?, ?)", row)
    journal._database.execute("update cluster set written_by = ?", (NEWER,))
    journal.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("event", "snapshot", "texts"),
    [
        (unknown_event(), None, ["event 2 ", "JobTeleported"]),
        (unknown_field_of_an_event(), None, ["event 2 ", "teleported"]),
        (None, msgspec.msgpack.encode({**SNAPSHOT, "portals": []}), ["snapshot after event 1 ", "portals"]),
        (
            None,
            msgspec.msgpack.encode({**SNAPSHOT, "tokens": [{"beam": 1}]}),
            ["snapshot after event 1 ", "tokens"],
        ),
    ],
    ids=["event", "field of an event", "field of a snapshot", "field of a record"],
)
def test_a_head_names_what_it_does_not_know_and_the_version_needed_and_writes_nothing(
    tmp_path: Path, event: bytes | None, snapshot: bytes | None, texts: list[str]
) -> None:
    path = tmp_path / "journal.db"
    before = journal_of_a_newer_head(path, event, snapshot)
    journal = SqliteJournal(path)
    try:
        with pytest.raises(Unavailable) as refused:
            Engine(journal, VirtualClock(Instant(5.0)), {}, InProcessNodes())
    finally:
        journal.close()
    assert refused.value.code == "journal-unknown"
    assert [word in refused.value.what for word in [*texts, f"Headnode {__version__}"]] == [True] * 3
    assert f"start Headnode {NEWER}" in refused.value.fix
    assert path.read_bytes() == before


def with_unknown(value: object, *path: str | int) -> Any:
    """Return the value as plain data with a field `teleported` in the table at this path."""
    data = msgspec.to_builtins(value)
    at = data
    for step in path:
        at = at[step]
    at["teleported"] = True
    return data


def packed(value: object, *path: str | int) -> bytes:
    return msgspec.msgpack.encode(with_unknown(value, *path))


JOB = JobSpec(tasks=(TaskSpec(command="true"),))
NODE = NodeFacts(name="n", processors=1, memory=1)
PROTO = {"at": 2.0, "job": 1}
NEWER_INSIDE = {
    "JobSpec": {"type": "JobCreated", "owner": "u", "uid": 1, "gid": 1, "spec": packed(JOB), **PROTO},
    "TaskSpec": {
        "type": "JobCreated",
        "owner": "u",
        "uid": 1,
        "gid": 1,
        "spec": packed(JOB, "tasks", 0),
        **PROTO,
    },
    "JobModified": {"type": "JobModified", "spec": packed(JOB, "tasks", 0), **PROTO},
    "JobTemplate": {"type": "TemplateSet", "at": 2.0, "template": packed(JobTemplate(name="t"))},
    "NodeFacts": {"type": "NodeRegistered", "at": 2.0, "facts": with_unknown(NODE)},
}


@pytest.mark.parametrize("event", NEWER_INSIDE.values(), ids=NEWER_INSIDE.keys())
def test_a_head_names_an_unknown_field_inside_a_description_and_writes_nothing(
    tmp_path: Path, event: dict[str, object]
) -> None:
    path = tmp_path / "journal.db"
    before = journal_of_a_newer_head(path, msgspec.msgpack.encode(event), None)
    with pytest.raises(Unavailable) as refused, contextlib.closing(SqliteJournal(path)) as journal:
        Engine(journal, VirtualClock(Instant(5.0)), {}, InProcessNodes())
    assert refused.value.code == "journal-unknown"
    assert "event 2 " in refused.value.what
    assert "`teleported`" in refused.value.what
    assert f"start Headnode {NEWER}" in refused.value.fix
    assert path.read_bytes() == before


def test_a_head_names_an_unknown_field_of_a_job_in_a_snapshot_and_writes_nothing(tmp_path: Path) -> None:
    spec = packed(JOB, "tasks", 0)
    record = JobRecord(JobId(1), "u", 1, 1, spec, JobState.CONFIGURING, Priority(2000), Instant(1.0))
    snapshot = msgspec.msgpack.encode(Snapshot(jobs=[record], next_job=2))
    path = tmp_path / "journal.db"
    before = journal_of_a_newer_head(path, None, snapshot)
    with pytest.raises(Unavailable) as refused, contextlib.closing(SqliteJournal(path)) as journal:
        Engine(journal, VirtualClock(Instant(5.0)), {}, InProcessNodes())
    assert [word in refused.value.what for word in ("snapshot after event 1 ", "`teleported`")] == [True] * 2
    assert (refused.value.code, path.read_bytes()) == ("journal-unknown", before)


ENDED = EndedJob(JobId(7), "u", "n", "p", "finished", Instant(1.0), Instant(2.0), b"")
NEWER_TASK = packed(JOB, "tasks", 0)
GONE = JobRecord(JobId(7), "u", 1, 1, NEWER_TASK, JobState.FINISHED, Priority(2000), Instant(1.0))
NEWER_ROWS = {
    "ended job": ("ended_jobs", [*msgspec.structs.astuple(ENDED), "teleported"]),
    "record": ("ended_jobs", msgspec.structs.astuple(msgspec.structs.replace(ENDED, record=packed(NODE)))),
    "task": (
        "ended_jobs",
        msgspec.structs.astuple(msgspec.structs.replace(ENDED, record=encode_record(GONE))),
    ),
    "ended instance": ("ended_instances", [2, 3, 1, "finished", ["exited", 0], "n1", *[True] * 20]),
    "prediction": ("predictions", [7, 1.0, "easy", *[1.0] * 20]),
}


def archive_of_a_newer_head(path: Path, table: str, body: object) -> bytes:
    """Write two ended jobs with an instance, and change a row of job 7 into that of a newer version."""
    journal = SqliteJournal(path)
    done = InstanceEnd(2, 3, 1, "finished", AttemptOutcome("exited", 0))
    ended = [over(5), over(7)]
    journal.keep_predictions([Prediction(JobId(7), Instant(1.0), "easy")])
    journal.append([KNOWN, InstancesEnded(at=Instant(1.0), job=JobId(7), ended=(done,))], ended=ended)
    row = msgspec.msgpack.encode(body)
    key = "id" if table == "ended_jobs" else "job"
    change = f"update {table} set body = ?, sum = ? where {key} = 7"
    journal._database.execute(change, (row, checksum(row, 7)))
    journal._database.execute("update cluster set written_by = ?", (NEWER,))
    journal.close()
    return path.read_bytes()


def over(job: int) -> EndedJob:
    return msgspec.structs.replace(ENDED, id=JobId(job), record=encoded_record())


@pytest.mark.parametrize(("table", "body"), NEWER_ROWS.values(), ids=NEWER_ROWS.keys())
def test_a_head_does_not_start_with_a_row_of_the_archive_that_it_does_not_know(
    tmp_path: Path, table: str, body: object
) -> None:
    path = tmp_path / "journal.db"
    before = archive_of_a_newer_head(path, table, body)
    with pytest.raises(Unavailable) as refused, contextlib.closing(SqliteJournal(path)) as journal:
        journal.look_over(60.0)
    assert refused.value.code == "journal-unknown"
    assert "job 7" in refused.value.what or "instance 7.2.3" in refused.value.what
    assert f"start Headnode {NEWER}" in refused.value.fix
    assert path.read_bytes() == before
    rows = [row for part in check_file(path) for row in part.undecodable]
    assert [NEWER in row.row for row in rows] == [True]


@pytest.mark.parametrize(("table", "body"), NEWER_ROWS.values(), ids=NEWER_ROWS.keys())
def test_a_row_that_only_a_newer_head_reads_is_left_out_of_lists_and_refused_by_itself(
    tmp_path: Path, table: str, body: object
) -> None:
    path = tmp_path / "journal.db"
    archive_of_a_newer_head(path, table, body)
    with contextlib.closing(SqliteJournal(path)) as journal:
        journal.append([KNOWN])  # the time for looking over may end before such a row
        lists = {
            "ended_jobs": lambda: journal.ended_jobs(owner=None, states=(), before=None, limit=9),
            "ended_instances": lambda: journal.instances(JobId(7), 2, 0, 9),
            "predictions": lambda: journal.judged_predictions(Instant(0.0), 9),
        }
        one = {
            "ended_jobs": lambda: journal.ended_job(JobId(7)),
            "ended_instances": lambda: journal.instance(JobId(7), 2, 3),
            "predictions": lambda: journal.prediction(JobId(7)),
        }
        journal._database.execute("update predictions set started = 2.0")
        assert [found.id for found in lists[table]()] == ([5] if table == "ended_jobs" else [])  # type: ignore[attr-defined]
        assert [NEWER in what for what in journal.damage()] == [True]
        with pytest.raises(Unavailable) as refused:
            one[table]()
        assert (refused.value.code, NEWER in refused.value.fix) == ("journal-unknown", True)


def test_every_encoded_part_of_an_event_is_checked_before_the_head_starts() -> None:
    parts = {
        (kind.__name__, field.name)
        for kind in EVENTS
        for field in msgspec.structs.fields(kind)
        if field.type is bytes
    }
    assert parts - {("JobCreated", "source")} == {  # which is text, compressed
        ("JobCreated", "spec"),
        ("JobModified", "spec"),
        ("JobValidated", "spec"),
        ("JobUnarchived", "record"),
        ("TemplateSet", "template"),
    }


@pytest.mark.parametrize(
    "record", [["teleported", 1], ["started", 1, 1, 1, 2.0, "beam"], ["ended", 1, 2], {"queued": 1}]
)
def test_an_agent_names_a_record_of_its_jobs_that_it_does_not_know(tmp_path: Path, record: object) -> None:
    path = tmp_path / "1-mark.journal"
    Writer(str(path), Header(1, "mark", "boot", 1, 0)).append([record])
    before = path.read_bytes()
    with pytest.raises(UnknownRecordError, match="does not know"):
        read(path)
    assert path.read_bytes() == before


WELCOME = msgspec.to_builtins(Welcome(cluster="c", heartbeat=Seconds(1.0), grace=Seconds(1.0)))
OPEN_JOB = {"type": "OpenJob", "job": 1, "owner": "u", "uid": 1, "gid": 1, "allocation": [], "deadline": 9.0}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "Teleport", "job": 1},
        {"type": "Welcome", "cluster": 5},
        {**WELCOME, "teleported": True},
        {**OPEN_JOB, "spec": packed(JOB, "tasks", 0)},
    ],
    ids=["message", "value", "field", "field of a task"],
)
def test_an_agent_does_nothing_about_a_message_that_it_does_not_know_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, message: dict[str, object]
) -> None:
    speaker, dialed = Speaker(), 0

    received: list[dict[str, str]] = []

    async def head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialed
        await read_frame(reader, 1000)
        writer.write(frame(msgspec.msgpack.encode(message)))
        received.append(msgspec.msgpack.decode(await read_frame(reader, 1000) or b""))
        writer.close()
        dialed += 1

    async def run() -> None:
        server = await asyncio.start_unix_server(head, tmp_path / "nodes.sock")
        link = asyncio.create_task(HeadLink(LocalTransport(tmp_path / "nodes.sock"), speaker).talk())
        while dialed < 3:
            await asyncio.sleep(0)
        link.cancel()
        await asyncio.wait([link])
        server.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert speaker.obeyed == []
    found = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
    assert len(found) == 1
    assert f"Headnode {__version__}" in found[0]
    assert received[0] == {"type": "NotUnderstood", "message": received[0]["message"]}
    assert received[0]["message"] in found[0]


@pytest.mark.parametrize("path", [("facts",), (), ("live", 0)], ids=["facts", "hello", "attempt"])
def test_a_head_refuses_a_message_with_a_field_that_it_does_not_know(path: tuple[str | int, ...]) -> None:
    hello = msgspec.to_builtins(
        Hello(protocol=PROTOCOL, facts=NODE, live=(ReportedAttempt(JobId(1), 1, 1, 1, True),))
    )
    assert read_message(msgspec.msgpack.encode(hello), 5.0)
    if path == ("live", 0):
        hello["live"] = [[*hello["live"][0], "teleported"]]
    with pytest.raises(Nonsense, match="it sent no valid message"):
        read_message(packed(hello, *path) if path != ("live", 0) else msgspec.msgpack.encode(hello), 5.0)
