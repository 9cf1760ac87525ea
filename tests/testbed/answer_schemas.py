"""Answers of heads, held to the types that their verbs declare."""

from typing import Any, get_args

import msgspec

from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind


def check_schema(verb: str, answer: dict[str, Any]) -> None:
    """Hold an answer to the type that its verb declares: exactly these keys, values of these types.

    Raises:  msgspec.ValidationError, AssertionError.
    """
    declared = VERBS.get(verb)
    if declared is None or declared.kind is VerbKind.STREAM or not answer.get("ok", True):
        return
    answer_type = get_args(declared.answer)[0] if declared.kind is VerbKind.UPDATES else declared.answer
    found = {name: value for name, value in answer.items() if name != "ok"}
    read = msgspec.json.decode(msgspec.json.encode(msgspec.convert(found, answer_type)))
    assert read == found, f"{verb}: {sorted(name for name in found if found[name] != read.get(name))}"
