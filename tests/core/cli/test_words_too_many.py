"""A command that takes no words refuses them, before it asks or ends a head."""

import pytest

from headnode.apps.cli.__main__ import obey
from headnode.apps.cli.catalogue import every_command
from headnode.core.model.errors import BadRequest, HeadnodeError

WORDLESS = [(noun, command.verb) for noun, command in every_command() if not command.words]


def test_some_commands_take_no_words() -> None:
    assert {("", "down"), ("node", "list"), ("cluster", "view")} <= set(WORDLESS)


@pytest.mark.parametrize(("noun", "verb"), WORDLESS)
def test_a_command_without_words_refuses_a_word_and_does_nothing(noun: str, verb: str) -> None:
    with pytest.raises(BadRequest) as refused:
        obey([*filter(None, (noun, verb)), "node03"])
    assert refused.value.code == "usage"
    assert refused.value.what == "'node03' is not understood"
    assert refused.value.fix


def test_hn_down_with_a_word_says_what_closes_a_node_and_cancels_a_job() -> None:
    with pytest.raises(BadRequest, match="hn node drain NODE; to cancel a job: hn job cancel ID"):
        obey(["down", "node03"])


def test_the_head_may_be_named_before_the_command() -> None:
    for words in (["--scheduler", "nowhere.example"], ["--scheduler=nowhere.example"]):
        with pytest.raises(HeadnodeError, match=r"nowhere\.example"):
            obey([*words, "job", "list"])
