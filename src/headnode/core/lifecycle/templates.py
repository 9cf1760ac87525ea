"""What a template makes of a job: its defaults where the job says nothing, then its rules.

What equals the value that a job without a template would have counts as not said.
Source: HPC Pack, job templates; HPC filters, "Submission filters" (templates come after these).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from headnode.core.lifecycle.requests import own_request
from headnode.core.lifecycle.template_words import in_words
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.template import DEFAULT, UNSAID, JobTemplate, Rule
from headnode.core.model.user import User

_PLAIN = JobTemplate(name=DEFAULT, description="used by jobs that name no template")
_SIZE = ("minimum", "maximum", "unit")

Templates = Mapping[str, JobTemplate]
"""The templates of a cluster by their names in small letters; there is a plain Default if it holds none."""


def template_named(templates: Templates, name: str) -> JobTemplate | None:
    """Return the template that a job means; None when there is none of the name."""
    key = (name or DEFAULT).lower()
    return templates.get(key, _PLAIN if key == DEFAULT.lower() else None)


def shaped(templates: Templates, by: User, spec: JobSpec) -> JobSpec:
    """Return the description with the defaults of its template, if it keeps the rules.

    A cluster that has no templates takes every name for that of a plain one.
    Raises:  NotFound ``no-such-template``, NotAllowed ``template-user``, BadRequest ``template``.
    """
    if not templates:
        return spec
    template = template_named(templates, spec.template)
    if template is None:
        known = ", ".join(sorted({DEFAULT, *(one.name for one in templates.values())}))
        raise NotFound(
            code="no-such-template",
            what=f"there is no job template {spec.template!r}",
            fix=f"there are {known}; see `hn template list`",
        )
    _may_use(template, by)
    full = _with_defaults(template, spec)
    refuse_broken(template, full)
    return full


def _may_use(template: JobTemplate, by: User) -> None:
    if not (template.users or template.groups) or by.administrator:
        return
    if by.name not in template.users and not set(template.groups) & set(by.groups):
        raise NotAllowed(
            code="template-user",
            what=f"{by.name!r} may not use the job template {template.name!r}",
            fix="choose another (`hn template list`), or ask an administrator",
        )


def _with_defaults(template: JobTemplate, spec: JobSpec) -> JobSpec:
    for rule in sorted(template.rules, key=lambda rule: rule.field != "unit"):
        if rule.default is not None and _concerns(rule, spec) and _is_unsaid(spec, rule.field):
            spec = replace(spec, **{rule.field: rule.preset})
    return spec


def _concerns(rule: Rule, spec: JobSpec) -> bool:
    return rule.unit is None or rule.unit is spec.unit


def _is_unsaid(spec: JobSpec, field: str) -> bool:
    if field == "unit":  # what a size counts is said with the size
        return all(getattr(spec, name) == getattr(UNSAID, name) for name in _SIZE)
    return bool(getattr(spec, field) == getattr(UNSAID, field))


def refuse_broken(template: JobTemplate, spec: JobSpec) -> None:
    """Refuse a description that breaks rules, naming each.

    Raises:  BadRequest ``template``.
    """
    broken = [what for rule in template.rules for what in _broken(rule, spec)]
    if broken:
        raise BadRequest(
            code="template",
            what=f"job template {template.name!r} does not allow it: {'; '.join(broken)}",
            fix=f"see `hn template view {template.name}`, or choose another with /jobtemplate",
        )


def _broken(rule: Rule, spec: JobSpec) -> Iterator[str]:
    if not _concerns(rule, spec):
        return
    counted = f" of {rule.unit.value}s" if rule.unit else ""
    value, name = getattr(spec, rule.field), f"{rule.field.replace('_', ' ')}{counted}"
    if rule.read_only and value != rule.preset:
        yield f"{name} is always {in_words(rule.field, rule.preset)}"
        return
    number = _number(rule.field, spec)
    if rule.least is not None and number is not None and number < rule.least:
        yield f"{name} is {in_words(rule.field, number)}, and at least {in_words(rule.field, rule.least)}"
    if rule.most is not None and number is not None and number > rule.most:
        yield f"{name} is {in_words(rule.field, number)}, and at most {in_words(rule.field, rule.most)}"
    if rule.allowed and (strange := _strange(rule, value)):
        choices = in_words(rule.field, _flat(rule.choices))
        may_not = f"may not be {in_words(rule.field, strange)}, but {choices}"
        yield f"{name} must be given: {choices}" if strange == [""] else f"{name} {may_not}"
    if missing := [one for one in rule.demanded if one not in value]:
        yield f"{name} must have {in_words(rule.field, missing)}"


def _number(field: str, spec: JobSpec) -> float | None:
    """Return what `least` and `most` are compared with; a size that is left to us as it is calculated."""
    value = getattr(spec, field)
    if field in ("minimum", "maximum") and value is None and spec.tasks:
        value = getattr(own_request(spec), field)
    return float(value) if isinstance(value, int | float) else None


def _strange(rule: Rule, value: Any) -> Any:
    """Return what of a value is not allowed; of several, those that are not."""
    if isinstance(value, tuple):
        return [one for one in value if one not in _flat(rule.choices)]
    return None if value in rule.choices else [value]


def _flat(choices: tuple[Any, ...]) -> list[Any]:
    return [one for choice in choices for one in (choice if isinstance(choice, tuple) else (choice,))]
