"""The bytes of a job file as text, in the encoding that its first bytes or its XML declaration name."""

from headnode.core.model.errors import BadRequest

_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def text_of_job_file(data: bytes, name: str) -> str:
    """Return the text of a job file; an XML declaration in it then says UTF-8.  Errors begin with `name`.

    Raises:  BadRequest ``job-file``.
    """
    declared = _declared_encoding(data)
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    encoding = mark or declared or "utf-8"
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as trouble:
        if b"\0" in data and not mark and not declared:
            what, fix = f"{name} is a program or other data, not a text", "name a job file or a script"
            raise BadRequest(code="job-file", what=what, fix=fix) from None
        raise BadRequest(
            code="job-file", what=f"{name} is not {encoding}: {trouble}", fix="save it as UTF-8"
        ) from trouble
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
