"""``hn cluster audit``: who changed what, and who tried."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.period import AGO, moment
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

COLUMNS = ("When", "User", "Verb", "Outcome", "About", "From")  # where a terminal is narrow, the last are cut
_ELSEWHERE = frozenset({"when", "user", "uid", "from", "verb", "outcome"})


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the newest entries, in the order in which they were written."""
    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "see: hn cluster audit --help")
    wish = {
        "job": asked.number("job"),
        "user": asked.text("user"),
        "since": moment(asked, "since"),
        "limit": asked.number("limit"),
    }
    found = client.ask("audit", **wish)["entries"]
    out.sheet(Sheet("When", [_row(entry) for entry in found], found, columns=COLUMNS))
    return 0


def _row(entry: "dict[str, Any]") -> dict[str, str]:
    about = {name: value for name, value in entry.items() if name not in _ELSEWHERE}
    return {
        "When": str(entry.get("when", "")),
        "User": str(entry.get("user", "")),
        "From": str(entry.get("from", "")),
        "Verb": str(entry.get("verb", "")),
        "About": " ".join(f"{name}={_said(value)}" for name, value in about.items()),
        "Outcome": str(entry.get("outcome", "")),
    }


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{said}" for name, said in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


COMMANDS = (
    Command(
        "audit",
        "",
        "List changes and attempts to change, with their users; for administrators",
        run,
        options=(
            Option("job", "ID", "Only about this job"),
            Option("user", "NAME", "Only changes by this user, or of jobs made for this user"),
            Option("since", "TIME", f"Only from this date and time on (UTC), {AGO}"),
            Option("limit", "N", "The newest N (1000 if not given)"),
            FORMAT,
        ),
        example="hn cluster audit --since 7d",
    ),
)
