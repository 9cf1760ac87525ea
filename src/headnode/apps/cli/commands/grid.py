"""``hn grid submit``: create and start a job of a grid description at a Pilot service."""

import os

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_files import files_beside, read_bytes, read_job_file, values_given
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.client.pilot_service import PilotService

_LARGEST_PROXY = 32_768  # characters


def submit(asked: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001 - the service is asked
    """Create a job and start it; its definitions in files are sent, with values for names."""
    import uuid

    from headnode.core.formats.grid import GridOptions, whole_description
    from headnode.core.model.errors import HeadnodeError

    if len(asked.words) != 1:
        raise usage("one job file is needed", "for example: hn grid submit job.js --set who=ada")
    path = asked.words[0]
    text = read_job_file(path)
    files = {name: said.encode() for name, said in files_beside(path, text).items()}
    how = GridOptions(variables=values_given(asked), files=files)
    definition = whole_description(text, how)
    service = _service(asked)
    job = service.create(definition, **_credential(asked))
    uri = service.uri(job)
    if asked.flag("no-start"):
        out.said(f"Job has been created. ID: {job}.", {"job": job, "uri": uri, "started": False}, job)
        return 0
    try:
        service.operate(job, "start", str(uuid.uuid4()))
    except HeadnodeError:
        out.note(f"job {job} was created, and has not started: {uri}")
        raise
    out.said(f"Job has been submitted. ID: {job}.", {"job": job, "uri": uri, "started": True}, job)
    return 0


def _service(asked: Arguments) -> "PilotService":
    """Return the service to ask.

    Raises:  BadRequest ``usage`` without an address; as `web_route`.
    """
    from headnode.apps.client.pilot_service import PilotService
    from headnode.apps.client.web_connection import web_route

    gateway = os.environ.get("HEADNODE_URL", "").rstrip("/")
    address = asked.text("service") or (f"{gateway}/pilot" if gateway else "")
    if not address:
        raise usage("no service is named", "add --service https://HOST:PORT/pilot, or set HEADNODE_URL")
    token, authorities = os.environ.get("HEADNODE_TOKEN", ""), os.environ.get("HEADNODE_CA_FILE", "")
    return PilotService(web_route(address, token, authorities))


def _credential(asked: Arguments) -> dict[str, str]:
    """Return with what the files of the job are transferred: the name of a delegation, or a proxy.

    Raises:  BadRequest ``usage``, ``job-file``.
    """
    name, path = asked.text("delegation"), asked.text("proxy")
    if name and path:
        raise usage("both a delegation and a proxy are named", "give one of them")
    if name:
        return {"delegation_id": name}
    if not path:
        return {}
    data = read_bytes(path)
    if len(data) > _LARGEST_PROXY or not data.isascii():
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
