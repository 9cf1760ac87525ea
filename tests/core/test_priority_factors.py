"""Weights and shares are read as they are written, and what is wrong is named with its entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.bounds import LIMITED_OWNERS, PRIORITY_WEIGHT, SHARE
from headnode.core.model.errors import BadRequest
from headnode.core.model.priority_factors import (
    PROJECT_SHARES,
    USER_SHARES,
    PriorityFactor,
    Shares,
    read_shares,
    read_weights,
    shares_of,
)

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=";:/"), min_size=1
)


@given(st.dictionaries(st.sampled_from([*PriorityFactor]), st.integers(0, PRIORITY_WEIGHT.most)))
def test_weights_are_read_as_they_are_written(weights: dict[PriorityFactor, int]) -> None:
    text = " , ".join(f"{factor}= {number}" for factor, number in weights.items())
    assert read_weights(text) == weights


@given(st.dictionaries(NAMES, st.integers(0, SHARE.most)))
def test_shares_are_read_as_they_are_written(shares: dict[str, int]) -> None:
    text = "; ".join(f"{name}:{number}" for name, number in shares.items())
    assert read_shares(text, USER_SHARES) == shares


@given(st.text(alphabet=st.sampled_from(" =:;,-*/0123456789abcfhirsz\x00é²")))
def test_no_text_fails_but_with_an_error_that_names_the_parameter_and_a_way(text: str) -> None:
    found = []
    for read in (lambda: read_weights(text), lambda: read_shares(text, PROJECT_SHARES)):
        try:
            read()
        except BadRequest as wrong:
            found.append(wrong)
    assert all(each.code == "parameter-value" and each.fix for each in found)
    assert all(each.what.startswith(("PriorityWeights is", "ProjectShares is")) for each in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fairshare=1", "'fairshare' is not one of fair-share, age, size"),
        ("age=1,age=2", "'age' is there twice"),
        ("age", "'age' has no number"),
        ("age=-1", "'age' is '-1'"),
        ("age=1.5", "'age' is '1.5'"),
        ("size=-1000000001", "'size' is '-1000000001'"),
        ("fair-share=²", "'fair-share' is '²'"),
    ],
)
def test_a_wrong_weight_is_named(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match="PriorityWeights is not understood") as wrong:
        read_weights(text)
    assert message in wrong.value.what


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ann", "'ann' has no name"),
        (":3", "':3' has no name"),
        ("ann:1;ann:2", "'ann' has two entries"),
        ("ann:", "'ann' has no number"),
        ("ann:-1", "'ann' is '-1'"),
        ("ann:1000001", "'ann' is '1000001'"),
        ("a\x07b:1", r"'a\x07b' cannot be a name"),
    ],
)
def test_a_wrong_share_is_named(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match="UserShares is not understood") as wrong:
        read_shares(text, USER_SHARES)
    assert message in wrong.value.what


def test_only_so_many_users_have_shares_of_their_own() -> None:
    text = ";".join(f"u{number}:1" for number in range(LIMITED_OWNERS.most + 1))
    with pytest.raises(BadRequest, match="10,001 entries"):
        read_shares(text, USER_SHARES)


def test_only_the_weight_of_the_size_may_be_negative() -> None:
    assert read_weights("size=-5") == {PriorityFactor.SIZE: -5}


def test_names_without_an_entry_have_the_share_of_all_others_which_is_one() -> None:
    assert (Shares().of_user("ann", "chem"), Shares().of_project("chem")) == (1, 1)
    shares = shares_of({USER_SHARES: "*:0;a/b/ann:7", PROJECT_SHARES: "*:4;a/b:2"})
    assert (shares.of_user("ann", "a/b"), shares.of_user("ann", "a"), shares.of_user("ann", "")) == (7, 0, 0)
    assert (shares.of_project("a/b"), shares.of_project("a")) == (2, 4)
