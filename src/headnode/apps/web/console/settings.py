"""The cluster's parameters: what each means, its value, who changed it when; several change at once."""

from typing import Final

from starlette.datastructures import FormData

from headnode.apps.cli.screens.cluster import change_row
from headnode.apps.web.console.site import ConsoleAction, ConsolePage, FormAgain, GoTo
from headnode.apps.web.console.visit import Model, PageMessage, Visit
from headnode.core.model.errors import HeadnodeError

CHANGES_SHOWN: Final = 200
OF_SCHEDULING: Final = frozenset(
    ("SchedulingPolicy", "SchedulingDepth", "SchedulingMode", "PreemptionType", "PriorityBias")
)


async def show_settings(visit: Visit) -> Model:
    """Return all parameters that fit the word of the address, with their changes."""
    params = (await visit.ask("parameters"))["parameters"]
    changes = (await visit.ask("parameter_history", limit=CHANGES_SHOWN))["changes"]
    latest = {change["name"]: change for change in changes}
    word = visit.query.get("find", "").strip().lower()
    return {
        "title": "Settings",
        "find": visit.query.get("find", ""),
        "parameters": [
            {
                **each,
                "changed": each["value"] != each["default"],
                "latest": latest.get(each["name"]),
                "lab": each["name"] in OF_SCHEDULING,
            }
            for each in params
            if word in each["name"].lower() or word in each["doc"].lower()
        ],
        "changes": [change_row(change) | {"at": change["at"]} for change in changes[::-1]],
        "errors": {},
        "filled": {},
        "error": None,
    }


async def change_settings(visit: Visit, form: FormData) -> GoTo | FormAgain:
    """Set the parameters whose fields differ from what they were; all of them or none."""
    before = {each["name"]: each for each in (await visit.ask("parameters"))["parameters"]}
    given = {
        key.removeprefix("param-"): value.strip()
        for key, value in form.multi_items()
        if key.startswith("param-") and isinstance(value, str)
    }
    changed = {
        name: value or None
        for name, value in given.items()
        if name in before and value != before[name]["value"] and (value or before[name]["value"])
    }
    if not changed:
        return GoTo("/settings", PageMessage("Nothing was changed."))
    try:
        await visit.ask("set_parameters", values=changed)
    except HeadnodeError as error:
        model = await show_settings(visit)
        named = [name for name in changed if name in error.what or name in map(str, error.path)]
        said = f"{error.what}; {error.fix}" if error.fix else error.what
        return FormAgain(
            "settings.html",
            model
            | {
                "filled": given,
                "errors": dict.fromkeys(named, said),
                "error": {"what": error.what, "fix": error.fix},
            },
        )
    return GoTo("/settings", PageMessage(f"Changed: {', '.join(changed)}."))


SETTINGS_PAGES: Final = (ConsolePage("/settings", "settings.html", show_settings),)
SETTINGS_ACTIONS: Final = (ConsoleAction("/settings", change_settings),)
