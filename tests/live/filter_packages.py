"""Installed packages with plug-in filters, in a directory that a worker process finds."""

import os
from pathlib import Path

from headnode.adapters.own_python import SOURCE_ROOT


def package(folder: Path, name: str, text: str, what: str = "") -> dict[str, str]:
    """Write a package with one filter; return the environment in which it is installed."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[headnode.filters]\n{name} = {module}{what}\n")
    return dict(os.environ) | {"PYTHONPATH": f"{folder}:{SOURCE_ROOT}"}


def alive(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
