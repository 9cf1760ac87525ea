"""Which texts may be names in XML."""

from lxml import etree


def is_plain_name(text: str) -> bool:
    """Whether an element or attribute without a namespace can be called so."""
    try:
        name = etree.QName(text)
    except ValueError:
        return False
    return name.namespace is None and ":" not in text
