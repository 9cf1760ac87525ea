"""The control socket of a gateway: `hn web` asks there for an address that logs in, and ends the gateway.

The kernel says who asks.  Each request is one line of JSON, each answer another.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from headnode.adapters.files.local_daemons import take_lock
from headnode.adapters.wire.frames import listen, quiet_at_the_end
from headnode.adapters.wire.peers import peer_ids, user_name
from headnode.apps.web.login.choices import OneTimeLogins
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, WrongState

CONTROL_SOCKET: Final = "web.sock"
_MAX_REQUEST: Final = 4096  # bytes of a request
_TIMEOUT: Final = 5.0  # seconds


class ControlSocket:
    """Answers the commands of this machine."""

    def __init__(
        self,
        logins: OneTimeLogins,
        state: Path,
        address: str,
        stop: Callable[[], None],
        *,
        for_all: bool,
    ) -> None:
        """`state` of the head; `address` begins those that log in; `for_all`: every user may have one."""
        self._logins, self._stop, self._for_all = logins, stop, for_all
        self._state, self._address = str(state), address

    async def open(self, directory: Path) -> asyncio.Server:
        """Begin to listen; the caller closes what is returned.

        Raises:  WrongState ``gateway-runs``.
        """
        if take_lock(directory / "web.lock") is None:
            raise WrongState(
                code="gateway-runs", what=f"a gateway runs in {str(directory)!r}", fix="see: hn web"
            )
        return await asyncio.start_unix_server(
            quiet_at_the_end(self._serve), sock=listen(directory / CONTROL_SOCKET, 0o666), limit=_MAX_REQUEST
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, uid, _ = peer_ids(writer.get_extra_info("socket"))
                try:
                    answer = self._answer(uid, await reader.readline())
                except HeadnodeError as error:
                    answer = {"ok": False, "state": self._state, **error.as_fields()}
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        except (ConnectionError, TimeoutError, ValueError):  # a line that is too long is a ValueError
            pass
        finally:
            writer.close()

    def _answer(self, uid: int, line: bytes) -> dict[str, Any]:
        """Carry out a request; the answer names the head, because one directory may be that of several.

        Raises:  BadRequest ``request``; NotAllowed ``not-yours``.
        """
        try:
            asked = msgspec.json.decode(line, type=dict[str, str]).get("verb")
        except UNREADABLE:
            asked = None
        owns = uid in (0, os.geteuid())
        match asked:
            case "status":
                return self._granted(self._address)
            case "login" if uid == os.geteuid() or (self._for_all and uid != 0):
                path = self._logins.offer(user_name(uid), time.time())
                return self._granted(self._address + path)
            case "stop" if owns:
                self._stop()
                return self._granted("")
            case "login" | "stop":
                raise NotAllowed(
                    code="not-yours",
                    what=f"this gateway is that of {user_name(os.geteuid())!r}",
                    fix="start your own with: hn web",
                )
        raise BadRequest(code="request", what="a request is status, login or stop")

    def _granted(self, address: str) -> dict[str, Any]:
        return {
            "ok": True,
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "state": self._state,
            "address": address,
        }
