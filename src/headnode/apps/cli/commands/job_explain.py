"""``hn job explain``: why a job is not running, and when it will; and the same of a job not submitted yet."""

from headnode.apps.cli.arguments import job_id
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def explain_dry_run(
    request: "Callable[[], dict[str, Any]]", file: str | None, client: Client, out: Output
) -> int:
    """Ask the head about the job that `request` describes, as submit_job takes it; print what it says.

    Raises:  whatever would refuse the submission, and Unavailable when there is no head to ask.
    """
    answer = _answer(request, file, client)
    if answer["report"]:
        from headnode.apps.cli.output import note_losses

        note_losses(answer["report"], file or "job", out)
    if out.for_people:
        out.text(_pages(answer, out.width or 100), answer)
    else:
        out.outcome("", answer)
    return 0


def _pages(answer: "dict[str, Any]", width: int) -> str:
    """Return what would become of the job, or of each job of a file with several."""
    import time

    from headnode.apps.cli.screens.explain import explanation_page

    several = answer.get("jobs")
    pages = [
        explanation_page(one["explanation"], one["job"], now=time.time(), width=width, dry_run=True)
        for one in several or [answer]
    ]
    if several is None:
        return pages[0]
    count = answer["count"]
    numbered = [f"Job {number} of {count}. {text}" for number, text in enumerate(pages, 1)]
    if count > len(pages):
        numbered.append(f"The other {count - len(pages)} jobs would be accepted too.\n")
    return "\n".join(numbered)


def _answer(request: "Callable[[], dict[str, Any]]", file: str | None, client: Client) -> "dict[str, Any]":
    from headnode.core.model.errors import Unavailable

    try:
        return client.ask("check_job", **request())
    except Unavailable as away:
        without = f"; without a head the file alone can be checked: hn check {file}" if file else ""
        raise Unavailable(
            code=away.code,
            what=f"a dry run needs a head, and {away.what}",
            fix=away.fix + without,
        ) from away


MAX_TIMES = 5


def run(args: Arguments, client: Client, out: Output) -> int:
    """Explain the job."""
    number = job_id(args.words)
    if not out.for_people:
        out.text(str(number), client.ask("explain_job", job=number))
        return 0
    import time

    from headnode.apps.cli.screens.explain import explanation_page

    explanation, job = explanation_of(client, number)
    out.text(explanation_page(explanation, job, now=time.time(), width=out.width or 100), explanation)
    return 0


def explanation_of(client: Client, number: int) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the explanation and the job it is of, in one state.

    Explaining takes up to a second, in which a job may start or end: then it is explained again, a few
    times at most.
    """
    for _ in range(MAX_TIMES):
        explanation = client.ask("explain_job", job=number)
        job = client.ask("job", job=number)["job"]
        if explanation["state"] == job["state"]:
            break
    return explanation, job


COMMANDS = (
    CliCommand(
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
