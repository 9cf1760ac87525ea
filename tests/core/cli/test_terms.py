"""The options that describe jobs and tasks are those the head reads, with the same meaning."""

import pytest

from headnode.apps.cli.commands import job_edit, job_submit
from headnode.apps.cli.options import CliOption, read_arguments
from headnode.apps.cli.terms import (
    JOB_OPTIONS,
    TASK_OPTIONS,
    environment,
    job_terms,
    only_task_terms,
    task_terms,
)
from headnode.apps.client.submitter import command_line
from headnode.core.formats.slash_terms import JOB_TERMS, TASK_TERMS, SlashOption, read_terms, split_terms
from headnode.core.model.errors import BadRequest

SENT_APART = {"command"}  # the program is typed, not given as an option


def spelt(options: tuple[CliOption, ...]) -> dict[str, tuple[str, bool]]:
    return {name: (option.name, not option.value) for option in options for name in option.spellings}


def meant(terms: dict[str, SlashOption]) -> dict[str, tuple[str, bool]]:
    return {name: (term.same_as or name, term.flag) for name, term in terms.items()}


def test_job_options_are_the_terms_the_head_reads() -> None:
    assert spelt(JOB_OPTIONS) == meant(JOB_TERMS)


def test_task_options_are_the_terms_the_head_reads() -> None:
    wanted = {name: meaning for name, meaning in meant(TASK_TERMS).items() if name not in SENT_APART}
    assert spelt(TASK_OPTIONS) == wanted


def test_a_job_of_one_task_is_divided_as_the_head_would() -> None:
    typed = {"numprocessors": "2-4", "runtime": "5", "exclusive": "true", "stdout": "o", "depend": "a"}
    asked = read_arguments([f"/{name}:{value}" for name, value in typed.items()], job_submit.OPTIONS, 0)
    job, task = split_terms(dict(typed))
    mine = only_task_terms(asked, ["x"])
    assert (job_terms(asked), mine) == (job, {**task, "command": "x"})


def test_the_instances_of_a_sweep_take_one_processor_each() -> None:
    asked = read_arguments(["/numprocessors:8", "/parametric:1-100"], job_submit.OPTIONS, 0)
    spec = read_terms(job_terms(asked), [only_task_terms(asked, ["echo", "*"])], None, now=None)
    assert (spec.minimum, spec.maximum, spec.tasks[0].minimum, spec.tasks[0].maximum) == (8, 8, 1, 1)
    assert (spec.tasks[0].instances, spec.tasks[0].command) == (100, "echo '*'")


def test_a_size_to_be_calculated_stays_with_the_job() -> None:
    asked = read_arguments(["/numcores:*"], job_submit.OPTIONS, 0)
    assert only_task_terms(asked, ["x"]) == {"command": "x"}
    assert job_terms(asked) == {"numprocessors": "*"}


def test_an_added_task_keeps_its_own_name_and_environment() -> None:
    words = ["12", "/name:merge", "/env:A=1;B=2", "/env:C=3", "/depend:a,b", "sh", "-c", "echo $A"]
    asked = read_arguments(words, job_edit.COMMANDS[0].options, 1)
    assert task_terms(asked, asked.words[1:]) == {
        "name": "merge",
        "depend": "a,b",
        "command": "sh -c 'echo $A'",
        "env": {"A": "1", "B": "2", "C": "3"},
    }


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["echo a  b"], "echo a  b"),
        (["echo", "a  b"], "echo 'a  b'"),
        (["prog", "", "it's"], "prog '' 'it'\"'\"'s'"),
        (["prog", "*", "%CCP_JOBID%", "/x:y", "a=b"], "prog '*' %CCP_JOBID% /x:y a=b"),
        (["prog", "$HOME", "a;b", "~", "ä"], "prog '$HOME' 'a;b' '~' 'ä'"),
    ],
)
def test_a_program_gets_its_arguments_as_they_were_typed(words: list[str], line: str) -> None:
    assert command_line(words) == line


def test_a_semicolon_in_a_variable_without_a_name_behind_it_is_part_of_the_value() -> None:
    assert environment(["PATHS=/a;/b;X=1=2"], {}) == {"PATHS": "/a;/b", "X": "1=2"}


def test_a_name_alone_takes_the_value_that_the_submitter_has() -> None:
    mine = {"PATH": "/v/bin:/bin", "EMPTY": ""}
    assert environment(["PATH", "EMPTY;A=1"], mine) == {"PATH": "/v/bin:/bin", "EMPTY": "", "A": "1"}
    with pytest.raises(BadRequest, match="variable 'LOST' is not set in your shell"):
        environment(["LOST"], mine)


@pytest.mark.parametrize("wrong", ["", "=x", "A=1;=2", ";A=1"])
def test_a_variable_without_a_name_is_refused(wrong: str) -> None:
    with pytest.raises(BadRequest, match="environment"):
        environment([wrong], {})
