"""Names of elements and attributes of a tree: ``{namespace}local``, or ``local`` alone."""


def split_name(name: str) -> tuple[str | None, str]:
    """Return the namespace of a name, or None, and its local part.

    A namespace may be any text, even one with braces; lxml's own QName refuses those that lxml has read.

    >>> split_name("{urn:x}Job"), split_name("Job"), split_name("{}}Job")
    (('urn:x', 'Job'), (None, 'Job'), ('}', 'Job'))
    """
    namespace, found, local = name.rpartition("}")
    return (namespace[1:] if found else None), local


def local_name(name: str) -> str:
    """Return the local part of a name."""
    return name.rpartition("}")[2]


def namespace_of(name: str) -> str | None:
    """Return the namespace of a name, or None."""
    return split_name(name)[0]
