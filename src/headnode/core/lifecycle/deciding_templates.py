"""Decide about job templates, and what they make of jobs that are submitted."""

from msgspec.structs import replace

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.templates import refuse_broken, shaped, template_named
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.template import DEFAULT, JobTemplate, encode_template
from headnode.core.model.user import User

LONGEST_NAME = 64  # characters


def set_template(cluster: Cluster, command: c.SetTemplate, now: Instant) -> list[Event]:
    """An administrator makes a template, or replaces the one of its name."""
    must_administer(command.by, "change job templates")
    template = command.template
    if not template.name.isprintable() or not 0 < len(template.name.strip()) <= LONGEST_NAME:
        raise BadRequest(
            code="template",
            what=f"a template cannot be called {template.name!r}",
            fix=f"use 1 to {LONGEST_NAME} printable characters",
        )
    _refuse_own_default(template)
    if cluster.templates.get(template.name.lower()) == template:
        return []
    return [e.TemplateSet(at=now, template=encode_template(template), by=command.by.name)]


def _refuse_own_default(template: JobTemplate) -> None:
    """Refuse a template whose defaults break its own rules: nobody could use it without saying more."""
    preset = {rule.field: rule.preset for rule in template.rules if rule.default is not None}
    rules = tuple(rule for rule in template.rules if rule.field in preset)
    refuse_broken(replace(template, rules=rules), JobSpec(**preset))


def remove_template(cluster: Cluster, command: c.RemoveTemplate, now: Instant) -> list[Event]:
    """An administrator takes a template away; Default is plain again then.

    Raises:  NotFound ``no-such-template``.
    """
    must_administer(command.by, "change job templates")
    kept = cluster.templates.get(command.name.lower())
    if kept is None:
        plain = command.name.lower() == DEFAULT.lower()
        raise NotFound(
            code="no-such-template",
            what=f"job template {command.name!r} {'is the plain one' if plain else 'does not exist'}",
            fix="see `hn template list`",
        )
    return [e.TemplateRemoved(at=now, name=kept.name, by=command.by.name)]


def submitted_spec(cluster: Cluster, by: User, spec: JobSpec) -> JobSpec:
    """Return the description as its template makes it; filters that come first may choose another template.

    Raises:  what `shaped` does.
    """
    return spec if submission_filters(cluster, spec) else shaped(cluster.templates, by, spec)


def refuse_modified(cluster: Cluster, spec: JobSpec) -> None:
    """Refuse a change of a submitted job that its template does not allow.

    Raises:  BadRequest ``template``.
    """
    template = template_named(cluster.templates, spec.template) if cluster.templates else None
    if template is not None:
        refuse_broken(template, spec)
