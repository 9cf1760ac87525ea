"""The simple properties of a job that have a field of their own, with what the field cannot say.

Source: SSS 3.1.0, Table 25-2 (Priority, Hold, EligibleTime, DeadlineTime) and "NotificationList".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.job_object import Job
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.walking import Walk
from headnode.core.formats.sss.properties import Property, Value
from headnode.core.formats.sss.streams import Notifications
from headnode.core.model.quantities import HIGHEST, LOWEST, Instant, Priority

EVENTS = {"jobstart": "notify_on_start", "jobend": "notify_on_completion"}
"""The events of NotificationList that Headnode tells, in small letters."""

Fields = dict[str, Any]


def priority_of(said: Mapping[str, Value], job: Job, where: str, walk: Walk, findings: Findings) -> Fields:
    """Return the priority when it is of Headnode's scale; else it is kept, and the job is Normal."""
    value = said.get("Priority")
    if not isinstance(value, int):
        return {}
    if LOWEST <= value <= HIGHEST:
        findings.add(Kind.TRANSLATED, where, f"Priority: a number from {LOWEST} to {HIGHEST}")
        return {"priority": Priority(value)}
    walk.kept.extend(job.all("Priority"))
    what = (
        f"Priority {value}: the scale is another's, since it is not from {LOWEST} to {HIGHEST}: it is Normal"
    )
    findings.add(Kind.APPROXIMATED, where, what)
    return {}


def moments_of(said: Mapping[str, Value], job: Job, where: str, findings: Findings) -> Fields:
    """Return what holds the job, from when on it may start, and by when it must have ended."""
    fields: Fields = {}
    holds = [str(one.value) for one in job.all("Hold") if one.value] if "Hold" in said else []
    if holds:
        fields["holds"] = tuple(dict.fromkeys(name.casefold() for name in holds))
        if fields["holds"] != tuple(holds):
            findings.add(Kind.TRANSLATED, where, "Hold: holds have names in small letters, each once")
    for name, field, becomes in _MOMENTS:
        value = said.get(name)
        if value is not None:
            findings.add(Kind.TRANSLATED, where, f"{name}: {becomes}")
            fields[field] = Instant(float(value))
    return fields


_MOMENTS = (
    ("EligibleTime", "hold_until", "the job is held until then"),
    ("DeadlineTime", "end_by", "the job must have ended by then"),
)
_HOLDS = {"system": "System", "user": "User", "operator": "Operator", "batch": "Batch"}


def holds_back(names: Sequence[str], findings: Findings) -> Iterator[Property]:
    """Yield the holds; the usual ones with the capitals of the documents."""
    if any(name != name.casefold() for name in names):
        findings.add(Kind.TRANSLATED, "job", "holds: their names come back in small letters")
    yield from (Property(name="Hold", value=_HOLDS.get(name, name)) for name in names)


def events_of(properties: Iterable[Property], walk: Walk) -> Fields:
    """Return what the owner is told, and where; other events and other ways are kept without effect."""
    fields: Fields = {}
    for one in properties:
        if isinstance(one, Notifications):
            _events(one, fields, walk.unsaid)
    return fields


def _events(one: Notifications, fields: Fields, unsaid: Callable[[Notifications, str], None]) -> None:
    words = [word.strip() for word in str(one.value or "").split(",") if word.strip()]
    address = one.uri.removeprefix("mailto:")
    strange = [word for word in words if word.lower() not in EVENTS]
    if one.uri and "://" in address:
        unsaid(one, f"nobody is told: {one.uri!r} is no address of mail")
        return
    if fields.get("email", address) != address:
        unsaid(one, f"nobody is told at {one.uri!r}: a job has one address")
        return
    fields.update({EVENTS[word.lower()]: True for word in words if word.lower() in EVENTS})
    if address:
        fields["email"] = address
    if strange:
        unsaid(one, f"nobody is told of {', '.join(strange)}")
