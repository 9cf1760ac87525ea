"""The documents match the code: links lead somewhere, and the commands they show exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from headnode.apps.cli.catalogue import NOUNS, find_command
from headnode.apps.cli.options import read_arguments
from headnode.core.model.errors import BadRequest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SEPARATORS = ("&&", "||", "|", ";", "&", "2>&1")
TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


def shown_lines(document: Path) -> Iterator[str]:
    """Yield the lines of the fenced blocks of a document that show what to type."""
    for language, block in FENCE.findall(document.read_text()):
        if language in ("", "sh", "console", "bash"):
            for line in block.splitlines():
                yield line.strip().removeprefix("$ ")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text()) if "://" not in link and link[0] != "#"]
    assert [link for link in links if not (document.parent / link.split("#")[0]).exists()] == []


def anchors(document: Path) -> set[str]:
    """Return the names by which links reach the headings of a document."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(document.read_text())
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_link_to_a_section_finds_its_heading(document: Path) -> None:
    links = [link.partition("#") for link in LINK.findall(document.read_text()) if "://" not in link]
    pages = [(document.parent / page if page else document, anchor) for page, _, anchor in links if anchor]
    assert [(str(page), anchor) for page, anchor in pages if anchor not in anchors(page)] == []


RIDDLES = re.compile(
    r"\bwhoever\b|\bkeeps? nobody\b|\bmake themselves\b|\bwould do with\b|\bit may use has\b", re.IGNORECASE
)
"""Sentences whose subject is a riddle: the job, the node or the command is the subject."""
HELP = sorted((ROOT / "tests" / "golden" / "help").iterdir())


@pytest.mark.parametrize("page", [*DOCUMENTS, *HELP], ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_and_help_name_the_thing_that_they_are_about(page: Path) -> None:
    assert RIDDLES.findall(page.read_text()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_make_target_that_is_shown_exists(document: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    shown = [line.split()[1] for line in shown_lines(document) if re.match(r"make [a-z]", line)]
    assert [target for target in shown if target not in targets] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_command_that_is_shown_is_understood(document: Path) -> None:
    for line in shown_lines(document):
        understand_all(line)


@pytest.mark.parametrize(
    "line", ["hn job sumbit x", "hn job submit /runtme:3 x", "cd x && hn jobs", "hn cluster"]
)
def test_a_command_that_does_not_exist_is_seen(line: str) -> None:
    with pytest.raises(BadRequest):
        understand_all(line)


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the arguments of every `hn` in a line of shell."""
    words = shlex.split(line, comments=True)
    for place, word in enumerate(words):
        if word == "hn" and (place == 0 or words[place - 1] in SEPARATORS):
            yield list(
                takewhile(lambda word: word not in SEPARATORS and word[0] not in "<>", words[place + 1 :])
            )


def understand_all(line: str) -> None:
    """Read every `hn` in a line of shell as `hn` does, without carrying it out.

    Raises:  BadRequest when there is no such command or option.
    """
    for words in commands_in(line):
        noun, rest = (words[0], words[1:]) if words[0] in NOUNS else ("", words)
        command = find_command(noun, rest[0] if rest else "")
        read_arguments(rest[1:], command.options, command.positionals)


def test_make_alone_lists_every_target() -> None:
    made = subprocess.run(
        ["make", "-C", ROOT, "--no-print-directory"], capture_output=True, text=True, check=True
    )
    for target in ("install", "demo", "test", "check", "bench"):
        assert f"make {target} " in made.stdout


def test_an_old_python_is_refused_with_the_way_out(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text(f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 9, 2)\nexec(sys.argv[2])\n")
    old.chmod(0o755)
    made = subprocess.run(
        ["make", "-C", ROOT, "install", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert "Headnode needs Python 3.11 or newer" in made.stderr
    assert "make PYTHON=" in made.stderr


def test_every_file_of_the_code_that_a_page_names_exists() -> None:
    folders = (ROOT / name for name in ("src", "tests", "benchmarks", "examples", "scripts", "fuzz"))
    existing = {file.name for folder in folders for file in folder.rglob("*.py")}
    named = {
        (page.name, path.rpartition("/")[2])
        for page in DOCUMENTS
        for path in re.findall(r"`([\w./-]+\.py)`", page.read_text())
    }
    assert len(named) > 50
    examples = {"NAME.py"}
    missing = {(page, name) for page, name in named if name not in existing | examples}
    assert not missing, f"no such files; write their names of today into the pages: {missing}"


def test_every_module_that_a_page_names_exists() -> None:
    source = ROOT / "src" / "headnode"
    named = {
        (page.name, path)
        for page in DOCUMENTS
        for path in re.findall(r"`((?:core|engine|protocol|adapters|apps)/[\w/]+)`", page.read_text())
    }
    assert len(named) > 20
    places = [(page, path, source / path) for page, path in named]
    assert [
        (page, path)
        for page, path, place in places
        if not (place.exists() or place.with_suffix(".py").exists())
    ] == []
