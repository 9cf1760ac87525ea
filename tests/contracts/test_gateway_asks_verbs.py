"""What the gateway asks of the head by name is a verb, with fields that the verb has."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headnode.apps import web
from headnode.apps.server.api.pipeline import IDEMPOTENCY_FIELD, VERBS

WEB = Path(web.__file__).parent


def asked(source: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the verbs that a module asks by name, with the fields that it names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("ask", "ask_plain"):
            named = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if named:
                yield str(named[0]), {each.arg for each in node.keywords if each.arg}


def test_the_gateway_asks_verbs_of_today_with_fields_that_they_have() -> None:
    found, wrong = 0, []
    for path in sorted(WEB.rglob("*.py")):
        for verb, fields in asked(path.read_text()):
            found += 1
            known = VERBS.get(verb)
            taken = {each.encode_name for each in msgspec.structs.fields(known.request)} if known else set()
            if known is not None and known.again is not None:
                taken.add(IDEMPOTENCY_FIELD)
            if known is None or not fields <= taken:
                wrong.append((path.name, verb, sorted(fields - taken)))
    assert found >= 20
    assert wrong == []
