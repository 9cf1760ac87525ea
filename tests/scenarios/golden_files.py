"""Golden files: what a command prints, kept whole and compared whole.

`make bless` writes them anew; read the difference before you commit it.
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
BLESS = bool(os.environ.get("HEADNODE_BLESS"))


def compare(folder: str, found: Mapping[str, str], *, layout: bool = True) -> None:
    """Hold texts by name to the files of a folder of golden files: the same names, the same texts.

    Without `layout`, runs of blanks and rules are alike.  Raises:  AssertionError with all differences.
    """
    place = GOLDEN / folder
    if BLESS:
        _write(place, found)
    kept = {str(file.relative_to(place)): file.read_text() for file in place.rglob("*") if file.is_file()}
    differences = [
        *(f"{folder}/{name} is no longer printed" for name in sorted(kept.keys() - found.keys())),
        *(f"{folder}/{name} is new" for name in sorted(found.keys() - kept.keys())),
    ]
    for name in sorted(kept.keys() & found.keys()):
        before, now = kept[name], found[name]
        if not layout:
            before, now = _without_layout(before), _without_layout(now)
        if before != now:
            lines = difflib.unified_diff(
                before.splitlines(), now.splitlines(), "kept", "printed", lineterm=""
            )
            differences.append(f"{folder}/{name}:\n" + "\n".join(lines))
    assert not differences, "\n".join(
        (*differences, "If this is meant: make bless, and read the difference.")
    )


def _write(place: Path, found: Mapping[str, str]) -> None:
    for file in place.rglob("*"):
        if file.is_file() and str(file.relative_to(place)) not in found:
            file.unlink()
    for name, text in found.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def _without_layout(text: str) -> str:
    return re.sub(r"[ ─-]{2,}", "  ", text)
