"""What the page for authors of policies says is true: its code runs, its tables are complete."""

import re
from pathlib import Path

import msgspec
import pytest

from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.view import View
from headnode.testing import OURS, SOUND, Promise
from headnode.testing.promises import FAIR

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()


def test_the_code_of_the_page_runs_and_prints_what_is_printed_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "policies.md", "exec"), names)
    found = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert capsys.readouterr().out == "".join(found)


def test_every_promise_is_in_the_table_in_the_words_of_the_code() -> None:
    rows = dict(re.findall(r"\| `([A-Z_]+)` \| ([^|]+?) \|", PAGE))
    assert {name: text.removesuffix(" (in small worlds)") for name, text in rows.items()} == {
        promise.name: promise.value for promise in Promise
    }


def test_the_table_says_of_whom_each_promise_is_asked() -> None:
    asked: dict[str, str] = {}
    whom = ""
    for first, name in re.findall(r"\| ([^|]*) \| `([A-Z_]+)` \| [^|]+ \|", PAGE):
        whom = first.strip() or whom
        asked[name] = whom
    for name, whom in asked.items():
        owes = {policy for policy, promises in OURS.items() if Promise[name] in promises}
        if "SOUND" in whom or "FAIR" in whom:
            assert (Promise[name] in SOUND) == ("SOUND" in whom)
            assert Promise[name] in FAIR
        if whom.startswith(("everybody", "all")):
            assert owes == set(OURS)
        elif name != "WHO_CAN_OVERTAKES":
            assert owes == set(re.findall(r"`([a-z-]+)`", whom)), name


@pytest.mark.parametrize("struct", [View, Plan])
def test_every_field_that_a_policy_sees_or_gives_is_named(struct: type[msgspec.Struct]) -> None:
    hidden = {"ground"}  # what the head has worked out; View.node_table uses it
    missing = [
        field for field in struct.__struct_fields__ if f"`{field}`" not in PAGE and field not in hidden
    ]
    assert not missing
