"""One request of the grid service: its user, its body, and the head to ask."""

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request

from headnode.apps.web.gateway import DoorRequest, Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.pilot.records import GridRecords
from headnode.apps.web.problems import wrong
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import NotAllowed

PREFIX: Final = "/pilot"


class GridReply(NamedTuple):
    """An answer: its JSON, status and headers.  `...` stands for an empty body."""

    body: Any = ...
    status: int = 200
    headers: Mapping[str, str] = {}


class GridRequest(DoorRequest):
    """A request whose user is known."""

    NUMBERS = "the job"

    def __init__(
        self, gateway: Gateway, records: GridRecords, request: Request, caller: WebCaller, content: bytes
    ) -> None:
        """Check what the client says of the body.

        Raises:  BadRequest ``content-md5``.
        """
        super().__init__(gateway, request, caller)
        self._content = content
        self.records, self.now = records, time.time()
        self._origin = gateway.identity.origin_of(request)
        digest = request.headers.get("content-md5")
        if digest is not None and digest.strip() != content_md5(content):
            raise wrong("content-md5", "the body does not match Content-MD5", "send it again")

    @property
    def key(self) -> str | None:
        """The idempotency key of a creation; None if the client sends none."""
        return self._request.headers.get("idempotency-key")

    def job_number(self) -> int:
        """Return the job of the path; raises as `number`."""
        return self.number("job")

    def uri(self, path: str) -> str:
        """Return the address of something of this service."""
        return f"{self._origin}{PREFIX}/{path}"

    async def admit_owner(self, job: int, owner: str) -> None:
        """Refuse a job of another user.

        Raises:  NotAllowed ``not-owner``.
        """
        user = (await self.ask("whoami"))["user"]
        if user != owner:
            raise NotAllowed(
                code="not-owner", what=f"job {job} is a job of another user", fix="name a job of your own"
            )

    def json_object(self, *required: str, optional: tuple[str, ...] | None = None) -> dict[str, Any]:
        """Return the body; with `optional`, other keys than these are refused.

        Raises:  BadRequest ``body``.
        """
        decoded = self.decoded(self._content)
        if not isinstance(decoded, dict):
            raise wrong("body", "the body is not a JSON object")
        for name in required:
            if name not in decoded:
                raise wrong("body", f"the body has no {name!r}", f'send {{"{name}": ...}}', (name,))
        strange = next((name for name in decoded if name not in (*required, *(optional or decoded))), None)
        if strange is not None:
            known = ", ".join((*required, *(optional or ())))
            raise wrong("body", f"{strange[:64]!r} is not known", f"the keys are {known}", (strange,))
        return decoded

    def decoded(self, content: bytes) -> Any:
        """Return what a JSON text says.

        Raises:  BadRequest ``body``.
        """
        try:
            return msgspec.json.decode(content)
        except UNREADABLE as error:
            raise wrong("body", f"the body is not JSON: {error}") from None


def content_md5(content: bytes) -> str:
    """Return the value of Content-MD5.

    Source:  RFC 1864, section 2.
    """
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
