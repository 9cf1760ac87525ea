"""``hn backup``: save all that a head needs to come back, while it runs."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import usage
from headnode.apps.cli.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from headnode.adapters.backup.checking import Checked
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Copy the journal, pack it with the keys and settings, and check the result."""
    import time
    from pathlib import Path

    if len(asked.words) != 1:
        raise usage("no file for the backup is named", "write: hn backup FILE")
    if client.login is not None:
        raise usage("a backup is made on the machine of the head", "log in there and make it there")
    begun = time.monotonic()
    target, state = Path(asked.words[0]).absolute(), Path(client.state_directory)
    copy = _copied(state, client)
    try:
        checked = _packed(target, state, copy)
    finally:
        copy.unlink(missing_ok=True)
    out.said(_in_words(target, checked, time.monotonic() - begun), _as_data(target, checked), target)
    return 0


def _copied(state: "Path", client: "Client") -> "Path":
    """Return a copy of the journal; of a head that does not run it is made here."""
    from pathlib import Path

    from headnode.apps.cli import head_process

    if head_process.answers(client):
        answers = list(client.follow("backup"))  # it may take longer than a single question
        return Path(answers[-1]["journal"])
    from headnode.adapters.journal.state_directory import open_journal
    from headnode.core.model.errors import NotFound

    if not (state / "journal.db").exists():
        raise NotFound(
            code="no-state", what=f"there is no cluster in {str(state)!r}", fix="name it: --state DIRECTORY"
        )
    copy = state / "backup-offline.db"
    copy.unlink(missing_ok=True)
    journal = open_journal(state)
    try:
        journal.copy_to(copy)
    finally:
        journal.close()
    return copy


def _packed(target: "Path", state: "Path", copy: "Path") -> "Checked":
    import time

    from headnode import __version__
    from headnode.adapters.backup.contents import FORMAT, Manifest, files_of
    from headnode.adapters.backup.contents import VERSION as FORMAT_VERSION
    from headnode.adapters.backup.writing import write_backup
    from headnode.adapters.journal.checking import cluster_and_last_event
    from headnode.apps.server.options import cluster_name

    files = files_of(state, copy)
    cluster_id, events = cluster_and_last_event(copy)
    manifest = Manifest(
        FORMAT, FORMAT_VERSION, __version__, cluster_name(state, ""), cluster_id, time.time(), events
    )
    return write_backup(target, files, manifest)


def _in_words(target: "Path", checked: "Checked", seconds: float) -> str:
    manifest, cluster = checked
    keys = "keys of nodes" if any(kept.name.startswith("authority/") for kept in manifest.files) else ""
    holds = [
        counted(manifest.events, "event"),
        counted(len(cluster.jobs), "job") + " not over",
        counted(len(cluster.nodes), "node"),
        *([keys] if keys else []),
    ]
    return (
        f"{target} is a backup of cluster {manifest.cluster}: {', '.join(holds)}. "
        f"It was unpacked and replayed ({seconds:.1f} s). It contains private keys: keep it private."
    )


def _as_data(target: "Path", checked: "Checked") -> "dict[str, object]":
    manifest = checked.manifest
    return {
        "backup": str(target),
        "cluster": manifest.cluster,
        "cluster_id": manifest.cluster_id,
        "made": manifest.made,
        "events": manifest.events,
        "files": [kept.name for kept in manifest.files],
    }


COMMANDS = (
    Command(
        "backup",
        "FILE",
        "Back up the state of a head, which may be running, and check the backup",
        run,
        example="hn backup /backup/headnode-monday.tar.gz",
        notes=(
            "In it: the journal, the keys and certificates, the name, the address for other machines, the",
            "nodes of this machine, and the audit log. Captured output and programs of the site are not.",
            "For root and the user of the head. hn restore FILE makes a state directory of it.",
        ),
    ),
)
