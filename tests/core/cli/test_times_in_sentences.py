"""Times in sentences of the head are shown in the time zone of the reader."""

import time
from collections.abc import Iterator

import pytest

from headnode.apps.cli.screens.explain import reasons_in_words
from headnode.apps.readable_values import local_times
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
    said = f"held from {instant_text(0.0)} to {instant_text(86399.9)}: see Zoe"
    assert local_times(said) == "held from 1970-01-01T09:00:00+09:00 to 1970-01-02T08:59:59+09:00: see Zoe"


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    "name", ["x1970-01-01T00:00:00Z", "1970-01-01T00:00:00Zebra", "1970-99-99T00:00:00Z", "Z"]
)
def test_what_only_looks_like_a_time_stays(name: str) -> None:
    assert local_times(name) == name


@pytest.mark.usefixtures("tokyo")
def test_an_explanation_says_times_of_the_reader() -> None:
    held = {"kind": "hold", "subject": "", "text": f"it is held until {instant_text(0.0)}"}
    told = {"blocked_by": None, "reasons": [held]}
    assert reasons_in_words(told, 0.0) == (["it is held until 1970-01-01T09:00:00+09:00"], [])
