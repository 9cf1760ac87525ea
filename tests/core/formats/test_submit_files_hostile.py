"""No submit file crashes its reader or takes unbounded work, and words come back as they were written."""

import contextlib
import re
import shlex
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.evaluation import calculated
from headnode.core.formats.condor.expressions import linear, parse, whole_number
from headnode.core.formats.condor.flows import files_of_flow, read_flow
from headnode.core.formats.condor.reading import items_named, read_submit
from headnode.core.formats.condor.requirements import spelled
from headnode.core.formats.condor.words import read_arguments, written_words
from headnode.core.formats.condor.writing import write_submit
from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.grid.command_lines import join
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import ScriptOrigin, TaskSpec, TaskType, argv_of, substitute

MANY = settings(max_examples=share_of(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
ORIGIN = ScriptOrigin(words=("x.sub",), directory="/w", environment={"A": "b"})
_PIECES = (
    "executable arguments environment output queue in from matching files ( ) [ ] : , = == != "
    "&& || ! "
    "$ $( $$( $(Process) $(Cluster) $(Step) $(Item) $(x:y) $INT( $ENV(A) $F( $CHOICE( $Fn(x) "
    "@=e @e \\ \" ' '' "
    "# + MY. requirements rank Memory Machine regexp stringListMember true false undefined 3 0 -1 1e9 "
    "YES a.b /x "
    "99999999999999999999 request_cpus request_memory request_gpus universe parallel machine_count "
    "max_retries on_exit_remove NumJobStarts ExitCode periodic_remove time() transfer_input_files "
    "transfer_output_files should_transfer_files include if elif else endif defined version error "
    "warning * ^ % %A% \n \t \r\n \ud7ff é {} ;"
)
PIECES = st.sampled_from(re.split(" ", _PIECES))
LINES = st.lists(st.lists(PIECES, max_size=6).map(" ".join), max_size=12).map("\n".join)
NODES = st.lists(
    st.lists(
        st.sampled_from(
            [
                "JOB",
                "PARENT",
                "CHILD",
                "VARS",
                "RETRY",
                "PRIORITY",
                "A",
                "B",
                "a.sub",
                "{",
                "}",
                "DIR",
                "DONE",
                "ALL_NODES",
                'x="1"',
                '"',
                "3",
                "SCRIPT",
                "DOT",
                "#",
                "\\",
            ]
        ),
        max_size=6,
    ).map(" ".join),
    max_size=12,
).map("\n".join)
WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=12))


@given(st.one_of(LINES, LINES.map(lambda text: f"executable = a\n{text}\nqueue 2\n"), st.text(max_size=200)))
@MANY
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    items_named(text, ORIGIN)
    with contextlib.suppress(BadRequest):
        read_submit(text, ORIGIN, {"a.b": b"x y\nz"})


@given(st.one_of(NODES, LINES).map(lambda text: f"JOB A a.sub\n{text}\n"))
@MANY
def test_any_flow_is_read_or_refused_with_its_place(text: str) -> None:
    files = {"a.sub": b"executable = a\nqueue 2 x from b\n", "b": b"1\n2"}
    named = files_of_flow(text, files, ORIGIN)  # the text may have more nodes, with files of their own
    assert not named or {"a.sub", "b"} <= set(named)
    with contextlib.suppress(BadRequest):
        read_flow(text, ORIGIN, files, awareness=Awareness.WARN)


@given(WORDS)
@MANY
def test_arguments_come_back_from_the_new_syntax(words: list[str]) -> None:
    place = OptionPlace(SourceText(""), 0, "arguments", [])
    assert read_arguments(place, written_words(words)) == words


@given(st.lists(st.text("a* ^%A$(Process)'\"\\;é", max_size=12), min_size=1, max_size=4), st.booleans())
@MANY
def test_a_command_line_runs_the_same_words_when_it_is_read_again(words: list[str], swept: bool) -> None:
    command = join(["/bin/x", *words])
    if swept:
        command = "".join(f"^{letter}" if letter in "*^" else letter for letter in command) + " ***"
    kind = {"kind": TaskType.SWEEP, "start": 3, "end": 9, "increment": 2} if swept else {}
    text, _ = write_submit(JobSpec(tasks=(TaskSpec(command=command, **kind),)))
    ((found,), _) = read_submit(text, ORIGIN)
    again = found.tasks[0]
    if swept:
        assert (again.kind, again.start, again.end, again.increment) == (TaskType.SWEEP, 3, 9, 2)
        command, again_command = substitute(command, 5), substitute(again.command, 5)
    else:
        again_command = again.command
    assert argv_of(again_command) == argv_of(command)
    assert shlex.split(again_command)[1:-1] == (words if swept else words[:-1])


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9), st.sampled_from("+-*"))
def test_numbers_are_calculated_as_everywhere(one: int, two: int, three: int, mark: str) -> None:
    text = f"({one}) {mark} ({two} * {three}) - 1"
    assert whole_number(text) == eval(text)
    line = linear(f"(n {mark} ({two})) * ({three})", "n")
    assert line is not None
    assert line[0] * 7 + line[1] == eval(f"(7 {mark} ({two})) * ({three})")


@pytest.mark.parametrize(
    "text", ['a && (b || c) && Machine == "x\\"y"', "!(a == b)", "f(a, 1, true) >= 2", "a - b - c"]
)
def test_an_expression_is_the_same_after_it_was_written(text: str) -> None:
    found = parse(text)
    assert spelled(parse(spelled(found))) == spelled(found)


def doubled(macros: int) -> str:
    """Return macros of which each has the next twice."""
    return "".join(f"a{n} = $(a{n + 1})$(a{n + 1})\n" for n in range(macros))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            doubled(40) + "a40 = x\narguments = $(a0)",
            "macro",
        ),
        (
            doubled(31) + "a31 =\narguments = $(a0)",
            "too-large",
        ),
        ("a = x\n" + "a = $(a)$(a)\n" * 60, "macro"),
        (
            "a = $(a1)\n" + "".join(f"a{n} = $(a{n + 1})\n" for n in range(1, 99)) + "arguments = $(a)",
            "macro",
        ),
        ("arguments = " + "$(" * 60_000, "macro"),
        ("arguments = " + "x" * 200_000, "macro"),
        ("arguments = " + "x " * 50_000 + "\nenvironment = N=$(Process)\nqueue 20000", "too-large"),
        ("environment = N=$(Process)\nqueue 20001", "too-many-tasks"),
        ("queue 1000000000000000000000", "queue"),
        ("queue 1000001", "too-many-tasks"),
        ("queue 0\n" * 20_001, "too-many-tasks"),
        ("request_memory = $(Process)\nqueue 1001", "too-many-jobs"),
        ("if true\n" * 31, "condition"),
        ("requirements = " + "(" * 31 + "a" + ")" * 31, "not-supported"),
        ("requirements = " + " && ".join(["a"] * 300), "not-supported"),
    ],
)
def test_a_file_that_expands_to_too_much_is_refused(text: str, code: str) -> None:
    with pytest.raises(BadRequest) as no:
        read_submit(f"executable = a\n{text}\nqueue\n", ORIGIN)
    assert no.value.code == code


SPACES = " " * 100_000


@pytest.mark.parametrize(
    "line",
    [f"queue {SPACES};", f"queue x in [:{SPACES}! (a b)", f"queue x matching files [1{SPACES}! *"],
    ids=["queue", "slice", "slice-of-files"],
)
def test_spaces_of_a_queue_command_do_not_hold_the_head(line: str) -> None:
    """They were tried in all ways: the square of their number."""
    begun = time.process_time()
    with contextlib.suppress(BadRequest):
        read_submit(f"executable = a\n{line}\n", ORIGIN)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("text", ["a" * 100_000, "a." * 50_000 + "!", f'a="b"{SPACES}!', f"a{SPACES}="])
def test_variables_of_a_node_that_are_none_do_not_hold_the_head(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(BadRequest) as no:
        read_flow(f"JOB A a.sub\nVARS A {text}\n", ORIGIN, {}, awareness=Awareness.IGNORE)
    assert no.value.code == "flow"
    assert time.process_time() - begun < 5


def test_attributes_that_use_each_other_many_times_are_calculated_once_each() -> None:
    asked: list[str] = []
    texts = {f"a{level}": "+".join([f"a{level + 1}"] * 200) for level in range(4)} | {"a4": "1"}

    def expression(name: str) -> str | None:
        asked.append(name)
        return texts.get(name)

    assert calculated("a1", expression) == str(200**3)
    assert asked == [f"a{level}" for level in range(1, 5)]


@pytest.mark.parametrize(
    "text",
    ['regexp("(a+)+$", "aaaa")', 'size(strcat("a", "b"))', "*".join(["1000000"] * 100), "x", "int(1e400)"],
)
def test_what_is_no_number_of_64_bits_is_not_calculated(text: str) -> None:
    assert calculated(text, {"x": "x + 1"}.get) == text


def test_a_million_processes_that_differ_by_their_number_alone_are_one_task() -> None:
    ((found,), _) = read_submit("executable = a\narguments = $(Process)\nqueue 1000000\n", ORIGIN)
    assert [task.instances for task in found.tasks] == [1_000_000]
