"""Every store of a head.  A new one gets its row here; all tests of this folder hold it to `engine/ports`."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.engine.ports import HeadStore, Journal, Past
from journal_model import ModelJournal


class AnyStore(Journal, Past, Protocol):
    """What the model has, too, which lasts as long as its process."""


LASTING: Mapping[str, Callable[[Path], HeadStore]] = {"sqlite": SqliteJournal}
"""What opens the store at a path, or makes it there."""
IN_FILES = frozenset({"sqlite"})
"""The stores that keep everything in files at that path.  What syncs, fills up and guards the rows of another
store is not in its process, and cannot be tested here: its row in `LASTING` says what promises that."""
STORES: Mapping[str, Callable[[Path], AnyStore]] = {"memory": lambda _: ModelJournal(), **LASTING}

_WRITER = """
import sys
from pathlib import Path
from headnode.core.state.job_events import JobSubmitted
from stores import LASTING

journal = LASTING[sys.argv[1]](Path(sys.argv[2]))
while True:
    events = [JobSubmitted(at=1.0, job=1, order=n) for n in range(3)]
    sys.stdout.write(f"{journal.append(events)}\\n")
    sys.stdout.flush()
"""


def endless_writer(store: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that appends three events at a time, and prints the last number of each batch."""
    folder = Path(__file__).parent
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, store, path],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{folder.parent}"},
    )
