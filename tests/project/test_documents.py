"""The documents match the code: links lead somewhere, and the commands they show exist."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_every_make_target_that_is_shown_exists(document: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    shown = [line.split()[1] for line in shown_lines(document) if re.match(r"make [a-z]", line)]
    assert [target for target in shown if target not in targets] == []


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
