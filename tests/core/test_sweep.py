"""The asterisks and values of a parametric sweep, to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.task import TaskSpec, TaskType, substitute


@pytest.mark.parametrize(
    ("text", "swept"),
    [
        ("*", "7"),
        ("****", "0007"),
        ("^*", "*"),
        ("^^", "^"),
        ("^^*", "^7"),
        ("^^^*", "^*"),
        ("^x", "^x"),
        ("trailing ^", "trailing ^"),
        ("a**b*", "a07b7"),
        ("***^***", "007*07"),
        ("^%CCP_JOBID^%", "^%CCP_JOBID^%"),
        ("nothing", "nothing"),
        ("", ""),
    ],
)
def test_asterisks_become_the_value_and_a_caret_takes_their_meaning(text: str, swept: str) -> None:
    assert substitute(text, 7) == swept


@pytest.mark.parametrize(("value", "swept"), [(12345, "12345"), (-7, "-07"), (0, "000")])
def test_a_value_is_padded_but_never_cut(value: int, swept: str) -> None:
    assert substitute("***", value) == swept


def by_machine(text: str, value: int) -> str:
    """Substitute one character at a time."""
    out, at = [], 0
    while at < len(text):
        if text[at] == "^" and text[at + 1 : at + 2] in ("*", "^") and text[at + 1 : at + 2]:
            out.append(text[at + 1])
            at += 2
        elif text[at] == "*":
            run = len(text[at:]) - len(text[at:].lstrip("*"))
            out.append(str(value).zfill(run))
            at += run
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


@given(st.text("*^a", max_size=12), st.integers(-99, 99999))
def test_every_mixture_is_as_the_state_machine_has_it(text: str, value: int) -> None:
    assert substitute(text, value) == by_machine(text, value)


@pytest.mark.parametrize(
    ("start", "end", "increment", "values"),
    [
        (1, 10, 3, [1, 4, 7, 10]),
        (1, 9, 3, [1, 4, 7]),
        (-5, -1, 2, [-5, -3, -1]),
        (4, 4, 100, [4]),
        (5, 4, 1, []),
        (1, 5, 0, []),
        (1, 5, -1, []),
    ],
)
def test_the_instances_of_a_sweep_are_its_values_in_order(
    start: int, end: int, increment: int, values: list[int]
) -> None:
    sweep = TaskSpec(kind=TaskType.SWEEP, start=start, end=end, increment=increment)
    assert [sweep.value(instance) for instance in range(1, sweep.instances + 1)] == values


@pytest.mark.parametrize("kind", [kind for kind in TaskType if kind is not TaskType.SWEEP])
def test_a_basic_task_has_one_instance_and_those_of_special_tasks_are_made_later(kind: TaskType) -> None:
    assert TaskSpec(kind=kind, start=1, end=100).instances == int(kind is TaskType.BASIC)
