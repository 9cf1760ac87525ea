"""``hn backup``, ``hn restore`` and ``hn journal check``: save, restore and check the state of a head."""

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from headnode.adapters.journal.backup import CheckedBackup
    from headnode.adapters.journal.checking import TableCheck
    from headnode.core.state.cluster_state import ClusterState

MAX_NAMED = 5  # damaged rows of a table; --json has all


def check_journal(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """Read every row; report which tables are intact and which are damaged."""
    from pathlib import Path

    from headnode.adapters.journal.checking import check_file

    if client.login is not None:
        raise usage("a journal is checked on the machine of the head", "log in there and check it there")
    tables = check_file(Path(client.state_directory) / "journal.db")
    rows = [
        {
            "Part": each.name,
            "Rows": str(each.rows),
            "Damaged": str(len(each.bad)),
            "Not Decodable": str(len(each.undecodable)),
            "Which": _named([*each.bad, *(row.row for row in each.undecodable)]),
        }
        for each in tables
    ]
    data = [
        {
            "part": each.name,
            "rows": each.rows,
            "damaged": each.bad,
            "undecodable": [row.row for row in each.undecodable],
        }
        for each in tables
    ]
    columns = ("Part", "Rows", "Damaged", "Not Decodable", "Which")
    bad = sum(len(each.bad) + len(each.undecodable) for each in tables)
    trailer = "The journal is intact" if not bad else _advice(tables)
    out.show_table(RecordTable("Part", rows, {"tables": data}, columns=columns, trailer=trailer, prose=True))
    return int(bad > 0)


def _named(rows: list[str]) -> str:
    return ", ".join(rows[:MAX_NAMED]) + (", ..." if len(rows) > MAX_NAMED else "")


def _advice(tables: "list[TableCheck]") -> str:
    """Return what to do about rows that cannot be read."""
    if any(each.bad for each in tables):
        return "Restore a backup with: hn restore FILE"
    return next(row.fix for each in tables for row in each.undecodable)


def restore(args: Arguments, client: Client, out: Output) -> int:
    """Check the backup, and put it where a head will find it."""
    import time
    from pathlib import Path

    from headnode.adapters.journal.backup import SKIPPED, restore
    from headnode.core.model.errors import NotFound
    from headnode.core.model.quantities import Instant

    if len(args.words) != 1:
        raise usage("no backup is named", "write: hn restore FILE")
    backup, state = Path(args.words[0]).absolute(), Path(_directory(args, client))
    if not backup.is_file():
        raise NotFound(code="no-backup", what=f"there is no backup {str(backup)!r}", fix="correct the path")
    skip = args.number("skip")
    skipped = SKIPPED if skip is None else skip
    checked = restore(backup, state, Instant(time.time()), skipped)
    if backup.stat().st_mode & 0o077:
        out.note(f"others may read {backup}, which contains private keys: chmod 600 {backup}")
    listen = _listen(state)
    data = {
        "state_directory": str(state),
        "cluster": checked.manifest.cluster,
        "created": checked.manifest.created,
        "events": checked.manifest.events,
        "listen": listen,
        "next_job": checked.cluster.next_job + skipped,
    }
    out.outcome(_restored_text(state, checked, listen, skipped), data, state)
    return 0


def _directory(args: Arguments, client: Client) -> str:
    import os

    from headnode.apps.client.local_addresses import own_state_directory

    choices = (args.text("state-directory"), args.text("scheduler"), os.environ.get("HEADNODE_STATE"))
    if any(choices) and client.login is None:
        return client.state_directory
    return own_state_directory(os.environ, os.geteuid())


def _listen(state: "Path") -> str:
    file = state / "listen"
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def _restored_text(state: "Path", checked: "CheckedBackup", listen: str, skipped: int) -> str:
    from datetime import UTC, datetime

    manifest, cluster = checked
    made = datetime.fromtimestamp(manifest.created, UTC).isoformat(timespec="seconds")
    lines = [
        f"Cluster {manifest.cluster} is in {state} as it was at {made}: "
        f"{_live_jobs(cluster)}, {counted(len(cluster.nodes), 'node')}."
    ]
    if listen:
        from headnode.adapters.nodes.membership import DEFAULT_PORT, read_address

        _, port = read_address(listen, "listen")
        place = listen if listen.endswith(f":{port}") else f"{listen}:{DEFAULT_PORT}"
        lines.append(
            f"Nodes of other machines connect to {place}. If this machine has another address, type there: "
            "hn agent --head HOST"
        )
    elif any(node.key for node in cluster.nodes.values()):
        lines.append(
            "Nodes of other machines do not find it: the backup of a standby has no address for them. "
            "Start it with --listen HOST[:PORT], the address of the head or of a standby that they know."
        )
    lines.append(f"The next job gets number {cluster.next_job + skipped}.")
    own_nodes, former = state / "nodes", state.with_name(f"{state.name}.old") / "nodes"
    if former.is_dir() and not own_nodes.exists() and not all(node.key for node in cluster.nodes.values()):
        lines.append(
            "To keep running tasks and captured output of nodes of this machine, first move them here: "
            f"mv {former} {own_nodes}"
        )
    start = f"hn --state {state} up" if str(state) else "hn up"
    return "\n".join([*lines, f"Start it with: {start}"])


def _live_jobs(cluster: "ClusterState") -> str:
    count = len(cluster.jobs)
    return f"{counted(count, 'job')} that {'has' if count == 1 else 'have'} not ended"


def back_up(args: Arguments, client: Client, out: Output) -> int:
    """Copy the journal, pack it with the keys and settings, and check the result."""
    import time
    from pathlib import Path

    if len(args.words) != 1:
        raise usage(f"{len(args.words)} files for the backup are named", "write: hn backup FILE")
    if client.login is not None:
        raise usage("a backup is made on the machine of the head", "log in there and make it there")
    begun = time.monotonic()
    target, state = Path(args.words[0]).absolute(), Path(client.state_directory)
    copy = _copied(state, client)
    try:
        checked = _packed(target, state, copy)
    finally:
        copy.unlink(missing_ok=True)
    out.outcome(_saved_text(target, checked, time.monotonic() - begun), _as_data(target, checked), target)
    return 0


def _copied(state: "Path", client: Client) -> "Path":
    """Return a copy of the journal; of a head that does not run it is made here."""
    from pathlib import Path

    from headnode.adapters.files.standby_place import BACKUP
    from headnode.apps.cli import daemons, standby_daemon

    if standby_daemon.is_standby(str(state)) and standby_daemon.standby_runs(str(state)):
        standby_daemon.ask_standby(str(state), "backup")
        return state / BACKUP
    if daemons.ping(client):
        answers = list(client.follow("backup"))  # it may take longer than a single question
        return Path(answers[-1]["journal"])
    from headnode.adapters.journal.sqlite import open_journal
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


def _packed(target: "Path", state: "Path", copy: "Path") -> "CheckedBackup":
    import time

    from headnode import __version__
    from headnode.adapters.files.local_daemons import cluster_name
    from headnode.adapters.journal.backup import FORMAT, Manifest, files_of, write_backup
    from headnode.adapters.journal.backup import VERSION as FORMAT_VERSION
    from headnode.adapters.journal.checking import cluster_and_last_event

    files = files_of(state, copy)
    cluster_id, events = cluster_and_last_event(copy)
    manifest = Manifest(
        FORMAT, FORMAT_VERSION, __version__, cluster_name(state, ""), cluster_id, time.time(), events
    )
    return write_backup(target, files, manifest)


def _saved_text(target: "Path", checked: "CheckedBackup", seconds: float) -> str:
    manifest, cluster = checked
    keys = (
        "the keys of its nodes" if any(kept.name.startswith("authority/") for kept in manifest.files) else ""
    )
    holds = [
        counted(manifest.events, "event"),
        _live_jobs(cluster),
        counted(len(cluster.nodes), "node"),
        *([keys] if keys else []),
    ]
    return (
        f"{target} is a backup of cluster {manifest.cluster}: {', '.join(holds)}. "
        f"It was unpacked and replayed ({seconds:.1f} s). It contains private keys: keep it private."
    )


def _as_data(target: "Path", checked: "CheckedBackup") -> "dict[str, object]":
    manifest = checked.manifest
    return {
        "backup": str(target),
        "cluster": manifest.cluster,
        "cluster_id": manifest.cluster_id,
        "created": manifest.created,
        "events": manifest.events,
        "files": [kept.name for kept in manifest.files],
    }


COMMANDS = (
    CliCommand(
        "check",
        "",
        "Look for damage in the journal; the head must not run",
        check_journal,
        example="hn journal check",
        notes=(
            "The exit status is 1 if something is damaged. Nothing is changed.",
            "While the head runs, hn backup FILE checks a copy of all of it.",
        ),
    ),
    CliCommand(
        "restore",
        "FILE",
        "Create a state directory from a backup; nothing is overwritten",
        restore,
        options=(
            CliOption(
                "skip", "N", "Job numbers to leave out, for jobs made after the backup (default: 10000)"
            ),
        ),
        example="hn restore /backup/headnode-monday.tar.gz",
        notes=(
            "Each file is compared with its digest, and the journal is replayed, before the directory "
            "is created.",
        ),
    ),
    CliCommand(
        "backup",
        "FILE",
        "Back up the state of a head, which may be running, and check the backup",
        back_up,
        example="hn backup /backup/headnode-monday.tar.gz",
        notes=(
            "The backup contains the journal, the keys and certificates, the name, the address for "
            "other machines, the nodes of this machine, and the audit log. It does not contain "
            "captured output and programs of the site.",
            "For root and the user of the head. hn restore FILE makes a state directory of it.",
        ),
    ),
)
