"""Reading the XML of job templates.

Source: HPC Pack, `JobTemplate` with its `TemplateItem` elements; names of attributes in any case.
"""

from typing import Any

from lxml import etree

from headnode.core.formats.compute_cluster_xml.document import Document, parse
from headnode.core.formats.compute_cluster_xml.names import local_name
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.job_templates.properties import BY_HPC_NAME, Property
from headnode.core.formats.values import parse_flag
from headnode.core.model.errors import BadRequest
from headnode.core.model.template import JobTemplate, Rule, said

_ITEM = ("default", "readonly", "minval", "maxval", "valuerange", "requiredvalues")


def read_template(data: bytes | str) -> tuple[JobTemplate, Report]:
    """Read a template; the report says what has no effect here.

    Raises:  BadRequest with line and column.
    """
    document = parse(data)
    if local_name(document.root.tag) != "JobTemplate":
        raise BadRequest(
            code="template",
            what=f"{document.place(document.root)}: the file begins with {local_name(document.root.tag)}",
            fix="export the template from HPC Pack again: it begins with JobTemplate",
        )
    return _Reader(document).template()


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._report: list[Item] = []

    def template(self) -> tuple[JobTemplate, Report]:
        root = self._document.root
        head = _lower(root)
        name = head.get("name", "").strip()
        if not name:
            raise self._wrong(root, "the template has no Name", 'write Name="…"')
        items = [element for element in root if isinstance(element.tag, str)]
        rules = [rule for element in items for rule in self._rules(element)]
        described = head.get("description", "").strip()
        return JobTemplate(name=name, description=described, rules=tuple(rules)), tuple(self._report)

    def _rules(self, element: etree._Element) -> list[Rule]:
        found = _lower(element)
        named = found.get("propertyname", "").strip()
        if local_name(element.tag) != "TemplateItem" or not named:
            self._tell(element, local_name(element.tag), "is no TemplateItem with a PropertyName")
            return []
        about = BY_HPC_NAME.get(named.lower())
        if about is None or about.words is None:
            self._tell(element, named, "has no rules in Headnode: jobs may set any value")
            return []
        given = {word: found[word].strip() for word in _ITEM if found.get(word, "").strip()}
        return [self._rule(element, about, given)] if given else []

    def _rule(self, element: etree._Element, about: Property, given: dict[str, str]) -> Rule:
        bounds = {}
        for word, bound in (("minval", "least"), ("maxval", "most")):
            if word in given and about.is_number:
                bounds[bound] = float(self._read(element, about, given[word]))
            elif word in given:
                self._tell(element, f"{about.hpc[0]} {word}", "is for numbers")
        return Rule(
            field=about.field,
            unit=about.unit,
            default=self._said(element, about, given.get("default")),
            read_only=parse_flag(given.get("readonly", "false")),
            allowed=self._allowed(element, about, given.get("valuerange")),
            required=self._required(element, about, given.get("requiredvalues")),
            **bounds,
        )

    def _said(self, element: etree._Element, about: Property, text: str | None) -> Any:
        return None if text is None else said(about.field, self._read(element, about, text))

    def _allowed(self, element: etree._Element, about: Property, text: str | None) -> tuple[Any, ...]:
        """Return the values of a range, which stand between commas."""
        values = (self._read(element, about, piece) for piece in (text or "").split(",") if piece.strip())
        return tuple(said(about.field, value) for value in values)

    def _required(self, element: etree._Element, about: Property, text: str | None) -> Any:
        found = self._said(element, about, text)
        if found is not None and not isinstance(getattr(found, about.field), tuple):
            self._tell(element, f"{about.hpc[0]} RequiredValues", "is for properties with several values")
            return None
        return found

    def _read(self, element: etree._Element, about: Property, text: str) -> Any:
        if about.words is None:
            raise self._wrong(element, f"{about.key} has no named values", "remove the item")
        try:
            return about.words.read(text.strip())
        except BadRequest as wrong:
            raise self._wrong(element, f"{about.hpc[0]}: {wrong.what}", wrong.fix) from None

    def _tell(self, element: etree._Element, where: str, what: str) -> None:
        line, column = self._document.place(element)
        self._report.append(Item(Kind.NOT_SUPPORTED, where, what, line, column))

    def _wrong(self, element: etree._Element, what: str, fix: str) -> BadRequest:
        return BadRequest(code="template", what=f"{self._document.place(element)}: {what}", fix=fix)


def _lower(element: etree._Element) -> dict[str, str]:
    return {local_name(str(name)).lower(): str(value) for name, value in element.attrib.items()}
