"""Uploads: written beside their names, continued where they stopped, compared with what the server has.

Source: RFC 9530, "Repr-Digest"; RFC 3230, "Digest", which storage of grids has, also with adler32; RFC 1864,
"Content-MD5"; Amazon S3 API Reference, "Object": when an ETag is an MD5.
"""

import base64
import binascii
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Mapping

from headnode.adapters.staging.arrival import CHUNK
from headnode.adapters.staging.failures import ChangedOnTheWay

_MAX_NAME = 150  # characters of a name that is part of another


def part_name(name: str, token: str) -> str:
    """Return the name beside a name, of one attempt.

    >>> part_name("result", "7.1.1.1-ab")
    '.result.part-7.1.1.1-ab'
    """
    return f".{name[:_MAX_NAME]}.part-{token}"


def same_so_far(file: int, size: int, there: int, end: Callable[[int], bytes]) -> int:
    """Return from which byte an upload goes on: behind those that are there, if they end as the file does.

    `end` returns what is there from a byte on.  A server that crashed may have lost the last of what it took.
    """
    begin = max(0, there - CHUNK)
    if 0 < there <= size and end(begin) == os.pread(file, there - begin, begin):
        return there
    return 0


WANTED_CHECKSUMS = {
    "Want-Repr-Digest": "sha-256=3, md5=1",
    "Want-Digest": "sha-256, md5;q=0.5, adler32;q=0.3",
}
"""What a server is asked to tell in a HEAD."""

_FIX = "check the files on the server, or ask its administrator"
_KINDS = {"sha-512": "sha512", "sha-256": "sha256", "sha": "sha1", "md5": "md5", "adler32": "adler32"}
_MD5 = re.compile(r'"[0-9a-f]{32}"')


def compare_upload(headers: Mapping[str, str], file: int, size: int) -> None:
    """Compare what a server says of a file, asked by HEAD, with the file that was sent.

    A length counts only beside a time or a tag: servers that make up their answers have neither.
    Raises:  ChangedOnTheWay.
    """
    length = headers.get("Content-Length", "") if "ETag" in headers or "Last-Modified" in headers else ""
    if (
        length.isascii()
        and length.isdigit()
        and int(length[:19]) != size
        and "Content-Encoding" not in headers
    ):
        raise ChangedOnTheWay(f"the server has {length[:19]} bytes of it, and should have {size}", _FIX)
    _compare_first({**_digests_in_headers(headers), **_digest_of_s3(headers)}, file, size)


def compare_tag(headers: Mapping[str, str], file: int, size: int) -> None:
    """Compare the tag with which object storage answers a PUT; nothing else there is about the file.

    Raises:  ChangedOnTheWay.
    """
    _compare_first(_digest_of_s3(headers), file, size)


def _compare_first(digests: dict[str, bytes], file: int, size: int) -> None:
    """Compare the checksum that says most."""
    kind = next((kind for kind in _KINDS.values() if kind in digests), "")
    if kind and digests[kind] != (digest := _digest(kind, file, size)):
        what = (
            f"the server has the checksum {kind}:{digests[kind].hex()[:128]}, and should have {digest.hex()}"
        )
        raise ChangedOnTheWay(what, _FIX)


def _digests_in_headers(headers: Mapping[str, str]) -> dict[str, bytes]:
    parts = ",".join((headers.get("Repr-Digest", ""), headers.get("Digest", ""))).split(",")
    pairs = [
        (name.strip().lower(), text.strip()) for name, _, text in (part.partition("=") for part in parts)
    ]
    known = [
        (_KINDS[name], text.removeprefix(":").removesuffix(":")) for name, text in pairs if name in _KINDS
    ]
    if headers.get("Content-MD5"):
        known.append(("md5", headers["Content-MD5"]))
    return {kind: digest for kind, text in known if (digest := _bytes(kind, text))}


def _digest_of_s3(headers: Mapping[str, str]) -> dict[str, bytes]:
    tag = headers.get("ETag", "")
    encrypted = headers.get("x-amz-server-side-encryption", "").startswith("aws:kms")
    if "x-amz-request-id" not in headers or encrypted or not _MD5.fullmatch(tag):
        return {}
    return {"md5": bytes.fromhex(tag[1:-1])}


def _bytes(kind: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text.zfill(8)) if kind == "adler32" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _digest(kind: str, file: int, size: int) -> bytes:
    """Return the checksum of a file."""
    adler, digest = 1, None if kind == "adler32" else hashlib.new(kind, usedforsecurity=False)
    for at in range(0, size, CHUNK):
        data = os.pread(file, min(CHUNK, size - at), at)
        if digest is None:
            adler = zlib.adler32(data, adler)
        else:
            digest.update(data)
    return bytes.fromhex(f"{adler:08x}") if digest is None else digest.digest()
