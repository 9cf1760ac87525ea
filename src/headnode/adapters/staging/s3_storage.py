"""Object storage that speaks S3, by botocore.  Without a credential the usual files of the user count.

An object exists when it is whole.  A large one is sent in parts; those that the storage has are not sent
again.
Source: Amazon S3 API Reference, "CreateMultipartUpload", "CompleteMultipartUpload", "Object" (ETag)."""

import contextlib
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote, urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from headnode.adapters.staging.arrival import CHUNK, ArrivingFile
from headnode.adapters.staging.credentials import Credential
from headnode.adapters.staging.failures import ChangedOnTheWay, NeverTransferred, TransferFailed
from headnode.adapters.staging.storage import Seen

PART = 16 * CHUNK  # bytes of a part; the storage takes none below 5 MB, but for the last
MAX_PARTS = 10_000  # of an object
_MAX_PAGES = 100  # of uploads or parts that are looked at
_TO_CORRECT = (400, 401, 403, 404, 405, 410, 411, 413)  # but for the codes that may pass
_PASSING = (
    "RequestTimeout",
    "BadDigest",
    "IncompleteBody",
    "NoSuchUpload",
    "InvalidPart",
    "RequestTimeTooSkewed",
)
_CHANGED = (412, 416)  # it is not what it was when its first bytes came
Place = dict[str, str]  # the bucket and the key of an object


_UPLOADING: dict[str, str] = {}  # the uploads of this process that are not complete, by their keys


class S3Storage:
    """One kind of object storage, with its connections."""

    def __init__(self, credential: Credential, timeout: float) -> None:
        settings = Config(
            connect_timeout=timeout,
            read_timeout=timeout,
            retries={"total_max_attempts": 1},  # the order says how often it is tried
            request_checksum_calculation="when_required",  # Content-MD5 is what every storage understands
            response_checksum_validation="when_required",
            s3={"payload_signing_enabled": False},  # Content-MD5, which is signed, names the bytes
        )
        self._client: Any = botocore.session.get_session().create_client(
            "s3",
            aws_access_key_id=credential.get("access_key") or None,
            aws_secret_access_key=credential.get("secret_key") or None,
            aws_session_token=credential.get("session_token") or None,
            endpoint_url=credential.get("endpoint") or None,
            config=settings,
        )

    def fetch(self, url: str, arrival: ArrivingFile, progress: Seen) -> int | None:
        origin, begun = arrival.kept()
        total, _, tag = origin.partition(" ")
        if begun and total == str(begun):  # all of it is here, and was not renamed
            progress(arrival.begin(origin))
            return begun
        rest = {"Range": f"bytes={begun}-", "IfMatch": tag} if begun and tag else {}
        try:
            with _failures(url):
                return self._fetch(_place(url), rest, begun, arrival, progress)
        except ChangedOnTheWay:
            arrival.discard()
            raise

    def _fetch(
        self, place: Place, rest: dict[str, str], offset: int, arrival: ArrivingFile, progress: Seen
    ) -> int | None:
        answer = self._client.get_object(**place, **rest)
        length = answer.get("ContentLength")  # not of an answer in chunks
        with contextlib.closing(answer["Body"]) as body:
            if rest and str(answer.get("ContentRange", "")).startswith(f"bytes {offset}-"):
                arrival.begin(arrival.kept()[0])
            else:
                offset = 0
                if arrival.begin("" if length is None else f"{length} {answer.get('ETag', '')}"):
                    arrival.restart()
            size = None if length is None else offset + int(length)
            progress.expect(size)
            progress(offset)
            while data := body.read(CHUNK):
                progress(len(data))
                arrival.write(data)
        return size

    def store(self, file: int, size: int, url: str, token: str, progress: Seen) -> None:  # noqa: ARG002
        with _failures(url):
            place = _place(url)
            if size <= PART:
                self._store_whole(place, _piece(file, 0, size), progress)
            else:
                self._store_in_parts(place, file, size, progress)
            there = int(self._client.head_object(**place)["ContentLength"])
        if there != size:
            raise TransferFailed(f"the storage has {there} bytes of {size}")

    def _store_whole(self, place: Place, data: bytes, progress: Seen) -> None:
        digest = hashlib.md5(data, usedforsecurity=False)
        answer = self._client.put_object(**place, Body=data, ContentMD5=_in_header(digest.digest()))
        _compare(answer, digest.hexdigest())
        progress(len(data))

    def _store_in_parts(self, place: Place, file: int, size: int, progress: Seen) -> None:
        """Send what the storage has not, and make an object of all parts.

        Nothing else may be in the object: its parts are named by their checksums.
        """
        length = PART
        while size > length * MAX_PARTS:
            length *= 2
        upload, known = self._begun(place, file, size, length)
        _UPLOADING[place["Key"]] = upload
        tags, digests = [], b""
        for number, (data, digest) in enumerate(_parts_of(file, size, length), 1):
            if known.get(number) != digest.hex():
                answer = self._client.upload_part(
                    **place, UploadId=upload, PartNumber=number, Body=data, ContentMD5=_in_header(digest)
                )
                _compare(answer, digest.hex())
                tags.append({"PartNumber": number, "ETag": answer["ETag"]})
            else:
                tags.append({"PartNumber": number, "ETag": f'"{digest.hex()}"'})
            digests += digest
            progress(len(data))
        answer = self._client.complete_multipart_upload(
            **place, UploadId=upload, MultipartUpload={"Parts": tags}
        )
        del _UPLOADING[place["Key"]]
        whole = hashlib.md5(digests, usedforsecurity=False).hexdigest()
        _compare(answer, f"{whole}-{len(tags)}")

    def _begun(self, place: Place, file: int, size: int, length: int) -> tuple[str, dict[int, str]]:
        """Return an upload whose first part is that of the file, with its parts; else a new one."""
        first = hashlib.md5(_piece(file, 0, min(length, size)), usedforsecurity=False).hexdigest()
        with contextlib.suppress(ClientError):  # who may write need not be allowed to list
            for upload in reversed(self._uploads(place)):
                parts = self._parts(place, upload)
                if parts.get(1) == first:
                    return upload, parts
        return str(self._client.create_multipart_upload(**place)["UploadId"]), {}

    def _uploads(self, place: Place) -> list[str]:
        uploads: list[dict[str, Any]] = []
        asked = {"Bucket": place["Bucket"], "Prefix": place["Key"]}
        pages = self._client.get_paginator("list_multipart_uploads").paginate(**asked)
        for _, page in zip(range(_MAX_PAGES), pages, strict=False):
            uploads += [each for each in page.get("Uploads", ()) if each["Key"] == place["Key"]]
        return [str(each["UploadId"]) for each in sorted(uploads, key=lambda each: each["Initiated"])]

    def _parts(self, place: Place, upload: str) -> dict[int, str]:
        pages = self._client.get_paginator("list_parts").paginate(**place, UploadId=upload)
        return {
            int(part["PartNumber"]): str(part["ETag"]).strip('"')
            for _, page in zip(range(_MAX_PAGES), pages, strict=False)
            for part in page.get("Parts", ())
        }

    def forget(self, url: str, token: str) -> None:  # noqa: ARG002
        place = _place(url)
        if upload := _UPLOADING.pop(place["Key"], ""):
            with _failures(url):
                self._client.abort_multipart_upload(**place, UploadId=upload)

    def below(self, url: str) -> Iterator[str]:
        place = _place(url)
        top = place["Key"].rstrip("/") + "/"
        with _failures(url):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=place["Bucket"], Prefix=top.lstrip("/")
            )
            for page in pages:
                for each in page.get("Contents", ()):
                    name = str(each["Key"])[len(top.lstrip("/")) :]
                    if name and not name.endswith("/"):
                        yield name

    def close(self) -> None:
        self._client.close()


def _place(url: str) -> Place:
    parts = urlsplit(url)
    return {"Bucket": parts.netloc, "Key": unquote(parts.path).removeprefix("/")}


def _piece(file: int, begin: int, size: int) -> bytes:
    """Return so many bytes of a file.  Raises:  ChangedOnTheWay when it has no longer so many."""
    pieces = []
    while size and (data := os.pread(file, size, begin)):
        pieces.append(data)
        begin, size = begin + len(data), size - len(data)
    if size:
        raise ChangedOnTheWay("the file has become shorter while it was sent", "let no program write it then")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _parts_of(file: int, size: int, length: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parts of a file with their MD5 digests; the next is read while one is sent."""

    def part(begin: int) -> tuple[bytes, bytes]:
        data = _piece(file, begin, min(length, size - begin))
        return data, hashlib.md5(data, usedforsecurity=False).digest()

    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(part, 0)
        for begin in range(length, size, length):
            ready = following.result()
            following = reader.submit(part, begin)
            yield ready
        yield following.result()


def _in_header(digest: bytes) -> str:
    return b64encode(digest).decode()


def _compare(answer: dict[str, Any], digest: str) -> None:
    """Raises:  ChangedOnTheWay when the storage has other bytes than were sent.

    The tag is no checksum of what a storage encrypts by keys of a service or of the client.
    """
    encrypted = (
        str(answer.get("ServerSideEncryption", "")).startswith("aws:kms") or "SSECustomerAlgorithm" in answer
    )
    tag = str(answer.get("ETag", "")).strip('"').lower()
    if encrypted or len(tag.partition("-")[0]) != len(digest.partition("-")[0]):
        return
    if tag != digest:
        raise ChangedOnTheWay(
            f"the storage has the checksum {tag[:50]}, and should have {digest}", "see the storage"
        )


@contextlib.contextmanager
def _failures(url: str) -> Iterator[None]:
    """Let errors of the library be failures that may pass, or not."""
    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        about = error.response.get("Error", {})
        code = str(about.get("Code", ""))
        message = f"{code[:60]}: {str(about.get('Message', ''))[:200]}"
        what = f"{urlsplit(url).netloc} answers {error.operation_name} with {message}"
        if code == "BadDigest" or status in _CHANGED:
            raise ChangedOnTheWay(what, "see the storage") from None
        if status in _TO_CORRECT and code not in _PASSING:
            raise NeverTransferred(what, "correct the URL, or name a credential that may do it") from None
        raise TransferFailed(what) from None
    except NoCredentialsError:
        fix = "name a credential, or write ~/.aws/credentials on the node"
        raise NeverTransferred(f"there are no keys for {urlsplit(url).netloc}", fix) from None
    except BotoCoreError as error:
        raise TransferFailed(f"{type(error).__name__}: {str(error)[:300]}") from error
