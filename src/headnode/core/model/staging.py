"""Files that are transferred before and after tasks, and the paths and URLs that name them.

Only jobs that stage files import this.
Source: RFC 3986, section 5, for paths below a base; grid, "input_files", "output_files", "stdin"."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from headnode.core.model.job import JobSpec
from headnode.core.model.task import StagedFile, TaskSpec, TaskType, is_far, program_url, substitute
from headnode.core.model.value_checks import JobPart

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)
_BELOW = re.compile(r"[^/.:?#][^/:?#]*+(?:/[^/.:?#][^/:?#]*+)*+\Z")  # a path without steps of dots
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.~/:@!$&'()*+,;=-]")
_LOCAL_HOSTS = ("", "//", "//localhost")


def is_url(reference: str) -> bool:
    """Whether it says by itself where the file is."""
    return SCHEME.match(reference) is not None


def scheme_of(url: str) -> str:
    """Return the scheme of a URL in lower case."""
    return url.partition(":")[0].lower()


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

    def far_url(self, reference: str) -> str:
        """Return the URL of a path below a base on another machine; "" for any other reference."""
        return self._directory + reference if self._is_far and _BELOW.match(reference) else ""

    @property
    def is_set(self) -> bool:
        """Whether every reference becomes a URL below the base, if it is none."""
        return self._directory != ""


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


def unquoted(text: str) -> str:
    """Return a part of a URL with its characters in place of their numbers; "" if it is not UTF-8.

    >>> unquoted("a%20b"), unquoted("%ff")
    ('a b', '')
    """
    try:
        return _PERCENT.sub(lambda match: bytes([int(match[1], 16)]), text.encode()).decode()
    except UnicodeDecodeError:
        return ""


def local_path(url: str) -> str:
    """Return the path of a file of this machine or of a file system that all nodes share; "" for any other.

    >>> local_path("file:///home/ann/a%20b"), local_path("gsiftp://example.org/x")
    ('/home/ann/a b', '')
    """
    parts = _PARTS.fullmatch(url) if url[:5].lower() == "file:" else None
    if parts is None or (parts[2] or "").lower() not in _LOCAL_HOSTS or parts[4]:
        return ""
    path = unquoted(parts[3])
    return "" if "\0" in path or path.endswith("/") else path


def file_url(path: str) -> str:
    """Return the URL of an absolute path.

    >>> file_url("/home/ann/a b")
    'file:///home/ann/a%20b'
    """
    escaped = _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], path.encode())
    return f"file://{escaped.decode()}"


def joined_path(directory: str, path: str) -> str:
    """Return `path` below `directory`, or as it is when it is absolute.

    >>> joined_path("/home/ann", "../bob/x")
    '/home/bob/x'
    """
    return posixpath.normpath(posixpath.join(directory, path))


SCHEMES = ("file", "http", "https", "ftp", "sftp", "s3", "gsiftp")
"""Schemes of storage from which and to which files are transferred."""

DEFAULT_ATTEMPTS = 5
NEW_FILES = "./"
"""The path of what is taken away that means the files at the top which the task has made or changed."""
STREAMS: Mapping[str, str] = {
    "stdin": "standard_input",
    "stdout": "standard_output",
    "stderr": "standard_error",
}
"""The standard streams, and their fields in a task."""

CHECKSUMS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
"""Kinds of checksums, and how many hexadecimal digits each has."""

_CHECKSUM = re.compile(r"([a-z0-9]{1,10}):([0-9a-fA-F]{1,200})")
CREDENTIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MAX_MODE = 0o777


class TransferDirection(StrEnum):
    """Which way a file goes."""

    IN = "in"  # to the node, before the task runs
    OUT = "out"  # from the node, after the task has ended


class FileTransfer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file, or directory with everything in it, of one attempt of a task.

    `path` is the one at the node, absolute or in the scratch directory of the task; with `stream` it is
    ``stdin``, ``stdout`` or ``stderr``, or ``executable`` for the program.
    """

    direction: TransferDirection
    path: str
    url: str
    stream: bool = False
    directory: bool = False
    mode: int | None = None
    size: int | None = None
    checksum: str = ""
    credential: str = ""


def attempts_of(spec: JobSpec, task: TaskSpec) -> int:
    """Return how often the transfer of a file of a task is tried."""
    for attempts in (task.transfer_attempts, spec.transfer_attempts):
        if attempts is not None:
            return max(attempts, 1)
    return DEFAULT_ATTEMPTS


def transfers_of(spec: JobSpec, task: TaskSpec, instance: int = 1) -> tuple[FileTransfer, ...]:
    """Return what is transferred for an instance of a task, in the order in which it is written.

    In a sweep, ``*`` in paths and URLs is the value of the instance.
    """
    return tuple(_of_task(spec, task, instance)) if task.stages else ()


def _of_task(spec: JobSpec, task: TaskSpec, instance: int) -> Iterator[FileTransfer]:
    base = StorageBase(task.storage_base or spec.storage_base)
    credential = task.credential or spec.credential

    def swept(text: str) -> str:
        return substitute(text, task.value(instance)) if task.kind is TaskType.SWEEP else text

    program = program_url(task.command)
    if program:
        yield FileTransfer(
            direction=TransferDirection.IN,
            path="executable",
            url=swept(program),
            stream=True,
            mode=0o755,
            credential=credential,
        )
    for direction, files in ((TransferDirection.IN, task.stage_in), (TransferDirection.OUT, task.stage_out)):
        for one in files:
            path, url = swept(one.path), base.resolve(swept(one.url))
            yield FileTransfer(
                direction=direction,
                path=path,
                url=url,
                directory=path.endswith("/") or url.endswith("/"),
                mode=one.mode,
                size=one.size,
                checksum=one.checksum,
                credential=one.credential or credential,
            )
    for key, field in STREAMS.items():
        url = getattr(task, field)
        if is_far(url):
            direction = TransferDirection.IN if key == "stdin" else TransferDirection.OUT
            yield FileTransfer(
                direction=direction, path=key, url=swept(url), stream=True, credential=credential
            )


def host_of(url: str) -> str:
    """Return the host of a URL, without user and port; "" for a file of the node.

    >>> host_of("sftp://ann@example.org:22/x"), host_of("file:///x"), host_of("http://[::1]:80/x")
    ('example.org', '', '::1')
    """
    parts = _PARTS.fullmatch(url)
    place = (parts[2] or "")[2:].rpartition("@")[2] if parts else ""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0].lower()


def check_staging(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    """Refuse a task whose files cannot be staged as it says.

    Raises:  BadRequest ``staging``, ``staging-url``, ``storage-base``, ``staged-path``.
    """
    if task.append_output and is_far(task.standard_output):
        _refuse_append(part, "append_output", "standard output")
    if task.append_error and is_far(task.standard_error):
        _refuse_append(part, "append_error", "standard error")
    for field in ("stage_in", "stage_out"):
        _check_files(spec, task, part, field, getattr(task, field))
    for key, field in STREAMS.items():
        url = getattr(task, field)
        if is_far(url):
            _check_url(part, url, key, field)
            if url.endswith("/"):
                part.refuse("staging-url", f"{key} of {part} is a directory", "name a file", field)
    program = program_url(task.command)
    if program:
        _check_url(part, program, "the program", "command")
    _check_credential(part, task.credential or spec.credential)


def _refuse_append(part: JobPart, field: str, what: str) -> None:
    text = f"{what} of {part} is a URL, and nothing can be appended there"
    part.refuse("staging", text, "name a file on the node, or write a new file", field)


def _check_files(
    spec: JobSpec, task: TaskSpec, part: JobPart, field: str, files: Sequence[StagedFile]
) -> None:
    base, seen = StorageBase(task.storage_base or spec.storage_base), set[str]()
    for at, one in enumerate(files):
        inside = part.inside(field, at)
        url = base.resolve(one.url)
        if not is_url(url):
            what = f"{one.url[:80]!r} of {part} is not a URL, and there is no storage base"
            inside.refuse("storage-base", what, "write a URL, or a storage base for the job", "url")
        _check_url(inside, url, repr(one.path[:80]), "url")
        _check_path(inside, part, one.path)
        name = one.path.rstrip("/") if field == "stage_in" else url
        if name in seen:
            what = f"{name[:80]!r} is listed twice in {field} of {part}"
            inside.refuse("staging", what, "name each file once", "path")
        seen.add(name)
        _check_details(inside, part, one, field)


def _check_details(inside: JobPart, part: JobPart, one: StagedFile, field: str) -> None:
    if one.mode is not None and not 0 <= one.mode <= _MAX_MODE:
        what = f"the mode {one.mode:o} of {one.path[:80]!r} of {part} is not possible"
        inside.refuse("staging", what, "write the permissions as in chmod, from 0 to 777", "mode")
    if one.size is not None and one.size < 0:
        what = f"the size of {one.path[:80]!r} of {part} is {one.size}"
        inside.refuse("staging", what, "write bytes, or leave it out", "size")
    if one.checksum:
        match = _CHECKSUM.fullmatch(one.checksum)
        if match is None or len(match[2]) != CHECKSUMS.get(match[1], 0):
            what = f"the checksum {one.checksum[:80]!r} of {part} is not understood"
            kinds = ", ".join(CHECKSUMS)
            inside.refuse("staging", what, f"write KIND:DIGITS; kinds are {kinds}", "checksum")
    if field == "stage_out" and (one.mode is not None or one.size is not None or one.checksum):
        what = f"{one.path[:80]!r} of {part} is copied from the node, and has a mode, a size or a checksum"
        inside.refuse("staging", what, "leave them out: they apply only to files that are copied to the task")
    _check_credential(inside, one.credential)


def _check_credential(part: JobPart, name: str) -> None:
    if name and not CREDENTIAL.fullmatch(name):
        what = f"the credential {name[:20]!r} of {part} is not a name"
        fix = "write the name of your file of credentials, without a path; see docs/staging.md"
        part.refuse("staging", what, fix, "credential")


def _check_url(part: JobPart, url: str, whose: str, field: str) -> None:
    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        what = f"files cannot be staged by {scheme[:20]!r} ({whose} of {part})"
        part.refuse("staging-url", what, f"the schemes are {', '.join(SCHEMES)}", field)
    parts = _PARTS.fullmatch(url)
    place = (parts[2] or "") if parts else ""
    if ":" in place.rpartition("@")[0][2:]:
        what = f"the URL of {whose} of {part} has a password in it, and all users can read it"
        part.refuse("staging-url", what, 'name a file of credentials: credential = "NAME"', field)
    if any(ord(letter) < 33 or ord(letter) == 127 for letter in url):
        part.refuse("staging-url", f"the URL of {whose} of {part} has a blank", "write %20 for it", field)
    if scheme == "file":
        if not local_path(url.rstrip("/") or url):
            what = f"{url[:80]!r} of {part} names no file of the node"
            part.refuse("staging-url", what, "write file:///PATH", field)
    elif not host_of(url):
        part.refuse("staging-url", f"{url[:80]!r} of {part} has no host", f"write {scheme}://HOST/", field)


def _check_path(inside: JobPart, part: JobPart, path: str) -> None:
    steps = path.strip("/").split("/")
    if not path.strip("/") or "\0" in path or ".." in steps:
        what = f"{path[:80]!r} of {part} is not a path of a staged file"
        fix = "write a name below the directory of the task, or an absolute path, without '..'"
        inside.refuse("staged-path", what, fix, "path")
