"""What LSF lists of the cluster: its hosts, queues, users and default queue, and its name.

``bhosts``, ``lshosts``, ``lsload``, ``bqueues``, ``busers``, ``bparams``, ``lsclusters`` and ``lsid``.
Source:  IBM Spectrum LSF 10.1, the manual pages of these programs.
"""

import sys
import time

from headnode.apps.cli.batch_programs.lsf_rows import NOT_DONE, USUAL_QUEUE, read_line
from headnode.apps.cli.batch_programs.rows import LIVING, JobSource
from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, ignored
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_OF_LISTS = acted_on("noheader!") | ignored("w!", "names are not cut")
OPTIONS = {
    "bhosts": _OF_LISTS,
    "bparams": {},
    "bqueues": _OF_LISTS,
    "busers": _OF_LISTS,
    "lsclusters": ignored("w!", "names are not cut"),
    "lshosts": _OF_LISTS,
    "lsid": acted_on("V!"),
    "lsload": _OF_LISTS,
}
_HOST = "{:<18} {:<14} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}\n"
_QUEUE = "{:<15} {:>4} {:<15} {:>4} {:>4} {:>4} {:>4} {:>5} {:>5} {:>5} {:>5}\n"
_USER = "{:<19} {:>4} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}\n"
_MACHINE = "{:<12} {:>7} {:>8} {:>5} {:>5} {:>6} {:>6} {:>6} {}\n"
_LOAD = "{:<15} {:>6} {:>5} {:>5} {:>5} {:>4} {:>5} {:>3} {:>5} {:>5} {:>5} {:>5}\n"
_CLUSTER = "{:<14} {:<8} {:<24} {:>8} {:>8} {:>8}\n"
_AWAY = ("Unreachable", "Pending")
_UNKNOWN_LOAD = ("-",) * 10


def run(program: str, argv: "Sequence[str]", client: Client, _system: str = "") -> int:
    """List hosts or queues, or name the cluster."""
    line = read_line(program, argv, OPTIONS[program])
    if program in _WHOLE:
        sys.stdout.write(_WHOLE[program](client))
        return 0
    kind, titles, read_lines = _LISTS[program]
    known = read_lines(client)
    names = line.words or ([own_user()] if program == "busers" else ["all"])
    if "all" in names:
        names = list(known)
    if program == "busers":
        known = {name: _user(name, {}) for name in filter(_has_account, names)} | dict(known)
    if absent := [name for name in names if name not in known]:
        raise ProgramRefusal(f"{absent[0][:60]}: No such {kind}", status=NOT_DONE, prefix="bare")
    if not line.has("noheader"):
        sys.stdout.write(titles)
    sys.stdout.write("".join(known[name] for name in names))
    return 0


def _has_account(name: str) -> bool:
    """Return whether this machine knows a user, who may have no jobs."""
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


_HOST_TITLES = _HOST.format(*("HOST_NAME", "STATUS", "JL/U", "MAX", "NJOBS", "RUN", "SSUSP", "USUSP", "RSV"))
_QUEUE_TITLES = _QUEUE.format(
    *("QUEUE_NAME", "PRIO", "STATUS", "MAX", "JL/U", "JL/P", "JL/H", "NJOBS", "PEND", "RUN", "SUSP")
)
_USER_TITLES = _USER.format(*("USER/GROUP", "JL/P", "MAX", "NJOBS", "PEND", "RUN", "SSUSP", "USUSP", "RSV"))
_MACHINE_TITLES = _MACHINE.format(
    *("HOST_NAME", "type", "model", "cpuf", "ncpus", "maxmem", "maxswp", "server", "RESOURCES")
)
_LOAD_TITLES = _LOAD.format(
    *("HOST_NAME", "status", "r15s", "r1m", "r15m", "ut", "pg", "ls", "it", "tmp", "swp", "mem")
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


def _machines(client: Client) -> "Mapping[str, str]":
    """Return the line of each host with what it has; LSF's factor of its speed is 1."""
    return {node["name"]: _machine(node) for node in client.ask("nodes")["nodes"]}


def _machine(node: "Mapping[str, Any]") -> str:
    sizes = [_size(node[kind]) for kind in ("memory", "swap")]
    features = " ".join(node["features"])
    return _MACHINE.format(
        node["name"], node["architecture"].upper() or "-", "-", "1.0", node["processors"], *sizes, "Yes",
        f"({features})",
    )  # fmt: skip


def _size(megabytes: float | None) -> str:
    """Write an amount of memory as LSF does.

    >>> _size(512), _size(24105), _size(0)
    ('512M', '23.5G', '-')
    """
    if not megabytes:
        return "-"
    return f"{megabytes:.0f}M" if megabytes < 10240 else f"{megabytes / 1024:.1f}G"


def _loads(client: Client) -> "Mapping[str, str]":
    """Return the line of each host with its status; how busy its processors are is not known here."""
    nodes = client.ask("nodes")["nodes"]
    return {
        node["name"]: _LOAD.format(
            node["name"], "unavail" if node["state"] in _AWAY else "ok", *_UNKNOWN_LOAD
        )
        for node in nodes
    }


def _users(client: Client) -> "Mapping[str, str]":
    """Return the line of each user with jobs; its counts are processors, as LSF counts slots."""
    counts: dict[str, dict[str, int]] = {}
    for job in JobSource(client).pages(LIVING, owner=None):
        own = counts.setdefault(str(job["owner"]), {})
        own[job["state"]] = own.get(job["state"], 0) + int(job["allocated"] or job["minimum"])
    return {name: _user(name, own) for name, own in sorted(counts.items())}


def _user(name: str, counts: "Mapping[str, int]") -> str:
    pending, running, stopped = (counts.get(state, 0) for state in LIVING)
    total = pending + running + stopped
    return _USER.format(name, "-", "-", total, pending, running, 0, stopped, 0)


def _clusters(client: Client) -> str:
    cluster = client.ask("cluster")["cluster"]
    hosts = sum(cluster["nodes"].values())
    name, master = cluster["name"], cluster.get("host") or cluster["name"]
    titles = _CLUSTER.format("CLUSTER_NAME", "STATUS", "MASTER_HOST", "ADMIN", "HOSTS", "SERVERS")
    return titles + _CLUSTER.format(name, "ok", master, "root", hosts, hosts)


def _parameters(_client: Client) -> str:
    return f"Default Queues:  {USUAL_QUEUE}\nJob Accept Interval:  0 seconds\n"


_WHOLE = {"bparams": _parameters, "lsclusters": _clusters, "lsid": _identity}
_LISTS: "Mapping[str, tuple[str, str, Callable[[Client], Mapping[str, str]]]]" = {
    "bhosts": ("host", _HOST_TITLES, _hosts),
    "bqueues": ("queue", _QUEUE_TITLES, _queues),
    "busers": ("user", _USER_TITLES, _users),
    "lshosts": ("host", _MACHINE_TITLES, _machines),
    "lsload": ("host", _LOAD_TITLES, _loads),
}
"""What a program lists: the kind, the titles, and what reads the line of each name."""
