"""ClassAd expressions are worth what HTCondor says they are."""

import pytest

from headnode.core.formats.condor.evaluation import (
    ErrorValue,
    NoSuchFunction,
    Value,
    calculated,
    evaluate,
    quoted,
    unknown_function,
)
from headnode.core.formats.condor.expressions import NoExpression, parse

AD: dict[str, Value] = {"ClusterId": 12, "ProcId": 0, "JobStatus": 2, "Owner": "Ann", "x": 2.5, "t": True}
WORTH = {
    "ClusterId == 12 && ProcId < 1": "true",
    'Owner == "ann"': "true",
    'Owner =?= "ann"': "false",
    "JobStatus =!= undefined": "true",
    "nope == 1": "undefined",
    "nope =?= undefined": "true",
    "nope || true": "true",
    "nope && false": "false",
    "true && nope": "undefined",
    "!nope": "undefined",
    "!(JobStatus == 2)": "false",
    "-7/2": "-3",
    "7 % 4": "3",
    "2 + 3 * 4 - 1": "13",
    "x * 2": "5.0",
    "JobStatus / 0": "error",
    "floor(x)": "2",
    "ceiling(x)": "3",
    "round(x)": "2",
    "int(x)": "2",
    "real(JobStatus)": "2.0",
    'regexp("^a", Owner)': "false",
    'regexp("^a", Owner, "i")': "true",
    'regexp("(", Owner)': "error",
    'strcat(Owner, "-", JobStatus)': '"Ann-2"',
    'ifThenElse(JobStatus == 2, "r", "o")': '"r"',
    'ifThenElse(nope, "r", "o")': "undefined",
    "isUndefined(nope)": "true",
    "Owner == 3": "error",
    "Owner && true": "error",
    "true == 1": "true",
    "t + 1": "2",
    '"a" < "B"': "true",
    "-JobStatus": "-2",
    "toUpper(Owner)": '"ANN"',
    "size(Owner)": "3",
    "substr(Owner, 1)": '"nn"',
    "substr(Owner, -2, 1)": '"n"',
    "x > 1 && nope": "undefined",
    "JobStatus && t": "true",
    "JobStatus == 1 || JobStatus == 2": "true",
    'string("a")': '"a"',
}


def worth(text: str) -> str:
    attributes = {name.lower(): value for name, value in AD.items()}
    try:
        return quoted(evaluate(parse(text), attributes.get, 0.0))
    except ErrorValue:
        return "error"


@pytest.mark.parametrize("text", WORTH)
def test_an_expression_has_its_value(text: str) -> None:
    assert worth(text) == WORTH[text]


@pytest.mark.parametrize("text", WORTH)
def test_htcondor_itself_says_so(text: str) -> None:
    classad2 = pytest.importorskip("classad2", reason="not installed: pip install -e '.[integrations]'")
    found = classad2.ExprTree(text).eval(classad2.ClassAd(AD))
    special = {classad2.Value.Undefined: "undefined", classad2.Value.Error: "error"}
    shown = special[found] if isinstance(found, classad2.Value) else quoted(found)
    assert shown == WORTH[text]


@pytest.mark.parametrize("text", ["JobStatus ==", "(1", "1 2", "a ? b : c", "{1, 2}", "[a = 1]", '"open'])
def test_what_is_no_expression_here_is_refused(text: str) -> None:
    with pytest.raises(NoExpression):
        parse(text)


def test_functions_that_are_not_known_are_named() -> None:
    assert unknown_function(parse("JobStatus == 2 && splitTime(QDate) > 1")) == "splittime"
    assert unknown_function(parse('regexp("a", Owner) || time() > 1')) == ""
    with pytest.raises(NoSuchFunction, match="time"):
        worth("time(1)")


def test_a_number_is_calculated_from_attributes_within_bounds() -> None:
    attributes = {"size": "4 * unit", "unit": "1000", "a": "b", "b": "a", "word": '"x"'}
    assert calculated("floor(MY.Size / 3) + 1", attributes.get) == "1334"
    for text in ("a", "nope + 1", "word", "4 GB", "1/0", '"4"', "9" * 17 + " * " + "9" * 17 + " * 9"):
        assert calculated(text, attributes.get) in (text, str(int("9" * 17) ** 2 * 9)), text
