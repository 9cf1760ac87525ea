"""The site under an overlay: its queue with expected starts, its newest ended jobs, its nodes."""

from typing import Final

from headnode.apps.readable_values import counted, duration
from headnode.apps.web.console.visit import ConsolePage, HeadAnswer, HeadQuestions, Model, Visit
from headnode.core.batch.slurm_reasons import reason_in_words
from headnode.core.model.errors import Unavailable

JOBS_SHOWN: Final = 200
SITE_KEPT: Final = 30.0  # seconds
_MARKS: Final = {"waiting": "queued", "running": "running"}
_ENDS: Final = {"COMPLETED": "finished", "CANCELLED": "canceled"}


async def site_name(ask: HeadQuestions) -> str:
    """Return the resource over which the head runs; "" if there is none."""
    resources = (await ask("resources"))["resources"]
    return next((str(each["name"]) for each in resources if each["overlay"]), "")


async def show_queue(visit: Visit) -> Model:
    """Return the queue of the site, or its newest ended jobs."""
    ended, user = visit.query.get("state") == "ended", visit.query.get("user", "").strip()
    model: Model = {
        "title": "Queue of the site",
        "site": None,
        "away": "",
        "rows": [],
        "user": user,
        "ended": ended,
    }
    model["views"] = [
        ("Queue", visit.here(state=None), not ended),
        ("Ended", visit.here(state="ended"), ended),
    ]
    try:
        answer = await visit.ask("site_jobs", ended=ended, user=user or None, limit=JOBS_SHOWN)
    except Unavailable as error:
        return {**model, "away": error.what}
    return {
        **model,
        "site": site_facts(answer["site"]),
        "rows": [queue_row(job) for job in answer["jobs"]],
        "total": answer["total"],
    }


def site_facts(site: HeadAnswer) -> Model:
    """Return what both pages say of the site."""
    judged = site["judged"]
    learned = f"corrected by {counted(judged, 'start')} seen" if judged else "not corrected by any start yet"
    return {**site, "learned": f"Expected starts are {learned}."}


def queue_row(job: HeadAnswer) -> Model:
    """Return what a row shows of a job of the site; `why` is the reason in words."""
    ran = job["ended"] - job["started"] if job["started"] and job["ended"] else None
    waits = job["state"] == "waiting"
    return {
        **job,
        "mark": _MARKS.get(job["state"]) or _ENDS.get(job["word"], "failed"),
        "state": job["word"].lower(),
        "array": f" and {job['elements'] - 1} more" if job["elements"] > 1 else "",
        "size": f"{counted(job['processors'], 'processor')}, "
        + (duration(job["run_time"]) if job["run_time"] is not None else "no limit"),
        "ran": duration(max(0.0, ran)) if ran is not None else "",
        "why": (reason_in_words(job["reason"]) or "not considered yet") if waits else "",
        "waits": waits,
    }


async def show_site_nodes(visit: Visit) -> Model:
    """Return the nodes and the partitions of the site."""
    model: Model = {"title": "Nodes of the site", "site": None, "away": "", "rows": []}
    try:
        answer = await visit.ask("site_nodes")
    except Unavailable as error:
        return {**model, "away": error.what}
    return {**model, "site": site_facts(answer["site"]), "rows": [node_row(node) for node in answer["nodes"]]}


def node_row(node: HeadAnswer) -> Model:
    """Return what a row shows of a node of the site."""
    used, size = node["used"], node["processors"]
    mark = "paused" if node["closed"] else "full" if used >= size > 0 else "busy" if used else "ready"
    return {**node, "mark": mark, "share": round(100 * min(used, size) / size, 1) if size else 0}


SITE_PAGES: Final = (
    ConsolePage("/site", "site_queue.html", show_queue),
    ConsolePage("/site/nodes", "site_nodes.html", show_site_nodes),
)
