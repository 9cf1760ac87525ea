"""``hn job explain``: why a job is not running, and when it will."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.ids import job_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

MOST_TIMES = 5


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Explain the job."""
    number = job_id(asked.words)
    if not out.for_people:
        out.text(str(number), client.ask("explain_job", job=number))
        return 0
    import time

    from headnode.apps.cli.screens.explain import page

    explanation, job = _told(client, number)
    out.text(page(explanation, job, now=time.time(), width=out.width or 100), explanation)
    return 0


def _told(client: "Client", number: int) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the explanation and the job it is of, in one state.

    Explaining takes up to a second, in which a job may start or end: then it is explained again, a few
    times at most.
    """
    for _ in range(MOST_TIMES):
        explanation = client.ask("explain_job", job=number)
        job = client.ask("job", job=number)["job"]
        if explanation["state"] == job["state"]:
            break
    return explanation, job


COMMANDS = (
    Command(
        "explain",
        "ID",
        "Explain why a job waits, and when it will start",
        run,
        example="hn job explain 12",
        notes=(
            "Shows every reason, node by node: the jobs ahead of it, the reservation it waits for, and the "
            "changes that would start it now. The scheduler itself checks each change.",
            "Before submission: hn job submit --dry-run.",
        ),
    ),
)
