"""Every command that a message, a help text or a page tells people to type exists, with its options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.apps.cli.catalogue import MODULES, NOUNS, OLDER_WORDS, find_command
from headnode.apps.cli.options import read_arguments
from headnode.core.model.errors import BadRequest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
TYPED = re.compile(r"(?<![\w./-])hn ([a-z]+)(?: ([a-z]+))?((?: [^\n`\"';,()|&]*| '[^'\n]*')*)")
"""A command as it stands in a text: up to a quote, a bracket or the end of a clause."""
AFTER_HN = {"help", "headnode"}
NO_COMMANDS = re.compile(r"hn (on nodes|that|or of|does not|was not|found|is |has |knows |in |works )")


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a program that names `hn`; X stands for what is put into one."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if re.search(r"\bhn\b", source) else ():
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def wrong(text: str) -> Iterator[str]:
    """Yield the commands of a text that cannot be typed, with why."""
    for found in TYPED.finditer(text):
        if found[1] in AFTER_HN or NO_COMMANDS.match(found[0]):
            continue
        noun, verb = (found[1], found[2] or "") if found[1] in NOUNS else ("", found[1])
        noun, verb = OLDER_WORDS.get((noun, verb), (noun, verb))
        if noun and not verb:
            continue
        if verb not in MODULES[noun]:
            yield f"{found[0]!r}: there is no such command"
            continue
        command = find_command(noun, verb)
        rest = found[3] if noun else f"{found[2] or ''} {found[3]}"
        words = [word.rstrip(".:") for word in rest.split()]
        try:
            read_arguments(words, command.options, command.positionals)
        except BadRequest as refused:
            if "is unknown" in refused.what:
                yield f"{found[0]!r}: {refused.what}"


def test_this_test_finds_what_is_wrong() -> None:
    assert list(wrong("end it with: hn job cancle 12")) == ["'hn job cancle 12': there is no such command"]
    (found,) = wrong("choose another: hn agent --stat DIRECTORY")
    assert "option '--stat' is unknown" in found
    assert list(wrong("`hn job submit /numprocessors:2 ./solve --fast`, then `hn clusrun /all date`")) == []


@pytest.mark.parametrize("ring", ["core", "engine", "adapters", "apps"])
def test_every_command_in_a_message_can_be_typed(ring: str) -> None:
    programs = sorted((ROOT / "src" / "headnode" / ring).rglob("*.py"))
    assert [f"{path.name}: {what}" for path in programs for text in texts(path) for what in wrong(text)] == []


def test_every_command_on_a_page_can_be_typed() -> None:
    pages = [(path.name, line) for path in PAGES for line in path.read_text().splitlines()]
    assert [f"{name}: {what}" for name, line in pages for what in wrong(line)] == []
