"""Notices that the journal's files are not those any more that this process writes."""

from pathlib import Path

from headnode.adapters.journal.troubles import replaced

_Identity = tuple[int, int]  # device and number of the file


class OpenFiles:
    """The database and its write-ahead log, as SQLite has them open.

    Whoever removes or replaces one of them lets SQLite write where no later head will read.
    Cost:  two system calls (3 us) for each check; an append has several, and waits for the disk besides.
    """

    def __init__(self, path: Path) -> None:
        """Remember the files that SQLite has opened; a log that it opens later is remembered then."""
        self._files = {file: _identity(file) for file in (path, path.with_name(path.name + "-wal"))}

    def check(self) -> None:
        """See that both files are in their places.

        Raises:  Unavailable ``journal-replaced``.
        """
        for file, identity in self._files.items():
            now = _identity(file)
            if identity is None:
                self._files[file] = now
            elif now != identity:
                raise replaced(file)


def _identity(file: Path) -> _Identity | None:
    try:
        status = file.stat()
    except OSError:  # it is not there, or the directory is not
        return None
    return status.st_dev, status.st_ino
