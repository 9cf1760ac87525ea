"""The site over which a head runs: how that begins, its queue and its nodes."""

import os
import shutil
import time

from headnode.apps.cli.options import Arguments, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.table import RecordTable, printable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted, duration, instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    HeadAnswer = Mapping[str, Any]

SYSTEMS = {
    "slurm": ("Slurm", "SLURM_CONF", ("sbatch", "squeue", "sinfo", "scontrol")),
    "gridengine": ("Grid Engine", "SGE_ROOT", ("qsub", "qstat", "qhost", "qconf")),
}
"""The systems over which a head may run: name, variable of the configuration, and programs."""
TIMEOUT = 20.0  # seconds for the first answer of the site
PAUSE = 0.2
USUAL_PLACES = ("/usr/local/bin", "/usr/bin", "/bin")


def check_site(over: str) -> None:
    """Refuse a site over which no head can run here.

    Raises:  BadRequest ``usage``; NotFound ``no-slurm``, ``no-gridengine``.
    """
    if over not in SYSTEMS:
        raise usage(f"a head cannot run over {over!r}", f"choose from: {', '.join(SYSTEMS)}")
    missing = [name for name in SYSTEMS[over][2] if shutil.which(name) is None]
    if missing:
        from headnode.core.model.errors import NotFound

        raise NotFound(
            code=f"no-{over}",
            what=f"{missing[0]} is not in PATH",
            fix=f"do this on a login node of the site; it may need: module load {over}",
        )


def set_overlay(client: Client, over: str) -> str:
    """Make the scheduler of this machine the place where jobs go; return what is found there.

    Raises:  what the head refuses.
    """
    _, variable, programs = SYSTEMS[over]
    fields: dict[str, Any] = {"name": over, "system": over, "overlay": True}
    program = os.path.realpath(shutil.which(programs[0]) or "")
    place = os.path.dirname(program)  # noqa: PTH120 (pathlib costs 6 ms)
    if place not in USUAL_PLACES:
        fields["programs"] = place
    if os.environ.get(variable):
        fields["settings"] = os.environ[variable]
    client.ask("set_resource", **fields)
    return _in_words(_first_answer(client), over)


def _first_answer(client: Client) -> "HeadAnswer":
    from headnode.core.model.errors import Unavailable

    until = time.monotonic() + TIMEOUT
    while True:
        try:
            site: HeadAnswer = client.ask("site_nodes")["site"]
        except Unavailable as error:
            if time.monotonic() > until:
                return {"problem": error.what}
        else:
            return site
        time.sleep(PAUSE)


def _in_words(site: "HeadAnswer", over: str) -> str:
    title = SYSTEMS[over][0]
    if site["problem"]:
        problem = printable(site["problem"])
        return f"The {title} of this site does not answer: {problem}. Jobs wait until it does."
    default = next((each for each in site["partitions"] if each["default"]), None)
    where = "; it has no default partition: name one with hn resource add slurm --queue NAME"
    if over == "gridengine":
        where = "; tasks with several processors need hn resource add gridengine --parallel NAME"
    if default is not None:
        limit = "no time limit" if default["run_time"] is None else f"at most {duration(default['run_time'])}"
        where = f"; jobs go to its partition {printable(default['name'])} ({limit})"
    queue = f"{counted(site['running'], 'job')} running, {site['waiting']} waiting"
    name = " of ".join(filter(None, (f"{title} {printable(site['version'])}", printable(site["cluster"]))))
    return (
        f"It runs over {name}: {queue}{where}.\n"
        "\n"
        "  its queue    hn job list --site\n"
        "  its nodes    hn node list --site\n"
        "  why a job waits, and until when    hn job explain ID"
    )


def show_nodes(client: Client, out: Output) -> int:
    """List the nodes of the site."""
    answer = client.ask("site_nodes")
    rows = [
        {
            "Node Name": node["name"],
            "State": node["state"],
            "Max": str(node["processors"]),
            "Run": str(node["used"]),
            "Idle": str(0 if node["closed"] else max(0, node["processors"] - node["used"])),
            "Partitions": ",".join(node["partitions"]),
        }
        for node in answer["nodes"]
    ]
    columns = ("Node Name", "State", "Max", "Run", "Idle", "Partitions")
    trailer = _trailer(answer["site"], counted(len(rows), "node"))
    out.show_table(RecordTable("Node Name", rows, answer["nodes"], columns=columns, trailer=trailer))
    return 0


def show_jobs(args: Arguments, client: Client, out: Output, limit: int) -> int:
    """List the queue of the site, or its newest ended jobs."""
    state = (args.text("state") or "").lower()
    if state not in ("", "ended"):
        raise usage(f"jobs of the site are not chosen by {state!r}", "write --state ended, or leave it out")
    user = args.text("user")
    answer = client.ask(
        "site_jobs", ended=state == "ended", limit=limit, user=None if user in (None, "*") else user
    )
    now = time.time()
    rows = [_row(job, now) for job in answer["jobs"]]
    columns = ("Id", "Job", "User", "Name", "State", "Cores", "Partition", "Priority", "Start")
    counts = f"{len(rows)} of {counted(answer['total'], 'job')}"
    trailer = _trailer(answer["site"], counts)
    most = {"Name": 24, "Partition": 16, "User": 12}
    out.show_table(
        RecordTable("Id", rows, answer["jobs"], columns=columns, trailer=trailer, most=most, prose=True)
    )
    return 0


def _row(job: "HeadAnswer", now: float) -> "dict[str, str]":
    return {
        "Id": job["id"],
        "Job": "" if job["job"] is None else str(job["job"]),
        "User": job["user"],
        "Name": job["name"],
        "State": job["word"].lower(),
        "Cores": str(job["processors"]),
        "Partition": ",".join(job["partitions"]),
        "Priority": str(job["priority"]),
        "Start": _start(job, now),
    }


def _start(job: "HeadAnswer", now: float) -> str:
    if job["state"] == "ended":
        ran = job["ended"] - job["started"] if job["started"] and job["ended"] else None
        return "" if ran is None else f"{instant(job['started'])}, ran {duration(max(0.0, ran))}"
    if job["state"] != "waiting":
        return instant(job["started"]) if job["started"] else ""
    expected = f"in {duration(max(0.0, job['p50'] - now))}" if job["p50"] else ""
    reason = job["reason"] or "not considered yet"
    return f"{expected}, {reason}" if expected else reason


def _trailer(site: "HeadAnswer", counts: str) -> str:
    sentence = f"{counts}; asked {instant(site['polled'])}"
    sentence += f"; it does not answer now: {site['problem']}" if site["problem"] else ""
    return sentence + (f"; {site['left_out']} more jobs are left out" if site["left_out"] else "")
