"""``sinfo``: partitions and nodes.  A partition is a node group; ``all`` has every node.

Source:  Slurm 22.05, sinfo(1).
"""

import os
import sys
import time

from headnode.apps.cli.batch_programs.columns import Column, letters, lines, named
from headnode.apps.cli.batch_programs.rows import folded_nodes, refuse_other_clusters
from headnode.apps.cli.batch_programs.squeue import unfolded
from headnode.apps.cli.batch_programs.values import ALL_NODES, date
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    read_words,
    refused,
    repeated,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from headnode.apps.cli.batch_programs.columns import OutputFields

    Node = Mapping[str, Any]

OPTIONS = {
    **acted_on(
        "dead/d! exact/e! format/o Format/O iterate/i noheader/h! Node/N! nodes/n list-reasons/R! "
        "long/l! partition/p reservation/T! responding/r! sort/S states/t summarize/s! json! version/V! "
        "help! usage!"
    ),
    **ignored(
        "all/a! bg/b! clusters/M cluster federation! hide! local! noconvert! verbose/v!",
        "there is one cluster; it is asked anyway",
    ),
    **refused("yaml!", "use --json"),
}
_SHORT_STATES = {
    "idle": "idle", "mixed": "mix", "allocated": "alloc", "draining": "drng", "drained": "drain",
    "down": "down", "future": "futr", "reserved": "resv",
}  # fmt: skip
_STATES_ASKED = {short: long for long, short in _SHORT_STATES.items()} | {
    "mix": "mixed", "alloc": "allocated", "resv": "reserved",
}  # fmt: skip
FORMATS: "OutputFields" = {
    "a": ("available", "AVAIL", "available"), "A": ("nodesai", "NODES(A/I)", "nodeai"),
    "b": ("active", "ACTIVE_FEATURES", "features_act"),
    "B": ("maxcpus", "MAX_CPUS_PER_NODE", "maxcpuspernode"), "c": ("cpus", "CPUS", "cpus"),
    "C": ("cpusaiot", "CPUS(A/I/O/T)", "cpusstate"), "d": ("disk", "TMP_DISK", "disk"),
    "D": ("nodes", "NODES", "nodes"), "e": ("freemem", "FREE_MEM", "freemem"),
    "E": ("reason", "REASON", "reason"), "f": ("features", "AVAIL_FEATURES", "features"),
    "F": ("nodesaiot", "NODES(A/I/O/T)", "nodeaiot"), "g": ("groups", "GROUPS", "groups"),
    "G": ("gres", "GRES", "gres"), "h": ("oversubscribe", "OVERSUBSCRIBE", "oversubscribe"),
    "H": ("timestamp", "TIMESTAMP", "timestamp"), "l": ("time", "TIMELIMIT", "time"),
    "L": ("defaulttime", "DEFAULTTIME", "defaulttime"), "m": ("memory", "MEMORY", "memory"),
    "M": ("preempt", "PREEMPT_MODE", "preemptmode"), "n": ("hosts", "HOSTNAMES", "nodehost"),
    "N": ("nodelist", "NODELIST", "nodelist"), "o": ("address", "NODE_ADDR", "nodeaddr"),
    "O": ("load", "CPU_LOAD", "cpusload"), "p": ("weight", "PRIO_TIER", "prioritytier"),
    "P": ("partition", "PARTITION", "partition"), "r": ("root", "ROOT", "root"),
    "R": ("partitionname", "PARTITION", "partitionname"), "s": ("size", "JOB_SIZE", "size"),
    "S": ("allownodes", "ALLOWED_ALLOCATING_NODES"), "t": ("stateshort", "STATE", "statecompact"),
    "T": ("state", "STATE", "statelong"), "u": ("user", "USER", "user"), "U": ("user", "USER", "userlong"),
    "v": ("release", "VERSION", "version"), "w": ("weight", "WEIGHT", "weight"),
    "X": ("sockets", "SOCKETS", "sockets"), "Y": ("cores", "CORES", "cores"),
    "z": ("shape", "S:C:T", "socketcorethread"), "Z": ("threads", "THREADS", "threads"),
    "allocmem": ("allocmem", "ALLOCMEM", "allocmem"), "gresused": ("gresused", "GRES_USED", "gresused"),
}  # fmt: skip
_USUAL = "%#P %.5a %.10l %.6D %.6t %N"
_FORMS = {
    "long": "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N",
    "nodes": "%#N %.6D %#P %6t",
    "nodes long": "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E",
    "summarize": "%#P %.5a %.10l %.16F %N",
    "reasons": "%20E %9u %19H %N",
    "reasons long": "%20E %12U %19H %6t %N",
}
_TOGETHER = ("nodes", "nodelist", "cpusaiot", "nodesai", "nodesaiot", "freemem", "load", "allocmem")
"""Fields that are of all nodes in a line; the others divide them into lines."""


class NodeRow:
    """Nodes of a partition that differ in no field of the format."""

    __slots__ = ("nodes", "partition")

    def __init__(self, partition: str, nodes: "list[Node]") -> None:
        self.partition, self.nodes = partition, nodes


def state_of(node: "Node") -> str:
    """Return the state of a node in Slurm's word."""
    state, busy = node["state"], node["used"] > 0
    if state == "Unreachable":
        return "down"
    if state == "Pending":
        return "future"
    if state in ("Paused", "Draining", "Drained"):
        return "draining" if busy else "drained"
    if not busy:
        return "idle"
    return "allocated" if node["free"] == 0 or node["exclusive"] is not None else "mixed"


def _marked(node: "Node", short: bool) -> str:
    state = state_of(node)
    return (_SHORT_STATES[state] if short else state) + ("*" if state == "down" else "")


def reason_of(node: "Node") -> str:
    """Return why a node is drained; ``none``."""
    return str(node["drains"][0]["reason"] or node["drains"][0]["cause"]) if node["drains"] else "none"


def _first(field: "Callable[[Node], str]") -> "Callable[[NodeRow], str]":
    return lambda row: field(row.nodes[0]) if row.nodes else "n/a"


def _counts(row: NodeRow) -> tuple[int, int, int, int]:
    states = [state_of(node) for node in row.nodes]
    used = sum(state in ("allocated", "mixed", "draining") for state in states)
    idle = sum(state == "idle" for state in states)
    return used, idle, len(states) - used - idle, len(states)


def _processors(row: NodeRow) -> str:
    used = sum(node["used"] for node in row.nodes)
    total = sum(node["processors"] for node in row.nodes)
    idle = sum(node["free"] for node in row.nodes if state_of(node) in ("idle", "mixed", "allocated"))
    return f"{used}/{idle}/{max(0, total - used - idle)}/{total}"


def _known(number: int) -> str:
    """Return a number that the agent reports; 0 is that of an agent that does not know it."""
    return str(number) if number else "N/A"


def _shape(node: "Node") -> str:
    """Return sockets, cores of each and threads of each."""
    return f"{node['sockets']}:{_known(node['cores_per_socket'])}:{_known(node['threads_per_core'])}"


def _gpus(node: "Node", field: str) -> str:
    """Return GPUs of a node as a generic resource of Slurm; empty if it has none."""
    return f"gpu:{node[field]}" if node["gpus"] else ""


_VALUES: "dict[str, Callable[[NodeRow], str]]" = {
    "allocmem": lambda _: "N/A",
    "active": _first(lambda node: ",".join(node["features"]) or "(null)"),
    "address": _first(lambda node: node["address"] or node["name"]),
    "allownodes": lambda _: "all",
    "available": lambda _: "up",
    "cores": _first(lambda node: _known(node["cores_per_socket"])),
    "cpus": _first(lambda node: str(node["processors"])),
    "cpusaiot": _processors,
    "defaulttime": lambda _: "n/a",
    "disk": _first(lambda node: str(node["disk"])),
    "features": _first(lambda node: ",".join(node["features"]) or "(null)"),
    "freemem": lambda _: "N/A",
    "gres": _first(lambda node: _gpus(node, "gpus") or "(null)"),
    "gresused": _first(lambda node: _gpus(node, "gpus_held") or "(null)"),
    "groups": lambda _: "all",
    "hosts": lambda row: ",".join(sorted(node["name"] for node in row.nodes)),
    "load": lambda _: "N/A",
    "maxcpus": lambda _: "UNLIMITED",
    "memory": _first(lambda node: str(node["memory"])),
    "nodelist": lambda row: folded_nodes(node["name"] for node in row.nodes),
    "nodes": lambda row: str(len(row.nodes)),
    "nodesai": lambda row: "{}/{}".format(*_counts(row)),
    "nodesaiot": lambda row: "{}/{}/{}/{}".format(*_counts(row)),
    "oversubscribe": lambda _: "NO",
    "partition": lambda row: row.partition + ("*" if row.partition == ALL_NODES else ""),
    "partitionname": lambda row: row.partition,
    "preempt": lambda _: "OFF",
    "reason": _first(reason_of),
    "release": _first(lambda node: str(node["version"])),
    "root": lambda _: "no",
    "shape": _first(_shape),
    "size": lambda _: "1-infinite",
    "sockets": _first(lambda node: str(node["sockets"])),
    "state": _first(lambda node: _marked(node, short=False)),
    "stateshort": _first(lambda node: _marked(node, short=True)),
    "threads": _first(lambda node: _known(node["threads_per_core"])),
    "time": lambda _: "infinite",
    "timestamp": _first(lambda node: date(node["drains"][0]["since"]) or "" if node["drains"] else "Unknown"),
    "user": _first(lambda node: str(node["drains"][0]["by"] or "root") if node["drains"] else "Unknown"),
    "weight": lambda _: "1",
}


def run(argv: "Sequence[str]", client: Client) -> int:
    """List partitions and nodes."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    return repeated(args, lambda: _show(args, client))


def _show(args: ProgramWords, client: Client) -> int:
    dated = (args.has("long") or args.has("iterate")) and not args.has("noheader")
    head = time.strftime("%a %b %d %H:%M:%S %Y\n") if dated else ""
    if args.has("reservation"):
        return _show_reservations(head, client, heading=not args.has("noheader"))
    nodes = [node for node in client.ask("nodes")["nodes"] if _is_wanted(node, args)]
    partitions = partitions_of(nodes)
    chosen = args.parts("partition")
    if args.has("json"):
        from headnode.apps.cli.batch_programs.data_parser import document, node

        some = {each["name"] for name in chosen or partitions for each in partitions.get(name, ())}
        texts = [node(each, state_of(each), reason_of(each)) for each in nodes if each["name"] in some]
        sys.stdout.write(document("controller", "nodes", texts))
        return 0
    rows: list[NodeRow] = []
    columns = _columns(args, _widest(nodes, args.has("Node")), _widest_partition(partitions))
    for partition, members in partitions.items():
        if chosen and partition not in chosen:
            continue
        rows += _divided(partition, members, columns, alone=args.has("Node"))
        if not members and not args.has("Node"):
            rows.append(NodeRow(partition, []))
    if args.has("list-reasons"):
        rows = [row for row in rows if row.nodes and row.nodes[0]["drains"]]
    if args.has("Node"):
        rows.sort(key=lambda row: row.nodes[0]["name"])
    sys.stdout.write(head + lines(columns, rows, heading=not args.has("noheader")))
    return 0


def _show_reservations(head: str, client: Client, *, heading: bool) -> int:
    from headnode.apps.cli.batch_programs.reservations import reservation_table

    reservations = client.ask("reservations")["reservations"]
    sys.stdout.write(head + reservation_table(reservations, heading=heading))
    return 0


def partitions_of(nodes: "Sequence[Node]") -> "dict[str, list[Node]]":
    """Return the nodes of each partition: ``all``, and the node groups."""
    found: dict[str, list[Node]] = {ALL_NODES: list(nodes)}
    for node in nodes:
        for group in node["groups"]:
            if group != ALL_NODES:
                found.setdefault(group, []).append(node)
    return {name: found[name] for name in [ALL_NODES, *sorted(found.keys() - {ALL_NODES})]}


def _is_wanted(node: "Node", args: ProgramWords) -> bool:
    if args.has("nodes") and node["name"] not in {
        name for value in args.options["nodes"] for name in unfolded(value)
    }:
        return False
    if args.has("dead") and state_of(node) != "down":
        return False
    if args.has("responding") and state_of(node) == "down":
        return False
    wanted = {_state_asked(word) for word in args.parts("states")} - {"all"}
    return not wanted or bool(wanted & _meanings(state_of(node)))


def _meanings(state: str) -> "set[str]":
    return {state, "drain"} if state in ("draining", "drained") else {state}


def _state_asked(word: str) -> str:
    lower = word.lower()
    known = {*_SHORT_STATES, "drain", "all"}
    state = "drain" if lower == "drain" else _STATES_ASKED.get(lower, lower)
    for other in ("comp", "completing", "fail", "maint", "planned", "power_down", "unk", "unknown", "err"):
        if state == other:
            return state
    if state not in known:
        raise ProgramRefusal(f"Bad state string: {word}", prefix="")
    return state


def _columns(args: ProgramWords, name_width: int, partition_width: int) -> "list[Column[Any]]":
    def show(field: str) -> "Callable[[Any], str]":
        return _VALUES[field]

    if (long_names := args.text("Format")) is not None:
        return named("sinfo", long_names, FORMATS, show)
    kind = "reasons" if args.has("list-reasons") else "nodes" if args.has("Node") else ""
    kind = "summarize" if args.has("summarize") else kind
    if args.has("long") and kind != "summarize":
        kind = f"{kind} long".strip()
    usual = _FORMS.get(kind, _USUAL)
    usual = usual.replace("%#N", f"%{name_width}N").replace(
        "%#P", f"%{'.' if kind.startswith('nodes') else ''}{partition_width}P"
    )
    text = args.text("format") or os.environ.get("SINFO_FORMAT") or usual
    return letters("sinfo", text, FORMATS, show)


def _widest(nodes: "Sequence[Node]", alone: bool) -> int:
    return max([len("NODELIST"), *(len(node["name"]) for node in nodes)]) if alone else len("NODELIST")


def _widest_partition(partitions: "Mapping[str, object]") -> int:
    return max(len("PARTITION"), *(len(name) + 1 for name in partitions))


def _divided(
    partition: str, nodes: "Sequence[Node]", columns: "Sequence[Column[Any]]", *, alone: bool
) -> "list[NodeRow]":
    """Return the nodes of a partition as lines: together where they show the same."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        row = NodeRow(partition, [node])
        key = tuple(
            column.show(row)
            for column in columns
            if column.field and (alone or column.field not in _TOGETHER)
        )
        groups.setdefault((*key, node["name"]) if alone else key, []).append(node)
    return [NodeRow(partition, members) for members in groups.values()]


def node_lines(node: "Node") -> "list[str]":
    """Return what ``scontrol show node`` prints of a node."""
    features = ",".join(node["features"]) or "(null)"
    state = state_of(node)
    words = {"draining": "DRAIN", "drained": "IDLE+DRAIN"}.get(state, state.upper())
    words = ("MIXED+" if state == "draining" else "") + words
    reason = (
        [f"Reason={reason_of(node)} [{node['drains'][0]['by'] or 'root'}@{date(node['drains'][0]['since'])}]"]
        if node["drains"]
        else []
    )
    return [
        f"NodeName={node['name']} Arch={node['architecture']} "
        f"CoresPerSocket={_known(node['cores_per_socket'])}",
        f"CPUAlloc={node['used']} CPUEfctv={node['processors']} CPUTot={node['processors']} CPULoad=N/A",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={features}",
        f"Gres={_gpus(node, 'gpus') or '(null)'}",
        f"NodeAddr={node['address'] or node['name']} NodeHostName={node['name']} Version={node['version']}",
        f"OS={node['system']}",
        f"RealMemory={node['memory']} AllocMem=0 FreeMem=N/A Sockets={node['sockets']} Boards=1",
        f"State={words} ThreadsPerCore={_known(node['threads_per_core'])} TmpDisk={node['disk']} "
        "Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={','.join([ALL_NODES, *node['groups']])}",
        f"CfgTRES=cpu={node['processors']},mem={node['memory']}M,billing={node['processors']}"
        + (f",gres/gpu={node['gpus']}" if node["gpus"] else ""),
        f"AllocTRES={'cpu=' + str(node['used']) if node['used'] else ''}"
        + (f",gres/gpu={node['gpus_held']}" if node["used"] and node["gpus_held"] else ""),
        *reason,
    ]


def partition_lines(name: str, nodes: "Sequence[Node]") -> "list[str]":
    """Return what ``scontrol show partition`` prints of a partition."""
    processors, memory = sum(node["processors"] for node in nodes), sum(node["memory"] for node in nodes)
    return [
        f"PartitionName={name}",
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if name == ALL_NODES else 'NO'} QoS=N/A",
        "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        "MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"Nodes={folded_nodes(node['name'] for node in nodes)}",
        "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
        "OverTimeLimit=NONE PreemptMode=OFF",
        f"State=UP TotalCPUs={processors} TotalNodes={len(nodes)} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
        f"TRES=cpu={processors},mem={memory}M,node={len(nodes)},billing={processors}",
    ]
