"""``hn job view``: all that is known of a job."""

from headnode.apps.cli.arguments import job_id
from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.screens.job import view
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client


def run(args: Arguments, client: Client, out: Output) -> int:
    """Show the job."""
    number = job_id(args.words)
    if "to" in args.options:
        return _in_words(number, args, client, out)
    job = client.ask("job", job=number)["job"]
    history = args.flag("history")
    if history:
        job["history"] = client.ask("job_history", job=number)["history"]
    out.show_table(RecordTable("Id", [view(job, detailed=args.flag("detailed"), history=history)], job))
    return 0


def _in_words(job: int, args: Arguments, client: Client, out: Output) -> int:
    """Show the job in a job language."""
    from headnode.apps.cli.commands.job_edit import print_job_file

    for other in ("detailed", "history", "format"):
        if other in args.options:
            raise usage(
                f"option {other!r} is about the page, and --to prints a job file", "leave one of them out"
            )
    return print_job_file(job, args.text("to"), client, out)


COMMANDS = (
    CliCommand(
        "view",
        "ID",
        "Show a job",
        run,
        options=(
            CliOption("detailed", "", "Show all properties of the job"),
            CliOption("history", "", "Show its history"),
            CliOption("to", "LANGUAGE", "Show it in a job language, as 'hn job export' does"),
            FORMAT,
        ),
        example="hn job view 12 /detailed /history",
    ),
)
