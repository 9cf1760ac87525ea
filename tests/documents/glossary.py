"""The glossary for developers: public classes of core, engine and wire, with their first sentences."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headnode"
PLACES = (
    "core/model",
    "core/state",
    "core/scheduling",
    "core/filtering.py",
    "core/launching",
    "engine",
    "adapters/wire",
)
HEAD = """# Glossary of the code

Each name stands for one thing. This page is printed from the docstrings of the public classes; `make bless`
prints it again. The words for users are in [Words](../words.md), the parts and their order in
[ARCHITECTURE](../../ARCHITECTURE.md).
"""


def glossary_page() -> str:
    """Return the page: a table of classes for each folder, in the order of their names."""
    parts = [HEAD]
    for place in PLACES:
        rows = sorted(classes_below(SOURCE / place))
        parts.append(f"\n## {place}\n\n| class | what it is | file |\n|---|---|---|\n")
        parts += [f"| `{name}` | {sentence} | `{file}` |\n" for name, sentence, file in rows]
    return "".join(parts)


def classes_below(place: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, first sentence and file of the public classes of a file, or of all files below a folder.

    Raises:  FileNotFoundError.
    """
    if not place.exists():
        raise FileNotFoundError(place)
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                text = ast.get_docstring(node) or ""
                first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
                yield node.name, first, str(path.relative_to(SOURCE))
