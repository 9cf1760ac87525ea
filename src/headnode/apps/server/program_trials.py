"""Tries programs of the site before they are set: do they exist where they will run, and who can change them?

Filters and the licence program run on the head's machine.  Prologs, epilogs, node filters and health checks
run on nodes, so the agents of those that take jobs are asked.
"""

import asyncio
import shlex
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from headnode.adapters.files.owners import why_not_run, why_not_trusted
from headnode.adapters.nodes.link import Link
from headnode.apps.server.desk import Desk
from headnode.core.filtering.registration import read_filters
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeState

_ON_NODES = ("PrologProgram", "EpilogProgram", "HealthCheckProgram", "NodeFilterDirectory")
_MOST_NAMED = 3  # nodes of one trouble


async def try_programs(desk: Desk, values: Mapping[str, str | None]) -> None:
    """Refuse values of parameters that name a program which cannot be run where it must, or safely.

    Raises:  BadRequest ``program``.
    """
    for name, value in values.items():
        if not value:
            continue
        if name in _HERE and (why_not := await asyncio.to_thread(_HERE[name], value)):
            raise BadRequest(code="program", what=f"{name} cannot be set: {why_not}")
        if name in _ON_NODES:
            await _try_on_nodes(desk, name, value)


async def try_filters(*chains: str) -> None:
    """Refuse filters, as a parameter or a job template names them, that cannot be run safely.

    Raises:  BadRequest ``program``.
    """
    for chain in chains:
        if why_not := await asyncio.to_thread(_why_no_filter, chain):
            raise BadRequest(code="program", what=f"the filter cannot be set: {why_not}")


def _why_no_filter(chain: str) -> str:
    troubles = (why_not_run(each.program) for each in read_filters(chain) if each.program)
    return next(filter(None, troubles), "")


def _why_no_credentials(path: str) -> str:
    """Return why a file with a password must not be believed; who else can read it knows the password."""
    if not Path(path).is_file():
        return f"{path!r} is no file; write USER:PASSWORD into it"
    why_not = why_not_trusted(path)
    if not why_not and Path(path).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return f"{path!r} can be read by others; chmod 600 {path}"
    return why_not


_HERE: Mapping[str, Callable[[str], str]] = {
    "SubmissionFilterProgram": _why_no_filter,
    "ActivationFilterProgram": _why_no_filter,
    "LicenceProgram": lambda program: why_not_run(shlex.split(program)),
    "EmailCredentialsFile": _why_no_credentials,
}


async def _try_on_nodes(desk: Desk, name: str, value: str) -> None:
    program, filters = ("", value) if name == "NodeFilterDirectory" else (value, "")
    links = [link for node, link in sorted(desk.links.items()) if _takes_jobs(desk, node)]
    troubles: dict[str, list[Link]] = {}
    for link, trouble in zip(
        links, await asyncio.gather(*(link.try_program(program, filters) for link in links)), strict=True
    ):
        troubles.setdefault(trouble, []).append(link)
    troubles.pop("", None)
    for trouble, where in troubles.items():
        names = ", ".join(link.node for link in where[:_MOST_NAMED])
        more = f" and {len(where) - _MOST_NAMED} others" if len(where) > _MOST_NAMED else ""
        raise BadRequest(
            code="program",
            what=f"{name} cannot be set: on {names}{more}: {trouble}",
            fix="correct that, or drain these nodes: hn node drain NODE",
        )


def _takes_jobs(desk: Desk, node: str) -> bool:
    record = desk.cluster.nodes.get(node)
    return record is not None and record.state is NodeState.READY and not record.drains
