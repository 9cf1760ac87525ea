"""Connections of SSSRMAP peers: each is one message and its answer, in bounded time and memory."""

import asyncio
import contextlib
import logging
from collections import Counter
from typing import Final

from headnode.adapters.wire.sssrmap import (
    FramingFault,
    RmapHead,
    check_request,
    read_chunks,
    read_head,
    reply_frame,
)
from headnode.apps.web.sssrmap.service import RmapService, refusal_of
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.status import StatusCode
from headnode.core.model.bounds import (
    RMAP_BODIES,
    RMAP_CONNECTIONS,
    RMAP_CONNECTIONS_OF_ADDRESS,
    RMAP_MESSAGE,
    RMAP_TIME,
)

log = logging.getLogger("headnode.sssrmap")
_LAST_WORDS: Final = 2.0  # seconds that a peer may still send after its answer
_LOOPBACK: Final = ("127.0.0.1", "::1")


class RmapListener:
    """Serves every connection.  A bad one costs itself only."""

    def __init__(self, service: RmapService) -> None:
        self._service = service
        self._of_address: Counter[str] = Counter()
        self._received = 0  # bytes of messages that are not answered yet

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it is over."""
        address = str((writer.get_extra_info("peername") or ("?",))[0])
        self._of_address[address] += 1
        try:
            if self._is_crowded(address):
                fault = FramingFault(400, StatusCode.BUSY, "too many connections", "try again later")
                await _send(writer, _faulty(fault))
                await _let_go(reader, writer)
            else:
                await self._converse(reader, writer, address)
        except (ConnectionError, TimeoutError) as error:
            log.debug("a peer at %s has disconnected: %s", address, error or "it was too slow")
            writer.transport.abort()
        finally:
            self._of_address[address] -= 1
            self._of_address += Counter()  # forgets addresses without one
            writer.close()

    def _is_crowded(self, address: str) -> bool:
        of_one = 0 if address in _LOOPBACK else self._of_address[address]
        return self._of_address.total() > RMAP_CONNECTIONS.most or of_one > RMAP_CONNECTIONS_OF_ADDRESS.most

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        goes_on = True
        while goes_on:
            taken: list[int] = []
            try:
                async with asyncio.timeout(RMAP_TIME.most):
                    received = await self._receive(reader, taken)
                if received is None:
                    return
                head, message = received
                answer = await self._service.answer(message, address)
                goes_on = head.keeps_alive
                reply = reply_frame(answer, keep_alive=goes_on)
            except TimeoutError:
                goes_on = False
                reply = _faulty(FramingFault(408, StatusCode.TIMED_OUT, f"no message within {RMAP_TIME}"))
            except FramingFault as fault:
                goes_on = False
                reply = _faulty(fault)
            finally:
                self._received -= sum(taken)
            await _send(writer, reply)
        await _let_go(reader, writer)

    async def _receive(self, reader: asyncio.StreamReader, taken: list[int]) -> tuple[RmapHead, bytes] | None:
        head = await read_head(reader)
        if head is None:
            return None
        check_request(head)

        def take(size: int) -> None:
            if self._received + size > RMAP_BODIES.most:
                raise FramingFault(400, StatusCode.BUSY, "too many messages at once", "try again later")
            taken.append(size)
            self._received += size

        return head, b"".join(await read_chunks(reader, head, take))


def _faulty(fault: FramingFault) -> bytes:
    return reply_frame([envelope(refusal_of(fault))], fault.http)


async def _send(writer: asyncio.StreamWriter, reply: bytes) -> None:
    """Send an answer, and wait until most of it is read.

    Raises:  ConnectionError; TimeoutError.
    """
    async with asyncio.timeout(RMAP_TIME.most):
        writer.write(reply)
        await writer.drain()


async def _let_go(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what a peer still sends: a connection that is closed before loses the answer."""
    left = RMAP_MESSAGE.most
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(_LAST_WORDS):
            writer.write_eof()
            while left > 0 and (piece := await reader.read(65536)):
                left -= len(piece)
