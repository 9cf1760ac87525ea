"""The pages about job languages say what the code does."""

import re
from pathlib import Path

import pytest

from headnode.core.formats.dialects import DIALECTS, ReadOptions, convert, read
from headnode.core.model.job_checks import check_job, check_runnable

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "job-languages.md").read_text()
EXAMPLES = re.findall(r"^```(toml|json|xml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FIRST = {"toml": "native", "json": "grid", "xml": "sss"}


def test_the_page_lists_every_dialect() -> None:
    first_table = PAGE.partition("\n## ")[0]
    differ = set(re.findall(r"^\| `([\w.-]+)` \|", first_table, re.MULTILINE)) ^ set(DIALECTS)
    assert not differ, f"docs/job-languages.md needs a row of each job language; these differ: {differ}"


@pytest.mark.parametrize(("fence", "text"), EXAMPLES)
def test_every_example_of_the_page_can_be_submitted(fence: str, text: str) -> None:
    reading = read(text)
    assert reading.dialect == FIRST[fence]
    for spec in reading.jobs:
        check_job(spec)
        check_runnable(spec)


def test_the_report_on_the_page_is_what_is_reported() -> None:
    text = 'project = "p"\nname = "x"\n[[tasks]]\nname = "sort"\ncommand = "a | b"'
    _, _, (_, report) = convert(text, ReadOptions(), "grid")
    for item in report:
        assert f"    {item.where}: {item.what}" in PAGE
