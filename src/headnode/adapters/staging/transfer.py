"""The transfer process: brings the files of one attempt to its node, or takes them away, as its user.

It reads an order from descriptor 3, and ends when its standard input is closed.  It says in lines of JSON how
far it is:  ``["moved", files, of files, bytes, of bytes, host it waits for]``, ``["file", path]`` of one that
is whole, and last ``["done", bytes]`` or ``["failed", sentence]``."""

import contextlib
import json
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from headnode.adapters.staging.arrival import ArrivingFile
from headnode.adapters.staging.credentials import read_credential
from headnode.adapters.staging.drivers import open_storage
from headnode.adapters.staging.failures import (
    CHECK_SERVER,
    ChangedOnTheWay,
    NeverTransferred,
    TransferFailed,
    of_error,
    refuse_unnamable,
    shown,
)
from headnode.adapters.staging.local_storage import made_files, note_brought, open_source
from headnode.adapters.staging.network_guard import NetworkGuard, networks_of, why_refused
from headnode.adapters.staging.storage import Storage

ORDER = 3  # the descriptor of a file that has the order
MAX_FILES = 100_000  # of one attempt, those in directories counted
MAX_MEMORY = 2 << 30  # bytes: whatever a server sends, this process grows no larger
MAX_PAUSE = 60.0  # seconds between two attempts, unless the storage asks for more
SLOWEST = 1024  # bytes in the time that may pass without one
_MAX_WORDS = 1500  # characters of a failure
_TELL_EVERY = 1.0  # seconds


class FileOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file or directory: its path on the node, relative to the scratch directory, and its URL."""

    path: str
    url: str
    directory: bool = False
    mode: int | None = None
    size: int | None = None
    checksum: str = ""
    credential: str = ""


class TransferOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a transfer process does.  `done` are paths that an earlier process has transferred."""

    direction: str
    directory: str
    token: str
    home: str
    files: list[FileOrder]
    attempts: int
    timeout: float
    networks: list[str]
    at_once: int
    done: list[str] = []
    notes: bool = False  # what was brought, since new files are taken away


class Progress:
    """How far the transfers are; threads add to it."""

    def __init__(self) -> None:
        self.note: Callable[[str], None] = lambda path: send("file", path)  # a file is whole
        self._lock = threading.Lock()
        self.files = self.of_files = self.size = 0
        self.sizes: dict[str, int] = {}  # of the files whose sizes are known, by their paths
        self.waiting: dict[str, float] = {}  # hosts, and until when they are left alone
        self._told: list[Any] = []

    def add(self, size: int) -> None:
        """So many bytes more were moved."""
        with self._lock:
            self.size += size

    def finished(self, path: str) -> None:
        """A file is whole."""
        with self._lock:
            self.files += 1
            self.note(path)

    def report(self) -> None:
        """Say how far it is, if that has changed."""
        with self._lock:
            waits_for = next(iter(self.waiting), "")
            of_size = sum(self.sizes.copy().values()) if len(self.sizes) == self.of_files else 0
            values = [self.files, self.of_files, self.size, of_size, waits_for]
            if values != self._told:
                self._told = values
                send("moved", *values)


class Pace:
    """Counts the bytes of one file, and gives one up that comes too slowly."""

    def __init__(self, progress: Progress, path: str, timeout: float) -> None:
        self._progress, self._timeout = progress, timeout
        self._since, self._moved = time.monotonic(), 0
        self._whole, self._path = 0, path

    def expect(self, size: int | None) -> None:
        """So many bytes the file has; None: the storage does not say."""
        if size is not None:
            self._progress.sizes[self._path] = size

    def take_back(self) -> None:
        """Count nothing of this attempt: the next one counts what it finds."""
        self._progress.add(-self._whole)

    def __call__(self, size: int) -> None:
        self._progress.add(size)
        self._whole += size
        self._moved += size
        now = time.monotonic()
        if now - self._since < self._timeout:
            return
        if self._moved < SLOWEST:
            raise TransferFailed(f"less than {SLOWEST} bytes came in {self._timeout:g} s")
        self._since, self._moved = now, 0


class Transfers:
    """Transfers the files of an order, several at a time."""

    def __init__(self, order: TransferOrder, guard: NetworkGuard | None) -> None:
        self._order, self._guard = order, guard
        self.progress = Progress()
        self._mine = threading.local()
        self._over = threading.Event()  # nothing more is to be tried

    def run(self) -> None:
        """Transfer everything.  Raises:  TransferFailed, the first; what leaves is tried all the same."""
        files = list(self._single_files())
        self.progress.of_files = len(files)
        self.progress.sizes.update({file.path: file.size for file in files if file.size is not None})
        done = set(self._order.done)
        with ThreadPoolExecutor(max(1, min(self._order.at_once, len(files)))) as pool:
            work = {pool.submit(self._file, file) for file in files if file.path not in done}
            self.progress.files = len(files) - len(work)
            failure = self._watch(work)
        self.progress.report()
        if failure is not None:
            raise failure
        if self._order.notes and self._order.direction == "in":
            note_brought(self._order.directory)

    def _watch(self, work: "set[Future[None]]") -> TransferFailed | None:
        failure: TransferFailed | None = None
        while work:
            over, work = wait(work, _TELL_EVERY, FIRST_EXCEPTION)
            self.progress.report()
            for each in over:
                wrong = None if each.cancelled() else each.exception()
                if wrong is None:
                    continue
                if not isinstance(wrong, TransferFailed):
                    raise wrong
                failure = failure or wrong
                if self._order.direction == "in":
                    self._over.set()
                    for other in work:
                        other.cancel()
        return failure

    def _single_files(self) -> Iterator[FileOrder]:
        """Yield every file; those of directories by their own names."""
        count = 0
        for file in self._order.files:
            for one in self._files_of(file) if file.directory else (file,):
                count += 1
                if count > MAX_FILES:
                    raise NeverTransferred(
                        f"there are more than {MAX_FILES:,} files", "put them into archives"
                    )
                yield one

    def _files_of(self, file: FileOrder) -> list[FileOrder]:
        place, url = file.path.rstrip("/"), file.url.rstrip("/")
        if self._order.direction == "out":
            try:
                names = made_files(self._order.directory, file.path, MAX_FILES)
            except OSError as error:
                raise of_error(error, repr(place)) from error
        else:
            names = self._again(file, self._listed)
            Path(self._path(place)).mkdir(parents=True, exist_ok=True)
        return [
            msgspec.structs.replace(
                file,
                path=f"{place}/{name}",
                url=f"{url}/{quote(os.fsencode(name))}",
                directory=False,
                size=None,
            )
            for name in names
        ]

    def _listed(self, file: FileOrder) -> list[str]:
        url = file.url.rstrip("/")
        paths: list[str] = []
        places: dict[str, str] = {}  # of a path here, its name there
        for name in self._storage(file).below(f"{url}/"):
            if name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise NeverTransferred(f"{shown(url)} lists {name[:80]!r}, which is not below it")
            plain = os.path.normpath(name)
            if plain in places:
                raise NeverTransferred(
                    f"{shown(url)} lists {places[plain][:80]!r} and {name[:80]!r}, which are one file here",
                    "name the files one by one",
                )
            places[plain] = name
            paths.append(name)
            if len(paths) > MAX_FILES:
                raise NeverTransferred(f"{shown(url)} has more than {MAX_FILES:,} files", "name fewer files")
        return paths

    def _path(self, name: str) -> str:
        return os.path.join(self._order.directory, name)  # noqa: PTH118 - a Path takes its slashes away

    def _storage(self, file: FileOrder) -> Storage:
        """Return the driver of this thread for a file."""
        kept: dict[tuple[str, str, str], Storage] = self._mine.__dict__.setdefault("storages", {})
        parts = urlsplit(file.url)
        key = (parts.scheme, parts.netloc, file.credential)
        if key not in kept:
            credential = read_credential(
                file.credential, self._order.home, parts.scheme.lower(), parts.hostname or ""
            )
            kept[key] = open_storage(file.url, credential, self._order.timeout)
        return kept[key]

    def _forget_storages(self) -> None:
        kept: dict[Any, Storage] = self._mine.__dict__.pop("storages", {})
        for storage in kept.values():
            storage.close()

    def _forget_part(self, file: FileOrder) -> None:
        """Leave no part of a result on the storage, if that still answers."""
        with contextlib.suppress(TransferFailed, OSError, EOFError, ValueError):
            self._storage(file).forget(file.url, self._order.token)

    def _file(self, file: FileOrder) -> None:
        refuse_unnamable(file.path)
        self._again(file, self._bring if self._order.direction == "in" else self._take)
        self.progress.finished(file.path)

    def _again(self, file: FileOrder, do: Any) -> Any:
        """Do it until it is done, or may not be tried again.

        Raises:  TransferFailed with the URL, the attempt and what to do.
        """
        changed = 0
        for attempt in range(1, self._order.attempts + 1):
            if self._over.is_set():
                raise TransferFailed("another file has failed")
            try:
                return do(file)
            except Exception as error:  # noqa: BLE001  (libraries raise anything for what a server makes up)
                failure = self._failure(error, file)
            changed += isinstance(failure, ChangedOnTheWay)
            last = failure.permanent or changed > 1 or attempt == self._order.attempts
            self._forget_storages()
            if self._order.direction == "out" and (last or isinstance(failure, ChangedOnTheWay)):
                self._forget_part(file)
            if last:
                raise self._last_word(failure, file, attempt)
            self._pause(file, failure, attempt)
        raise TransferFailed("no attempt is allowed")

    def _failure(self, error: Exception, file: FileOrder) -> TransferFailed:
        if self._guard is not None and self._guard.refused:
            return NeverTransferred(*why_refused(self._guard.refused))
        if isinstance(error, TransferFailed):
            return error
        if isinstance(error, OSError):
            return of_error(error, (error.filename and repr(error.filename)) or shown(file.url))
        if isinstance(error, MemoryError):
            return NeverTransferred(
                f"{shown(file.url)}: its server sends more than fits in memory", CHECK_SERVER
            )
        if isinstance(error, EOFError):
            return TransferFailed(f"{urlsplit(file.url).hostname} has ended the connection")
        if isinstance(error, ValueError):  # no request can be made of it, such as one with a line end
            return NeverTransferred(f"{shown(file.url)}: {str(error)[:200]}", "correct the URL")
        what = f"{type(error).__name__}: {str(error)[:200]}"
        return TransferFailed(f"{shown(file.url)}: the answer of its server is not understood ({what})")

    def _last_word(self, failure: TransferFailed, file: FileOrder, attempt: int) -> TransferFailed:
        way = f"from {shown(file.url)}" if self._order.direction == "in" else f"to {shown(file.url)}"
        times = f"attempt {attempt} of {self._order.attempts}"
        fix = f"; {failure.fix}" if failure.fix else ""
        message = f"{file.path!r} was not transferred {way} ({times}): {failure.what}{fix}"
        return NeverTransferred(message[:_MAX_WORDS])

    def _pause(self, file: FileOrder, failure: TransferFailed, attempt: int) -> None:
        host = urlsplit(file.url).hostname or "this node"
        pause = max(failure.after, min(2.0 ** (attempt - 1), MAX_PAUSE) * random.uniform(0.5, 1.0))  # noqa: S311
        self.progress.waiting[host] = time.monotonic() + pause
        self._over.wait(pause)
        self.progress.waiting.pop(host, None)

    @contextlib.contextmanager
    def _paced(self, file: FileOrder) -> Iterator[Pace]:
        pace = Pace(self.progress, file.path, self._order.timeout)
        try:
            yield pace
        except BaseException:
            pace.take_back()
            raise

    def _bring(self, file: FileOrder) -> None:
        arrival = ArrivingFile(self._path(file.path), self._order.token)
        try:
            with self._paced(file) as pace:
                size = self._storage(file).fetch(file.url, arrival, pace)
                arrival.finish(size if file.size is None else file.size, file.checksum, file.mode)
        finally:
            arrival.close()

    def _take(self, file: FileOrder) -> None:
        opened = open_source(self._path(file.path))
        try:
            size = os.fstat(opened).st_size
            with self._paced(file) as pace:
                pace.expect(size)
                self._storage(file).store(opened, size, file.url, self._order.token, pace)
        finally:
            os.close(opened)


def send(*words: Any) -> None:
    """Send a line to the process that started this one."""
    os.write(1, json.dumps(words).encode() + b"\n")


def end_with_parent() -> None:
    """End this process, with the programs started here, when the one that wants the files has ended."""
    threading.Thread(target=_await_parent, daemon=True).start()


def _await_parent() -> None:
    while os.read(0, 1):
        pass
    if os.getpgid(0) == os.getpid():  # else the group is that of who started it by hand
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def bound_memory() -> None:
    """Let this process grow no further than it may."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = MAX_MEMORY if most == resource.RLIM_INFINITY else min(MAX_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def guarded(order: TransferOrder) -> Transfers:
    """Return the transfers of an order, in a process that connects no further than it may."""
    networks = networks_of(order.networks)
    guard = None if networks is None else NetworkGuard(networks)
    if guard is not None:
        guard.start()
    return Transfers(order, guard)


def words_of(failure: TransferFailed) -> str:
    """Return what a failure is told with."""
    text = failure.what if "was not transferred" in failure.what else f"{failure.what}; {failure.fix}"
    return text.rstrip("; ")[:_MAX_WORDS]


def main() -> None:
    """Do what the order on standard input says."""
    with os.fdopen(ORDER, "rb") as file:
        order = msgspec.json.decode(file.read(), type=TransferOrder)
    end_with_parent()
    bound_memory()
    transfers = guarded(order)
    try:
        transfers.run()
    except TransferFailed as failure:
        send("failed", words_of(failure))
    else:
        send("done", transfers.progress.size)
