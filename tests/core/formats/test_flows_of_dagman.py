"""Flows of DAGMan are jobs that wait for each other, or are refused with the line and the reason."""

import pytest

from headnode.core.formats.condor.flows import files_of_flow
from headnode.core.formats.dialects import JobLanguage, ReadJobs, ReadOptions, convert, language_of, read
from headnode.core.formats.fidelity import lossy_items
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest
from headnode.core.model.task import ScriptOrigin

ORIGIN = ScriptOrigin(words=("night.dag",), directory="/home/ada/w")
FILES = {
    "a.sub": b"executable = a.sh\narguments = $(JOB) $(word:none)\nqueue\n",
    "b.sub": b"executable = b.sh\nqueue 2\nrequest_memory = 5\nqueue\n",
    "d/c.sub": b"executable = c.sh\narguments = $(x)\nqueue x from list\n",
    "d/list": b"one\n",
}
DIAMOND = "JOB A a.sub\nJOB B a.sub\nJob C a.sub\nJOB D a.sub\nPARENT A CHILD B C\nparent B C child D\n"


def flow(text: str) -> ReadJobs:
    return read(text, ReadOptions(origin=ORIGIN, files=FILES))


def test_nodes_are_jobs_that_wait_for_their_parents() -> None:
    found = flow(DIAMOND + 'VARS B word="two words" request_memory="7"\nRETRY C 3\nPRIORITY D 5\n')
    assert language_of(DIAMOND) is JobLanguage.CONDOR
    assert [job.name for job in found.jobs] == ["A", "B", "C", "D"]
    assert {job.job_group for job in found.jobs} == {"night"}
    assert set(found.links) == {
        DependencyLink(1, 0),
        DependencyLink(2, 0),
        DependencyLink(3, 1),
        DependencyLink(3, 2),
    }
    assert [job.tasks[0].command.partition(".sh ")[2] for job in found.jobs[:2]] == ["A none", "B two words"]
    assert [job.held.memory for job in found.jobs] == [0, 7, 0, 0]
    assert [job.task_retry_limit for job in found.jobs] == [0, 0, 3, 0]
    assert found.jobs[3].priority == 2005
    assert not lossy_items(found.report)


def test_a_node_may_be_several_jobs_or_done_and_have_a_directory_and_its_text_in_the_flow() -> None:
    found = flow(
        "JOB one b.sub\nJOB two c.sub DIR d\nJOB old a.sub DONE\n"
        "JOB three {\n executable = x.sh\n arguments = 1\n}\n"
        "SUBMIT-DESCRIPTION text {\n executable = y.sh\n}\nJOB four text\n"
        "PARENT one old CHILD two\nPARENT two CHILD three four\n"
    )
    assert [job.name for job in found.jobs] == ["one", "one", "two", "three", "four"]
    assert set(found.links) == {
        *(DependencyLink(2, n) for n in (0, 1)),
        *(DependencyLink(n, 2) for n in (3, 4)),
    }
    assert found.jobs[2].tasks[0].command == "/home/ada/w/d/c.sh one"
    assert found.jobs[3].tasks[0].command == "/home/ada/w/x.sh 1"


def test_the_files_of_a_flow_are_its_submit_files_and_their_items() -> None:
    text = "JOB A a.sub\nJOB C c.sub DIR d\n"
    assert files_of_flow(text, {}, ORIGIN) == ("a.sub", "d/c.sub")
    assert files_of_flow(text, FILES, ORIGIN) == ("a.sub", "d/c.sub", "d/list")


def test_a_flow_becomes_a_file_of_jobs_in_the_native_form() -> None:
    _, _, (text, report) = convert(DIAMOND, ReadOptions(origin=ORIGIN, files=FILES), "native")
    again = read(text)
    assert not lossy_items(report)
    assert (again.jobs, set(again.links)) == (flow(DIAMOND).jobs, set(flow(DIAMOND).links))


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("JOB A missing.sub\n", "queue-file", 1),
        ("JOB A\nJOB B a.sub\n", "flow", 1),
        ("JOB A a.sub\nJOB A a.sub\n", "flow", 2),
        ("JOB A a.sub\nPARENT A CHILD B\n", "flow", 2),
        ("JOB A a.sub\nPARENT A\n", "flow", 2),
        ("JOB A a.sub\nJOB B a.sub\nPARENT A CHILD B\nPARENT B CHILD A\n", "flow", 1),
        ("JOB A a.sub\nPARENT A CHILD A\n", "flow", 1),
        ("JOB A a.sub\nVARS A word=plain\n", "flow", 2),
        ("JOB A a.sub\nRETRY A many\n", "flow", 2),
        ("JOB A a.sub\nRETRY A 3 UNLESS-EXIT 2\n", "flow", 2),
        ("JOB A a.sub\nPARNT A CHILD A\n", "flow", 2),
        ("JOB A a.sub NOOP\n", "not-supported", 1),
        ("JOB A a.sub\nSCRIPT PRE A run.sh\n", "not-supported", 2),
        ("JOB A a.sub\nSUBDAG EXTERNAL B b.dag\n", "not-supported", 2),
        ("JOB A a.sub\nABORT-DAG-ON A 3\n", "not-supported", 2),
        ("JOB A {\n executable = a\n", "flow", 1),
        ("JOB A {\n executable = a\n universe = docker\n}\n", "not-supported", 1),
        ("".join(f"JOB n{n} a.sub\n" for n in range(1001)), "too-many-jobs", 1001),
    ],
)
def test_a_flow_that_is_wrong_is_refused_with_the_line_of_its_node(text: str, code: str, line: int) -> None:
    with pytest.raises(BadRequest) as no:
        flow(text)
    assert (no.value.code, no.value.place and no.value.place[0]) == (code, line)
    assert no.value.fix


def test_what_only_concerns_dagman_is_reported() -> None:
    report = flow("JOB A a.sub\nMAXJOBS x 3\nDOT a.dot\n").report
    assert [(item.where, item.line) for item in lossy_items(report)] == [("MAXJOBS", 2), ("DOT", 3)]
