"""Times are shown in the time zone of the reader, and none is negative when the clock was set back."""

import time
from collections.abc import Iterator

import pytest

from headnode.apps.cli.screens import job as job_screen
from headnode.apps.cli.screens.explain import reasons_in_words
from headnode.apps.readable_values import duration, elapsed, local_times
from headnode.core.model.quantities import instant_text


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_each_time_of_a_sentence_is_that_of_the_reader() -> None:
    found = f"held from {instant_text(0.0)} to {instant_text(86399.9)}: see Zoe"
    assert local_times(found) == "held from 1970-01-01T09:00:00+09:00 to 1970-01-02T08:59:59+09:00: see Zoe"


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    "name", ["x1970-01-01T00:00:00Z", "1970-01-01T00:00:00Zebra", "1970-99-99T00:00:00Z", "Z"]
)
def test_what_only_looks_like_a_time_stays(name: str) -> None:
    assert local_times(name) == name


@pytest.mark.usefixtures("tokyo")
def test_an_explanation_says_times_of_the_reader() -> None:
    held = {"kind": "hold", "subject": "", "text": f"it is held until {instant_text(0.0)}"}
    found = {"blocked_by": None, "reasons": [held]}
    assert reasons_in_words(found, 0.0) == (["it is held until 1970-01-01T09:00:00+09:00"], [])


NOON = 1_700_000_000.0
COUNTS = {"total": 30, "queued": 0, "running": 0, "finished": 30, "failed": 0, "canceled": 0}


@pytest.mark.parametrize("back", [0.5, 3600.0, 86_400.0])
def test_no_time_is_below_zero(back: float) -> None:
    assert elapsed(NOON, NOON - back) is None
    assert duration(-back) == "0 s"


@pytest.mark.parametrize(("ended", "text"), [(NOON + 90, ", in 1 min 30 s"), (NOON - 86_400 + 3600, "")])
def test_the_last_line_of_a_job_has_no_time_that_nobody_knows(ended: float, text: str) -> None:
    job = {
        "id": 7,
        "name": "",
        "state": "Finished",
        "tasks": COUNTS,
        "started": NOON,
        "ended": ended,
        "message": "",
    }
    assert job_screen.ending(job) == f"Job 7 finished: 30 tasks finished{text}"
