"""Nodes and features of nodes by name, by list, or by pattern.

Source: SSS 3.1.0, "Feature" and "Node"; SSS 3.0.3, NodeProperties.
"""

from enum import StrEnum

from headnode.core.formats.sss.properties import Property


class Aggregation(StrEnum):
    """How several names are written in one value."""

    LIST = "List"  # with commas between them
    PATTERN = "Pattern"  # a regular expression for all of the name


class Selection(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A Node or a Feature: a name, or several by `aggregation`.

    A comparison ``Match`` says the same as the aggregation Pattern, and is read as that.
    """

    aggregation: Aggregation | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names in a list, or the one name or pattern there is.

        >>> Selection(name="Feature", value="a, b", aggregation=Aggregation.LIST).names
        ('a', 'b')
        """
        text = str(self.value or "")
        if self.aggregation is Aggregation.LIST:
            return tuple(name.strip() for name in text.split(",") if name.strip())
        return (text,) if text else ()
