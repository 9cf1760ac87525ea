"""Job templates as HPC Pack imports and exports them."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.formats.hpc_values import ValueFormat, parse_flag
from headnode.core.formats.job_templates import BY_HPC_NAME, TemplateProperty, property_of
from headnode.core.formats.text.xml_text import XmlDocument, XmlElement, local_name, parse_xml, write_xml
from headnode.core.model.errors import BadRequest
from headnode.core.model.template import JobTemplate, TemplateRule, stated_fields

_ITEM = ("default", "readonly", "minval", "maxval", "valuerange", "requiredvalues")


def read_template(data: bytes | str) -> tuple[JobTemplate, FidelityReport]:
    """Read a template; the report says what has no effect here.

    Raises:  BadRequest with line and column.
    """
    document = parse_xml(data)
    if local_name(document.root.tag) != "JobTemplate":
        raise BadRequest(
            code="template",
            what=f"the file begins with {local_name(document.root.tag)}",
            place=document.place(document.root),
            fix="export the template from HPC Pack again: its file begins with JobTemplate",
        )
    return _TemplateXmlReader(document).template()


class _TemplateXmlReader:
    def __init__(self, document: XmlDocument) -> None:
        self._document = document
        self._report: list[ReportItem] = []

    def template(self) -> tuple[JobTemplate, FidelityReport]:
        root = self._document.root
        head = _lower(root)
        name = head.get("name", "").strip()
        if not name:
            raise self._wrong(root, "the template has no Name", 'write Name="…"')
        items = [element for element in root if isinstance(element.tag, str)]
        rules = [rule for element in items for rule in self._rules(element)]
        described = head.get("description", "").strip()
        return JobTemplate(name=name, description=described, rules=tuple(rules)), tuple(self._report)

    def _rules(self, element: etree._Element) -> list[TemplateRule]:
        found = _lower(element)
        named = found.get("propertyname", "").strip()
        if local_name(element.tag) != "TemplateItem" or not named:
            self._add_finding(element, local_name(element.tag), "is not a TemplateItem with a PropertyName")
            return []
        about = BY_HPC_NAME.get(named.lower())
        if about is None or about.words is None:
            self._add_finding(element, named, "has no rules in Headnode: jobs may set any value")
            return []
        texts = {word: found[word].strip() for word in _ITEM if found.get(word, "").strip()}
        return [self._rule(element, about, texts)] if texts else []

    def _rule(self, element: etree._Element, about: TemplateProperty, texts: dict[str, str]) -> TemplateRule:
        bounds = {}
        for word, bound in (("minval", "minimum"), ("maxval", "maximum")):
            if word in texts and about.is_number:
                bounds[bound] = float(self._read(element, about, texts[word]))
            elif word in texts:
                self._add_finding(element, f"{about.hpc[0]} {word}", "is for numbers")
        return TemplateRule(
            field=about.field,
            unit=about.unit,
            default=self._stated_value(element, about, texts.get("default")),
            read_only=parse_flag(texts.get("readonly", "false")),
            allowed=self._allowed(element, about, texts.get("valuerange")),
            required=self._required(element, about, texts.get("requiredvalues")),
            **bounds,
        )

    def _stated_value(self, element: etree._Element, about: TemplateProperty, text: str | None) -> Any:
        return None if text is None else stated_fields(about.field, self._read(element, about, text))

    def _allowed(self, element: etree._Element, about: TemplateProperty, text: str | None) -> tuple[Any, ...]:
        """Return the values of a range, which stand between commas."""
        values = (self._read(element, about, piece) for piece in (text or "").split(",") if piece.strip())
        return tuple(stated_fields(about.field, value) for value in values)

    def _required(self, element: etree._Element, about: TemplateProperty, text: str | None) -> Any:
        found = self._stated_value(element, about, text)
        if found is not None and not isinstance(getattr(found, about.field), tuple):
            self._add_finding(
                element, f"{about.hpc[0]} RequiredValues", "is for properties with several values"
            )
            return None
        return found

    def _read(self, element: etree._Element, about: TemplateProperty, text: str) -> Any:
        if about.words is None:
            raise self._wrong(element, f"{about.key} has no named values", "remove the item")
        try:
            return about.words.read(text.strip())
        except BadRequest as wrong:
            raise self._wrong(element, f"{about.hpc[0]}: {wrong.what}", wrong.fix) from None

    def _add_finding(self, element: etree._Element, where: str, what: str) -> None:
        line, column = self._document.place(element)
        self._report.append(ReportItem(Fidelity.NOT_SUPPORTED, where, what, line, column))

    def _wrong(self, element: etree._Element, what: str, fix: str) -> BadRequest:
        return BadRequest(code="template", what=what, fix=fix, place=self._document.place(element))


def _lower(element: etree._Element) -> dict[str, str]:
    return {local_name(str(name)).lower(): str(value) for name, value in element.attrib.items()}


def write_template(template: JobTemplate) -> tuple[bytes, FidelityReport]:
    """Return a template as HPC Pack exports it; the report says what it has no words for."""
    report, items = list(_unsaid(template)), []
    for rule in template.rules:
        about = property_of(rule.field, rule.unit)
        if about.words is None:
            report.append(ReportItem(Fidelity.NOT_SUPPORTED, about.key, "HPC Pack has no such property"))
        else:
            items.append(XmlElement("TemplateItem", dict(_attributes(rule, about, about.words))))
    head = {"Name": template.name, "Description": template.description}
    return write_xml(XmlElement("JobTemplate", head, list(items))), tuple(report)


def _unsaid(template: JobTemplate) -> Iterator[ReportItem]:
    for what in ("users", "groups", "submission_filters", "activation_filters"):
        if getattr(template, what):
            yield ReportItem(Fidelity.NOT_SUPPORTED, what, "is not in the file: set it in HPC Pack itself")


def _attributes(rule: TemplateRule, about: TemplateProperty, words: ValueFormat) -> Iterator[tuple[str, str]]:
    yield "PropertyName", about.hpc[0]
    if rule.default is not None:
        yield "Default", words.write(rule.preset)
    yield "ReadOnly", "true" if rule.read_only else "false"
    for name, bound in (("MinVal", rule.minimum), ("MaxVal", rule.maximum)):
        if bound is not None:
            yield name, words.write(bound if isinstance(rule.preset, float) else int(bound))
    if rule.allowed:
        yield "ValueRange", ",".join(map(words.write, rule.choices))
    if rule.required is not None:
        yield "RequiredValues", words.write(rule.demanded)
