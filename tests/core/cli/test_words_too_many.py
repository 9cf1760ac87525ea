"""A word that a command does not take, or a value that it cannot read, is refused with what to type.

The refusal names the option as it was typed.
"""

import io
import time
from pathlib import Path

import pytest

from headnode.apps.cli.__main__ import obey
from headnode.apps.cli.arguments import tasks_named
from headnode.apps.cli.catalogue import every_command
from headnode.apps.cli.commands.job_submit import OPTIONS
from headnode.apps.cli.commands.node import MAX_NODES, names_of
from headnode.apps.cli.options import read_arguments
from headnode.apps.cli.typed_options import name_typed_options
from headnode.core.model.errors import BadRequest, HeadnodeError

WORDLESS = [(noun, command.verb) for noun, command in every_command() if not command.words]


def test_some_commands_take_no_words() -> None:
    assert {("", "down"), ("node", "list"), ("cluster", "view")} <= set(WORDLESS)


@pytest.mark.parametrize(("noun", "verb"), WORDLESS)
def test_a_command_without_words_refuses_a_word_and_does_nothing(noun: str, verb: str) -> None:
    with pytest.raises(BadRequest) as refused:
        obey([*filter(None, (noun, verb)), "node03"])
    assert refused.value.code == "usage"
    assert refused.value.what == "'node03' is not understood"
    assert refused.value.fix


def test_hn_down_with_a_word_says_what_closes_a_node_and_cancels_a_job() -> None:
    with pytest.raises(BadRequest, match="hn node drain NODE; to cancel a job: hn job cancel ID"):
        obey(["down", "node03"])


def test_the_head_may_be_named_before_the_command() -> None:
    for words in (["--scheduler", "nowhere.example"], ["--scheduler=nowhere.example"]):
        with pytest.raises(HeadnodeError, match=r"nowhere\.example"):
            obey([*words, "job", "list"])


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("job list --since last-week", "or 90m, 1h, 2d or 1w for a time before now"),
        ("job submit --holduntil tonight true", "or 2h, or 120, for two hours from now"),
        (
            "reservation new course --nodes n1 --from tonight --for 1h",
            "or 2h, or 120, for two hours from now",
        ),
        ("job cancel 191.1", "give the id of its job, 191"),
        ("job view 191.1.7", "give the id of its job, 191"),
        ("standby join 192.0.2.1/x", "that `hn standby invite` printed"),
        ("agent --join 192.0.2.1/x", "that `hn node invite` printed"),
    ],
)
def test_what_is_typed_wrongly_says_every_form_that_is_taken(
    words: str, fix: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADNODE_STATE", str(tmp_path))
    with pytest.raises((HeadnodeError, SystemExit)) as refused:
        obey(words.split())
    message = refused.value.fix if isinstance(refused.value, HeadnodeError) else capfd.readouterr().err
    assert fix in message


def test_a_list_without_links_is_an_empty_list_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert obey(["compat", "list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_range_of_instances_is_each_of_them() -> None:
    assert tasks_named(["12.3.5-7", "12.1", "4.1-2"]) == [
        *("12.3.5", "12.3.6", "12.3.7"), "12.1", *("4.1", "4.2"),
    ]  # fmt: skip
    assert tasks_named(["12"]) == ["12"]
    for wrong in ("12.1.7-5", "12.1.1-9999999", "12.1.a-b", "12.1.-3"):
        with pytest.raises(BadRequest):
            tasks_named([wrong])


@pytest.mark.parametrize(
    "nodes",
    [
        "n[1-99999999]",
        "n[1-99999999999]",
        f"n[1-{'9' * 5000}]",
        "n[1-9999]x[1-9999]!n1x1",
        "n[1-99999999]!n[1-99999998]",
        f"n[{'1-99999,' * 2000}1]",
    ],
)
def test_a_set_of_too_many_nodes_is_refused_before_its_names_fill_the_memory(nodes: str) -> None:
    begin = time.process_time()
    with pytest.raises(BadRequest, match=f"more than {MAX_NODES} nodes"):
        names_of([nodes])
    assert time.process_time() - begin < 2
    assert len(names_of(["n[1-50000],m[00001-49999]!n7"])) == 99_998


def test_a_standby_reads_its_invitation_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADNODE_STATE", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("hn standby join 192.0.2.1/part\n"))
    with pytest.raises(BadRequest, match=r"'192\.0\.2\.1/part' is not an invitation"):
        obey(["standby", "join", "-"])


@pytest.mark.parametrize("names", ["", ",", "n[1-3]!n[1-3]"])
def test_an_invitation_for_no_node_is_not_one_for_any_machine(names: str) -> None:
    with pytest.raises(BadRequest, match="names no node"):
        obey(["node", "invite", "--approve", "--for", names])


@pytest.mark.parametrize(
    ("typed", "what", "path", "text"),
    [
        ("--deadline soon", "option 'endby': 'soon' is no date", ("endby",), "option '--deadline': 'soon'"),
        ("-t x", "option 'runtime': 'x' is no time", ("runtime",), "option '-t': 'x' is no time"),
        ("-n4-2", "the maximum 2 is below 4", ("maximum",), "option '-n': the maximum 2"),
        ("--num-cores=4-2", "the maximum 2 is below 4", ("maximum",), "option '--num-cores': the maximum 2"),
        ("/projectname:p", "project has 1 letter", ("project",), "option '/projectname': project has"),
        ("--feature x", "there is no x", ("needs", "features", 0), "option '--feature': there is no x"),
        ("-o f", "standard_output is long", ("tasks", 0, "standard_output"), "option '-o': standard_output"),
        ("--runtime x", "option 'runtime': 'x' is no time", ("runtime",), "option 'runtime': 'x'"),
        ("-N 1 -n 2", "options 'numprocessors' and 'numnodes' are given", (), "options '-n' and '-N' are"),
        ("--runtime 1m", "the job can never run", (), "the job can never run"),
        ("--runtime 1m", "project has 1 letter", ("project",), "project has 1 letter"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(
    typed: str, what: str, path: tuple[str | int, ...], text: str
) -> None:
    error = BadRequest(code="x", what=what, path=path)
    name_typed_options(error, read_arguments(typed.split(), OPTIONS))
    assert error.what.startswith(text)
