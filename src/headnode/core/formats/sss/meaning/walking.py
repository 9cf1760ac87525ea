"""The properties that do not ask for resources: those kept, those without effect, those that are no input.

Source: SSS 3.1.0, Tables 25-1 to 25-6.
"""

from collections.abc import Iterable
from typing import NoReturn

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.conditions import Distribution, Extension
from headnode.core.formats.sss.job_object import Scope
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.keeping import is_ours
from headnode.core.formats.sss.meaning.placing import is_understood
from headnode.core.formats.sss.meaning.rows import MEANINGS, OUTCOMES, Role, meaning_of
from headnode.core.formats.sss.properties import Kept, Property
from headnode.core.formats.sss.rows import WORK, Place
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.model.errors import BadRequest

_ASKING = SPELLINGS[Place.REQUESTED]
_NOT_INPUT = "it says what became of the job elsewhere, and is not input"


def _is_quiet(name: str, place: Place) -> bool:
    """Whether nothing is to be told or kept of a property called `name`: others act on it."""
    meaning = meaning_of(name, place)
    if name in _ASKING and meaning.role not in OUTCOMES:
        return True
    return meaning.role is Role.ACTED_ON and (place is Place.JOB or meaning.tasks)


_QUIET = {place: frozenset(name for name in MEANINGS if _is_quiet(name, place)) for place in WORK}
_BY_TYPE = (Kept, Extension, Distribution)


class Walk:
    """Sorts the properties of one scope; what must be written back is in `kept`."""

    def __init__(self, place: Place, where: str, policy: Awareness, findings: Findings) -> None:
        self._place, self._where, self._policy, self._findings = place, where, policy, findings
        self.kept: list[Property] = []

    def over(self, scope: Scope, properties: Iterable[Property]) -> None:
        """Walk over `properties` of `scope`."""
        quiet = _QUIET[self._place]
        for one in properties:
            if one.name not in quiet or type(one) in _BY_TYPE:
                self._one(one)
        if scope.delivered:
            self._findings.add(Kind.NOTE, self._where, f"Delivered: {_NOT_INPUT}")

    def unsaid(self, one: Property, why: str) -> None:
        """Keep a property, and say that it has no effect."""
        self.kept.append(one)
        policy = one.awareness or self._policy
        self._findings.unsupported(policy, self._where, f"{_told(one)}: {why}")

    def _one(self, one: Property) -> None:
        if isinstance(one, Kept):
            self.kept.append(one)  # the reader of the document has told it
        elif isinstance(one, Extension):
            self._extension(one)
        elif isinstance(one, Distribution):
            if not is_understood(one):
                self.unsaid(one, "tasks go to any nodes of the job")
        else:
            self._by_role(one)

    def _extension(self, one: Extension) -> None:
        if not is_ours(one):
            self.kept.append(one)
            self._findings.add(
                Kind.KEPT, self._where, f"Extension {one.called!r} of type {one.type!r}: it is kept"
            )

    def _by_role(self, one: Property) -> None:
        meaning = meaning_of(one.name, self._place)
        if one.value is None and meaning.role is not Role.ACTED_ON:
            return  # an empty element: the property is not set
        if meaning.role in OUTCOMES:
            self._findings.add(Kind.NOTE, self._where, f"{one.name}: {_NOT_INPUT}")
        elif meaning.role is Role.KEPT or (meaning.role is Role.UNSUPPORTED and one.value is False):
            self.kept.append(one)
            self._findings.add(Kind.KEPT, self._where, f"{one.name}: it is kept; {meaning.becomes}")
        elif meaning.role is Role.UNSUPPORTED:
            self.unsaid(one, meaning.becomes)
        elif one.name in _DECIDE_WHEN:
            if one.value:
                _refuse_in_part(one, self._where)
        else:
            self.unsaid(one, "it has an effect in a job, and none in a part of it")


_DECIDE_WHEN = ("Dependency", "EligibleTime", "Hold", "DeadlineTime", "Reservation")
"""Properties that no policy leaves out: without them the job would run when or where it must not."""


def _refuse_in_part(one: Property, where: str) -> NoReturn:
    """Refuse what decides when tasks may run, in a part of a job.

    Raises:  BadRequest ``part``, always.
    """
    raise BadRequest(
        code="part",
        what=f"{where}: {_told(one)}: it holds for whole jobs, and all tasks of a job start together",
        fix=f"write {one.name} in the Job, or write the tasks as a job of their own",
    )


def _told(one: Property) -> str:
    if isinstance(one, Distribution):
        return f"{one.name} {one.kind} {one.value}"
    called = getattr(one, "called", "")
    return f"{one.name} {called} {one.value}" if called else f"{one.name} {one.value}"
