"""Patterns of names mean what regular expressions mean, and never hang."""

import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.patterns import MAX_CHARACTERS, compile_pattern, matching
from headnode.core.model.task import TaskSpec

WORDS = ["".join(signs) for length in range(5) for signs in product("ab1", repeat=length)]
PIECES = """
    a b . [ab] [^a] [a-c1] [b-] []a] (a|b) (?:ab)* (|a) (a*)* a* b+ a? a*? b+? a{2} b{1,2} a{1,} a{0}
    (a{0,2}){2} | \\d \\D \\w \\W \\s \\S \\. a\\+ [\\d] [^\\d] \\-
"""


@given(st.lists(st.sampled_from(PIECES.split()), min_size=1, max_size=6).map("".join))
@settings(max_examples=share_of(500), deadline=None)
def test_a_pattern_matches_what_the_regular_expression_matches(text: str) -> None:
    pattern, judge = compile_pattern(text), re.compile(text)
    assert [word for word in WORDS if pattern.matches(word)] == [
        word for word in WORDS if judge.fullmatch(word)
    ]


@pytest.mark.parametrize(
    ("text", "name", "right"),
    [
        ("fr15n.*", "fr15n03", True),
        ("fr15n.*", "xfr15n03", False),
        ("node[1-5]", "node5", True),
        ("node[1-5]", "node6", False),
        ("^n1$", "n1", True),
        ("n1\\$", "n1$", True),
        ("", "", True),
        ("", "a", False),
        ("\u00e4.", "\u00e4\U0001f600", True),
        ("\\s", "\u2003", True),
    ],
)
def test_all_of_a_name_must_match(text: str, name: str, right: bool) -> None:
    assert compile_pattern(text).matches(name) is right
    assert matching(text, [name]) is right
    assert matching(text, []) is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a(", "it ends too early"),
        ("(a", "it ends too early"),
        ("a)", "a ) has no opening ("),
        ("[ab", "it ends too early"),
        ("a\\", "it ends too early"),
        ("*a", "'*' has no meaning here"),
        ("a|+", "'+' has no meaning here"),
        ("a{2", "a { is not followed by numbers"),
        ("a{x}", "a { is not followed by numbers"),
        ("a{99999999999}", "a { is not followed by numbers"),
        ("a{1001}", "a { is not followed by numbers"),
        ("a{5,2}", "{5,2} is empty"),
        ("[z-a]", "the range z-a is empty"),
        ("(?=a)", "(? is not supported"),
        ("(?P<a>b)", "(? is not supported"),
        ("(a)\\1", "\\1 is not supported"),
        ("\\bn", "\\b is not supported"),
        ("((a{999}){999}){999}", "it is too large"),
        ("(" * 51 + ")" * 51, "its parentheses are nested too deeply"),
        ("a" * (MAX_CHARACTERS + 1), "longer than 500 characters"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        compile_pattern(text)
    assert (refusal.value.code, words in refusal.value.what) == ("pattern", True), refusal.value
    assert refusal.value.fix


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(.*.*.*.*.*)*b", "(a*)*(a*)*b", "((a?){30}){30}b"])
def test_no_pattern_hangs(text: str) -> None:
    begun = time.process_time()
    assert not compile_pattern(text).matches("a" * 255)
    assert time.process_time() - begun < 5


def test_the_patterns_of_a_job_are_bounded_together_as_each_node_is_compared_with_all() -> None:
    small, large = tuple(f"node{number}" for number in range(100)), "(.?){400}"
    check_job(JobSpec(tasks=(TaskSpec(command="x"),), needs=NodeNeeds(patterns=small)))
    for needs in (
        NodeNeeds(patterns=(large,)),
        NodeNeeds(patterns=small, excluded_patterns=small),
        NodeNeeds(feature_patterns=(*small, *small)),
    ):
        for spec in (
            JobSpec(tasks=(TaskSpec(command="x"),), needs=needs),
            JobSpec(tasks=(TaskSpec(command="x", needs=needs),)),
        ):
            with pytest.raises(BadRequest, match="it is too large"):
                check_job(spec)
