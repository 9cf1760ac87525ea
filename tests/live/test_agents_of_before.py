"""Agents and clients of development versions, spoken by hand, are refused by the head of today."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.wire.agent_messages import LARGEST_MESSAGE, OLDEST, PROTOCOL
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromHead, Goodbye
from heads import PATIENCE, RealHead, real_head

FACTS_OF_BEFORE = {"name": "old", "processors": 1, "boot_id": "b", "serves": "root"}
_decoder = msgspec.msgpack.Decoder(FromHead)


def answer_to_hello(head: RealHead, protocol: int) -> object:
    """Say hello as a development version did; return what the head answers first."""

    async def connected() -> object:
        reader, writer = await asyncio.open_unix_connection(str(head.state / "nodes.sock"))
        try:
            said = {"type": "Hello", "protocol": protocol, "facts": FACTS_OF_BEFORE}
            writer.write(frame(msgspec.msgpack.encode(said)))
            data = await read_frame(reader, LARGEST_MESSAGE)
            assert data is not None
            return _decoder.decode(data)
        finally:
            writer.close()

    return asyncio.run(asyncio.wait_for(connected(), PATIENCE))


@pytest.mark.parametrize(
    ("protocol", "says", "advice"),
    [
        (1, "of a development version", "on this node"),
        (2, "of a development version", "on this node"),
        (99, f"this head speaks protocols {OLDEST} to {PROTOCOL}, not 99", "on the head node first"),
    ],
)
def test_who_speaks_another_protocol_is_sent_away_and_told_what_to_update(
    tmp_path: Path, protocol: int, says: str, advice: str
) -> None:
    with real_head(tmp_path, nodes=0) as head:
        goodbye = answer_to_hello(head, protocol)
        assert isinstance(goodbye, Goodbye)
        assert says in goodbye.reason
        assert goodbye.reason.endswith(f"update Headnode {advice}")
        assert head.ask("nodes")["nodes"] == []
