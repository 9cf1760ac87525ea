"""Makes a state directory from a backup.  What is there already is never overwritten."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from headnode.adapters.backup.checking import Checked, check_backup
from headnode.adapters.files.own_places import refuse_unsafe_state
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.journal.state_directory import CLUSTER_ID, JOURNAL, write_cluster_id
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.decide import decide
from headnode.core.model.errors import Unavailable, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User

SKIPPED: Final = 10_000  # job numbers: those of jobs that were made after the backup must not come again
_BESIDE: Final = frozenset({"head.log"})  # what may be in the directory already


def restore(backup: Path, state: Path, now: Instant, skipped: int = SKIPPED) -> Checked:
    """Check a backup and make the state directory `state` from it; leave out so many job numbers.

    Raises:  WrongState ``restore-exists``; Unavailable ``restore-failed``, ``unsafe-state``, or what
             `check_backup` raises.
    """
    _see_that_nothing_is_there(state)
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o755 if os.geteuid() == 0 else 0o700)
        refuse_unsafe_state(state)
        scratch = Path(tempfile.mkdtemp(prefix=".restore.", dir=state))
        try:
            unpacked = scratch / "unpacked"
            checked = check_backup(backup, unpacked)
            _skip_numbers(unpacked / JOURNAL, checked.cluster, now, skipped)
            write_cluster_id(unpacked, checked.manifest.cluster_id)
            _move(unpacked, state)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            code="restore-failed",
            what=f"{str(state)!r} cannot be restored: {error.strerror or error}",
            fix="check its free space and your rights, or name another directory with --state DIRECTORY",
        ) from error
    return checked


def _see_that_nothing_is_there(state: Path) -> None:
    found = sorted(file.name for file in state.iterdir()) if state.is_dir() else []
    if set(found) - _BESIDE:
        raise WrongState(
            code="restore-exists",
            what=f"the state directory {str(state)!r} is in use: it has {', '.join(found[:3])}",
            fix=f"stop its head with hn down and move it away: mv {state} {state}.old; "
            "or restore elsewhere with --state DIRECTORY",
        )


def _skip_numbers(path: Path, cluster: Cluster, now: Instant, count: int) -> None:
    by = User(name="hn restore", uid=os.geteuid(), gid=os.getegid(), administrator=True)
    journal = SqliteJournal(path, may_create=False)
    try:
        journal.append(decide(cluster, c.SkipNumbers(by=by, count=count), now))
    finally:
        journal.close()


def _move(unpacked: Path, state: Path) -> None:
    """Move all into place: the cluster id first, the journal last, so that no head starts on a part of it."""
    names = {file.name for file in unpacked.iterdir()} - {CLUSTER_ID, JOURNAL, f"{JOURNAL}.lock"}
    for name in (CLUSTER_ID, *sorted(names), JOURNAL):
        (unpacked / name).rename(state / name)
