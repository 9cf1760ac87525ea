"""``hn version``."""

from headnode import __version__
from headnode.apps.cli.command import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(_asked: "Asked", _client: "Client", out: "Output") -> int:
    """Print the version of this program."""
    out.text(f"headnode {__version__}", {"version": __version__})
    return 0


COMMANDS = (Command("version", "", "Print the version of this program", run, example="hn version"),)
