"""``hn login``, ``logout``, ``whoami`` and ``hn token``: working from other machines than the head's."""

import os
import sys

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import instant


def log_in(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001  (it is asked before there is one)
    """Take a login for a token, and keep it."""
    from headnode.apps.client.head_location import head_to_ask
    from headnode.apps.client.logins import keep
    from headnode.apps.client.tls_connection import redeem_login

    if len(args.words) > 1:
        raise usage(
            f"{args.words[1]!r} is not understood", "paste the line that hn token new printed, or nothing"
        )
    word = args.words[0] if args.words else ""
    shared = args.flag("sharedfiles")
    login = redeem_login(word, shared=shared) if "/" in word else redeem_login(_line(), word, shared=shared)
    path = keep(os.environ, login)
    answer = {"head": login.address, "cluster": login.cluster, "user": login.user, "expires": login.expires}
    out.outcome(
        f"You are {login.user} at cluster {login.cluster} ({login.address}) until {instant(login.expires)}.",
        answer,
    )
    if isinstance(head := head_to_ask(os.environ, os.geteuid()), str):
        out.note(f"commands still go to the head in {head}; for this cluster add: --scheduler {login.host}")
    out.note(f"the token is in {path}, which only you can read; hn logout ends it")
    return 0


def _line() -> str:
    """Read the line from standard input, where no other user and no history sees it."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Paste the line that hn token new printed (it is not shown): ")
    return sys.stdin.readline()


def log_out(args: Arguments, client: Client, out: Output) -> int:
    """Revoke the token and forget it."""
    from headnode.apps.client.logins import forget, login_named
    from headnode.core.model.errors import HeadnodeError, WrongState

    login = login_named(os.environ, args.words[0]) if args.words else client.login
    if login is None:
        raise WrongState(
            code="not-logged-in",
            what="commands go to a head on this machine, which needs no login",
            fix="name the head: hn logout HEAD",
        )
    from headnode.apps.client.client import Client as Asking

    other = Asking(login)
    try:
        other.ask("revoke_token", token=login.number)
        message = f"You are logged out of cluster {login.cluster}."
    except HeadnodeError as error:
        message = f"The token for cluster {login.cluster} is forgotten here."
        out.note(f"it was not revoked there: {error.what}")
    finally:
        other.close()
    forget(os.environ, login)
    out.outcome(message, {"head": login.address, "cluster": login.cluster})
    return 0


def who_am_i(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """Print the user name and the role that the head knows for this user."""
    answer = client.ask("whoami")
    row = {
        "User": answer["user"],
        "Role": answer["role"],
        "Cluster": answer["cluster"],
        "Head": client.head if isinstance(client.head, str) else client.head.address,
    }
    if client.login is not None:
        row["Token Expires"] = instant(client.login.expires)
    out.show_table(RecordTable("User", [row], answer))
    return 0


TOKEN_COLUMNS = ("Token", "User", "Name", "Role", "Created", "Expires", "Last Used", "From")


def new_token(args: Arguments, client: Client, out: Output) -> int:
    """Print the line that logs in from another machine."""
    from headnode.core.formats.text.quantities import parse_span

    expires = args.text("expires")
    fields: dict[str, object] = {"user": args.text("user")}
    if expires:
        fields["lifetime"] = parse_span(expires)
    fields |= {name: value for name in ("name", "role") if (value := args.text(name))}
    if args.flag("web"):
        return _new_web_token(client, fields, out)
    made = client.ask("create_token", **fields)
    out.text(f"hn login {made['login']}\n", made)
    return 0


def _new_web_token(client: "Client", fields: "dict[str, object]", out: "Output") -> int:
    """Print a token for the REST API: the login for it is exchanged at once."""
    from headnode.apps.client.connection import Connection, granted
    from headnode.core.model.errors import Unavailable

    made = client.ask("create_token", web=True, **fields)
    try:
        connection = Connection.to(f"{client.state_directory}/gateway.sock")
        try:
            connection.send({"verb": "exchange_login", "secret": made["login"]})
            token = granted(connection.receive())
        finally:
            connection.close()
    except (OSError, EOFError, ValueError) as trouble:
        raise Unavailable(
            code="head-gone", what=f"the head did not return the token: {trouble}", fix="try again"
        ) from trouble
    out.text(f"{token['token']}\n", token)
    return 0


def list_tokens(args: Arguments, client: Client, out: Output) -> int:
    """List tokens."""
    user = "*" if args.flag("all") else args.text("user")
    tokens = client.ask("tokens", user=user)["tokens"]
    rows = [
        {
            "Token": str(token["token"]),
            "User": token["user"],
            "Name": token.get("name", ""),
            "Role": token.get("role", "all"),
            "Created": instant(token["created"]),
            "Expires": instant(token["expires"]),
            "Last Used": instant(token["last_used"]) if token["last_used"] is not None else "never",
            "From": token["address"],
        }
        for token in tokens
    ]
    out.show_table(RecordTable("Token", rows, tokens, columns=TOKEN_COLUMNS))
    return 0


def revoke_token(args: Arguments, client: Client, out: Output) -> int:
    """Make tokens worth nothing."""
    numbers = [word for word in args.words if word.isascii() and word.isdigit()]
    if not numbers or len(numbers) != len(args.words):
        raise usage("it is not clear which token to revoke", "give its number: hn token list")
    for number in numbers:
        answer = client.ask("revoke_token", token=int(number))
        out.outcome(f"Token {number} is revoked.", answer, number)
    return 0


COMMANDS = (
    CliCommand(
        "login",
        "[HOST:PORT/SECRET... | HOST[:PORT][,...]]",
        "Use a cluster whose head is on another machine",
        log_in,
        options=(
            CliOption(
                "sharedfiles",
                "",
                "Nodes share this machine's directories: jobs run in your current directory",
            ),
        ),
        example="hn login",
        notes=(
            "On the head node, 'hn token new' prints a line that works once, within an hour. Run 'hn login' "
            "alone and paste the line, so that it is in no shell history; or give it as argument.",
            "HOST[:PORT] overrides the address of the head in that line. Several, with commas, are tried in "
            "turn, for a cluster with a standby head.",
            "Jobs from here run in your home directory on the nodes, unless you use --shared-files or "
            "--workdir.",
        ),
    ),
    CliCommand("logout", "[HEAD]", "Revoke and delete the token of hn login", log_out, example="hn logout"),
    CliCommand("whoami", "", "Show your user name and role at the head", who_am_i, example="hn whoami"),
    CliCommand(
        "new",
        "",
        "Print a login line for another machine",
        new_token,
        options=(
            CliOption("user", "NAME", "For another user; administrators only"),
            CliOption(
                "expires", "SPAN", "How long the token is valid, such as 30d (default: 90d; at most 366d)"
            ),
            CliOption("name", "TEXT", "Description of the token, shown by hn token list"),
            CliOption(
                "role",
                "ROLE",
                "Rights that the token gives: reader (to change nothing), user, operator, all (default)",
            ),
            CliOption("web", "", "Print a token for the REST API instead: Authorization: Bearer TOKEN"),
        ),
        example="hn token new --expires 30d",
        notes=(
            "On the head node only. The line works once, within an hour; give it to 'hn login' on the other "
            "machine. Keep it secret, like a password.",
            "The head must listen: hn up --listen HOST",
        ),
        instead="name the user with --user NAME",
    ),
    CliCommand(
        "list",
        "",
        "List your tokens, and when each was used last",
        list_tokens,
        options=(
            CliOption("user", "NAME", "List the tokens of another user; administrators only"),
            CliOption("all", "", "List the tokens of all users; administrators only"),
            FORMAT,
        ),
        example="hn token list",
        notes=("The time of the last use is exact to ten minutes.",),
        instead="the tokens of a user: --user NAME; of all: --all",
    ),
    CliCommand("revoke", "NUMBER...", "Revoke tokens at once", revoke_token, example="hn token revoke 3"),
)
