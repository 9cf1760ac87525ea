"""The page of the local protocol is printed from the verbs: `make bless` prints it anew."""

import os
from pathlib import Path

from documents.protocol_tables import with_printed_parts

PAGE = Path(__file__).parents[2] / "docs" / "contracts" / "01-local-protocol.md"


def test_verbs_and_objects_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    printed = with_printed_parts(page)
    if os.environ.get("HEADNODE_BLESS"):
        PAGE.write_text(printed)
    else:
        assert page == printed
