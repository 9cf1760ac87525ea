"""The jobs that a command is about: by their ids, of a group, or all that fit: ``--me --state queued``."""

import os

from headnode.apps.cli.arguments import SINCE, UNTIL, job_ids, period
from headnode.apps.cli.options import Arguments, CliOption, read_states, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIVING = ["Queued", "Running", "Suspended"]
ENDED = ["Failed", "Canceled"]
IDS = "ID... | --group NAME | --me"
"""The arguments of a command that takes several jobs."""

_GROUP = CliOption("group", "NAME", "All jobs of this job group, in place of ids")
_FILTERS = (
    CliOption("me", "", "All your jobs that have not ended, in place of ids"),
    CliOption("user", "NAME", "All jobs of this user; * for all users. With --group: the owner of the group"),
    CliOption("state", "STATE,...", "Only those in these states, such as queued", repeats=True),
    CliOption("jobname", "PATTERN", "Only those of this name; *: any text"),
    CliOption("projectname", "NAME", "Only those of this project", ("project",)),
)
SELECTION = (_GROUP, *_FILTERS)
"""Options of commands that take several jobs."""

ENDED_SELECTION = (
    CliOption("me", "", "All your jobs that have failed, in place of ids"),
    *_FILTERS[1:],
    SINCE,
    UNTIL,
)
"""Options of commands that take several jobs which have ended."""


def selected_jobs(
    args: Arguments, client: Client, out: Output, *, states: "list[str] | None" = None
) -> list[int]:
    """Return the jobs that are named, those of the group that are not over, or those that fit, by their ids.

    states:  of those that fit, without `--state`; None: all that have not ended
    Raises:  BadRequest ``usage``; NotFound ``no-such-group``.
    """
    if group_named(args) is not None:
        group = client.ask("group", **group_fields(args))
        if not group["open"]:
            note_empty_group(group["group"], out)
        return [int(job) for job in group["open"]]
    chosen = _filters(args)
    if not chosen:
        return job_ids(args.words)
    if args.words:
        raise usage(
            f"both ids and option {chosen[0]!r} were given",
            "give either the ids of jobs, or what they have in common",
        )
    ids = _fitting(args, client, states or LIVING)
    if not ids:
        out.note("no such job")
    return ids


def _filters(args: Arguments) -> list[str]:
    """Return the names of the options that were given by which jobs are selected."""
    return [each.name for each in ENDED_SELECTION if each.name in args.options]


def _fitting(args: Arguments, client: Client, states: "list[str]") -> list[int]:
    user, named = args.text("user"), args.text("state")
    if user is not None and args.flag("me"):
        raise usage("both options 'me' and 'user' were given", "give one of them")
    since, until = period(args)
    wanted: dict[str, Any] = {
        "owner": "" if user is None else None if user == "*" else user,
        "states": states if named is None else _checked(read_states(named), states),
        "name": args.text("jobname"),
        "project": args.text("projectname"),
        "since": since,
        "until": until,
    }
    ids: list[int] = []
    before = None
    while True:
        answer = client.ask("jobs", before=before, **wanted)
        ids += [int(job["id"]) for job in answer["jobs"]]
        before = answer["more"]
        if before is None:
            return ids[::-1]


def _checked(named: "list[str] | None", possible: "list[str]") -> "list[str]":
    """Return the states that were named; refuse those of jobs that the command is not for."""
    states = possible if named is None else named
    wrong = [state for state in states if state not in (LIVING if possible == LIVING else ENDED)]
    if wrong:
        which = LIVING if possible == LIVING else ENDED
        raise usage(
            f"this command selects no jobs that are {wrong[0].lower()}", f"choose from {', '.join(which)}"
        )
    return states


def own_name() -> str:
    """Return the name of the user; the number of one without an account, as in containers."""
    from headnode.adapters.wire.peers import user_name

    return user_name(os.geteuid())


def group_named(args: Arguments) -> str | None:
    """Return the name of the group that is meant; None when jobs are named in another way.

    Raises:  BadRequest ``usage`` when both are.
    """
    name = args.text("group")
    if name is None:
        return None
    if args.words:
        raise usage("both a group and ids were given", "give either --group NAME or the ids of jobs")
    if others := [each for each in _filters(args) if each != "user"]:
        raise usage(f"both a group and option {others[0]!r} were given", "give one of them")
    return name


def group_fields(args: Arguments) -> "dict[str, Any]":
    """Return what the head is asked about the group that was named."""
    return {"group": args.text("group"), "owner": args.text("user")}


def note_empty_group(group: str, out: Output) -> None:
    """Tell that all is over."""
    out.note(f"all jobs of group {group!r} have ended")
