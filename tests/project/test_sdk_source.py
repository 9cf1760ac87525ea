"""The printed parts of the SDK are those of the verbs, of the options and of its asynchronous face."""

import asyncio
import inspect
import os

import pytest
from sdk_source import printed_files, synchronous

from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind
from headnode.sdk import AsyncHeadnodeClient, AsyncJobHandle, HeadnodeClient, JobHandle
from headnode.sdk.asynchronous.session import AsyncVerbs
from headnode.sdk.synchronous.session import Verbs


def test_the_sdk_is_printed_anew_with_every_verb_and_option() -> None:
    for path, text in printed_files().items():
        if os.environ.get("HEADNODE_BLESS"):
            path.write_text(text)
        else:
            assert path.read_text() == text, f"{path.name} is not as printed: make bless"


@pytest.mark.parametrize("verbs", [Verbs, AsyncVerbs])
def test_every_verb_without_a_conversation_has_a_method(verbs: type) -> None:
    wanted = {name for name, verb in VERBS.items() if verb.kind is not VerbKind.STREAM}
    assert wanted == {name for name in dir(verbs) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "other"), [(HeadnodeClient, AsyncHeadnodeClient), (JobHandle, AsyncJobHandle)]
)
def test_both_faces_have_the_same_methods(blocking: type, other: type) -> None:
    def methods(face: type) -> dict[str, list[str]]:
        found = inspect.getmembers(face, inspect.isfunction)
        return {
            name: list(inspect.signature(each).parameters) for name, each in found if not name.startswith("_")
        }

    assert methods(blocking) == methods(other)
    assert not any(asyncio.iscoroutinefunction(getattr(blocking, name)) for name in methods(blocking))


def test_no_word_of_asynchronous_code_is_left() -> None:
    text = "async def f() -> AsyncGenerator[int, None]:\n    async with aclosing(g) as h: await h.aclose()"
    printed = synchronous(text)
    assert printed == "def f() -> Generator[int, None, None]:\n    with closing(g) as h: h.close()"


@pytest.mark.parametrize("face", [Verbs, AsyncVerbs])
def test_a_method_of_a_verb_has_the_signature_and_the_text_that_its_declaration_has(face: type) -> None:
    method = face(None).cancel_job
    assert list(inspect.signature(method).parameters) == ["job", "message", "force", "graceful"]
    assert (inspect.getdoc(method) or "").startswith("Cancel a job")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"job": 1, "days": 2}, {"job": 1, "idempotency": "k"}],
    ids=["a field is missing", "no such field", "a key where nothing is created"],
)
def test_a_method_of_a_verb_refuses_what_its_request_has_not(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Verbs(None).cancel_job(**wrong)
    with pytest.raises(TypeError, match="1 positional"):
        Verbs(None).cancel_job(1, 2)
