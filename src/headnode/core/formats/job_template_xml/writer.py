"""Writing the XML of job templates."""

from collections.abc import Iterator

from headnode.core.formats.compute_cluster_xml.markup import Element, write
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.job_templates.properties import Property, property_of
from headnode.core.formats.values import Words
from headnode.core.model.template import JobTemplate, Rule


def write_template(template: JobTemplate) -> tuple[bytes, Report]:
    """Return a template as HPC Pack exports it; the report says what it has no words for."""
    report, items = list(_unsaid(template)), []
    for rule in template.rules:
        about = property_of(rule.field, rule.unit)
        if about.words is None:
            report.append(Item(Kind.NOT_SUPPORTED, about.key, "HPC Pack has no such property"))
        else:
            items.append(Element("TemplateItem", dict(_attributes(rule, about, about.words))))
    head = {"Name": template.name, "Description": template.description}
    return write(Element("JobTemplate", head, list(items))), tuple(report)


def _unsaid(template: JobTemplate) -> Iterator[Item]:
    for what in ("users", "groups", "submission_filters", "activation_filters"):
        if getattr(template, what):
            yield Item(Kind.NOT_SUPPORTED, what, "is not in the file: set it in HPC Pack itself")


def _attributes(rule: Rule, about: Property, words: Words) -> Iterator[tuple[str, str]]:
    yield "PropertyName", about.hpc[0]
    if rule.default is not None:
        yield "Default", words.write(rule.preset)
    yield "ReadOnly", "true" if rule.read_only else "false"
    for name, bound in (("MinVal", rule.least), ("MaxVal", rule.most)):
        if bound is not None:
            yield name, words.write(bound if isinstance(rule.preset, float) else int(bound))
    if rule.allowed:
        yield "ValueRange", ",".join(map(words.write, rule.choices))
    if rule.required is not None:
        yield "RequiredValues", words.write(rule.demanded)
