"""Nodes and their groups by HPC Pack's REST API."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from headnode.apps.web.hpc_pack.property_lists import Properties, listed
from headnode.apps.web.hpc_pack.requests import (
    DONE,
    HpcReply,
    HpcRequest,
    filters_of,
    in_order,
    objects,
    page,
)
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import NotFound, WrongState

ALL_NODES: Final = "ComputeNodes"
"""The group of HPC Pack that every node belongs to."""
ACCEPTED: Final = HpcReply(status=202)
_STATES: Final = {"Ready": "Online", "Unreachable": "Online", "Draining": "Draining", "Pending": "Unknown"}
_HEALTHS: Final = {"Unreachable": "Error", "Pending": "Unapproved"}
_OPERATIONS: Final = {"bringonline": "resume_node", "takeoffline": "drain_node"}


def _state(node: Mapping[str, Any]) -> str:
    return _STATES.get(node["state"], "Offline")


def _health(node: Mapping[str, Any]) -> str:
    return _HEALTHS.get(node["state"], "OK")


def _object(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node as newer versions have it."""
    return {
        "Name": node["name"],
        "State": _state(node),
        "Health": _health(node),
        "Cores": node["processors"],
        "Sockets": node["sockets"],
        "MemorySize": node["memory"],
        "Groups": [ALL_NODES, *node["groups"]],
        "Template": None,
        "Location": None,
        "HpcPackVersion": node["version"],
        "OnAzure": False,
        "Roles": ["ComputeNode"],
        "InstalledServiceRoles": ["ComputeNode", "LinuxNode"],
        "ActiveServiceRoles": ["ComputeNode", "LinuxNode"],
    }


def _properties(node: Mapping[str, Any]) -> Properties:
    """Return a node as older versions have it."""
    return {
        "Name": node["name"],
        "State": _state(node),
        "Reachable": str(node["state"] != "Unreachable"),
        "NumberOfCores": str(node["processors"]),
        "NumberOfSockets": str(node["sockets"]),
        "MemorySize": str(node["memory"]),
        "CpuSpeed": str(node["speed"]),
        "NodeGroups": ",".join([ALL_NODES, *node["groups"]]),
        "JobType": "Batch",
    }


async def _nodes(request: HpcRequest) -> list[dict[str, Any]]:
    return list((await request.ask("nodes"))["nodes"])


async def nodes(request: HpcRequest) -> HpcReply:
    """List nodes as newer versions do."""
    names, group = request.names("names"), request.query.get("group", "")
    jobs = {int(job) for job in request.names("jobs") if job.isdecimal()}
    state, health = request.query.get("state"), request.query.get("health")
    objects = []
    for each in await _nodes(request):
        node = _object(each)
        running = (await request.ask("node", node=each["name"]))["node"]["jobs"] if jobs else []
        if (
            (not names or node["Name"] in names)
            and (not group or group in node["Groups"])
            and state in (None, node["State"])
            and health in (None, node["Health"])
            and (not jobs or jobs & {*running})
        ):
            objects.append(node)
    return HpcReply(objects)


async def node(request: HpcRequest) -> HpcReply:
    """Show a node as newer versions do."""
    return HpcReply(_object((await request.ask("node", node=request.path("node")))["node"]))


async def node_rows(request: HpcRequest) -> HpcReply:
    """List nodes as older versions do."""
    filters = filters_of(request, "NodeState", "NodeGroup")
    rows = [_properties(each) for each in await _nodes(request)]
    rows = [
        row
        for row in rows
        if filters.get("nodestate", row["State"]).lower() == row["State"].lower()
        and filters.get("nodegroup", ALL_NODES) in row["NodeGroups"].split(",")
    ]
    rows = in_order(request, rows, "sortNodesBy", lambda row, name: row.get(name, row["Name"]))
    chosen, headers = page(request, rows)
    return objects(list(chosen), request.names(), headers)


async def node_row(request: HpcRequest) -> HpcReply:
    """Show a node as older versions do."""
    node = (await request.ask("node", node=request.path("node")))["node"]
    return HpcReply(listed(_properties(node), request.names()))


async def operate(request: HpcRequest) -> HpcReply:
    """Bring a node online or take it offline."""
    operation, name = request.path("operation"), request.path("node")
    if (verb := _OPERATIONS.get(operation.lower())) is None:
        raise wrong(
            "operation", f"the operation {operation[:64]!r} is not offered", "use bringOnline or takeOffline"
        )
    state = (await request.ask("node", node=name))["node"]["state"]
    if verb == "resume_node" and state == "Pending":
        verb = "approve_node"
    fields = {"reason": "taken offline by REST"} if verb == "drain_node" else {}
    await request.ask(verb, node=name, **fields)
    return ACCEPTED


async def state_counts(request: HpcRequest) -> HpcReply:
    """Count nodes by their states."""
    return _counted(Counter(map(_state, await _nodes(request))))


async def health_counts(request: HpcRequest) -> HpcReply:
    """Count nodes by their health."""
    return _counted(Counter(map(_health, await _nodes(request))))


def _counted(counts: Mapping[str, int]) -> HpcReply:
    return HpcReply([{"Name": name, "Value": count} for name, count in sorted(counts.items())])


async def node_metrics(request: HpcRequest) -> HpcReply:
    """Show the processors in use of each node, the one metric that the head has."""
    asked = {name.lower() for name in request.names("metricNames")}
    return HpcReply(
        [
            {
                "NodeName": each["name"],
                "Metrics": {"HPCCoresInUse": each["used"]} if "hpccoresinuse" in asked else {},
            }
            for each in await _nodes(request)
        ]
    )


GROUPS: Final = "NodeGroups"
"""The parameter with the groups that are there also without nodes."""


async def members_of_groups(request: HpcRequest) -> dict[str, list[str]]:
    """Return the nodes of each group."""
    members: dict[str, list[str]] = {ALL_NODES: [], **{name: [] for name in await _kept_groups(request)}}
    for each in await _nodes(request):
        for group in (ALL_NODES, *each["groups"]):
            members.setdefault(group, []).append(each["name"])
    return members


async def _kept_groups(request: HpcRequest) -> list[str]:
    """Return the groups that are there also without nodes."""
    known = (await request.ask("parameters"))["parameters"]
    value: str = next(each["value"] for each in known if each["name"] == GROUPS)
    return [name for name in value.split(",") if name]


async def _keep_groups(request: HpcRequest, names: list[str]) -> None:
    await request.ask("set_parameters", values={GROUPS: ",".join(dict.fromkeys(names)) or None})


def _group_named(request: HpcRequest) -> str:
    """Return the name in a body that describes a group.

    Raises:  BadRequest ``body``.
    """
    body = request.body if isinstance(request.body, dict) else {}
    name = body.get("Name")
    if not isinstance(name, str) or not name.strip() or "," in name or name == ALL_NODES:
        raise wrong("body", "the body has no name for a group", 'send {"Name": "fast"}', ("Name",))
    return name.strip()


async def create_group(request: HpcRequest) -> HpcReply:
    """Make a group without nodes; it has no description here."""
    name = _group_named(request)
    if name in await members_of_groups(request):
        raise WrongState(
            code="group-exists", what=f"there is a group {name[:64]!r} already", fix="choose another name"
        )
    await _keep_groups(request, [*await _kept_groups(request), name])
    return HpcReply(_group(name))


async def rename_group(request: HpcRequest) -> HpcReply:
    """Give a group another name."""
    before, after = request.path("group"), _group_named(request)
    members = await _members(request)
    if before == ALL_NODES:
        raise WrongState(
            code="managed-group",
            what=f"the group {ALL_NODES} has every node and keeps its name",
            fix="rename another group",
        )
    if before != after:
        kept = await _kept_groups(request)
        await _keep_groups(request, [each for each in kept if each != before] + [after])
        for each in await _nodes(request):
            if each["name"] in members:
                rest = [other for other in each["groups"] if other not in (before, after)]
                await request.ask("modify_node", node=each["name"], groups=[*rest, after])
    return HpcReply(_group(after))


def _group(name: str) -> dict[str, Any]:
    return {"Name": name, "Description": "", "Managed": name == ALL_NODES}


async def group_rows(request: HpcRequest) -> HpcReply:
    """List the groups as older versions do."""
    return objects([{"Name": name, "Description": ""} for name in await members_of_groups(request)], [], {})


async def groups(request: HpcRequest) -> HpcReply:
    """List the groups."""
    return HpcReply([_group(name) for name in await members_of_groups(request)])


async def group(request: HpcRequest) -> HpcReply:
    """Show a group."""
    await _members(request)
    return HpcReply(_group(request.path("group")))


async def group_nodes(request: HpcRequest) -> HpcReply:
    """List the names of the nodes of a group."""
    return HpcReply(await _members(request))


async def _members(request: HpcRequest) -> list[str]:
    name = request.path("group")
    members = await members_of_groups(request)
    if name not in members:
        raise NotFound(
            code="no-such-group", what=f"there is no group {name[:64]!r}", fix="see /cluster/nodeGroups"
        )
    return members[name]


async def move_nodes(request: HpcRequest) -> HpcReply:
    """Put nodes into a group, or take them out."""
    name, body = request.path("group"), request.body if isinstance(request.body, dict) else {}
    names, operation = body.get("NodeNames"), str(body.get("Operation", "")).lower()
    if operation not in ("add", "remove") or not isinstance(names, list) or name == ALL_NODES:
        raise wrong("body", "the body is not an operation on a group", 'send "Operation": "add" or "remove"')
    known = {each["name"]: each["groups"] for each in await _nodes(request)}
    for node_name in map(str, names):
        if node_name not in known:
            raise NotFound(code="no-such-node", what=f"there is no node {node_name[:64]!r}", fix="see /nodes")
        rest = [each for each in known[node_name] if each != name]
        await request.ask("modify_node", node=node_name, groups=[*rest, name] if operation == "add" else rest)
    return HpcReply((await members_of_groups(request)).get(name, []))


async def remove_group(request: HpcRequest) -> HpcReply:
    """Take all nodes out of a group, and forget it."""
    name = request.path("group")
    await _members(request)
    if name in (kept := await _kept_groups(request)):
        await _keep_groups(request, [each for each in kept if each != name])
    for each in await _nodes(request):
        if name in each["groups"]:
            rest = [other for other in each["groups"] if other != name]
            await request.ask("modify_node", node=each["name"], groups=rest)
    return DONE
