"""The page of the local protocol is printed from the verbs: `make bless` prints it anew."""

import os
from pathlib import Path

import msgspec

from documents.protocol_tables import creating_questions, with_printed_parts
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind

PAGE = Path(__file__).parents[2] / "docs" / "contracts" / "01-local-protocol.md"
CREATING = Path(__file__).parents[2] / "src" / "headnode" / "apps" / "client" / "creating_questions.py"


def test_verbs_and_objects_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    printed = with_printed_parts(page)
    if os.environ.get("HEADNODE_BLESS"):
        PAGE.write_text(printed)
    else:
        assert page == printed


def test_clients_know_which_verbs_take_a_key() -> None:
    if os.environ.get("HEADNODE_BLESS"):
        CREATING.write_text(creating_questions())
    else:
        assert CREATING.read_text() == creating_questions()


def test_a_schema_of_every_request_and_answer_can_be_printed() -> None:
    verbs = [verb for verb in VERBS.values() if verb.kind is VerbKind.ANSWER]
    types = [each for verb in verbs for each in (verb.request, verb.answer)]
    _, schemas = msgspec.json.schema_components(types)
    for each in types:
        schema = schemas[each.__name__]
        assert set(schema["properties"]) == {field.encode_name for field in msgspec.structs.fields(each)}
