"""Agents of earlier versions, spoken by hand: those of development are refused, those of 0.2.0 are served."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.wire.agent_messages import MAX_MESSAGE, OLDEST, PROTOCOL
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromHead, Goodbye, OpenJob
from headnode.core.model.errors import Unavailable
from headnode.core.state.job_record import decode_spec
from heads import TIMEOUT, RealHead, real_head

FACTS_OF_BEFORE = {"name": "old", "processors": 1, "boot_id": "b", "serves": "root"}
_decoder = msgspec.msgpack.Decoder(FromHead)


def answer_to_hello(head: RealHead, protocol: int) -> object:
    """Say hello as a development version did; return what the head answers first."""

    async def connected() -> object:
        reader, writer = await asyncio.open_unix_connection(str(head.state / "nodes.sock"))
        try:
            found = {"type": "Hello", "protocol": protocol, "facts": FACTS_OF_BEFORE}
            writer.write(frame(msgspec.msgpack.encode(found)))
            data = await read_frame(reader, MAX_MESSAGE)
            assert data is not None
            return _decoder.decode(data)
        finally:
            writer.close()

    return asyncio.run(asyncio.wait_for(connected(), TIMEOUT))


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


def test_an_agent_of_before_is_not_told_of_the_signal_of_a_job_and_sends_none(tmp_path: Path) -> None:
    async def opened(head: RealHead) -> OpenJob:
        reader, writer = await asyncio.open_unix_connection(str(head.state / "nodes.sock"))
        try:
            found = {"type": "Hello", "protocol": OLDEST, "facts": {"name": "old", "processors": 1}}
            writer.write(frame(msgspec.msgpack.encode(found)))
            terms = {"runtime": "1h", "signal": "USR1@60"}
            job = await asyncio.to_thread(head.submit, "sleep 60", terms=terms)
            while (data := await read_frame(reader, MAX_MESSAGE)) is not None:
                message = _decoder.decode(data)
                if isinstance(message, OpenJob):
                    with pytest.raises(Unavailable, match=r"before 0\.3 send no signals: old"):
                        await asyncio.to_thread(head.ask, "signal_job", job=job, signal="USR1")
                    return message
            raise AssertionError("the head has hung up")
        finally:
            writer.close()

    with real_head(tmp_path, nodes=0) as head:
        message = asyncio.run(asyncio.wait_for(opened(head), TIMEOUT))
        assert decode_spec(message.spec).signal == ""
        assert head.ask("job", job=message.job)["job"]["state"] == "Running"
