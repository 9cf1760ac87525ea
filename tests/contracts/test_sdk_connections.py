"""What the SDK does with its connections when answers are lost, and when a program has many descriptors."""

import asyncio
import json
from pathlib import Path

from headnode.adapters.wire.frame_codec import HEADER, frame
from headnode.sdk.asynchronous.connection import AsyncHeadTransport

PATIENCE = 30.0  # seconds


class SlowHead:
    """A head that loses the first answer, and gives the second when a third request has come."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.repeated = asyncio.Event()
        self.go_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while header := await reader.read(HEADER):
                size = int.from_bytes(header, "big")
                verb = json.loads(await reader.readexactly(size))["verb"]
                self.asked.append(verb)
                if len(self.asked) == 1:
                    return
                if len(self.asked) == 2:
                    self.repeated.set()
                    await self.go_on.wait()
                writer.write(frame(json.dumps({"ok": True, "answer_to": verb}).encode()))
        finally:
            writer.close()


def test_a_repeated_request_that_is_canceled_gives_no_answer_to_the_next(tmp_path: Path) -> None:
    async def ask() -> None:
        head = SlowHead()
        server = await asyncio.start_unix_server(head.serve, tmp_path / "head.sock")
        transport = AsyncHeadTransport(str(tmp_path))
        async with server:
            submission = asyncio.create_task(transport.ask("submit_job", {"idempotency": "k" * 32}))
            await head.repeated.wait()
            submission.cancel()
            await asyncio.wait((submission,))
            head.go_on.set()
            assert await transport.ask("nodes", {}) == {"answer_to": "nodes"}
            await transport.close()

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))
