"""The states of grid jobs are those of the Pilot service, in its order, whatever happened to the job."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headnode.apps.web.pilot.grid_jobs import GridTaskPlace, job_states, task_states
from headnode.protocol.event_answers import StateChange

ALONE = {"a": GridTaskPlace(1, 1, ())}
CHAIN = {"a": GridTaskPlace(1, 1, ()), "b": GridTaskPlace(2, 1, ("a",))}


def job(*states: str) -> list[StateChange]:
    return [StateChange(number, float(number), state) for number, state in enumerate(states, 1)]


def states_of(entries: list[dict[str, str]]) -> list[str]:
    return [each["s"] for each in entries]


def ended(number: int, task: int, state: str, started: float | None = None) -> StateChange:
    return StateChange(number, float(number), state, "why", task, 1, 1, "n1", 0, started)


def test_a_suspended_job_is_paused_and_runs_again() -> None:
    changes = job("configuring", "queued", "running", "suspending", "suspended", "resuming", "running")
    assert states_of(job_states(changes)) == ["new", "pending", "running", "paused", "running"]


def test_a_running_task_is_paused_while_its_job_is_suspended() -> None:
    running = StateChange(4, 4.0, "running", task=1, first=1, last=1)
    later = [
        StateChange(n, float(n), s)
        for n, s in enumerate(("suspending", "suspended", "resuming", "running"), 5)
    ]
    changes = [*job("configuring", "queued", "running"), running, *later]
    assert states_of(task_states(changes, CHAIN, ["a"])["a"]) == [
        "new",
        "pending",
        "running",
        "paused",
        "running",
    ]
    assert states_of(task_states(changes, CHAIN, ["b"])["b"]) == ["new"], "it has not started"
    canceled = [*changes[:6], ended(7, 1, "canceled", started=4.0)]
    found = task_states(canceled, CHAIN, ["a"])["a"]
    assert states_of(found) == ["new", "pending", "running", "paused", "aborted"]
    assert [each["ts"] for each in found] == sorted(each["ts"] for each in found)


def test_a_job_that_was_held_in_the_queue_is_paused() -> None:
    assert states_of(job_states(job("configuring", "queued"), held_since=5.0)) == ["new", "pending", "paused"]
    assert states_of(job_states(job("configuring", "queued", "running"), held_since=5.0))[-1] == "running"


def test_a_failed_and_a_canceled_job_are_aborted_and_may_begin_anew() -> None:
    changes = job("configuring", "queued", "running", "ending", "failed", "configuring", "queued")
    assert states_of(job_states(changes)) == ["new", "pending", "running", "aborted", "new", "pending"]


def test_an_attempt_that_ended_at_once_was_running() -> None:
    changes = [*job("configuring", "queued", "running"), ended(4, 1, "finished", started=3.5)]
    found = task_states(changes, ALONE, ["a"])["a"]
    assert states_of(found) == ["new", "pending", "running", "finished"]


def test_a_child_is_new_until_its_parent_has_finished() -> None:
    changes = job("configuring", "queued", "running")
    assert states_of(task_states(changes, CHAIN, ["b"])["b"]) == ["new"]
    changes.append(ended(4, 1, "finished", started=3.0))
    assert states_of(task_states(changes, CHAIN, ["b"])["b"]) == ["new", "pending"]


def test_a_task_that_runs_again_is_pending_again() -> None:
    running = StateChange(4, 4.0, "running", task=1, first=1, last=1)
    changes = [*job("configuring", "queued", "running"), running, ended(5, 1, "queued", started=4.0)]
    assert states_of(task_states(changes, ALONE, ["a"])["a"]) == ["new", "pending", "running", "pending"]


def test_a_chain_of_many_tasks_is_no_deep_recursion() -> None:
    places = {
        f"t{number}": GridTaskPlace(number, 1, (f"t{number - 1}",) if number > 1 else ())
        for number in range(1, 5001)
    }
    assert states_of(task_states(job("configuring"), places, ["t5000"])["t5000"]) == ["new"]


STATES_OF_JOBS = ("configuring", "queued", "running", "suspended", "resuming", "failed", "finished")
CHANGES = st.lists(
    st.one_of(
        st.sampled_from(STATES_OF_JOBS).map(lambda state: (0, state)),
        st.tuples(
            st.integers(1, 2), st.sampled_from(["queued", "running", "finished", "failed", "canceled"])
        ),
    ),
    max_size=12,
)


@given(CHANGES)
def test_any_history_has_the_words_of_the_schema_and_none_twice(
    story: list[tuple[int, str]],
) -> None:
    changes = job("configuring")
    for number, (task, state) in enumerate(story, 2):
        at = float(number)
        changes.append(
            StateChange(number, at, state)
            if task == 0
            else StateChange(number, at, state, task=task, first=1, last=1)
        )
    for entries in (job_states(changes), *task_states(changes, CHAIN, ["a", "b"]).values()):
        words = states_of(entries)
        assert {*words} <= {"new", "pending", "running", "paused", "finished", "aborted"}
        assert all(first != second for first, second in pairwise(words))
        assert words[0] == "new"
