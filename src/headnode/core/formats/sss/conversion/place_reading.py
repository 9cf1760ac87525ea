"""The places where a job may run, by its Machine and ResourceManagerType.

Source: SSS 3.1.0, Tables 25-2 and 25-3.
"""

from typing import NoReturn

from headnode.core.formats.sss.conversion.request_reading import AcceptedRequest
from headnode.core.formats.sss.conversion.simple_fields import Asker
from headnode.core.model.errors import BadRequest
from headnode.core.model.resource import HERE, places_of_kind


def resource_of(taken: AcceptedRequest, asker: Asker, where: str) -> str:
    """Return the resource of a job: the places that its Machine and ResourceManagerType mean; empty for none.

    Where it is not known which cluster will run the job, none of them has a meaning.
    Raises:  BadRequest ``machine`` or ``resource-manager`` when there is no such place.
    """
    asked = taken.options[0].request
    first = asked.get("machine", ""), asked.get("manager", "")
    if not asker.machine or not any(first):
        return ""
    names: dict[str, None] = {}
    for machine, manager in (first, *taken.places):
        names |= dict.fromkeys(_places_of(machine, manager, asker))
    if not names:
        _refuse_place(*first, asker, where)
    return "" if tuple(names) == (HERE,) and not first[1] else ",".join(names)


def _places_of(machine: str, manager: str, asker: Asker) -> list[str]:
    """Return own nodes and resources that are called `machine` and have such a scheduler; empty: any."""
    named = [HERE, *(name for name, _ in asker.resources)]
    if machine:
        wanted = HERE if machine.lower() == asker.machine.lower() else machine.lower()
        named = [name for name in named if name.lower() == wanted]
    if manager:
        fit = places_of_kind(manager, asker.resources)
        named = [name for name in named if name in fit]
    return named


def _refuse_place(machine: str, manager: str, asker: Asker, where: str) -> NoReturn:
    if not manager or not _places_of(machine, "", asker):
        raise BadRequest(
            code="machine",
            what=f"{where}: Machine {machine!r}: the job is for that cluster, and this is {asker.machine!r}",
            fix="submit it there, or take Machine out",
            path=("Machine",),
        )
    known = ", ".join(["Headnode", *dict.fromkeys(system for _, system in asker.resources)])
    place = f"no resource called {machine!r}" if machine else "no resource of this cluster"
    raise BadRequest(
        code="resource-manager",
        what=f"{where}: ResourceManagerType {manager!r}: {place} has that scheduler",
        fix=f"write one of {known}, or take ResourceManagerType out",
        path=("ResourceManagerType",),
    )
