"""Manual pages are written from the catalogue, and a typesetter takes them."""

import shutil
import subprocess

import pytest

from headnode.apps.cli.catalogue import every_command
from headnode.apps.cli.commands.help import every_page, man_page
from headnode.core.model.errors import BadRequest

PAGES = dict(every_page())


def test_the_program_and_each_command_have_a_page() -> None:
    names = {"-".join(word for word in ("hn", noun, each.verb) if word) for noun, each in every_command()}
    assert set(PAGES) == {"hn.1", *(f"{name}.1" for name in names)}


def test_a_page_has_each_option_and_the_example() -> None:
    for noun, command in every_command():
        page = man_page([word for word in (noun, command.verb) if word]).replace("\\-", "-")
        assert all(f"--{option.name}" in page for option in command.options), command.verb
        assert command.example.replace("\\", "\\e") in page


def test_no_line_of_text_is_taken_for_a_command_of_the_typesetter() -> None:
    known = {"TH", "SH", "SS", "TP", "B", "I", "BR", "PP", "nf", "fi", "br", "nh", "ad"}
    for name, page in PAGES.items():
        for line in page.splitlines():
            assert not line.startswith("'"), name
            assert not line.startswith(".") or line[1:].split(" ")[0] in known, (name, line)


def test_a_typesetter_warns_of_nothing() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for name, page in PAGES.items():
        result = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page.encode(), capture_output=True, check=True
        )
        assert result.stderr == b"", name


def test_a_noun_has_no_page_and_says_how_to_name_one() -> None:
    with pytest.raises(BadRequest) as refused:
        man_page(["job"])
    assert refused.value.fix == "write: hn man job submit, for example"
    with pytest.raises(BadRequest) as refused:
        man_page(["xyzzy"])
    assert refused.value.fix == "see: hn --help"


def test_no_line_of_a_page_is_justified_and_no_option_has_a_heading_of_no_meaning() -> None:
    for name, page in PAGES.items():
        lines = page.splitlines()
        assert lines[1:3] == [".nh", ".ad l"], name
        assert ".SS Options" not in lines, name
