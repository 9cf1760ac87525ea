"""What is requested in SSS is worked out as it is written: every small request, against every small world."""

import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

import pytest

from headnode.core.formats.sss import SssJob, read_document, request_of
from headnode.core.formats.sss.constraints import (
    Comparison,
    Constraint,
    Fact,
    Facts,
    can_hold,
    holds,
    whole_range,
)
from headnode.core.formats.sss.expressions import (
    MAX_ALTERNATIVES,
    MAX_DENIALS,
    AllOf,
    ConstraintSet,
    RequestProperties,
    alternatives_of,
    expression_of,
    ways_of,
)
from headnode.core.formats.sss.job_object import Task
from headnode.core.formats.sss.properties import (
    Aggregation,
    Conj,
    Consumable,
    Extension,
    Op,
    Resource,
    Selection,
    SssCategory,
    SssProperty,
    UnknownElement,
)
from headnode.core.model.errors import BadRequest

NAMES = ("Queue", "Machine", "Partition", "Project")
TIGHT = (Conj.AND, Conj.NAND, Conj.AND_NOT)
JOINED: dict[Conj, Callable[[bool, bool], bool]] = {
    Conj.AND: lambda one, other: one and other,
    Conj.NAND: lambda one, other: not (one and other),
    Conj.AND_NOT: lambda one, other: one and not other,
    Conj.OR: lambda one, other: one or other,
    Conj.NOR: lambda one, other: not (one or other),
    Conj.OR_NOT: lambda one, other: one or not other,
}


def requested(*found: SssProperty) -> tuple[ConstraintSet, ...]:
    return alternatives_of(expression_of(found))


def satisfied(alternatives: Sequence[ConstraintSet], facts: Facts) -> bool:
    return best(alternatives, facts) is not None


def best(alternatives: Sequence[ConstraintSet], facts: Facts) -> ConstraintSet | None:
    """The first alternative that a world fulfils."""
    held = (way for way in alternatives if all(holds(one, facts) for one in way.constraints))
    return next(held, None)


def groupings(number: int, most: int) -> Iterator[tuple[int, ...]]:
    """All signs of groups whose parentheses match."""
    for signs in product(range(-most, most + 1), repeat=number):
        depths = [sum(signs[: end + 1]) for end in range(number)]
        if min(depths) >= 0 and depths[-1] == 0:
            yield signs


def infix(conjs: Sequence[Conj | None], signs: Sequence[int], truth: Sequence[bool]) -> bool:
    """Say it the slow way: split at the last loosest conjunction outside of parentheses, and again."""
    tokens: list[object] = []
    for conj, sign, true in zip(conjs, signs, truth, strict=True):
        tokens += [conj or Conj.AND] if tokens else []
        tokens += ["("] * max(sign, 0) + [true] + [")"] * max(-sign, 0)
    return split(tokens)


def split(tokens: list[object]) -> bool:
    depths, depth = [], 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(str(token), 0)
        depths.append(depth)
    outside = [at for at, token in enumerate(tokens) if isinstance(token, Conj) and depths[at] == 0]
    if not outside:
        return bool(tokens[0]) if len(tokens) == 1 else split(tokens[1:-1])
    loose = [at for at in outside if tokens[at] not in TIGHT]
    at = max(loose or outside)
    conj = tokens[at]
    assert isinstance(conj, Conj)
    return JOINED[conj](split(tokens[:at]), split(tokens[at + 1 :]))


def check_all(conj_choices: Sequence[Conj | None], number: int, most_group: int) -> int:
    """Compare every request of `number` properties with the slow way, in every world."""
    checked = 0
    for signs in groupings(number, most_group):
        for conjs in product(conj_choices, repeat=number):
            if conjs[0] is not conj_choices[0]:
                continue  # nothing stands before the first
            found = [
                SssProperty(name=name, value="yes", conj=conj, group=sign)
                for name, conj, sign in zip(NAMES, conjs, signs, strict=False)
            ]
            alternatives = requested(*found)
            for truth in product((True, False), repeat=number):
                facts = {(name,): "yes" if true else "no" for name, true in zip(NAMES, truth, strict=False)}
                assert satisfied(alternatives, facts) is infix(conjs, signs, truth), (conjs, signs, truth)
                checked += 1
    return checked


def test_three_properties_mean_what_is_written_whatever_joins_and_groups_them() -> None:
    assert check_all((None, *Conj), 3, 2) > 3_000


def test_four_properties_mean_what_is_written() -> None:
    assert check_all((Conj.AND, Conj.OR, Conj.NAND), 4, 1) > 3_000


OPS: dict[Op, Callable[[Fraction, Fraction], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
WORLDS = [Fraction(half, 2) for half in range(9)]


def test_two_comparisons_of_one_name_are_a_range_and_joined_by_or_a_choice() -> None:
    for (one, first), (other, second) in product(product(OPS, (1, 2)), product(OPS, (1, 2, 3))):
        for conj in (None, Conj.OR):
            found = [
                Consumable(name="Processors", value=first, op=one),
                Consumable(name="Processors", value=second, op=other, conj=conj),
            ]
            alternatives = requested(*found)
            for world in WORLDS:
                both = OPS[one](world, Fraction(first)), OPS[other](world, Fraction(second))
                right = any(both) if conj else all(both)
                assert satisfied(alternatives, {("Processors",): world}) is right, (found, world)


def test_whole_ranges_hold_exactly_the_counts_that_two_comparisons_leave() -> None:
    comparisons = [one for one in Comparison if one.value in ("==", "<", "<=", ">", ">=")]
    wishes = [
        Constraint(("Processors",), one, value) for one in comparisons for value in (1, Fraction(5, 2), 3)
    ]
    for one, other in product(wishes, repeat=2):
        left = [count for count in range(8) if all(holds(c, {("Processors",): count}) for c in (one, other))]
        least, most = whole_range((one, other), "Processors")
        assert left == [count for count in range(8) if least <= count <= most], (one, other)


def test_what_contradicts_itself_is_left_out_and_nothing_else() -> None:
    values: list[Constraint] = [
        Constraint(("Queue",), comparison, value)
        for comparison, value in [
            (Comparison.EQ, "a"),
            (Comparison.EQ, "b"),
            (Comparison.NE, "a"),
            (Comparison.IN, ("a", "b")),
            (Comparison.NOT_IN, ("a", "b")),
            (Comparison.MATCH, "[ab]"),
            (Comparison.NO_MATCH, "a.*"),
        ]
    ]
    for three in product(values, repeat=3):
        able = any(all(holds(one, {("Queue",): fact}) for one in three) for fact in ("a", "b", "c"))
        named = any(one.comparison in (Comparison.EQ, Comparison.IN) for one in three)
        assert can_hold(three) is able or not named, three


def test_numbers_that_cannot_be_are_left_out() -> None:
    def numbers(*pairs: tuple[Comparison, int]) -> bool:
        return can_hold([Constraint(("Memory",), comparison, value) for comparison, value in pairs])

    assert not numbers((Comparison.GE, 3), (Comparison.LE, 2))
    assert not numbers((Comparison.GT, 2), (Comparison.LE, 2))
    assert not numbers((Comparison.GE, 2), (Comparison.LT, 2))
    assert numbers((Comparison.GE, 2), (Comparison.LE, 2))
    assert not numbers((Comparison.EQ, 1), (Comparison.EQ, 2))
    assert numbers((Comparison.GT, 1), (Comparison.GE, 2), (Comparison.LT, 3), (Comparison.LE, 9))


def test_every_comparison_has_its_opposite() -> None:
    facts: list[Fact] = ["a", "b", 1, Fraction(3, 2), frozenset({"a"}), frozenset({"a", "b"}), frozenset()]
    for comparison, value in product(Comparison, ("a", "[ab]", 1, ("a", "c"))):
        if comparison.value in ("<", ">=", "<=", ">"):
            continue
        one = Constraint(("Feature",), comparison, value)
        for fact in facts:
            assert holds(one, {("Feature",): fact}) is not holds(one.denied, {("Feature",): fact})
        assert one.denied.denied == one


def test_numbers_and_texts_are_in_no_order() -> None:
    for comparison in (Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE):
        assert not holds(Constraint(("Queue",), comparison, 1), {("Queue",): "1"})
        assert not holds(Constraint(("Queue",), comparison, ("a",)), {("Queue",): "b"})


def test_of_what_is_not_known_only_denials_hold() -> None:
    known = {one for one in Comparison if holds(Constraint(("Queue",), one, "a"), {})}
    assert known == {Comparison.NE, Comparison.NO_MATCH, Comparison.NOT_IN}


def memory(megabytes: int, preference: int = 0, conj: Conj | None = None, group: int = 0) -> Consumable:
    return Consumable(name="Memory", value=float(megabytes), preference=preference, conj=conj, group=group)


def choices(alternatives: Sequence[ConstraintSet]) -> list[tuple[list[str], int]]:
    return [([str(one) for one in way.constraints], way.weight) for way in alternatives]


@pytest.mark.parametrize("conj", [None, Conj.OR])
def test_one_of_the_alternatives_must_hold_the_preferred_one_first(conj: Conj | None) -> None:
    found = requested(memory(512, 1), memory(1024, 2, conj), SssProperty(name="Queue", value="q"))
    assert choices(found) == [
        ([f"Memory == {1024 * 2**20}", "Queue == q"], 2),
        ([f"Memory == {512 * 2**20}", "Queue == q"], 1),
    ]


def test_a_wish_is_preferred_and_need_not_hold() -> None:
    found = requested(memory(512, -1), memory(1024, -2))
    assert [weight for _, weight in choices(found)] == [2, 1, 0]
    assert found[-1].constraints == ()


def test_preferences_of_different_names_add_up() -> None:
    nodes = [Selection(name="Node", value=name, preference=weight) for name, weight in (("a", 5), ("b", 1))]
    found = requested(memory(512, 3), memory(1024, 2), *nodes)
    assert [weight for _, weight in choices(found)] == [8, 7, 4, 3]


def test_parentheses_make_alternatives_of_several_properties() -> None:
    found = requested(
        memory(1, 1, None, 1),
        Consumable(name="Processors", value=4, group=-1),
        memory(2, 2, Conj.OR, 1),
        Consumable(name="Processors", value=2, group=-1),
    )
    assert choices(found) == [
        ([f"Memory == {2 * 2**20}", "Processors == 2"], 2),
        ([f"Memory == {2**20}", "Processors == 4"], 1),
    ]


def test_alternatives_in_parentheses_are_still_a_set() -> None:
    found = requested(memory(1, 1, None, 1), memory(2, 2, None, -1))
    assert [weight for _, weight in choices(found)] == [2, 1]


def test_the_range_of_the_specification_is_a_range() -> None:
    text = (
        '<Job><Id>1</Id><Requested><Processors op="GE">8</Processors><Processors op="LE">16</Processors>'
        "<Duration>3600</Duration></Requested></Job>"
    )
    (job,) = read_document(text)[0].entries
    assert isinstance(job, SssJob)
    (only,) = request_of(job)
    assert whole_range(only.constraints, "Processors") == (8, 16)
    assert whole_range(only.constraints, "NodeCount").least == 0
    assert [str(one) for one in only.constraints] == [
        "Processors >= 8", "Processors <= 16", "Duration == 3600.0",
    ]  # fmt: skip


def test_the_choice_of_people_of_the_specification_is_two_conjunctions() -> None:
    text = (
        '<Job><Id>1</Id><Requested><User group="1">scott</User><Account group="-1">ops</Account>'
        '<User conj="Or" group="1">amy</User><Account group="-1">chemistry</Account></Requested></Job>'
    )
    (job,) = read_document(text)[0].entries
    assert isinstance(job, SssJob)
    assert choices(request_of(job)) == [
        (["User == scott", "Project == ops"], 0),
        (["User == amy", "Project == chemistry"], 0),
    ]


def test_what_stands_outside_of_categories_is_requested_too_unless_it_is_inside() -> None:
    outside = (
        SssProperty(name="Executable", value="a"),
        Consumable(name="Processors", value=4),
        SssProperty(name="Queue", value="q"),
    )
    inside = SssCategory(properties=(Consumable(name="Processors", value=8, op=Op.GE),))
    assert choices(request_of(Task(properties=outside, requested=inside))) == [
        (["Queue == q", "Processors >= 8"], 0)
    ]
    assert choices(request_of(Task())) == [([], 0)]


def node(value: str, **more: object) -> Selection:
    return Selection(name="Node", value=value, **more)


def on(name: str, *features: str) -> Facts:
    return {("Node",): name, ("Feature",): frozenset(features)}


def test_neighbouring_nodes_are_a_list_and_may_hold_patterns() -> None:
    found = requested(
        node("a"), node("b,c", aggregation=Aggregation.LIST), node("n[1-3]", aggregation=Aggregation.PATTERN)
    )
    assert [satisfied(found, on(name)) for name in ("a", "b", "c", "n2", "n4", "d")] == [True] * 4 + [
        False
    ] * 2


def test_nodes_may_be_denied_by_name_by_list_and_by_pattern() -> None:
    found = requested(
        node("a", op=Op.NE),
        node("b,c", op=Op.NE, aggregation=Aggregation.LIST),
        node("n.*", op=Op.NE, aggregation=Aggregation.PATTERN),
    )
    assert [satisfied(found, on(name)) for name in ("a", "b", "c", "n2", "d")] == [False] * 4 + [True]


def test_a_node_must_have_every_feature_of_a_list_and_of_neighbours() -> None:
    listed = Selection(name="Feature", value="fast, big", aggregation=Aggregation.LIST)
    found = requested(listed, Selection(name="Feature", value="gr.*", aggregation=Aggregation.PATTERN))
    worlds = [("fast", "big", "green"), ("fast", "big"), ("fast", "green"), ()]
    assert [satisfied(found, on("a", *world)) for world in worlds] == [True, False, False, False]


def test_a_node_must_have_none_of_the_features_that_are_denied() -> None:
    found = requested(Selection(name="Feature", value="a,b", op=Op.NE, aggregation=Aggregation.LIST))
    assert [satisfied(found, on("x", *world)) for world in [("a",), ("b", "c"), ("c",), ()]] == [
        False, False, True, True,
    ]  # fmt: skip


def test_resources_are_distinguished_by_name_and_type() -> None:
    found = requested(
        Resource(name="Resource", called="License", type="MATLAB", value=1.0),
        Resource(name="Resource", called="License", type="ESSL", value=2.0, op=Op.GE),
    )
    assert choices(found) == [(["Resource License MATLAB == 1", "Resource License ESSL >= 2"], 0)]


def test_what_is_not_set_or_not_understood_asks_for_nothing() -> None:
    silent = (
        Consumable(name="Memory"),
        UnknownElement(name="Odd", xml="<Odd/>"),
        Extension(name="Extension"),
        UnknownElement(name="Odd", xml="<Odd/>"),
    )
    assert choices(requested(*silent)) == [([], 0)]


def test_what_asks_for_nothing_takes_its_conjunction_with_it_and_keeps_its_parentheses() -> None:
    nothing = Consumable(name="Processors", conj=Conj.OR)
    assert choices(requested(memory(1), nothing)) == [([f"Memory == {2**20}"], 0)]
    assert choices(requested(SssProperty(name="Queue", value="", group=1), memory(1, 0, Conj.OR, -1))) == [
        ([f"Memory == {2**20}"], 0)
    ]
    denied = requested(memory(1), SssProperty(name="Queue", conj=Conj.NAND, group=1), memory(2, group=-1))
    assert choices(denied) == [([f"Memory != {2**20}"], 0), ([f"Memory != {2 * 2**20}"], 0)]
    empty = [SssProperty(name="Queue", group=1), SssProperty(name="Machine", group=-1, conj=Conj.NOR)]
    assert choices(requested(*empty, memory(1, conj=Conj.NAND))) == [([f"Memory == {2**20}"], 0)]
    unset = [Consumable(name="Memory", preference=2), Consumable(name="Memory", preference=1)]
    assert choices(requested(*unset)) == [([], 0)]
    assert choices(requested(Consumable(name="Memory", preference=2), memory(1, 1))) == [
        ([f"Memory == {2**20}"], 1)
    ]
    assert choices(requested(node(""), node(""))) == [([], 0)]


def test_texts_are_compared_by_pattern_too() -> None:
    found = requested(SssProperty(name="OperatingSystem", value="Linux|BSD", op=Op.MATCH))
    assert [satisfied(found, {("OperatingSystem",): name}) for name in ("Linux", "BSD", "Linux2")] == [
        True, True, False,
    ]  # fmt: skip


def test_an_alternative_that_comes_twice_is_tried_once_for_its_best_weight() -> None:
    assert [way.weight for way in requested(memory(1, 1), memory(1, 3))] == [3]


def test_a_request_that_contradicts_itself_has_no_alternative() -> None:
    assert requested(memory(1), memory(2)) == ()


def test_requests_that_would_explode_are_refused() -> None:
    found = [
        SssProperty(name="Queue", value=f"{one}{way}", conj=Conj.OR if way else None, group=(1, -1)[way])
        for one in range(12)
        for way in (0, 1)
    ]
    with pytest.raises(BadRequest, match="more than 1000 ways"):
        requested(*found)
    many = [SssProperty(name="Queue", value=str(one), conj=Conj.OR) for one in range(MAX_ALTERNATIVES + 1)]
    with pytest.raises(BadRequest, match="more than 1000 ways"):
        requested(*many)
    assert len(requested(*many[:-1])) == MAX_ALTERNATIVES


def test_requests_that_deny_too_much_are_refused() -> None:
    found = [SssProperty(name="Queue", value=str(one), conj=Conj.NAND) for one in range(MAX_DENIALS + 1)]
    assert requested(*found[1:])
    with pytest.raises(BadRequest, match="51 of Nand, Nor"):
        requested(*found)


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -2), (2, -1)])
def test_parentheses_that_do_not_match_are_refused(signs: tuple[int, ...]) -> None:
    with pytest.raises(BadRequest, match="do not match"):
        requested(
            *(SssProperty(name=name, value="a", group=sign) for name, sign in zip(NAMES, signs, strict=False))
        )


def test_a_list_of_wishes_is_what_the_algebra_makes_of_it() -> None:
    """Requests that need no algebra go another way: both ways say the same, in every small request."""
    wishes = [
        memory(1),
        memory(2),
        Consumable(name="Memory", value=2.0, op=Op.GE),
        node("a"),
        node("a,b", aggregation=Aggregation.LIST),
        node("n.*", aggregation=Aggregation.PATTERN),
        node("a", op=Op.NE),
        Selection(name="Feature", value="a, b", aggregation=Aggregation.LIST),
        Selection(name="Feature", value=" , ", aggregation=Aggregation.LIST),
        Resource(name="Resource", called="License", type="x", value=1.5),
        SssProperty(name="Queue"),
        SssProperty(name="Queue", value=""),
        UnknownElement(name="Odd", xml="<Odd/>"),
        Consumable(name="Processors", value=2, conj=Conj.AND),
        SssProperty(name="Queue", value="q", conj=Conj.OR),
    ]
    for found in product(wishes, repeat=3):
        for inside in ((), found[2:]):
            outside = found[: 3 - len(inside)]
            algebra = alternatives_of(AllOf((expression_of(outside), expression_of(inside))))
            assert ways_of(RequestProperties(outside, inside)) == algebra, found


def test_the_best_alternative_that_holds_is_taken() -> None:
    found = requested(memory(512, 1), memory(1024, 2))
    taken = [best(found, {("Memory",): size * 2**20}) for size in (512, 1024, 1)]
    assert [way and way.weight for way in taken] == [1, 2, None]
    assert all(one.weight >= other.weight for one, other in pairwise(found))
