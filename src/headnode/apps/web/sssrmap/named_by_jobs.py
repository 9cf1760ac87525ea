"""Queries of what jobs name: users, projects, job groups."""

import asyncio
from collections import Counter
from collections.abc import Callable

from headnode.apps.web.sssrmap.job_queries import OVER, Row, rows_of
from headnode.apps.web.sssrmap.queries import Collected, refuse_other_names
from headnode.apps.web.sssrmap.service import RmapCall
from headnode.core.formats.sss.sssrmap.messages import leaf
from headnode.core.formats.sss.sssrmap.spellings import renamed
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import RMAP_DETAILS


async def collect_users(call: RmapCall) -> Collected:
    """Return the owners of jobs, and the user of the actor."""
    own = (await call.ask("whoami"))["user"]
    return await _collect_named(call, lambda row: str(row["owner"]), [own])


async def collect_projects(call: RmapCall) -> Collected:
    """Return the projects of jobs."""
    return await _collect_named(call, lambda row: str(row["project"]), [])


async def _collect_named(call: RmapCall, name_of: Callable[[Row], str], more: list[str]) -> Collected:
    refuse_other_names(call, ("Id", "Name", "Jobs"))
    rows = await rows_of(call, {})
    counts = Counter(name for row in rows if row["state"] not in OVER and (name := name_of(row)))
    names = sorted({name for row in rows if (name := name_of(row))} | {*more})
    found = [
        XmlElement(call.kind, {}, [leaf("Id", name), leaf("Name", name), leaf("Jobs", counts[name])])
        for name in names
    ]
    return Collected([renamed(one, call.names) for one in found], rows.whole)


async def collect_groups(call: RmapCall) -> Collected:
    """Return the job groups, with their jobs."""
    refuse_other_names(call, ("Id", "State", "User", "Job"))
    rows = await rows_of(call, {})
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["group"]:
            groups.setdefault((row["owner"], row["group"]), []).append(row)
    states = await asyncio.gather(
        *(call.ask("group", group=group, owner=owner) for owner, group in [*groups][: RMAP_DETAILS.most])
    )
    found = []
    for (owner, group), told in zip(groups, states, strict=False):
        inside = [leaf("Id", group), leaf("State", told["state"]), leaf("User", owner)]
        found.append(XmlElement("JobGroup", {}, [*inside, *(leaf("Job", job) for job in told["jobs"])]))
    whole = rows.whole and len(groups) <= RMAP_DETAILS.most
    return Collected([renamed(one, call.names) for one in found], whole)
