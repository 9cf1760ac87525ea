"""Checking a job file against an XML Schema."""

from collections.abc import Iterable
from typing import Any

from lxml import etree

from headnode.core.formats.compute_cluster_xml.document import parse
from headnode.core.formats.fidelity import Item, Kind, Report


def validate(text: bytes | str, schema: bytes) -> Report:
    """Return what `schema` has against the file; empty when it is valid.

    The schemas of the three dialects are the files in ``schemas`` beside this module, read by the caller.
    Raises:  BadRequest as `parse` of the document, when `text` is no XML that can be read.
    """
    rules = etree.XMLSchema(
        etree.fromstring(schema, etree.XMLParser(resolve_entities=False, no_network=True))
    )
    document = parse(text)
    if rules.validate(document.root):
        return ()
    log: Iterable[Any] = rules.error_log  # type: ignore[assignment]  # it is one, the stubs do not say so
    return tuple(
        Item(Kind.NOT_SUPPORTED, "schema", str(error.message), error.line, error.column) for error in log
    )
