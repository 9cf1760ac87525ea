"""The widths of the CCS table are checked when that is requested, and only then."""

import pytest

from headnode.core.formats.hpc_xml import read_job
from headnode.core.formats.hpc_xml.attributes import JOB_ATTRIBUTES, TASK_ATTRIBUTES
from headnode.core.model.errors import BadRequest

SPACE = 'xmlns="http://www.microsoft.com/ComputeCluster/"'
JOB_WIDTHS = {
    "Id": 10, "Message": 320, "SubmittedBy": 80, "User": 80, "AskedNodes": 2080, "Runtime": 8, "Name": 80,
    "Project": 80, "SoftwareLicense": 160,
}  # fmt: skip
TASK_WIDTHS = {
    "Id": 10, "Name": 80, "CommandLine": 480, "Runtime": 8, "AskedNodes": 2080, "WorkDirectory": 160,
    "Stdin": 160, "Stdout": 160, "Stderr": 160, "Depend": 320,
}  # fmt: skip


def filled(name: str, length: int) -> str:
    """Return a value of that length that its attribute takes."""
    if name == "Runtime":
        return "1:02:30".rjust(length)
    if name == "SoftwareLicense":
        return "f" * (length - 2) + ":1"
    return "7" * length


def text(job: str = "", task: str = "", inside: str = "") -> str:
    return f"<Job {SPACE} {job}>{inside}<Tasks><Task {task}/></Tasks></Job>"


def test_the_rows_have_the_widths_of_the_table() -> None:
    assert {row.ccs: row.width for row in JOB_ATTRIBUTES if row.width} == JOB_WIDTHS
    assert {row.ccs: row.width for row in TASK_ATTRIBUTES if row.width} == TASK_WIDTHS


@pytest.mark.parametrize(("name", "most"), JOB_WIDTHS.items())
def test_an_attribute_of_a_job_may_be_as_wide_as_the_table_says(name: str, most: int) -> None:
    read_job(text(job=f'{name}="{filled(name, most)}"'), strict=True)
    too_long = text(job=f'{name}="{filled(name, most + 1)}"')
    read_job(too_long)
    with pytest.raises(BadRequest, match=f"'{name}' is longer than {most} characters") as caught:
        read_job(too_long, strict=True)
    assert caught.value.code == "too-long"


@pytest.mark.parametrize(("name", "most"), TASK_WIDTHS.items())
def test_an_attribute_of_a_task_may_be_as_wide_as_the_table_says(name: str, most: int) -> None:
    read_job(text(task=f'{name}="{filled(name, most)}"'), strict=True)
    too_long = text(task=f'{name}="{filled(name, most + 1)}"')
    read_job(too_long)
    with pytest.raises(BadRequest, match=f"'{name}' is longer than {most} characters"):
        read_job(too_long, strict=True)


def test_a_character_beyond_the_basic_plane_counts_twice() -> None:
    read_job(text(job=f'Name="{"😀" * 40}"'), strict=True)
    with pytest.raises(BadRequest, match="80 characters"):
        read_job(text(job=f'Name="{"😀" * 40}x"'), strict=True)


def pairs(parent: str, item: str, *found: tuple[str, str]) -> str:
    inside = "".join(f"<{item}><Name>{name}</Name><Value>{value}</Value></{item}>" for name, value in found)
    return f"<{parent}>{inside}</{parent}>"


def test_all_variables_together_may_have_2048_characters() -> None:
    for extra, fits in ((0, True), (1, False)):
        variables = pairs("EnvironmentVariables", "Variable", ("A", "x" * 1020), ("B", "x" * (1023 + extra)))
        task = f"<Job {SPACE}><Tasks><Task>{variables}</Task></Tasks></Job>"
        read_job(task)
        if fits:
            read_job(task, strict=True)
        else:
            with pytest.raises(BadRequest, match="2049 characters"):
                read_job(task, strict=True)


@pytest.mark.parametrize(("name", "value", "fits"), [(80, 1024, True), (81, 1, False), (1, 1025, False)])
def test_a_term_has_a_short_name_and_a_longer_value(name: int, value: int, fits: bool) -> None:
    found = text(inside=pairs("ExtendedTerms", "Term", ("n" * name, "v" * value)))
    read_job(found)
    if fits:
        read_job(found, strict=True)
    else:
        with pytest.raises(BadRequest, match="1024"):
            read_job(found, strict=True)
