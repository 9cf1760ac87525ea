"""Every parser that `make fuzz` fuzzes, for a moment: only refusals come out, and soon."""

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats import dialects
from headnode.core.formats.fidelity import MAX_REPORT_ITEMS
from headnode.core.formats.hpc_values import parse_seconds
from headnode.core.formats.text.source_text import BASE, TIMES
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType

MAX_SECONDS = 5.0


def fuzzed() -> ModuleType:
    path = Path(__file__).parents[3] / "fuzz" / "parsers.py"
    spec = importlib.util.spec_from_file_location("fuzzed_parsers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZED = fuzzed()
WORDS = st.sampled_from(sorted(set(FUZZED.words()))).map(str.encode)
MARKS = st.sampled_from(
    [
        *(
            b"<",
            b">",
            b"</",
            b"/>",
            b"=",
            b'"',
            b"'",
            b"{}",
            b"[",
            b"]",
            b",",
            b":",
            b";",
            b"\\u",
            b"\n",
            b"#",
        ),
        *(b"&", b"&#0;", b"<!--", b"]]>", b"<!DOCTYPE", b"1", b"-1", b"1e999", b"9" * 19, b"\0", b"\x1e"),
    ]
)
STRANGE = st.sampled_from(["\u202e", "\ufeff", "\ud800", "\x00", "\U0001f600", "\u2028"]).map(
    lambda one: one.encode(errors="surrogatepass")
)
PIECES = WORDS | MARKS | STRANGE | st.binary(max_size=6)


@pytest.mark.parametrize("name", FUZZED.PARSERS)
@given(st.data())
@settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_parser_refuses_what_it_does_not_read(name: str, data: st.DataObject) -> None:
    texts = [text for text in FUZZED.seeds(name) if len(text) < 20_000]
    text = bytearray(data.draw(st.sampled_from(texts) if texts else st.just(b"")))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 12))] = b"".join(data.draw(st.lists(PIECES, max_size=4)))
    begun = time.process_time()
    FUZZED.PARSERS[name](bytes(text))
    assert time.process_time() - begun < MAX_SECONDS


@pytest.mark.parametrize("name", FUZZED.PARSERS)
@given(st.lists(PIECES, max_size=30).map(b"".join))
@settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_parser_refuses_what_is_nothing_at_all(name: str, text: bytes) -> None:
    FUZZED.PARSERS[name](text)


@pytest.mark.parametrize(
    ("start", "unit", "end", "each"),
    [
        ("<Job>", "<X/>", "</Job>", 700),
        ("<Job><Tasks>", "<Task/>", "</Tasks></Job>", 1600),
        ("<JobGroup><Id>1</Id>", "<X/>", "</JobGroup>", 700),
        ('{"version": 2, "tasks": [', "[],", "[]]}", 150),
        ('{"version": 2, "tasks": [', "{},", "{}]}", 350),
        ("a = [", "1,", "1]", 200),
        ("", "[[tasks]]\n", "", 1800),
    ],
)
def test_a_text_holds_no_more_small_things_than_there_is_room_for(
    start: str, unit: str, end: str, each: int
) -> None:
    number = BASE // (each - TIMES * len(unit)) * 2
    with pytest.raises(
        BadRequest, match=r"the text of \d+ bytes contains \d+ [a-z ]+; a text of that size"
    ) as wrong:
        dialects.read(start + unit * number + end)
    assert wrong.value.code == "too-large"


@pytest.mark.parametrize("text", ["<Job>" + "<X/>" * 2500 + "</Job>", "<Job><Id>1</Id>{}</Job>"])
def test_a_report_lists_its_first_findings_and_counts_the_others(text: str) -> None:
    report = dialects.read(text.replace("{}", "".join(f"<X{number}/>" for number in range(2500)))).report
    listed = [item for item in report if item.line]
    more = [item for item in report if "more of this kind" in item.what]
    assert len(listed) == MAX_REPORT_ITEMS
    assert sum(int(item.what.split()[0]) for item in more) == 2500 - MAX_REPORT_ITEMS


def test_an_element_has_no_more_attributes_than_can_be_looked_at() -> None:
    many = " ".join(f"a{number}=''" for number in range(20_000))
    with pytest.raises(BadRequest, match="an element has 20000 attributes"):
        dialects.read(f"<Job {many}/>")


def test_a_number_of_thousands_of_digits_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadRequest, match="a number of thousands of digits"):
        dialects.read("priority = " + "9" * 100_000)


def test_many_features_of_a_script_are_read_soon() -> None:
    """The head reads options: 65,536 characters of them are promised to take half a second."""
    begun = time.process_time()
    dialects.read("#!/bin/sh\n#SBATCH --gres=" + "a," * 32_700 + "\nrun\n")
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("blank", ["\x1c", "\x1e", "\x85", "\u2003"])
def test_every_blank_around_a_run_time_is_none_of_it(blank: str) -> None:
    assert parse_seconds(f"{blank}1{blank}") == 1.0


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(tasks=(TaskSpec(command="a", name="a b", kind=TaskType.SWEEP, start=1, end=10_000),)),
        JobSpec(tasks=tuple(TaskSpec(command="a", name="same") for _ in range(10_000))),
    ],
    ids=["sweep", "tasks of one name"],
)
def test_many_ids_for_the_grid_are_found_soon(spec: JobSpec) -> None:
    begun = time.process_time()
    text, _ = dialects.write(spec, "grid")
    assert time.process_time() - begun < MAX_SECONDS
    assert len({task.name for task in dialects.read(text).only_job().tasks}) == 10_000
