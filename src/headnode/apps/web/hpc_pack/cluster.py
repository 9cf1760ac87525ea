"""The cluster by HPC Pack's REST API."""

import re
import socket
from datetime import UTC, datetime
from typing import Any, Final
from zlib import crc32

import msgspec

from headnode.apps.web.hpc_pack.pages import number_in
from headnode.apps.web.hpc_pack.property_lists import DATE_FORMAT, read_date
from headnode.apps.web.hpc_pack.requests import HpcReply, HpcRequest
from headnode.core.model.errors import NotFound

_ROLES: Final = {"administrator": "Administrator", "operator": "JobOperator"}
MOST_OPERATIONS: Final = 1000


async def version(request: HpcRequest) -> HpcReply:
    """Show the version, in four numbers as HPC Pack has it."""
    own = re.findall(r"[0-9]+", (await request.ask("ping"))["version"])
    return HpcReply(".".join([*own, "0", "0", "0"][:4]))


async def head_node(request: HpcRequest) -> HpcReply:
    """Show the machine of the head."""
    await request.ask("ping")
    return HpcReply(socket.gethostname())


async def date_format(request: HpcRequest) -> HpcReply:  # noqa: ARG001
    """Show the form of dates in answers."""
    return HpcReply(DATE_FORMAT)


async def roles(request: HpcRequest) -> HpcReply:
    """Show the roles of the user."""
    role = (await request.ask("whoami"))["role"]
    return HpcReply(["User", *([_ROLES[role]] if role in _ROLES else [])])


async def templates(request: HpcRequest) -> HpcReply:
    """List the names of the job templates."""
    names = [each["name"] for each in (await request.ask("templates"))["templates"]]
    return HpcReply(names if "Default" in names else ["Default", *names])


async def operations(request: HpcRequest) -> HpcReply:
    """Show the newest changes of the audit log, the newest first."""
    return HpcReply((await _operations(request))[: min(number_in(request, "limit", 100), MOST_OPERATIONS)])


async def first_operation(request: HpcRequest) -> HpcReply:
    """Show the oldest of these changes."""
    found = await _operations(request)
    return HpcReply(found[-1] if found else None)


async def operation(request: HpcRequest) -> HpcReply:
    """Show one of these changes."""
    wanted = request.path("operation")
    for each in await _operations(request):
        if each["Id"] == wanted:
            return HpcReply(each)
    raise NotFound(code="no-such-operation", what=f"there is no operation {wanted[:64]!r} any more")


async def _operations(request: HpcRequest) -> list[dict[str, Any]]:
    """Return the changes of the audit log that were asked for, the newest first."""
    since, until = request.query.get("fromTime"), request.query.get("toTime")
    nodes = request.names("nodeNames")
    entries = (await request.ask("audit_log", limit=MOST_OPERATIONS))["entries"]
    found = []
    for entry in entries:
        at = read_date(entry["when"])
        node = str(entry.get("node") or "(cluster)")
        if (
            (since and at <= read_date(since))
            or (until and at >= read_date(until))
            or (nodes and node not in nodes)
        ):
            continue
        found.append(_operation(at, node, entry))
    return sorted(found, key=lambda each: str(each["UpdateTime"]), reverse=True)


def _operation(at: float, node: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": f"{at:.3f}-{crc32(msgspec.json.encode(entry)):08x}",
        "Name": entry["verb"],
        "Operator": entry["user"],
        "Node": node,
        "State": "Committed" if entry["outcome"] == "done" else "Failed",
        "Cancelable": False,
        "UpdateTime": datetime.fromtimestamp(at, UTC).isoformat(),
        "Entries": None,
    }
