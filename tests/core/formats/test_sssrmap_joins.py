"""A query of several kinds of objects tells what a plain loop over all pairs of them tells."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.core.formats.sss.sssrmap import joins
from headnode.core.formats.sss.sssrmap.conditions import compares
from headnode.core.formats.sss.sssrmap.joins import JoinSide, answer_join
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    RmapRequest,
    canonical,
    leaf,
    parsed,
    read_request,
    text_of,
    write_request,
)
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import Bound

MANY = settings(max_examples=share_of(400), deadline=None)
WORDS = st.sampled_from(["ann", "bob", "Ann", "10", "10.0", "9", ""])
OPS = ("", "EQ", "NE", "GT", "LE", "Match")
JOBS = st.lists(st.fixed_dictionaries({"User": WORDS, "Priority": WORDS}), max_size=6)
USERS = st.lists(st.fixed_dictionaries({"Name": WORDS, "Jobs": WORDS}), max_size=5)


def side(kind: str, objects: list[dict[str, str]]) -> JoinSide:
    return JoinSide(kind, [XmlElement(kind, {}, [leaf(*one) for one in each.items()]) for each in objects])


def asked(**fields: Any) -> RmapRequest:
    return RmapRequest(**{"action": "Query", "actor": "ann", "objects": ("Job", "User"), **fields})


@st.composite
def conditions(draw: st.DrawFn) -> list[RmapField]:
    """Draw conditions of one kind, and between both, without brackets."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        of_job = draw(st.booleans())
        own, other = (("User", "Priority"), ("Name", "Jobs"))[:: 1 if of_job else -1]
        joins_both = draw(st.booleans())
        found.append(
            RmapField(
                object=draw(st.sampled_from(("Job", ""))) if of_job else "User",
                name=draw(st.sampled_from(own)),
                op=draw(st.sampled_from(OPS)),
                conj=draw(st.sampled_from(("", "And", "And", "Or", "AndNot"))),
                subject=("User" if of_job else "Job") if joins_both else "",
                value=draw(st.sampled_from(other)) if joins_both else draw(WORDS),
            )
        )
    return found


def holds(where: RmapField, job: dict[str, str], user: dict[str, str]) -> bool:
    own, other = (user, job) if where.object == "User" else (job, user)
    wanted = other[where.value] if where.subject else where.value
    return compares(own[where.name], where.op or "EQ", wanted)


@MANY
@given(JOBS, USERS, conditions())
def test_a_join_finds_the_pairs_that_a_plain_loop_finds(
    jobs: list[dict[str, str]], users: list[dict[str, str]], wheres: list[RmapField]
) -> None:
    def fulfils(job: dict[str, str], user: dict[str, str]) -> bool:
        words = []
        for place, where in enumerate(wheres):
            conj = where.conj.lower() or "and"
            words += [conj.removesuffix("not")] if place else []
            words += ["not"] if conj.endswith("not") else []
            words += [str(holds(where, job, user))]
        return bool(eval(" ".join(words))) if words else True

    wanted = [(job["User"], user["Name"]) for job in jobs for user in users if fulfils(job, user)]
    gets = (RmapField(name="User"), RmapField(name="Name", object="User"))
    found = answer_join(asked(gets=gets, wheres=tuple(wheres)), [side("Job", jobs), side("User", users)])
    assert [(text_of(row, "User"), text_of(row, "Name")) for row in found] == wanted


def test_rows_have_the_names_of_both_objects_and_the_order_of_the_request() -> None:
    sides = [
        side("Job", [{"Id": "1", "User": "ann"}, {"Id": "2", "User": "bob"}]),
        side("User", [{"Name": "ann", "Jobs": "3"}, {"Name": "bob", "Jobs": "1"}]),
    ]
    where = RmapField(name="User", object="Job", subject="U", value="Name")
    gets = (
        RmapField(name="Jobs", object="U", op="Sort"),
        RmapField(name="Id", object="Job", alias="Number"),
    )
    request = asked(aliases=("", "U"), wheres=(where,), gets=gets)
    assert [canonical(row) for row in answer_join(request, sides)] == [
        "<Job_User><Jobs>1</Jobs><Number>2</Number></Job_User>",
        "<Job_User><Jobs>3</Jobs><Number>1</Number></Job_User>",
    ]
    assert canonical(answer_join(asked(aliases=("", "U"), wheres=(where,)), sides)[0]) == (
        "<Job_User><Id>1</Id><User>ann</User><Name>ann</Name><Jobs>3</Jobs></Job_User>"
    )
    grouped = (RmapField(name="Name", object="U", op="GroupBy"), RmapField(name="Id", op="Count"))
    rows = answer_join(asked(aliases=("", "U"), wheres=(where,), gets=grouped), sides)
    assert [canonical(row) for row in rows] == [
        "<Job_User><Name>ann</Name><Id>1</Id></Job_User>",
        "<Job_User><Name>bob</Name><Id>1</Id></Job_User>",
    ]


def test_amounts_with_units_are_joined_by_what_they_are() -> None:
    def node(text: str) -> XmlElement:
        return parsed(f"<Node>{text}</Node>")

    sides = [
        JoinSide("Node", [node('<Memory units="GB">2</Memory>')]),
        JoinSide("Queue", [node('<Memory units="MB">2048</Memory>')]),
    ]
    where = RmapField(name="Memory", subject="Queue", value="Memory")
    assert len(answer_join(asked(objects=("Node", "Queue"), wheres=(where,)), sides)) == 1


def test_a_subject_that_is_no_object_of_the_request_is_a_part_of_the_value() -> None:
    sides = [side("Job", [{"Id": "PBS.1234.0"}]), side("User", [{"Name": "ann"}])]
    assert len(answer_join(asked(wheres=(RmapField(name="Id", subject="PBS", value="1234.0"),)), sides)) == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"objects": (), "wheres": (RmapField(name="User"),)}, StatusCode.NO_OBJECT),
        ({"joins": ("", "LEFT JOIN")}, StatusCode.COMBINATION),
        ({"gets": (RmapField(name="Name", object="Moon"),)}, StatusCode.WRONG_OBJECT),
        ({"wheres": (RmapField(name="Name", object="Moon"),)}, StatusCode.WRONG_OBJECT),
        ({"wheres": (RmapField(name="User", subject="User", value="a b"),)}, StatusCode.WRONG_ATTRIBUTE),
        ({"wheres": (RmapField(name="User", subject="User", value="Name", op="LIKE"),)}, StatusCode.OPERATOR),
    ],
)
def test_a_wrong_join_is_refused_with_its_code(fields: dict[str, Any], status: StatusCode) -> None:
    with pytest.raises(MessageFault) as refused:
        answer_join(asked(**fields), [side("Job", [{"User": "ann"}]), side("User", [{"Name": "ann"}])])
    assert refused.value.status is status


def test_a_join_of_too_many_rows_is_refused_and_an_equal_property_makes_it_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "RMAP_JOINED", Bound("rows", 50, "rows", "a test"))
    sides = [
        side("Job", [{"User": str(number)} for number in range(30)]),
        side("User", [{"Name": str(number)} for number in range(30)]),
    ]
    with pytest.raises(MessageFault) as refused:
        answer_join(asked(), sides)
    assert refused.value.status is StatusCode.TOO_LARGE
    where = RmapField(name="Name", object="User", subject="Job", value="User")
    assert len(answer_join(asked(wheres=(where,)), sides)) == 30


def test_objects_with_an_alias_and_a_join_are_written_and_read_back() -> None:
    request = asked(aliases=("J", ""), joins=("", "cross join"))
    assert read_request(write_request(request)) == request
