"""``bhosts``, ``bqueues`` and ``lsid`` of LSF: nodes, job templates as queues, and the name of the cluster.

Source:  IBM Spectrum LSF 10.1, bhosts(1), bqueues(1), lsid(1).
"""

import sys
import time

from headnode.apps.cli.batch_programs.lsf_rows import NOT_DONE, USUAL_QUEUE, read_line
from headnode.apps.cli.batch_programs.rows import JobSource
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_OF_LISTS = acted_on("noheader!") | ignored("w!", "names are not cut")
OPTIONS = {"bhosts": _OF_LISTS, "bqueues": _OF_LISTS, "lsid": acted_on("V!")}
_HOST = "{:<18} {:<14} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}\n"
_QUEUE = "{:<15} {:>4} {:<15} {:>4} {:>4} {:>4} {:>4} {:>5} {:>5} {:>5} {:>5}\n"
_AWAY = ("Unreachable", "Pending")


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """List hosts or queues, or name the cluster."""
    line = read_line(program, argv, OPTIONS[program])
    if program == "lsid":
        sys.stdout.write(_identity(client))
        return 0
    known = _hosts(client) if program == "bhosts" else _queues(client)
    names = [name for name in line.words if name != "all"]
    if absent := [name for name in names if name not in known]:
        kind = "host" if program == "bhosts" else "queue"
        raise ProgramRefusal(f"{absent[0][:60]}: No such {kind}", status=NOT_DONE, prefix="bare")
    if not line.has("noheader"):
        sys.stdout.write(_HOST_TITLES if program == "bhosts" else _QUEUE_TITLES)
    sys.stdout.write("".join(known[name] for name in names or known))
    return 0


_HOST_TITLES = _HOST.format(*("HOST_NAME", "STATUS", "JL/U", "MAX", "NJOBS", "RUN", "SSUSP", "USUSP", "RSV"))
_QUEUE_TITLES = _QUEUE.format(
    *("QUEUE_NAME", "PRIO", "STATUS", "MAX", "JL/U", "JL/P", "JL/H", "NJOBS", "PEND", "RUN", "SUSP")
)


def _identity(client: Client) -> str:
    cluster = client.ask("cluster")["cluster"]
    year = time.strftime("%Y")
    return (
        f"Headnode {cluster['version']}, with the commands of IBM Spectrum LSF 10.1, {year}\n\n"
        f"My cluster name is {cluster['name']}\nMy master name is {cluster.get('host') or cluster['name']}\n"
    )


def _hosts(client: Client) -> "Mapping[str, str]":
    return {node["name"]: _host(node) for node in client.ask("nodes")["nodes"]}


def _host(node: "Mapping[str, Any]") -> str:
    """Return the line of a host; its counts are processors, as LSF counts slots."""
    if node["state"] in _AWAY:
        status = "unavail"
    elif node["state"] != "Ready":
        status = "closed_Adm"
    else:
        status = "ok" if node["free"] else "closed_Full"
    used = node["used"]
    return _HOST.format(node["name"], status, "-", node["processors"], used, used, 0, 0, 0)


def _queues(client: Client) -> "Mapping[str, str]":
    """Return the line of each job template, with the processors of its jobs in each state."""
    counts: dict[str, dict[str, int]] = {}
    for job in JobSource(client).pages(("Queued", "Running", "Suspended"), owner=None):
        own = counts.setdefault(str(job["template"]) or USUAL_QUEUE, {})
        size = job["allocated"] or job["minimum"]
        own[job["state"]] = own.get(job["state"], 0) + int(size)
    names = [template["name"] for template in client.ask("templates")["templates"]] or [USUAL_QUEUE]
    return {name: _queue(name, counts.get(name, {})) for name in names}


def _queue(name: str, counts: "Mapping[str, int]") -> str:
    pending, running, stopped = (counts.get(state, 0) for state in ("Queued", "Running", "Suspended"))
    total = pending + running + stopped
    return _QUEUE.format(name, "-", "Open:Active", "-", "-", "-", "-", total, pending, running, stopped)
