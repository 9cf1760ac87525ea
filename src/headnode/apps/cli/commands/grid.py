"""``hn grid submit``: create and start a job of a grid description at a Pilot service.

Source:  Pilot service, "REST API": bodies are JSON, each with its Content-MD5; errors are text."""

import base64
import hashlib
import json
import os
from typing import Any, Final
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_files import files_beside, read_bytes, read_job_file, values_given
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client
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

TYPE_CHECKING = False


_MAX_PROXY = 32_768  # characters


def submit(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001 - the service is asked
    """Create a job and start it; its definitions in files are sent, with values for names."""
    import uuid

    from headnode.core.formats.grid import GridOptions, whole_description
    from headnode.core.model.errors import HeadnodeError

    if len(args.words) != 1:
        raise usage("one job file is needed", "for example: hn grid submit job.js --set who=ada")
    path = args.words[0]
    text = read_job_file(path)
    files = {name: content.encode() for name, content in files_beside(path, text).items()}
    how = GridOptions(variables=values_given(args), files=files)
    definition = whole_description(text, how)
    service = _service(args)
    job = service.create(definition, **_credential(args))
    uri = service.uri(job)
    if args.flag("no-start"):
        out.outcome(f"Job has been created. ID: {job}.", {"job": job, "uri": uri, "started": False}, job)
        return 0
    try:
        service.operate(job, "start", str(uuid.uuid4()))
    except HeadnodeError:
        out.note(f"job {job} was created, and has not started: {uri}")
        raise
    out.outcome(f"Job has been submitted. ID: {job}.", {"job": job, "uri": uri, "started": True}, job)
    return 0


def _service(args: Arguments) -> "PilotService":
    """Return the service to ask.

    Raises:  BadRequest ``usage`` without an address; as `web_route`.
    """
    from headnode.apps.cli.commands.grid import PilotService
    from headnode.apps.client.web_connection import web_route

    gateway = os.environ.get("HEADNODE_URL", "").rstrip("/")
    address = args.text("service") or (f"{gateway}/pilot" if gateway else "")
    if not address:
        raise usage("no service is named", "add --service https://HOST:PORT/pilot, or set HEADNODE_URL")
    token, authorities = os.environ.get("HEADNODE_TOKEN", ""), os.environ.get("HEADNODE_CA_FILE", "")
    return PilotService(web_route(address, token, authorities))


def _credential(args: Arguments) -> dict[str, str]:
    """Return with what the files of the job are transferred: the name of a delegation, or a proxy.

    Raises:  BadRequest ``usage``, ``job-file``.
    """
    name, path = args.text("delegation"), args.text("proxy")
    if name and path:
        raise usage("both a delegation and a proxy are named", "give one of them")
    if name:
        return {"delegation_id": name}
    if not path:
        return {}
    data = read_bytes(path)
    if len(data) > _MAX_PROXY or not data.isascii():
        raise usage(f"{path!r} is no proxy in PEM", "name the file of grid-proxy-init: /tmp/x509up_uNUMBER")
    return {"proxy": data.decode()}


COMMANDS = (
    CliCommand(
        "submit",
        "FILE",
        "Create a job at a Pilot service, and start it",
        submit,
        options=(
            CliOption("set", "NAME=VALUE", "Replace {NAME} in the file with VALUE", repeats=True),
            CliOption("service", "URL", "Address of the service (default: HEADNODE_URL/pilot)"),
            CliOption("delegation", "NAME", "Transfer files with this delegation of yours"),
            CliOption("proxy", "FILE", "Transfer files with this X.509 proxy, kept until the job is over"),
            CliOption("no-start", "", "Create the job only"),
        ),
        positionals=1,
        example="hn grid submit job.js --set who=ada --service https://grid.example.org/pilot",
        notes=(
            "HEADNODE_TOKEN has your token, HEADNODE_CA_FILE the certificates of the service's authority.",
            "A task with a filename gets its definition from that file, in or below the directory of FILE.",
        ),
    ),
)


TIMEOUT: Final = 60.0  # seconds
MAX_ANSWER: Final = 1 << 20  # bytes of an answer
_REFUSALS: Final = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: WrongState}


class PilotService:
    """A service at an address, for the user of a token.  No redirect is followed: it would take the token."""

    def __init__(self, route: WebRoute) -> None:
        """Raises:  BadRequest ``certificate`` if the file of authorities cannot be used."""
        self._route = route
        self._pool = urllib3.PoolManager(ssl_context=tls_context(route), retries=False, timeout=TIMEOUT)

    def create(self, definition: dict[str, Any], **credential: str) -> str:
        """Create a job, which does not start; return its id."""
        made = self._ask("POST", "/jobs/", {"definition": definition, **credential})
        match made:
            case [{"job_id": str(job)}] if job.isprintable() and 0 < len(job) <= 100:
                return job
        raise Unavailable(
            code="no-answer",
            what=f"{self._route.address} returned no id of the new job",
            fix="look for the job at the service before you submit it again",
        )

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
            data = answer.read(MAX_ANSWER + 1)
        except SSLError as error:
            what, fix = f"{address} does not prove that it is this service: {error}", "see HEADNODE_CA_FILE"
            raise NotAllowed(code="wrong-gateway", what=what, fix=fix) from None
        except HTTPError as error:
            what = f"the service at {address} does not answer: {type(error).__name__}"
            raise Unavailable(code="service-away", what=what, fix="check --service, and try again") from None
        finally:
            self._pool.clear()
        digest = answer.headers.get("Content-MD5")
        if len(data) > MAX_ANSWER or (digest is not None and digest != _md5(data)):
            raise Unavailable(
                code="no-answer",
                what=f"the answer of {address} is too long, or was changed",
                fix="check --service, and try again",
            )
        if answer.status >= 300:
            raise self._refusal(answer.status, data)
        return _read(data, address)

    def _refusal(self, status: int, data: bytes) -> HeadnodeError:
        reason = " ".join(data.decode(errors="replace").split())[:500] or "no reason was given"
        what = f"{self._route.address} answers {status}: {reason}"
        return _REFUSALS.get(status, Unavailable if status >= 500 else BadRequest)(code="service", what=what)


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _read(data: bytes, address: str) -> Any:
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise Unavailable(
            code="no-answer",
            what=f"{address} answers no JSON",
            fix="check --service: it is the address of a Pilot service",
        ) from None
