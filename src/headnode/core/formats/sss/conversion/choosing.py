"""Which of several ways to meet a request a job is submitted with: it has one cluster, one user, one queue.

The ways that are left differ in what the scheduler may choose among.
Source: SSS 3.1.0, "Requested": of several pairs of User and Account, Delivered has one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.sss.constraints import Comparison, Constraint, Facts, holds
from headnode.core.formats.sss.conversion.resource_table import RESOURCES, Request
from headnode.core.formats.sss.expressions import ConstraintSet
from headnode.core.model.errors import BadRequest

_MACHINE = ("Machine",)
_OF_JOB = ("Machine", "User", "Project", "Queue", "QualityOfService", "Reservation")
"""What a job has once, whichever way the scheduler chooses."""


class Asker(NamedTuple):
    """Where a job is submitted and by whom; empty: that is not known."""

    machine: str = ""
    user: str = ""


NOBODY = Asker()


def ways_here(ways: Sequence[ConstraintSet], machine: str) -> tuple[list[ConstraintSet], list[ConstraintSet]]:
    """Return the ways that are for this cluster, best first, and the others.

    What names the cluster only by a comparison, such as NE, has been decided and is left out.
    Raises:  BadRequest ``machine`` when none is for it.
    """
    if not machine:
        return list(ways), []
    here = [_decided(way) for way in ways if _is_for(way, machine)]
    if not here:
        wanted = dict.fromkeys(str(one) for way in ways for one in way.constraints if one.subject == _MACHINE)
        raise BadRequest(
            code="machine",
            what=f"{', or '.join(wanted)}: the job is for that one, and this is {machine!r}",
            fix="submit it there, or take Machine out",
            path=_MACHINE,
        )
    return here, [way for way in ways if not _is_for(way, machine)]


def _is_for(way: ConstraintSet, machine: str) -> bool:
    facts: Facts = {_MACHINE: machine.lower()}
    return all(holds(_lower(one), facts) for one in way.constraints if one.subject == _MACHINE)


def _lower(one: Constraint) -> Constraint:
    match one.value:
        case str():
            return Constraint(one.subject, one.comparison, one.value.lower())
        case tuple():
            return Constraint(one.subject, one.comparison, tuple(word.lower() for word in one.value))
    return one


def _decided(way: ConstraintSet) -> ConstraintSet:
    left = (one for one in way.constraints if one.subject != _MACHINE or one.comparison is Comparison.EQ)
    return replace(way, constraints=tuple(left))


def chosen(options: Sequence[Request], user: str) -> list[int]:
    """Return the numbers of the options that a job can have together, the one it is submitted with first.

    That is the best of those that name the user who submits it, else the best of all.  Others belong to it
    that have the same user, project, queue, reservation and cluster.
    """
    own = (number for number, one in enumerate(options) if user and one.get("run_as") == user)
    first = next(own, 0)
    same = (
        number for number, one in enumerate(options) if number != first and not different(options[first], one)
    )
    return [first, *same]


def different(one: Request, other: Request) -> list[str]:
    """Return what a job has once and `other` says otherwise than `one`, such as ``User amy``."""
    found: list[str] = []
    for name in _OF_JOB:
        (field,) = RESOURCES[name].fields
        mine, another = one.get(field, ""), other.get(field, "")
        if mine != another and (name != "Machine" or mine.lower() != another.lower()):
            found.append(f"{name} {another}" if another else f"no {name}")
    return found
