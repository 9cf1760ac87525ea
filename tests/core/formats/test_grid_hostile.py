"""Whatever comes as JSON, only a refusal comes out, soon, and with its place."""

import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.dialects.reading import JobLanguage, locate
from headnode.core.formats.grid import GridOptions, read_job, write_job
from headnode.core.formats.text.json_text import MAX_DEPTH, read_json
from headnode.core.formats.text.source_text import MAX_BYTES
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.staging import StorageBase, is_url, resolve
from headnode.core.model.task import TaskSpec

from . import grid_documents as documents

MANY = settings(max_examples=share_of(60), deadline=None, suppress_health_check=list(HealthCheck))


def read_or_refuse(data: bytes | str, *, lenient: bool = False) -> None:
    """Read; what is read must also be checkable, writable and the same when it is read again."""
    try:
        spec, _ = read_job(data, GridOptions(lenient=lenient, variables={"a": "b"}))
    except BadRequest:
        return
    for question in (check_job,):
        try:
            question(spec)
        except BadRequest as wrong:
            locate(data, JobLanguage.GRID, wrong)
    assert read_job(write_job(spec, spec.dialect)[0])[0] == spec


KEYS = """
    version tasks id definition executable arguments count children groups requirements hostname meta
"""
keys = st.sampled_from(KEYS.split())
trees = st.recursive(
    st.sampled_from([2, 1, -1, True, None, "a", "", "/b", 1.5, 10**30]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=15,
)


@given(trees, st.booleans())
@MANY
def test_any_tree_is_read_or_refused(tree: object, lenient: bool) -> None:
    read_or_refuse(json.dumps(tree), lenient=lenient)
    read_or_refuse(json.dumps({"version": 2, "executable": "/x", "tasks": [tree]}), lenient=lenient)
    read_or_refuse(json.dumps({"version": 2, "tasks": [{"id": "a", "definition": tree}]}), lenient=lenient)


@given(st.binary(max_size=40) | st.text('{}[]",:\\u\n 0129eE.-+truefalsn\ud800\x00', max_size=30))
@MANY
def test_any_text_is_read_or_refused(text: bytes | str) -> None:
    read_or_refuse(text)


@given(st.data())
@MANY
def test_a_description_with_one_part_changed_is_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(json.dumps(data.draw(documents.jobs())).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
    read_or_refuse(bytes(text))


@given(trees)
@MANY
def test_every_value_of_a_text_has_its_place(tree: object) -> None:
    text = json.dumps({"x": [tree]}, indent=1, ensure_ascii=False)
    found = read_json(text)
    lines = text.split("\n")

    def look(value: object, path: tuple[str | int, ...]) -> None:
        place = found.place_of(path)
        rest = "\n".join([lines[place.line - 1][place.column :], *lines[place.line :]])
        if path and isinstance(path[-1], str):
            assert rest.startswith(json.dumps(path[-1], ensure_ascii=False) + ": ")
        else:
            assert json.JSONDecoder().raw_decode(rest)[0] == value
        inside = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for step, part in inside:
            look(part, (*path, step))

    look(found.value, ())


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("", "not-json", "line 1, column 0: the file is empty"),
        (
            '{"version": 2,\n "version": 2}',
            "given-twice",
            "line 2, column 1: 'version' is given twice",
        ),
        (
            '{"a": {"b": 1, "\\u0062": 2}}',
            "given-twice",
            "line 1, column 15: 'b' is given twice",
        ),
        (
            '{"version": 2,\n "count": NaN}',
            "not-json",
            "line 2, column 10: not JSON: 'NaN' is not possible",
        ),
        ('{"count": -Infinity}', "not-json", "line 1, column 1"),
        ('{"count": 1e999}', "number", "line 1, column 10: number '1e999' is too large"),
        ('{"count": ' + "9" * 5000 + "}", "number", "line 1, column 10: number '99999"),
        ("[" * 100_000, "too-deep", f"line 1, column {MAX_DEPTH}: more than {MAX_DEPTH} levels"),
        ("[" * 70 + "]" * 70, "too-deep", "line 1, column 64"),
        ('{"a":' * 90_000, "too-deep", "levels of nesting"),
        (b'{"a": "\xff"}', "encoding", "line 1, column 7: byte 0xff is not UTF-8"),
        ('{"a": "\\ud800"}', "encoding", "line 1, column 7: \\ud800 is half of a surrogate pair"),
        ('{"a": "\ud800"}', "encoding", "line 1, column 7: half of a surrogate pair"),
        ('{"a": "x', "not-json", "line 1, column 8: the text ends too early"),
        ('{"a": 1,}', "not-json", "line 1, column 8: not JSON: trailing comma in object"),
        ("{'a': 1}", "not-json", "line 1, column 1: not JSON: object keys must be strings"),
        ('{"тест": 1 "b": 2}', "not-json", "line 1, column 11: not JSON: expected ',' or '}' before '\"b\"'"),
        ('{"a": "x\ty"}', "not-json", "line 1, column 8: not JSON: '\\t' is not possible here"),
        ("{} {}", "not-json", "line 1, column 3: not JSON: trailing characters"),
        ("// text\n{}", "not-json", "line 1, column 0: not JSON: '/' is not possible here"),
        (b"\xff\xfe{", "encoding", "is not UTF-16"),
        (" " * (MAX_BYTES + 1), "too-large", "more than the 32000000"),
    ],
    ids=range(22),
)
def test_a_text_that_is_no_good_json_is_refused(text: bytes | str, code: str, what: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_job(text)
    assert (caught.value.code, what in caught.value.what) == (code, True), str(caught.value)[:200]
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_understood(encoding: str) -> None:
    text = '{"version": 2, "executable": "/bin/тест"}'
    assert read_job(text.encode(encoding))[0] == read_job(text)[0]


def test_a_text_that_looks_like_a_key_is_none() -> None:
    found = read_json('{"a": "\\": x", "b": ": y", "c" : "\\\\", "d": {"a": 1}}')
    assert found.value == {"a": '": x', "b": ": y", "c": "\\", "d": {"a": 1}}


def described(tasks: int) -> str:
    definition = {"version": 2, "executable": "/bin/cp", "arguments": ["a", "b"], "environment": {"a": "1"}}
    items = [
        {
            "id": f"t{number}",
            "children": [f"t{number + 1}"] if number < tasks - 1 else [],
            "definition": definition,
        }
        for number in range(tasks)
    ]
    return json.dumps({"version": 2, "tasks": items})


HUGE: dict[str, Callable[[], str]] = {
    "many tasks": lambda: described(5_000),
    "a text of many megabytes": lambda: json.dumps(
        {"version": 2, "executable": "/x", "arguments": ["y" * 31_000_000]}
    ),
    "many unknown keys": lambda: json.dumps({f"k{number}": 1 for number in range(50_000)} | {"tasks": []}),
    "many empty objects": lambda: '{"tasks": [' + "{}," * 1_900_000 + "{}]}",
    "too many values": lambda: "[" + "0," * 15_000_000 + "0]",
    "many escapes": lambda: '{"executable": "' + "\\\\" * 5_000_000 + '"}',
    "quotes without end": lambda: '{"a": "' + '\\"' * 500_000,
    "a late second key": lambda: '{"a": [' + '{"x": 1},' * 100_000 + '{"x": 1, "x": 2}]}',
    "blanks": lambda: "{" + " " * 20_000_000 + '"a" }',
    "colons in texts": lambda: '{"a": "' + '\\": ' * 1_000_000 + '"}',
    "long circle": lambda: described(5000).replace('"children": []', '"children": ["t0"]'),
    "many lines of unknown": lambda: (
        '{"version": 2, "tasks": [\n' + '{"id": "a"},\n' * 20_000 + '{"id": "b"}]}'
    ),
}


@pytest.mark.parametrize("kind", HUGE)
def test_no_text_is_slow_to_refuse_or_read_nor_takes_much_memory(kind: str) -> None:
    text = HUGE[kind]().encode()
    begun = time.process_time()
    with suppress(BadRequest):
        read_job(text)
    assert time.process_time() - begun < 5
    tracemalloc.start()
    with suppress(BadRequest):
        read_job(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * len(text) + 20_000_000  # the worst: nothing but the smallest objects


@given(
    st.sampled_from(
        ["", "gsiftp://host/a/b/", "gsiftp://host/a/b", "file:/x/", "http://h", "ftp://h/./a/../"]
    ),
    st.text("ab./:?#%", max_size=8),
)
@MANY
def test_a_storage_base_resolves_every_reference_as_if_it_were_the_only_one(
    base: str, reference: str
) -> None:
    assert StorageBase(base).resolve(reference) == resolve(base, reference)
    assert (StorageBase(base).is_set or is_url(reference)) == is_url(resolve(base, reference))


def test_a_stream_that_is_the_root_directory_is_reported_as_lost() -> None:
    spec = JobSpec(tasks=(TaskSpec(command="/bin/a", standard_error="/"),))
    text, report = write_job(spec, "grid-task")
    assert b"stderr" not in text
    assert any("standard_error: '/' cannot be the URL of a file" in item.what for item in report)


def test_an_extension_of_another_language_that_is_too_deep_to_read_is_lost_and_said_so() -> None:
    deep = 5000 * "[" + 5000 * "]"
    spec = JobSpec(tasks=(TaskSpec(command="x"),), extensions={"requirements.fork": deep})
    text, report = write_job(spec)
    assert deep.encode() not in text
    assert any("requirements.fork" in item.what for item in report), report
