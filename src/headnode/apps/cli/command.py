"""What a command is: its words, its options as data, and the function that carries it out."""

from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

    Run = Callable[[Asked, Client, Output], int]

EVERYWHERE = (
    Option("help", "", "Show what the command does and its options", ("?",), short="h"),
    Option("json", "", "Print the head's own answer as one JSON document"),
    Option("quiet", "", "Print only ids, one on a line", short="q"),
    Option("state-directory", "DIRECTORY", "State directory of the head to talk to", ("state",)),
    Option("scheduler", "NAME", "Head to talk to: one that hn login knows, a state directory or localhost"),
)
STATE = Option("state", "STATE,...", "Only those in these states; * for all", repeats=True)
KEY = Option(
    "idempotency-key",
    "KEY",
    "Requests with the same key are carried out once (default: a new key)",
)
FORMAT = Option("format", "list|table", "Print records of keys and values, or a table")


class Command:
    """One verb.  `words` is its usage behind the options; `positionals` as in `read_arguments`."""

    __slots__ = ("example", "notes", "options", "positionals", "run", "summary", "verb", "words")

    def __init__(
        self,
        verb: str,
        words: str,
        summary: str,
        run: "Run",
        *,
        options: "Sequence[Option]" = (),
        example: str,
        notes: "Sequence[str]" = (),
        positionals: int | None = None,
    ) -> None:
        self.verb = verb
        self.words = words
        self.summary = summary
        self.run = run
        self.options = (*options, *EVERYWHERE)
        self.example = example
        self.notes = tuple(notes)
        self.positionals = positionals
