"""Where a browser goes on after a log-in: only to paths of this gateway."""

from urllib.parse import urlsplit


def local_path(address: str) -> str:
    r"""Return a path of this gateway to go on to; ``/`` for every other address.

    >>> [local_path(each) for each in ("/jobs?page=2", "//evil.example/", "https://evil.example", "/\\evil")]
    ['/jobs?page=2', '/', '/', '/']
    """
    plain = address.isascii() and address.isprintable() and "\\" not in address
    if not plain or not address.startswith("/") or address.startswith("//"):
        return "/"
    parts = urlsplit(address)
    return "/" if parts.scheme or parts.netloc else address
