"""``hn cluster import``: print the commands that set up a cluster like that of a slurm.conf."""

import os

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

MAX_CONF = 4 * 1024 * 1024  # bytes; that of the largest sites has some hundred kB


def import_slurm(args: Arguments, _client: Client, out: Output) -> int:
    """Print the script; no head is asked, and nothing is changed."""
    if len(args.words) != 1:
        raise usage(f"{len(args.words)} files were given", "name one slurm.conf")
    path = args.words[0]
    try:
        with os.fdopen(open_named(path), "rb") as file:
            data = file.read(MAX_CONF + 1)
    except OSError as error:
        raise usage(f"file {path!r} cannot be read: {error.strerror}", "name a slurm.conf") from None
    if len(data) > MAX_CONF:
        raise usage(f"file {path!r} is larger than {MAX_CONF} bytes", "name a slurm.conf")
    from headnode.core.batch.slurm_conf import setup_script

    script = setup_script(data.decode("utf-8", "replace"))
    out.text(script, {"script": script})
    return 0


COMMANDS = (
    CliCommand(
        "import",
        "FILE",
        "Print the commands that set up a cluster like that of a slurm.conf",
        import_slurm,
        example="hn cluster import /etc/slurm/slurm.conf > setup.sh",
        notes=(
            "Nothing is changed: read the script, correct it and run it.",
            "Comments at its end name the settings that it does not carry over, with what is in their place.",
        ),
    ),
)
