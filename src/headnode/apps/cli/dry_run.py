"""``hn job submit --dry-run``: what the head says would become of a job that is not submitted."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def tell_what_would_be(request: "dict[str, Any]", file: str | None, client: "Client", out: "Output") -> int:
    """Ask the head about the job that `request`, as of submit_job, describes; print what it says.

    Raises:  whatever would refuse the submission, and Unavailable when there is no head to ask.
    """
    answer = _asked(request, file, client)
    if answer["report"]:
        from headnode.apps.cli.fidelity import tell

        tell(answer["report"], file or "job", out)
    if out.for_people:
        import time

        from headnode.apps.cli.screens.explain import page

        shown = page(
            answer["explanation"], answer["job"], now=time.time(), width=out.width or 100, dry_run=True
        )
        out.text(shown, answer)
    else:
        out.said("", answer)
    return 0


def _asked(request: "dict[str, Any]", file: str | None, client: "Client") -> "dict[str, Any]":
    from headnode.core.model.errors import Unavailable

    try:
        return client.ask("check_job", **request)
    except Unavailable as away:
        without = f"; without a head the file alone can be checked: hn check {file}" if file else ""
        raise Unavailable(
            code=away.code,
            what=f"only a head can tell what would become of the job, and {away.what}",
            fix=away.fix + without,
        ) from away
