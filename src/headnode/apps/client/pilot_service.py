"""A client of a Pilot service: that of a gateway of ours, or of others.

Source:  Pilot service, "REST API": bodies are JSON, each with its Content-MD5; errors are text.
"""

import base64
import hashlib
import json
from typing import Any, Final
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from headnode.apps.client.local_addresses import WebRoute
from headnode.apps.client.web_connection import tls_context
from headnode.core.model.errors import (
    BadRequest,
    HeadnodeError,
    NotAllowed,
    NotFound,
    Unavailable,
    WrongState,
)

PATIENCE: Final = 60.0  # seconds
LARGEST: Final = 1 << 20  # bytes of an answer
_REFUSALS: Final = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: WrongState}


class PilotService:
    """A service at an address, for the user of a token.  No redirect is followed: it would take the token."""

    def __init__(self, route: WebRoute) -> None:
        """Raises:  BadRequest ``certificate`` if the file of authorities cannot be used."""
        self._route = route
        self._pool = urllib3.PoolManager(ssl_context=tls_context(route), retries=False, timeout=PATIENCE)

    def create(self, definition: dict[str, Any], **credential: str) -> str:
        """Create a job, which does not start; return its id."""
        made = self._ask("POST", "/jobs/", {"definition": definition, **credential})
        match made:
            case [{"job_id": str(job)}] if job.isprintable() and 0 < len(job) <= 100:
                return job
        raise Unavailable(code="no-answer", what=f"{self._route.address} tells no id of the job it has made")

    def operate(self, job: str, operation: str, name: str) -> None:
        """Start, pause or abort a job; `name` is the id of the operation, which is carried out once."""
        self._ask("PUT", self._path(job), {"operation": {"op": operation, "id": name}})

    def uri(self, job: str) -> str:
        """Return the address of a job."""
        return f"{self._route.address}{self._path(job)}"

    @staticmethod
    def _path(job: str) -> str:
        return f"/jobs/{quote(job, safe='')}/"

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """Return what the service answers; None for an empty body.

        Raises:  Unavailable, or the refusal of the service.
        """
        address, content = self._route.address, json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self._route.token}",
            "Content-Type": "application/json",
            "Content-MD5": _md5(content),
        }
        try:
            answer = self._pool.request(
                method, address + path, body=content, headers=headers, redirect=False, preload_content=False
            )
            data = answer.read(LARGEST + 1)
        except SSLError as error:
            what, fix = f"{address} does not prove that it is this service: {error}", "see HEADNODE_CA_FILE"
            raise NotAllowed(code="wrong-gateway", what=what, fix=fix) from None
        except HTTPError as error:
            what = f"the service at {address} does not answer: {type(error).__name__}"
            raise Unavailable(code="service-away", what=what, fix="check --service, and try again") from None
        finally:
            self._pool.clear()
        said = answer.headers.get("Content-MD5")
        if len(data) > LARGEST or (said is not None and said != _md5(data)):
            raise Unavailable(code="no-answer", what=f"the answer of {address} is too long, or was changed")
        if answer.status >= 300:
            raise self._refusal(answer.status, data)
        return _read(data, address)

    def _refusal(self, status: int, data: bytes) -> HeadnodeError:
        said = " ".join(data.decode(errors="replace").split())[:500] or "it says no more"
        what = f"{self._route.address} answers {status}: {said}"
        return _REFUSALS.get(status, Unavailable if status >= 500 else BadRequest)(code="service", what=what)


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _read(data: bytes, address: str) -> Any:
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Unavailable(code="no-answer", what=f"{address} answers no JSON") from None
