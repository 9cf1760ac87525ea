"""Which driver reads and writes files of a URL; its library is imported when it is needed."""

from urllib.parse import urlsplit

from headnode.adapters.garbage import without_collection
from headnode.adapters.staging.credentials import Credential
from headnode.adapters.staging.failures import NeverTransferred
from headnode.adapters.staging.storage import Storage


def open_storage(url: str, credential: Credential, timeout: float) -> Storage:
    """Return a driver for a URL.  `timeout` is in seconds without a byte.

    Raises:  NeverTransferred when its library is not installed.
    """
    return without_collection(_opened, url, credential, timeout)


def _opened(url: str, credential: Credential, timeout: float) -> Storage:
    scheme = urlsplit(url).scheme.lower()
    try:
        if scheme == "file":
            from headnode.adapters.staging.local_storage import LocalStorage

            return LocalStorage()
        if scheme in ("http", "https"):
            from headnode.adapters.staging.http_storage import HttpStorage

            return HttpStorage(credential, timeout)
        if scheme == "gsiftp":
            from headnode.adapters.staging.grid_ftp import GridFtp

            return GridFtp(credential, timeout)
        from headnode.adapters.staging.other_storage import open_other

        return open_other(url, credential, timeout)
    except ImportError as error:
        raise NeverTransferred(
            f"{scheme} needs {error.name}, which is not installed on this node",
            "an administrator can: pip install 'headnode[staging]'",
        ) from None
