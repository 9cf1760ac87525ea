"""GridFTP, by globus-url-copy if it is installed.

It restarts transfers that were cut, and compares the checksums of both ends.
Source: globus-url-copy(1): pairs of URLs are read from standard input, so none is in its arguments."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from headnode.adapters.staging.arrival import ArrivingFile
from headnode.adapters.staging.credentials import PROXY_TEXT, Credential
from headnode.adapters.staging.failures import CHECK_SERVER, ChangedOnTheWay, NeverTransferred, TransferFailed
from headnode.adapters.staging.storage import Seen
from headnode.core.model.staging import file_url

PROGRAM = "globus-url-copy"
RESTARTS = "2"  # of a transfer that was cut, from where it stopped, before it counts as an attempt
RESTART_AFTER = "1"  # s
MIN_STALL = 30.0  # s: restarts count, and an end for a stall hides the reason of the server
_LASTING_CODES = ("530", "550")  # replies of a server
_LASTING = ("authentic", "credential", "expired", "no such file", "permission denied")


class GridFtp:
    """Servers that speak GridFTP."""

    def __init__(self, credential: Credential, timeout: float) -> None:
        self._program = shutil.which(PROGRAM)
        if self._program is None:
            raise NeverTransferred(
                f"gsiftp needs {PROGRAM}, which is not installed on this node",
                "an administrator can install globus-gass-copy-progs",
            )
        self._timeout = timeout
        proxy = credential.path("proxy")
        self._proxy: int | None = None
        if text := credential.get(PROXY_TEXT):
            self._proxy = os.memfd_create("proxy", os.MFD_CLOEXEC)
            os.fchmod(self._proxy, 0o600)  # globus takes no other
            os.write(self._proxy, text.encode())
            proxy = f"/proc/self/fd/{self._proxy}"
        self._verifies = True  # until a server has no checksums
        self._environment = {**os.environ, **({"X509_USER_PROXY": proxy} if proxy else {})}

    @property
    def _passed(self) -> tuple[int, ...]:
        return () if self._proxy is None else (self._proxy,)

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        path = arrival.begin_alone()
        self._copy(url, file_url(path))
        progress(Path(path).stat().st_size)
        return None

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:  # noqa: ARG002
        self._copy(file_url(str(Path(f"/proc/{os.getpid()}/fd/{file}").readlink())), url)
        progress(size)

    def _copy(self, source: str, target: str) -> None:
        assert self._program is not None
        pair = f'"{source}" "{target}"\n'
        if any(sign in source + target for sign in '"\n\\'):
            raise NeverTransferred("the URL has a quote or a line end", "write %22 and %0A")
        stall = str(int(max(self._timeout, MIN_STALL)))
        command = [self._program, "-q", "-cd", "-stall-timeout", stall]
        command += [
            "-rst",
            "-rst-interval",
            RESTART_AFTER,
            "-rst-retries",
            RESTARTS,
            *(("-verify-checksum",) if self._verifies else ()),
            "-f",
            "-",
        ]
        done = subprocess.run(
            command,
            input=pair.encode(),
            capture_output=True,
            env=self._environment,
            pass_fds=self._passed,
            check=False,
        )
        if done.returncode == 0:
            return
        message = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        if "checksum verification failure" in message.lower():
            raise ChangedOnTheWay(f"{PROGRAM}: {message}", CHECK_SERVER)
        if self._verifies and " cksm" in f" {message.lower()}":
            self._verifies = False
            self._copy(source, target)
            return
        if is_lasting(message):
            raise NeverTransferred(f"{PROGRAM}: {message}", "correct the URL, or renew your proxy")
        raise TransferFailed(f"{PROGRAM}: {message}")

    def forget(self, url: str, token: str) -> None:
        """Nothing is written beside a name."""

    def below(self, url: str) -> Iterator[str]:
        assert self._program is not None
        done = subprocess.run(
            [self._program, "-list", url],
            capture_output=True,
            env=self._environment,
            pass_fds=self._passed,
            check=False,
        )
        if done.returncode:
            raise NeverTransferred(f"{url[:200]} cannot be listed", "correct the URL, or renew your proxy")
        for line in done.stdout.decode(errors="replace").splitlines()[1:]:
            name = line.strip()
            if name and not name.endswith("/") and "/" not in name:
                yield name

    def close(self) -> None:
        """Let go of the proxy; each copy has a connection of its own."""
        if self._proxy is not None:
            os.close(self._proxy)
            self._proxy = None


def is_lasting(message: str) -> bool:
    """Return whether a reason stays the same when the transfer is tried again.

    Paths and ports are left out: one may have the number of a reply in it.

    >>> is_lasting("responded with an error 550 /x: not a plain file."), is_lasting("530-Login incorrect.")
    (True, True)
    >>> is_lasting("connect to localhost:35507: refused"), is_lasting("/data/expired 421 timeout")
    (False, False)
    """
    parts = [word for word in message.lower().split() if "/" not in word and ":" not in word.rstrip(":")]
    coded = any(word.startswith(_LASTING_CODES) and not word[3:4].isalnum() for word in parts)
    return coded or any(reason in " ".join(parts) for reason in _LASTING)
