"""How times, spans, states and ids are read and written."""

import time
from collections.abc import Iterator

import pytest

from headnode.apps import readable_values
from headnode.apps.cli import options
from headnode.apps.cli.arguments import job_id, job_ids, task_address
from headnode.apps.cli.catalogue import nearest_command
from headnode.apps.cli.options import NODE_STATES
from headnode.apps.cli.progress import counts
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds, format_time_limit


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_times_are_local_with_their_offset_in_summer_and_winter() -> None:
    assert readable_values.instant(1_700_000_000.0) == "2023-11-14T23:13:20+01:00"
    assert readable_values.instant(1_690_000_000.0) == "2023-07-22T06:26:40+02:00"
    assert readable_values.instant(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "infinite"),
        (0, "0 s"),
        (0.31, "0.31 s"),
        (9.96, "10 s"),
        (42, "42 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (3601, "1 h"),
        (100_000, "1 d 3 h"),
    ],
)
def test_a_span_is_said_in_two_units_at_most(seconds: float | None, text: str) -> None:
    assert readable_values.duration(seconds) == text


@pytest.mark.parametrize("seconds", [0, 60, 120, 3540, 3600, 86_400, 90_060, 10_000_020])
def test_a_run_time_limit_is_written_as_the_model_writes_it(seconds: int) -> None:
    assert readable_values.time_limit(seconds) == format_time_limit(Seconds(float(seconds)))
    assert readable_values.time_limit(None) == "none"


def test_states_are_read_in_every_spelling() -> None:
    wanted = ["Canceled", "Finished", "Configuring", "Configuring"]
    assert options.read_states("cancelled,Completed,Not_Submitted,configuring") == wanted
    assert options.read_states("online,OFFLINE,ready", NODE_STATES) == ["Ready", "Drained", "Ready"]
    assert options.read_states("*") is None
    assert options.read_states("All") is None
    assert options.read_states(None) is None


def test_an_unknown_state_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadRequest, match="state 'idle' is unknown") as refused:
        options.read_states("running,idle")
    assert "Canceled" in refused.value.fix
    with pytest.raises(BadRequest):
        options.read_states("finished", NODE_STATES)


def test_ids_may_be_listed_and_given_as_ranges() -> None:
    assert job_ids(["3", "5-7,9"]) == [3, 5, 6, 7, 9]
    assert job_id(["3"]) == 3
    assert task_address(["12.3"]) == (12, 3, None)
    assert task_address(["12.3.7"]) == (12, 3, 7)


@pytest.mark.parametrize("wrong", ["", "x", "7-5", "1-", "-3", "1-999999999", "²", "1.2", "9" * 40])
def test_what_is_no_id_is_refused(wrong: str) -> None:
    with pytest.raises(BadRequest):
        job_ids([wrong])


@pytest.mark.parametrize("wrong", [[], ["12"], ["12.1.2.3"], ["12.x"], ["12.1", "12.2"], ["12."]])
def test_what_is_no_task_is_refused(wrong: list[str]) -> None:
    with pytest.raises(BadRequest):
        task_address(wrong)


def test_counts_of_tasks_leave_out_what_is_zero() -> None:
    tasks = {"total": 5, "queued": 2, "running": 1, "finished": 2, "failed": 0, "canceled": 0}
    assert counts(tasks) == "2/5 tasks finished, 1 running"


def test_one_job_is_asked_for_where_only_one_makes_sense() -> None:
    for several in ([], ["1", "2"], ["1-2"]):
        with pytest.raises(BadRequest):
            job_id(several)


@pytest.mark.parametrize(
    ("noun", "typed", "meant"),
    [
        ("reservation", "add", "reservation new"),
        ("reservation", "delete", "reservation cancel"),
        ("template", "create", "template import"),
        ("token", "rm", "token revoke"),
        ("node", "delete", "node remove"),
        ("node", "add", "node invite"),
        ("node", "undrain", "node resume"),
        ("node", "close", "node drain"),
    ],
)
def test_another_word_for_the_same_leads_to_the_verb_of_the_noun(noun: str, typed: str, meant: str) -> None:
    assert nearest_command(noun, typed) == meant
