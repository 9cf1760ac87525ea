"""``hn job submit --dry-run``: what the head says would become of a job that is not submitted."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def tell_what_would_be(
    request: "Callable[[], dict[str, Any]]", file: str | None, client: "Client", out: "Output"
) -> int:
    """Ask the head about the job that `request` describes, as submit_job takes it; print what it says.

    Raises:  whatever would refuse the submission, and Unavailable when there is no head to ask.
    """
    answer = _asked(request, file, client)
    if answer["report"]:
        from headnode.apps.cli.fidelity import tell

        tell(answer["report"], file or "job", out)
    if out.for_people:
        out.text(_pages(answer, out.width or 100), answer)
    else:
        out.said("", answer)
    return 0


def _pages(answer: "dict[str, Any]", width: int) -> str:
    """Return what would become of the job, or of each job of a file with several."""
    import time

    from headnode.apps.cli.screens.explain import page

    several = answer.get("jobs")
    pages = [
        page(one["explanation"], one["job"], now=time.time(), width=width, dry_run=True)
        for one in several or [answer]
    ]
    if several is None:
        return pages[0]
    count = answer["count"]
    told = [f"Job {number} of {count}. {text}" for number, text in enumerate(pages, 1)]
    if count > len(pages):
        told.append(f"The other {count - len(pages)} jobs would be taken too.\n")
    return "\n".join(told)


def _asked(request: "Callable[[], dict[str, Any]]", file: str | None, client: "Client") -> "dict[str, Any]":
    from headnode.core.model.errors import Unavailable

    try:
        return client.ask("check_job", **request())
    except Unavailable as away:
        without = f"; without a head the file alone can be checked: hn check {file}" if file else ""
        raise Unavailable(
            code=away.code,
            what=f"only a head can tell what would become of the job, and {away.what}",
            fix=away.fix + without,
        ) from away
