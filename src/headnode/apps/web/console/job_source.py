"""The file that a job was read from, with what became of its words; and the job in any job language."""

from collections.abc import Iterable, Sequence
from typing import Final

from starlette.responses import Response

from headnode.apps.web.console.job import frame
from headnode.apps.web.console.rendering import plain_text
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Told, Visit
from headnode.core.formats.dialects import DIALECTS, SUBMITTED
from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound

LARGEST_TEXT: Final = 100_000  # characters in the page; the download has all


async def show_source(visit: Visit) -> Model:
    """Return the file of a job, or the job in the language of the address; in the native form without one."""
    shown = await frame(visit, "source")
    shown |= {"dialects": list(DIALECTS), "lines": [], "report": [], "problem": None, "cut": False}
    dialect, missing = visit.query.get("as", ""), ""
    try:
        try:
            answer = await visit.ask("export_job", job=shown["id"], dialect=dialect or SUBMITTED)
        except (NotFound, NotAllowed) as refusal:
            if dialect:
                raise
            missing = refusal.what
            answer = await visit.ask("export_job", job=shown["id"], dialect="native")
    except HeadnodeError as error:
        return shown | {
            "dialect": dialect,
            "missing": "",
            "problem": {"what": error.what, "fix": error.fix},
        }
    dialect = dialect or ("native" if missing else SUBMITTED)
    text, report = answer["text"], answer["report"]
    return shown | {
        "dialect": dialect,
        "missing": missing,
        "lines": with_notes(text[:LARGEST_TEXT].splitlines(), report if dialect == SUBMITTED else ()),
        "cut": len(text) > LARGEST_TEXT,
        "report": report,
    }


def with_notes(lines: Sequence[str], report: Iterable[Told]) -> list[Model]:
    """Return lines of a file, each with what the report says of it."""
    of_line: dict[int, list[Told]] = {}
    for item in report:
        of_line.setdefault(item["line"], []).append(item)  # 0: of no line
    return [{"text": text, "notes": of_line.get(number, [])} for number, text in enumerate(lines, 1)]


async def download_source(visit: Visit) -> Response:
    """Return a job as a file in one of the languages."""
    job, dialect = visit.request.path_params["job"], visit.query.get("as", "native")
    answer = await visit.ask("export_job", job=job, dialect=dialect)
    return plain_text(answer["text"].encode(), f"job-{job}.{dialect}.txt")


SOURCE_PAGES: Final = (ConsolePage("/jobs/{job:int}/source", "job_source.html", show_source),)
