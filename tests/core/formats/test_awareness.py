"""What is not understood is reported, kept, and honoured by the awareness policy."""

import pytest
from lxml import etree

from headnode.core.formats.fidelity import Awareness, Fidelity, ReportItem, describe, parse_awareness
from headnode.core.formats.hpc_xml import CCS, DIALECTS, HPC, read_job, write_job
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

STRANGE = """<Job Name="a" Priorty="High" Pool="Gold" OrderBy="#3">
 <Odd x="1"><Inner>t</Inner></Odd>
 <Tasks Count="1">
  <Task CommandLin="x" CommandLine="y"><EnvironmentVariable/></Task>
  <Tusk/>
 </Tasks>
 words
</Job>"""


def findings(kind: Fidelity) -> list[ReportItem]:
    return [item for item in read_job(STRANGE)[1] if item.kind is kind]


def test_everything_strange_is_reported_with_its_place_and_the_right_name() -> None:
    found = sorted((item.line, item.column, item.what) for item in findings(Fidelity.NOT_SUPPORTED))
    assert found == [
        (1, 0, "text 'words' in Job is not known, and is not kept"),
        (
            1,
            14,
            "attribute 'Priorty' ('High'): it is not known: kept, without effect; did you mean 'Priority'?",
        ),
        (1, 29, "attribute 'Pool' ('Gold'): it is kept, but has no effect"),
        (1, 41, "attribute 'OrderBy' ('#3'): a custom sorter: it is kept, but has no effect"),
        (2, 1, "element 'Odd' is not known: kept, without effect"),
        (3, 8, "attribute 'Count' of Tasks is not known, and is not kept"),
        (
            4,
            8,
            "attribute 'CommandLin' ('x'): it is not known: kept, without effect; "
            "did you mean 'CommandLine'?",
        ),
        (
            4,
            39,
            "element 'EnvironmentVariable' is not known: kept, without effect; "
            "did you mean 'EnvironmentVariables'?",
        ),
        (5, 2, "element 'Tusk' is not known, and is not kept; only Task may be here"),
    ]


def test_what_is_kept_is_written_back() -> None:
    spec, _ = read_job(STRANGE)
    assert spec.extensions == {
        "Priorty": "High",
        "Pool": "Gold",
        "OrderBy": "#3",
        "<Odd>": '<Odd x="1"><Inner>t</Inner></Odd>',
    }
    text = write_job(spec, HPC)[0].decode()
    assert 'Pool="Gold" OrderBy="#3"' in text  # the schema has these
    root = etree.fromstring(text.encode())
    properties = root.find("{*}CustomProperties")
    assert properties is not None
    names = [str(name.text) for name in properties.iterfind("{*}Term/{*}Name")]
    assert names == ["headnode.kept:Priorty", "headnode.kept:<Odd>"]
    assert read_job(text)[0] == spec


def test_warn_reads_the_job_and_ignore_reads_it_in_silence() -> None:
    warned, report = read_job(STRANGE, awareness=Awareness.WARN)
    ignored, silence = read_job(STRANGE, awareness=Awareness.IGNORE)
    assert warned == ignored
    assert any(item.kind is Fidelity.NOT_SUPPORTED for item in report)
    assert not any(item.kind is Fidelity.NOT_SUPPORTED for item in silence)


def test_reject_refuses_the_job_and_lists_what_it_was() -> None:
    with pytest.raises(BadRequest) as caught:
        read_job(STRANGE, awareness=Awareness.REJECT)
    assert caught.value.code == "not-understood"
    assert "line 1, column 14: Job: attribute 'Priorty'" in caught.value.what
    assert "line 5, column 2: Tasks: element 'Tusk'" in caught.value.what


def test_reject_accepts_a_job_that_is_understood() -> None:
    assert read_job('<Job Name="a" Id="3"/>', awareness=Awareness.REJECT)[0].name == "a"


def test_reject_names_only_the_first_of_very_many() -> None:
    text = "<Job " + " ".join(f'X{number}="1"' for number in range(200)) + "/>"
    with pytest.raises(BadRequest, match="and 190 more"):
        read_job(text, awareness=Awareness.REJECT)


@pytest.mark.parametrize("text", ["reject", "WARN", " Ignore "])
def test_policies_are_named_in_any_case(text: str) -> None:
    assert parse_awareness(text).lower() == text.strip().lower()


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadRequest, match="Reject, Warn, Ignore"):
        parse_awareness("maybe")


def test_foreign_attributes_and_elements_keep_their_namespaces() -> None:
    text = '<Job xmlns:s="urn:site" s:Code="7"><s:Note><b xmlns="">x</b></s:Note></Job>'
    spec, _ = read_job(text)
    assert spec.extensions["{urn:site}Code"] == "7"
    assert read_job(write_job(spec, spec.dialect)[0])[0] == spec


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "extensions",
    [
        {"<Bad>": "<Bad>"},
        {"<Bad>": "<!DOCTYPE a><a/>"},
        {"not a name": "x"},
        {"Name": "another"},
        {"priority": "Highest"},
        {"xmlns": "urn:x"},
        {"{http://www.w3.org/2001/XMLSchema-instance}nil": "true"},
    ],
)
def test_what_cannot_stand_in_a_job_file_is_left_out_and_reported(
    dialect: str, extensions: dict[str, str]
) -> None:
    text, report = write_job(JobSpec(name="a", minimum=1, maximum=1, extensions=extensions), dialect)
    assert [item.kind for item in report if item.kind is not Fidelity.NOTE] == [Fidelity.NOT_SUPPORTED]
    assert read_job(text)[0].name == "a"
    assert read_job(text)[0].extensions == {}


def test_a_kept_element_cannot_smuggle_in_markup() -> None:
    spec = JobSpec(extensions={"<A>": '<?xml version="1.0"?><!-- x --><A/>'})
    text = write_job(spec, CCS)[0].decode()
    assert text.count("<?xml") == 1
    assert "&lt;A&gt;&lt;/A&gt;" in text
    assert read_job(text)[0].extensions == {"<A>": "<A></A>"}


def test_a_finding_without_a_place_is_described_without_one() -> None:
    assert describe(ReportItem(Fidelity.NOTE, "Job", "x")) == "Job: x"


def test_a_kept_element_that_an_editor_has_changed_in_form_only_is_the_same_job() -> None:
    spec, _ = read_job("<Job><Odd>1</Odd><Tasks/></Job>")
    text = write_job(spec, "hpcpack")[0].replace(b"&lt;/Odd&gt;", b"&lt;/Odd  &gt;")
    changed, _ = read_job(text)
    assert b"/Odd  " in text
    assert read_job(write_job(changed, "hpcpack")[0])[0] == changed
    assert changed.extensions == {"<Odd>": "<Odd>1</Odd>"}
