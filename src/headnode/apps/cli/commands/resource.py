"""``hn resource``: add, list, view, check and remove other schedulers to which jobs are handed over."""

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, the_name, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import local_times
from headnode.core.model.resource_system import SETTINGS_VARIABLES, SYSTEM_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

COLUMNS = ("Name", "System", "Where", "Queue", "Jobs", "Waiting", "State")
_TEXTS = ("host", "programs", "settings", "directory", "queue", "parallel")
_TIMES = {"poll": "poll", "settle": "settle", "lostafter": "lost_after"}
CHECK = "check of a resource"


def add(args: Arguments, client: Client, out: Output) -> int:
    """Add a resource, or change one."""
    if len(args.words) not in (1, 2):
        raise usage("a resource needs a name and a system", "for example: hn resource add physics slurm")
    fields: dict[str, Any] = {name: text for name in _TEXTS if (text := args.text(name)) is not None}
    if len(args.words) == 2:
        fields["system"] = args.words[1]
    if args.number("jobs") is not None:
        fields["most_jobs"] = args.number("jobs")
    for option, field in _TIMES.items():
        if args.number(option) is not None:
            fields[field] = float(args.number(option) or 0)
    answer = client.ask("set_resource", name=args.words[0], **fields)
    name = answer["resource"]["name"]
    out.outcome(f"Resource {name} has been set. Try it: hn resource check {name}", answer, name)
    return 0


def listing(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """List every resource."""
    resources = client.ask("resources")["resources"]
    out.show_table(RecordTable("Name", list(map(_row, resources)), resources, columns=COLUMNS, prose=True))
    return 0


def _row(one: "Mapping[str, Any]") -> "dict[str, Any]":
    return {
        "Name": one["name"],
        "System": one["system"],
        "Where": one["host"] or "here",
        "Queue": one["queue"],
        "Jobs": f"{one['jobs']} of {one['most_jobs']}",
        "Waiting": str(one["waiting"]),
        "State": _state(one),
    }


def _state(one: "Mapping[str, Any]") -> str:
    if one["polled"] is None:
        return "not asked yet"
    return f"does not answer: {one['problem']}" if one["problem"] else "answers"


def view(args: Arguments, client: Client, out: Output) -> int:
    """Show one resource."""
    resource = client.ask("resource", name=the_name(args, "resource", "see: hn resource list"))["resource"]
    rows = [
        {"Property": key.replace("_", " "), "Value": "" if value is None else str(value)}
        for key, value in resource.items()
    ]
    out.show_table(RecordTable("Property", rows, resource, columns=("Property", "Value")))
    return 0


def check(args: Arguments, client: Client, out: Output) -> int:
    """Run a small test job at a resource, and report each step."""
    name = client.ask("resource", name=the_name(args, "resource", "see: hn resource list"))["resource"][
        "name"
    ]
    terms = {"resource": name, "jobname": CHECK, "runtime": "5"}
    task = {"command": "hostname", "workdir": "/"}
    job = int(client.ask("submit_job", terms=terms, tasks=[task])["job"])
    out.note(f"job {job} has been submitted")
    last: str = ""
    found: dict[str, Any] = {}
    for answer in client.follow("watch_jobs", job=[job]):
        for found in answer["jobs"]:
            says = local_times(found["pending_reason"] or "") or f"job {job} is {found['state'].lower()}"
            if says != last:
                last = says
                out.note(says)
    well = bool(found) and found["state"] == "Finished"
    if not well:
        for task_of in client.ask("tasks", job=job)["tasks"]:
            out.note(task_of["message"] or task_of["state"])
    out.outcome(f"Resource {name} {'works' if well else 'does not work'}.", found, name)
    return 0 if well else 1


def remove(args: Arguments, client: Client, out: Output) -> int:
    """Remove resources."""
    if not args.words:
        raise usage("no resource was given", "give the names of one or more resources")

    def deed(name: str) -> None:
        out.outcome(f"Resource {name} has been removed.", client.ask("remove_resource", name=name), name)

    return for_each(args.words, deed, out)


_OPTIONS = (
    CliOption("host", "[USER@]HOST", "Run its commands there by ssh (default: on the head's machine)"),
    CliOption("programs", "DIR", "Directory of its commands (default: as PATH finds them)"),
    CliOption("settings", "PATH", f"Its {SETTINGS_VARIABLES} (default: that of the site)"),
    CliOption("directory", "DIR", "Shared directory for files of attempts (default: in each user's home)"),
    CliOption("queue", "NAME", "Partition or queue (default: that of the site)"),
    CliOption("parallel", "NAME", "Parallel environment of Grid Engine, for tasks with several cores"),
    CliOption("jobs", "N", "Most jobs of Headnode there at a time (default: 100)"),
    CliOption("poll", "SECONDS", "Shortest time between two polls (default: 30)"),
    CliOption("settle", "SECONDS", "Time before a submission without an answer is repeated (default: 90)"),
    CliOption(
        "lostafter",
        "SECONDS",
        "Time after which a job that is no longer listed counts as lost (default: 600)",
    ),
)
COMMANDS = (
    CliCommand(
        "add",
        "NAME [SYSTEM]",
        f"Add a resource of {SYSTEM_NAMES}, or change one; administrators only",
        add,
        options=_OPTIONS,
        example="hn resource add physics slurm --queue batch",
        notes=("Submit jobs to it with hn job submit /resource:NAME.",),
    ),
    CliCommand(
        "list",
        "",
        "List the resources",
        listing,
        options=(FORMAT,),
        example="hn resource list",
        instead="one resource: hn resource view NAME",
    ),
    CliCommand(
        "view",
        "NAME",
        "Show one resource, and how its last poll went",
        view,
        options=(FORMAT,),
        example="hn resource view physics",
    ),
    CliCommand(
        "check",
        "NAME",
        "Run a small test job at a resource, and report each step",
        check,
        example="hn resource check physics",
    ),
    CliCommand(
        "remove",
        "NAME...",
        "Remove resources that have no jobs of Headnode; administrators only",
        remove,
        example="hn resource remove physics",
    ),
)
