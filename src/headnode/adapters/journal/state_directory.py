"""Which cluster a state directory belongs to: an id in a file beside the journal, and in the journal.

A journal that is missing, empty or another cluster's is noticed, and no new cluster begins in its place.
"""

import os
from pathlib import Path
from typing import Final

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.journal.troubles import from_system, other_cluster

JOURNAL: Final = "journal.db"
CLUSTER_ID: Final = "cluster-id"


def open_journal(state: Path) -> SqliteJournal:
    """Open the journal of a state directory; make both when the directory belongs to no cluster yet.

    Raises:  Unavailable ``journal-missing``, ``other-cluster``, or what `SqliteJournal` raises.
    """
    path, beside = state / JOURNAL, cluster_id(state)
    journal = SqliteJournal(path, may_create=not beside)
    try:
        if beside and beside != journal.cluster_id:
            raise other_cluster(path, beside, journal.cluster_id)
        if not beside:
            write_cluster_id(state, journal.cluster_id)
    except BaseException:
        journal.close()
        raise
    return journal


def cluster_id(state: Path) -> str:
    """Return the id of the cluster that a state directory belongs to; empty: to none.

    Raises:  Unavailable ``journal-error``.
    """
    file = state / CLUSTER_ID
    try:
        return file.read_text(encoding="ascii").strip() if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise from_system(file, OSError(getattr(error, "errno", 0) or 0, f"{file} does not read")) from error


def write_cluster_id(state: Path, cluster: str) -> None:
    """Write the id, so that it survives a power cut.

    Raises:  Unavailable ``journal-error``.
    """
    scratch = state / f"{CLUSTER_ID}.new"
    try:
        with scratch.open("w", encoding="ascii") as file:
            file.write(cluster + "\n")
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(state / CLUSTER_ID)
    except OSError as error:
        raise from_system(scratch, error) from error
