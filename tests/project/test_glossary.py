"""The glossary says what the docstrings say, and every public class says what it is."""

import os
from pathlib import Path

from documents.glossary import PLACES, SOURCE, classes_below, glossary_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"


def test_the_glossary_is_printed_from_the_docstrings() -> None:
    if os.environ.get("HEADNODE_BLESS"):
        PAGE.write_text(glossary_page())
    assert PAGE.read_text() == glossary_page(), "make bless prints it again"


def test_every_public_class_says_what_it_is() -> None:
    silent = [name for place in PLACES for name, text, _ in classes_below(SOURCE / place) if not text]
    assert silent == []
