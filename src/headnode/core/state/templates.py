"""Job templates: made, removed, and applied to jobs; and which filters a job passes."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from msgspec.structs import replace

from headnode.core.filtering import BANK_FILTER, Filter, FilterChain, chain_for, read_filters
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, Priority, format_priority
from headnode.core.model.resource import is_elsewhere
from headnode.core.model.template import (
    DEFAULT_TEMPLATE,
    UNSAID,
    JobTemplate,
    TemplateRule,
    decode_template,
    encode_template,
)
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state.bank_ledger import BANK
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import own_request
from headnode.core.state.permissions import must_administer
from headnode.core.state.resources import with_resource


class SetTemplate(Command, frozen=True):
    """Create a job template, or replace the one with the same name."""

    by: User
    template: JobTemplate


class RemoveTemplate(Command, frozen=True):
    """Remove a job template."""

    by: User
    name: str


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_IN_MEGABYTES = ("minimum_memory", "maximum_memory", "process_memory")


def in_words(field: str, value: Any) -> str:
    """Return a value of a field as people write it.

    >>> in_words("run_time", 10_800.0), in_words("priority", 4000), in_words("exclusive", False)
    ('3h', 'Highest', 'no')
    """
    if isinstance(value, list | tuple):
        return " or ".join(in_words(field, one) for one in value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if value.isidentifier() else repr(str(value))
    if not isinstance(value, int | float):
        return str(value)
    if field == "run_time":
        return _span(value)
    if field == "priority":
        return format_priority(Priority(int(value)))
    return f"{value:g} MB" if field in _IN_MEGABYTES else f"{value:g}"


def _span(seconds: float) -> str:
    if seconds == inf:
        return "infinite"
    pieces, rest = [], seconds
    for size, name in _UNITS:
        count, rest = divmod(rest, size)
        pieces.append(f"{count:.0f}{name}" if count else "")
    return "".join(pieces) or f"{seconds:g}s"


_PLAIN = JobTemplate(name=DEFAULT_TEMPLATE, description="used by jobs that name no template")
_SIZE = ("minimum", "maximum", "unit")

Templates = Mapping[str, JobTemplate]
"""The templates of a cluster by their names in small letters; there is a plain Default if it holds none."""


def template_named(templates: Templates, name: str) -> JobTemplate | None:
    """Return the template that a job means; None when there is none of the name."""
    key = (name or DEFAULT_TEMPLATE).lower()
    return templates.get(key, _PLAIN if key == DEFAULT_TEMPLATE.lower() else None)


def templated_spec(templates: Templates, by: User, spec: JobSpec) -> JobSpec:
    """Return the description with the defaults of its template, if it keeps the rules.

    A cluster that has no templates takes every name for that of a plain one.
    Raises:  NotFound ``no-such-template``, NotAllowed ``template-user``, BadRequest ``template``.
    """
    if not templates:
        return spec
    template = template_named(templates, spec.template)
    if template is None:
        known = ", ".join(sorted({DEFAULT_TEMPLATE, *(one.name for one in templates.values())}))
        raise NotFound(
            code="no-such-template",
            what=f"there is no job template {spec.template!r}",
            fix=f"choose from: {known}; see `hn template list`",
            path=("template",),
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
            path=("template",),
        )


def _with_defaults(template: JobTemplate, spec: JobSpec) -> JobSpec:
    for rule in sorted(template.rules, key=lambda rule: rule.field != "unit"):
        if rule.default is not None and _concerns(rule, spec) and _is_unsaid(spec, rule.field):
            spec = replace(spec, **{rule.field: rule.preset})
    return spec


def _concerns(rule: TemplateRule, spec: JobSpec) -> bool:
    return rule.unit is None or rule.unit is spec.unit


def _is_unsaid(spec: JobSpec, field: str) -> bool:
    if field == "unit":  # what a size counts is said with the size
        return all(getattr(spec, name) == getattr(UNSAID, name) for name in _SIZE)
    return bool(getattr(spec, field) == getattr(UNSAID, field))


def refuse_broken(template: JobTemplate, spec: JobSpec) -> None:
    """Refuse a description that breaks rules, naming each.

    Raises:  BadRequest ``template``.
    """
    broken = [(rule.field, what) for rule in template.rules for what in _broken(rule, spec)]
    if broken:
        raise BadRequest(
            code="template",
            what=f"job template {template.name!r} does not allow it: {'; '.join(what for _, what in broken)}",
            fix=f"see `hn template view {template.name}`, or choose another with /jobtemplate",
            path=(broken[0][0],),
        )


def _broken(rule: TemplateRule, spec: JobSpec) -> Iterator[str]:
    if not _concerns(rule, spec):
        return
    counted = f" of {rule.unit.word}s" if rule.unit and rule.field in _SIZE else ""
    value, name = getattr(spec, rule.field), f"{rule.field.replace('_', ' ')}{counted}"
    if rule.read_only and value != rule.preset:
        yield f"{name} is always {in_words(rule.field, rule.preset)}"
        return
    number = _number(rule.field, spec)
    is_now = "" if number is None else f"{name} is {in_words(rule.field, number)}"
    if rule.minimum is not None and number is not None and number < rule.minimum:
        yield f"{is_now}, at least {in_words(rule.field, rule.minimum)} is required"
    if rule.maximum is not None and number is not None and number > rule.maximum:
        yield f"{is_now}, at most {in_words(rule.field, rule.maximum)} is allowed"
    if rule.allowed and (strange := _strange(rule, value)):
        choices = in_words(rule.field, _flat(rule.choices))
        may_not = f"is {in_words(rule.field, strange)}, and must be {choices}"
        yield f"{name} must be given: {choices}" if strange == [""] else f"{name} {may_not}"
    if missing := [one for one in rule.demanded if one not in value]:
        yield f"{name} must have {in_words(rule.field, missing)}"


def _number(field: str, spec: JobSpec) -> float | None:
    """Return what `least` and `most` are compared with; a size that is left to us as it is calculated."""
    value = getattr(spec, field)
    if field in ("minimum", "maximum") and value is None and spec.tasks:
        value = getattr(own_request(spec), field)
    return float(value) if isinstance(value, int | float) else None


def _strange(rule: TemplateRule, value: Any) -> Any:
    """Return what of a value is not allowed; of several, those that are not."""
    if isinstance(value, tuple):
        return [one for one in value if one not in _flat(rule.choices)]
    return None if value in rule.choices else [value]


def _flat(choices: tuple[Any, ...]) -> list[Any]:
    return [one for choice in choices for one in (choice if isinstance(choice, tuple) else (choice,))]


SUBMISSION, ACTIVATION = "SubmissionFilterProgram", "ActivationFilterProgram"


def submission_filters(cluster: ClusterState, spec: JobSpec) -> FilterChain:
    """Return what a job passes before it comes into the queue, in order."""
    if not cluster.parameters and not cluster.templates:
        return ()
    text = cluster.parameters.get(SUBMISSION, "")
    bank = _bank(cluster)
    if bank and is_elsewhere(spec.resource):
        bank = ()
    if not text and not cluster.templates:
        return bank
    template = template_named(cluster.templates, spec.template)
    own = read_filters(template.submission_filters) if template is not None else ()
    return chain_for(text, spec.template, own) + bank


def _bank(cluster: ClusterState) -> FilterChain:
    return (BANK_FILTER,) if cluster.parameters.get(BANK) else ()


def activation_filters(cluster: ClusterState, record: JobRecord) -> tuple[Filter, ...]:
    """Return what a job passes before it gets resources, in order."""
    text = cluster.parameters.get(ACTIVATION, "")
    name = cluster.written(record).template
    template = template_named(cluster.templates, name) if cluster.templates else None
    own = read_filters(template.activation_filters) if template is not None else ()
    return chain_for(text, name, own) + _bank(cluster)


def activation_rules(cluster: ClusterState) -> tuple[tuple[str, str], ...]:
    """Return all that says which activation filters there are; nothing if there are none."""
    text, bank = cluster.parameters.get(ACTIVATION, ""), cluster.parameters.get(BANK, "")
    if not text and not bank and not cluster.templates:
        return ()
    found = [(name, each.activation_filters) for name, each in cluster.templates.items()]
    found += [("", text), (BANK, bank)]
    return tuple(rule for rule in found if rule[1])


MAX_NAME = 64  # characters


def set_template(cluster: ClusterState, command: SetTemplate, now: Instant) -> list[Event]:
    """An administrator makes a template, or replaces the one of its name."""
    must_administer(command.by, "change job templates")
    template = command.template
    if not template.name.isprintable() or not 0 < len(template.name.strip()) <= MAX_NAME:
        raise BadRequest(
            code="template",
            what=f"a template cannot be called {template.name!r}",
            fix=f"use 1 to {MAX_NAME} printable characters",
        )
    _refuse_own_default(template)
    if cluster.templates.get(template.name.lower()) == template:
        return []
    return [e.TemplateSet(at=now, template=encode_template(template), by=command.by.name)]


def _refuse_own_default(template: JobTemplate) -> None:
    """Refuse a template whose defaults break its own rules: a job with only these would be refused."""
    preset = {rule.field: rule.preset for rule in template.rules if rule.default is not None}
    rules = tuple(rule for rule in template.rules if rule.field in preset)
    refuse_broken(replace(template, rules=rules), JobSpec(**preset))


def remove_template(cluster: ClusterState, command: RemoveTemplate, now: Instant) -> list[Event]:
    """An administrator takes a template away; Default is plain again then.

    Raises:  NotFound ``no-such-template``.
    """
    must_administer(command.by, "change job templates")
    kept = cluster.templates.get(command.name.lower())
    if kept is None:
        plain = command.name.lower() == DEFAULT_TEMPLATE.lower()
        what = f"job template {command.name!r} {'has no rules to remove' if plain else 'does not exist'}"
        raise NotFound(code="no-such-template", what=what, fix="see `hn template list`")
    return [e.TemplateRemoved(at=now, name=kept.name, by=command.by.name)]


def submitted_spec(cluster: ClusterState, by: User, spec: JobSpec) -> JobSpec:
    """Return the description as its template makes it; filters that come first may choose another template.

    Raises:  what `templated_spec` does.
    """
    return spec if submission_filters(cluster, spec) else queued_spec(cluster, by, spec)


def queued_spec(cluster: ClusterState, by: User, spec: JobSpec) -> JobSpec:
    """Return the description with the defaults of its template and of the cluster.

    Raises:  what `templated_spec` does.
    """
    return with_resource(cluster.resource_index.named, templated_spec(cluster.templates, by, spec))


def groups_matter(cluster: ClusterState) -> bool:
    """Return whether a template or a limit asks in which groups a user is."""
    in_templates = any(template.groups for template in cluster.templates.values())
    return in_templates or bool(cluster.limit_index.group_names)


def refuse_modified(cluster: ClusterState, spec: JobSpec) -> None:
    """Refuse a change of a submitted job that its template does not allow.

    Raises:  BadRequest ``template``.
    """
    template = template_named(cluster.templates, spec.template) if cluster.templates else None
    if template is not None:
        refuse_broken(template, spec)


def template_set(cluster: ClusterState, event: e.TemplateSet) -> None:
    template = decode_template(event.template)
    cluster.templates[template.name.lower()] = template


def template_removed(cluster: ClusterState, event: e.TemplateRemoved) -> None:
    del cluster.templates[event.name.lower()]
