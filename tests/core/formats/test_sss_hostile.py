"""Whatever comes as an SSS job object, only a refusal comes out, and soon."""

import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.sss import (
    JobGroup,
    SssDocument,
    SssVersion,
    effective_jobs,
    is_job_object,
    read_document,
    request_of,
    write_document,
)
from headnode.core.formats.sss.attributes import ATTRIBUTES
from headnode.core.formats.sss.job_object import EffectiveJob, EffectiveTaskGroup
from headnode.core.formats.sss.property_rows import CHILDREN, ROWS
from headnode.core.formats.sss.source_text import repair_text
from headnode.core.model.errors import BadRequest

from .sss_documents import documents, versions

MANY = settings(max_examples=share_of(100), deadline=None, suppress_health_check=list(HealthCheck))
TAGS = sorted(
    {name for row in ROWS for name in (row.name, row.name_3_0, *row.also) if name}
    | {child.name for child in CHILDREN}
    | {"NodeProperties", "Variable", "File", "Data", "Odd"}
)
VALUES = [
    "1",
    "0",
    "-1",
    "x",
    "GE",
    "or",
    "Pattern",
    "List",
    "a[",
    "1e400",
    "Max",
    "GB",
    "#s",
    "{1}{2}",
    "true",
]


def quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


values = st.sampled_from(VALUES) | st.text(max_size=6)
attributes = st.dictionaries(
    st.sampled_from(sorted({row.name for row in ATTRIBUTES} | {"id", "odd"})), values, max_size=3
).map(lambda found: "".join(f' {name}="{quoted(value)}"' for name, value in found.items()))
trees = st.recursive(
    st.builds(
        lambda tag, written, text: f"<{tag}{written}>{quoted(text)}</{tag}>",
        st.sampled_from(TAGS),
        attributes,
        values,
    ),
    lambda inner: st.builds(
        lambda tag, written, children: f"<{tag}{written}>{''.join(children)}</{tag}>",
        st.sampled_from(["Job", "JobGroup", "Data", "TaskGroup", "Task", "Requested", "Delivered", *TAGS]),
        attributes,
        st.lists(inner, max_size=4),
    ),
    max_leaves=14,
)


def read_or_refuse(text: bytes | str) -> None:
    """Read, strictly and leniently; what is read must be writable, the same again, and can be worked with."""
    is_job_object(text)
    for lenient in (False, True):
        try:
            document, _ = read_document(text, lenient=lenient)
        except BadRequest:
            continue
        for version in SssVersion:
            again, _ = read_document(write_document(document, version)[0], lenient=True)
            assert again.entries == document.entries
        work_with(document)


def work_with(document: SssDocument) -> None:
    """Merge defaults and work out requests."""
    for entry in document.entries:
        for job in effective_jobs(entry) if isinstance(entry, JobGroup) else ():
            if isinstance(job, EffectiveJob):
                for group in job.task_groups:
                    if isinstance(group, EffectiveTaskGroup):
                        with suppress(BadRequest):
                            request_of(group.within)


@given(trees)
@MANY
def test_any_tree_is_read_or_refused_and_what_is_read_survives(tree: str) -> None:
    read_or_refuse(tree)


@given(st.lists(trees, max_size=4).map(lambda inside: f"<Job><Id>1</Id>{''.join(inside)}</Job>"))
@MANY
def test_any_job_is_read_or_refused_and_what_is_read_survives(text: str) -> None:
    read_or_refuse(text)


@given(
    st.lists(trees, max_size=4).map(
        lambda inside: f"<Job><Id>1</Id><Requested>{''.join(inside)}</Requested></Job>"
    )
)
@MANY
def test_any_request_is_read_or_refused_and_what_is_read_survives(text: str) -> None:
    read_or_refuse(text)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: f"<Job>{text}</Job>"))
@MANY
def test_any_bytes_are_read_or_refused(text: bytes | str) -> None:
    read_or_refuse(text)


@given(documents, versions, st.data())
@settings(MANY, max_examples=share_of(40))
def test_a_document_with_one_part_changed_is_read_or_refused(
    document: SssDocument, version: SssVersion, data: st.DataObject
) -> None:
    text = bytearray(write_document(document, version)[0])
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=5))
    read_or_refuse(bytes(text))


@given(st.text(st.sampled_from('<>/ab "\u201d='), max_size=60))
@settings(max_examples=share_of(500), deadline=None)
def test_mending_changes_quotes_and_strokes_only_and_once(text: str) -> None:
    mended = repair_text(text)
    assert mended.text.replace("/", "").replace('"', "\u201d") == text.replace("/", "").replace('"', "\u201d")
    assert len(list(mended.report())) >= (mended.text != text)


LARGE = {
    "nested": "<Job>" * 100_000,
    "nested unknown": "<Job><Id>1</Id>" + "<a>" * 1_000 + "</a>" * 1_000 + "</Job>",
    "attributes": "<Job " + " ".join(f'a{number}="1"' for number in range(5_000)) + "><Id>1</Id></Job>",
    "comment": "<Job><!--" + "-" * 100_000,
    "comments": "<!--" * 50_000,
    "instructions": "<?" * 50_000,
    "tag": "<" + "a" * 200_000,
    "blanks": "<Job" + " " * 200_000 + "x/>",
    "unknown names": "<Job><Id>1</Id>" + "".join(f"<X{number}/>" for number in range(2_000)) + "</Job>",
    "unknown everywhere": "<JobGroup><Id>g</Id>"
    + "".join(f"<Job><Id>{number}</Id><X{number}/></Job>" for number in range(1_500))
    + "</JobGroup>",
    "one name": "<Job><Id>1</Id>" + "<X a='1'/>" * 5_000 + "</Job>",
    "quotes": "<Job a=" + "\u201d" * 100_000 + ">",
    "strokes": "</a>" * 50_000 + "<b>" * 50_000,
    "geometry": "<Job><Id>1</Id><TaskDistribution>" + "{1} " * 50_000 + "x</TaskDistribution></Job>",
    "number": "<Job><Id>1</Id><Priority>" + "9" * 100_000 + "</Priority></Job>",
    "float": "<Job><Id>1</Id><Memory>" + "9" * 100_000 + "e9</Memory></Job>",
    "dependencies": "<JobGroup><Id>g</Id>"
    + "".join(f"<Job><Id>{n}</Id><Dependency>{n + 1}</Dependency></Job>" for n in range(1_500))
    + "</JobGroup>",
    "one name for many jobs": "<JobGroup><Id>g</Id>"
    + "".join(f"<Job><Id>{n}</Id><Name>n</Name></Job>" for n in range(1_000))
    + "<Job><Id>x</Id>"
    + "<Dependency designator='JobName'>n</Dependency>" * 1_000
    + "</Job></JobGroup>",
    "parentheses": "<Job><Id>1</Id><Requested>"
    + "<Memory group='1'>1</Memory>" * 5_000
    + "<Memory group='-1'>1</Memory>" * 5_000
    + "</Requested></Job>",
    "preferences": "<Job><Id>1</Id><Requested>"
    + "<Memory preference='1'>1</Memory>" * 10_000
    + "</Requested></Job>",
    "files": "<Data>" + "".join(f"<File id='{number}'/>" for number in range(10_000)) + "</Data>",
    "missing ids": "<JobGroup>" + "<Job><User>a</User></Job>" * 3_000 + "</JobGroup>",
}


@pytest.mark.parametrize("name", LARGE)
def test_no_document_is_slow_to_refuse_or_read(name: str) -> None:
    begun = time.process_time()
    read_or_refuse(LARGE[name])
    assert time.process_time() - begun < 5


def test_entities_are_refused_wherever_they_are_declared() -> None:
    bomb = (
        "<!DOCTYPE Job ["
        + '<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY {"a" * (n + 1)} "{("&" + "a" * n + ";") * 10}">' for n in range(1, 10))
        + "]><Job><Id>&aaaaaaaaaa;</Id></Job>"
    )
    for text in (bomb, bomb.encode("utf-16"), '<!DOCTYPE Job SYSTEM "http://example.org/x.dtd"><Job/>'):
        for lenient in (False, True):
            with pytest.raises(BadRequest) as refusal:
                read_document(text, lenient=lenient)
            assert refusal.value.code == "doctype"


@pytest.mark.parametrize("text", ["\x00", "\ud800", "&#0;", "&#xD800;", "&x;"])
def test_characters_that_xml_forbids_are_refused(text: str) -> None:
    for lenient in (False, True):
        with pytest.raises(BadRequest, match="not well-formed"):
            read_document(f"<Job><Id>{text}</Id></Job>", lenient=lenient)


def test_characters_that_turn_the_direction_of_text_are_kept_and_shown_escaped() -> None:
    document, _ = read_document("<Job><Id>a\u202eb</Id></Job>")
    assert "a\u202eb".encode() in write_document(document)[0]
    with pytest.raises(BadRequest) as refusal:
        read_document("<Job><Id>1</Id><Priority>\u202e1</Priority></Job>")
    assert "\u202e" not in str(refusal.value)


def test_reading_takes_memory_in_proportion_to_what_is_read() -> None:
    job = "<Job><Id>{}</Id><Executable>/bin/true</Executable><Requested><Memory>1</Memory></Requested></Job>"
    text = "<JobGroup><Id>g</Id>" + "".join(job.format(number) for number in range(2_000)) + "</JobGroup>"
    tracemalloc.start()
    try:
        read_document(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 15 * len(text)  # of Python, beside the tree; short elements, long structs


def test_deep_documents_are_refused_without_advice_to_programmers_of_the_parser() -> None:
    with pytest.raises(BadRequest) as refusal:
        read_document("<Job>" * 300)
    assert refusal.value.what.endswith("Excessive depth in document: 256")
