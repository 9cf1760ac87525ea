"""Messages to a bank, and what its answers mean.

Each run of a job has a name of its own at the bank, so a message that is sent again is about the same.  Gold
charges a job as often as it is told to: before a second message the bank is asked whether it had the first.
Gold keeps a record for each time that a run was reserved, and one of them becomes that of its charge.  What
messages call MachineName is the property Machine of these records.
Source:  Gold User's Guide, "Integration with the Resource Management System"; SSSRMAP Message Format 3.0.4;
what Gold's server does.
"""

import re
from typing import Final

from msgspec.structs import replace

from headnode.core.filtering import last_words
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    RmapRequest,
    RmapResponse,
    elements,
    leaf,
    text_of,
)
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bank import MILLION, BankOrder, BankReply

_AMOUNT: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,18})?\Z")
_REFUSED: Final = re.compile(r"7[4-9][0-9]\Z")
_SHORT_OF_MONEY: Final = re.compile(r"insufficient (?:balance|funds|credit)", re.IGNORECASE)
_ACTIONS: Final = {
    "quote": "Quote",
    "reserve": "Reserve",
    "release": "Delete",
    "charge": "Charge",
    "refund": "Refund",
}
_AMOUNTS: Final = ("Amount", "Charge", "Refund")  # how Gold calls what an answer is about
_STAGES: Final = {"charge": ("Charge", "Refund"), "refund": ("Refund",)}
"""The stages of a job at Gold after these, which would do it again."""


def request_of(order: BankOrder) -> RmapRequest:
    """Return the message that asks for something."""
    run, asks = order.run, order.action
    plain = RmapRequest(action=_ACTIONS[asks], actor=order.actor, objects=("Job",), id=f"{order.name}-{asks}")
    if asks == "release":
        return replace(plain, objects=("Reservation",), wheres=(RmapField(name="Name", value=order.name),))
    if asks == "refund":
        return replace(plain, options=(RmapField(name="JobId", value=order.name),))
    inside = [
        leaf("JobId", order.name),
        *([leaf("ProjectId", run.project)] if run.project else []),
        leaf("UserId", run.owner),
        leaf("MachineName", order.machine),
        *([leaf("Queue", run.queue)] if run.queue else []),
        leaf("Processors", run.processors),
        leaf("WallDuration", run.seconds),
        *([leaf("StartTime", int(run.started))] if run.started is not None else []),
        *([leaf("EndTime", int(run.ended))] if run.ended is not None else []),
    ]
    again = [RmapField(name="Replace", value="True")] if asks == "reserve" else []
    return replace(
        plain, options=tuple(again), data=(XmlElement("Data", {}, [XmlElement("Job", {}, [*inside])]),)
    )


def query_of(order: BankOrder) -> RmapRequest:
    """Return the message that asks whether a run was charged or refunded before."""
    return RmapRequest(
        action="Query",
        actor=order.actor,
        objects=("Job",),
        gets=tuple(RmapField(name=name) for name in ("JobId", "Stage", "Charge")),
        wheres=(
            RmapField(name="JobId", value=order.name),
            RmapField(name="Machine", value=order.machine),
        ),
    )


def needs_query(order: BankOrder) -> bool:
    """Whether an earlier message may have done already what this one asks for, and would do it again."""
    return not order.first and order.action in _STAGES


def done_before(order: BankOrder, response: RmapResponse) -> BankReply | None:
    """Return the reply to an order that the bank has carried out already; None if it has not.

    An answer that cannot be believed is a reply, too: the order must not be given.
    """
    if response.status.word == "Failure":
        return _away(order, f"the answer of the bank has no charged amount: {response.status.message}")
    names = [text_of(one, "JobId") for one in response.data if one.name == "Job"]
    if any(name != order.name for name in names) or len(names) != len(response.data):
        return _away(order, "the answer of the bank is about another job than the request")
    amounts = [_read_amount(text_of(one, "Charge") or "0") for one in response.data]
    known = [amount for amount in amounts if amount is not None]
    if len(known) < len(amounts):
        return _away(order, "the amount in the answer of the bank is not a number")
    stages = {text_of(one, "Stage") for one in response.data}
    nothing_left = order.action == "refund" and bool(names) and not any(known)
    if nothing_left or not stages.isdisjoint(_STAGES[order.action]):
        return BankReply(order.number, "done", sum(known))
    return None


def judged(order: BankOrder, response: RmapResponse) -> BankReply:
    """Return what an answer means."""
    status, words = response.status, last_words(response.status.message)
    if response.id not in ("", request_of(order).id):
        return _away(order, "the answer of the bank belongs to another request")
    if status.word == "Failure":
        if _REFUSED.match(status.code) or _SHORT_OF_MONEY.search(status.message):
            done = order.action == "release"  # there is nothing to release
            return BankReply(order.number, "done" if done else "refused", words=words)
        return _away(order, f"the bank answered {status.code} {words}".rstrip())
    if any(text_of(one, "JobId") not in ("", order.name) for one in response.data):
        return _away(order, "the answer of the bank is about another job than the request")
    amount = 0 if order.action == "release" else _amount(response)
    if amount is None:
        return _away(order, "the answer of the bank has no amount")
    return BankReply(order.number, "done", amount, words)


def _amount(response: RmapResponse) -> int | None:
    """Return the amount in an answer: that of its object, otherwise its Count."""
    amounts = [text for one in response.data for name in _AMOUNTS if (text := text_of(one, name))]
    amounts += [one.text.strip() for one in response.data if one.name == "Amount" and not [*elements(one)]]
    if amounts:
        numbers = {_read_amount(text) for text in amounts}
        return numbers.pop() if len(numbers) == 1 else None
    return None if response.count is None else _read_amount(str(response.count))


def _read_amount(text: str) -> int | None:
    if not _AMOUNT.match(text):
        return None
    whole, _, part = text.partition(".")
    return int(whole) * MILLION + int(part[:6].ljust(6, "0"))


def _away(order: BankOrder, words: str) -> BankReply:
    return BankReply(order.number, "away", words=last_words(words))
