"""The simple properties of a job that have a field of their own, with what the field cannot say.

Source: SSS 3.1.0, Table 25-2 (Priority, Hold, EligibleTime) and "NotificationList".
"""

from collections.abc import Callable
from typing import Any

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.sss.job_object import Job
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.walking import Walk
from headnode.core.formats.sss.streams import Notifications
from headnode.core.formats.sss.value_types import MOST_SECONDS
from headnode.core.model.quantities import HIGHEST, LOWEST, Instant, Priority

HELD = Instant(float(MOST_SECONDS))
"""Until when a job is held that waits for a person: the last moment that SSS can say, 2106-02-07."""

EVENTS = {"jobstart": "notify_on_start", "jobend": "notify_on_completion"}
"""The events of NotificationList that Headnode tells, in small letters."""

Fields = dict[str, Any]


def priority_of(job: Job, where: str, walk: Walk, findings: Findings) -> Fields:
    """Return the priority when it is of Headnode's scale; else it is kept, and the job is Normal."""
    value = job.value("Priority")
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


def hold_of(job: Job, where: str, walk: Walk, findings: Findings) -> Fields:
    """Return until when the job is held: for a person, or until it is eligible."""
    holds = [one for one in job.all("Hold") if one.value]
    eligible = job.value("EligibleTime")
    if holds:
        walk.kept.extend(holds)
        names = ", ".join(str(one.value) for one in holds)
        what = f"Hold {names}: it is held until 2106-02-07, or until its hold is changed"
        findings.add(Kind.APPROXIMATED, where, what)
        if eligible is not None:
            walk.kept.extend(job.all("EligibleTime"))
        return {"hold_until": HELD}
    if eligible is None:
        return {}
    findings.add(Kind.TRANSLATED, where, "EligibleTime: the job is held until then")
    return {"hold_until": Instant(float(eligible))}


def events_of(job: Job, walk: Walk) -> Fields:
    """Return what the owner is told, and where; other events and other ways are kept without effect."""
    fields: Fields = {}
    for one in job.properties:
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
