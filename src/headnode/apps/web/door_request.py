"""A request to a door of another REST API: it asks the head as its user, and has a path with names."""

import re
from typing import Any, ClassVar, Final

from starlette.requests import Request

from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.core.model.errors import NotFound

NUMBER: Final = re.compile(r"[0-9]{1,15}")


class DoorRequest:
    """A request whose user is known."""

    NUMBERS: ClassVar[str]
    """What numbers in paths are of."""

    def __init__(self, gateway: Gateway, request: Request, caller: WebCaller) -> None:
        self._head, self._request, self._caller = gateway.head, request, caller

    async def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the answer of the head to a verb.

        Raises:  HeadnodeError.
        """
        return await self._head.ask_plain(self._caller, verb, **fields)

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self._request.path_params[name])

    def number(self, name: str) -> int:
        """Return a number in the path.

        Raises:  NotFound ``no-path``.
        """
        if not NUMBER.fullmatch(text := self.path(name)):
            raise NotFound(
                code="no-path",
                what=f"{text[:64]!r} is not a number",
                fix=f"write the number of {self.NUMBERS}",
            )
        return int(text)
