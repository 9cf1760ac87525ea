"""The table of a user's recurring jobs (`scrontab`): replaced as a whole, or not at all."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from headnode.core.model.bounds import RECURRING_DESCRIPTIONS
from headnode.core.model.errors import BadRequest, NotAllowed, Refused, WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.state import recurring
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.recurring import check_recurring, check_room
from headnode.core.state.recurring_record import (
    AdvanceRecurring,
    ChangeRecurring,
    CreateRecurring,
    RecurringJob,
    RecurringJobRan,
    RecurringJobRemoved,
    RecurringJobSet,
    RecurringTable,
    RecurringTableSet,
    RecurringTimeSkipped,
    RemoveRecurring,
    RunRecurring,
    SetRecurringTable,
)


def set_table(cluster: ClusterState, command: SetRecurringTable, now: Instant) -> list[Event]:
    """Replace a table.  An entry of the same name goes on as before; its times begin anew if they differ.

    Raises:  Refused; its path begins with ``entries`` and the number of the entry that is refused.
    """
    by, owner = command.by, command.owner
    if by.uid != owner.uid and not by.administrator:
        raise NotAllowed(
            code="not-owner",
            what=f"{by.name!r} may not write the table of {owner.name!r}",
            fix="ask its owner or an administrator",
        )
    before = {each.recurring.name.lower(): each.recurring for each in cluster.recurring.of(owner.name)}
    kept = {name: one for name, one in before.items() if one.table}
    _check_sizes(cluster, command, len(kept))
    events: list[Event] = [RecurringTableSet(at=now, owner=owner.name, text=command.text, by=by.name)]
    names = {entry.name.lower() for entry in command.entries}
    events += [
        RecurringJobRemoved(at=now, number=one.number, by=by.name)
        for name, one in kept.items()
        if name not in names
    ]
    number = cluster.recurring.next_number
    for place, entry in enumerate(command.entries):
        known = before.get(entry.name.lower())
        try:
            asked = _entry(owner, entry, known, number, now)
            if asked == known:
                continue
            check_recurring(cluster, owner, asked, now)
        except Refused as no:
            raise no.inside("entries", place) from None
        number += known is None
        changed = "" if known is None else "table"
        events.append(RecurringJobSet(at=now, recurring=asked, by=by.name, changed=changed))
    return events


def refuse_too_large(text: str, descriptions: int) -> None:
    """Refuse a table of which the jobs have so many bytes of descriptions, or more when all are read.

    Raises:  BadRequest ``descriptions``.
    """
    size = descriptions + 4 * len(text)
    if size > RECURRING_DESCRIPTIONS.most:
        raise BadRequest(
            code="descriptions",
            what=f"the table and its jobs have more than the limit of {RECURRING_DESCRIPTIONS}",
            fix="keep scripts in files and name these; each entry has all variables that are set above it",
        )


def _check_sizes(cluster: ClusterState, command: SetRecurringTable, entries: int) -> None:
    refuse_too_large(command.text, sum(len(each.spec) for each in command.entries))
    check_room(cluster, command.owner.name, len(command.entries) - entries, 0)
    names = [entry.name.lower() for entry in command.entries]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise BadRequest(
                code="recurring-exists",
                what=f"two entries are called {name!r}",
                fix="give one of them another --job-name",
                path=("entries", place),
            )


def _entry(
    owner: User, entry: RecurringJob, recurring: RecurringJob | None, number: int, now: Instant
) -> RecurringJob:
    """Return an entry with what is kept of the one that had its name before.

    Raises:  WrongState ``recurring-exists``.
    """
    asked = replace(
        entry,
        number=number,
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        created=now,
        anchor=now,
        table=True,
    )
    if recurring is None:
        return asked
    if not recurring.table:
        raise WrongState(
            code="recurring-exists",
            what=f"{owner.name!r} has a recurring job {recurring.name!r} already, which is not of the table",
            fix="give the entry another --job-name",
        )
    same = (recurring.schedule, recurring.zone) == (asked.schedule, asked.zone)
    return replace(
        asked,
        number=recurring.number,
        created=recurring.created,
        anchor=recurring.anchor if same else now,
        suspended=recurring.suspended,
    )


def table_set(cluster: ClusterState, event: RecurringTableSet) -> None:
    if event.text:
        cluster.recurring.tables[event.owner] = RecurringTable(event.owner, event.text)
    else:
        cluster.recurring.tables.pop(event.owner, None)


RECURRING_CHANGES: Mapping[type, Callable[[ClusterState, Any], None]] = MappingProxyType(
    {
        RecurringJobSet: recurring.recurring_set,
        RecurringJobRemoved: recurring.recurring_removed,
        RecurringJobRan: recurring.recurring_ran,
        RecurringTimeSkipped: recurring.time_skipped,
        RecurringTableSet: table_set,
    }
)
"""What applies each of `RECURRING_EVENTS`."""
RECURRING_DECISIONS: Mapping[type, Callable[[ClusterState, Any, Instant], list[Event]]] = MappingProxyType(
    {
        CreateRecurring: recurring.create,
        ChangeRecurring: recurring.change,
        RemoveRecurring: recurring.remove,
        AdvanceRecurring: recurring.advance,
        RunRecurring: recurring.run_now,
        SetRecurringTable: set_table,
    }
)
"""What decides about each of `RECURRING_COMMANDS`."""
