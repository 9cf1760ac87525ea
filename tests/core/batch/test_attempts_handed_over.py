"""Exactly once: the table of attempts against a scheduler that loses answers, delays jobs and forgets."""

import random
from collections.abc import Iterator, Sequence

import pytest

from headnode.core.batch.dialect import (
    AttemptPlace,
    CommandResult,
    ForeignAction,
    ForeignEnding,
    ForeignJob,
    ForeignState,
    Rows,
    SubmissionResult,
    marker_of,
    rows_of,
)
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.slurm import ENDINGS
from headnode.core.batch.tracked import PHASES, Fact, Files, ForeignPhase, HandOffReport, HandOffTimeouts
from headnode.core.model.errors import Broken
from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.quantities import Instant, Seconds

TIMEOUT = HandOffTimeouts(Seconds(10.0), Seconds(30.0), Seconds(120.0), Seconds(20.0))
KEY = AttemptPlace(1, 1, 1, 1)
MARK = marker_of("00000000", KEY)
NOTHING = Files(has_started=False)
MEASURED = ResourceUsage(2.0, 1.0, 4096)


def table_with(*, job: str = "", may_be_there: bool = False) -> HandOffTable:
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job=job, may_be_there=may_be_there, now=Instant(0))
    return table


def row(state: ForeignState, word: str = "", owner: str = "ada", **more: object) -> Rows:
    ending = ENDINGS.get(word, ForeignEnding.STOPPED)
    job = ForeignJob("7", MARK, state, word or state.name, ending=ending, owner=owner, **more)
    return rows_of([job])


def outcome(news: Sequence[HandOffReport]) -> tuple[str, int | None, int | None]:
    (ended,) = [each for each in news if each.kind == "ended"]
    assert ended.outcome is not None
    return ended.outcome.kind, ended.outcome.exit_code, ended.outcome.signal


def settled(table: HandOffTable, files: Files, now: float) -> list[HandOffReport]:
    """Return what follows from an exit file where there is no accounting."""
    return [*table.looked({MARK: files}, Instant(now), Instant(now)), *table.remembered(None, Instant(now))]


def test_an_attempt_that_may_be_there_is_searched_for_before_it_is_submitted() -> None:
    table = table_with(may_be_there=True)
    for now in (0, 10, 20, 29, 30, 31, 32):
        assert table.to_submit(Instant(now)) == []
        table.polled({}, Instant(now), Instant(now))
        table.looked({MARK: NOTHING}, Instant(now), Instant(now))
    assert [one.marker for one in table.to_submit(Instant(33))] == [MARK]


def test_an_attempt_that_is_found_is_adopted_not_submitted() -> None:
    table = table_with(may_be_there=True)
    (news,) = table.polled(row(ForeignState.WAITING, reason="Priority"), Instant(1), Instant(1))[:1]
    assert (news.kind, news.id) == ("handed", "7")
    for now in range(2, 500, 10):
        table.polled(row(ForeignState.WAITING), Instant(now), Instant(now))
        assert table.to_submit(Instant(now)) == []


def test_no_bad_answer_counts_as_absence() -> None:
    table = table_with(may_be_there=True)
    for now in range(0, 2000, 10):
        table.polled(None, Instant(now), Instant(now))
        table.looked({MARK: NOTHING}, Instant(now), Instant(now))
        table.looked({MARK: None}, Instant(now), Instant(now))
        assert table.to_submit(Instant(now)) == []


def test_what_has_started_is_never_submitted_again() -> None:
    table = table_with(may_be_there=True)
    found: list[HandOffReport] = []
    for now in range(0, 1000, 10):
        found += table.polled({}, Instant(now), Instant(now))
        found += table.looked({MARK: Files(has_started=True)}, Instant(now), Instant(now))
        assert table.to_submit(Instant(now)) == []
        if found:
            break
    assert outcome(found)[0] == "lost"


def test_a_lost_answer_is_a_doubt_and_a_refusal_is_an_end() -> None:
    table = table_with()
    table.sent(KEY, Instant(0))
    table.submitted(KEY, SubmissionResult("doubtful", message="timed out"), Instant(5))
    assert table.to_submit(Instant(10_000)) == []
    other = table_with()
    other.sent(KEY, Instant(0))
    assert (
        outcome(other.submitted(KEY, SubmissionResult("refused", message="no"), Instant(1)))[0]
        == "not-started"
    )


def test_what_is_gone_is_looked_for_in_its_files_then_in_the_history() -> None:
    table = table_with(job="7")
    table.polled({}, Instant(1), Instant(1))
    assert [one.marker for one in table.to_look_at()] == [MARK]
    found = "code=3 signal=0 start=5 end=9 id=7 host=n1"
    assert outcome(settled(table, Files(True, found), 2)) == ("exited", 3, None)
    other = table_with(job="7")
    other.polled({}, Instant(1), Instant(1))
    ended = row(ForeignState.ENDED, "FAILED", exit_code=4, started=Instant(1))
    assert other.remembered(ended, Instant(5)) == []  # the exit file may still come
    other.looked({MARK: Files(True)}, Instant(22), Instant(22))
    other.attempts[KEY].said_started = True
    assert outcome(other.remembered(ended, Instant(22))) == ("exited", 4, None)


def test_no_end_is_concluded_from_the_history_before_its_files_could_be_looked_at() -> None:
    """A home that does not answer, and accounting that does."""
    table = table_with(job="7")
    table.polled({}, Instant(1), Instant(1))
    ended = row(ForeignState.ENDED, "FAILED", exit_code=4)
    for now in (30, 300):
        table.looked({MARK: None}, Instant(now), Instant(now))
        assert table.remembered(ended, Instant(now)) == []
    table.looked({MARK: Files(True)}, Instant(301), Instant(302))
    assert outcome(table.remembered(ended, Instant(302))) == ("exited", 4, None)


def test_a_look_at_its_files_counts_from_when_it_began() -> None:
    """It may take a minute, and the exit file is written meanwhile."""
    table = table_with(job="7")
    ended = row(ForeignState.ENDED, "COMPLETED", exit_code=0)
    table.polled(ended, Instant(0), Instant(0))
    assert table.looked({MARK: NOTHING}, Instant(1), Instant(60)) == []
    found = "code=0 signal=0 start=5 end=9 id=7 host=n1"
    table.looked({MARK: Files(True, found)}, Instant(60), Instant(61))
    assert outcome(table.remembered(None, Instant(61))) == ("exited", 0, None)
    gone = table_with(job="7")
    gone.polled({}, Instant(1), Instant(1))
    gone.looked({MARK: NOTHING}, Instant(2), Instant(60))
    assert gone.remembered(ended, Instant(60)) == []


def test_a_look_that_began_while_it_may_have_been_submitted_does_not_let_it_be_submitted_again() -> None:
    table = table_with(may_be_there=True)
    for now in (30, 31, 32):
        table.polled({}, Instant(now), Instant(now))
    table.looked({MARK: NOTHING}, Instant(5), Instant(40))
    assert table.to_submit(Instant(40)) == []
    table.looked({MARK: Files(True)}, Instant(41), Instant(41))
    assert table.to_submit(Instant(41)) == []


@pytest.mark.parametrize(
    ("word", "more", "files", "stop", "wanted"),
    [
        ("TIMEOUT", {}, Files(True), False, ("timed-out", None, None)),
        ("NODE_FAIL", {}, Files(True), False, ("lost", None, None)),
        ("PREEMPTED", {}, Files(True), False, ("lost", None, None)),
        ("FAILED", {"signal": 9}, Files(True), False, ("exited", None, 9)),
        ("FAILED", {"exit_code": 5}, Files(True), False, ("exited", 5, None)),
        ("COMPLETED", {"exit_code": 0}, Files(True), False, ("lost", None, None)),
        ("OUT_OF_MEMORY", {}, Files(True), False, ("stopped", None, None)),
        ("CANCELLED", {}, Files(True), False, ("stopped", None, None)),
        ("CANCELLED", {}, NOTHING, False, ("not-started", None, None)),
        ("CANCELLED", {}, NOTHING, True, ("never-ran", None, None)),
        ("CANCELLED", {}, Files(True), True, ("stopped", None, None)),
        ("BOOT_FAIL", {}, NOTHING, False, ("lost", None, None)),
    ],
)
def test_what_ended_without_an_exit_file_ended_as_its_state_says(
    word: str, more: dict[str, int], files: Files, stop: bool, wanted: tuple[str, int | None, int | None]
) -> None:
    table = table_with(job="7")
    if stop:
        table.stop(KEY)
    table.polled(row(ForeignState.ENDED, word, **more), Instant(0), Instant(0))
    if not stop:  # else how it ends is decided: its exit file is not waited for
        assert table.looked({MARK: files}, Instant(10), Instant(10)) == []
    assert outcome(table.looked({MARK: files}, Instant(20), Instant(20))) == wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("FAILED", ("exited", None, 15)),
        ("TIMEOUT", ("timed-out", None, None)),
        ("CANCELLED", ("stopped", None, None)),
        ("PREEMPTED", ("lost", None, None)),
    ],
)
def test_a_signal_in_the_exit_file_is_explained_by_the_state(
    word: str, wanted: tuple[str, int | None, int | None]
) -> None:
    table = table_with(job="7")
    table.polled(row(ForeignState.ENDED, word), Instant(0), Instant(0))
    found = Files(True, "code=143 signal=15 start=5 end=9 id=7 host=n1")
    assert outcome(settled(table, found, 1)) == wanted


def test_what_was_used_is_waited_for_as_long_as_the_accounting_may_be_late() -> None:
    found = Files(True, "code=0 signal=0 start=5 end=9 id=7 host=n1 user=0m1.5s system=0m0.5s")
    for late, used in ((14, MEASURED), (15, ResourceUsage(1.5, 0.5))):
        table = table_with(job="7")
        table.polled(row(ForeignState.ENDED, "COMPLETED"), Instant(0), Instant(0))
        assert [news.kind for news in table.looked({MARK: found}, Instant(1), Instant(1))] == ["started"]
        assert table.remembered({}, Instant(1)) == []
        assert [one.marker for one in table.to_remember()] == [MARK]
        rows = row(ForeignState.ENDED, "COMPLETED", usage=MEASURED) if used is MEASURED else {}
        (ended,) = table.remembered(rows, Instant(1 + late))
        assert ended.outcome is not None
        assert ended.outcome.usage == used
        assert (ended.outcome.kind, ended.outcome.exit_code) == ("exited", 0)


def test_the_accounting_has_what_was_used_by_an_attempt_without_an_exit_file() -> None:
    table = table_with(job="7")
    table.polled(row(ForeignState.RUNNING), Instant(0), Instant(0))
    table.polled({}, Instant(1), Instant(1))
    table.looked({MARK: NOTHING}, Instant(30), Instant(30))
    (ended,) = table.remembered(row(ForeignState.ENDED, "TIMEOUT", usage=MEASURED), Instant(30))
    assert ended.outcome is not None
    assert (ended.outcome.kind, ended.outcome.usage) == ("timed-out", MEASURED)


def test_a_job_of_another_user_with_our_marker_is_none_of_ours() -> None:
    table = table_with(job="6")
    for now in (0, 30, 60):
        table.polled(row(ForeignState.ENDED, "FAILED", owner="eve"), Instant(now), Instant(now))
        assert table.remembered(row(ForeignState.ENDED, "FAILED", owner="eve"), Instant(now)) == []
    assert table.attempts[KEY].row is None
    assert table.attempts[KEY].id == "6"


def test_nothing_is_lost_before_its_time() -> None:
    table = table_with(job="7")
    for now in range(0, 120, 10):
        table.polled({}, Instant(now), Instant(now))
        assert table.looked({MARK: NOTHING}, Instant(now), Instant(now)) == []
    table.polled({}, Instant(120), Instant(120))
    assert outcome(table.looked({MARK: NOTHING}, Instant(120), Instant(120)))[0] == "lost"


@pytest.mark.parametrize(("files", "kind"), [(NOTHING, "never-ran"), (Files(True), "stopped")])
def test_what_was_canceled_there_and_is_gone_is_over_soon(files: Files, kind: str) -> None:
    table = table_with(job="7")
    table.stop(KEY)
    table.begun(ForeignAction.CANCEL, [table.attempts[KEY]], Instant(0))
    for now in (1, 10, 20):
        table.polled({}, Instant(now), Instant(now))
        assert table.looked({MARK: files}, Instant(now), Instant(now)) == []
    table.polled({}, Instant(21), Instant(21))
    assert outcome(table.looked({MARK: files}, Instant(21), Instant(21)))[0] == kind


def test_an_empty_answer_is_not_believed_where_there_are_many() -> None:
    table = HandOffTable("Slurm", TIMEOUT)
    for number in range(1, 5):
        key = AttemptPlace(number, 1, 1, 1)
        table.add(key, marker_of("00000000", key), "ada", job=str(number), may_be_there=True, now=Instant(0))
    table.polled({}, Instant(10), Instant(10))
    assert table.to_look_at() == []
    table.polled({}, Instant(131), Instant(131))
    assert len(table.to_look_at()) == 4


def test_a_canceled_attempt_is_canceled_there_until_it_is_gone() -> None:
    table = table_with(job="7")
    table.stop(KEY)
    (one,) = table.to_act(Instant(0))[ForeignAction.CANCEL]
    assert one.id == "7"
    table.begun(ForeignAction.CANCEL, [one], Instant(0))
    assert table.to_act(Instant(9)) == {}
    assert list(table.to_act(Instant(10))) == [ForeignAction.CANCEL]
    never = table_with()
    never.stop(KEY)
    assert never.to_submit(Instant(0)) == []
    assert outcome(never.never_there(Instant(0)))[0] == "never-ran"


def acts(table: HandOffTable, now: float, *, done: bool = True) -> list[ForeignAction]:
    """Do what is due, as a scheduler that says yes or no; return it."""
    due = table.to_act(Instant(now))
    for action, attempts in due.items():
        table.begun(action, attempts, Instant(now))
        table.acted(action, [KEY], CommandResult(0 if done else 1, "", "error: no"), Instant(now))
    return list(due)


def test_an_attempt_is_held_and_released_once_where_it_waits() -> None:
    table = table_with()
    table.change(KEY, held=True, limit=None)
    assert table.to_submit(Instant(0)) == []  # what is not there yet waits here
    table.change(KEY, held=False, limit=None)
    table.sent(KEY, Instant(0))
    table.change(KEY, held=True, limit=None)
    assert acts(table, 0) == []
    table.submitted(KEY, SubmissionResult("queued", "7"), Instant(1))
    assert [acts(table, 1), acts(table, 2)] == [[ForeignAction.HOLD], []]
    table.polled(row(ForeignState.WAITING), Instant(3), Instant(3))
    assert acts(table, 4) == []
    table.change(KEY, held=False, limit=None)
    assert [acts(table, 5), acts(table, 6)] == [[ForeignAction.RELEASE], []]
    table.change(KEY, held=True, limit=None)
    table.polled(row(ForeignState.RUNNING), Instant(7), Instant(7))
    assert acts(table, 8) == []  # too late


def test_a_change_that_fails_is_tried_again_some_times_and_the_reason_is_reported() -> None:
    table = table_with(job="7")
    table.change(KEY, held=False, limit=60)
    tries = [now for now in range(0, 200, 5) if acts(table, now, done=False)]
    assert tries == [0, 10, 20, 30, 40, 50]
    assert table.attempts[KEY].reason == "Slurm did not change the time limit of it: error: no"
    table.change(KEY, held=False, limit=90)
    assert [acts(table, 200), acts(table, 201)] == [[ForeignAction.LIMIT], []]


@pytest.mark.parametrize(
    ("held", "is_held", "limit"), [(True, False, 60), (False, True, 60), (False, False, 61)]
)
def test_a_change_that_may_have_been_lost_is_made_again(held: bool, is_held: bool, limit: int) -> None:
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job="7", may_be_there=True, now=Instant(0), limit=limit)
    table.change(KEY, held=held, limit=limit)
    table.polled(row(ForeignState.WAITING, is_held=is_held, limit=60), Instant(0), Instant(0))
    wanted = ForeignAction.LIMIT if limit != 60 else ForeignAction.HOLD if held else ForeignAction.RELEASE
    assert [acts(table, 1), acts(table, 2)] == [[wanted], []]


def test_what_somebody_holds_there_is_left_alone() -> None:
    table = table_with()
    table.sent(KEY, Instant(0))
    table.submitted(KEY, SubmissionResult("queued", "7"), Instant(1))
    table.polled(row(ForeignState.WAITING, is_held=True), Instant(2), Instant(2))
    assert acts(table, 3) == []


def test_what_the_table_does_not_have_cannot_happen() -> None:
    one = table_with().attempts[KEY]
    with pytest.raises(Broken):
        one.enter(Fact.LISTED, Instant(0))
    reached = set(PHASES.values()) | {ForeignPhase.INTENDED}
    assert reached == set(ForeignPhase)


class Scheduler:
    """A scheduler that loses answers, takes submissions late, forgets jobs, and is blind now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.accepted: dict[str, list[int]] = {}  # the ids of each marker, all that ever were
        self.jobs: dict[str, tuple[str, float, float, float]] = {}  # marker: id, begin, end, forgotten
        self.codes: dict[str, int] = {}
        self.files: dict[str, Files] = {}
        self._late: list[tuple[float, str]] = []

    def submit(self, marker: str, now: float) -> SubmissionResult:
        fate = self.chance.random()
        if fate < 0.15:
            return SubmissionResult("doubtful", message="not there")
        if fate < 0.3:
            self._late.append((now + self.chance.uniform(0, TIMEOUT.settle * 0.8), marker))
            return SubmissionResult("doubtful", message="timed out")
        number = self._accept(marker, now)
        lost = fate < 0.5
        return SubmissionResult("doubtful") if lost else SubmissionResult("queued", str(number))

    def _accept(self, marker: str, now: float) -> int:
        number = sum(map(len, self.accepted.values())) + 1
        self.accepted.setdefault(marker, []).append(number)
        begin = now + self.chance.choice([0, 5, 60])
        end = begin + self.chance.choice([0, 3, 100])
        self.jobs[marker] = str(number), begin, end, end + self.chance.choice([0, 5, 300])
        self.codes.setdefault(marker, self.chance.choice([0, 0, 1, 7]))
        return number

    def go_on(self, now: float) -> None:
        for at, marker in [each for each in self._late if each[0] <= now]:
            self._late.remove((at, marker))
            self._accept(marker, at)
        for marker, (number, begin, end, _) in self.jobs.items():
            if end <= now and self.files.get(marker, NOTHING).exit_text == "":
                text = (
                    f"code={self.codes[marker]} signal=0 start={int(begin)} end={int(end)} id={number} host=n"
                )
                self.files[marker] = Files(True, text)
            elif begin <= now and marker not in self.files:
                self.files[marker] = Files(True)

    def rows(self, now: float) -> Rows | None:
        if self.chance.random() < 0.3:
            return None
        if self.chance.random() < 0.05:
            return {}
        found = {}
        for marker, (number, begin, end, forgotten) in self.jobs.items():
            if forgotten <= now:
                continue
            state = ForeignState.WAITING
            if end <= now:
                state = ForeignState.ENDED
            elif begin <= now:
                state = ForeignState.RUNNING
            word = {"waiting": "PENDING", "running": "RUNNING", "ended": "COMPLETED"}[state.value]
            found[marker, "ada"] = ForeignJob(number, marker, state, word, ending=ForeignEnding.BY_ITSELF)
        return found

    def accounted(self) -> Rows | None:
        """It is away, or it is late, or it has all that has ended."""
        fate = self.chance.random()
        ended = [marker for marker, files in self.files.items() if files.exit_text]
        rows = {
            (m, "ada"): ForeignJob(
                "1", m, ForeignState.ENDED, "COMPLETED", ending=ForeignEnding.BY_ITSELF, usage=MEASURED
            )
            for m in ended
        }
        return None if fate < 0.2 else {} if fate < 0.6 else rows


class Head:
    """What is durable: which attempts there are, their ids, and how they ended."""

    def __init__(self, count: int) -> None:
        self.keys = [AttemptPlace(number, 1, 1, 1) for number in range(1, count + 1)]
        self.ids: dict[AttemptPlace, str] = {}
        self.ended: dict[AttemptPlace, HandOffReport] = {}
        self.acknowledged: set[AttemptPlace] = set()

    def take(self, news: Sequence[HandOffReport], table: HandOffTable) -> None:
        for one in news:
            key = AttemptPlace(one.job, one.task, one.instance, one.attempt)
            if one.id:
                self.ids[key] = one.id
            if one.kind == "ended":
                assert key not in self.ended, "an outcome was told twice to a head that recorded it"
                self.ended[key] = one
                table.drop(key)

    def new_table(self, now: float) -> HandOffTable:
        """Begin a process that knows what the head knows."""
        table = HandOffTable("Slurm", TIMEOUT)
        for key in self.keys:
            if key not in self.ended:
                job, marker = self.ids.get(key, ""), marker_of("00000000", key)
                table.add(
                    key, marker, "ada", job=job, may_be_there=key in self.acknowledged, now=Instant(now)
                )
                self.acknowledged.add(key)
        return table


def lived(seed: int) -> Iterator[tuple[Scheduler, Head]]:
    """Yield a world after each of its steps; the process beside the head is killed again and again."""
    chance = random.Random(seed)
    there, head = Scheduler(chance), Head(6)
    table, now = head.new_table(0.0), 0.0
    for _ in range(3000):
        now += chance.choice([1, 2, 5])
        there.go_on(now)
        if chance.random() < 0.02 and now < 2500:  # killed, with what it had not told
            table = head.new_table(now)
        for one in table.to_submit(Instant(now)):
            table.sent(one.key, Instant(now))
            answer = there.submit(one.marker, now)
            if chance.random() < 0.1 and now < 2500:  # killed between the submission and its answer
                table = head.new_table(now)
                break
            head.take(table.submitted(one.key, answer, Instant(now)), table)
        head.take(table.polled(there.rows(now), Instant(now), Instant(now)), table)
        looked = {one.marker: there.files.get(one.marker, NOTHING) for one in table.to_look_at()}
        head.take(table.looked(looked, Instant(now), Instant(now)), table)
        if table.to_remember():
            head.take(table.remembered(there.accounted(), Instant(now)), table)
        yield there, head
        if len(head.ended) == len(head.keys):
            return


@pytest.mark.parametrize("seed", range(300))
def test_each_attempt_is_queued_once_and_ends_as_it_did(seed: int) -> None:
    worlds = list(lived(seed))
    there, head = worlds[-1]
    assert all(len(ids) == 1 for ids in there.accepted.values()), "an attempt was queued twice"
    assert set(head.ended) == set(head.keys), "an attempt was never heard of again"
    for key, news in head.ended.items():
        assert news.outcome is not None
        assert (news.outcome.kind, news.outcome.exit_code) == (
            "exited",
            there.codes[marker_of("00000000", key)],
        )


DAY = 86_400.0


@pytest.mark.parametrize("behind", [-DAY, -5.0, 5.0, DAY])
def test_a_clock_there_that_is_wrong_changes_neither_start_nor_length(behind: float) -> None:
    now, began = 1_000_000.0, 999_990.0
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job="", may_be_there=False, now=Instant(now - 500))
    table.sent(KEY, Instant(now - 500))
    table.submitted(KEY, SubmissionResult("queued", "7"), Instant(now - 499))
    table.polled(row(ForeignState.WAITING), Instant(now - 30), Instant(now - 29))
    at = Instant(began - behind)
    (news,) = table.polled(row(ForeignState.RUNNING, started=at), Instant(now), Instant(now))
    assert news.at is not None
    assert now - 30 <= news.at <= now
    later = now + 60
    found = f"code=0 signal=0 start={began - behind:.0f} end={later - 2 - behind:.0f} id=7 host=n"
    table.polled(row(ForeignState.ENDED, "COMPLETED"), Instant(later), Instant(later))
    (ended,) = [each.outcome for each in settled(table, Files(True, found), later) if each.kind == "ended"]
    assert ended is not None
    assert ended.started is not None
    assert ended.ended is not None
    assert now - 30 <= ended.started <= ended.ended <= later
    if abs(behind) == DAY:
        assert ended.ended - ended.started == later - 2 - began


def test_a_run_of_less_than_a_second_is_not_moved_to_when_it_was_noticed() -> None:
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job="", may_be_there=False, now=Instant(1000.7))
    table.sent(KEY, Instant(1000.7))
    table.submitted(KEY, SubmissionResult("queued", "7"), Instant(1000.8))
    table.polled(row(ForeignState.ENDED, "COMPLETED"), Instant(1031), Instant(1031))
    found = "code=0 signal=0 start=1000 end=1000 id=7 host=n"
    (ended,) = [each.outcome for each in settled(table, Files(True, found), 1031) if each.kind == "ended"]
    assert ended is not None
    assert (ended.started, ended.ended) == (1000.0, 1000.0)


def test_an_exit_file_that_says_any_time_does_not_make_a_run_longer_than_it_was_seen() -> None:
    table = HandOffTable("Slurm", TIMEOUT)
    table.add(KEY, MARK, "ada", job="", may_be_there=False, now=Instant(1000))
    table.sent(KEY, Instant(1000))
    table.submitted(KEY, SubmissionResult("queued", "7"), Instant(1001))
    table.polled(row(ForeignState.ENDED, "COMPLETED"), Instant(1100), Instant(1100))
    (news, *_) = table.looked(
        {MARK: Files(True, "code=0 signal=0 start=1 end=1099 id=7 host=n")}, Instant(1100), Instant(1100)
    )
    assert news.at == 1000


@pytest.mark.parametrize("reason", ["a\x1b[31mb", "one\nbegin of another line", "\x07", "\u202ereversed"])
def test_no_control_characters_of_a_scheduler_reach_the_head(reason: str) -> None:
    table = table_with(job="7")
    news = table.polled(row(ForeignState.WAITING, reason=reason), Instant(1), Instant(1))
    (waits,) = [each for each in news if each.kind == "waits"]
    assert waits.reason.isprintable()
    assert CommandResult(1, "", f"x\nsqueue: error: {reason}").complaint.isprintable()
    table = table_with()
    table.sent(KEY, Instant(0))
    (ended,) = table.submitted(KEY, SubmissionResult("refused", message=reason), Instant(1))
    assert ended.outcome is not None
    assert ended.outcome.message.isprintable()


def test_an_id_that_another_job_has_by_now_is_neither_believed_nor_canceled() -> None:
    table = table_with(job="7")
    other = marker_of("00000000", AttemptPlace(2, 1, 1, 1))
    rows = rows_of([ForeignJob("7", other, ForeignState.RUNNING, "RUNNING", owner="ada")])
    for now in (10, 20, 30):
        assert table.polled(rows, Instant(now), Instant(now)) == []
    table.stop(KEY)
    assert table.to_act(Instant(31)) == {}
    assert [one.marker for one in table.to_look_at()] == [MARK]


@pytest.mark.parametrize("by", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_neither_delays_a_search_nor_shortens_it(by: float) -> None:
    table = table_with()
    table.sent(KEY, Instant(0))
    table.submitted(KEY, SubmissionResult("doubtful"), Instant(1))
    table.clock_set(Seconds(by))
    for since in (10, 20, 30, 31, 32, 33):
        assert table.to_submit(Instant(by + since)) == []
        table.polled({}, Instant(by + since), Instant(by + since))
        table.looked({MARK: NOTHING}, Instant(by + since), Instant(by + since))
    assert [one.marker for one in table.to_submit(Instant(by + 33))] == [MARK]
