"""Words of pages: instants in sentences, and the headings of the settings."""

import os
import time
from collections.abc import Iterator

import pytest

from headnode.apps.web.console.rendering import with_times
from headnode.apps.web.console.settings import SUBJECTS, subject_of
from headnode.engine.parameters import PARAMETERS

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_instants_in_a_sentence_are_times_in_the_zone_of_the_reader() -> None:
    found = with_times("since 2027-01-15T08:00:00+01:00, by root: <b>fan</b>", NOW)
    assert found == (
        'since <time datetime="2027-01-15T07:00:00+00:00" title="2027-01-15T07:00:00+00:00" data-clock>'
        "07:00</time>, by root: &lt;b&gt;fan&lt;/b&gt;"
    )


@pytest.mark.parametrize("name", ["9999-99-99T99:99:99+99:99", "0001-01-01T00:00:00+23:59", "\x1b[31m\n<i>"])
def test_what_only_looks_like_an_instant_stays_text(name: str) -> None:
    assert "<time" not in with_times(name, NOW)
    assert "<i>" not in with_times(name, NOW)


def test_each_parameter_is_below_a_heading_and_each_heading_has_some() -> None:
    found = [subject_of(each.name) for each in PARAMETERS.values()]
    assert set(found) == {subject for subject, _ in SUBJECTS}
    assert found.count("Jobs and tasks") < 15
