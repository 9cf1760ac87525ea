"""``hn filter``: which filters the cluster has, and what one of them would do to a job."""

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.job_files import read_job_file
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

COLUMNS = ("Name", "Kind", "Jobs", "Dialect", "Program")


def listing(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """List every filter, in the order in which they are asked."""
    answer = client.ask("filters")
    filters = answer["filters"]
    rows = [
        {
            "Name": each["name"],
            "Kind": each["kind"],
            "Jobs": f"of template {each['template']}" if each["template"] else "all",
            "Dialect": each["dialect"],
            "Program": f"plugin:{each['plug_in']}" if each["plug_in"] else " ".join(each["program"]),
        }
        for each in filters
    ]
    out.show_table(RecordTable("Name", rows, filters, columns=COLUMNS, prose=True))
    used = {each["plug_in"] for each in filters}
    for name in answer["plug_ins"]:
        if name not in used:
            out.note(f"plugin:{name} is installed and not in use")
    return 0


def test(args: Arguments, client: Client, out: Output) -> int:
    """Call one filter about a job file, and print what would happen; 1 when the job would not go on."""
    if len(args.words) != 2:
        raise usage("a filter and a job file are needed", "write: hn filter test FILTER JOBFILE")
    name, path = args.words
    answer = client.ask(
        "test_filter",
        filter=name,
        jobfile=read_job_file(path),
        kind=args.text("kind") or "",
        dialect=args.text("from"),
        running=args.flag("running"),
        backfill=args.flag("backfill"),
        resources=args.number("resources") or 1,
    )
    out.text("\n".join(_lines(answer)), answer)
    return 0 if answer["exit_code"] == 0 or _goes_on(answer) else 1


def _goes_on(answer: "Mapping[str, Any]") -> bool:
    return bool(answer["kind"] == "submission" and not answer["outcome"].startswith("the job fails"))


def _lines(answer: "Mapping[str, Any]") -> "list[str]":
    lines = [
        f"{answer['kind']} filter {answer['filter']!r}: {answer['text']}, after {answer['seconds']:.3f} s",
        f"So {answer['outcome']}.",
    ]
    lines += [f"  {each['name']}: {each['before']!r} -> {each['after']!r}" for each in answer["changes"]]
    if answer["exit_code"] == 1 and _goes_on(answer) and not answer["changes"]:
        lines.append("Exit code 1 says that it changed the job, and it changed nothing: did it fail?")
    if answer["reverted"]:
        lines.append("It was called again to undo.")
    return lines


COMMANDS = (
    CliCommand(
        "list",
        "",
        "List the submission and activation filters, in the order in which they are called",
        listing,
        options=(FORMAT,),
        example="hn filter list",
        instead="try one out: hn filter test NAME JOBFILE",
    ),
    CliCommand(
        "test",
        "FILTER JOBFILE",
        "Test a filter with a job file, outside the queue, and print what would happen; administrators only",
        test,
        options=(
            CliOption("kind", "KIND", "submission or activation, if the filter is not registered"),
            CliOption("from", "LANGUAGE", "The language of the job file, if it is not detected"),
            CliOption("resources", "N", "Number of units passed to an activation filter (default: 1)"),
            CliOption("backfill", "", "As if the job would be backfilled"),
            CliOption("running", "", "As if the job were running and would grow"),
        ),
        example="hn filter test /opt/filters/names.sh job.xml",
        notes=(
            "FILTER is the name of a registered filter, or a filter as it would be registered: "
            "/PATH/PROGRAM [ARGUMENT ...] in quotes, or plugin:NAME. It is called again to undo its "
            "changes.",
            "Exit status 0 if the filter would accept the job, else 1.",
        ),
    ),
)
