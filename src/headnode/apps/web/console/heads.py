"""The head and its standby heads: how far each is, what happened lately, and the commands for them."""

from typing import Final

from headnode.apps.cli.screens.cluster import STANDBY_STATES, standby_wait
from headnode.apps.readable_values import counted, duration
from headnode.apps.web.console.visit import ConsolePage, HeadAnswer, Model, Visit

EVENTS_AT_ONCE, MAX_ASKED = 5000, 4
"""How many events an answer looks at, and how many answers the page asks for."""
SHOWN: Final = 20
_WHAT: Final = {
    "standby.admitted": "Standby {name} joined, at {address}",
    "standby.removed": "Standby {name} was removed",
    "head.taken_over": "Standby {name} became the head, at {address}",
}


async def show_heads(visit: Visit) -> Model:
    """Return the head, its standby heads, and what happened to them lately."""
    answer = await visit.ask("standbys")
    standbys = answer["standbys"]
    return {
        "title": "Heads",
        "head": {key: answer[key] for key in ("address", "term", "event")},
        "sentence": loss_sentence(answer),
        "standbys": [
            {
                **each,
                "word": STANDBY_STATES[each["state"]],
                "by_itself": _by_itself(each),
                "waited": standby_wait(each),
            }
            for each in standbys
        ],
        "events": await _lately(visit, answer["event"]),
        "looked_at": min(answer["event"], EVENTS_AT_ONCE * MAX_ASKED),
    }


def loss_sentence(answer: HeadAnswer) -> str:
    """Return in one sentence what is lost with the head's machine."""
    standbys = answer["standbys"]
    if not standbys:
        return "If the machine of the head is lost, all changes since the last backup are lost."
    in_step = sum(each["state"] == "InStep" for each in standbys)
    if in_step:
        have = "has" if in_step == 1 else "have"
        return f"{counted(in_step, 'standby head')} {have} all acknowledged changes."
    if answer["wait"] == 0 and any(each["state"] == "HeadReplica" for each in standbys):
        return "Standby heads follow, and no acknowledgement waits for them (StandbyWait is 0)."
    return "No standby head has all acknowledged changes."


def _by_itself(standby: HeadAnswer) -> str:
    after = standby["takeover_after"]
    return f"after {duration(after)} without the head" if after else "no: by a command"


async def _lately(visit: Visit, newest: int) -> list[Model]:
    """Return the takeovers and changes of standby heads among the newest events, the newest first."""
    after, events = max(0, newest - EVENTS_AT_ONCE * MAX_ASKED), list[HeadAnswer]()
    for _ in range(MAX_ASKED):
        page = await visit.ask("events", after=after, types=list(_WHAT), limit=1000)
        events += page["events"]
        after = page["after"]
        if after >= newest:
            break
    return [{"at": each["at"], "what": event_words(each)} for each in events[: -SHOWN - 1 : -1]]


def event_words(event: HeadAnswer) -> str:
    """Return what happened to a head or standby head."""
    by = f" (by {event['by']})" if event.get("by") else ""
    return _WHAT[event["type"]].format_map({"address": "", **event}) + by


HEAD_PAGES: Final = (ConsolePage("/heads", "heads.html", show_heads),)
