"""Files of a job that are transferred before and after its tasks, and the paths and URLs that name them."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)
_BELOW = re.compile(r"[^/.:?#][^/:?#]*+(?:/[^/.:?#][^/:?#]*+)*+\Z")  # a path without steps of dots
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.~/:@!$&'()*+,;=-]")
_LOCAL_HOSTS = ("", "//", "//localhost")


def is_url(reference: str) -> bool:
    """Whether it says by itself where the file is."""
    return SCHEME.match(reference) is not None


def resolve(base: str, reference: str) -> str:
    """Return the URL of reference, which is a URL or a path below `base`.

    As in a browser: the last part of a base without a slash at its end is replaced, and an absolute path
    starts at the root of the server.

    >>> resolve("gsiftp://example.org/my/files/", "a/../b.txt")
    'gsiftp://example.org/my/files/b.txt'
    >>> resolve("gsiftp://example.org/my/files/", "/bar.txt")
    'gsiftp://example.org/bar.txt'
    """
    if is_url(reference):
        return reference
    parts = _PARTS.fullmatch(base)
    if parts is None:
        return reference
    scheme, host, path = parts[1], parts[2] or "", parts[3]
    if reference.startswith("//"):
        return scheme + reference
    joined = reference if reference.startswith("/") else path[: path.rfind("/") + 1] + reference
    return scheme + host + _without_dots(joined)


class StorageBase:
    """A storage base, of which much is resolved."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._directory = resolve(url, "x")[:-1] if is_url(url) else ""  # before a path without dots
        self._is_far = self._directory != "" and self._directory[:5].lower() != "file:"

    def resolve(self, reference: str) -> str:
        """Return the URL of reference, as `resolve` does."""
        if self._directory and _BELOW.match(reference):
            return self._directory + reference
        return resolve(self.url, reference)

    def is_far_below(self, reference: str) -> bool:
        """Whether reference is a path below a base on another machine."""
        return self._is_far and _BELOW.match(reference) is not None

    def makes_url(self, reference: str) -> bool:
        """Whether reference is a URL, or becomes one below the base."""
        return self._directory != "" or is_url(reference)


def _without_dots(path: str) -> str:
    """Take ``.`` and ``..`` out of a path; nothing is above the root."""
    if "/." not in path and not path.startswith("."):
        return path
    kept: list[str] = []
    steps = path.split("/")
    for step in steps:
        if step == "..":
            kept = kept[:-1] if len(kept) > 1 else kept
        elif step != ".":
            kept.append(step)
    if steps[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def local_path(url: str) -> str:
    """Return the path of a file of this machine or of a file system that all nodes share; "" for any other.

    >>> local_path("file:///home/ann/a%20b"), local_path("gsiftp://example.org/x")
    ('/home/ann/a b', '')
    """
    parts = _PARTS.fullmatch(url) if url[:5].lower() == "file:" else None
    if parts is None or (parts[2] or "").lower() not in _LOCAL_HOSTS or parts[4]:
        return ""
    decoded = _PERCENT.sub(lambda found: bytes([int(found[1], 16)]), parts[3].encode())
    try:
        path = decoded.decode()
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in path or path.endswith("/") else path


def file_url(path: str) -> str:
    """Return the URL of an absolute path.

    >>> file_url("/home/ann/a b")
    'file:///home/ann/a%20b'
    """
    escaped = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], path.encode())
    return f"file://{escaped.decode()}"


def joined_path(directory: str, path: str) -> str:
    """Return `path` below `directory`, or as it is when it is absolute.

    >>> joined_path("/home/ann", "../bob/x")
    '/home/bob/x'
    """
    return posixpath.normpath(posixpath.join(directory, path))


BASE, ATTEMPTS = "default_storage_base", "max_transfer_attempts"
STREAMS: Mapping[str, str] = {
    "stdin": "standard_input",
    "stdout": "standard_output",
    "stderr": "standard_error",
}
"""The standard streams, and their fields in a task."""

DEFAULT_ATTEMPTS = 5
_LISTS = ("input_files", "output_files")
_SHOWN = 10


class TransferDirection(StrEnum):
    """Which way a file goes."""

    IN = "in"  # to the node, before the task runs
    OUT = "out"  # from the node, after the task has ended


class FileTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or directory with everything in it, of one task.

    `local` is the name at the node, absolute or in the directory of the task, or ``stdin``, ``stdout`` or
    ``stderr`` when `stream` is true.  `attempts` is how often it is tried.
    """

    task: int
    direction: TransferDirection
    local: str
    url: str
    stream: bool = False
    directory: bool = False
    attempts: int = DEFAULT_ATTEMPTS


def transfers_of(spec: JobSpec) -> tuple[FileTransfer, ...]:
    """Return what must be transferred for the tasks of a job, in their order; nothing for most jobs.

    Paths that no storage base makes URLs of are left out: the description says that they are ignored.
    """
    return tuple(found for number, task in enumerate(spec.tasks, 1) for found in _of_task(spec, number, task))


def refuse_transfers(spec: JobSpec) -> None:
    """Refuse a job that needs files transferred, naming its tasks: for heads that cannot do it.

    Raises:  BadRequest ``needs-transfer``.
    """
    needing: dict[int, FileTransfer] = {}
    for transfer in transfers_of(spec):
        needing.setdefault(transfer.task, transfer)
    if not needing:
        return
    shown = [_called(spec, number) for number in list(needing)[:_SHOWN]]
    more = f" and {len(needing) - _SHOWN} more" if len(needing) > _SHOWN else ""
    first = next(iter(needing.values()))
    way = f"from {first.url!r}" if first.direction is TransferDirection.IN else f"to {first.url!r}"
    raise BadRequest(
        code="needs-transfer",
        what=f"files of {', '.join(shown)}{more} would have to be transferred, first {first.local!r} {way}",
        fix="Headnode copies no files: put them where all nodes can read them, use those paths in "
        "executable, arguments, stdin, stdout and stderr, and leave input_files and output_files out",
        path=("tasks", first.task - 1),
    )


def _called(spec: JobSpec, number: int) -> str:
    name = spec.tasks[number - 1].name
    return f"task {number} ({name!r})" if name else f"task {number}"


def _of_task(spec: JobSpec, number: int, task: TaskSpec) -> Iterator[FileTransfer]:
    said = task.extensions
    if not any(f"definition.{key}" in said for key in (*_LISTS, *STREAMS)):
        return
    base = said.get(f"definition.{BASE}", spec.extensions.get(BASE, ""))
    attempts = _attempts(said.get(f"definition.{ATTEMPTS}", spec.extensions.get(ATTEMPTS, "")))
    for key in _LISTS:
        direction = TransferDirection.IN if key == "input_files" else TransferDirection.OUT
        for local, reference in _files(said.get(f"definition.{key}", "")).items():
            url = resolve(base, reference)
            if is_url(url):
                directory = local.endswith("/") or url.endswith("/")
                yield FileTransfer(
                    task=number,
                    direction=direction,
                    local=local,
                    url=url,
                    directory=directory,
                    attempts=attempts,
                )
    for key in STREAMS:
        url = resolve(base, said.get(f"definition.{key}", ""))
        if is_url(url) and f"definition.{key}" in said:
            direction = TransferDirection.IN if key == "stdin" else TransferDirection.OUT
            yield FileTransfer(
                task=number, direction=direction, local=key, url=url, stream=True, attempts=attempts
            )


def _attempts(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else DEFAULT_ATTEMPTS


def _files(text: str) -> dict[str, str]:
    """Return the files of an extension; what is no object of texts came from elsewhere and names none."""
    try:
        found: Any = msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
    return dict(found)
