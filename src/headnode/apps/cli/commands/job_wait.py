"""``hn job wait``: until jobs are over."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.groups import OF_GROUPS, group_fields, group_named
from headnode.apps.cli.ids import job_ids
from headnode.apps.cli.waiting import wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Wait; exit status 0 if every job finished, else 1."""
    if group_named(asked) is None:
        return wait_for(list(dict.fromkeys(job_ids(asked.words))), client, out)
    return wait_for(client.ask("group", **group_fields(asked))["jobs"], client, out, together=True)


COMMANDS = (
    Command(
        "wait",
        "ID... | --group NAME",
        "Wait until jobs have ended; exit status 0 only if all finished",
        run,
        options=OF_GROUPS,
        example="hn job wait 12 13",
        notes=(
            "On a terminal it shows the progress of running jobs, and why a queued job waits and when it "
            "should start. In a pipe the reason is printed on standard error after some seconds.",
            "Ctrl-C stops waiting with exit status 130; the jobs continue.",
            "In a group, skipped jobs count as finished: for example the branch for a failure that did not "
            "happen. If all other jobs wait for a failed job, it stops waiting with exit status 1.",
        ),
    ),
)
