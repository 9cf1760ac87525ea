"""Grid Engine as text: what is asked, and what the answers of a real one mean."""

import pytest
from recorded import needs_records, recorded

from headnode.core.batch.dialect import (
    AttemptPlace,
    CommandResult,
    ForeignAction,
    ForeignState,
    Submission,
    marker_of,
)
from headnode.core.batch.gridengine import GridEngine
from headnode.core.model.outcome import NOT_MEASURED, ResourceUsage

ENGINE = GridEngine()
MARKER = marker_of("0a1b2c3d", AttemptPlace(7, 1, 1, 2))
LIST = "<?xml version='1.0'?>\n<job_info><queue_info>{}</queue_info></job_info>\n"
ACCOUNT = (
    "{}\nowner        ada\njobname      {}\njobnumber    {}\nfailed       {}\nexit_status  {}\nend_time\n"
)


def answer(out: str = "", err: str = "", status: int | None = 0) -> CommandResult:
    return CommandResult(status, out, err)


def listed(job: str, name: str, state: str) -> str:
    cells = {"JB_job_number": job, "JB_name": name, "JB_owner": "ada", "state": state}
    inner = "".join(f"<{cell}>{text}</{cell}>" for cell, text in cells.items())
    return f'<job_list state="x">{inner}</job_list>'


def test_the_options_of_a_submission_are_those_that_were_asked_for() -> None:
    wanted = Submission(
        MARKER, queue="long.q", parallel="smp", processors=4, limit=90, memory_each=50, project="p1"
    )
    words = " ".join(ENGINE.submit(wanted))
    for part in (
        "-terse",
        f"-N {MARKER}",
        "-r n",
        "-q long.q",
        "-P p1",
        "-pe smp 4",
        "-l h_rt=90,h_vmem=50M",
    ):
        assert f" {part} " in f"{words} "
    assert " -pe " not in " ".join(ENGINE.submit(Submission(MARKER)))


@pytest.mark.parametrize(
    ("expected", "kind", "id_"),
    [
        (answer("7\n"), "queued", "7"),
        (answer('warning: "-N" option has already been set\n7\n'), "queued", "7"),
        (answer("Unable to run job: unable to contact qmaster\nExiting.\n", "", 1), "doubtful", ""),
        (answer("Unable to run job: denied: too many jobs\nExiting.\n", "", 1), "doubtful", ""),
        (answer("", "Killed", None), "doubtful", ""),
        (answer("", "", 1), "doubtful", ""),
    ],
)
def test_only_a_clear_answer_is_one(expected: CommandResult, kind: str, id_: str) -> None:
    found = ENGINE.submitted(expected)
    assert (found.kind, found.id) == (kind, id_)


@needs_records
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qsub_terse", "queued"),
        ("qsub_bad", "refused"),
        ("qsub_badopt", "refused"),
        ("qsub_badname", "refused"),
    ],
)
def test_what_a_real_one_answers_to_a_submission(name: str, kind: str) -> None:
    assert ENGINE.submitted(recorded(f"sge/{name}")).kind == kind


def test_a_poll_reads_the_letters_of_states() -> None:
    text = listed("1", MARKER, "r") + listed("2", f"{MARKER}1", "hqw") + listed("3", f"{MARKER}2", "Eqw")
    rows = ENGINE.polled(
        answer(LIST.format(text + listed("4", f"{MARKER}3", "dr") + listed("5", "own", "r")))
    )
    assert rows is not None
    running, held, broken, going = rows.values()
    assert (running.id, running.state) == ("1", ForeignState.RUNNING)
    assert (held.state, held.reason) == (ForeignState.WAITING, "it is held there, in state hqw")
    assert "an administrator there must clear the error" in broken.reason
    assert going.state is ForeignState.RUNNING


@pytest.mark.parametrize(
    "expected", [answer("", "error: commlib error", 1), answer(LIST.format("")[:-20]), answer(LIST, "", None)]
)
def test_nothing_is_learnt_from_an_answer_that_failed_or_was_cut(expected: CommandResult) -> None:
    assert ENGINE.polled(expected) is None


@needs_records
def test_what_a_real_one_lists_and_remembers() -> None:
    assert ENGINE.polled(recorded("sge/qstat_xml")) == {}  # other names than ours
    assert ENGINE.remembered(recorded("sge/qacct_nojob")) == {}
    assert ENGINE.remembered(recorded("sge/qacct_1")) == {}


def test_the_history_has_how_jobs_ended() -> None:
    line = "=" * 62
    text = ACCOUNT.format(line, MARKER, 1, 0, 3) + ACCOUNT.format(
        line, f"{MARKER}1", 2, "100 : x", "137  (Killed)"
    )
    rows = ENGINE.remembered(answer(text + ACCOUNT.format(line, f"{MARKER}2", 3, "37  : qmaster", 137)))
    assert rows is not None
    assert [(row.id, row.word, row.exit_code, row.signal) for row in rows.values()] == [
        ("1", "failed 0", 3, None),
        ("2", "failed 100", None, 9),
        ("3", "failed 37", None, 9),
    ]
    assert rows[MARKER, "ada"].usage == NOT_MEASURED
    assert ENGINE.remembered(answer("", "error: cannot open accounting file", 1)) is None


@pytest.mark.parametrize(
    ("user", "memory", "used"),
    [
        ("0.011s", "4.504KB", ResourceUsage(0.011, 0.0, 4504)),
        ("61", "4504", ResourceUsage(61.0, 0.0, 4504)),
        ("1.5", "2.500MB", ResourceUsage(1.5, 0.0, 2_500_000)),
        ("NONE", "NONE", NOT_MEASURED),
    ],
)
def test_the_history_has_what_jobs_used(user: str, memory: str, used: ResourceUsage) -> None:
    text = ACCOUNT.format("=" * 62, MARKER, 1, 0, 0) + f"ru_utime     {user}\nru_maxrss    {memory}\n"
    rows = ENGINE.remembered(answer(text))
    assert rows is not None
    assert rows[MARKER, "ada"].usage == used


def test_the_history_is_asked_for_once_for_all_of_ours() -> None:
    assert ENGINE.history([MARKER, f"{MARKER}1"], [])[-1] == "hn-0a1b2c3d-*"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (ForeignAction.CANCEL, "qdel 7 8"),
        (ForeignAction.HOLD, "qhold -h u 7 8"),
        (ForeignAction.RELEASE, "qrls -h u 7 8"),
        (ForeignAction.LIMIT, "qalter -l h_rt=90,h_vmem=50M 7 8"),
    ],
)
def test_what_may_be_done_with_jobs_there(action: ForeignAction, words: str) -> None:
    assert ENGINE.act(action, ["7", "8"], Submission(MARKER, limit=90, memory_each=50)) == words.split()
