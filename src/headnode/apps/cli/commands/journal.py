"""``hn journal``: look for damage in the journal of a head that does not run."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import usage
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

MOST_NAMED = 5  # damaged rows of a table; --json has all


def check(asked: "Asked", client: "Client", out: "Output") -> int:
    """Read every row; tell table by table what is intact and what is damaged."""
    from pathlib import Path

    from headnode.adapters.journal.checking import check_file

    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "see: hn journal check --help")
    if client.login is not None:
        raise usage("a journal is checked on the machine of the head", "log in there and check it there")
    found = check_file(Path(client.state_directory) / "journal.db")
    rows = [
        {
            "Part": each.name,
            "Rows": str(each.rows),
            "Damaged": str(len(each.bad)),
            "Which": ", ".join(each.bad[:MOST_NAMED]) + (", ..." if len(each.bad) > MOST_NAMED else ""),
        }
        for each in found
    ]
    data = [{"part": each.name, "rows": each.rows, "damaged": each.bad} for each in found]
    columns = ("Part", "Rows", "Damaged", "Which")
    bad = sum(len(each.bad) for each in found)
    trailer = "The journal is intact" if not bad else "Restore a backup with: hn restore FILE"
    out.sheet(Sheet("Part", rows, {"tables": data}, columns=columns, trailer=trailer, prose=True))
    return int(bad > 0)


COMMANDS = (
    Command(
        "check",
        "",
        "Look for damage in the journal; the head must not run",
        check,
        example="hn journal check",
        notes=(
            "The exit status is 1 if something is damaged. Nothing is changed.",
            "While the head runs, hn backup FILE checks a copy of all of it.",
        ),
    ),
)
