"""A site as text: its queue, nodes, partitions and history, whatever its users call their jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.batch.dialect import CommandResult, ForeignState
from headnode.core.batch.site import MAX_JOBS, MAX_TEXT, SiteJob
from headnode.core.batch.slurm import FIELDS
from headnode.core.batch.slurm_reasons import may_start, reason_in_words
from headnode.core.batch.slurm_site import (
    history_words,
    node_names,
    nodes_words,
    queue_words,
    read_facts,
    read_history,
    read_nodes,
    read_queue,
    time_limit,
)

WORD = "4f6a0c11"
RUNS = (
    "12",
    "ada",
    "RUNNING",
    "None",
    "100",
    "batch",
    "90",
    "100",
    "400",
    "5:00",
    "8",
    "2",
    "0",
    "OK",
    "[1-2]",
)
WAITS = (
    "13",
    "bob",
    "PENDING",
    "Priority",
    "99",
    "batch,long",
    "95",
    "700",
    "N/A",
    "UNLIMITED",
    "4",
    "1",
    "2G",
)


def answer(out: str = "", err: str = "", status: int | None = 0) -> CommandResult:
    return CommandResult(status, out, err)


def row(*cells: str, name: str = "fit", word: str = WORD, features: str = "(null)") -> str:
    shared = () if len(cells) == 15 else ("NO", "")
    return FIELDS.join((word, *cells, *shared, features, "(null)", name)) + "\n"


def queue(text: str) -> list[SiteJob]:
    found = read_queue(answer(text), WORD)
    assert found is not None
    return list(found[0])


def test_a_row_of_the_queue_is_a_job() -> None:
    runs, waits = queue(row(*RUNS) + row(*WAITS, features="fast|big&gpu"))
    assert (runs.id, runs.user, runs.state, runs.started, runs.ended) == (
        "12", "ada", ForeignState.RUNNING, 100.0, None,
    )  # fmt: skip
    assert (runs.limit, runs.processors, runs.node_count, runs.nodes, runs.reason) == (
        300.0,
        8,
        2,
        "[1-2]",
        "",
    )
    assert (waits.state, waits.reason, waits.expected, waits.started) == (
        ForeignState.WAITING, "Priority", 700.0, None,
    )  # fmt: skip
    assert (waits.partitions, waits.memory, waits.exclusive) == (("batch", "long"), 2048, True)
    assert waits.limit == float("inf")
    assert waits.features == (("fast", "big"), ("gpu",))


@pytest.mark.parametrize(
    "name",
    [
        "two\nlines",
        f"forged\n{row(*RUNS, word='guessed')}",
        f"forged\n{row(*RUNS, word='')}",
        f"cells{FIELDS}more{FIELDS}",
        "\x1b[31mred<script>",
        "x" * 100_000,
        "\r\x0b\x85\u2028",
    ],
)
def test_no_name_makes_a_row_or_steers_a_terminal(name: str) -> None:
    (runs,) = queue(row(*RUNS, name=name))
    assert runs.user == "ada"
    assert runs.name.isprintable()
    assert len(runs.name) <= MAX_TEXT


@given(st.text(), st.text())
def test_what_a_user_writes_is_in_the_name_only(name: str, other: str) -> None:
    jobs = queue(row(*RUNS, name=name) + row(*WAITS, name=other))
    assert [(job.id, job.user) for job in jobs] == [("12", "ada"), ("13", "bob")]


def test_each_question_has_its_own_word() -> None:
    assert queue_words(WORD)[-1].startswith(WORD + FIELDS)
    assert queue_words(WORD)[-1].endswith("%j")
    assert nodes_words(WORD)[-1].startswith(WORD + FIELDS)
    assert queue(row(*RUNS, word="of-before")) == []


@pytest.mark.parametrize(
    "expected",
    [
        answer(row(*RUNS), status=1),
        answer(row(*RUNS), status=None),
        answer(row(*RUNS), "slurm_load_jobs error: Unable to contact slurm controller"),
    ],
)
def test_an_answer_with_a_complaint_is_none(expected: CommandResult) -> None:
    assert read_queue(expected, WORD) is None
    assert read_nodes(expected, WORD) is None
    assert read_history(expected) is None


def test_of_a_large_queue_what_runs_and_what_is_first_is_kept() -> None:
    waiting = "".join(row(str(100 + n), *WAITS[1:4], str(n), *WAITS[5:]) for n in range(MAX_JOBS + 50))
    found = read_queue(answer(waiting + row(*RUNS)), WORD)
    assert found is not None
    jobs, left = found
    assert (len(jobs), left) == (MAX_JOBS, 51)
    assert jobs[0].id == "12"
    assert jobs[1].priority == MAX_JOBS + 49


def test_the_waiting_elements_of_an_array_are_counted() -> None:
    ids = ["3_[1-6%2]", "3_[1,4-9:2]", "3_[7-2]", "3_[1-999999999]", "3_[1-5,...]", "3_4"]
    jobs = queue("".join(row(each, *WAITS[1:]) for each in ids))
    assert [job.elements for job in jobs] == [6, 4, 1, 1_000_000, 1, 1]


def test_a_node_is_there_once_with_all_its_partitions() -> None:
    cells = ("n1", "batch", "mixed", "3/5/0/8", "64000", "fast,ssd")
    text = "".join(
        FIELDS.join((WORD, *each)) + "\n"
        for each in (
            cells,
            ("n1", "long", *cells[2:]),
            ("n2", "batch", "down*", "0/0/8/8", "64000", "(null)"),
        )
    )
    found = read_nodes(answer(text), WORD)
    assert found is not None
    first, second = found
    assert (first.partitions, first.processors, first.allocated) == (("batch", "long"), 8, 3)
    assert (first.features, first.closed, second.closed) == (("fast", "ssd"), "", "down*")


FACTS = """ClusterName             = peer
PrivateData             = jobs,usage
SchedulerType           = sched/builtin
SelectType              = select/linear
SelectTypeParameters    = CR_CPU_MEMORY
SLURM_VERSION           = 22.05.8

PartitionName=batch Default=YES DefaultTime=01:00:00 MaxTime=1-00:00:00 State=UP TotalCPUs=8 TotalNodes=2
PartitionName=long Default=NO DefaultTime=NONE MaxTime=UNLIMITED State=DOWN TotalCPUs=8 TotalNodes=2
"""


def test_the_configuration_says_how_jobs_are_counted() -> None:
    facts = read_facts(answer(FACTS))
    assert facts is not None
    assert (facts.cluster, facts.version, facts.policy) == ("peer", "22.05.8", "fcfs")
    assert (facts.hides_jobs, facts.whole_nodes, facts.counts_memory) == (True, True, True)
    batch, long = facts.partitions
    assert (batch.is_default, batch.most_time, batch.default_time) == (True, 86400.0, 3600.0)
    assert (long.is_default, long.most_time, long.default_time) == (False, float("inf"), None)
    assert facts.partition("") == batch
    assert facts.partition("long") == long


def test_the_history_has_what_has_ended() -> None:
    cells = (
        "5",
        "ada",
        "CANCELLED by 0",
        "batch",
        "10",
        "20",
        "50",
        "5",
        "8",
        "2",
        "phys",
        "n[1-2]",
        "70",
        "a b",
    )
    text = "\n".join(FIELDS.join(each) for each in (cells, ("6", "ada", "RUNNING", *cells[3:]), ("7",)))
    found = read_history(answer(text))
    assert found is not None
    (job,) = found
    assert (job.id, job.word, job.started, job.ended, job.limit) == ("5", "CANCELLED", 20.0, 50.0, 300.0)
    assert (job.nodes, job.priority, job.name) == ("n[1-2]", 70, "a b")
    assert "now-1day" in history_words("now-1day")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5:30", 330.0), ("1:02:03", 3723.0), ("2-3", 183_600.0), ("NOT_SET", float("inf")), ("", float("inf"))],
)
def test_time_limits_are_in_seconds(text: str, seconds: float) -> None:
    assert time_limit(text) == seconds


@given(st.text(alphabet="n0123456789[]-,", max_size=40))
def test_a_node_set_is_bounded(text: str) -> None:
    assert len(list(node_names(text, 50))) <= 50


def test_a_reason_is_said_in_words_with_its_code() -> None:
    assert "administrator" in reason_in_words("JobHeldAdmin")
    assert "down, drained" in reason_in_words("ReqNodeNotAvail, UnavailableNodes:n[1-4]")
    assert "its QOS has reached a limit of jobs" in reason_in_words("QOSMaxJobsPerUserLimit")
    assert reason_in_words("SomethingNew") == "SomethingNew"
    assert (may_start("Resources"), may_start(""), may_start("AssocGrpCpuLimit")) == (True, True, False)
    assert may_start("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved")
