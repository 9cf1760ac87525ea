"""Limits of users, projects and groups as text: what is read, and that a refusal names the entry."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.bounds import LIMITED_OWNERS, NAME, OWNER_LIMIT
from headnode.core.model.errors import BadRequest
from headnode.core.model.owner_limits import (
    UNLIMITED,
    LimitedAmount,
    LimitOwner,
    LimitScope,
    entry_of,
    groups_in,
    limit_owner,
    limits_of,
    read_owner_limits,
)

JOBS, PROCESSORS = LimitedAmount.JOBS, LimitedAmount.PROCESSORS
NAMES = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters=";"), min_size=1, max_size=12)
LIMITS = st.dictionaries(
    st.sampled_from([*LimitedAmount]), st.none() | st.integers(0, OWNER_LIMIT.most), min_size=1
)


def written(entries: dict[str, dict[LimitedAmount, int | None]]) -> str:
    """Return the text of limits."""
    return ";".join(
        f"{name}:" + ",".join(f"{amount}={UNLIMITED if n is None else n}" for amount, n in limits.items())
        for name, limits in entries.items()
    )


@given(st.dictionaries(NAMES, LIMITS, max_size=5))
def test_what_is_written_is_read(entries: dict[str, dict[LimitedAmount, int | None]]) -> None:
    assert read_owner_limits(written(entries)) == entries
    spaced = written(entries).replace(";", " ;\n ").replace("=", " = ") if "=" not in "".join(entries) else ""
    assert not spaced or read_owner_limits(spaced) == entries


@given(st.text(max_size=60) | st.text("ab*:;,= 0123jobsunlimted", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = {}
    with contextlib.suppress(BadRequest):
        found = read_owner_limits(text)
    assert all(name.strip() == name and name and found[name] for name in found)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ann", "'ann'"),
        ("ann;bob:jobs=1", "'ann'"),
        (":jobs=1", "':jobs=1'"),
        ("ann:", "'ann'"),
        ("ann:jobs", "'ann'"),
        ("ann:jobs=", "'ann'"),
        ("ann:jobs=-1", "'-1'"),
        ("ann:jobs=1.5", "'1.5'"),
        ("ann:jobs=1_000", "'1_000'"),
        ("ann:jobs=1e3", "'1e3'"),
        ("ann:jobs=٣", "'٣'"),
        ("ann:jobs=²", "'²'"),
        ("ann:jobs=None", "'None'"),
        ("ann:jobs=Unlimited", "'Unlimited'"),
        ("ann:jobs=1000000001", "'1000000001'"),
        ("ann:Jobs=1", "'Jobs=1'"),
        ("ann:cores=1", "'cores=1'"),
        ("ann:jobs=1,", "'ann'"),
        ("ann:jobs=10,000", "'000' is a number without an amount"),
        ("ann:jobs=1,jobs=2", "'jobs'"),
        ("ann:jobs=1;bob:jobs=1;ann:gpus=2", "'ann'"),
        ("ann:jobs=1,bob:jobs=2", "'ann:jobs=1,bob:jobs=2'"),
        ("ann:jobs=1 bob:gpus=2", "'ann:jobs=1 bob:gpus=2'"),
        ("ann\0:jobs=1", "'ann\\x00'"),
        ("an\nn:jobs=1", "'an\\nn'"),
        (f"{'x' * (NAME.most + 1)}:jobs=1", "'xxx"),
    ],
)
def test_a_refusal_names_the_entry(text: str, named: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_owner_limits(text)
    assert (refused.value.code, named in refused.value.what) == ("limits", True), refused.value.what


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, f"ann:jobs={'9' * 100_000}", f"{'x' * 1_000_000}:cores=1", f"ann:{'=' * 99_999}"],
)
def test_a_refusal_of_a_long_text_is_short(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_owner_limits(text)
    assert len(refused.value.what) + len(refused.value.fix) < 500


def test_entries_are_bounded() -> None:
    text = ";".join(f"u{number}:jobs=1" for number in range(LIMITED_OWNERS.most + 1))
    with pytest.raises(BadRequest, match=r"10,001 entries"):
        read_owner_limits(text)
    assert len(read_owner_limits(text.removeprefix("u0:jobs=1;"))) == LIMITED_OWNERS.most


def test_a_name_may_have_colons_commas_blanks_and_equals_signs() -> None:
    for name in ("a:b", "a,b", "a b", "a=b", "jobs", "*a"):
        assert read_owner_limits(f"{name}:jobs=1") == {name: {JOBS: 1}}


@given(st.sampled_from([*LimitScope]), NAMES, st.sampled_from([*LimitedAmount]))
def test_a_key_leads_back_to_its_owner(scope: LimitScope, name: str, amount: LimitedAmount) -> None:
    owner = LimitOwner(scope, f"{name},{name}", amount)
    assert limit_owner(owner.key) == owner


def test_an_entry_overrides_that_of_everybody_amount_by_amount_and_only_for_its_own_spelling() -> None:
    entries = read_owner_limits("*:jobs=2,processors=8;ann:jobs=unlimited;bob:processors=0")
    assert limits_of(entries, "ann") == {PROCESSORS: 8}
    assert limits_of(entries, "bob") == {JOBS: 2, PROCESSORS: 0}
    assert limits_of(entries, "Ann") == limits_of(entries, "zoe") == {JOBS: 2, PROCESSORS: 8}


def by_the_rule(entries: dict[str, dict[LimitedAmount, int | None]], groups: list[str]) -> int | None:
    """Return how many jobs `ann` may have: the specification of `limits_of` for one amount.  None: any."""
    if JOBS in entries.get("ann", {}):
        return entries["ann"][JOBS]
    of_groups = [
        entries[f"@{group}"][JOBS]
        for group in groups
        if f"@{group}" in entries and JOBS in entries[f"@{group}"]
    ]
    if of_groups:
        known = [limit for limit in of_groups if limit is not None]
        return max(known) if len(known) == len(of_groups) else None
    return entries.get("*", {}).get(JOBS)


@pytest.mark.parametrize("groups", [[], ["a"], ["b"], ["a", "b"]])
@pytest.mark.parametrize("every", [None, {JOBS: 5}])
@pytest.mark.parametrize("own", [None, {JOBS: 1}, {JOBS: None}, {PROCESSORS: 4}])
def test_the_own_entry_counts_then_the_largest_of_a_group_then_that_of_everybody(
    own: dict[LimitedAmount, int | None] | None,
    every: dict[LimitedAmount, int | None] | None,
    groups: list[str],
) -> None:
    choices: list[dict[LimitedAmount, int | None] | None] = [None, {JOBS: 2}, {JOBS: 3}, {JOBS: None}]
    for of_a, of_b in itertools.product(choices, choices):
        given = {"ann": own, "*": every, "@a": of_a, "@b": of_b}
        entries = {name: limits for name, limits in given.items() if limits is not None}
        expected = by_the_rule(entries, groups)
        assert limits_of(entries, "ann", groups).get(JOBS) == expected, (entries, groups)
        entry = entry_of(entries, "ann", groups, JOBS)
        assert entry not in entries or entries[entry].get(JOBS) == expected
        assert entry in ("ann", "*", *(f"@{group}" for group in groups))


def test_the_groups_that_limits_ask_for_are_those_of_members_and_those_that_count_together() -> None:
    users, groups = read_owner_limits("*:jobs=1;@a:jobs=2;ann:jobs=3"), read_owner_limits("b:jobs=1")
    projects = read_owner_limits("@c:jobs=1")
    entries = {LimitScope.USER: users, LimitScope.PROJECT: projects, LimitScope.GROUP: groups}
    assert groups_in(entries) == {"a", "b"}
