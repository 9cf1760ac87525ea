"""``pbsnodes``: the nodes as PBS lists them; ``-o`` takes some offline, ``-r`` brings them back.

Source:  PBS Professional 22, pbsnodes(8), "Output".
"""

import sys
import time

from headnode.apps.cli.batch_programs.pbs_rows import VERSION, id_of, refuse_form
from headnode.apps.cli.batch_programs.qsub import server
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.sinfo import reason_of
from headnode.apps.cli.batch_programs.squeue import unfolded
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    read_pbs_words,
)
from headnode.apps.client.client import Client
from headnode.apps.client.connection import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Node = Mapping[str, Any]

OPTIONS = {
    **acted_on("a! l! S! j! F o! r! C"),
    **ignored("v! L! s", "the nodes are those of this cluster"),
}
_STATES = {
    "Ready": "free",
    "Paused": "offline",
    "Draining": "offline",
    "Drained": "offline",
    "Pending": "down",
}
_JOB_TITLES = (
    "                                                        mem       ncpus   nmics   ngpus\n"
    "vnode           state           njobs   run   susp      f/t        f/t     f/t     f/t   jobs\n"
    "--------------- --------------- ------ ----- ------ ------------ ------- ------- ------- -------\n"
)
_TITLES = (
    "vnode           state           OS       hardware host            queue        mem     ncpus   nmics   "
    "ngpus  comment\n"
    "--------------- --------------- -------- -------- --------------- ---------- -------- ------- ------- "
    "------- ---------\n"
)


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show or change nodes."""
    args = read_pbs_words("pbsnodes", argv, OPTIONS)
    refuse_form(args, "json")
    if args.has_any("or"):
        return _change(args, client)
    nodes = client.ask("nodes")["nodes"]
    status = 0
    if names := args.words:
        known = {node["name"]: node for node in nodes}
        for name in names:
            if name not in known:
                sys.stderr.write(f"Node: {name},  Error: Unknown node \n")
                status = 1
        nodes = [known[name] for name in names if name in known]
    elif not args.has_any("alSj"):
        raise ProgramRefusal("name nodes, or write -a for all", status=2, prefix="")
    if args.has("l"):
        sys.stdout.write("".join(_away(node) for node in nodes if state_of(node) not in ("free", "job-busy")))
        return status
    rows = _running(client)
    of_nodes = [
        (node, [row for row in rows if node["name"] in unfolded(FIELDS["nodes"](row) or "")])
        for node in nodes
    ]
    name = server(client)
    if args.text("F") == "json":
        sys.stdout.write(_json(of_nodes, name))
    elif args.has_any("Sj"):
        line, titles = (_job_line, _JOB_TITLES) if args.has("j") else (_summary, _TITLES)
        sys.stdout.write(titles + "".join(line(node, own, name) for node, own in of_nodes))
    else:
        sys.stdout.write("".join(_full(node, own, name) for node, own in of_nodes))
    return status


def _change(args: ProgramWords, client: Client) -> int:
    from headnode.core.model.errors import Refused

    status = 0
    for name in args.words:
        try:
            if args.has("o"):
                client.ask("drain_node", node=name, reason=args.text("C") or "offline by pbsnodes")
            else:
                client.ask("resume_node", node=name)
        except Refused as refusal:
            message = "Unknown node " if refusal.code == "no-such-node" else refusal.what
            sys.stderr.write(f"Node: {name},  Error: {message}\n")
            status = 1
    return status


def _running(client: Client) -> "list[BatchRow]":
    source = JobSource(client)
    jobs = sorted(source.pages(("Running", "Suspended"), owner=None), key=lambda job: int(job["id"]))
    return [row for job in jobs for row in rows_of(source, job, expand=False) if row.state != "PENDING"]


def state_of(node: "Node") -> str:
    """Return the state of a node in PBS's words."""
    if node["state"] == "Unreachable":
        return "state-unknown,down"
    state = _STATES.get(node["state"], "free")
    busy = node["exclusive"] is not None or node["free"] == 0
    return "job-busy" if state == "free" and busy and node["used"] else state


def _comment(node: "Node") -> str:
    return reason_of(node) if node["drains"] else str(node["comment"])


def _away(node: "Node") -> str:
    return f"{node['name']:<20} {state_of(node)} {_comment(node)}".rstrip() + "\n"


def attributes(node: "Node", rows: "Sequence[BatchRow]", name: str) -> "dict[str, Any]":
    """Return the attributes of a node."""
    found: dict[str, Any] = {
        "Mom": node["address"].partition(":")[0] or node["name"],
        "ntype": "PBS",
        "state": state_of(node),
        "pcpus": node["processors"],
        "total_sockets": node["sockets"],
        "total_cores": node["sockets"] * node["cores_per_socket"] or None,  # as Torque; not known: left out
        "total_threads": node["sockets"] * node["cores_per_socket"] * node["threads_per_core"] or None,
        "jobs": ", ".join(f"{id_of(row, name)}/{number}" for number, row in enumerate(rows)) or None,
        "resources_available.arch": node["system"].lower(),
        "resources_available.host": node["name"],
        "resources_available.mem": f"{node['memory'] * 1024}kb",
        "resources_available.ncpus": node["processors"],
        "resources_available.ngpus": node["gpus"] or None,
        "resources_available.vnode": node["name"],
        "resources_assigned.ncpus": node["used"],
        "resources_assigned.ngpus": node["gpus_held"] if node["gpus"] else None,
        "comment": _comment(node) or None,
        "resv_enable": "True",
        "sharing": "default_shared",
        "last_state_change_time": time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(node["since"])),
    }
    return {key: value for key, value in found.items() if value is not None}


def _full(node: "Node", rows: "Sequence[BatchRow]", name: str) -> str:
    lines = "".join(f"     {key} = {value}\n" for key, value in attributes(node, rows, name).items())
    return f"{node['name']}\n{lines}\n"


def _gigabytes(megabytes: int) -> str:
    return f"{megabytes // 1024}gb" if megabytes >= 1024 else f"{megabytes}mb"


def _job_line(node: "Node", rows: "Sequence[BatchRow]", _name: str) -> str:
    gpus = f"{node['gpus'] - node['gpus_held']}/{node['gpus']}"
    suspended = sum(row.state == "SUSPENDED" for row in rows)
    memory = _gigabytes(node["memory"])
    return (
        f"{node['name'][:15]:<15} {state_of(node)[:15]:<15} {len(rows):>6} {len(rows) - suspended:>5} "
        f"{suspended:>6} {f'{memory}/{memory}':>12} {'{}/{}'.format(node['free'], node['processors']):>7} "
        f"{'0/0':>7} {gpus:>7} {','.join(str(row.id) for row in rows) or '--'}\n"
    )


def _summary(node: "Node", _rows: "Sequence[BatchRow]", _name: str) -> str:
    return (
        f"{node['name'][:15]:<15} {state_of(node)[:15]:<15} {'--':<8} {'--':<8} {node['name'][:15]:<15} "
        f"{'--':<10} {_gigabytes(node['memory']):>8} {node['processors']:>7} {0:>7} {node['gpus']:>7} "
        f"{_comment(node) or '--'}\n"
    )


def _json(of_nodes: "Sequence[tuple[Node, list[BatchRow]]]", name: str) -> str:
    nodes: dict[str, Any] = {}
    for node, rows in of_nodes:
        inner: dict[str, Any] = {}
        for key, value in attributes(node, rows, name).items():
            group, dot, resource = key.partition(".")
            if dot:
                inner.setdefault(group, {})[resource] = value
            else:
                inner[key] = value.split(", ") if key == "jobs" else value
        nodes[node["name"]] = inner
    document = {"timestamp": int(time.time()), "pbs_version": VERSION, "pbs_server": name, "nodes": nodes}
    return write_json(document) + "\n"
