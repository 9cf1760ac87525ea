"""Entry points of installed packages are those that importlib finds; without any, it is not imported."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, EntryPoint, PathDistribution, entry_points
from pathlib import Path

import pytest

from headnode.adapters.installed_packages import offered

GROUP = "headnode.example"
TEXT = f"[{GROUP}]\nfirst = one:thing\n"


def directory(name: str) -> Callable[[Path], Path]:
    """Return what makes a place for Python to look into, with this directory of metadata in it."""

    def make(folder: Path) -> Path:
        (folder / name).mkdir(parents=True)
        (folder / name / "METADATA").write_text("Metadata-Version: 2.1\nName: one\nVersion: 1\n")
        (folder / name / "entry_points.txt").write_text(TEXT)
        return folder / name if name.endswith(".egg") else folder

    return make


def egg(folder: Path) -> Path:
    return directory("EGG-INFO")(folder / "one-1-py3.11.EGG")


def archive(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "one.zip", "w") as file:
        file.writestr("one-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1\n")
        file.writestr("one-1.dist-info/entry_points.txt", TEXT)
    return folder / "one.zip"


@pytest.mark.parametrize(
    "made",
    [directory("one-1.dist-info"), directory("one.egg-info"), directory("One-1.DIST-INFO"), egg, archive],
)
def test_packages_are_found_wherever_python_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Callable[[Path], Path]
) -> None:
    assert offered(GROUP) == ()
    monkeypatch.syspath_prepend(made(tmp_path))
    found = offered(GROUP)
    assert [(point.name, point.value) for point in found] == [("first", "one:thing")]
    assert found == tuple(entry_points(group=GROUP))


def test_the_working_directory_on_the_path_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory("one-1.dist-info")(tmp_path))
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert [point.name for point in offered(GROUP)] == ["first"]


def test_packages_that_a_finder_of_its_own_has_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory("one-1.dist-info")(tmp_path)

    class Finder:
        """An importer as those of applications in one file."""

        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, *_: object) -> list[Distribution]:
            return [PathDistribution(tmp_path / "one-1.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    (found,) = offered(GROUP)
    assert isinstance(found, EntryPoint)


def test_nothing_on_the_path_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.dist-info").write_text("not a directory")
    (tmp_path / "two.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "three.dist-info").mkdir()
    (tmp_path / "file").write_text("neither an archive")
    for place in (tmp_path, tmp_path / "gone", tmp_path / "file"):
        monkeypatch.syspath_prepend(place)
    assert offered(GROUP) == ()


def test_without_offers_importlib_is_not_imported() -> None:
    code = f"""
import sys
from headnode.adapters.installed_packages import offered
assert offered({GROUP!r}) == ()
sys.exit("importlib.metadata" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
