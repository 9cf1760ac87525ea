"""Print the other supported Pythons of this machine, one path on a line: for `make test-pythons`.

They are looked for on PATH and beside the Python that runs this, as version managers keep them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = ((3, 11), (3, 12), (3, 13))


def candidates(version: str) -> Iterator[Path]:
    """Yield the places where a Python of a version may be."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder) / f"python{version}"
    yield from sorted(Path(sys.base_prefix).parent.glob(f"{version}*/bin/python{version}"))


def works(python: Path, version: str) -> bool:
    """Return whether this is a Python of the version with the venv module."""
    program = "import ensurepip, venv, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == version


def main() -> None:
    """Print them; name those that are not here on standard error."""
    for major, minor in SUPPORTED:
        version = f"{major}.{minor}"
        if (major, minor) == sys.version_info[:2]:
            continue
        found = next((each for each in candidates(version) if works(each, version)), None)
        if found is None:
            print(f"Python {version} is not on this machine: not tried", file=sys.stderr)
        else:
            print(found)


if __name__ == "__main__":
    main()
