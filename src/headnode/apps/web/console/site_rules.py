"""Templates, filters and licences: the rules of the site for jobs, and a test of a filter with a job file."""

from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    Model,
    PageMessage,
    Visit,
    texts,
)
from headnode.core.model.errors import BadRequest, HeadnodeError

NEW_TEMPLATE: Final = """name = "short"
description = "Jobs of up to an hour"

[run_time]
default = "30m"
maximum = "1h"
"""


async def show_rules(visit: Visit) -> Model:
    """Return the templates, the filters in calling order, and the licences."""
    filters = await visit.ask("filters")
    params = {each["name"]: each for each in (await visit.ask("parameters"))["parameters"]}
    return {
        "title": "Templates and filters",
        "templates": (await visit.ask("templates"))["templates"],
        "filters": [
            each | {"what": " ".join(each["program"]) or each["plug_in"]} for each in filters["filters"]
        ],
        "plug_ins": filters["plug_ins"],
        "parameters": [
            each
            for name, each in params.items()
            if "filter" in name.lower() or "licen" in name.lower() or name == "DefaultHoldDuration"
        ],
        "trial": None,
        "filled": {},
        "error": None,
    }


async def show_template(visit: Visit) -> Model:
    """Return one template with its file, or an example for a new one."""
    name = visit.request.path_params["name"]
    form = "hpcpack" if visit.query.get("as") == "hpcpack" else "toml"
    if name == "new":
        return _template(None, NEW_TEMPLATE, [], form)
    answer = await visit.ask("template", template=name, form=form)
    return _template(answer["template"], answer["text"], answer["report"], form)


def _template(template: Any, text: str, report: list[Any], form: str) -> Model:
    return {
        "title": f"Template {template['name']}" if template else "New template",
        "template": template,
        "text": text,
        "report": report,
        "form": form,
        "error": None,
    }


async def store_template(visit: Visit, form: FormData) -> GoTo | FormAgain:
    """Store a template from its text."""
    text = form.get("text")
    words = text if isinstance(text, str) else ""
    try:
        answer = await visit.ask("set_template", text=words)
    except HeadnodeError as error:
        shown = {"what": error.what, "fix": error.fix}
        return FormAgain("template.html", _template(None, words, [], "toml") | {"error": shown})
    lost = "; ".join(f"{item['where']}: {item['what']}" for item in answer["report"][:5])
    said = f"Template {answer['template']['name']} is stored."
    return GoTo("/templates", PageMessage(said, "warning" if lost else "", lost))


async def remove_template(visit: Visit, form: FormData) -> GoTo:
    """Remove a template."""
    answer = await visit.ask("remove_template", template=texts(form, "name"))
    return GoTo("/templates", PageMessage(f"Template {answer['removed']} is removed."))


async def try_filter(visit: Visit, form: FormData) -> FormAgain:
    """Call a filter with a job file, outside the queue."""
    model = await show_rules(visit)
    pasted = form.get("jobfile")
    model["filled"] = {
        "filter": texts(form, "filter"),
        "kind": texts(form, "kind"),
        "jobfile": pasted if isinstance(pasted, str) else "",
    }
    try:
        if not model["filled"]["filter"]:
            raise BadRequest(
                code="filter", what="no filter is named", fix="name a filter or write its program"
            )
        model["trial"] = await visit.ask("test_filter", **model["filled"])
    except HeadnodeError as error:
        model["error"] = {"what": error.what, "fix": error.fix}
    return FormAgain("rules.html", model, 200 if model["trial"] else 422)


RULES_PAGES: Final = (
    ConsolePage("/templates", "rules.html", show_rules),
    ConsolePage("/templates/{name}", "template.html", show_template),
)
RULES_ACTIONS: Final = (
    ConsoleAction("/templates", store_template),
    ConsoleAction("/templates/remove", remove_template),
    ConsoleAction("/templates/test", try_filter),
)
