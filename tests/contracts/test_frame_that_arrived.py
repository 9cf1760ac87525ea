"""A message that is here whole is found without a read, and stays until it is read."""

import asyncio

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import arrived_frame, read_frame


def test_only_a_message_that_is_here_whole_and_small_enough_has_arrived() -> None:
    async def story() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(frame(b"first") + frame(b"second")[:-1])
        assert arrived_frame(reader, 5) == b"first"
        assert arrived_frame(reader, 4) is None
        assert await read_frame(reader, 100) == b"first"
        assert arrived_frame(reader, 100) is None, "its last byte is missing"
        reader.feed_data(b"d")
        assert arrived_frame(reader, 100) == b"second"

    asyncio.run(story())
