"""The reference page of job files says what the rows say."""

from pathlib import Path

from documents.job_languages import hpc_xml_reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job-xml.md"


def test_the_tables_of_the_page_are_printed_from_the_rows() -> None:
    _, _, tables = PAGE.read_text().partition("<!-- printed from the rows -->\n")
    assert tables.strip() == hpc_xml_reference().strip()
