"""The output of tasks in the page: its end, with colours, and the whole of it as a download."""

import base64
from typing import Final

from starlette.responses import Response

from headnode.apps.web.console.ansi import styled
from headnode.apps.web.console.rendering import plain_text
from headnode.apps.web.console.visit import Model, Visit
from headnode.core.model.errors import HeadnodeError

END_OF_OUTPUT: Final = 16 * 1024  # bytes on the first page of a job
MOST_IN_PAGE: Final = 256 * 1024  # bytes, at once
MOST_IN_DOWNLOAD: Final = 8 * 1024 * 1024  # bytes
STREAMS: Final = {
    "captured": "Output",
    "standard_output": "Standard output",
    "standard_error": "Standard error",
}


async def output_of(
    visit: Visit, job: int, task: int, instance: int | None, most: int, stream: str = "captured"
) -> Model:
    """Return the end of an output as pieces with colours; or why there is none, in a sentence."""
    shown: Model = {
        "job": job, "task": task, "instance": instance, "stream": stream,
        "pieces": [], "size": 0, "cut": False, "problem": "", "fix": "",
    }  # fmt: skip
    try:
        answer = await visit.ask(
            "read_output", job=job, task=task, instance=instance, offset=-most, limit=most, stream=stream
        )
    except HeadnodeError as error:
        return shown | {"problem": error.what, "fix": error.fix}
    text = base64.b64decode(answer["data"]).decode(errors="replace")
    return shown | {
        "pieces": [piece._asdict() for piece in styled(text)],
        "size": answer["size"],
        "cut": answer["size"] > most,
    }


async def download(visit: Visit) -> Response:
    """Return up to 8 MB of an output, from the offset in the address on, as a file of plain text."""
    job, task = visit.request.path_params["job"], visit.request.path_params["task"]
    stream = visit.query.get("stream", "captured")
    answer = await visit.ask(
        "read_output",
        job=job,
        task=task,
        instance=visit.number("instance"),
        offset=visit.number("offset") or 0,
        limit=MOST_IN_DOWNLOAD,
        stream=stream,
    )
    instance = visit.query.get("instance", "")
    name = f"job-{job}.{task}" + (f".{instance}" if instance else "") + ".txt"
    return plain_text(base64.b64decode(answer["data"]), name)
