"""The SSSRMAP listener: reads its options, its key and its table of actors; serves peers; ends cleanly.

Each connection of a peer is one message and its answer, in bounded time and memory.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from headnode.adapters.files.owners import Unsafe, read_trusted
from headnode.adapters.wire.frames import allow_many, listen_at, quiet_at_the_end
from headnode.adapters.wire.sssrmap import (
    FramingFault,
    RmapHead,
    check_request,
    read_chunks,
    read_head,
    read_site_key,
    reply_frame,
)
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.sssrmap import cluster_objects, job_actions, job_queries
from headnode.apps.web.sssrmap.queries import Collector, join_of, query_of
from headnode.apps.web.sssrmap.service import Actions, RmapRules, RmapService, refusal_of
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import METHODS, SHA256
from headnode.core.formats.sss.sssrmap.spellings import PeerNames
from headnode.core.formats.sss.sssrmap.status import StatusCode
from headnode.core.model.bounds import (
    RMAP_BODIES,
    RMAP_CONNECTIONS,
    RMAP_CONNECTIONS_OF_ADDRESS,
    RMAP_HEAD,
    RMAP_MESSAGE,
    RMAP_TIME,
)
from headnode.core.model.errors import BadRequest, HeadnodeError

COLLECTORS: Final[Mapping[str, Collector]] = {
    "Job": job_queries.collect_jobs,
    "JobGroup": job_queries.collect_groups,
    "Node": cluster_objects.collect_nodes,
    "Queue": cluster_objects.collect_queues,
    "Reservation": cluster_objects.collect_reservations,
    "User": job_queries.collect_users,
    "Project": job_queries.collect_projects,
    "Account": job_queries.collect_projects,
}
JOIN: Final = join_of(COLLECTORS)
ACTIONS: Final[Actions] = {
    "Job": {
        "Query": query_of(COLLECTORS["Job"]),
        "Submit": job_actions.submit,
        "Create": job_actions.create,
        "Modify": job_actions.modify,
        "Cancel": job_actions.cancel,
        "Delete": job_actions.cancel,
        "Start": job_actions.start,
        "Requeue": job_actions.requeue,
        "Suspend": job_actions.suspend,
        "Resume": job_actions.resume,
        "Checkpoint": job_actions.checkpoint,
        "Notify": job_actions.notify,
    },
    "JobGroup": {
        "Query": query_of(COLLECTORS["JobGroup"]),
        "Submit": job_actions.submit,
        "Create": job_actions.create,
        "Cancel": job_actions.cancel_group,
        "Delete": job_actions.cancel_group,
    },
    "Node": {"Query": query_of(COLLECTORS["Node"]), "Modify": cluster_objects.modify_node},
    "Queue": {"Query": query_of(COLLECTORS["Queue"])},
    "Reservation": {
        "Query": query_of(COLLECTORS["Reservation"]),
        "Create": cluster_objects.create_reservation,
        "Cancel": cluster_objects.cancel_reservation,
        "Delete": cluster_objects.cancel_reservation,
    },
    "User": {"Query": query_of(COLLECTORS["User"])},
    "Project": {"Query": query_of(COLLECTORS["Project"])},
    "Account": {"Query": query_of(COLLECTORS["Account"])},
}


log = logging.getLogger("headnode.sssrmap")
_LAST_WORDS: Final = 2.0  # seconds that a peer may still send after its answer
_LOOPBACKS: Final = ("127.0.0.1", "::1")


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
        of_one = 0 if address in _LOOPBACKS else self._of_address[address]
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


DEFAULT_PORT: Final = 7112
_LOOPBACK: Final = "127.0.0.1"
MAX_TABLE: Final = 1024 * 1024  # bytes of the table of actors


class RmapOptions(msgspec.Struct, frozen=True):
    """How to start a listener."""

    state: Path  # state directory of the head
    rules: RmapRules
    address: str = _LOOPBACK
    port: int = DEFAULT_PORT  # 0: a free one
    verbose: bool = False


def read_options(arguments: list[str]) -> RmapOptions:
    """Return the options of the command line; argparse ends the process with 2 when they are wrong.

    Raises:  BadRequest ``key-file``, ``actors``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m headnode.apps.web.sssrmap", description="Answer SSSRMAP messages, in the foreground."
    )
    parser.add_argument("--state", type=Path, required=True, help="state directory of the head")
    parser.add_argument("--key-file", type=Path, required=True, help="file whose first line is the site key")
    parser.add_argument("--address", default=_LOOPBACK, help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="default: %(default)s; 0: a free one")
    parser.add_argument("--actors", type=Path, help="lines: actor, user; no others are admitted")
    parser.add_argument(
        "--names",
        choices=[*PeerNames],
        default=PeerNames.V3_0,
        help="names of answers where a request tells nothing (default: %(default)s)",
    )
    parser.add_argument("--require-id", action="store_true", help="refuse changes without an id of their own")
    parser.add_argument("--only-sha256", action="store_true", help="refuse signatures with SHA-1")
    parser.add_argument("--verbose", action="store_true", help="log more")
    read = parser.parse_args(arguments)
    if not 0 <= read.port <= 65535:
        parser.error("--port must be 0 to 65535")
    rules = RmapRules(
        key=read_site_key(read.key_file),
        methods=frozenset((SHA256,) if read.only_sha256 else METHODS),
        actors=_read_actors(read.actors) if read.actors else None,
        names=PeerNames(read.names),
        require_id=read.require_id,
    )
    return RmapOptions(read.state.absolute(), rules, read.address, read.port, read.verbose)


def _read_actors(path: Path) -> Mapping[str, str]:
    """Return the users of actors.

    Raises:  BadRequest ``actors``.
    """
    actors: dict[str, str] = {}
    try:
        text = read_trusted(path, MAX_TABLE).decode()
    except (OSError, UnicodeDecodeError, Unsafe) as error:
        _refuse_actors(path, str(error))
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.partition("#")[0].split()
        if len(parts) not in (0, 2):
            _refuse_actors(path, f"line {number} is not an actor and a user")
        if parts and actors.setdefault(*parts) != parts[1]:
            _refuse_actors(path, f"line {number} names the actor {parts[0]!r} again, with another user")
    return actors


def _refuse_actors(path: Path, what: str) -> NoReturn:
    raise BadRequest(
        code="actors", what=f"the file {str(path)!r} cannot be used: {what}", fix="write lines: actor, user"
    )


def main(arguments: list[str]) -> int:
    """Run a listener until it is told to end; return its exit status."""
    logging.raiseExceptions = False  # a log that cannot be written must not be filled with that
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    os.umask(0o077)
    try:
        options = read_options(arguments)
        logging.getLogger().setLevel(logging.DEBUG if options.verbose else logging.INFO)
        asyncio.run(_run(options))
    except HeadnodeError as error:
        log.critical("%s", error)
        return error.exit_status
    return 0


async def _run(options: RmapOptions) -> None:
    """Serve until told to end.

    Raises:  Unavailable ``listen``.
    """
    allow_many()
    listening = listen_at(options.address, options.port)
    head = HeadClient(options.state)
    service = RmapService(head, options.rules, ACTIONS, JOIN, started=time.time())
    listener = RmapListener(service)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(head.close)
        server = await asyncio.start_server(
            quiet_at_the_end(listener.serve), sock=listening, limit=RMAP_HEAD.most
        )
        stack.callback(server.close)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        log.info("SSSRMAP is answered at %s port %d", options.address, listening.getsockname()[1])
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await ended.wait()
            head.close_idle()
            service.tidy()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
