"""All jobs of a group in place of ids, for the commands that take several jobs."""

from headnode.apps.cli.ids import job_ids
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

GROUP = Option("group", "NAME", "All jobs of this job group, in place of ids")
OWNER = Option("user", "NAME", "With --group: of this user instead of your own; * for all")
OF_GROUPS = (GROUP, OWNER)
"""Options of commands that take several jobs."""


def jobs_meant(asked: "Asked", client: "Client", out: "Output") -> list[int]:
    """Return the jobs that are named, or those of the group that is named and that are not over.

    Raises:  BadRequest ``usage``; NotFound ``no-such-group``.
    """
    if group_named(asked) is None:
        return job_ids(asked.words)
    group = client.ask("group", **group_fields(asked))
    if not group["open"]:
        nothing_left(group["group"], out)
    return [int(job) for job in group["open"]]


def group_named(asked: "Asked") -> str | None:
    """Return the name of the group that is meant; None when jobs are named by their ids.

    Raises:  BadRequest ``usage`` when both are, or a user without a group.
    """
    name = asked.text("group")
    if name is not None and asked.words:
        raise usage("both a group and ids were given", "give either --group NAME or the ids of jobs")
    if name is None and "user" in asked.options:
        raise usage("option 'user' says whose group is meant, and none was given", "add --group NAME")
    return name


def group_fields(asked: "Asked") -> "dict[str, Any]":
    """Return what the head is asked about the group that was named."""
    return {"group": asked.text("group"), "owner": asked.text("user")}


def nothing_left(group: str, out: "Output") -> None:
    """Tell that all is over."""
    out.note(f"all jobs of group {group!r} are over")


def in_words(group: "dict[str, Any]") -> str:
    """Return the state of a group in a line, such as ``Group render is Active: 2 finished, 1 running``."""
    order = ("Configuring", "Queued", "Suspended", "Running", "Finished", "Failed", "Canceled")
    counts = group["counts"]
    parts = [f"{counts[state]} {state.lower()}" for state in order if counts.get(state)]
    skipped = len(group["skipped"])
    told = f" ({skipped} of them skipped)" if skipped else ""
    return f"Group {group['group']} is {group['state']}: {', '.join(parts)}{told}"
