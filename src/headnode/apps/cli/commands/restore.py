"""``hn restore``: make a state directory from a backup."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from headnode.adapters.backup.checking import Checked
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Check the backup, and put it where a head will find it."""
    import time
    from pathlib import Path

    from headnode.adapters.backup.restoring import SKIPPED, restore
    from headnode.core.model.errors import NotFound
    from headnode.core.model.quantities import Instant

    if len(asked.words) != 1:
        raise usage("no backup is named", "write: hn restore FILE")
    backup, state = Path(asked.words[0]).absolute(), Path(_directory(asked, client))
    if not backup.is_file():
        raise NotFound(code="no-backup", what=f"there is no backup {str(backup)!r}", fix="see the path")
    skip = asked.number("skip")
    skipped = SKIPPED if skip is None else skip
    checked = restore(backup, state, Instant(time.time()), skipped)
    if backup.stat().st_mode & 0o077:
        out.note(f"others may read {backup}, which contains private keys: chmod 600 {backup}")
    listen = _listen(state)
    data = {
        "state_directory": str(state),
        "cluster": checked.manifest.cluster,
        "made": checked.manifest.made,
        "events": checked.manifest.events,
        "listen": listen,
        "next_job": checked.cluster.next_job + skipped,
    }
    out.said(_in_words(state, checked, listen, skipped), data, state)
    return 0


def _directory(asked: "Asked", client: "Client") -> str:
    import os

    from headnode.apps.client.where import own_state_directory

    said = (asked.text("state-directory"), asked.text("scheduler"), os.environ.get("HEADNODE_STATE"))
    if any(said) and client.login is None:
        return client.state_directory
    return own_state_directory(os.environ, os.geteuid())


def _listen(state: "Path") -> str:
    file = state / "listen"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def _in_words(state: "Path", checked: "Checked", listen: str, skipped: int) -> str:
    from datetime import UTC, datetime

    manifest, cluster = checked
    made = datetime.fromtimestamp(manifest.made, UTC).isoformat(timespec="seconds")
    lines = [
        f"Cluster {manifest.cluster} is in {state} as it was at {made}: "
        f"{counted(len(cluster.jobs), 'job')} not over, {counted(len(cluster.nodes), 'node')}."
    ]
    if listen:
        lines.append(f"Nodes of other machines look for it at {listen}: this machine must have that address.")
    lines.append(f"The next job gets number {cluster.next_job + skipped}.")
    start = f"hn --state {state} up" if str(state) else "hn up"
    return "\n".join([*lines, f"Start it with: {start}"])


COMMANDS = (
    Command(
        "restore",
        "FILE",
        "Make a state directory from a backup; nothing is overwritten",
        run,
        options=(
            Option(
                "skip", "N", "Job numbers to leave out, for jobs made after the backup (10000 if not given)"
            ),
        ),
        example="hn restore /backup/headnode-monday.tar.gz",
        notes=(
            "Each file is compared with its digest and the journal is replayed before it is put in place.",
        ),
    ),
)
