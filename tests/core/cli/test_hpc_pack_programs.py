"""Every verb and option of HPC Pack's programs has a row, and each row does what it says."""

from typing import Any

import pytest
from msgspec.structs import asdict

from headnode.apps.cli.hpc_pack_programs import (
    PROGRAMS,
    HpcPackVerb,
    command_of,
    help_page,
    obey_as,
    options_of,
)
from headnode.apps.cli.options import Arguments, CliOption, read_arguments
from headnode.apps.cli.terms import changed_terms, job_terms
from headnode.core.formats.slash_terms import read_job_terms, read_task_terms
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant

DOCUMENTED: dict[str, dict[str, str]] = {
    "job": {
        "new": "{job} jobfile f password",
        "add": "{task} taskfile f",
        "submit": "id jobfile f {job} {only} taskfile password",
        "modify": "{job} password",
        "cancel": "message force graceful",
        "finish": "message graceful",
        "requeue": "",
        "clone": "",
        "list": "all state format jobname projectname user jobtemplate detailed",
        "listtasks": "state format expandparametric",
        "view": "detailed history",
    },
    "task": {
        "view": "detailed peekoutput",
        "modify": "{task}",
        "cancel": "force message",
        "finish": "",
        "requeue": "",
    },
    "node": {
        "list": "state group format all lastdays history",
        "view": "jobhistory taskhistory lastrows when",
        "listcores": "state jobid format",
        "online": "all force",
        "offline": "all force",
        "approve": "",
        "pause": "",
        "resume": "",
    },
    "cluscfg": {
        "view": "",
        "listparams": "",
        "setparams": "",
        "listenvs": "",
        "setenvs": "",
        "setcreds": "user password",
        "delcreds": "user",
    },
    "clusrun": {
        "": "all nodes nodegroup nodestate job task template exclude workdir env stdin outputdir interleaved "
        "sorted user password"
    },
}
"""What the documents of HPC Pack and CCS list."""

JOB_VALUES: dict[str, tuple[str, str]] = {
    "jobname": ("x", "name"),
    "name": ("x", "name"),
    "priority": ("4000", "priority"),
    "jobtemplate": ("T", "template"),
    "projectname": ("p", "project"),
    "runtime": ("1:30", "run_time"),
    "rununtilcanceled": ("", "run_until_canceled"),
    "exclusive": ("", "exclusive"),
    "singlenode": ("true", "single_node"),
    "numcores": ("1-1", "minimum"),
    "numprocessors": ("4-8", "maximum"),
    "numnodes": ("2-*", "unit"),
    "numsockets": ("2", "unit"),
    "numgpus": ("2", "unit"),
    "requestednodes": ("n1,n2", "requested_nodes"),
    "askednodes": ("n1,n2", "requested_nodes"),
    "nodegroup": ("g1,g2", "node_groups"),
    "nodegroupop": ("Union", "node_group_op"),
    "memorypernode": ("100-200", "minimum_memory"),
    "corespernode": ("2-8", "minimum_processors_per_node"),
    "orderby": ("-Memory,Cores", "order_by"),
    "license": ("f:1,g:*", "licences"),
    "failontaskfailure": ("", "fail_on_task_failure"),
    "faildependenttasks": ("", "fail_dependent_tasks"),
    "validexitcodes": ("-1..10,min..-100", "valid_exit_codes"),
    "parentjobids": ("1,2", "parents"),
    "holduntil": ("10", "hold_until"),
    "emailaddress": ("a@b", "email"),
    "notifyonstart": ("", "notify_on_start"),
    "notifyoncompletion": ("true", "notify_on_completion"),
    "customproperties": ("a=1;b=2", "properties"),
    "jobenv": ("A=1", "environment"),
    "estimatedprocessmemory": ("100", "process_memory"),
    "taskexecutionfailureretrylimit": ("2", "task_retry_limit"),
    "user": ("bob", "run_as"),
}
TASK_VALUES: dict[str, tuple[str, str]] = {
    "name": ("x", "name"),
    "numcores": ("2-4", "maximum"),
    "numprocessors": ("2", "minimum"),
    "numnodes": ("2", "minimum"),
    "numsockets": ("2", "minimum"),
    "numgpus": ("2", "minimum"),
    "exclusive": ("", "exclusive"),
    "rerunnable": ("false", "rerunnable"),
    "runtime": ("0:30", "run_time"),
    "workdir": ("/tmp", "work_directory"),
    "stdin": ("/in.txt", "standard_input"),
    "stdout": ("out.*.txt", "standard_output"),
    "stderr": ("/err.txt", "standard_error"),
    "env": ("A=1;B=2", "environment"),
    "depend": ("a,b", "depends_on"),
    "requirednodes": ("n1", "required_nodes"),
    "requestednodegroup": ("g", "node_group"),
    "parametric": ("1-100:1", "end"),
    "type": ("NodePrep", "kind"),
    "failjobonfailure": ("", "fail_job_on_failure"),
    "failjobonfailurecount": ("3", "fail_job_on_failure"),
    "validexitcodes": ("0,2", "valid_exit_codes"),
}
ONLY_TASK = " ".join(name for name in TASK_VALUES if name not in JOB_VALUES)
FORMS = {
    "job": " ".join(JOB_VALUES) + " progress progressmsg",
    "task": " ".join(TASK_VALUES),
    "only": ONLY_TASK,
}
VERBS = [(program, word, verb) for program, verbs in PROGRAMS.items() for word, verb in verbs.items()]
ROWS = [pytest.param(*row, id=f"{row[0]} {row[1]}".strip()) for row in VERBS]


def spellings(option: str, value: str) -> list[list[str]]:
    """Return how an option may be typed."""
    if not value:
        return [
            [f"/{option}"],
            [f"/{option.upper()}:true"],
            [f"--{option}"],
            [f"-{option}"],
            [f"-{option}:true"],
        ]
    attached = [[f"/{option}:{value}"], [f"/{option.title()}:{value}"], [f"-{option}:{value}"]]
    apart = [] if value in ("true", "false") else [[f"--{option}", value]]
    return [*attached, [f"--{option}:{value}"], [f"--{option}={value}"], *apart]


def parsed(verb: HpcPackVerb, words: list[str]) -> Arguments:
    command = command_of(verb)
    return read_arguments(words, options_of(verb, command), command.positionals, hpc_pack=True)


def test_there_is_a_row_for_every_documented_verb_and_option() -> None:
    assert {program: set(verbs) for program, verbs in PROGRAMS.items()} == {
        program: set(verbs) for program, verbs in DOCUMENTED.items()
    }
    for program, word, verb in VERBS:
        known = {*verb.works, *verb.unused}
        known |= {other for others in verb.aliases.values() for other in others}
        assert set(DOCUMENTED[program][word].format(**FORMS).split()) - known == set(), (program, word)


@pytest.mark.parametrize(("program", "word", "verb"), ROWS)
def test_an_option_that_works_is_one_of_the_command_in_every_spelling(
    program: str, word: str, verb: HpcPackVerb
) -> None:
    del program, word
    if not verb.verb:
        return
    known: dict[str, CliOption] = {}
    for option in options_of(verb, command_of(verb)):
        for name in option.spellings:
            known.setdefault(name, option)
    for name in (
        *verb.works,
        "scheduler",
        *(other for others in verb.aliases.values() for other in others),
    ):
        for words in spellings(name, "x" if known[name].value else ""):
            assert parsed(verb, words).text(known[name].name) in ("x", "true")


@pytest.mark.parametrize("option", JOB_VALUES)
@pytest.mark.parametrize("word", ["new", "submit", "modify"])
def test_an_option_of_a_job_changes_what_the_job_asks_for(word: str, option: str) -> None:
    value, field = JOB_VALUES[option]
    verb, plain = PROGRAMS["job"][word], asdict(JobSpec(dialect="terms"))
    found = set()
    for words in spellings(option, value):
        spec = asdict(read_job_terms(job_terms(parsed(verb, words)), now=Instant(0)))
        assert spec[field] != plain[field]
        found.add(repr(spec))
    assert len(found) == 1


@pytest.mark.parametrize("option", TASK_VALUES)
@pytest.mark.parametrize(("program", "word"), [("job", "add"), ("task", "modify")])
def test_an_option_of_a_task_changes_what_the_task_asks_for(program: str, word: str, option: str) -> None:
    value, field = TASK_VALUES[option]
    verb, plain = PROGRAMS[program][word], asdict(read_task_terms({}))
    found = set()
    for words in spellings(option, value):
        task = asdict(read_task_terms(changed_terms(parsed(verb, words))))
        assert task[field] != plain[field]
        found.add(repr(task))
    assert len(found) == 1


def test_a_run_time_of_hours_and_minutes_means_what_it_means_in_hpc_pack() -> None:
    asked = parsed(PROGRAMS["job"]["submit"], ["/runtime:1:30", "prog"])
    assert read_job_terms(job_terms(asked)).run_time == 5400


def test_variables_of_a_job_may_be_given_one_by_one() -> None:
    asked = parsed(PROGRAMS["job"]["submit"], ["/jobenv:A=1", "/jobenv:B=2", "prog"])
    assert read_job_terms(job_terms(asked)).environment == {"A": "1", "B": "2"}


def carried_out(program: str, words: list[str]) -> tuple[Arguments | None, list[str]]:
    """Return what would be carried out, and the notes."""
    found: list[Any] = []
    notes: list[str] = []
    status = obey_as(program, words, lambda _command, asked: found.append(asked) or 0, notes.append)
    assert status == 0
    return (found[0] if found else None), notes


@pytest.mark.parametrize(
    ("program", "word", "option"),
    [
        (program, word, name)
        for program, word, verb in VERBS
        for name, one in verb.unused.items()
        if one.ignored and verb.verb
    ],
)
def test_an_option_without_effect_is_accepted_and_reported(program: str, word: str, option: str) -> None:
    value = "" if PROGRAMS[program][word].unused[option].takes == "never" else "x"
    for words in spellings(option, value):
        asked, notes = carried_out(program, [*([word] if word else []), *words, "12"])
        assert asked is not None
        assert (asked.options, asked.words) == ({}, ["12"])
        assert [note.partition(":")[0] for note in notes] == [f"option /{option} has no effect"]


@pytest.mark.parametrize(
    ("program", "word", "option"),
    [
        (program, word, name)
        for program, word, verb in VERBS
        for name, one in verb.unused.items()
        if one.refused
    ],
)
def test_an_option_that_is_refused_names_the_way_out(program: str, word: str, option: str) -> None:
    value = "" if PROGRAMS[program][word].unused[option].takes == "never" else "x"
    for words in spellings(option, value):
        with pytest.raises(BadRequest, match=f"/{option} is not supported") as refused:
            carried_out(program, [*([word] if word else []), *words, "12"])
        assert len(refused.value.fix) > 20


@pytest.mark.parametrize("word", ["setcreds", "delcreds"])
def test_credentials_are_not_needed_and_that_is_reported(word: str) -> None:
    assert carried_out("cluscfg", [word, "/user:D\\u", "/password:x"]) == (
        None,
        ["no passwords are stored: the user is known from the login"],
    )


def test_a_misspelt_verb_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadRequest, match="job has no verb 'submitt'") as refused:
        carried_out("job", ["submitt", "prog"])
    assert refused.value.fix == "did you mean: job submit"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("words", [["/?"], ["help"], ["--help"]])
def test_help_lists_every_verb(program: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert carried_out(program, words) == (None, [])
    page = capsys.readouterr().out
    assert page == help_page(program)
    assert all(f"{program} {word}".strip() in page for word in PROGRAMS[program])
