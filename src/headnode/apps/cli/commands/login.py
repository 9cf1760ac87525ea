"""``hn login``, ``hn logout`` and ``hn whoami``: working from another machine than the head's."""

import os
import sys

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def log_in(asked: "Asked", client: "Client", out: "Output") -> int:  # noqa: ARG001  (it is asked before there is one)
    """Take a login for a token, and keep it."""
    from headnode.apps.client.logging_in import take
    from headnode.apps.client.logins import keep
    from headnode.apps.client.where import head_to_ask

    if len(asked.words) > 1:
        raise usage(
            f"{asked.words[1]!r} is not understood", "paste the line that hn token new printed, or nothing"
        )
    word = asked.words[0] if asked.words else ""
    shared = asked.flag("sharedfiles")
    login = take(word, shared=shared) if "/" in word else take(_line(), word, shared=shared)
    path = keep(os.environ, login)
    told = {"head": login.address, "cluster": login.cluster, "user": login.user, "expires": login.expires}
    out.said(
        f"You are {login.user} at cluster {login.cluster} ({login.address}) until {instant(login.expires)}.",
        told,
    )
    if isinstance(head := head_to_ask(os.environ, os.geteuid()), str):
        out.note(f"commands go to the head in {head} if you do not say: --scheduler {login.host}")
    out.note(f"the token is in {path}, for you alone; hn logout ends it")
    return 0


def _line() -> str:
    """Read the line from standard input, where no other user and no history sees it."""
    if sys.stdin.isatty():
        import getpass

        return getpass.getpass("Paste the line that hn token new printed (it is not shown): ")
    return sys.stdin.readline()


def log_out(asked: "Asked", client: "Client", out: "Output") -> int:
    """Revoke the token and forget it."""
    from headnode.apps.client.logins import forget, login_named
    from headnode.core.model.errors import HeadnodeError, WrongState

    login = login_named(os.environ, asked.words[0]) if asked.words else client.login
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
        said = f"You are logged out of cluster {login.cluster}."
    except HeadnodeError as error:
        said = f"The token for cluster {login.cluster} is forgotten here."
        out.note(f"it was not revoked there: {error.what}")
    finally:
        other.close()
    forget(os.environ, login)
    out.said(said, {"head": login.address, "cluster": login.cluster})
    return 0


def who(asked: "Asked", client: "Client", out: "Output") -> int:
    """Tell as whom the head knows the user."""
    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "see: hn whoami --help")
    answer = client.ask("whoami")
    row = {
        "User": answer["user"],
        "Role": answer["role"],
        "Cluster": answer["cluster"],
        "Head": client.head if isinstance(client.head, str) else client.head.address,
    }
    if client.login is not None:
        row["Token Expires"] = instant(client.login.expires)
    out.sheet(Sheet("User", [row], answer))
    return 0


COMMANDS = (
    Command(
        "login",
        "[HOST:PORT/SECRET... | HOST[:PORT]]",
        "Use a cluster whose head is on another machine",
        log_in,
        options=(
            Option(
                "sharedfiles",
                "",
                "Nodes share this machine's directories: jobs run in your current directory",
            ),
        ),
        example="hn login",
        notes=(
            "On the head node, 'hn token new' prints a line that works once, within an hour. Run 'hn login' "
            "alone and paste the line, so that it is in no shell history; or give it as argument.",
            "HOST[:PORT] overrides the address of the head in that line.",
            "Jobs from here run in your home directory on the nodes, unless you use --shared-files or "
            "--workdir.",
        ),
    ),
    Command(
        "logout",
        "[HEAD]",
        "Revoke and delete the token of hn login",
        log_out,
        example="hn logout",
    ),
    Command(
        "whoami",
        "",
        "Show your user name and role at the head",
        who,
        example="hn whoami",
    ),
)
