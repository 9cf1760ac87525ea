"""Slurm as text: what is asked, and what the answers of real controllers mean."""

import shlex

import msgspec
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
from headnode.core.batch.slurm import Slurm
from headnode.core.model.node import usage_objection
from headnode.core.model.outcome import NOT_MEASURED, ResourceUsage
from headnode.core.model.quantities import Instant

SLURM = Slurm()
MARKER = marker_of("0a1b2c3d", AttemptPlace(7, 1, 1, 2))


def listed(
    job: str, state: str, code: str, start: str, reason: str, name: str, limit: str = "UNLIMITED"
) -> str:
    return f"{job:40}{state:20}{code:12}{start:24}{limit:16}{'ada':33}{reason:48}{name:64}\n"


HEADER = listed("JOBID", "STATE", "EXIT_CODE", "START_TIME", "REASON", "NAME", "TIME_LIMIT")


def accounted(job: str, state: str, code: str, user: str, system: str, memory: str, name: str) -> str:
    return "\x1f".join((job, state, code, "1795402426", user, system, memory, "", "ada", name)) + "\n"


def answer(out: str = "", err: str = "", status: int | None = 0) -> CommandResult:
    return CommandResult(status, out, err)


def test_the_options_of_a_submission_are_those_that_were_asked_for() -> None:
    wanted = Submission(
        MARKER,
        queue="long",
        processors=8,
        nodes=2,
        exclusive=True,
        limit=90,
        memory=100,
        memory_each=50,
        project="p1",
        features=(("gpu",), ("big", "huge")),
        shape=(2, 16, 1),
    )
    words = SLURM.submit(wanted)
    assert words[0] == "sbatch"
    assert {
        f"--job-name={MARKER}", "--no-requeue", "--partition=long", "--ntasks=8", "--nodes=2", "--exclusive",
        "--time=1:30", "--mem=100M", "--mem-per-cpu=50M", "--account=p1", "--constraint=gpu&big|huge",
        "--sockets-per-node=2", "--cores-per-socket=16", "--threads-per-core=1",
    } <= set(words)  # fmt: skip
    assert not any("\n" in word or shlex.quote(word) == "" for word in words)


@pytest.mark.parametrize(
    ("expected", "kind", "id_"),
    [
        (answer("7\n"), "queued", "7"),
        (answer("You will be charged 3 hours\n7;cluster\n"), "queued", "7"),
        (answer("7\ndone\n"), "queued", "7"),
        (answer("nothing like an id\n"), "doubtful", ""),
        (answer("", "sbatch: error: Batch job submission failed: Invalid account", 1), "refused", ""),
        (answer("", "sbatch: error: submission failed: Socket timed out on send/recv", 1), "doubtful", ""),
        (answer("", "sbatch: error: Slurm temporarily unable to accept job, retrying", 1), "doubtful", ""),
        (answer("", "", 1), "doubtful", ""),
        (answer("", "Killed", None), "doubtful", ""),
        (answer("7\n", "", None), "doubtful", ""),
    ],
)  # fmt: skip
def test_only_a_clear_answer_is_one(expected: CommandResult, kind: str, id_: str) -> None:
    found = SLURM.submitted(expected)
    assert (found.kind, found.id) == (kind, id_)


@needs_records
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sbatch_parsable", "queued"),
        ("sbatch_too_big", "queued"),
        ("sbatch_bad_part", "refused"),
        ("sbatch_bad_opt", "refused"),
        ("sbatch_noshebang", "refused"),
        ("down_sbatch", "doubtful"),
    ],
)
def test_what_real_controllers_answer_to_a_submission(name: str, kind: str) -> None:
    assert SLURM.submitted(recorded(f"slurm/{name}")).kind == kind


def test_a_poll_has_every_state_with_its_times_and_codes() -> None:
    rows = SLURM.polled(
        answer(
            HEADER
            + listed("5", "PENDING", "0", "N/A", "Resources", MARKER)
            + listed("6", "RUNNING", "0", "1795402426", "None", f"{MARKER}1")
            + listed("7", "FAILED", "768", "1795402426", "NonZeroExitCode", f"{MARKER}2")
            + listed("8", "FAILED", "9", "1795402426", "JobLaunchFailure", f"{MARKER}3")
            + listed("9", "CANCELLED", "0", "N/A", "None", f"{MARKER}4")
            + listed("10", "COMPLETED", "0", "1795402426", "None", f"{MARKER}5")
            + listed("11", "BRAND_NEW", "0", "N/A", "None", f"{MARKER}6")
            + listed("12", "RUNNING", "0", "N/A", "None", "somebody's | own")
        )
    )
    assert rows is not None
    waiting, running, failed, killed, canceled, done, strange = rows.values()
    assert (waiting.id, waiting.state, waiting.reason) == ("5", ForeignState.WAITING, "Resources")
    assert (running.state, running.started) == (ForeignState.RUNNING, Instant(1795402426))
    assert (failed.state, failed.exit_code, failed.signal) == (ForeignState.ENDED, 3, None)
    assert (killed.exit_code, killed.signal) == (None, 9)
    assert (canceled.exit_code, canceled.signal, canceled.started) == (None, None, None)
    assert (done.exit_code, done.signal) == (0, None)
    assert (strange.state, strange.word) == (ForeignState.UNKNOWN, "BRAND_NEW")


def test_a_poll_says_what_is_held_by_its_user_and_for_how_long_it_may_run() -> None:
    held = listed("5", "PENDING", "0", "N/A", "JobHeldUser", MARKER, "1-00:01:00")
    others = listed("6", "PENDING", "0", "N/A", "JobHeldAdmin", f"{MARKER}1", "2:00")
    rows = SLURM.polled(
        answer(HEADER + held + others + listed("7", "PENDING", "0", "N/A", "None", f"{MARKER}2"))
    )
    assert rows is not None
    found = [(row.is_held, row.limit) for row in rows.values()]
    assert found == [
        (True, 86_460),
        (False, 120),
        (False, None),
    ]


@pytest.mark.parametrize(
    "expected",
    [
        answer("", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1),
        answer("", "squeue: error: Invalid user: 77777", 0),
        answer(HEADER + listed("5", "PENDING", "0", "N/A", "None", MARKER), "", None),
        answer(listed("5", "PENDING", "0", "N/A", "None", MARKER)),
        answer(HEADER + listed("5", "PENDING", "0", "N/A", "None", f"{MARKER}1")[:-2]),
        answer(""),
    ],
)
def test_nothing_is_learnt_from_an_answer_that_failed(expected: CommandResult) -> None:
    assert SLURM.polled(expected) is None


@needs_records
def test_what_real_controllers_answer_to_a_poll() -> None:
    assert SLURM.polled(recorded("slurm/down_squeue")) is None
    assert SLURM.remembered(recorded("slurm/sacct_nodb")) is None
    assert SLURM.remembered(recorded("slurmdb/dbd_down_sacct")) is None
    assert SLURM.remembered(recorded("slurmdb/sacct_nojob")) == {}
    assert SLURM.remembered(recorded("slurmdb/sacct_immediately")) == {}


def test_a_row_of_the_history_that_was_cut_on_its_way_is_none() -> None:
    row = accounted("2", "FAILED", "3:0", "00:00", "00:00", "", f"{MARKER}1")
    assert SLURM.remembered(answer(row + row[:-2])) is None


def test_the_history_has_how_jobs_ended() -> None:
    rows = SLURM.remembered(
        answer(
            accounted("1", "COMPLETED", "0:0", "01:02.5", "1-00:00:00", "", MARKER)
            + accounted("1.batch", "COMPLETED", "0:0", "01:02.5", "00:00.5", "2048K", "batch")
            + accounted("1.0", "COMPLETED", "0:0", "00:00", "00:00", "1.50M", "solve")
            + accounted("2", "FAILED", "3:0", "00:00", "00:00", "", f"{MARKER}1")
            + accounted("4", "FAILED", "0:9", "00:00", "00:00", "", f"{MARKER}2")
            + accounted("5", "CANCELLED by 0", "0:0", "00:00", "00:00", "", f"{MARKER}3")
            + accounted("6", "TIMEOUT", "0:0", "", "", "", f"{MARKER}4")
            + accounted("7", "COMPLETED", "0:0", "", "", "", "wrap")
            + "nonsense\n"
        )
    )
    assert rows is not None
    assert [(row.word, row.exit_code, row.signal) for row in rows.values()] == [
        ("COMPLETED", 0, None), ("FAILED", 3, None), ("FAILED", None, 9), ("CANCELLED", None, None),
        ("TIMEOUT", None, None),
    ]  # fmt: skip
    assert rows[MARKER, "ada"].usage == ResourceUsage(62.5, 86_400.0, 2048)
    assert rows[f"{MARKER}1", "ada"].usage == NOT_MEASURED


def test_no_memory_that_is_told_is_more_than_a_task_can_use() -> None:
    """A larger number cannot be sent to the head: the process that hands over jobs of all users would end."""
    found = accounted("1", "COMPLETED", "0:0", "01:02", "01:02", f"{'9' * 15}T", MARKER)
    rows = SLURM.remembered(answer(found))
    assert rows is not None
    usage = rows[MARKER, "ada"].usage
    assert usage_objection(usage) == ""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(usage), type=ResourceUsage) == usage


def test_polls_ask_for_what_squeue_hides() -> None:
    words = SLURM.poll(["ada", "bob"])
    assert {"-a", "-r", "all", "ada,bob"} <= set(words)
    assert "now-14days" in SLURM.history([MARKER], [])


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (ForeignAction.CANCEL, "scancel 7 8"),
        (ForeignAction.HOLD, "scontrol uhold 7,8"),
        (ForeignAction.RELEASE, "scontrol release 7,8"),
        (ForeignAction.LIMIT, "scontrol update JobId=7,8 TimeLimit=1:30"),
    ],
)
def test_what_may_be_done_with_jobs_there(action: ForeignAction, words: str) -> None:
    assert SLURM.act(action, ["7", "8"], Submission(MARKER, limit=90)) == words.split()
    endless = SLURM.act(ForeignAction.LIMIT, ["7"], Submission(MARKER))
    assert endless[-1] == "TimeLimit=UNLIMITED"
