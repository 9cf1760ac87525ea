"""``hn node invite``: the one line that makes another machine a node."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print the line."""
    from headnode.core.formats.native_form.quantities import parse_span

    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "name the node with --for NAME")
    lifetime = asked.text("lifetime")
    wish: dict[str, object] = {"approve": asked.flag("approve"), "node": asked.text("for") or ""}
    if lifetime:
        wish["lifetime"] = parse_span(lifetime)
    made = client.ask("invite_node", **wish)
    name = f" --name {made['node']}" if made["node"] else ""
    out.text(f"hn agent --join {made['invitation']}{name}\n", made)
    return 0


COMMANDS = (
    Command(
        "invite",
        "",
        "Print the command that makes another machine a node",
        run,
        options=(
            Option(
                "approve", "", "The node accepts jobs at once; otherwise an administrator must approve it"
            ),
            Option(
                "for", "NAME", "Only a node of this name may join; it replaces an existing node of that name"
            ),
            Option("lifetime", "SPAN", "How long the invitation is valid, such as 2h (default: 1d)"),
        ),
        example="hn node invite --approve",
        notes=(
            "The invitation works once. Keep it secret, like a password.",
            "The head must listen: hn up --listen HOST",
        ),
    ),
)
