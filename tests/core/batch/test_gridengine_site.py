"""Grid Engine as text: its queue, hosts, queues and history, whatever its users call their jobs."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.batch.dialect import CommandResult, ForeignState
from headnode.core.batch.gridengine_site import (
    history_words,
    read_facts,
    read_history,
    read_nodes,
    read_queue,
)
from headnode.core.batch.site import MAX_TEXT, SiteJob
from headnode.core.batch.slurm_reasons import may_start


def result_of(out: str, status: int | None = 0, err: str = "") -> CommandResult:
    return CommandResult(status, out, err)


def row(number: int, state: str, name: str = "work", more: str = "", slots: int = 1) -> str:
    return (
        f'<job_list state="any">\n<JB_job_number>{number}</JB_job_number>\n<JAT_prio>0.26010</JAT_prio>\n'
        f"<JB_name>{name}</JB_name>\n<JB_owner>ada</JB_owner>\n<state>{state}</state>\n<slots>{slots}</slots>\n"
        f"{more}<full_job_name>{name}</full_job_name>\n</job_list>\n"
    )


def queue_of(host: str, *rows: str, queue: str = "main.q") -> str:
    return f"<Queue-List>\n<name>{queue}@{host}</name>\n{''.join(rows)}</Queue-List>"


def answer(queues: str = "", waiting: str = "") -> CommandResult:
    return result_of(
        "<?xml version='1.0'?>\n<job_info>\n<queue_info>\n"
        f"{queues}</queue_info>\n<job_info>\n{waiting}</job_info>\n</job_info>\n"
    )


def jobs_of(result: CommandResult) -> dict[str, SiteJob]:
    found = read_queue(result, "")
    assert found is not None
    return {job.id: job for job in found[0]}


LIMIT = '<hard_request name="h_rt" resource_contribution="0.000000">600</hard_request>\n'
BEGUN = "<JAT_start_time>2026-11-29T13:17:12</JAT_start_time>\n"
CAME = "<JB_submission_time>2026-11-29T13:15:06</JB_submission_time>\n"


def test_what_runs_has_its_host_limit_and_start() -> None:
    granted = '<requested_pe name="smp">3</requested_pe>\n<granted_pe name="smp">3</granted_pe>\n'
    (job,) = jobs_of(answer(queue_of("n1", row(10, "r", more=BEGUN + LIMIT + granted, slots=3)))).values()
    assert (job.state, job.nodes, job.processors, job.limit) == (ForeignState.RUNNING, "n1", 3, 600.0)
    assert job.started == 1795958232.0
    assert (job.priority, job.user, job.partitions) == (26010, "ada", ("main.q",))


def test_a_job_on_several_hosts_is_one_job() -> None:
    granted = '<granted_pe name="mpi">6</granted_pe>\n'
    parts = [queue_of(host, row(7, "r", more=BEGUN + granted, slots=3)) for host in ("n1", "n2")]
    (job,) = jobs_of(answer("".join(parts))).values()
    assert (job.nodes, job.processors, job.node_count) == ("n1,n2", 6, 2)


def test_what_waits_may_go_to_the_queues_that_it_names_or_to_all() -> None:
    named = "<hard_req_queue>long.q</hard_req_queue>\n"
    found = jobs_of(
        answer(
            queue_of("n1") + queue_of("n1", queue="long.q"),
            row(1, "qw", more=CAME) + row(2, "qw", more=named),
        )
    )
    assert found["1"].partitions == ("main.q", "long.q")
    assert found["2"].partitions == ("long.q",)
    assert found["1"].submitted == 1795958106.0
    assert found["1"].limit == inf
    assert may_start(found["1"].reason)


@pytest.mark.parametrize("state", ["hqw", "Eqw"])
def test_what_is_held_or_wrong_does_not_wait_for_its_turn(state: str) -> None:
    (job,) = jobs_of(answer("", row(1, state))).values()
    assert job.state is ForeignState.WAITING
    assert not may_start(job.reason)


def test_the_rest_of_an_array_is_one_row_with_its_tasks() -> None:
    running = row(11, "r", more=f"{BEGUN}<tasks>1</tasks>\n")
    found = jobs_of(answer(queue_of("n1", running), row(11, "qw", more="<tasks>2-5:1</tasks>\n")))
    assert {number: job.elements for number, job in found.items()} == {"11.1": 1, "11.2-5:1": 4}


@given(st.text(max_size=200))
def test_a_name_is_only_a_name(name: str) -> None:
    escaped = name.replace("&", "&amp;").replace("<", "%lt;").replace(">", "&gt;")
    found = jobs_of(answer("", row(1, "qw", escaped) + row(2, "qw")))
    assert set(found) == {"1", "2"}
    assert len(found["1"].name) <= MAX_TEXT


@pytest.mark.parametrize(
    "wrong",
    [
        result_of("", 1, "error: unable to contact qmaster"),
        result_of("<job_info><job_list"),
        result_of("", None),
    ],
)
def test_what_is_cut_or_an_error_is_no_answer(wrong: CommandResult) -> None:
    assert read_queue(wrong, "") is None
    assert read_nodes(wrong, "") is None


def host(name: str, **queues: tuple[int, int, str]) -> str:
    parts = "".join(
        f"<queue name='{queue}.q'>\n"
        f"<queuevalue qname='{queue}.q' name='slots_used'>{used}</queuevalue>\n"
        f"<queuevalue qname='{queue}.q' name='slots'>{slots}</queuevalue>\n"
        f"<queuevalue qname='{queue}.q' name='state_string'>{letters}</queuevalue>\n</queue>\n"
        for queue, (used, slots, letters) in queues.items()
    )
    return f"<host name='{name}'>\n<hostvalue name='mem_total'>23.5G</hostvalue>\n{parts}</host>\n"


def test_hosts_have_the_slots_of_their_queues() -> None:
    hosts = [
        host("global"), host("n1", main=(3, 8, "")), host("n2", main=(0, 8, "d"), long=(0, 4, "")),
        host("n3", main=(0, 8, "au")),
    ]  # fmt: skip
    found = read_nodes(result_of(f"<?xml version='1.0'?>\n<qhost>\n{''.join(hosts)}</qhost>\n"), "")
    assert found is not None
    shown = [
        (one.name, one.partitions, one.processors, one.allocated, one.state, one.closed) for one in found
    ]
    assert shown == [
        ("n1", ("main.q",), 8, 3, "mixed", ""),
        ("n2", ("long.q",), 4, 0, "idle", ""),
        ("n3", ("main.q",), 8, 0, "au", "au"),
    ]
    assert found[0].memory == 24064


def test_queues_have_their_longest_run_time() -> None:
    text = "SGE 8.1.9\nqname main.q\nh_rt INFINITY\n\nqname short.q\ns_rt 1:0:0\nh_rt 2:00:00,[n1=1:00:00]\n"
    found = read_facts(result_of(text))
    assert found is not None
    assert found.version == "8.1.9"
    assert {each.name: each.most_time for each in found.partitions} == {"main.q": inf, "short.q": 7200.0}


RECORD = """qname        main.q
hostname     n1
owner        ada
jobname      work
jobnumber    8
taskid       undefined
qsub_time    Sun Nov 29 13:15:06 2026
start_time   Sun Nov 29 13:15:08 2026
end_time     Sun Nov 29 13:16:46 2026
slots        2
failed       {failed}
exit_status  0
category     -l h_rt=600
"""


@pytest.mark.parametrize(
    ("failed", "word"),
    [("0    ", "done"), ("100 : assumedly after job", "failed 100"), ("37 : x", "failed 37")],
)
def test_what_has_ended_is_in_its_accounting(failed: str, word: str) -> None:
    line = "=" * 62
    found = read_history(
        result_of(f"{line}\n{RECORD.format(failed=failed)}{line}\nqname main.q\njobnumber x\n")
    )
    assert found is not None
    (job,) = found
    assert (job.id, job.word, job.processors, job.limit) == ("8", word, 2, 600.0)
    assert (job.submitted, job.started, job.ended) == (1795958106.0, 1795958108.0, 1795958206.0)


def test_no_ended_job_is_an_answer_and_no_accounting_is_none() -> None:
    assert read_history(result_of("", 1, "error: job name * not found")) == ()
    assert read_history(result_of("", 1, "no accounting file")) is None


def test_it_is_asked_for_what_ended_since_then() -> None:
    assert list(history_words("now-1day"))[-4:] == ["-d", "1", "-j", "*"]
    assert list(history_words("2026-11-29T13:15:06"))[-4:] == ["-b", "202611291315", "-j", "*"]
