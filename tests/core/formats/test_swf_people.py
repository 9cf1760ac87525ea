"""Who ran what, as a job log tells it."""

from headnode.core.formats.swf import read_swf


def line(number: int, user: str, executable: str) -> str:
    return f"{number} {number} -1 5 1 -1 -1 1 10 -1 1 {user} 1 {executable} -1 -1 -1 -1"


def test_users_and_executables_are_read_where_somebody_asks() -> None:
    workload = read_swf([line(1, "7", "-1"), line(2, "-1", "3")], processors=4, whose=True).workload
    assert workload.users == ("7", "")
    assert workload.names == ("", "3")


def test_they_stay_with_their_jobs_when_these_are_put_in_order() -> None:
    workload = read_swf([line(2, "8", "5"), line(1, "7", "4")], processors=4, whose=True).workload
    assert (workload.numbers, workload.users, workload.names) == ((1, 2), ("7", "8"), ("4", "5"))


def test_nobody_asked_nothing_is_kept() -> None:
    workload = read_swf([line(1, "7", "3")], processors=4).workload
    assert (workload.users, workload.names) == ((), ())


def test_a_log_that_says_nothing_of_them_has_no_such_columns() -> None:
    lines = [line(1, "-1", "-1"), "2 2 -1 5 1 -1 -1 1 10"]
    workload = read_swf(lines, processors=4, whose=True).workload
    assert (len(workload.numbers), workload.users, workload.names) == (2, (), ())
