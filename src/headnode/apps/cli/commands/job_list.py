"""``hn job list``: jobs, newest first, a page at a time."""

import os

from headnode.apps.cli.command import FORMAT, STATE, Command
from headnode.apps.cli.groups import in_words
from headnode.apps.cli.options import Option
from headnode.apps.cli.screens.job import COLUMNS, WIDTHS, WITH_EXPECTED, row
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import counted, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PAGE = 100  # jobs


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the jobs that were asked for."""
    limit = asked.number("limit")
    answer = client.ask(
        "jobs",
        owner=_owner(asked),
        states=_states(asked),
        before=asked.number("before"),
        limit=PAGE if limit is None else limit,
        group=asked.text("group"),
    )
    rows = [row(job) for job in answer["jobs"]]
    columns = COLUMNS if asked.text("format") is None else WITH_EXPECTED
    data = answer["jobs"] if "group" not in answer else {"group": answer["group"], "jobs": answer["jobs"]}
    sheet = Sheet("Id", rows, data, columns=columns, widths=WIDTHS, trailer=_trailer(answer), prose=True)
    out.sheet(sheet)
    return 0


def _owner(asked: "Asked") -> str | None:
    user = asked.text("user")
    if user is not None:
        return None if user == "*" else user
    return None if asked.flag("all") else _myself()


def _myself() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user id without an account, as in containers
        return str(os.geteuid())


def _states(asked: "Asked") -> "list[str] | None":
    if asked.text("state") is None:
        return None if asked.flag("all") or "group" in asked.options else ["Queued", "Running", "Suspended"]
    return states(asked.text("state"))


def _trailer(answer: "dict[str, Any]") -> str:
    """Return the line that scripts skip after the records."""
    shown = counted(len(answer["jobs"]), "matching job")
    if answer["more"] is not None:
        shown = f"{shown} on this page, more with --before {answer['more']}"
    return f"{in_words(answer['group'])}\n{shown}" if "group" in answer else shown


COMMANDS = (
    Command(
        "list",
        "",
        "List jobs: your own that are queued, running or suspended, unless told otherwise",
        run,
        options=(
            Option("all", "", "Jobs of all users in all states"),
            STATE,
            Option("user", "NAME", "Only jobs of this user; * for all"),
            Option("group", "NAME", "Only jobs of this job group, in all states, and how the group stands"),
            Option("limit", "N", f"How many at most ({PAGE} if not given)"),
            Option("before", "ID", "Only jobs with a smaller id: the next page"),
            FORMAT,
        ),
        example="hn job list /all /state:running,queued",
        notes=(
            "With --format, a job that waits is shown with the start that is expected.",
            "A job group has the jobs that came last under its name, and all that are not over.",
        ),
    ),
)
