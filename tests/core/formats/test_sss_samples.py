"""The published examples are read, damaged as they are, and every repair is told.

The texts here are our own, with the damage of the published ones; the published ones are read where they are.
"""

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.sss import (
    JobGroup,
    SssDocument,
    SssJob,
    SssVersion,
    is_job_object,
    read_document,
    write_document,
)
from headnode.core.formats.sss.properties import Consumable
from headnode.core.model.errors import BadRequest

from .shared import SHARED

FOLDER = SHARED / "samples" / "sss"
SAMPLES = sorted(FOLDER.glob("*/*.xml"))
RAW = [path for path in SAMPLES if ".RAW." in path.name]
FRAGMENTS = next(iter(FOLDER.glob("seed/*_fragments.tsv")), None)
needs_samples = pytest.mark.skipif(not SAMPLES, reason="the sample job objects are not beside the repository")

DEFAULTS = (
    "<JobDefaults><Environment>"
    "<Variable name=\u201dA\u201d>it\u2019s \u201cx\u201d</Variable><Environment></JobDefaults>"
)
JOB = (
    "<Job><Id>1</Id><Requested><Processors op=\u201cGE\u201d>2</Processors></Requested>"
    "</Delivered><Memory>7<Memory><Duration>5</Duration></Delivered></Job>"
)
DAMAGED = f"<JobGroup><Id>g</Id>\n{DEFAULTS}\n{JOB}\n</JobGroup>"
REPAIRS = [
    (2, DEFAULTS.index("\u201d"), "a typographic quote is read as a straight one (4 times, here first)"),
    (2, DEFAULTS.rindex("<Environment>"), "<Environment> is read as </Environment>"),
    (3, JOB.index("</Delivered>"), "</Delivered> is read as <Delivered>"),
    (3, JOB.rindex("<Memory>"), "<Memory> is read as </Memory>"),
]


def test_damaged_text_is_refused_with_its_place_and_the_advice_to_read_it_leniently() -> None:
    with pytest.raises(BadRequest) as refusal:
        read_document(DAMAGED)
    assert (refusal.value.code, "line 2, column 41: " in refusal.value.what) == ("not-xml", True)
    assert refusal.value.fix.endswith("--lenient repairs it")


def test_text_that_nobody_can_mend_is_refused_without_such_advice() -> None:
    with pytest.raises(BadRequest) as refusal:
        read_document("<Job><Id>1</Id><Requested></Job>")
    assert "lenient" not in refusal.value.fix


def test_damaged_text_is_mended_leniently_and_every_repair_is_reported() -> None:
    document, report = read_document(DAMAGED, lenient=True)
    assert [(item.line, item.column, item.what) for item in report] == REPAIRS
    assert {item.kind for item in report} == {Fidelity.TRANSLATED}
    (group,) = document.entries
    assert isinstance(group, JobGroup)
    assert "it\u2019s \u201cx\u201d" in str(group.job_defaults)
    (job,) = group.jobs
    assert isinstance(job, SssJob)
    assert job.delivered is not None
    assert [one.value for one in job.delivered.properties] == [7.0, 5.0]


def test_what_is_wrong_in_mended_text_is_reported_where_it_stood_before() -> None:
    text = "<Job><Id>1</Id></Delivered><Memory>1<Memory></Delivered><Priority>x</Priority></Job>"
    with pytest.raises(BadRequest, match=f"line 1, column {text.index('<Priority>')}: Job/Priority"):
        read_document(text, lenient=True)


def test_what_is_still_not_xml_is_reported_where_it_stood_before() -> None:
    text = "<Job><Id>1<Id><Memory>1<Memory><Name></Job>"
    with pytest.raises(BadRequest, match=f"line 1, column {text.index('Job>', 5)}: "):
        read_document(text, lenient=True)


def test_quotes_in_the_encoding_of_windows_are_mended() -> None:
    document, _ = read_document(
        "<Job><Id>1</Id><Memory units=\u201dGB\u201d>1</Memory></Job>".encode("cp1252"), lenient=True
    )
    (job,) = document.entries
    assert isinstance(job, SssJob)
    (_, memory) = job.properties
    assert isinstance(memory, Consumable)
    assert memory.units == "GB"


def test_bytes_of_no_encoding_are_refused_also_leniently() -> None:
    with pytest.raises(BadRequest) as refusal:
        read_document(b"<Job><Id>\x81\x8d</Id></Job>", lenient=True)
    assert refusal.value.code == "not-xml"


def test_comments_and_character_data_are_no_tags_to_mend() -> None:
    text = "<Job><!-- <Id> --><Id>1<Id><Executable><![CDATA[</Odd>]]></Executable></Job>"
    document, report = read_document(text, lenient=True)
    assert "</Odd>" in str(document)
    assert len(report) == 1


def test_well_formed_text_is_never_mended() -> None:
    text = "<Job><Id>1</Id><Arguments>\u201dx\u201d</Arguments><Odd><Odd>\u201d</Odd></Odd></Job>"
    strict, lenient = read_document(text), read_document(text, lenient=True)
    assert strict == lenient


def test_names_in_the_wrong_case_are_read_leniently_and_reported() -> None:
    text = "<Job><id>1</id><processors Units='a'>1</processors></Job>"
    document, report = read_document(text, lenient=True)
    assert [item.what for item in report] == [
        "element 'id' is read as 'Id': letter case does not matter",
        "element 'processors' is read as 'Processors': letter case does not matter",
        "repaired: attribute 'Units' is read as 'units'",
    ]
    assert "units='a'" in str(document)


def test_names_are_read_in_any_case_and_reported() -> None:
    text = "<JOB><id>1</id><taskgroup><TASK>7</TASK></taskgroup></JOB>"
    document, report = read_document(text)
    assert document == read_document("<Job><Id>1</Id><TaskGroup><Task>7</Task></TaskGroup></Job>")[0]
    assert [item.what for item in report] == [
        "element 'id' is read as 'Id': letter case does not matter",
        "element 'taskgroup' is read as 'TaskGroup': letter case does not matter",
        "element 'TASK' is read as 'Task': letter case does not matter",
    ]


def test_what_stands_in_the_wrong_place_is_kept_leniently_and_reported() -> None:
    document, report = read_document("<Job><Id>1</Id><TaskCount>2</TaskCount></Job>", lenient=True)
    assert [item.kind for item in report] == [Fidelity.NOT_SUPPORTED]
    assert report[0].what.endswith("may not stand in Job: kept, without effect; it may stand in TaskGroup")
    assert b"<TaskCount>2</TaskCount>" in write_document(document)[0]


def test_jobs_without_an_id_are_numbered_leniently_beside_those_that_have_one() -> None:
    text = "<JobGroup><Job><Executable>a</Executable></Job><Job><Id>job1</Id></Job></JobGroup>"
    document, report = read_document(text, lenient=True)
    (group,) = document.entries
    assert isinstance(group, JobGroup)
    assert [job.id for job in group.jobs] == ["job2", "job1"]
    assert [item.what for item in report if item.kind is Fidelity.APPROXIMATED] == [
        "repaired: it has no Id, and is called 'job2'",
        "repaired: it has no Id, and is called 'jobgroup3'",
    ]


def test_a_script_that_is_missing_is_reported_leniently() -> None:
    _, report = read_document("<Job><Id>1</Id><Executable>#S</Executable></Job>", lenient=True)
    assert [item.kind for item in report] == [Fidelity.APPROXIMATED]


def test_turned_signs_of_groups_are_turned_back_and_reported() -> None:
    text = (
        '<Job><Id>1</Id><Requested><Processors group="-1">12</Processors>'
        '<Processors conj="Or" group="1">16</Processors></Requested></Job>'
    )
    document, report = read_document(text)
    (job,) = document.entries
    assert isinstance(job, SssJob)
    assert job.requested is not None
    assert [one.group for one in job.requested.properties] == [1, -1]
    assert [item.kind for item in report] == [Fidelity.TRANSLATED]


@needs_samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_read_leniently_and_survives_both_versions(path: Path) -> None:
    document, _ = read_document(path.read_bytes(), lenient=True)
    for version in SssVersion:
        back = read_document(write_document(document, version)[0])[0]
        assert back == replace(document, version=version)


@needs_samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_sample_is_recognised_damaged_or_not(path: Path) -> None:
    assert is_job_object(path.read_bytes())
    version = read_document(path.read_bytes(), lenient=True)[0].version
    assert version is (SssVersion.V3_1 if path.name.startswith("001") else SssVersion.V3_0)


@needs_samples
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_only_samples_with_typographic_quotes_are_refused_strictly(path: Path) -> None:
    if "\u201d" not in path.read_text():
        read_document(path.read_bytes())
        return
    with pytest.raises(BadRequest, match=r"^line \d+, column \d+: not well-formed XML") as refusal:
        read_document(path.read_bytes())
    assert refusal.value.fix.endswith("--lenient repairs it")


@needs_samples
@pytest.mark.parametrize("path", RAW, ids=lambda path: path.name)
def test_the_mended_sample_is_the_one_that_was_mended_by_hand(path: Path) -> None:
    by_hand = path.with_name(path.name.replace(".RAW.", ".fixed."))
    assert read_document(path.read_bytes(), lenient=True)[0] == read_document(by_hand.read_bytes())[0]


@needs_samples
@pytest.mark.parametrize("path", RAW, ids=lambda path: path.name)
def test_no_repair_of_a_sample_goes_untold(path: Path) -> None:
    found = " ".join(item.what for item in read_document(path.read_bytes(), lenient=True)[1])
    wrong = ["quote"] if "\u201d" in path.read_text() else []
    wrong += (
        ["</Environment>", "</Memory>", "signs of group"] if "ex3" in path.name or "25-3" in path.name else []
    )
    wrong += ["read as <Delivered>"] if path.name.startswith("002_ex3") else []
    assert all(word in found for word in wrong), found
    assert bool(found) is bool(wrong)


def fragments() -> list[tuple[int, str]]:
    """The one-line fragments of the published document, by their lines."""
    if FRAGMENTS is None:
        return []
    with FRAGMENTS.open(newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [(int(line), text) for line, text in rows]


SYNTAX = {83, 185, 228, 259, 273}
"""Lines that describe the syntax, with signs between elements; that of Task reads like a reference."""

UNCLOSED = {268}
ALONE = {"JobGroup": "<Data>{}</Data>", "File": "<Data><Job><Id>1</Id></Job>{}</Data>"}
IN_JOB = "<Data><Job><Id>1</Id>{}</Job><File id='Script'/></Data>"
INSIDE = {
    "Job": "<JobGroup><Id>g</Id>{}</JobGroup>",
    "TaskGroup": "<Job><Id>1</Id>{}</Job>",
    "Task": "<Job><Id>1</Id><TaskGroup>{}</TaskGroup></Job>",
    "Variable": "<Job><Id>1</Id><Environment>{}</Environment></Job>",
}


def inside(text: str) -> str:
    """A fragment where it belongs."""
    name = text[1:].split(">")[0].split()[0]
    return {**ALONE, **INSIDE}.get(name, IN_JOB).format(text)


@pytest.mark.skipif(FRAGMENTS is None, reason="the published fragments are not beside the repository")
def test_every_published_fragment_is_read_or_refused_for_what_is_wrong_with_it() -> None:
    for line, text in fragments():
        if line == 195:  # three distributions in one line, of which a job has one
            parts = text.split("> <")
            texts = [f"<{part.strip('<>')}>" for part in parts]
        else:
            texts = [text]
        for one in texts:
            check_fragment(line, inside(one))


def check_fragment(line: int, text: str) -> None:
    """Read a fragment, or find the reason in the list of those that are wrong."""
    if line in SYNTAX:
        with pytest.raises(BadRequest):
            read_document(text)
        return
    if line in UNCLOSED:
        with pytest.raises(BadRequest) as refusal:
            read_document(text)
        assert refusal.value.code == "not-xml"
    document, report = read_document(text, lenient=line in UNCLOSED)
    assert isinstance(document, SssDocument)
    found = [item for item in report if item.kind is not Fidelity.TRANSLATED]
    assert not found, (line, found)
