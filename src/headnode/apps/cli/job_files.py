"""Reads a job file as the user, whatever its encoding, as the text the head wants."""
# ruff: noqa: PTH123 (pathlib costs 6 ms of every submit)

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.core.model.errors import HeadnodeError

LARGEST = 48 * 1024 * 1024  # bytes; as JSON it must still fit into one request
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def read_job_file(path: str) -> str:
    """Return the text of the job file at `path`; an XML declaration then says UTF-8, which is what is sent.

    Raises:  BadRequest ``job-file``.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as trouble:
        raise _unreadable(path, trouble) from trouble
    if len(data) > LARGEST:
        raise _bad(f"job file {path!r} is larger than {LARGEST} bytes", "use a sweep instead of many tasks")
    declared = _declared_encoding(data)
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    encoding = mark or declared or "utf-8"
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as trouble:
        raise _bad(f"job file {path!r} is not {encoding}: {trouble}", "save it as UTF-8") from trouble
    return _declare_utf8(text)


def _declared_encoding(data: bytes) -> str:
    head = data[:200].decode("latin-1")
    declaration = head[: head.find("?>")] if head.startswith("<?xml") else ""
    return _after_encoding(declaration)[1]


def _declare_utf8(text: str) -> str:
    end = text.find("?>") if text.startswith("<?xml") else -1
    place, name = _after_encoding(text[: max(end, 0)])
    return text if not name else text[:place] + "UTF-8" + text[place + len(name) :]


def _after_encoding(declaration: str) -> tuple[int, str]:
    """Return where the name of the encoding begins in an XML declaration, and the name; "" for none."""
    at = declaration.find("encoding")
    quote = next((i for i in range(at, len(declaration)) if declaration[i] in "\"'"), -1) if at >= 0 else -1
    end = declaration.find(declaration[quote], quote + 1) if quote >= 0 else -1
    return (quote + 1, declaration[quote + 1 : end]) if end >= 0 else (0, "")


def _unreadable(path: str, trouble: OSError) -> "HeadnodeError":
    from headnode.core.model.errors import BadRequest

    reason = os.strerror(trouble.errno) if trouble.errno else str(trouble)
    return BadRequest(
        code="job-file", what=f"job file {path!r} cannot be read: {reason}", fix="give a file you may read"
    )


def _bad(what: str, fix: str) -> "HeadnodeError":
    from headnode.core.model.errors import BadRequest

    return BadRequest(code="job-file", what=what, fix=fix)
