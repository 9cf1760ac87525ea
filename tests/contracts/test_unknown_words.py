"""A reader that meets an event, record or message of a newer version stops before it writes anything."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest

from headnode import __version__
from headnode.adapters.clock.virtual import VirtualClock
from headnode.adapters.journal.event_table import checksum
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame
from headnode.adapters.processes.job_journal import Header, UnknownRecordError, Writer, read
from headnode.apps.agent.head_link import HeadLink, LocalSocket
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import ParameterSet, encode
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.engine.engine import Engine
from headnode.engine.recovery import save
from headnode.testing.in_process import InProcessNodes

NEWER = "99.1"
KNOWN = ParameterSet(at=Instant(1.0), name="JobRetryCount", value="4")
EVENT = msgspec.msgpack.decode(encode(KNOWN))
SNAPSHOT = msgspec.msgpack.decode(save(Cluster()))


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
    ("event", "snapshot", "said"),
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
    tmp_path: Path, event: bytes | None, snapshot: bytes | None, said: list[str]
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
    assert [word in refused.value.what for word in [*said, f"Headnode {__version__}"]] == [True] * 3
    assert f"start Headnode {NEWER}" in refused.value.fix
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "record", [["teleported", 1], ["started", 1, 1, 1, 2.0, "beam"], ["ended", 1, 2], {"queued": 1}]
)
def test_an_agent_names_a_record_of_its_jobs_that_it_does_not_know(tmp_path: Path, record: object) -> None:
    path = tmp_path / "1-mark.journal"
    Writer(str(path), Header(1, "mark", "boot", 1, 0)).append([record])  # type: ignore[list-item]
    before = path.read_bytes()
    with pytest.raises(UnknownRecordError, match="does not know"):
        read(path)
    assert path.read_bytes() == before


class Speaker:
    """An agent that notes what it is told to do."""

    def __init__(self) -> None:
        self.obeyed: list[m.FromHead] = []

    def hello(self) -> m.Hello:
        return m.Hello(protocol=m.PROTOCOL, facts=NodeFacts(name="n", processors=1, memory=1))

    def obey(self, message: m.FromHead) -> None:
        self.obeyed.append(message)

    def beat(self) -> None:
        return

    def head_is_away(self) -> None:
        return

    def head_is_off(self, dialed: float) -> None:
        return


@pytest.mark.parametrize(
    "message", [{"type": "Teleport", "job": 1}, {"type": "Welcome", "cluster": 5}], ids=["message", "field"]
)
def test_an_agent_does_nothing_about_a_message_that_it_does_not_know_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, message: dict[str, object]
) -> None:
    speaker, dialed = Speaker(), 0

    async def head(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialed
        dialed += 1
        writer.write(frame(msgspec.msgpack.encode(message)))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_unix_server(head, tmp_path / "nodes.sock")
        link = asyncio.create_task(HeadLink(LocalSocket(tmp_path / "nodes.sock"), speaker).talk())
        while dialed < 3:
            await asyncio.sleep(0)
        link.cancel()
        await asyncio.wait([link])
        server.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert speaker.obeyed == []
    told = [record.getMessage() for record in caplog.records if "does not know" in record.getMessage()]
    assert len(told) == 1
    assert f"Headnode {__version__}" in told[0]
