"""Any Get and Where over objects finds what a plain filter over the same objects finds."""

import time
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.apps.web.sssrmap.job_queries import job_object
from headnode.core.formats.sss.sssrmap.conditions import compares, condition_of
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    RmapRequest,
    canonical,
    leaf,
    parsed,
    text_of,
)
from headnode.core.formats.sss.sssrmap.paths import find, picked, read_path
from headnode.core.formats.sss.sssrmap.queries import answer_query
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, respelling
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement

MANY = settings(max_examples=share_of(400), deadline=None)
WORDS = st.sampled_from(["ann", "bob", "chemistry", "x*", "", "10", "9", "1.5", "-3"])
NAMES = st.sampled_from(["User", "Project", "Priority", "Charge"])
OPS = ("EQ", "NE", "GT", "LT", "GE", "LE")
PLAIN = st.dictionaries(NAMES, WORDS.filter(bool), max_size=4)
SEVERAL = st.lists(PLAIN, max_size=8)


def tree(fields: dict[str, str]) -> XmlElement:
    return XmlElement("Job", {}, [leaf(name, value) for name, value in fields.items()])


def trees(jobs: list[dict[str, str]]) -> list[XmlElement]:
    return [tree({"Id": str(number), **fields}) for number, fields in enumerate(jobs)]


def ids(found: list[XmlElement]) -> list[int]:
    return [int(text_of(one, "Id")) for one in found]


def query(jobs: list[XmlElement], **fields: Any) -> list[XmlElement]:
    return answer_query(RmapRequest(action="Query", actor="ann", objects=("Job",), **fields), jobs)


def number(text: str) -> float | None:
    return float(text) if text and text.lstrip("+-").replace(".", "", 1).isdigit() else None


def plainly(found: str | None, op: str, wanted: str) -> bool:
    """Compare as the page says: numbers as numbers, else words; nothing fulfils no comparison."""
    if found is None:
        return False
    if op == "Match":
        return fnmatchcase(found, wanted.translate(str.maketrans({"[": "[[]", "%": "*", "_": "?"})))
    pair: tuple[Any, Any] = (number(found), number(wanted))
    left, right = pair if None not in pair else (found, wanted)
    truths = {"EQ": left == right, "NE": left != right, "GT": left > right, "LT": left < right}
    return {**truths, "GE": left >= right, "LE": left <= right}[op]


@st.composite
def conditions(draw: st.DrawFn) -> list[RmapField]:
    """Draw conditions whose brackets match."""
    wheres: list[RmapField] = []
    open_brackets = 0
    count = draw(st.integers(1, 6))
    for place in range(count):
        left = count - 1 - place
        change = draw(st.integers(-open_brackets, 2 if left else 0))
        if not left:
            change = -open_brackets
        open_brackets += change
        wheres.append(
            RmapField(
                name=draw(NAMES),
                value=draw(WORDS),
                op=draw(st.sampled_from(("", "EQ", "ne", *OPS, "Match"))),
                conj=draw(st.sampled_from(("", "And", "Or", "AndNot", "OrNot", "or"))),
                group=change,
            )
        )
    return wheres


def as_python(wheres: list[RmapField]) -> str:
    """Return conditions as an expression of Python, whose operators bind as those of SQL."""
    words = []
    for place, where in enumerate(wheres):
        conj = where.conj.lower() or "and"
        words += [conj.removesuffix("not")] if place else []
        words += ["("] * max(0, where.group)
        words += ["not"] if conj.endswith("not") else []
        words += [f"holds({place})"] + [")"] * max(0, -where.group)
    return " ".join(words)


@MANY
@given(SEVERAL, conditions())
def test_where_finds_what_a_plain_filter_finds(jobs: list[dict[str, str]], wheres: list[RmapField]) -> None:
    expression = as_python(wheres)

    def fulfils(job: dict[str, str]) -> bool:
        def holds(place: int) -> bool:
            where = wheres[place]
            op = {"": "EQ", "ne": "NE"}.get(where.op, where.op)
            return plainly(job.get(where.name), op, where.value)

        return bool(eval(expression, {"holds": holds}))

    wanted = [place for place, job in enumerate(jobs) if fulfils(job)]
    assert ids(query(trees(jobs), wheres=tuple(wheres))) == wanted


@MANY
@given(SEVERAL, st.lists(NAMES, min_size=1, max_size=3, unique=True))
def test_get_shows_the_properties_in_the_order_that_was_asked(
    jobs: list[dict[str, str]], names: list[str]
) -> None:
    gets = tuple(RmapField(name=name) for name in names)
    found = [
        [(one.name, one.text) for one in row.children if isinstance(one, XmlElement)]
        for row in query(trees(jobs), gets=gets)
    ]
    assert found == [[(name, job.get(name, "")) for name in names] for job in jobs]


@MANY
@given(SEVERAL, st.booleans())
def test_sort_orders_numbers_before_words_before_nothing(jobs: list[dict[str, str]], down: bool) -> None:
    gets = (RmapField(name="Id"), RmapField(name="Charge", op="Tros" if down else "Sort"))

    def rank(place: int) -> tuple[int, Any]:
        text = jobs[place].get("Charge")
        known = number(text) if text is not None else None
        return (2, 0) if text is None else ((1, text) if known is None else (0, known))

    assert ids(query(trees(jobs), gets=gets)) == sorted(range(len(jobs)), key=rank, reverse=down)


@MANY
@given(st.lists(st.tuples(st.sampled_from(["ann", "bob"]), st.integers(-5, 5)), max_size=10))
def test_sums_of_groups_are_those_of_the_values(pairs: list[tuple[str, int]]) -> None:
    jobs = trees([{"User": user, "Charge": str(charge)} for user, charge in pairs])
    gets = (
        RmapField(name="User", op="GroupBy"),
        *(RmapField(name="Charge", op=op, alias=op) for op in ("Sum", "Count", "Max", "Min", "Average")),
    )
    found = {
        text_of(row, "User"): tuple(text_of(row, op) for op in ("Sum", "Count", "Max", "Min"))
        for row in query(jobs, gets=gets)
    }
    values = {user: [charge for owner, charge in pairs if owner == user] for user, _ in pairs}
    assert found == {
        user: tuple(map(str, (sum(some), len(some), max(some), min(some)))) for user, some in values.items()
    }


STATES = ("Configuring", "Queued", "Running", "Suspended", "Finished", "Failed", "Canceled")
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(1, 999),
        "owner": st.sampled_from(["ann", "bob"]),
        "name": st.sampled_from(["", "night run"]),
        "project": st.sampled_from(["", "chemistry"]),
        "group": st.sampled_from(["", "g"]),
        "state": st.sampled_from(STATES),
        "held": st.booleans(),
        "priority": st.integers(0, 4000),
        "minimum": st.integers(1, 4),
        "maximum": st.integers(4, 8),
        "unit": st.sampled_from(["Processor", "Node"]),
        "run_time": st.one_of(st.none(), st.integers(60, 9999).map(float)),
        "submitted": st.none(),
        "started": st.one_of(st.none(), st.just(1_051_557_713.0)),
        "ended": st.none(),
        "allocated": st.integers(0, 8),
        "nodes": st.sampled_from(["", "n[1-3]", "n7"]),
        "message": st.just(""),
        "pending_reason": st.just(""),
    }
)


@MANY
@given(st.lists(ROWS, max_size=8), st.sampled_from([*PeerNames]), st.integers(0, 4000), st.data())
def test_jobs_of_the_head_are_found_in_the_names_of_every_version(
    rows: list[dict[str, Any]], names: PeerNames, priority: int, data: st.DataObject
) -> None:
    jobs = [job_object(row, "c", names) for row in rows]
    owner, state, least = (
        data.draw(st.sampled_from(one))
        for one in (
            ("User", "UserId", "userName"),
            ("State", "JobState", "jobState"),
            ("Duration", "WallDuration", "wallclockLimit"),
        )
    )
    wheres = (
        RmapField(name=owner, value="ann"),
        RmapField(name="Priority", value=str(priority), op="LE"),
        RmapField(name=state, value="RUNNING", conj="And", group=1),
        RmapField(name=least, value="600", op="GE", conj="Or", group=-1),
    )
    fulfils = condition_of(wheres, respelling("Job", names))
    assert [fulfils(one) for one in jobs] == [
        row["owner"] == "ann"
        and row["priority"] <= priority
        and (row["state"] == "Running" or (row["run_time"] or 0) >= 600)
        for row in rows
    ]


# ---------------------------------------------------------------- paths

NODE = parsed(
    "<Node><NodeId>n1</NodeId><Configured><Memory units='GB'>2</Memory><Swap>7</Swap></Configured>"
    "<Available><Memory>512</Memory></Available>"
    "<Resource name='gpu'>4</Resource><Resource name='fpga'>1</Resource>"
    "<TaskGroup><Name>a</Name><Count>1</Count></TaskGroup><TaskGroup><Name>b</Name><Count>2</Count></TaskGroup></Node>"
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("NodeId", ["n1"]),
        ("Configured/Memory", ["2"]),
        ("/Node/Configured/Memory", ["2"]),
        ("/Job/Configured/Memory", []),
        ("Memory", ["2", "512"]),
        ("*/Memory", ["2", "512"]),
        ("Configured/*", ["2", "7"]),
        ("Configured/Memory/@units", ["GB"]),
        ("Resource[@name='gpu']", ["4"]),
        ("Resource[2]", ["1"]),
        ("Resource[2][@name='gpu']", []),
        ("TaskGroup[Name='b']/Count", ["2"]),
        ('TaskGroup[Name="b"]/Count', ["2"]),
        ("Nothing", []),
    ],
)
def test_a_path_leads_to(path: str, values: list[str]) -> None:
    assert [match.text for match in find(NODE, read_path(path))] == values


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "A//B",
        "A/",
        "A[0]",
        "A[x]",
        "A[",
        "A]",
        "@a/B",
        "A[@a=b]",
        "a b",
        "A/" * 17 + "B",
        "A[B='" + "x" * 200 + "']" + "[1]" * 700,
    ],
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(MessageFault) as refused:
        read_path(path)
    assert refused.value.status is StatusCode.WRONG_ATTRIBUTE


def test_an_answer_has_the_tags_around_what_was_asked_once() -> None:
    paths = ("NodeId", "Configured/Memory", "Configured/Swap", "Available/Memory")
    found = picked(NODE, [(find(NODE, read_path(path)), "") for path in paths])
    assert canonical(found) == (
        '<Node><NodeId>n1</NodeId><Configured><Memory units="GB">2</Memory><Swap>7</Swap></Configured>'
        "<Available><Memory>512</Memory></Available></Node>"
    )


def test_no_pattern_takes_long() -> None:
    text = "a" * 4096
    begun = time.process_time()
    assert not compares(text, "Match", "*a" * 500 + "b")
    assert not compares(text, "Match", "*a?" * 300 + "*b")
    assert compares(text, "Match", "*a" * 500 + "*")
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("pattern", ["*sl??p", "%sl__p", "/bin/%", "_bin*"])
def test_a_pattern_has_the_wildcards_of_goldsh_or_those_of_glsjob(pattern: str) -> None:
    """`glsjob -J` sends % and _ for * and ?; Gold's server takes all four.  Seen at its own client."""
    assert compares("/bin/sleep", "Match", pattern)
    assert not compares("/usr/bin/sleeps", "Match", pattern)


def test_units_of_memory_are_compared() -> None:
    assert compares("2", "EQ", "2048", ("GB", ""))
    assert compares("2048", "GE", "2", ("", "GB"))
    assert not compares("2047", "GE", "2", ("", "GB"))


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"wheres": (RmapField(name="User", op="LIKE"),)}, StatusCode.OPERATOR),
        ({"wheres": (RmapField(name="User", conj="Xor"),)}, StatusCode.OPERATOR),
        ({"wheres": (RmapField(name="User", group=1),)}, StatusCode.COMBINATION),
        ({"wheres": (RmapField(name="User", group=-1),)}, StatusCode.COMBINATION),
        ({"wheres": (RmapField(name="User", group=999_999_999),)}, StatusCode.COMBINATION),
        ({"gets": (RmapField(name="User", op="Median"),)}, StatusCode.OPERATOR),
        ({"gets": (RmapField(name="User"), RmapField(name="Charge", op="Sum"))}, StatusCode.COMBINATION),
        ({"options": (RmapField(name="Limit", value="many"),)}, StatusCode.WRONG_VALUE),
        ({"wheres": (RmapField(name="User"),) * 201}, StatusCode.TOO_LARGE),
        ({"wheres": (RmapField(name="User", op="Match", value="a" * 1025),)}, StatusCode.WRONG_VALUE),
        ({"objects": ("Job", "Node", "User", "Queue", "Project")}, StatusCode.TOO_LARGE),
    ],
)
def test_a_wrong_query_is_refused_with_its_code(fields: dict[str, Any], status: StatusCode) -> None:
    request = RmapRequest(**{"action": "Query", "actor": "ann", "objects": ("Job",), **fields})
    with pytest.raises(MessageFault) as refused:
        answer_query(request, [tree({"User": "ann", "Charge": "1"})])
    assert refused.value.status is status


def test_limit_offset_count_and_unique() -> None:
    jobs = trees([{"User": "ann"}, {"User": "bob"}, {"User": "ann"}])
    gets = (RmapField(name="User"),)
    options = {name: RmapField(name=name, value="1") for name in ("Limit", "Offset", "Unique")}
    assert ids(query(jobs, options=(options["Limit"],))) == [0]
    assert ids(query(jobs, options=(options["Limit"], options["Offset"]))) == [1]
    assert ids(query(jobs, count=2)) == [0, 1]
    assert len(query(jobs, gets=gets, options=(options["Unique"],))) == 2
