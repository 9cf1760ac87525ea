"""Every cell of the tables of exit codes; what is asked again to undo, and what messages say."""

import itertools

import pytest

from headnode.core.filtering import (
    BY_SIGNAL,
    MAX_WORDS,
    ActivationPhase,
    ActivationVerdict,
    CallOutcome,
    ChainRun,
    Filter,
    FilterAnswer,
    SubmissionVerdict,
    activation_outcome,
    activation_verdict,
    last_words,
    submission_failure,
    submission_verdict,
    wrong_change,
)

V = ActivationVerdict
CELLS = {
    0: {
        ActivationPhase.QUEUED: V.START,
        ActivationPhase.BACKFILLED: V.START,
        ActivationPhase.RUNNING: V.START,
    },
    1: {
        ActivationPhase.QUEUED: V.BLOCK_QUEUE,
        ActivationPhase.BACKFILLED: V.WAIT,
        ActivationPhase.RUNNING: V.WAIT,
    },
    2: {
        ActivationPhase.QUEUED: V.KEEP_RESOURCES,
        ActivationPhase.BACKFILLED: V.WAIT,
        ActivationPhase.RUNNING: V.WAIT,
    },
    3: {ActivationPhase.QUEUED: V.HOLD, ActivationPhase.BACKFILLED: V.HOLD, ActivationPhase.RUNNING: V.WAIT},
    4: {ActivationPhase.QUEUED: V.FAIL, ActivationPhase.BACKFILLED: V.FAIL, ActivationPhase.RUNNING: V.WAIT},
    5: {
        ActivationPhase.QUEUED: V.KEEP_RESOURCES,
        ActivationPhase.BACKFILLED: V.WAIT,
        ActivationPhase.RUNNING: V.WAIT,
    },
    254: {
        ActivationPhase.QUEUED: V.KEEP_RESOURCES,
        ActivationPhase.BACKFILLED: V.WAIT,
        ActivationPhase.RUNNING: V.WAIT,
    },
    255: {
        ActivationPhase.QUEUED: V.KEEP_RESOURCES,
        ActivationPhase.BACKFILLED: V.WAIT,
        ActivationPhase.RUNNING: V.WAIT,
    },
}
UNANSWERED = (
    FilterAnswer(CallOutcome.TIMED_OUT),
    FilterAnswer(CallOutcome.MISSING),
    FilterAnswer(CallOutcome.BROKEN),
    FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL),
)
NAMES = Filter(program=("/opt/filters/names.sh", "--strict"))


@pytest.mark.parametrize(("code", "phase"), list(itertools.product(CELLS, ActivationPhase)))
def test_each_exit_code_of_an_activation_filter_means_what_the_table_says(
    code: int, phase: ActivationPhase
) -> None:
    assert activation_verdict(FilterAnswer(exit_code=code), phase) is CELLS[code][phase]


@pytest.mark.parametrize("code", range(256))
def test_only_zero_lets_a_backfilled_or_a_running_job_have_resources(code: int) -> None:
    for phase in (ActivationPhase.BACKFILLED, ActivationPhase.RUNNING):
        assert (activation_verdict(FilterAnswer(exit_code=code), phase) is V.START) == (code == 0)


@pytest.mark.parametrize("answer", UNANSWERED)
def test_no_answer_of_an_activation_filter_counts_as_two(answer: FilterAnswer) -> None:
    for phase in ActivationPhase:
        assert activation_verdict(answer, phase) is activation_verdict(FilterAnswer(exit_code=2), phase)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 255])
def test_under_the_old_rules_any_code_but_zero_keeps_a_job_waiting(code: int) -> None:
    assert activation_verdict(FilterAnswer(exit_code=code), ActivationPhase.QUEUED, "ccs") is V.BLOCK_QUEUE
    assert activation_verdict(FilterAnswer(exit_code=code), ActivationPhase.BACKFILLED, "ccs") is V.WAIT
    assert activation_verdict(FilterAnswer(exit_code=code), ActivationPhase.RUNNING, "ccs") is V.WAIT


def test_under_the_old_rules_a_time_out_starts_the_job_and_a_missing_filter_does_not() -> None:
    for phase in ActivationPhase:
        assert activation_verdict(FilterAnswer(CallOutcome.TIMED_OUT), phase, "ccs") is V.START
        assert activation_verdict(FilterAnswer(exit_code=0), phase, "ccs") is V.START
        assert activation_verdict(FilterAnswer(CallOutcome.MISSING), phase, "ccs") is not V.START


@pytest.mark.parametrize("code", range(256))
def test_a_submission_filter_passes_a_job_with_zero_and_one_only(code: int) -> None:
    expected = {0: SubmissionVerdict.AS_IS, 1: SubmissionVerdict.CHANGED}.get(code, SubmissionVerdict.FAILED)
    assert submission_verdict(FilterAnswer(exit_code=code)) is expected


@pytest.mark.parametrize("answer", UNANSWERED)
def test_a_submission_filter_that_does_not_answer_fails_the_job(answer: FilterAnswer) -> None:
    assert submission_verdict(answer) is SubmissionVerdict.FAILED


def test_each_way_to_fail_at_submission_has_a_message_of_its_own() -> None:
    found = {submission_failure(NAMES, FilterAnswer(how, words="w"), 15.0) for how in CallOutcome} | {
        wrong_change(NAMES, "w")
    }
    assert len(found) == len(CallOutcome) + 1
    assert all("'names.sh'" in each for each in found)
    assert submission_failure(NAMES, FilterAnswer(CallOutcome.TIMED_OUT), 15.0) == (
        "submission filter 'names.sh' timed out: no answer within 15 s"
    )
    assert submission_failure(NAMES, FilterAnswer(exit_code=7, words="no project"), 15.0) == (
        "submission filter 'names.sh' failed the job: exit code 7: no project"
    )


@pytest.mark.parametrize("found", list(ActivationVerdict))
def test_what_a_filter_did_is_reported_with_its_name_and_its_last_words(found: ActivationVerdict) -> None:
    output = activation_outcome(
        NAMES, found, FilterAnswer(exit_code=2, words="all 8 of solver are taken"), 15.0
    )
    assert output.startswith("activation filter 'names.sh' ")
    assert output.endswith("(exit code 2: all 8 of solver are taken)")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_whoever_ran_undoes_in_reverse_with_the_paper_it_saw(place: int) -> None:
    chain = tuple(Filter(program=(f"/opt/{name}",)) for name in "abc")
    walk = ChainRun(chain)
    for number in range(place + 1):
        assert walk.next() is chain[number]
        walk.ran(b"paper %d" % number)
    undone = [(call.filter.name, call.paper) for call in walk.to_undo()]
    assert undone == [("abc"[number], b"paper %d" % number) for number in reversed(range(place + 1))]


def test_a_filter_that_knows_no_undoing_is_not_called_again() -> None:
    chain = (Filter(program=("/opt/a",)), Filter(program=("/opt/b",), reverts=False))
    walk = ChainRun(chain)
    walk.ran(b"paper")
    walk.ran(b"paper")
    assert walk.next() is None
    assert [call.filter.name for call in walk.to_undo()] == ["a"]


def test_last_words_are_one_line_that_fits_a_message() -> None:
    assert last_words("") == last_words(" \n\n") == ""
    assert last_words("first\nlast\n\n") == "last"
    assert last_words("a\tb\x1b[31mc") == "a b [31mc"
    assert len(last_words("x" * 10_000)) == MAX_WORDS
