"""Lines of event logs that could not be written, as on a full disk: kept within bounds, and tried again.

The files of one user may all be out of room.  So no user has more than a share of what is kept, nor takes
more than a few tries until the next rest: logs of other users are written meanwhile.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

MAX_LATE: Final = 1 << 24  # bytes of memory, about, for lines that wait
MAX_OF_USER: Final = MAX_LATE // 4
COST_OF_LOG: Final = 1000  # bytes, about, of each log beside its lines
REST: Final = 30.0  # seconds until a log is tried again
LIFETIME: Final = 24 * 3600.0  # seconds after which it is given up
TRIES: Final = 8  # that fail, until all logs of their user rest


class LogKey(msgspec.Struct, frozen=True):
    """A log, and as whom it is written."""

    path: str
    owner: str
    uid: int
    gid: int


class _LateLines:
    """What is to be appended to a log, of events behind a number."""

    def __init__(self, now: float, behind: int) -> None:
        self.behind, self.texts = behind, list[str]()
        self.since, self.next_try, self.size = now, now + REST, COST_OF_LOG


class LateLogs:
    """The lines that wait, by log.  Times are those of a clock that nobody sets."""

    def __init__(self) -> None:
        self._late: dict[LogKey, _LateLines] = {}
        self._held = Counter[int]()  # by user
        self._failures = Counter[int]()  # by user, since a try succeeded or a rest began
        self._paused: dict[int, float] = {}  # until when, by user

    def __contains__(self, key: LogKey) -> bool:
        return key in self._late

    def __len__(self) -> int:
        return len(self._late)

    def written_up_to(self, number: int) -> int:
        """Return the event up to which all lines are written, if all before `number` are but those here."""
        return min([number, *(late.behind for late in self._late.values())])

    def add(self, key: LogKey, text: str, behind: int, now: float) -> bool:
        """Keep lines of events behind a number; False: there is no room for them."""
        size = len(text) + (0 if key in self._late else COST_OF_LOG)
        if self._held[key.uid] + size > MAX_OF_USER or self._held.total() + size > MAX_LATE:
            return False
        late = self._late.setdefault(key, _LateLines(now, behind))
        late.texts.append(text)
        late.size += len(text)
        self._held[key.uid] += size
        return True

    def due(self, now: float) -> Iterator[tuple[LogKey, str]]:
        """Yield logs to try now, with their lines; after each, `done` or `failed` is called."""
        for key, late in list(self._late.items()):
            if late.next_try <= now and self._paused.get(key.uid, 0.0) <= now:
                yield key, "".join(late.texts)

    def failed(self, key: LogKey, now: float) -> bool:
        """A try has failed; return whether there will be another."""
        late = self._late.pop(key)
        if now - late.since >= LIFETIME:
            self._forget(key, late)
            return False
        late.next_try = now + REST
        self._late[key] = late  # the last in turn
        self._failures[key.uid] += 1
        if self._failures[key.uid] >= TRIES:
            self._failures.pop(key.uid)
            self._paused[key.uid] = now + REST
        return True

    def done(self, key: LogKey) -> None:
        """The lines of a log are written, or never will be."""
        self._forget(key, self._late.pop(key))

    def _forget(self, key: LogKey, late: _LateLines) -> None:
        self._failures.pop(key.uid, None)
        self._held[key.uid] -= late.size
        if not self._held[key.uid]:
            del self._held[key.uid]
            self._paused.pop(key.uid, None)
