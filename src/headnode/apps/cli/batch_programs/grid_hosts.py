"""Hosts and queue instances as Grid Engine lists them: ``qhost``, ``qstat -f``, ``qstat -g c``.

All nodes are in one queue, ``all.q``; their load and the memory in use are not known.
Source:  Grid Engine 8.1, qhost(1), qstat(1), and what Grid Engine 8.1.9 prints.
"""

import sys
import time

from headnode.apps.cli.batch_programs.gridengine_rows import (
    QUEUE,
    is_wanted,
    job_info,
    listed,
    priority,
    read_line,
    since_of,
    state_of,
    tasks_of,
)
from headnode.apps.cli.batch_programs.rows import LIVING, BatchRow, JobSource, rows_of
from headnode.apps.cli.batch_programs.squeue import own_user, unfolded
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import ProgramWords, acted_on, ignored
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Node = Mapping[str, Any]

OPTIONS = acted_on("h j! q! u") | ignored("ncb!", "sockets and cores are always shown")
_ARCHITECTURES = {"x86_64": "lx-amd64", "aarch64": "lx-arm64"}
_UNKNOWN = "-NA-"
_HOST_LINE = "{:<23} {:<10} {:>6} {:>4} {:>4} {:>4} {:>5} {:>7} {:>7} {:>7} {:>7}\n"
_HOST_TITLES = (
    "HOSTNAME",
    "ARCH",
    "NCPU",
    "NSOC",
    "NCOR",
    "NTHR",
    "LOAD",
    "MEMTOT",
    "MEMUSE",
    "SWAPTO",
    "SWAPUS",
)
_INSTANCES = "queuename                      qtype resv/used/tot. load_avg arch          states\n"
_HASHES = "#" * 76
_PENDING = (
    f"\n{_HASHES}\n - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS\n{_HASHES}\n"
)
_CLUSTER_QUEUES = (
    "CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE  \n" + "-" * 80 + "\n"
)


def _flags(node: "Node") -> str:
    """Return the states of a queue instance: ``d`` is disabled, ``au`` is not heard of."""
    if node["state"] in ("Unreachable", "Pending"):
        return "au"
    return "d" if node["state"] != "Ready" else ""


def _architecture(node: "Node") -> str:
    return _ARCHITECTURES.get(node["architecture"], f"lx-{node['architecture']}")


def _slots(node: "Node") -> str:
    return f"0/{node['used']}/{node['processors']}"


def _memory(megabytes: int) -> str:
    return f"{megabytes / 1024:.1f}G" if megabytes >= 1024 else f"{megabytes:.1f}M" if megabytes else "0.0"


def _of_node(rows: "Sequence[BatchRow]", node: "Node") -> "list[BatchRow]":
    return [
        row for row in rows if row.state != "PENDING" and node["name"] in unfolded(FIELDS["nodes"](row) or "")
    ]


# ---------------------------------------------------------------- qhost


def run(argv: "Sequence[str]", client: Client) -> int:
    """List the hosts, with their queues (``-q``) and jobs (``-j``)."""
    args = read_line("qhost", argv, OPTIONS)
    nodes = client.ask("nodes")["nodes"]
    if args.has("h"):
        nodes = [node for node in nodes if node["name"] in args.parts("h")]
    rows = _jobs(client, args.text("u") or "*") if args.has_any("ju") else []
    sys.stdout.write(_hosts(nodes, rows, args))
    return 0


def _jobs(client: Client, users: str) -> "list[BatchRow]":
    source, names = JobSource(client), users.split(",")
    owner = names[0] if len(names) == 1 and names[0] != "*" else None
    jobs = sorted(source.pages(LIVING, owner=owner), key=lambda job: int(job["id"]))
    rows = [row for job in jobs for row in rows_of(source, job, expand=False)]
    return [row for row in rows if "*" in names or row.job["owner"] in names]


def _hosts(nodes: "Sequence[Node]", rows: "Sequence[BatchRow]", args: ProgramWords) -> str:
    none = ("-",) * 10
    text = _HOST_LINE.format(*_HOST_TITLES) + "-" * 94 + "\n" + _HOST_LINE.format("global", *none)
    for node in nodes:
        known = _flags(node) != "au"
        facts = (
            node["processors"], node["sockets"], *_cores_and_threads(node), "-",
            _memory(node["memory"]), "-", _memory(node["swap"]), "-",
        )  # fmt: skip
        values = facts if known else none[1:]
        text += _HOST_LINE.format(node["name"], _architecture(node) if known else "-", *values)
        if args.has("q"):
            text += f"   {QUEUE:<20} {'BIP':<5} {_slots(node):<14}{_flags(node)}\n"
        text += _jobs_of_host(_of_node(rows, node))
    return text


def _cores_and_threads(node: "Node") -> "tuple[int | str, int | str]":
    """Return how many of them the host has in all; a dash where its agent does not know it."""
    cores = int(node["sockets"]) * int(node["cores_per_socket"])
    return cores or "-", cores * int(node["threads_per_core"]) or "-"


def _jobs_of_host(rows: "Sequence[BatchRow]") -> str:
    if not rows:
        return ""
    title = "job-ID  prior   name       user         state submit/start at     queue      master ja-task-ID "
    text = f"   {title}\n   {'-' * (len(title) - 1)}\n"
    for row in rows:
        text += f"   {_job(row)} {QUEUE[:10]:<10} MASTER {tasks_of(row) or '       '}\n"
    return text


def _job(row: BatchRow) -> str:
    when = time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(since_of(row)))
    name, owner = (FIELDS["name"](row) or "")[:10], row.job["owner"][:12]
    return f"{row.id:>7} {priority(row)} {name:<10} {owner:<12} {state_of(row):<5} {when}"


# ---------------------------------------------------------------- qstat -f, qstat -g c


def show_instances(args: ProgramWords, client: Client) -> int:
    """List the queue instances with their jobs, and what waits: ``qstat -f``."""
    states = args.text("s") or "prs"
    rows = [row for row in _jobs(client, args.text("u") or own_user()) if is_wanted(row, states)]
    parts = []
    for node in client.ask("nodes")["nodes"]:
        own = _of_node(rows, node)
        if own or not args.has("ne"):
            parts.append((node, own))
    waiting = [row for row in rows if row.state == "PENDING"]
    sys.stdout.write(_xml(parts, waiting) if args.has("xml") else _text(parts, waiting))
    return 0


def _text(parts: "Sequence[tuple[Node, list[BatchRow]]]", waiting: "Sequence[BatchRow]") -> str:
    text = _INSTANCES
    for node, rows in parts:
        name = f"{QUEUE}@{node['name']}"
        text += "-" * 81 + "\n"
        text += f"{name[:30]:<30} {'BIP':<5} {_slots(node):<14} {_UNKNOWN:<8} "
        text += f"{_architecture(node):<13} {_flags(node)}\n"
        text += "".join(_line(row) for row in rows)
    return text + (_PENDING + "".join(_line(row) for row in waiting) if waiting else "")


def _line(row: BatchRow) -> str:
    return f"{_job(row)} {FIELDS['cpus'](row):>5} {tasks_of(row) or '       '}\n"


def _xml(parts: "Sequence[tuple[Node, list[BatchRow]]]", waiting: "Sequence[BatchRow]") -> str:
    instances = ""
    for node, rows in parts:
        instances += (
            f"    <Queue-List>\n      <name>{QUEUE}@{node['name']}</name>\n      <qtype>BIP</qtype>\n"
            f"      <slots_used>{node['used']}</slots_used>\n      <slots_resv>0</slots_resv>\n"
            f"      <slots_total>{node['processors']}</slots_total>\n"
            f"      <arch>{_architecture(node)}</arch>\n"
        )
        instances += f"      <state>{_flags(node)}</state>\n" if _flags(node) else ""
        instances += "".join(listed(row, queue=False) for row in rows) + "    </Queue-List>\n"
    return job_info(instances, "".join(listed(row) for row in waiting))


def show_cluster_queues(client: Client) -> int:
    """Count the slots of all nodes: ``qstat -g c``."""
    nodes = client.ask("nodes")["nodes"]
    away = sum(node["processors"] for node in nodes if _flags(node))
    counts = (
        sum(node["used"] for node in nodes),
        0,
        sum(node["free"] for node in nodes if not _flags(node)),
        sum(node["processors"] for node in nodes),
        0,
        away,
    )
    cells = " ".join(f"{count:>6}" for count in counts)
    sys.stdout.write(f"{_CLUSTER_QUEUES}{QUEUE:<30} {_UNKNOWN:>7} {cells} \n")
    return 0
