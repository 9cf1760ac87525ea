"""The first page: the cluster in four sentences, its load, what needs the user, and the user's jobs."""

import math
import os
from typing import Final

from headnode.apps.readable_values import counted, duration, size_of_bytes
from headnode.apps.web.console.job_rows import job_rows
from headnode.apps.web.console.load_chart import load_chart
from headnode.apps.web.console.visit import ConsolePage, GoTo, HeadAnswer, Model, Visit
from headnode.core.model.errors import NotFound
from headnode.protocol.node_answers import IN_STEP
from headnode.protocol.state_names import OPEN_STATES

MY_JOBS: Final = 10
MIN_DISK: Final = 0.1  # the part of the disk below which it needs an administrator
HOUR: Final = 3600.0
LOOKED_AT: Final = 100  # failed jobs, for those of the last hour


async def show_overview(visit: Visit) -> Model:
    """Return the first page."""
    cluster = (await visit.ask("cluster"))["cluster"]
    nodes = (await visit.ask("nodes"))["nodes"]
    queue = await visit.ask("queue", limit=300)
    failed = (await visit.ask("jobs", states=["Failed"], limit=LOOKED_AT))["jobs"]
    lately = [job for job in failed if (job["ended"] or 0) > visit.now - HOUR]
    mine = (await visit.ask("jobs", owner="", states=list(OPEN_STATES), limit=MY_JOBS))["jobs"]
    if not mine:
        mine = (await visit.ask("jobs", owner="", limit=MY_JOBS // 2))["jobs"]
    running = (await visit.ask("jobs", states=["Running"], limit=1000))["jobs"]
    return {
        "title": "Overview",
        "cluster": cluster,
        "sentences": [
            _running(cluster, nodes),
            _waiting(queue, visit.now),
            _needing(nodes),
            _failing(lately),
        ],
        "free_in": _free_in(running, queue, visit.now),
        "to_do": to_do(cluster, nodes) if visit.administers else [],
        "jobs": job_rows(mine, visit.now),
        "load": await load_chart(visit, running, queue["jobs"], cluster["processors"]["total"]),
    }


def _running(cluster: HeadAnswer, nodes: list[HeadAnswer]) -> Model:
    jobs, busy = cluster["jobs"].get("Running", 0), sum(bool(node["used"]) for node in nodes)
    if not jobs:
        return _link("No job runs.", "/jobs?state=running")
    runs = "runs" if jobs == 1 else "run"
    used, total = cluster["processors"]["used"], cluster["processors"]["total"]
    return _link(
        f"{counted(jobs, 'job')} {runs} on {busy:,} of {counted(len(nodes), 'node')}; "
        f"{used:,} of {counted(total, 'processor')} are in use.",
        "/jobs?state=running",
    )


def _waiting(queue: HeadAnswer, now: float) -> Model:
    waiting, held = queue["waiting"], queue["held"]
    if not waiting and not held:
        return _link("No job waits.", "/jobs?state=queued")
    starts = [(job["expected"] or {}).get("p50") for job in queue["jobs"]]
    known = [at for at in starts if at is not None]
    first = min(known, default=now) - now
    when = f"in {duration(first)}" if first >= 1 else "at any moment"
    soon = f"; the next starts {when}" if known else ""
    others = f"{held:,} {'is held or waits' if held == 1 else 'are held or wait'} for other jobs"
    if not waiting:
        return _link(f"No job waits for processors; {others}.", "/jobs?state=queued")
    also = f"; {others}" if held else ""
    return _link(f"{waiting:,} {'waits' if waiting == 1 else 'wait'}{soon}{also}.", "/jobs?state=queued")


def _needing(nodes: list[HeadAnswer]) -> Model:
    away = [node for node in nodes if node["state"] != "Ready"]
    if not away:
        return _link("All nodes are ready." if nodes else "There are no nodes.", "/nodes")
    needs = "needs" if len(away) == 1 else "need"
    return _link(f"{counted(len(away), 'node')} {needs} you.", "/nodes?state=not-ready")


def _failing(failed: list[HeadAnswer]) -> Model:
    if not failed:
        return _link("Nothing failed in the last hour.", "/jobs?state=failed")
    some = f"{counted(len(failed), 'job')} failed in the last hour."
    return _link(some, f"/jobs/{failed[0]['id']}" if len(failed) == 1 else "/jobs?state=failed")


def _link(text: str, path: str) -> Model:
    return {"text": text, "path": path}


def _free_in(running: list[HeadAnswer], queue: HeadAnswer, now: float) -> str:
    """Return when the cluster is empty at the latest, in a sentence; "" when it is empty now."""
    ends = [_end(job["started"], job["run_time"]) for job in running]
    ends += [_end((job["expected"] or {}).get("p90"), job["run_time"]) for job in queue["jobs"]]
    if not ends:
        return ""
    if math.inf in ends or queue["waiting"] > len(queue["jobs"]):
        return "The end of the queue is not known: jobs have no run time limit, or no expected start."
    return f"If nothing is added, the cluster is empty in {duration(max(ends) - now)} at the latest."


def _end(start: float | None, limit: float | None) -> float:
    return math.inf if start is None or limit is None else start + limit


def to_do(cluster: HeadAnswer, nodes: list[HeadAnswer]) -> list[Model]:
    """Return what needs an administrator, each with where to do it."""
    items = []
    for node in nodes:
        path = f"/nodes/{node['name']}"
        if node["state"] == "Pending":
            items.append(_link(f"Node {node['name']} waits to be approved.", path))
        elif node["state"] == "Unreachable":
            items.append(_link(f"Node {node['name']} is not reached.", path))
        for drain in node["drains"][:1]:
            reason = drain["reason"] or drain["cause"]
            how = "is drained" if node["state"] == "Drained" else "is being drained"
            items.append(_link(f"Node {node['name']} {how}: {reason}.", path))
    troubles = {
        "/settings": [cluster["policy_problem"], cluster["licence_problem"], cluster["notices"]["problem"]],
        "/templates": [
            f"{each['name']}: {each['problem']}" for each in cluster["plug_ins"] if each["problem"]
        ],
        "/": [
            *(
                [
                    f"No job starts or ends: {problem}."
                    if (problem := cluster["journal"].get("problem"))
                    else ""
                ]
            ),
            *(f"{name} of the head: {what}" for name, what in cluster.get("failed_parts", {}).items()),
        ],
        "/heads": [
            f"Standby {name} is {how}." for name, how in cluster.get("standbys", {}).items() if how != IN_STEP
        ],
        "/audit": cluster["journal"]["damage"],
    }
    items += [_link(text, "/settings") for text in disk_trouble(cluster["state_directory"])]
    return items + [_link(text, path) for path, texts in troubles.items() for text in texts if text]


def disk_trouble(directory: str) -> list[str]:
    """Return what to say of the disk of the head's state, if it runs out; nothing if it cannot be seen."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return []
    share = disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0
    if share >= MIN_DISK:
        return []
    free = size_of_bytes(disk.f_bavail * disk.f_frsize)
    return [f"The disk of the head's state has {free} free, {share:.0%}."]


# ---------------------------------------------------------------- search


async def search(visit: Visit) -> GoTo:
    """Go to what a word means: the job of an id, a node, an owner, a project, or jobs by name."""
    word = visit.query.get("q", "").strip()[:256]
    if word.isascii() and word.isdigit() and len(word) < 16:
        return GoTo(f"/jobs/{word}")
    if not word:
        return GoTo("/jobs")
    from urllib.parse import quote, urlencode

    try:
        await visit.ask("node", node=word)
        return GoTo(f"/nodes/{quote(word, safe='')}")
    except NotFound:
        pass
    for field in ("owner", "project"):
        if (await visit.ask("jobs", **{field: word}, limit=1))["jobs"]:
            return GoTo(f"/jobs?{urlencode({'state': 'all', field: word})}")
    return GoTo(f"/jobs?{urlencode({'state': 'all', 'name': word})}")


OVERVIEW_PAGES: Final = (
    ConsolePage("/", "overview.html", show_overview),
    ConsolePage("/search", "", search),
)
