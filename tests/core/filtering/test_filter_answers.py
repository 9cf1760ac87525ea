"""Every cell of the tables of exit codes; what is asked again to undo, and what messages say."""

import itertools

import pytest

from headnode.core.filtering.activation import Phase, Verdict, outcome, verdict
from headnode.core.filtering.answer import BY_SIGNAL, MOST_WORDS, Answer, How, last_words
from headnode.core.filtering.registration import Filter
from headnode.core.filtering.submission import Passage, failure, passage, wrong_change
from headnode.core.filtering.walking import Walk

V = Verdict
CELLS = {
    0: {Phase.QUEUED: V.START, Phase.BACKFILLED: V.START, Phase.RUNNING: V.START},
    1: {Phase.QUEUED: V.BLOCK_QUEUE, Phase.BACKFILLED: V.WAIT, Phase.RUNNING: V.WAIT},
    2: {Phase.QUEUED: V.KEEP_RESOURCES, Phase.BACKFILLED: V.WAIT, Phase.RUNNING: V.WAIT},
    3: {Phase.QUEUED: V.HOLD, Phase.BACKFILLED: V.HOLD, Phase.RUNNING: V.WAIT},
    4: {Phase.QUEUED: V.FAIL, Phase.BACKFILLED: V.FAIL, Phase.RUNNING: V.WAIT},
    5: {Phase.QUEUED: V.KEEP_RESOURCES, Phase.BACKFILLED: V.WAIT, Phase.RUNNING: V.WAIT},
    254: {Phase.QUEUED: V.KEEP_RESOURCES, Phase.BACKFILLED: V.WAIT, Phase.RUNNING: V.WAIT},
    255: {Phase.QUEUED: V.KEEP_RESOURCES, Phase.BACKFILLED: V.WAIT, Phase.RUNNING: V.WAIT},
}
UNANSWERED = (
    Answer(How.TIMED_OUT),
    Answer(How.MISSING),
    Answer(How.BROKEN),
    Answer(How.SIGNALLED, BY_SIGNAL),
)
NAMES = Filter(program=("/opt/filters/names.sh", "--strict"))


@pytest.mark.parametrize(("code", "phase"), list(itertools.product(CELLS, Phase)))
def test_each_exit_code_of_an_activation_filter_means_what_the_table_says(code: int, phase: Phase) -> None:
    assert verdict(Answer(exit_code=code), phase) is CELLS[code][phase]


@pytest.mark.parametrize("code", range(256))
def test_only_zero_lets_a_backfilled_or_a_running_job_have_resources(code: int) -> None:
    for phase in (Phase.BACKFILLED, Phase.RUNNING):
        assert (verdict(Answer(exit_code=code), phase) is V.START) == (code == 0)


@pytest.mark.parametrize("answer", UNANSWERED)
def test_no_answer_of_an_activation_filter_counts_as_two(answer: Answer) -> None:
    for phase in Phase:
        assert verdict(answer, phase) is verdict(Answer(exit_code=2), phase)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 255])
def test_under_the_old_rules_any_code_but_zero_keeps_a_job_waiting(code: int) -> None:
    assert verdict(Answer(exit_code=code), Phase.QUEUED, "ccs") is V.BLOCK_QUEUE
    assert verdict(Answer(exit_code=code), Phase.BACKFILLED, "ccs") is V.WAIT
    assert verdict(Answer(exit_code=code), Phase.RUNNING, "ccs") is V.WAIT


def test_under_the_old_rules_a_time_out_starts_the_job_and_a_missing_filter_does_not() -> None:
    for phase in Phase:
        assert verdict(Answer(How.TIMED_OUT), phase, "ccs") is V.START
        assert verdict(Answer(exit_code=0), phase, "ccs") is V.START
        assert verdict(Answer(How.MISSING), phase, "ccs") is not V.START


@pytest.mark.parametrize("code", range(256))
def test_a_submission_filter_passes_a_job_with_zero_and_one_only(code: int) -> None:
    expected = {0: Passage.AS_IS, 1: Passage.CHANGED}.get(code, Passage.FAILED)
    assert passage(Answer(exit_code=code)) is expected


@pytest.mark.parametrize("answer", UNANSWERED)
def test_a_submission_filter_that_does_not_answer_fails_the_job(answer: Answer) -> None:
    assert passage(answer) is Passage.FAILED


def test_each_way_to_fail_at_submission_has_a_message_of_its_own() -> None:
    told = {failure(NAMES, Answer(how, words="w"), 15.0) for how in How} | {wrong_change(NAMES, "w")}
    assert len(told) == len(How) + 1
    assert all("'names.sh'" in each for each in told)
    assert failure(NAMES, Answer(How.TIMED_OUT), 15.0) == (
        "submission filter 'names.sh' timed out: no answer within 15 s"
    )
    assert failure(NAMES, Answer(exit_code=7, words="no project"), 15.0) == (
        "submission filter 'names.sh' failed the job: exit code 7: no project"
    )


@pytest.mark.parametrize("found", list(Verdict))
def test_what_a_filter_did_is_told_with_its_name_and_its_last_words(found: Verdict) -> None:
    told = outcome(NAMES, found, Answer(exit_code=2, words="all 8 of solver are taken"), 15.0)
    assert told.startswith("activation filter 'names.sh' ")
    assert told.endswith("(exit code 2: all 8 of solver are taken)")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_whoever_ran_undoes_in_reverse_with_the_paper_it_saw(place: int) -> None:
    chain = tuple(Filter(program=(f"/opt/{name}",)) for name in "abc")
    walk = Walk(chain)
    for number in range(place + 1):
        assert walk.next() is chain[number]
        walk.ran(b"paper %d" % number)
    undone = [(call.filter.name, call.paper) for call in walk.to_undo()]
    assert undone == [("abc"[number], b"paper %d" % number) for number in reversed(range(place + 1))]


def test_a_filter_that_knows_no_undoing_is_not_called_again() -> None:
    chain = (Filter(program=("/opt/a",)), Filter(program=("/opt/b",), reverts=False))
    walk = Walk(chain)
    walk.ran(b"paper")
    walk.ran(b"paper")
    assert walk.next() is None
    assert [call.filter.name for call in walk.to_undo()] == ["a"]


def test_last_words_are_one_line_that_fits_a_message() -> None:
    assert last_words("") == last_words(" \n\n") == ""
    assert last_words("first\nlast\n\n") == "last"
    assert last_words("a\tb\x1b[31mc") == "a b [31mc"
    assert len(last_words("x" * 10_000)) == MOST_WORDS
