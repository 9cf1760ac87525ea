"""The security page names what shows each of its claims, and what it names exists."""

import re
from pathlib import Path

from documents.bounds_page import bounds_tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`([a-z_/0-9]+)::(test_[a-z_0-9]+)`")


def rows() -> list[list[str]]:
    """Return the cells of each row of the table of attacks."""
    _, _, section = PAGE.read_text().partition("## Attacks\n")
    table = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_every_attack_has_a_test_that_exists() -> None:
    assert len(rows()) > 15
    for attack, _, tests in rows():
        named = NAMED.findall(tests)
        assert named, attack
        for file, test in named:
            source = (ROOT / "tests" / f"{file}.py").read_text()
            assert f"def {test}(" in source, f"{file}::{test}"


def test_the_bounds_of_the_page_are_printed_from_the_table() -> None:
    _, _, tables = PAGE.read_text().partition("<!-- printed from headnode.core.model.bounds -->\n")
    assert tables.strip() == bounds_tables().strip()
