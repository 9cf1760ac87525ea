"""The glossary for developers: every public class of the core, the engine and the wire, with its first sentence."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "headnode"
FOLDERS = ("core/model", "core/state", "core/scheduling", "core/filtering", "core/launching", "engine", "adapters/wire")
HEAD = """# Glossary of the code

Each name stands for one thing. This page is printed from the docstrings of the public classes; `make bless` prints it
again. The words for users are in [Words](../words.md), the parts and their order in
[ARCHITECTURE](../../ARCHITECTURE.md).
"""


def glossary_page() -> str:
    """Return the page: a table of classes for each folder, in the order of their names."""
    parts = [HEAD]
    for folder in FOLDERS:
        rows = sorted(classes_below(SOURCE / folder))
        parts.append(f"\n## {folder}\n\n| class | what it is | file |\n|---|---|---|\n")
        parts += [f"| `{name}` | {sentence} | `{file}` |\n" for name, sentence, file in rows]
    return "".join(parts)


def classes_below(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, first sentence and file of the public classes below a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                text = ast.get_docstring(node) or ""
                first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
                yield node.name, first, str(path.relative_to(SOURCE))
