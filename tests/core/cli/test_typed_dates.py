"""A date that `hn` shows means the same instant when it is typed into an option, in every time zone."""

import time
from collections.abc import Iterator

import pytest

from headnode.apps.cli import arguments
from headnode.apps.cli.arguments import SINCE, UNTIL, moment, period
from headnode.apps.cli.commands import job_submit, node, reservation
from headnode.apps.cli.options import Arguments, CliOption, read_arguments
from headnode.apps.cli.terms import job_terms
from headnode.apps.cli.typed_dates import typed_date
from headnode.apps.readable_values import instant, instant_short
from headnode.core.formats.slash_options import moment as read_by_head
from headnode.core.formats.text.quantities import parse_date_time
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant

# 2026 in Berlin: to summer time on March 29 at 01:00 UTC, back on October 25 at 01:00 UTC
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
ROUND_BOTH_CHANGES = [
    Instant(parse_date_time(f"2026-{day}T{hour:02}:{minute:02}:00Z"))
    for day in ("03-28", "03-29", "03-30", "10-24", "10-25", "10-26")
    for hour in (0, 1, 2, 12, 22, 23)
    for minute in (0, 30)
]


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", BERLIN)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def typed(*words: str, options: tuple[CliOption, ...] = job_submit.OPTIONS) -> Arguments:
    return read_arguments([*words], options, 0)


@pytest.mark.parametrize("at", ROUND_BOTH_CHANGES)
def test_a_date_that_is_shown_means_the_same_when_it_is_typed(at: Instant) -> None:
    shown = instant(at)
    terms = job_terms(typed("--holduntil", shown, "--deadline", shown))
    assert [read_by_head(terms[name], None) for name in ("holduntil", "endby")] == [at, at]
    assert moment(typed("--since", shown, options=(SINCE,)), "since") == at


@pytest.mark.parametrize("at", [at for at in ROUND_BOTH_CHANGES if time.gmtime(at)[3] not in (0, 1)])
def test_a_date_without_its_zone_is_local(at: Instant) -> None:
    shown = instant(at)[:-6]
    assert read_by_head(job_terms(typed("--holduntil", shown))["holduntil"], None) == at
    assert moment(typed("--since", shown, options=(SINCE,)), "since") == at
    closes = typed("--at", shown, options=node_drain_options())
    assert moment(closes, "at", ahead=True) == at


def node_drain_options() -> tuple[CliOption, ...]:
    return next(command.options for command in node.COMMANDS if command.verb == "drain")


def test_reservations_begin_and_end_in_local_time() -> None:
    options = next(command.options for command in reservation.COMMANDS if command.verb == "new")
    asked = typed("--from", "2026-07-01T08:00", "--to", "2026-12-01", options=options)
    requested = reservation._requested(asked)
    assert requested["start"] == parse_date_time("2026-07-01T06:00:00Z")
    assert requested["end"] == parse_date_time("2026-11-30T23:00:00Z")


def test_what_the_head_gets_names_its_zone() -> None:
    assert job_terms(typed("--holduntil", "2026-07-01T08:00:01.5")) == {"holduntil": "2026-07-01T06:00:01.5Z"}
    assert job_terms(typed("--holduntil", "7/31/2026 8:00 PM")) == {"holduntil": "2026-07-31T18:00:00Z"}


@pytest.mark.parametrize("text", ["", "30"])
def test_minutes_and_nothing_are_left_to_the_head(text: str) -> None:
    assert job_terms(typed(f"--holduntil={text}")) == {"holduntil": text}


@pytest.mark.parametrize("text", ["2026-07-01T08:00Z", "2026-07-01T10:00+02:00", "2026-07-01 08:00 UTC"])
def test_a_named_zone_is_kept(text: str) -> None:
    assert job_terms(typed("--holduntil", text)) == {"holduntil": "2026-07-01T08:00:00Z"}


@pytest.mark.parametrize(
    ("text", "happens", "readings"),
    [
        ("2026-10-25T02:30", "occurs twice", "2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"),
        ("2026-03-29 02:30", "does not exist", "2026-03-29T01:30:00+01:00 or 2026-03-29T03:30:00+02:00"),
    ],
)
def test_an_hour_that_is_skipped_or_there_twice_is_refused(text: str, happens: str, readings: str) -> None:
    for read in (
        lambda: job_terms(typed("--endby", text)),
        lambda: period(typed("--since", text, options=(SINCE, UNTIL))),
    ):
        with pytest.raises(BadRequest) as refused:
            read()
        assert happens in refused.value.what
        assert refused.value.fix == f"write {readings}"


def test_the_refusal_of_a_date_names_the_option_and_the_zone() -> None:
    with pytest.raises(BadRequest) as refused:
        job_terms(typed("--deadline", "soon"))
    assert "'endby'" in refused.value.what
    assert refused.value.fix.endswith("in local time; or 2h, or 120, for two hours from now")


@pytest.mark.parametrize("hours", [-20, -3, -1, 1, 3, 20, 24 * 20, -24 * 20])
def test_a_time_of_a_table_means_the_same_when_it_is_typed(
    hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = parse_date_time("2026-07-01T13:05:10Z")
    monkeypatch.setattr(time, "time", lambda: now)
    at = now - 10 + hours * 3600
    assert typed_date("from", instant_short(at, now), ahead=hours > 0) == at


def test_a_time_of_day_is_the_next_or_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: parse_date_time("2026-07-01T22:00:30Z"))  # 00:00 in Berlin
    assert typed_date("from", "00:00", ahead=True) == parse_date_time("2026-07-01T22:00Z")
    assert typed_date("from", "23:59", ahead=False) == parse_date_time("2026-07-01T21:59Z")
    monkeypatch.setattr(time, "time", lambda: parse_date_time("2026-07-01T21:59:00Z"))
    assert typed_date("from", "00:00", ahead=True) == parse_date_time("2026-07-01T22:00Z")
    assert typed_date("from", "02:00", ahead=True) == parse_date_time("2026-07-02T00:00Z")


def test_a_time_ago_needs_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    assert arguments.moment(typed("--since", "1h", options=(SINCE,)), "since") == 82800.0


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("+90m", 5400), ("1d12h", 129_600), ("30s", 30)])
def test_a_span_with_units_is_so_long_from_now(text: str, seconds: int) -> None:
    before = time.time()
    assert before + seconds <= typed_date("from", text, ahead=True) <= time.time() + seconds
    assert read_by_head(text.removeprefix("+"), Instant(0.0)) == seconds


def test_a_span_is_no_date_of_the_past() -> None:
    with pytest.raises(BadRequest):
        typed_date("since", "2h")
