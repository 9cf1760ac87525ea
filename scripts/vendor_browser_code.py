"""Fetch the browser code of the console from npm, by version and hash: ``scripts/vendor_browser_code.py``.

Each package is packed by npm, compared with its hash below, and its named files are copied with the licence
into `static/vendor/NAME-VERSION/`.  The copies are in the repository, so that nobody else needs npm.
To change a version: change the row, run this, commit both.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).parents[1] / "src/headnode/apps/web/console/static/vendor"


class BrowserPackage(NamedTuple):
    """A package of npm: its version, its hash as npm gives it (`dist.integrity`), and the files to copy."""

    name: str
    version: str
    integrity: str
    files: tuple[str, ...]

    @property
    def directory(self) -> str:
        """The directory of its files."""
        return f"{self.name.rpartition('/')[2]}-{self.version}"


PACKAGES = (
    BrowserPackage(
        "htmx.org",
        "2.0.11",
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        ("dist/htmx.min.js", "LICENSE"),
    ),
    BrowserPackage(
        "idiomorph",
        "0.8.0",
        "sha512-R47JBL+6jHDQvcnbppIUtXXcxi5h6+wuCEEZXnRhUltsgzPFKzThL5PuHppP9ypJuy+7WawcY1TsSBD/iQbMhw==",
        ("dist/idiomorph.min.js", "LICENSE"),
    ),
    BrowserPackage(
        "uplot",
        "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"),
    ),
    BrowserPackage(
        "@xterm/xterm",
        "6.0.0",
        "sha512-TQwDdQGtwwDt+2cgKDLn0IRaSxYu1tSUjgKarSDkUM0ZNiSRXFpjxEsvc/Zgc5kq5omJ+V0a8/kIM2WD3sMOYg==",
        ("lib/xterm.mjs", "css/xterm.css", "LICENSE"),
    ),
    BrowserPackage(
        "@xterm/addon-fit",
        "0.11.0",
        "sha512-jYcgT6xtVYhnhgxh3QgYDnnNMYTcf8ElbxxFzX0IZo+vabQqSPAjC3c1wJrKB5E19VwQei89QCiZZP86DCPF7g==",
        ("lib/addon-fit.mjs", "LICENSE"),
    ),
)
AXE = BrowserPackage(  # for the tests only: it is not copied into the repository
    "axe-core",
    "4.14.1",
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    ("axe.min.js", "LICENSE"),
)


def fetch(package: BrowserPackage, into: Path) -> list[Path]:
    """Copy the files of a package into a directory of its name and version; return them.

    Raises:  SystemExit when npm gives other bytes than the hash says; CalledProcessError; FileNotFoundError
    when there is no npm.
    """
    with tempfile.TemporaryDirectory() as scratch:
        what = f"{package.name}@{package.version}"
        subprocess.run(["npm", "pack", "--silent", what], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tgz")
        found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != package.integrity:
            raise SystemExit(f"{what} has the hash {found}, and {package.integrity} is expected")
        return _extract(archive, package, into / package.directory)


def _extract(archive: Path, package: BrowserPackage, into: Path) -> list[Path]:
    into.mkdir(parents=True, exist_ok=True)
    copied = []
    with tarfile.open(archive) as packed:
        for name in package.files:
            content = packed.extractfile(f"package/{name}")
            if content is None:
                raise SystemExit(f"{package.name} has no file {name!r}")
            target = into / Path(name).name
            target.write_bytes(content.read())
            copied.append(target)
    return copied


def main() -> int:
    """Fetch all packages of the console."""
    for package in PACKAGES:
        for file in fetch(package, VENDOR):
            print(file.relative_to(VENDOR), file.stat().st_size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
