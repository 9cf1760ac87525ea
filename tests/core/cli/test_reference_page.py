"""What is told of the command line is what there is."""

import pytest

from headnode.apps.cli.catalogue import MODULES, every_command, find_command
from headnode.apps.cli.commands.help import help_on
from headnode.apps.cli.options import read_arguments

PROMISED = {
    "job": "new add submit modify cancel finish requeue clone list listtasks view explain export wait",
    "task": "view cancel requeue output",
    "node": "list view approve pause resume",
    "cluster": "view params",
    "": "up down check version",
}


def test_every_promised_verb_is_there() -> None:
    for noun, verbs in PROMISED.items():
        assert set(verbs.split()) <= set(MODULES[noun])


@pytest.mark.parametrize(("noun", "verb"), [(noun, command.verb) for noun, command in every_command()])
def test_a_command_has_help_and_an_example_that_its_own_parser_takes(noun: str, verb: str) -> None:
    command = find_command(noun, verb)
    shown = help_on([word for word in (noun, verb) if word])
    assert command.example in shown
    start = f"hn {noun} {verb}".replace("  ", " ")
    assert start in command.example
    words = command.example.partition(start)[2].split()
    asked = read_arguments(words, command.options, command.positionals)
    assert set(asked.options) <= {option.name for option in command.options}


@pytest.mark.parametrize(
    "words", [[], ["job"], *([n, c.verb] if n else [c.verb] for n, c in every_command())]
)
def test_help_keeps_to_a_narrow_terminal_but_for_what_is_typed(words: list[str]) -> None:
    found = [line for line in help_on(words, 80).splitlines() if not line.startswith(("Usage:", "Example:"))]
    assert max(map(len, found)) <= 80
    assert " ".join(help_on(words, 80).split()) == " ".join(help_on(words).split())


def test_no_command_has_one_spelling_for_two_options_that_stand_apart() -> None:
    for _, command in every_command():
        names = [option.name for option in command.options]
        assert len(names) == len(set(names)), command.verb
