"""Queries of what jobs name: users, projects, job groups."""

import asyncio
from collections import Counter
from collections.abc import Callable

from headnode.apps.web.sssrmap.job_queries import OVER, Row, answered, refuse_other_names, rows_of
from headnode.apps.web.sssrmap.service import RmapCall
from headnode.core.formats.sss.sssrmap.messages import RmapResponse, leaf
from headnode.core.formats.sss.sssrmap.spellings import renamed
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import RMAP_DETAILS


async def query_users(call: RmapCall) -> RmapResponse:
    """Tell the owners of jobs, and the user of the actor."""
    own = (await call.ask("whoami"))["user"]
    return await _query_named(call, lambda row: str(row["owner"]), [own])


async def query_projects(call: RmapCall) -> RmapResponse:
    """Tell the projects of jobs."""
    return await _query_named(call, lambda row: str(row["project"]), [])


async def _query_named(call: RmapCall, name_of: Callable[[Row], str], more: list[str]) -> RmapResponse:
    refuse_other_names(call, ("Id", "Name", "Jobs"))
    rows = await rows_of(call, {})
    counts = Counter(name for row in rows if row["state"] not in OVER and (name := name_of(row)))
    names = sorted({name for row in rows if (name := name_of(row))} | {*more})
    found = [
        XmlElement(call.kind, {}, [leaf("Id", name), leaf("Name", name), leaf("Jobs", counts[name])])
        for name in names
    ]
    return await answered(call, [renamed(one, call.names) for one in found], whole=rows.whole)


async def query_groups(call: RmapCall) -> RmapResponse:
    """Tell the job groups, with their jobs."""
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
    return await answered(
        call,
        [renamed(one, call.names) for one in found],
        whole=rows.whole and len(groups) <= RMAP_DETAILS.most,
    )
