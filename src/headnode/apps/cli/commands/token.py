"""``hn token new``, ``list`` and ``revoke``: who may use the cluster from other machines."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

COLUMNS = ("Token", "User", "Made", "Expires", "Last Used", "From")


def new(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print the line that logs in from another machine."""
    from headnode.core.formats.native_form.quantities import parse_span

    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "name the user with --user NAME")
    expires = asked.text("expires")
    wish: dict[str, object] = {"user": asked.text("user")}
    if expires:
        wish["lifetime"] = parse_span(expires)
    made = client.ask("new_token", **wish)
    out.text(f"hn login {made['login']}\n", made)
    return 0


def listing(asked: "Asked", client: "Client", out: "Output") -> int:
    """List tokens."""
    user = "*" if asked.flag("all") else asked.text("user")
    found = client.ask("tokens", user=user)["tokens"]
    rows = [
        {
            "Token": str(token["token"]),
            "User": token["user"],
            "Made": instant(token["made"]),
            "Expires": instant(token["expires"]),
            "Last Used": instant(token["used"]) if token["used"] is not None else "never",
            "From": token["address"],
        }
        for token in found
    ]
    out.sheet(Sheet("Token", rows, found, columns=COLUMNS))
    return 0


def revoke(asked: "Asked", client: "Client", out: "Output") -> int:
    """Make tokens worth nothing."""
    numbers = [word for word in asked.words if word.isascii() and word.isdigit()]
    if not numbers or len(numbers) != len(asked.words):
        raise usage("it is not clear which token to revoke", "give its number: hn token list")
    for number in numbers:
        answer = client.ask("revoke_token", token=int(number))
        out.said(f"Token {number} is revoked.", answer, number)
    return 0


COMMANDS = (
    Command(
        "new",
        "",
        "Print a login line for another machine",
        new,
        options=(
            Option("user", "NAME", "For another user; administrators only"),
            Option(
                "expires",
                "SPAN",
                "How long the token is valid, such as 30d (default: 90d; at most 366d)",
            ),
        ),
        example="hn token new --expires 30d",
        notes=(
            "On the head node only. The line works once, within an hour; give it to 'hn login' on the other "
            "machine. Keep it secret, like a password.",
            "The head must listen: hn up --listen HOST",
        ),
    ),
    Command(
        "list",
        "",
        "List your tokens, and when each was used last",
        listing,
        options=(
            Option("user", "NAME", "Those of another user; administrators only"),
            Option("all", "", "Those of all users; administrators only"),
            FORMAT,
        ),
        example="hn token list",
        notes=("The time of the last use is exact to ten minutes.",),
    ),
    Command(
        "revoke",
        "NUMBER...",
        "Revoke tokens at once",
        revoke,
        example="hn token revoke 3",
    ),
)
