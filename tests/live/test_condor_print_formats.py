"""``-print-format`` of condor_q, condor_history and condor_status prints what a file of HTCondor says."""

import re
from pathlib import Path

import pytest
from batch_programs import Programs, emptied_fixture, programs_fixture
from test_condor_programs import SLEEP, submitted

from heads import shared_head_fixture

head = shared_head_fixture(processors=4)
condor = programs_fixture("--only", "condor")
nothing_is_left = emptied_fixture("condor", "condor_rm -all", "condor_q -allusers -af ClusterId")


QUEUE_FORMAT = """# what the manual has as the usual output of condor_q
SELECT
   ClusterId     AS "    ID"  NOSUFFIX WIDTH AUTO
   ProcId        AS " "       NOPREFIX          PRINTF ".%-3d"
   Owner         AS "OWNER"         WIDTH -14   PRINTAS OWNER
   QDate         AS "  SUBMITTED"   WIDTH 11    PRINTAS QDATE
   JobStatus     AS ST                          PRINTAS JOB_STATUS
   JobPrio       AS PRI
   NoSuch        AS NONE            WIDTH 4     OR ??
   Cmd           AS CMD                         PRINTAS JOB_DESCRIPTION
WHERE ProcId < 1
SUMMARY NONE
"""


def test_a_file_says_which_columns_are_printed(condor: Programs, tmp_path: Path) -> None:
    (tmp_path / "q.cpf").write_text(QUEUE_FORMAT)
    cluster = submitted(condor, tmp_path, f"{SLEEP}hold = true\nqueue 2\n")
    title, heading, *lines = condor.output("condor_q -pr q.cpf", tmp_path).lstrip("\n").splitlines()
    assert title.startswith("-- Schedd: ")
    assert heading.split() == ["ID", "OWNER", "SUBMITTED", "ST", "PRI", "NONE", "CMD"]
    (line,) = lines
    pattern = rf" +{cluster}\.0 +root +\d+/\d+ +\d\d:\d\d H +0 +\?{{4}} sleep 600"
    assert re.fullmatch(pattern, line), line
    (tmp_path / "bare.cpf").write_text(
        "SELECT BARE LABEL SEPARATOR ': ' FIELDSUFFIX ';'\nClusterId\nJobStatus AS s\n"
    )
    assert condor.output("condor_q -print-format bare.cpf", tmp_path).splitlines() == (
        [f"ClusterId: {cluster};s: 5;"] * 2
    )
    condor.output(f"condor_rm {cluster}", tmp_path)
    (tmp_path / "h.cpf").write_text("SELECT NOHEADER\nJobStatus PRINTAS JOB_STATUS_RAW\n")
    assert condor.output(f"condor_history {cluster} -print-format h.cpf", tmp_path).split() == ["Removed"] * 2
    (tmp_path / "s.cpf").write_text("SELECT NOHEADER\nCpus AS C\nMemory PRINTAS READABLE_MB\n")
    assert re.fullmatch(r"4 +[\d.]+ GB", condor.output("condor_status -pr s.cpf", tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the print format is empty"),
        ("Owner\n", "out of place"),
        ("SELECT UNIQUE\n", "SELECT UNIQUE is not supported here"),
        ("SELECT\nOwner PRINTAS NOSUCH\n", "PRINTAS NOSUCH is not supported here"),
        ("SELECT\nOwner WIDTH 99999\n", "is no width"),
        ("SELECT\nOwner AS\n", "'AS'"),
        ("SELECT\nOwner ==\n", "is not understood"),
        ("SELECT\nOwner\nGROUP BY Owner\n", "GROUP BY is not supported here"),
        ("SELECT\nOwner PRINTF %99999s\n", "the format '%99999s' is not understood"),
    ],
)
def test_a_file_of_columns_that_is_not_understood_is_refused(
    condor: Programs, tmp_path: Path, text: str, message: str
) -> None:
    cluster = submitted(condor, tmp_path, f"{SLEEP}hold = true\nqueue\n")
    (tmp_path / "q.cpf").write_text(text)
    done = condor.run(f"condor_q {cluster} -pr q.cpf", tmp_path)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    missing = condor.run("condor_q -pr nosuchfile", tmp_path)
    assert (missing.returncode, "cannot be read: No such file" in missing.stderr) == (1, True)
