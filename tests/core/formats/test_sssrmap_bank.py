"""Messages to a bank are those of the page, and an answer is believed only if it can be one."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.formats.sss.sssrmap.bank import done_before, judged, needs_query, query_of, request_of
from headnode.core.formats.sss.sssrmap.messages import (
    RmapResponse,
    canonical,
    envelope,
    parsed,
    read_response,
    write_request,
)
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from headnode.core.formats.sss.sssrmap.status import MessageFault
from headnode.core.model.bank import BankedRun, BankOrder
from headnode.core.model.quantities import Instant
from testbed.bank_peer import Till, answered

PAGE = Path(__file__).parents[3] / "docs" / "sssrmap.md"
BLOCK = re.compile(r"^```xml\n(<Request.*?|<Response.*?)\n```$", re.MULTILINE | re.DOTALL)
ASKED = BankedRun(job=12, run=1, owner="ann", project="physics", processors=2, seconds=600)
OVER = BankedRun(
    job=12, run=1, owner="ann", project="physics", processors=2, seconds=90,
    started=Instant(1.7e9), ended=Instant(1.7e9 + 90),
)  # fmt: skip


def order(action: Any, run: BankedRun = ASKED, *, first: bool = True) -> BankOrder:
    return BankOrder(1, "bank", "/key", "headnode", "n1", action, run, first)


def response(inside: str, code: str = "000", value: str = "Success", more: str = "") -> RmapResponse:
    status = f"<Status><Value>{value}</Value><Code>{code}</Code><Message>words</Message></Status>"
    return read_response(parsed(envelope(f"<Body><Response{more}>{status}{inside}</Response></Body>")))


def booked(name: str, stage: str, charge: str) -> str:
    """Return what a bank tells of a run."""
    inside = f"<JobId>{name}</JobId><Stage>{stage}</Stage><Charge>{charge}</Charge>"
    return f"<Data><Job>{inside}</Job></Data>"


def test_the_messages_of_the_page_are_sent_and_answered_as_it_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text().partition("\n## A bank\n")[2])
    orders = [
        request_of(order("quote")),
        request_of(order("reserve")),
        query_of(order("charge", OVER)),
        request_of(order("charge", OVER)),
        request_of(order("refund")),
        request_of(order("release")),
    ]
    assert len(blocks) == 2 * len(orders)
    (tmp_path / "auth_key").write_text("key\n")
    till = Till(tmp_path / "bank.db")
    till.database.execute("insert into accounts values ('physics', 5000)")
    for request, asks, answers in zip(orders, blocks[::2], blocks[1::2], strict=True):
        body = canonical(write_request(request))
        assert body == f"<Body>{asks}</Body>"
        assert answers in answered(till, envelope(body, signature_of(body, b"key")), tmp_path)
    till.database.close()


@pytest.mark.parametrize(
    ("inside", "amount"),
    [
        ("<Data><Charge><Amount>180</Amount><Job>17</Job></Charge></Data>", 180_000_000),
        ("<Count>180</Count>", 180_000_000),
        (
            "<Count>180</Count><Data><Refund><JobId>n1-12-1</JobId><Refund>180.25</Refund></Refund></Data>",
            180_250_000,
        ),
        ("<Count>12345678901.50</Count><Data><Charge><Amount>7.50</Amount></Charge></Data>", 7_500_000),
        ("<Data><Job><JobId>n1-12-1</JobId><Charge>0.1234567</Charge></Job></Data>", 123_456),
        ("<Data><Amount>999999999999</Amount></Data>", 999_999_999_999_000_000),
        ("<Data><Charge><Amount>1</Amount></Charge><Charge><Amount>1</Amount></Charge></Data>", 1_000_000),
    ],
)
def test_the_amount_of_an_answer_is_read(inside: str, amount: int) -> None:
    reply = judged(order("charge"), response(inside))
    assert (reply.outcome, reply.amount) == ("done", amount)


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<Data><Charge><Amount>-1</Amount></Charge></Data>",
        "<Data><Charge><Amount>1e9</Amount></Charge></Data>",
        "<Data><Charge><Amount>9999999999999</Amount></Charge></Data>",
        "<Data><Charge><Amount>nan</Amount></Charge></Data>",
        "<Data><Charge><Amount>1</Amount></Charge><Charge><Amount>2</Amount></Charge></Data>",
        "<Data><Job><JobId>n1-12-2</JobId><Charge>5</Charge></Job></Data>",
    ],
)
def test_an_answer_without_a_believable_amount_is_none(inside: str) -> None:
    assert judged(order("charge"), response(inside)).outcome == "away"


@pytest.mark.parametrize(
    ("code", "action", "text"),
    [
        ("740", "charge", "refused"),
        ("782", "reserve", "refused"),
        ("740", "release", "done"),
        ("730", "reserve", "away"),
        ("720", "reserve", "away"),
        ("424", "reserve", "away"),
        ("313", "quote", "away"),
    ],
)
def test_only_what_is_about_the_money_is_a_refusal(code: str, action: str, text: str) -> None:
    assert judged(order(action), response("", code, "Failure")).outcome == text


def test_an_answer_to_another_message_is_none() -> None:
    inside = "<Count>5</Count>"
    assert judged(order("charge"), response(inside, more=' id="n1-12-2-charge"')).outcome == "away"
    assert judged(order("charge"), response(inside, more=' id="n1-12-1-charge"')).outcome == "done"


@pytest.mark.parametrize(
    ("action", "inside", "text"),
    [
        ("charge", "", None),
        ("charge", booked("n1-12-1", "Reserve", "0"), None),
        ("charge", booked("n1-12-1", "Charge", "180"), "done"),
        ("charge", booked("n1-12-1", "Charge", "x"), "away"),
        ("charge", booked("n1-12-2", "Charge", "180"), "away"),
        ("charge", "<Data><Moon></Moon></Data>", "away"),
        ("charge", booked("n1-12-1", "Reserve", "0") + booked("n1-12-1", "Reserve", "0"), None),
        ("charge", booked("n1-12-1", "Reserve", "0") + booked("n1-12-1", "Charge", "180"), "done"),
        ("charge", booked("n1-12-1", "Charge", "180") + booked("n1-12-2", "Charge", "180"), "away"),
        ("refund", booked("n1-12-1", "Reserve", "0") + booked("n1-12-1", "Charge", "180"), None),
        ("refund", booked("n1-12-1", "Reserve", "0") + booked("n1-12-1", "Charge", "0"), "done"),
        ("refund", booked("n1-12-1", "Charge", "180"), None),
        ("refund", booked("n1-12-1", "Charge", "0"), "done"),
        ("refund", booked("n1-12-1", "Refund", "9"), "done"),
    ],
)
def test_what_was_done_before_is_not_done_again(action: str, inside: str, text: str | None) -> None:
    reply = done_before(order(action, first=False), response(inside))
    assert (None if reply is None else reply.outcome) == text


def test_only_a_repeated_charge_or_refund_needs_the_query() -> None:
    asks = [
        (action, first) for action in ("quote", "reserve", "release", "charge", "refund") for first in (1, 0)
    ]
    needy = [action for action, first in asks if needs_query(order(action, first=bool(first)))]
    assert needy == ["charge", "refund"]


@given(st.text(max_size=60), st.sampled_from(["quote", "reserve", "charge", "refund", "release"]))
def test_any_answer_has_a_meaning(inside: str, action: str) -> None:
    try:
        found = response(inside)
    except MessageFault:
        return
    assert judged(order(action), found).outcome in ("done", "refused", "away")
    done_before(order("charge"), found)
