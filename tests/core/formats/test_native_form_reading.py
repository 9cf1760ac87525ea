"""A person's first file is read, and what is wrong in it is said with its place and the right word."""

import time
from contextlib import suppress
from itertools import product

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.dialects.reading import JobLanguage, locate
from headnode.core.formats.native import read_job, write_job
from headnode.core.formats.native.keys import ALTERNATIVES, JOB_KEYS, RIGHT_NAMES, TASK_KEYS, TASKS
from headnode.core.formats.text.toml_text import MAX_CHARACTERS, read_toml_or_json
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec, Licence, OrderKey, UnitType
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType

MANY = settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))


def read(text: str | bytes) -> JobSpec:
    return read_job(text)[0]


def refusal(text: str | bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read(text)
    assert caught.value.fix, str(caught.value)
    return caught.value


def test_a_sweep_takes_two_lines() -> None:
    spec = read('command = "./run *"\nsweep = "1-100"\n')
    task = TaskSpec(command="./run *", kind=TaskType.SWEEP, start=1, end=100, rerunnable=True)
    assert spec == JobSpec(tasks=(task,))
    check_job(spec)
    check_runnable(spec)


def test_a_flow_has_a_table_for_each_task() -> None:
    spec = read("""
        name = "flow"            # of the whole job
        processors = "2-8"
        licences = { solver = 2, mesher = "*" }

        [environment]
        OMP_NUM_THREADS = 4

        [[tasks]]
        name = "prepare"
        command = "./prepare"

        [[tasks]]
        command = "./solve *"
        sweep = "0-100:5"
        processors = 2
        run_time = "20m"
        depends_on = "prepare"
        [tasks.environment]
        CASE = "a"
    """)
    assert (spec.name, spec.minimum, spec.maximum, spec.environment) == (
        "flow",
        2,
        8,
        {"OMP_NUM_THREADS": "4"},
    )
    assert spec.licences == (Licence("solver", 2), Licence("mesher", None))
    first, second = spec.tasks
    assert (first.name, first.rerunnable) == ("prepare", True)
    assert (second.start, second.end, second.increment, second.minimum) == (0, 100, 5, 2)
    assert (second.run_time, second.depends_on, second.environment) == (1200, ("prepare",), {"CASE": "a"})
    check_job(spec)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('run_time = "90s"', "run_time", Seconds(90)),
        ('run_time = "1h30m"', "run_time", Seconds(5400)),
        ('run_time = "1.5 days"', "run_time", Seconds(129600)),
        ('run_time = "infinite"', "run_time", FOREVER),
        ('memory_per_node = "4 GB"', "minimum_memory", 4096),
        ('memory_per_node = "1.5gb"', "minimum_memory", 1536),
        ('memory_per_node = "*-2 TB"', "maximum_memory", 2 * 1024**2),
        ('process_memory = "500 MB"', "process_memory", 500),
        ("processors_per_node = 8", "minimum_processors_per_node", 8),
        ("processors_per_node = 8", "maximum_processors_per_node", None),
        ('processors_per_node = "8-16"', "maximum_processors_per_node", 16),
        (
            'requested_nodes = "node[1-3,7], big"',
            "requested_nodes",
            ("node1", "node2", "node3", "node7", "big"),
        ),
        ('requested_nodes = ["n[08-10]"]', "requested_nodes", ("n08", "n09", "n10")),
        ("priority = 2150", "priority", 2150),
        ('priority = "Normal+150"', "priority", 2150),
        ('valid_exit_codes = "0,10..12"', "valid_exit_codes", ((0, 0), (10, 12))),
        ('valid_exit_codes = [0, "10..12"]', "valid_exit_codes", ((0, 0), (10, 12))),
        ("valid_exit_codes = 3", "valid_exit_codes", ((3, 3),)),
        ("hold_until = 2030-01-31T18:00:00+02:00", "hold_until", Instant(1896105600)),
        ("hold_until = 2030-01-31T16:00:00", "hold_until", Instant(1896105600)),
        ("hold_until = 2030-01-31", "hold_until", Instant(1896048000)),
        ('hold_until = "2030-01-31T16:00:00Z"', "hold_until", Instant(1896105600)),
        (
            'order_by = ["memory", "-processors"]',
            "order_by",
            (OrderKey("memory"), OrderKey("processors", True)),
        ),
        ('group_order = "1 -> 2 -> 3"', "group_edges", (GroupEdge(1, 2), GroupEdge(2, 3))),
        ("parents = 12", "parents", (12,)),
        ('licences = ["f:2", "g:*"]', "licences", (Licence("f", 2), Licence("g", None))),
        ("nodes = 2", "unit", UnitType.NODE),
        ('processors = "*-8"', "maximum", 8),
        ('sockets = "*"', "minimum", None),
    ],
)
def test_values_are_written_as_people_write_them(line: str, field: str, value: object) -> None:
    assert getattr(read(line), field) == value


def test_a_size_beside_a_command_is_that_of_the_task() -> None:
    spec = read('command = "mpiexec ./solve"\nnodes = "2-4"')
    assert (spec.unit, spec.minimum, spec.tasks[0].minimum, spec.tasks[0].maximum) == (
        UnitType.NODE,
        None,
        2,
        4,
    )


def test_the_same_keys_in_braces_are_json() -> None:
    text = '{"command": "./run *", "sweep": "1-9", "hold_until": "2030-01-31T16:00:00Z"}'
    assert read(text) == read('command = "./run *"\nsweep = "1-9"\nhold_until = 2030-01-31T16:00:00Z')


@pytest.mark.parametrize(
    ("text", "code", "what", "fix"),
    [
        (
            'command = "a"\nwalltime = "1h"',
            "unknown-key",
            "line 2, column 0: job: there is no key 'walltime'",
            "'run_time'?",
        ),
        ('comand = "a"', "unknown-key", "line 1, column 0: job: there is no key 'comand'", "'command'?"),
        (
            '[[tasks]]\ncommand = "a"\n  cwd = "b"',
            "unknown-key",
            "line 3, column 2: task 1: there is",
            "'work_directory'?",
        ),
        (
            '[[tasks]]\ncommand="a"\n[[tasks]]\nemail="b"',
            "unknown-key",
            "line 4, column 0: task 2",
            "above the first",
        ),
        ('[[tasks]]\nxyzzy = "b"', "unknown-key", "line 2, column 0", "the keys are name, command"),
        ("xyzzy.a.b = 1", "unknown-key", "line 1, column 0", "the keys are name"),
        ('a = 1\n"b c" = 2', "unknown-key", "line 1, column 0", ""),
        (
            'command = "a"\n[[tasks]]\ncommand = "b"',
            "misplaced-key",
            "line 1, column 0: 'command' stands in the job",
            "below",
        ),
        ("run_time = 90", "run-time", "line 1, column 0: job: run_time: 90 has no unit", "45m"),
        (
            'name = "x"\nrun_time = "1:30"',
            "run-time",
            "line 2, column 0: job: run_time: '1:30' is not",
            "1h30m",
        ),
        ('run_time = "3 moons"', "run-time", "'moons' is not a unit of time", "90s"),
        ('memory_per_node = "4"', "memory", "'4' is not an amount of memory", "4 GB"),
        ('memory_per_node = "4 GHz"', "memory", "'GHz' is not a unit of memory", ""),
        ('memory_per_node = "1 KB"', "memory", "not a whole number of MB", ""),
        ('processors = "two"', "size", "'two' is not a number", "2-8"),
        ('command = "a"\nprocessors = "*"', "size", "line 2, column 0: job: processors gives no size", "4"),
        ('[[tasks]]\nnodes = "*-2"', "size", "line 2, column 0: task 1: nodes gives no size", ""),
        ("processors = 1\nnodes = 1", "unit-mismatch", "line 1, column 0: job: processors beside nodes", ""),
        (
            "nodes = 1\n[[tasks]]\nprocessors = 1",
            "unit-mismatch",
            "line 3, column 0: task 1: processors beside nodes",
            "",
        ),
        ('requested_nodes = "n[1-"', "nodes", "has a stray '['", "node[3-5,8]"),
        ('requested_nodes = "n[3-1]"', "nodes", "range '3-1'", ""),
        ('requested_nodes = "n[1-99999]m[1-99999]"', "nodes", "more than 100000 nodes", ""),
        ('requested_nodes = "n[a]"', "nodes", "'a' in 'n[a]' is not a number", ""),
        ('sweep = "1..9"', "sweep", "'1..9' is not a range", "1-100"),
        ('type = "swep"', "type-of-task", "'swep' is not a valid type of task", "did you mean 'sweep'?"),
        (
            'node_group_op = "any"',
            "way-to-combine-node-groups",
            "'any' is not a valid way",
            "intersect, union",
        ),
        ("exclusive = 1", "value", "1 is not true or false", "without quotes"),
        ("name = 7", "value", "name: 7 is not text", "double quotes"),
        ('environment = "A=1"', "value", "'A=1' is not names with texts", "[header]"),
        (
            "[environment]\nA = 1.5",
            "value",
            "line 2, column 0: job: environment: the value of 'A', 1.5, is not text",
            "in double quotes",
        ),
        (
            "licences = { f = 1.5 }",
            "licence",
            "column 13: job: licences: the value of 'f', 1.5, is not a number",
            "",
        ),
        ('hold_until = "soon"', "date-time", "'soon' is not a date", ""),
        ("hold_until = 10:00:00", "date-time", "10:00:00 is not a date and time", "2030-01-31T18"),
        ('group_order = "1, 2"', "group-order", "'1, 2' is not an order", "1 -> 2"),
        ('priority = "high"', "priority", "priority 'high'", ""),
        ("tasks = 3", "value", "tasks is 3, not a list", "[[tasks]]"),
        ("tasks = [3]", "value", "line 1, column 9: task 1 is 3, not a table", ""),
        ("command = ./run", "not-toml", "line 1, column 10: not TOML: invalid value", "double quotes"),
        ('command = "a"\ncommand = "b"', "not-toml", "a key is given twice", "write it once"),
        ('command = "a', "not-toml", "not TOML: unterminated string", ""),
        ("a = [1, 2", "not-toml", "line 1, column 9: not TOML: unclosed array", ""),
        ('{"command": "a"\n "sweep": 1}', "not-json", "line 2, column 1: not JSON: expected ','", ""),
        (
            '{"command": "a",\n "swep": 1}',
            "unknown-key",
            "line 2, column 1: job: there is no key 'swep'",
            "'sweep'?",
        ),
        (b'name = "\xff"', "encoding", "line 1, column 8: byte 0xff is not UTF-8", ""),
        ("a" + ".a" * 5000 + " = 1", "too-deep", "line 1, column 0: a key of more than 64 parts", ""),
        ("a = " + "[" * 90 + "]" * 90, "too-deep", "too many brackets", ""),
        ("a = " + "[" * 90_000, "too-deep", "too many brackets", ""),
        ("a = " + "9" * 5000, "not-toml", "a value that is out of range", ""),
        ("#" * (MAX_CHARACTERS + 1), "too-large", "more than the 4000000", ""),
    ],
    ids=range(49),
)
def test_what_is_wrong_is_named_with_its_place(text: str | bytes, code: str, what: str, fix: str) -> None:
    no = refusal(text)
    assert (no.code, what in no.what, fix in no.fix) == (code, True, True), str(no)
    assert len(str(no)) < 900


def test_every_word_of_another_system_leads_to_a_key() -> None:
    keys = {*JOB_KEYS, *TASK_KEYS, TASKS, ALTERNATIVES}
    assert set(RIGHT_NAMES.values()) <= keys
    assert not set(RIGHT_NAMES) & keys


PLACES = """\
top = 1
[a.b]   # a table
"c d" = [ {x = 1}, [2,
  3] ] # text = 4
e.f = '''
g = 5 ]
'''
h = "\\" = 1"
i = 1979-05-27 07:32:00
[[t]]
k = 1
[[t.u]]
l = 2
[[t]]
[t.v]
m = { n = { o = "}" }, p = [] }
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("top",), 1, 0),
        (("a",), 2, 0),
        (("a", "b", "c d"), 3, 0),
        (("a", "b", "c d", 0, "x"), 3, 11),
        (("a", "b", "c d", 1, 1), 4, 2),
        (("a", "b", "e", "f"), 5, 0),
        (("a", "b", "h"), 8, 0),
        (("a", "b", "i"), 9, 0),
        (("t", 0, "k"), 11, 0),
        (("t", 0, "u", 0, "l"), 13, 0),
        (("t", 1), 14, 0),
        (("t", 1, "v", "m", "n", "o"), 16, 12),
        (("t", 1, "v", "m", "p"), 16, 23),
        (("t", 1, "nowhere"), 14, 0),
        (("nowhere",), 1, 0),
    ],
)
def test_every_key_of_a_toml_text_has_its_place(path: tuple[str | int, ...], line: int, column: int) -> None:
    assert tuple(read_toml_or_json(PLACES).place_of(path)) == (line, column)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_text_of_lines_ends_where_it_ends_whatever_quotes_are_in_it(quotes: str) -> None:
    texts = map("".join, product(quotes[0] + "\\n\n", repeat=5))
    whole = [f"a = {quotes}{text}{quotes}\nb = 1\n" for text in texts]
    read = [text for text in whole if _is_toml(text)]
    assert len(read) > 200
    for text in read:
        assert tuple(read_toml_or_json(text).place_of(("b",))) == (text.count("\n"), 0), text


def _is_toml(text: str) -> bool:
    try:
        return msgspec.toml.decode(text).get("b") == 1
    except msgspec.DecodeError:
        return False


def test_a_refusal_that_came_later_gets_its_place() -> None:
    text = 'name = "a"\n[[tasks]]\ncommand = "a"\n[[tasks]]\nname = "b"\n'
    with pytest.raises(BadRequest) as caught:
        check_runnable(read(text))
    found = locate(text, JobLanguage.NATIVE, caught.value)
    assert found.what == "line 4, column 0: task 2 ('b') has no command line"
    late = BadRequest(code="x", what="too much", fix="f")
    assert locate(text, JobLanguage.NATIVE, late).what == "line 1, column 0: too much"
    placed = refusal("nmae = 1")
    assert locate("nmae = 1", JobLanguage.NATIVE, placed) is placed


def read_or_refuse(data: bytes | str) -> None:
    try:
        spec = read(data)
    except BadRequest:
        return
    assert read(write_job(spec)[0]) == spec


keys = st.sampled_from([*JOB_KEYS, *TASK_KEYS, TASKS, "strange", "a.b"])
values = st.sampled_from(
    [
        '"1-9"',
        "3",
        "true",
        '"1h"',
        '"2 GB"',
        "[]",
        "{}",
        "[1]",
        '["a"]',
        "{a = 1}",
        "1e9",
        "nan",
        "inf",
        "2030-01-01",
    ]
)
lines = st.builds(lambda key, value: f"{key} = {value}", keys, values)


@given(
    st.lists(lines | st.sampled_from(["[[tasks]]", "[environment]", "[tasks.environment]", "]"]), max_size=6)
)
@MANY
def test_any_lines_are_read_or_refused(found: list[str]) -> None:
    read_or_refuse("\n".join(found))


@given(st.binary(max_size=30) | st.text("[]{}=.\"'#\\\n a1-:,Z\x00\ud800", max_size=30))
@MANY
def test_any_text_is_read_or_refused(text: bytes | str) -> None:
    read_or_refuse(text)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 500_000 + "b = 1",
        "a = {" + "b = {" * 100_000,
        "[[tasks]]\ncommand = 'a'\n" * 20_000,
        'a = "' + "\\" * 1_000_000,
        "a = '''" + "'" * 500_000,
        'a = """' + '"\n' * 500_000,
        "#\n" * 1_000_000,
        "[" * 1_000_000,
        "requested_nodes = '" + "n[1-99]," * 100_000 + "'",
        "requested_nodes = '" + "[1-9]" * 100_000 + "'",
        "run_time = '" + "1h" * 500_000 + "'",
        "sweep = '" + "1-" * 500_000 + "'",
        "\n".join(f"k{number} = 1" for number in range(50_000)),
    ],
    ids=range(13),
)
def test_no_text_is_slow_to_refuse_or_read(text: str) -> None:
    begun = time.process_time()
    with suppress(BadRequest):
        read(text)
    assert time.process_time() - begun < 8
