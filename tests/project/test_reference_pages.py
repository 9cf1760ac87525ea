"""The reference pages and schemas are printed from the code, and are those of this revision."""

from importlib.resources import files
from pathlib import Path

import pytest

from documents import command_line, job_languages, program_options
from headnode.apps.cli.schemas import MADE, file_name, text_of

PAGES = Path(__file__).parents[2] / "docs" / "reference"
PRINTED = {
    "command-line.md": command_line.reference,
    "job-languages.md": job_languages.reference_page,
    "program-options.md": program_options.reference,
}


@pytest.mark.parametrize("page", PRINTED)
def test_a_reference_page_is_printed_from_the_code(page: str) -> None:
    assert (PAGES / page).read_text() == PRINTED[page](), "run: make bless"


@pytest.mark.parametrize("dialect", MADE)
def test_a_schema_is_what_the_code_makes(dialect: str) -> None:
    text, name = text_of(dialect), file_name(dialect)
    assert (files("headnode.core.formats") / "schemas" / name).read_text() == text, "run: make bless"
    assert (PAGES / name).read_text() == text, "run: make bless"
