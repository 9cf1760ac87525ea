"""The page that changes the options of a job: those that its state lets change, with what they are now."""

from typing import Any, Final

from headnode.apps.web.console.job import frame
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Visit
from headnode.core.model.field_rows import QUEUED, RUNNING
from headnode.core.model.fields import OPTIONS_OF_JOBS


async def show_change(visit: Visit) -> Model:
    """Return the options of a job that may change in its state."""
    shown = await frame(visit)
    running = shown["job"]["state"] in ("Running", "Suspended")
    allowed = RUNNING if running else QUEUED
    spec = shown["job"]["spec"]
    return shown | {
        "options": [
            {
                "name": f"term-{option.slash.name}",
                "label": option.key.replace("_", " ").capitalize(),
                "hint": option.slash.summary or option.help,
                "now": value_in_words(spec.get(option.key)),
            }
            for option in OPTIONS_OF_JOBS
            if option.slash is not None and allowed in option.allow
        ]
    }


def value_in_words(value: Any) -> str:
    """Return what an option is now, in one line."""
    if value is None or value == []:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name}={inner}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


CHANGE_PAGES: Final = (ConsolePage("/jobs/{job:int}/change", "job_change.html", show_change),)
