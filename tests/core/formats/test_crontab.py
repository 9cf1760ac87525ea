"""Tables of recurring jobs: entries with their options and variables, and bounds of what is read."""

import time

import pytest

from headnode.core.formats.batch.crontab import read_table
from headnode.core.model.errors import BadRequest


def test_options_are_those_of_the_next_entry_and_variables_of_all_below() -> None:
    table = (
        "#SCRON -t 5\n#SCRON -J 'a b' # why\n@daily one\nX=1\nCRON_TZ='Asia/Tokyo'\n* * * * mon two  three\n"
    )
    first, second = read_table(table)
    assert first == (3, "@daily", "one", ("-t", "5", "-J", "a b"), {}, "")
    assert second == (6, "* * * * mon", "two  three", (), {"X": "1"}, "Asia/Tokyo")
    assert list(read_table("# none\n#SCRONTAB is no option\n\n")) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("@daily true\n" * 1001, 1001),
        ("".join(f"V{number}=x\n" for number in range(1_001)), 1001),
        ("#SCRON " + "x " * 100_000, 1),
        ("#SCRON -t 5\n" * 100_000, 5958),
    ],
)
def test_a_table_that_is_too_large_is_refused_soon(text: str, line: int) -> None:
    began = time.process_time()
    with pytest.raises(BadRequest) as refused:
        list(read_table(text))
    assert refused.value.code == "crontab"
    assert refused.value.place is not None
    assert refused.value.place.line == line
    assert time.process_time() - began < 2.0
