"""Paths and URLs of files that are not at the node, and which of them need no transfer.

Source: grid, "input_files, output_files" and "default_storage_base"; RFC 3986, section 5.
"""

import posixpath
import re

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
    """Return the URL of `reference`, which is a URL or a path below `base`.

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


class Base:
    """A storage base, of which much is resolved."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._directory = resolve(url, "x")[:-1] if is_url(url) else ""  # before a path without dots
        self._is_far = self._directory != "" and self._directory[:5].lower() != "file:"

    def resolve(self, reference: str) -> str:
        """Return the URL of `reference`, as `resolve` does."""
        if self._directory and _BELOW.match(reference):
            return self._directory + reference
        return resolve(self.url, reference)

    def is_far_below(self, reference: str) -> bool:
        """Whether `reference` is a path below a base on another machine."""
        return self._is_far and _BELOW.match(reference) is not None

    def makes_url(self, reference: str) -> bool:
        """Whether `reference` is a URL, or becomes one below the base."""
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
