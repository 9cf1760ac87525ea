"""The listener's process: reads its options, its key and its table of actors; listens; ends cleanly."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from headnode.adapters.files.owners import Unsafe, read_trusted
from headnode.adapters.wire.frames import allow_many, listen_at, quiet_at_the_end
from headnode.adapters.wire.sssrmap import read_site_key
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.sssrmap.actions import ACTIONS, JOIN
from headnode.apps.web.sssrmap.listener import RmapListener
from headnode.apps.web.sssrmap.service import RmapRules, RmapService
from headnode.core.formats.sss.sssrmap.signatures import METHODS, SHA256
from headnode.core.formats.sss.sssrmap.spellings import PeerNames
from headnode.core.model.bounds import RMAP_HEAD
from headnode.core.model.errors import BadRequest, HeadnodeError

log = logging.getLogger("headnode.sssrmap")
DEFAULT_PORT: Final = 7112
_LOOPBACK: Final = "127.0.0.1"
LARGEST_TABLE: Final = 1024 * 1024  # bytes of the table of actors


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
    found: dict[str, str] = {}
    try:
        text = read_trusted(path, LARGEST_TABLE).decode()
    except (OSError, UnicodeDecodeError, Unsafe) as error:
        _refuse_actors(path, str(error))
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if len(words) not in (0, 2):
            _refuse_actors(path, f"line {number} is not an actor and a user")
        if words and found.setdefault(*words) != words[1]:
            _refuse_actors(path, f"line {number} names the actor {words[0]!r} again, with another user")
    return found


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
