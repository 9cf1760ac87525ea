"""Lines of event logs that wait for room: within bounds, and no user takes place or time of others."""

from headnode.apps.server.late_logs import (
    COST_OF_LOG,
    LIFETIME,
    MAX_LATE,
    MAX_OF_USER,
    REST,
    TRIES,
    LateLogs,
    LogKey,
)


def log_of(uid: int, number: int = 0) -> LogKey:
    return LogKey(f"/home/{uid}/{number}.log", f"user{uid}", uid, uid)


def tries(late: LateLogs, now: float) -> list[LogKey]:
    """Try all that is due, in vain; return what was tried."""
    tried = []
    for key, _ in late.due(now):
        tried.append(key)
        late.failed(key, now)
    return tried


def test_lines_of_a_user_take_no_room_of_others_and_short_ones_cost_memory_too() -> None:
    late, number = LateLogs(), 0
    while late.add(log_of(1, number), "x", 0, 0.0):
        number += 1
    assert number == MAX_OF_USER // (COST_OF_LOG + 1)
    assert late.add(log_of(2), "x" * (MAX_OF_USER - COST_OF_LOG), 0, 0.0)
    assert not late.add(log_of(2), "x", 0, 0.0)
    others = [late.add(log_of(uid), "x" * (MAX_OF_USER - COST_OF_LOG), 0, 0.0) for uid in range(3, 9)]
    assert sum(others) == MAX_LATE // MAX_OF_USER - 2
    late.done(log_of(2))
    assert late.add(log_of(9), "x", 0, 0.0)


def test_the_logs_of_a_user_on_a_full_disk_take_few_tries_and_each_has_its_turn() -> None:
    late = LateLogs()
    logs = [log_of(1, number) for number in range(3 * TRIES)]
    for key in (*logs, log_of(2)):
        assert late.add(key, "line\n", 5, 0.0)
    assert tries(late, REST - 1) == []
    first = tries(late, REST)
    assert set(first) == {*logs[:TRIES], log_of(2)}
    assert tries(late, REST + 1) == []
    second, third = (tries(late, at * REST) for at in (2, 3))
    assert {*first, *second, *third} == {*logs, log_of(2)}


def test_when_there_is_room_again_all_logs_of_a_user_are_written_at_once() -> None:
    late = LateLogs()
    for number in range(3 * TRIES):
        late.add(log_of(1, number), f"{number}\n", 5, 0.0)
    tries(late, REST)
    for key, text in late.due(2 * REST):
        assert text == key.path[len("/home/1/") : -len(".log")] + "\n"
        late.done(key)
    assert len(late) == 0


def test_events_count_as_written_up_to_the_first_line_that_waits() -> None:
    late = LateLogs()
    assert late.written_up_to(9) == 9
    late.add(log_of(1), "a", 4, 0.0)
    late.add(log_of(1), "b", 6, 0.0)
    late.add(log_of(2), "c", 7, 0.0)
    assert late.written_up_to(9) == 4
    assert late.failed(log_of(1), REST)
    assert not late.failed(log_of(1), LIFETIME)  # it is given up
    assert late.written_up_to(9) == 7
    assert [text for _, text in late.due(LIFETIME)] == ["c"]
