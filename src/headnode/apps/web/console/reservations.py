"""The reservations of nodes: a list, a form that makes one, and what it moves."""

from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.cli.screens.cluster import later_start, reservation_row, reservation_view
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    Model,
    PageMessage,
    Visit,
    instant_in,
    texts,
    whole_number_in,
)
from headnode.core.formats.text.quantities import parse_span
from headnode.core.model.errors import HeadnodeError

AT_END: Final = (
    ("limit", "jobs inside must end by then"),
    ("run-on", "jobs inside continue"),
    ("cancel", "jobs inside are canceled"),
)


async def show_reservations(visit: Visit) -> Model:
    """Return all reservations, and the empty form."""
    reservations = (await visit.ask("reservations"))["reservations"]
    return {
        "title": "Reservations",
        "rows": [
            {**each, "for": reservation_row(each)["For"], "facts": list(reservation_view(each).items())}
            for each in reservations
        ],
        "at_end": AT_END,
        "filled": {},
        "errors": {},
        "error": None,
    }


async def make_reservation(visit: Visit, form: FormData) -> GoTo | FormAgain:
    """Make a reservation; the message has the promised starts that it moves."""
    try:
        answer = await visit.ask("create_reservation", **_fields(form))
    except HeadnodeError as error:
        model = await show_reservations(visit)
        message = f"{error.what}; {error.fix}" if error.fix else error.what
        filled = {key: value for key, value in form.multi_items() if isinstance(value, str)}
        errors = {str(part): message for part in error.path[:1]}
        problem = {"what": error.what, "fix": error.fix}
        return FormAgain("reservations.html", model | {"filled": filled, "errors": errors, "error": problem})
    moved = "; ".join(later_start(each) for each in answer["delayed"][:5])
    text = f"Reservation {answer['reservation']['name']} is created."
    return GoTo("/reservations", PageMessage(text, "warning" if moved else "", moved))


def _fields(form: FormData) -> dict[str, Any]:
    """Return the fields of the verb that the form describes.

    Raises:  BadRequest ``time``, ``count``, ``duration``.
    """
    names = {
        key: [each.strip() for each in texts(form, key).split(",") if each.strip()] or None
        for key in ("node_groups", "features", "users", "groups", "projects")
    }
    lasts = texts(form, "duration")
    return {
        "name": texts(form, "name"),
        "start": instant_in(form, "start"),
        "end": instant_in(form, "end"),
        "duration": float(parse_span(lasts)) if lasts else None,
        "nodes": texts(form, "nodes") or None,
        "count": whole_number_in(form, "count", "nodes"),
        "at_end": texts(form, "at_end") or None,
        "automatic": bool(texts(form, "automatic")),
        "reason": texts(form, "reason") or None,
        "ignore_running": bool(texts(form, "ignore_running")),
        **names,
    }


async def cancel_reservation(visit: Visit, form: FormData) -> GoTo:
    """Cancel a reservation; the message names the jobs that wait for it."""
    answer = await visit.ask("cancel_reservation", name=texts(form, "name"))
    waiting = ", ".join(map(str, answer["waiting"][:10]))
    fix = f"These jobs named it: {waiting}. Change their reservation, or cancel them." if waiting else ""
    return GoTo(
        "/reservations",
        PageMessage(f"Reservation {answer['canceled']} is canceled.", "warning" if fix else "", fix),
    )


RESERVATION_PAGES: Final = (ConsolePage("/reservations", "reservations.html", show_reservations),)
RESERVATION_ACTIONS: Final = (
    ConsoleAction("/reservations", make_reservation),
    ConsoleAction("/reservations/cancel", cancel_reservation),
)
