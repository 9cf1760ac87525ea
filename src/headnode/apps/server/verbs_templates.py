"""The verbs of the local protocol that are about job templates."""

from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.program_trials import try_filters
from headnode.apps.server.reading import report_json
from headnode.core.formats.fidelity import Report
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.templates import template_named
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.template import DEFAULT, JobTemplate
from headnode.core.model.user import User

Object = dict[str, Any]


async def templates(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001  (everybody sees all)
    """Show every template; Default always is one."""
    known = desk.cluster.templates
    plain = template_named(known, DEFAULT)
    every = {DEFAULT.lower(): plain} | dict(known) if plain else dict(known)
    return {"templates": [_object(every[key]) for key in sorted(every)]}


async def template(desk: Desk, by: User, wish: w.TemplateWish) -> Object:  # noqa: ARG001
    """Show one template, and its file in TOML or as XML of HPC Pack."""
    from headnode.core.formats import job_template_xml, job_templates

    found = template_named(desk.cluster.templates, wish.template)
    if found is None:
        raise NotFound(
            code="no-such-template",
            what=f"there is no job template {wish.template!r}",
            fix="see `hn template list`",
        )
    report: Report = ()
    if wish.form == "hpcpack":
        text, report = job_template_xml.write_template(found)
        written = text.decode()
    elif wish.form == "toml":
        written = job_templates.write_template(found)
    else:
        raise BadRequest(
            code="template-form", what=f"templates have no form {wish.form!r}", fix="write toml or hpcpack"
        )
    return {"template": _object(found), "text": written, "report": report_json(report)}


async def set_template(desk: Desk, by: User, wish: w.SetTemplateWish) -> Object:
    """Make or replace a template from its file, in either form."""
    from headnode.core.formats import job_template_xml, job_templates

    report: Report = ()
    if wish.text.lstrip("\ufeff \t\r\n").startswith("<"):
        read, report = job_template_xml.read_template(wish.text)
    else:
        read = job_templates.read_template(wish.text)
    await try_filters(read.submission_filters, read.activation_filters)
    await desk.ask(c.SetTemplate(by=by, template=read))
    return {"template": _object(read), "report": report_json(report)}


async def remove_template(desk: Desk, by: User, wish: w.TemplateNameWish) -> Object:
    """Take a template away."""
    await desk.ask(c.RemoveTemplate(by=by, name=wish.template))
    return {"removed": wish.template}


def _object(template: JobTemplate) -> Object:
    from headnode.core.formats.job_templates.native import template_document

    document = template_document(template)
    head = {"name": template.name, "description": template.description}
    access = {"users": list(template.users), "groups": list(template.groups)}
    filters = {
        "submission_filters": template.submission_filters,
        "activation_filters": template.activation_filters,
    }
    rules = {key: rule for key, rule in document.items() if isinstance(rule, dict)}
    return {**head, **access, **filters, "rules": rules}
