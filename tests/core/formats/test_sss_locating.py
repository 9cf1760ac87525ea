"""A refusal that comes from the meaning of a document says in which line and column its reason stands."""

import pytest

from headnode.core.formats.dialects import ReadOptions, locate, read
from headnode.core.formats.dialects.reading import JobLanguage
from headnode.core.model.errors import BadRequest, TextPosition

X = "<Executable>/bin/x</Executable>"
GROUP = "<JobGroup><Id>g</Id>\n<Job><Id>a</Id>{}</Job>\n<Job><Id>b</Id>{}\n{}</Job></JobGroup>"
CONTRADICTION = "<Requested><Processors op='GE'>9</Processors><Processors op='LE'>3</Processors></Requested>"


def refused(text: str, **how: object) -> str:
    """Why a document is refused."""
    with pytest.raises(BadRequest) as refusal:
        read(text, ReadOptions(**how))  # of the tests themselves
    return refusal.value.what


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GROUP.format(X, X, CONTRADICTION), "line 4, column 0: job 'b': the request"),
        (GROUP.format(X, X, f"<TaskGroup>{X}</TaskGroup><TaskGroup>{X}{CONTRADICTION}</TaskGroup>"),
         "line 4, column 96: job 'b', task group 2: the request"),
        (GROUP.format(X, X, f"<TaskGroup>{X}<TaskCount>1000001</TaskCount></TaskGroup>"),
         "line 4, column 42: job 'b', task group 1: TaskCount 1000001"),
        (GROUP.format(X, X, "<Processors>99999999999</Processors>"),
         "line 4, column 0: job 'b': Processors 9"),
        (GROUP.format(X, X, "<Checkpointable awarenessPolicy='Reject'>true</Checkpointable>"),
         "line 4, column 0: job 'b': Checkpointable True"),
        (GROUP.format(X, X, "<TaskGroup awarenessPolicy='Reject'><Priority>7</Priority></TaskGroup>"),
         "line 4, column 36: job 'b', task group 1: Priority 7"),
        ("<Job><JobId>1</JobId><Executable>/bin/x</Executable>\n"
         "<Requested><Processors>99999999999</Processors></Requested></Job>", "line 2, column 11: job '1': "),
    ],
)  # fmt: skip
def test_a_refusal_of_the_meaning_has_its_place(text: str, place: str) -> None:
    assert refused(text).startswith(place)


def test_the_machine_is_where_it_is_named() -> None:
    text = GROUP.format(X, X, "<Machine>Colony</Machine>")
    assert refused(text, machine="here").startswith("line 4, column 0: job 'b': Machine 'Colony'")


def test_the_place_in_a_damaged_text_is_the_one_before_it_was_mended() -> None:
    text = "<Job><Id>1<Id><Memory>1<Memory>\n<Processors>99999999999</Processors></Job>"
    assert refused(text, lenient=True).startswith("line 2, column 0: ")


def test_what_is_refused_after_reading_is_placed_at_the_job_or_its_task_group() -> None:
    text = GROUP.format(X, "", f"<TaskGroup>{X}</TaskGroup>\n<TaskGroup>{X}</TaskGroup>")
    for path, place in (((), "line 3, column 0"), (("tasks", 1, "minimum"), "line 5, column 0")):
        found = locate(text, JobLanguage.SSS, BadRequest(code="x", what="why", fix="y", path=path), 1)
        assert (found.what, found.code, found.fix) == (f"{place}: why", "x", "y")


def test_a_place_that_is_there_stays() -> None:
    there = BadRequest(code="x", what="y", fix="z", place=TextPosition(9, 9))
    assert locate("<Job><Id>1</Id></Job>", JobLanguage.SSS, there) is there
