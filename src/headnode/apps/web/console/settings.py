"""The rules of the site: the cluster's parameters and their changes; templates, filters and licences.

Several parameters change at once.  A filter is tried with a job file.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.cli.screens.cluster import change_row, limit_row, no_limits, share_place, share_row
from headnode.apps.readable_values import parameter_text, parameter_unit
from headnode.apps.web.console.policy_lab import SIMULATED, verdict_on
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    Visit,
    texts,
    with_notes,
)
from headnode.core.model.errors import BadRequest, HeadnodeError

CHANGES_SHOWN: Final = 200
SUBJECTS: Final = (
    ("Scheduling", re.compile("Scheduling|Preemption|Priority|Rebalancing|^Usage|Shares$")),
    ("Licences", re.compile("Licence")),
    ("Limits of users, projects and groups", re.compile("Limits$")),
    ("Filters", re.compile("Filter|DefaultHoldDuration")),
    ("Notifications and webhooks", re.compile("^Email|^Notification|Webhook")),
    ("Bank", re.compile("^Bank")),
    ("File staging", re.compile("^Transfer")),
    ("Users", re.compile("Administrators|Operators|SiteKeyRoles|UserMapping|PrivateEnvironments")),
    (
        "Nodes",
        re.compile("^Node|^Heart|^Inact|^Health|^Temp|log(Program|Timeout)$|Affinity|EnforceM|ProcessLimit"),
    ),
    ("Jobs and tasks", re.compile("")),
)
"""The headings of the page, and the parameters below each: those of no earlier heading."""
LIMITS_SHOWN: Final = 100  # users, projects and groups
OF_SCHEDULING: Final = frozenset(("SchedulingPolicy", *SIMULATED))
"""Parameters of which the policy lab can say what they would change."""


async def page_of_limits(visit: Visit) -> Model:
    """Return the limits of as many owners as a page has, from the place in the address."""
    return await visit.ask("limits", after=visit.query.get("after", ""), limit=LIMITS_SHOWN)


async def page_of_shares(visit: Visit) -> list[Model]:
    """Return the shares of projects and users, each project before its users; none without weights."""
    answer = await visit.ask("shares", limit=LIMITS_SHOWN)
    rows = [*answer["projects"], *answer["users"]] if answer["weighted"] else []
    return [dict(share_row(each)) for each in sorted(rows, key=share_place)]


async def show_settings(visit: Visit) -> Model:
    """Return all parameters that fit the word of the address, with their changes."""
    params = await parameters_as_typed(visit)
    changes = (await visit.ask("parameter_history", limit=CHANGES_SHOWN))["changes"]
    latest = {change["name"]: change for change in changes}
    limits = await page_of_limits(visit)
    word = visit.query.get("find", "").strip().lower()
    return {
        "title": "Settings",
        "find": visit.query.get("find", ""),
        "parameters": [
            {
                **each,
                "subject": subject,
                "changed": each["value"] != each["default"],
                "latest": latest.get(each["name"]),
                "lab": each["name"] in OF_SCHEDULING,
            }
            for subject, _ in SUBJECTS
            for each in params
            if subject_of(each["name"]) == subject
            and (word in each["name"].lower() or word in each["doc"].lower())
        ],
        "limits": [limit_row(use) for use in limits["limits"]],
        "more_limits": limits["more"],
        "no_limits": no_limits(limits),
        "shares": await page_of_shares(visit),
        "changes": [change_row(change) | {"at": change["at"]} for change in changes[::-1]],
        "errors": {},
        "filled": {},
        "error": None,
    }


async def parameters_as_typed(visit: Visit) -> list[Model]:
    """Return all parameters with their values as people type them: times have units."""
    return [
        each
        | {name: parameter_text(each[name], each["unit"]) for name in ("value", "default")}
        | {"unit": parameter_unit(each["unit"])}
        for each in (await visit.ask("parameters"))["parameters"]
    ]


def subject_of(parameter: str) -> str:
    """Return the heading below which a parameter is shown."""
    return next(subject for subject, pattern in SUBJECTS if pattern.search(parameter))


async def change_settings(visit: Visit, form: FormData) -> GoTo | FormAgain:
    """Set the parameters whose fields differ from what the page showed; all of them or none.

    What others have changed since then stays so.
    """
    before = {each["name"]: each for each in await parameters_as_typed(visit)}
    entered, displayed = _fields_named(form, "param-"), _fields_named(form, "was-")
    changed = {
        name: value or None
        for name, value in entered.items()
        if name in before and value not in (before[name]["value"], displayed.get(name))
    }
    if not changed:
        return GoTo("/settings", PageMessage("Nothing was changed."))
    of_scheduling = {name: value or "" for name, value in changed.items() if name in OF_SCHEDULING}
    if of_scheduling and not texts(form, "known"):
        return await _ask_again(visit, changed, before)
    try:
        answer = await visit.ask("set_parameters", values=changed)
    except HeadnodeError as error:
        model = await show_settings(visit)
        named = [name for name in changed if name in error.what or name in map(str, error.path)]
        message = f"{error.what}; {error.fix}" if error.fix else error.what
        return FormAgain(
            "settings.html",
            model
            | {
                "filled": {name: entered[name] for name in changed},
                "errors": dict.fromkeys(named, message),
                "error": {"what": error.what, "fix": error.fix},
            },
        )
    return GoTo("/settings", with_notes(f"Changed: {', '.join(changed)}.", answer))


def _fields_named(form: FormData, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value.strip()
        for key, value in form.multi_items()
        if key.startswith(prefix) and isinstance(value, str)
    }


async def _ask_again(
    visit: Visit, changed: Mapping[str, str | None], before: Mapping[str, HeadAnswer]
) -> FormAgain:
    """Return the page that says what the policy lab knows of a change, before it is applied."""
    values = {name: value or before[name]["default"] for name, value in changed.items()}
    in_lab = {name: value for name, value in values.items() if name in (*SIMULATED, "SchedulingPolicy")}
    return FormAgain(
        "settings_apply.html",
        {
            "title": "Apply changes",
            "changes": [
                {"name": name, "before": before[name]["value"], "after": value, "doc": before[name]["doc"]}
                for name, value in values.items()
            ],
            "values": {name: value or "" for name, value in changed.items()},
            "lab": in_lab,
            "verdict": verdict_on(visit.lab.runs.values(), before["SchedulingPolicy"]["value"], in_lab),
        },
        200,
    )


SETTINGS_PAGES: Final = (ConsolePage("/settings", "settings.html", show_settings),)
SETTINGS_ACTIONS: Final = (ConsoleAction("/settings", change_settings),)


NEW_TEMPLATE: Final = """name = "short"
description = "Jobs of up to an hour"

[run_time]
default = "30m"
maximum = "1h"
"""


async def show_rules(visit: Visit) -> Model:
    """Return the templates, the filters in calling order, and the licences."""
    filters = await visit.ask("filters")
    params = {each["name"]: each for each in await parameters_as_typed(visit)}
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
    content = text if isinstance(text, str) else ""
    try:
        answer = await visit.ask("set_template", text=content)
    except HeadnodeError as error:
        problem = {"what": error.what, "fix": error.fix}
        return FormAgain("template.html", _template(None, content, [], "toml") | {"error": problem})
    lost = "; ".join(f"{item['where']}: {item['what']}" for item in answer["report"][:5])
    message = f"Template {answer['template']['name']} is stored."
    return GoTo("/templates", PageMessage(message, "warning" if lost else "", lost))


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
    ConsolePage("/templates/{name:path}", "template.html", show_template),
)
RULES_ACTIONS: Final = (
    ConsoleAction("/templates", store_template),
    ConsoleAction("/templates/remove", remove_template),
    ConsoleAction("/templates/test", try_filter),
)
