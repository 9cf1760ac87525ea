"""PBS as text: what is asked, and what OpenPBS, Torque and the programs of Slurm answer.

The answers have the forms that the manuals and issues of OpenPBS and Torque show; no OpenPBS was at hand.
"""

import json
import subprocess
import time
from pathlib import Path

import pytest

from headnode.core.batch.dialect import (
    AttemptPlace,
    CommandResult,
    ForeignAction,
    ForeignJob,
    ForeignState,
    Submission,
    marker_of,
)
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.pbs import Pbs
from headnode.core.batch.tracked import Files, HandOffTimeouts
from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.quantities import Instant

PBS = Pbs()
PLACE = AttemptPlace(7, 1, 1, 2)
MARKER = marker_of("0a1b2c3d", PLACE)
OTHER = marker_of("0a1b2c3d", AttemptPlace(8, 1, 1, 1))
HEADER = {"timestamp": 1, "pbs_version": "22.05.11", "pbs_server": "head"}


def answer(out: str = "", err: str = "", status: int | None = 0) -> CommandResult:
    return CommandResult(status, out, err)


def cells(state: str, name: str = MARKER, **more: object) -> dict[str, object]:
    return {"Job_Name": name, "Job_Owner": "ada@login1", "job_state": state, "queue": "workq", **more}


def as_json(**jobs: dict[str, object]) -> str:
    named = {number.replace("_", "."): value for number, value in jobs.items()}
    return json.dumps({**HEADER, "Jobs": named}, indent=4, separators=(",", ":"))


def as_text(number: str, of_job: dict[str, object]) -> str:
    lines = [f"Job Id: {number}"]
    for name, value in of_job.items():
        if isinstance(value, dict):
            lines += [f"    {name}.{inner} = {each}" for inner, each in value.items()]
        else:
            lines.append(f"    {name} = {value}")
    return "\n".join([*lines, "", ""])


def as_xml(number: str, of_job: dict[str, object]) -> str:
    inner = "".join(
        f"<{name}>{''.join(f'<{k}>{v}</{k}>' for k, v in value.items())}</{name}>"
        if isinstance(value, dict)
        else f"<{name}>{value}</{name}>"
        for name, value in of_job.items()
    )
    return f"<Data><Job><Job_Id>{number}</Job_Id>{inner}</Job></Data>\n"


FORMS = {
    "JSON": lambda one: as_json(**{"12_head": one}),
    "text": lambda one: as_text("12.head", one),
    "XML": lambda one: as_xml("12.head", one),
}


def only(expected: CommandResult) -> ForeignJob:
    rows = PBS.polled(expected)
    assert rows is not None
    (found,) = rows.values()
    return found


def words_of(wanted: Submission) -> str:
    return " ".join(PBS.submit(wanted)[6:])


def test_the_options_of_a_submission_are_those_that_were_asked_for() -> None:
    wanted = Submission(
        MARKER, queue="long", processors=8, nodes=2, limit=90, memory=100, memory_each=50, project="p1",
        features=(("gpu",),),
    )  # fmt: skip
    words = words_of(wanted)
    for part in ("-q long", "-A p1", "-r n", "-S /bin/sh", "-j oe"):
        assert f" {part} " in f" {words} "
    assert words.endswith("-l nodes=2:ppn=4:gpu,walltime=0:01:30,mem=200mb,pmem=50mb job")


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        (Submission(MARKER), "1:ppn=1"),
        (Submission(MARKER, processors=6), "1:ppn=6"),
        (Submission(MARKER, processors=7, nodes=2), "1:ppn=4+1:ppn=3"),
        (Submission(MARKER, processors=7, per_node=3), "2:ppn=3+1:ppn=1"),
        (Submission(MARKER, processors=2, per_node=3), "1:ppn=2"),
    ],
)
def test_processors_are_asked_for_in_words_of_the_whole_family(wanted: Submission, nodes: str) -> None:
    assert words_of(wanted).endswith(f"-l nodes={nodes} job")


QSUB = """#!/bin/sh
echo "$@" >> {log}
while [ $# -gt 0 ]; do [ "$1" = -N ] && name=$2; shift; done
[ ${{#name}} -le {longest} ] || {{ echo 'qsub: illegal -N value'; echo 'usage: qsub ...'; exit 2; }}
echo {said}; exit {status}
"""


@pytest.mark.parametrize(
    ("longest", "text", "status", "asked"), [(230, "7.head", 0, 1), (15, "7.head", 0, 2), (230, "gone", 1, 1)]
)
def test_a_server_with_short_names_gets_the_marker_as_a_variable(
    tmp_path: Path, longest: int, text: str, status: int, asked: int
) -> None:
    """Only what qsub itself has refused is submitted again."""
    log = tmp_path / "log"
    (tmp_path / "qsub").write_text(QSUB.format(log=log, longest=longest, said=text, status=status))
    (tmp_path / "qsub").chmod(0o755)
    done = subprocess.run(
        PBS.submit(Submission(MARKER)),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == (f"{text}\n", status)
    lines = log.read_text().splitlines()
    assert len(lines) == asked
    assert f"-N {MARKER} " in lines[0]
    if asked == 2:
        assert f"-N hn-7.1.1-2 -v HEADNODE_MARKER={MARKER} " in lines[1]


def test_names_of_jobs_fit_old_servers() -> None:
    long = marker_of("0a1b2c3d", AttemptPlace(1234567, 12, 12345, 3))
    _, _, _, _, name, short, *_ = PBS.submit(Submission(long))
    assert (name, short) == (long, "hn-1234567.12.1")


@pytest.mark.parametrize(
    ("expected", "kind", "id_"),
    [
        (answer("7.head.site\n"), "queued", "7.head.site"),
        (answer("7\n"), "queued", "7"),
        (answer("option -S is ignored, specify shell via #!<shell> in the job script\n12\n"), "queued", "12"),
        (answer("nothing like an id\n"), "doubtful", ""),
        (answer("qsub: Unknown queue\n", "", 170), "refused", ""),
        (answer("qsub: Job violates queue and/or server resource limits\n", "", 188), "refused", ""),
        (answer("sbatch: error: submission failed: Invalid partition name\n", "", 1), "refused", ""),
        (answer("qsub: Maximum number of jobs already in queue\n", "", 198), "doubtful", ""),
        (answer("qsub: cannot connect to server head (errno=15010)", "", 255), "doubtful", ""),
        (answer("sbatch: error: Socket timed out on send/recv operation\n", "", 1), "doubtful", ""),
        (answer("7.head\n", "", None), "doubtful", ""),
        (answer("", "", 1), "doubtful", ""),
    ],
)  # fmt: skip
def test_only_a_clear_answer_is_one(expected: CommandResult, kind: str, id_: str) -> None:
    found = PBS.submitted(expected)
    assert (found.kind, found.id) == (kind, id_)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("Q", ForeignState.WAITING),
        ("W", ForeignState.WAITING),
        ("R", ForeignState.RUNNING),
        ("E", ForeignState.RUNNING),
        ("S", ForeignState.RUNNING),
        ("M", ForeignState.UNKNOWN),  # moved to another server: it has not ended
        ("?", ForeignState.UNKNOWN),
    ],
)
def test_a_poll_reads_the_letters_of_states(form: str, letter: str, state: ForeignState) -> None:
    found = only(answer(FORMS[form](cells(letter, Resource_List={"walltime": "00:01:30"}))))
    assert (found.id, found.marker, found.owner) == ("12.head", MARKER, "ada")
    assert (found.state, found.limit, found.is_held) == (state, 90, False)


@pytest.mark.parametrize("form", FORMS)
def test_a_job_that_its_user_holds_is_held_and_its_comment_is_the_reason(form: str) -> None:
    held = only(answer(FORMS[form](cells("H", Hold_Types="u", comment="Job held by ada"))))
    assert (held.state, held.is_held, held.reason) == (
        ForeignState.WAITING, True, "it is held there: Job held by ada",
    )  # fmt: skip
    assert not only(answer(FORMS[form](cells("H", Hold_Types="s")))).is_held
    waits = only(answer(FORMS[form](cells("Q", Hold_Types="n", Priority=0, comment="Not Running: no room"))))
    assert (waits.is_held, waits.reason) == (False, "Not Running: no room")


def test_the_programs_of_slurm_are_read() -> None:
    text = (
        f"Job Id:\t12\n\tJob_Name = {MARKER}\n\tJob_Owner = ada@head\n\tjob_state = Q\n\tqueue = batch\n"
        "\tPriority = 0\n\tResource_List.walltime = 00:02:00\n\n"
        f"Job Id:\t13\n\tJob_Name = {OTHER}\n\tJob_Owner = ada@head\n\tjob_state = C\n\tPriority = 1\n\n"
    )
    rows = PBS.polled(answer(text))
    assert rows is not None
    held, over = rows.values()
    assert (held.id, held.is_held, held.limit) == ("12", True, 120)
    assert (over.state, over.word, over.exit_code) == (ForeignState.ENDED, "C without a status", None)
    assert PBS.polled(answer("", "", 153)) == {}  # how they say that there is no job


@pytest.mark.parametrize("form", FORMS)
def test_a_marker_in_the_variables_is_one(form: str) -> None:
    variables = f"PBS_O_HOME=/home/ada,HEADNODE_MARKER={MARKER},PBS_O_SHELL=/bin/sh"
    if form == "JSON":
        one = cells("R", "hn-7.1.1-2", Variable_List=dict(each.split("=") for each in variables.split(",")))
    else:
        one = cells("R", "hn-7.1.1-2", Variable_List=variables)
    assert only(answer(FORMS[form](one))).marker == MARKER
    assert PBS.polled(answer(FORMS[form](cells("R", "solve")))) == {}


def test_text_that_is_folded_is_one_line() -> None:
    value = f"PBS_O_HOME=/home/ada,HEADNODE_MARKER={MARKER}"
    folded = (
        as_text("12.head", cells("R", "short")).rstrip()
        + f"\n    Variable_List = {value[:30]}\n\t{value[30:]}\n\n"
    )
    assert only(answer(folded)).marker == MARKER


# Defects of OpenPBS, each by its number.


def test_json_with_escapes_that_are_none_is_read() -> None:
    """OpenPBS before pull request 2049, still met: ``\\'`` and ``\\,`` in values."""
    broken = as_json(**{"11_head": cells("R", "x", Variable_List={"A": "HERE"}), "12_head": cells("R")})
    broken = broken.replace("HERE", "it\\'s a\\, b\\")
    assert only(answer(broken)).id == "12.head"


def test_json_that_is_none_is_read_line_by_line() -> None:
    broken = as_json(**{"11_head": cells("Q", OTHER, Variable_List={"A": "HERE"}), "12_head": cells("R")})
    broken = broken.replace('"HERE"', '"say "hi", then"')
    rows = PBS.polled(answer(broken))
    assert rows is not None
    assert {(row.id, row.marker) for row in rows.values()} == {("11.head", OTHER), ("12.head", MARKER)}


def test_spaces_in_a_value_do_not_hold_the_poll_of_all_users() -> None:
    """A variable of any user, beside a value that is no JSON: 100,000 spaces took 50 s."""
    spaces = f"{' ' * 100_000}x"
    broken = as_json(**{"12_head": cells("R", Variable_List={"A": "HERE", "B": spaces})})
    begun = time.process_time()
    assert only(answer(broken.replace('"HERE"', '"say "hi""'))).id == "12.head"
    assert time.process_time() - begun < 5


def test_a_server_that_is_away_is_no_empty_list() -> None:
    """OpenPBS 22.05 prints a whole document without jobs then."""
    message = answer(
        json.dumps(HEADER), "Connection refused\nqstat: cannot connect to server head (errno=15010)", 255
    )
    assert PBS.polled(message) is None
    assert PBS.polled(answer(json.dumps(HEADER))) == {}


def test_several_jobs_are_never_asked_for_as_json() -> None:
    """Issue 2672: of several ids only the first is printed."""
    asked = " ".join(PBS.history([MARKER, OTHER], ["12.head", "13.head"]))
    assert "json" not in asked
    assert "12.head 13.head" in asked
    assert "$@" not in " ".join(PBS.poll(["ada"]))


def test_a_key_that_is_there_twice_has_its_last_value() -> None:
    """Issue 2677."""
    text = as_json(**{"12_head": cells("R")}).replace('"queue":"workq"', '"queue":"workq","queue":"other"')
    assert only(answer(text)).state is ForeignState.RUNNING


def test_a_forged_row_ends_no_job() -> None:
    """In text a value of a user's own job may have lines that look like the row of another."""
    real, forged = as_text("12.head", cells("R")), as_text("99.head", cells("F", Exit_status=0))
    for text in (real + forged, forged + real):
        assert only(answer(text)).state is ForeignState.UNKNOWN


@pytest.mark.parametrize("form", ["JSON", "XML"])
def test_nothing_is_learnt_from_an_answer_that_was_cut(form: str) -> None:
    whole = FORMS[form](cells("R", Resource_List={"walltime": "1:00"})).rstrip()
    for length in range(1, len(whole)):
        assert not PBS.polled(answer(whole[:length]))
        assert whole[0] != whole[length - 1] or PBS.polled(answer(whole[:length])) is None


# How jobs ended.


@pytest.mark.parametrize(
    ("name", "status", "found"),
    [
        ("Exit_status", 0, ("F", 0, None)),
        ("Exit_status", 3, ("F", 3, None)),
        ("Exit_status", 137, ("F", None, 9)),
        ("Exit_status", 255, ("F", 255, None)),
        ("Exit_status", 271, ("Exit_status 271", None, None)),
        ("Exit_status", -29, ("Exit_status -29", None, None)),
        ("exit_status", -11, ("exit_status -11", None, None)),
        ("Other", 1, ("F without a status", None, None)),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_the_history_has_how_jobs_ended(
    form: str, name: str, status: int, found: tuple[str, int | None, int | None]
) -> None:
    of_job = cells("F", **{name: status}, resources_used={"cput": "00:01:02", "mem": "4504kb"})
    rows = PBS.remembered(answer(FORMS[form](of_job)))
    assert rows is not None
    row = rows[MARKER, "ada"]
    assert (row.state, (row.word, row.exit_code, row.signal)) == (ForeignState.ENDED, found)
    assert row.usage == ResourceUsage(62.0, 0.0, 4504)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Exit_status -29", "timed-out"),
        ("exit_status -11", "timed-out"),
        ("Exit_status -11", "lost"),  # the same number is another thing in Torque
        ("Exit_status -20", "lost"),
        ("Exit_status 271", "stopped"),
        ("C without a status", "stopped"),
    ],
)
def test_what_a_status_means_for_a_task(word: str, kind: str) -> None:
    name, _, status = word.partition(" ")
    of_job = cells(name) if status == "without a status" else cells("F", **{name: status})
    row = only(answer(FORMS["text"](of_job)))
    assert row.word == word
    table = HandOffTable("PBS", HandOffTimeouts())
    table.add(PLACE, MARKER, "ada", job="12.head", may_be_there=True, now=Instant(0))
    table.polled({(MARKER, "ada"): row}, Instant(1), Instant(1))
    news = table.looked({MARKER: Files(has_started=True)}, Instant(500), Instant(500))
    (outcome,) = [each.outcome for each in news if each.outcome is not None]
    assert outcome.kind == kind


@pytest.mark.parametrize("word", ["C without a status", "F"])
def test_a_signal_of_the_exit_file_is_believed_where_pbs_says_nothing_else(word: str) -> None:
    table = HandOffTable("PBS", HandOffTimeouts())
    table.add(PLACE, MARKER, "ada", job="12.head", may_be_there=True, now=Instant(0))
    of_job = cells("C") if word.startswith("C") else cells("F", Exit_status="137")
    row = only(answer(FORMS["text"](of_job)))
    assert row.word == word
    table.polled({(MARKER, "ada"): row}, Instant(1), Instant(1))
    table.looked(
        {MARKER: Files(True, "code=137 signal=9 start=1 end=2 id=12 host=n")}, Instant(2), Instant(2)
    )
    (ended,) = table.remembered({(MARKER, "ada"): row}, Instant(3))
    assert ended.outcome is not None
    assert (ended.outcome.kind, ended.outcome.signal) == ("exited", 9)


@pytest.mark.parametrize(
    "expected",
    [
        answer("", "qstat: PBS is not configured to maintain job history", 36),
        answer("", "Connection refused\nqstat: cannot connect to server head", 255),
        answer("", "Unknown option: x", 2),
        answer("", "", 153),
    ],
)
def test_without_a_history_nothing_is_remembered(expected: CommandResult) -> None:
    assert PBS.remembered(expected) is None


def test_the_history_of_some_is_not_lost_for_those_that_are_unknown() -> None:
    text = FORMS["text"](cells("F", Exit_status=3))
    rows = PBS.remembered(answer(text, "qstat: Unknown Job Id 13.head\n", 153))
    assert rows is not None
    assert [row.exit_code for row in rows.values()] == [3]
    assert PBS.remembered(answer("", "qstat: Unknown Job Id 13.head\n", 153)) == {}


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (ForeignAction.CANCEL, "qdel 7 8"),
        (ForeignAction.HOLD, "qhold -h u 7 8"),
        (ForeignAction.RELEASE, "qrls -h u 7 8"),
        (ForeignAction.LIMIT, "qalter -l walltime=0:01:30 7 8"),
    ],
)
def test_what_may_be_done_with_jobs_there(action: ForeignAction, words: str) -> None:
    assert PBS.act(action, ["7", "8"], Submission(MARKER, limit=90)) == words.split()


QSTAT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  {known}) echo answer; exit {status};;
  *) echo 'qstat: invalid option' >&2; exit 2;;
esac
"""


@pytest.mark.parametrize(
    ("known", "status", "asked"), [('"-f -F json"', 0, 1), ("-f\\ -x", 0, 2), ("-f", 153, 3), ("-f*", 255, 1)]
)
def test_each_system_is_asked_in_the_best_form_that_it_has(
    tmp_path: Path, known: str, status: int, asked: int
) -> None:
    log = tmp_path / "log"
    (tmp_path / "qstat").write_text(QSTAT.format(log=log, known=known, status=status))
    (tmp_path / "qstat").chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(PBS.poll(["ada"]), env=path, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("answer\n", "", status)
    assert len(log.read_text().splitlines()) == asked
