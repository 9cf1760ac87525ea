"""A job in any job language: its text, and what that language cannot say of it."""

from typing import Final

from starlette.responses import Response

from headnode.apps.web.console.job import frame
from headnode.apps.web.console.rendering import plain_text
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Visit
from headnode.core.formats.dialects import DIALECTS
from headnode.core.model.errors import HeadnodeError

LARGEST_TEXT: Final = 100_000  # characters in the page; the download has all


async def show_source(visit: Visit) -> Model:
    """Return a job as text in the language of the address, or in the native form."""
    shown = await frame(visit, "source")
    dialect = visit.query.get("as", "native")
    shown |= {
        "dialect": dialect,
        "dialects": list(DIALECTS),
        "lines": [],
        "report": [],
        "problem": None,
        "cut": False,
    }
    try:
        answer = await visit.ask("export_job", job=shown["id"], dialect=dialect)
    except HeadnodeError as error:
        return shown | {"problem": {"what": error.what, "fix": error.fix}}
    text, report = answer["text"], answer["report"]
    return shown | {
        "lines": text[:LARGEST_TEXT].splitlines(),
        "cut": len(text) > LARGEST_TEXT,
        "report": report,
    }


async def download_source(visit: Visit) -> Response:
    """Return a job as a file in one of the languages."""
    job, dialect = visit.request.path_params["job"], visit.query.get("as", "native")
    answer = await visit.ask("export_job", job=job, dialect=dialect)
    return plain_text(answer["text"].encode(), f"job-{job}.{dialect}.txt")


SOURCE_PAGES: Final = (ConsolePage("/jobs/{job:int}/source", "job_source.html", show_source),)
