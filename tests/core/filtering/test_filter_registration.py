"""The text that registers filters: what it means, and where it is wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.filtering import Filter, chain_for, read_filters
from headnode.core.model.errors import BadRequest


def test_one_program_is_what_hpc_pack_writes() -> None:
    assert read_filters("/opt/filters/names.sh") == (Filter(program=("/opt/filters/names.sh",)),)
    assert read_filters("") == read_filters(" ; ") == ()


def test_several_filters_keep_their_order_options_and_arguments() -> None:
    found = read_filters("/a -x 'y;z'; dialect=ccs revert=no RULES=ccs '/b c'; template=Big plugin:quota")
    assert found == (
        Filter(program=("/a", "-x", "y;z")),
        Filter(program=("/b c",), dialect="ccs", rules="ccs", reverts=False),
        Filter(plug_in="quota", dialect="native-json", template="Big"),
    )
    assert [each.name for each in found] == ["a", "b c", "quota"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("names.sh", "names.sh"),
        ("dialect=perl /a", "perl"),
        ("colour=red /a", "colour=red"),
        ("template=A template=B /a", "template=B"),
        ("plugin:", "plugin:"),
        ("plugin:a b", "plugin:a b"),
        ("dialect=ccs", "dialect=ccs"),
        ("/a 'b", "/a 'b"),
    ],
)
def test_what_is_wrong_is_named_with_a_way_out(text: str, named: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_filters(text)
    assert refused.value.code == "filter"
    assert named in refused.value.what
    assert refused.value.fix


def test_a_job_passes_its_template_first_and_then_the_cluster() -> None:
    own = (Filter(program=("/of-template",)),)
    chain = chain_for("template=Big /big; /all", "big", own)
    assert [each.name for each in chain] == ["of-template", "big", "all"]
    assert [each.name for each in chain_for("template=Big /big; /all", "Small")] == ["all"]


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadRequest):
        assert all(each.program or each.plug_in for each in read_filters(text))
